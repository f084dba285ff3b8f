"""The numbers of the experiments: tidy rows, one number each, with everything that it depends on."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Floats

SCHEMA = 2
"""Incremented whenever the meaning of the columns changes."""

TEXT = ("experiment", "graph", "method", "source", "quantity")
NUMBERS = ("agents", "spread", "draw", "seed", "trials", "rounds", "epsilon", "value", "low", "high")
COLUMNS = (*TEXT, *NUMBERS)

Row = dict[str, Any]
"""One number and everything it depends on; absent columns do not apply. low and high: a 95% interval."""


class Results:
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

    def where(self, **conditions: Any) -> Results:
        """The rows that have all these values (a tuple or list: any of its values)."""
        mask = np.ones(len(self), dtype=bool)
        for name, wanted in conditions.items():
            column = self._columns[name]
            mask &= np.isin(column, list(wanted)) if isinstance(wanted, (tuple, list)) else column == wanted
        chosen = Results(())
        chosen._columns = {name: column[mask] for name, column in self._columns.items()}
        return chosen

    def sort(self, *names: str) -> Results:
        """The rows in ascending order of these columns, the first being the most important."""
        order = np.lexsort([self._columns[name] for name in reversed(names)])
        ordered = Results(())
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

    def grid(self, rows: str, columns: str, **conditions: Any) -> Floats:
        """The values under these conditions as a matrix over two ascending columns."""
        found = self.where(**conditions).sort(rows, columns)
        shape = (len(found.distinct(rows)), len(found.distinct(columns)))
        return np.asarray(found.column("value"), dtype=float).reshape(shape)

    def records(self) -> Iterator[list[Any]]:
        """Rows in the order of `COLUMNS`, with None where a column does not apply."""
        for values in zip(*(self._columns[name].tolist() for name in COLUMNS), strict=True):
            yield [None if v == "" or v != v else v for v in values]


def write_csv(path: Path, results: Results) -> None:
    """Write all rows, tidy: one number per line, with its seed and parameters."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        whole = {COLUMNS.index(name) for name in ("agents", "draw", "seed", "trials", "rounds")}
        for record in results.records():
            writer.writerow([int(v) if k in whole and v is not None else v for k, v in enumerate(record)])
