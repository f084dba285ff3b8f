"""Tables on narrow screens: nothing is wider than the screen, and no number is cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text
from tests.support.commands import invoke

from gossamer.cli import output
from gossamer.cli.tables import FittedTable

WIDTHS = (60, 80, 120)


def lines(table, width):
    file = io.StringIO()
    Console(width=width, file=file, markup=False, emoji=False, highlight=False).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def check(table):
    """Every number is whole, in its order, at every width."""
    for width in WIDTHS:
        shown = lines(table, width)
        assert max(map(len, shown)) <= width
        assert not any("…" in line for line in shown)
        words = " ".join(shown)
        for row in table.rows:
            for cell, numeric in zip(row, table.numeric, strict=True):
                if numeric or "±" in cell.plain:
                    assert f" {cell.plain} " in f" {words} ", (width, cell.plain)


def texts(*rows):
    return [[Text(cell) for cell in row] for row in rows]


def test_what_has_no_room_is_below_and_begins_with_the_columns_that_tell_rows_apart():
    headings = ("network", "method", "rounds", "total error", "centralized limit", "over limit")
    rows = texts(
        ("grid:10x10", "anytime-sda, local-heavy-ball", "1,500", "0.0123 ± 0.0004", "0.00999", "1.23 ± 0.04"),
        ("grid:10x10", "sda", "1,500", "0.0246 ± 0.0004", "0.00999", "2.46 ± 0.04"),
    )
    table = FittedTable(headings, rows, [False, False, True, True, True, True])
    check(table)
    assert table.blocks(120) == [[0, 1, 2, 3, 4, 5]]
    assert table.blocks(80) == [[0, 1, 2, 3, 4], [1, 5]]
    assert lines(table, 60) == [
        "                                                       total",
        "network     method                   rounds            error",
        "grid:10x10  anytime-sda,              1,500  0.0123 ± 0.0004",
        "            local-heavy-ball",
        "grid:10x10  sda                       1,500  0.0246 ± 0.0004",
        "",
        "                               centralized         over",
        "method                               limit        limit",
        "anytime-sda, local-heavy-ball      0.00999  1.23 ± 0.04",
        "sda                                0.00999  2.46 ± 0.04",
    ]


def test_one_row_needs_no_label_and_a_table_without_headings_has_none():
    table = FittedTable(["number"] * 9, texts([f"{k}.00000e-10" for k in range(9)]), [True] * 9)
    check(table)
    assert table.blocks(60) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    bare = FittedTable(["property", "value"], texts(("agents", "9")), [False, True], header=False)
    assert lines(bare, 60) == ["agents  9"]
    assert FittedTable(["a"], [], [True]).blocks(60) == [[0]]


class Screen:
    """Keeps the tables that are printed."""

    def __init__(self):
        self.tables = []

    def print(self, content, **how):
        if isinstance(content, FittedTable):
            self.tables.append(content)


COMMANDS = [
    ("exact", "path:6", "-T", "30,100000", "-m", "anytime-sda"),
    ("simulate", "path:6", "-T", "30,60", "--trials", 4),
    (
        "compare",
        "path:6",
        "-T",
        "30,60,90,120,150",
        "--trials",
        3,
        "-m",
        "sda anytime-sda:acceleration=local",
    ),
    ("tune", "path:6", "-m", "sda", "-T", 40),
    pytest.param(("plan", "path:6", "cycle:6", "-e", "1e-1,1e-2"), marks=pytest.mark.slow),
    pytest.param(
        ("estimate", "path:4", "-T", "20,40,60,80", "--trials", 2, "--no-rivals"), marks=pytest.mark.slow
    ),
    pytest.param(
        ("learn", "path:4", "-T", "20,40,60,80", "--trials", 2, "--no-rivals"), marks=pytest.mark.slow
    ),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_commands(words, monkeypatch):
    screen = Screen()
    monkeypatch.setattr(output, "screen", lambda: screen)
    assert invoke(*words, catch=False).exit_code == 0
    assert screen.tables
    for table in screen.tables:
        check(table)
    if words[0] == "simulate":
        (table,) = screen.tables
        column = list(table.headings).index("over limit")
        assert all("±" in row[column].plain for row in table.rows)
