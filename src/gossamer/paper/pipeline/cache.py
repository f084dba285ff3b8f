"""Results on disk, one file per piece of work, found again only under exactly the same settings and code.

A `Piece` is a function and its settings, plain enough to be written down. Its key is a digest of both, of the
schema and of the source code that the numbers depend on; so a changed setting, or a changed method, can never
pick up an old result, and an interrupted run continues with the pieces that are missing.
"""

from __future__ import annotations

import csv
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gossamer
from gossamer.errors import OutputError

SCHEMA = 2
"""Raised whenever the meaning of the columns changes."""

TEXT = ("experiment", "graph", "method", "source", "quantity")
NUMBERS = ("agents", "spread", "draw", "seed", "trials", "rounds", "epsilon", "value", "low", "high")
COLUMNS = (*TEXT, *NUMBERS)

Row = dict[str, Any]
"""One number and everything it depends on; absent columns do not apply. low and high: a 95% interval."""


class Table:
    """Rows by column. `where` selects, `column` reads, `value` reads one number."""

    def __init__(self, rows: Iterable[Row]) -> None:
        listed = list(rows)
        self._columns: dict[str, NDArray[Any]] = {}
        for name in TEXT:
            self._columns[name] = np.array([row.get(name, "") for row in listed], dtype=object)
        for name in NUMBERS:
            self._columns[name] = np.array([row.get(name, np.nan) for row in listed], dtype=float)

    def __len__(self) -> int:
        return len(self._columns["value"])

    def where(self, **conditions: Any) -> Table:
        """The rows that have all these values (a tuple or list: any of its values)."""
        mask = np.ones(len(self), dtype=bool)
        for name, wanted in conditions.items():
            column = self._columns[name]
            mask &= np.isin(column, list(wanted)) if isinstance(wanted, (tuple, list)) else column == wanted
        chosen = Table(())
        chosen._columns = {name: column[mask] for name, column in self._columns.items()}
        return chosen

    def sort(self, *names: str) -> Table:
        """The rows in ascending order of these columns, the first being the most important."""
        order = np.lexsort([self._columns[name] for name in reversed(names)])
        ordered = Table(())
        ordered._columns = {name: column[order] for name, column in self._columns.items()}
        return ordered

    def column(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def distinct(self, name: str) -> list[Any]:
        """The values of a column, each once, in order of appearance."""
        return list(dict.fromkeys(self._columns[name].tolist()))

    def value(self, **conditions: Any) -> float:
        """The one number under these conditions."""
        found = self.where(**conditions)
        if len(found) != 1:
            raise LookupError(f"{len(found)} rows under {conditions}, where one was expected")
        return float(found.column("value")[0])

    def grid(self, rows: str, columns: str, **conditions: Any) -> NDArray[np.float64]:
        """The values under these conditions as a matrix over two ascending columns."""
        found = self.where(**conditions).sort(rows, columns)
        shape = (len(found.distinct(rows)), len(found.distinct(columns)))
        return np.asarray(found.column("value"), dtype=float).reshape(shape)

    def records(self) -> Iterator[list[Any]]:
        """Rows in the order of `COLUMNS`, with None where a column does not apply."""
        for values in zip(*(self._columns[name].tolist() for name in COLUMNS), strict=True):
            yield [None if v == "" or v != v else v for v in values]


@dataclass(frozen=True)
class Piece:
    """An independent piece of work: `work(**settings)` returns rows. `weight` guesses its seconds, for progress."""

    name: str
    work: Callable[..., list[Row]]
    settings: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0

    @property
    def kind(self) -> str:
        """What pieces of different graphs have in common."""
        return self.work.__name__.replace("_", " ")

    @property
    def identity(self) -> dict[str, Any]:
        """Everything the result depends on, in plain words and numbers."""
        identity = {
            "schema": SCHEMA,
            "version": gossamer.__version__,
            "code": _code(inspect.getfile(self.work)),
            "work": f"{self.work.__module__}.{self.work.__qualname__}",
            "settings": self.settings,
        }
        plain: dict[str, Any] = json.loads(json.dumps(identity))
        return plain

    @property
    def key(self) -> str:
        text = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _code(module: str) -> str:
    """A digest of the source that numbers depend on: networks, methods, engines, and the experiment itself."""
    root = Path(gossamer.__file__).parent
    rooms = ("networks", "numerics", "methods", "engines", "faults", "applications", "paper")
    files = [path for room in rooms for path in (root / room).rglob("*.py")]
    files += [root / name for name in ("observations.py", "theory.py")]
    digest = hashlib.sha256()
    for path in sorted({*files, Path(module)}):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Store:
    """The pieces on disk, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"results go to {folder}, but that folder cannot be made ({error.strerror}); choose another --out"
            ) from error

    def path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.name}-{piece.key}.json"

    def load(self, piece: Piece) -> tuple[list[Row], float] | None:
        """The rows of a piece and the seconds they took, or None unless this very piece was finished before."""
        try:
            found = json.loads(self.path(piece).read_text())
            if found["identity"] != piece.identity:
                return None
            rows = [
                {k: v for k, v in zip(COLUMNS, values, strict=True) if v is not None}
                for values in found["rows"]
            ]
            return rows, float(found["seconds"])
        except (OSError, ValueError, KeyError, TypeError):  # absent, or cut off by a crash: compute it again
            return None

    def save(self, piece: Piece, rows: Sequence[Row], seconds: float) -> None:
        """Write a finished piece; the file appears whole or not at all."""
        unknown = {name for row in rows for name in row} - set(COLUMNS)
        if unknown:
            raise LookupError(f"{piece.name} returned unknown columns {sorted(unknown)}; there are {COLUMNS}")
        found = {"identity": piece.identity, "seconds": seconds, "rows": list(Table(rows).records())}
        path = self.path(piece)
        draft = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            draft.write_text(json.dumps(found))
            draft.replace(path)
        except OSError as error:
            raise OutputError(
                f"a result could not be written to {path} ({error.strerror}); free some space or choose another --out"
            ) from error


def write_csv(path: Path, table: Table) -> None:
    """Write all rows, tidy: one number per line, with its seed and parameters."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        whole = {COLUMNS.index(name) for name in ("agents", "draw", "seed", "trials", "rounds")}
        for record in table.records():
            writer.writerow([int(v) if k in whole and v is not None else v for k, v in enumerate(record)])
