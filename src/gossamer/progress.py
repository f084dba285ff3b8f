"""A progress bar for long computations, with the remaining time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from gossamer.errors import InvalidInput

PAUSE = 10.0
"""Seconds between two lines in a log."""


class _Lines:
    def __init__(self, what: str, work: int) -> None:
        self.what, self.work, self.done = what, max(work, 1), 0
        self.begun = self.said = time.monotonic()

    def advance(self, done: int) -> None:
        self.done += done
        now = time.monotonic()
        if now - self.said >= PAUSE and self.done:
            self.said, part = now, self.done / self.work
            left = (now - self.begun) * (1 - part) / part
            print(f"{self.what}: {part:.0%}, about {left:.0f} s left", file=sys.stderr, flush=True)


@contextmanager
def progress_bar(
    wanted: bool | None, what: str, work: int, *, worth_it: bool = True, lines: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much of `work` was just done; it draws a bar if one is wanted.

    None wants one if standard error is a terminal and the work is `worth_it`. With `lines`, where it is not a terminal
    but a log, a line is written every ten seconds instead.
    """
    if not isinstance(wanted, bool | None):
        raise InvalidInput(parameter="progress", required="True, False or None", got=repr(wanted))
    if wanted is None:
        wanted = worth_it and (lines or sys.stderr.isatty())
    if not wanted:
        yield lambda _: None
        return
    if (lines and not sys.stderr.isatty()) or find_spec("rich") is None:
        yield _Lines(what, work).advance
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    counted = [MofNCompleteColumn()] if work < 10**7 else []
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *counted,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=work)
        yield lambda done: bar.update(task, advance=done)
