"""The interface of all results: rows, a data frame, a plot, a summary, and equality.

A result is a frozen dataclass (with `eq=False`, since arrays are compared here) that defines its rows (`records`) and
its plot (`plot`).
"""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from gossamer import checks
from gossamer.arrays import same
from gossamer.errors import require

if TYPE_CHECKING:
    from pandas import DataFrame

    from gossamer.plotting import Panels

Record = dict[str, Any]
"""One row: values by column. Missing values, NaN included, are None."""

_ROWS_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class Result(ABC):
    """The result of a computation. The rows of two results of one kind can be concatenated."""

    shown: ClassVar[Sequence[str]] = ()
    """The columns of the summary; all if empty."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Return a title of one line."""

    @abstractmethod
    def records(self) -> list[Record]:
        """Return the rows as dictionaries, all with the same keys."""

    @abstractmethod
    def plot(self, ax: Panels | None = None) -> Panels:
        """Plot the result on Matplotlib axes (a new figure by default), and return them."""

    def to_frame(self, library: str = "pandas") -> DataFrame:
        """Return the rows as a tidy data frame of "pandas" or "polars"."""
        frames = require(checks.choice("library", library, ("pandas", "polars")), "data")
        rows = self.records()
        numbers = {
            name: float for name in (rows[0] if rows else ()) if all(row[name] is None for row in rows)
        }
        if library == "pandas":
            return frames.DataFrame(rows).astype(numbers)
        return frames.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)

    @property
    def notes(self) -> list[str]:
        """Return the notes of all rows, each one once."""
        return list(dict.fromkeys(row["note"] for row in self.records() if row.get("note")))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            same(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
            if field.compare
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = self.records()
        columns = list(self.shown or (rows[0] if rows else ()))
        known = [name for name in columns if name != "note" and any(row[name] is not None for row in rows)]
        values = ", ".join(f"{name}={_range([row[name] for row in rows])}" for name in known)
        count = f"{len(rows)} rows: " if len(rows) > 1 else ""
        return f"<{type(self).__name__} {self.title}: {count}{values}>"

    def _repr_html_(self) -> str:
        rows = self.records()
        columns = list(self.shown or (rows[0] if rows else ()))
        if not any(row.get("note") for row in rows):
            columns = [name for name in columns if name != "note"]
        return html_table(self.title, columns, [[row[name] for name in columns] for row in rows])


def html_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table for notebooks, at most 20 rows of it."""
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_brief(value))}</td>" for value in row) + "</tr>"
        for row in rows[:_ROWS_SHOWN]
    )
    more = f"<p>and {len(rows) - _ROWS_SHOWN} more rows</p>" if len(rows) > _ROWS_SHOWN else ""
    caption = f"<caption>{html.escape(title)}</caption>"
    head = f"<thead><tr>{head}</tr></thead>" if rows else ""
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>{more}"


def _brief(value: object) -> str:
    """Return a value as text with three digits, empty if it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _range(values: Sequence[object]) -> str:
    """Return the only value of a column, or its first and last value."""
    first, last = _brief(values[0]) if values else "-", _brief(values[-1]) if values else "-"
    return first if all(same(values[0], value) for value in values) else f"{first}..{last}"
