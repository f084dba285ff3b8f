"""Tables that fit the terminal: columns that do not fit continue in a table below, and numbers are never truncated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.box import Box
    from rich.console import Console, ConsoleOptions, RenderResult

GAP = 2
"""Spaces between two columns."""

LONG = 24
"""Texts longer than this may wrap in any column."""


@dataclass(frozen=True)
class FittedTable:
    """Rows below headings. If they are too wide, the columns are divided among several tables.

    Each table begins with the columns that identify its rows, in which text may wrap. Numbers never wrap.

    headings   the name of each column
    rows       one text for each column
    numeric    whether each column holds numbers, which are aligned to the right
    box        the lines of the table; None for none
    header     whether the headings are shown
    most       number of tables that are shown; all by default
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Text]]
    numeric: Sequence[bool]
    box: Box | None = None
    header: bool = True
    most: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        for number, columns in enumerate(self.blocks(width)[: self.most]):
            if number:
                yield ""
            yield self._table(columns, width)

    def blocks(self, width: int) -> list[list[int]]:
        """Return the columns of each table, so that the tables fit in `width` characters."""
        columns = range(len(self.headings))
        if self._width(columns, [self._length(k) for k in columns]) <= width:
            return [list(columns)]
        labels = self._labels()
        lengths = [min(self._length(k), width // 3) if self._wraps(k) else self._least(k) for k in columns]
        blocks: list[list[int]] = [[]]
        for k in columns:
            if set(blocks[-1]) - set(labels) and self._width([*blocks[-1], k], lengths) > width:
                blocks.append(list(labels))
            blocks[-1].append(k)
        return blocks

    def _table(self, columns: Sequence[int], width: int) -> Table:
        whole = self._width(columns, [self._length(k) for k in range(len(self.headings))]) <= width
        padding = (0, 1) if self.box is None else (0, 1, 0, 0)
        table = Table(
            header_style="bold",
            box=self.box,
            pad_edge=False,
            show_edge=False,
            show_header=self.header,
            padding=padding,
        )
        for k in columns:
            heading = Text(self.headings[k] if whole else self.headings[k].replace(" ", "\n"))
            table.add_column(
                heading,
                justify="right" if self.numeric[k] else "left",
                no_wrap=whole or not self._wraps(k),
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(row[k] for k in columns))
        return table

    @staticmethod
    def _width(columns: Sequence[int], lengths: Sequence[int]) -> int:
        return sum(lengths[k] for k in columns) + GAP * (len(columns) - 1)

    def _cells(self, column: int) -> int:
        return max((row[column].cell_len for row in self.rows), default=0)

    def _length(self, column: int) -> int:
        heading = len(self.headings[column]) if self.header else 0
        return max(heading, self._cells(column))

    def _least(self, column: int) -> int:
        """Return the width of a column whose heading is broken at its spaces."""
        words = self.headings[column].split() if self.header else []
        return max(self._cells(column), *map(len, words), 1)

    def _labels(self) -> list[int]:
        """Return the fewest leading columns that distinguish all rows, without constant ones."""
        texts = [[cell.plain for cell in row] for row in self.rows]
        for count in range(len(self.headings)):
            if len({tuple(row[:count]) for row in texts}) == len(texts):
                return [k for k in range(count) if len({row[k] for row in texts}) > 1]
        return []

    def _wraps(self, column: int) -> bool:
        return not self.numeric[column] and (column in self._labels() or self._cells(column) > LONG)


class WholeWords(Table):
    """A table that breaks words without room instead of cutting them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for column in self.columns:
            column.overflow = "fold"
        yield from super().__rich_console__(console, options)
