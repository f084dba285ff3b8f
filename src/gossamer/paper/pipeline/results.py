"""The numbers of the experiments as tidy rows: one number each, with everything that it depends on."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.arrays import AnyArray, Floats

COLUMNS: dict[str, type] = {
    "experiment": str,
    "graph": str,
    "method": str,
    "source": str,
    "quantity": str,
    "agents": int,
    "spread": float,
    "draw": int,
    "seed": int,
    "trials": int,
    "rounds": int,
    "epsilon": float,
    "value": float,
    "low": float,
    "high": float,
}

Row = dict[str, object]
"""One number and everything it depends on, by column; low and high are its 95% interval."""


class Results:
    """Rows by column. `where` selects, `column` reads, `value` reads one number."""

    def __init__(self, rows: Iterable[Row]) -> None:
        listed = list(rows)
        unknown = {name for row in listed for name in row} - set(COLUMNS)
        if unknown:
            raise LookupError(f"unknown columns {sorted(unknown)}; the columns are {', '.join(COLUMNS)}")
        self._columns: dict[str, AnyArray] = {}
        for name, kind in COLUMNS.items():
            absent, dtype = ("", object) if kind is str else (np.nan, float)
            self._columns[name] = np.array([row.get(name, absent) for row in listed], dtype=dtype)

    def __len__(self) -> int:
        return len(self._columns["value"])

    def where(self, **conditions: object) -> Results:
        """Return the rows with these values; a tuple or list stands for any of its values."""
        mask = np.ones(len(self), dtype=bool)
        for name, wanted in conditions.items():
            column = self._columns[name]
            mask &= np.isin(column, list(wanted)) if isinstance(wanted, (tuple, list)) else column == wanted
        chosen = Results(())
        chosen._columns = {name: column[mask] for name, column in self._columns.items()}
        return chosen

    def sort(self, *names: str) -> Results:
        """Return the rows in ascending order of these columns, the first being the most important."""
        order = np.lexsort([self._columns[name] for name in reversed(names)])
        ordered = Results(())
        ordered._columns = {name: column[order] for name, column in self._columns.items()}
        return ordered

    def column(self, name: str) -> AnyArray:
        return self._columns[name]

    def distinct(self, name: str) -> list[Any]:
        """Return the distinct values of a column in order of appearance."""
        return list(dict.fromkeys(self._columns[name].tolist()))

    def value(self, **conditions: object) -> float:
        """Return the only number under these conditions."""
        rows = self.where(**conditions)
        if len(rows) != 1:
            raise LookupError(f"{len(rows)} rows under {conditions}, where one was expected")
        return float(rows.column("value")[0])

    def grid(self, rows: str, columns: str, **conditions: object) -> Floats:
        """Return the values under these conditions as a matrix over two ascending columns."""
        subset = self.where(**conditions).sort(rows, columns)
        shape = (len(subset.distinct(rows)), len(subset.distinct(columns)))
        return np.asarray(subset.column("value"), dtype=float).reshape(shape)

    def records(self) -> Iterator[list[str | float | None]]:
        """Yield the rows in the order of `COLUMNS`, with None for columns that do not apply."""
        kinds = COLUMNS.values()
        for values in zip(*(self._columns[name].tolist() for name in COLUMNS), strict=True):
            yield [
                None if value == "" or value != value else kind(value)
                for kind, value in zip(kinds, values, strict=True)
            ]


def write_csv(path: Path, results: Results) -> None:
    """Write all rows to a CSV file: one number per line, with its seed and parameters."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerows(results.records())
