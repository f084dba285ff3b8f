"""What every result offers: rows, a frame, a plot, a short look, and equality.

A result is a frozen dataclass (with `eq=False`: arrays are compared here) that says what its rows are (`records`) and
how it is drawn (`plot`).
"""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

from gossamer import checks
from gossamer.arrays import same
from gossamer.errors import require

Record = dict[str, Any]
"""One row: values by column. A value that does not exist is None, and so is a number that does not."""

_ROWS_SHOWN = 20


class Result(ABC):
    """What a computation found. The rows of two results of one kind can be put under each other."""

    title: str
    """What this is, in a line."""

    shown: ClassVar[Sequence[str]] = ()
    """The columns that a short look shows; empty: all."""

    @abstractmethod
    def records(self) -> list[Record]:
        """The rows as dictionaries, all with the same keys."""

    @abstractmethod
    def plot(self, ax: Any = None) -> Any:
        """Draw it on Matplotlib axes (a new figure by default), and return them."""

    def to_frame(self, library: str = "pandas") -> Any:
        """The rows as a tidy data frame of "pandas" or "polars"."""
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
        """What a reader of the rows should know, each sentence once."""
        return list(dict.fromkeys(row["note"] for row in self.records() if row.get("note")))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            same(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)  # type: ignore[arg-type]
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
        head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_brief(row[name]))}</td>" for name in columns) + "</tr>"
            for row in rows[:_ROWS_SHOWN]
        )
        more = f"<p>and {len(rows) - _ROWS_SHOWN} more rows</p>" if len(rows) > _ROWS_SHOWN else ""
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _brief(value: Any) -> str:
    """A value as a person reads it: three digits, and nothing where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _range(values: Sequence[Any]) -> str:
    """The one value of a column, or where its values begin and end."""
    first, last = _brief(values[0]) if values else "-", _brief(values[-1]) if values else "-"
    return first if all(same(values[0], value) for value in values) else f"{first}..{last}"
