"""A bar for long work, with the time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gossamer.errors import InvalidInput


@contextmanager
def progress_bar(
    wanted: bool | None, what: str, work: int, *, worth_it: bool = True
) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much of `work` was just done; it draws a bar if one is wanted.

    None wants one if standard error is a terminal and the work is `worth_it`.
    """
    if not isinstance(wanted, bool | None):
        raise InvalidInput(f"progress must be True, False or None, got {wanted!r}")
    if wanted is None:
        wanted = worth_it and sys.stderr.isatty()
    if not wanted:
        yield lambda _: None
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
