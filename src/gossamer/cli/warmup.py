"""`gossamer warmup`: compile ahead of time the code that first runs would otherwise wait for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn

from gossamer.cli.options import option
from gossamer.cli.output import console, task_text


def warmup(
    jobs: Annotated[
        int | None, option("Number of tasks at a time, for example 2; one per core by default.")
    ] = None,
    force: Annotated[
        bool, option("Check again, even if everything seems to be compiled.", "--force")
    ] = False,
) -> None:
    """Compile everything ahead of time, on all cores.

    Later commands then do not wait for the compiler. The compiled code is kept on disk; run this after installing and
    after an edit, as `make setup` does.
    """
    # The compiler loads only when this command is used.
    from gossamer.warmup import warm_up

    errors = console(stderr=True)
    started = time.perf_counter()
    with Steps(errors) as steps:
        worked = warm_up(jobs, force=force, begin=steps.begin, done=steps.done)
    if worked:
        text = f"compiled in {time.perf_counter() - started:.0f} s; later runs find it on disk"
    else:
        text = "everything is compiled already"
    errors.print(text)


class Steps:
    """Show a progress bar over the tasks that are left, on a terminal."""

    def __init__(self, console: Console) -> None:
        columns = (BarColumn(20), TimeElapsedColumn(), task_text())
        self._progress = Progress(*columns, console=console, transient=True)
        self._left: list[str] = []

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, names: Sequence[str]) -> None:
        """Start the bar; without a terminal, print one line instead."""
        self._left = list(names)
        console = self._progress.console
        if console.is_terminal:
            self._task = self._progress.add_task("", total=len(names))
            self._progress.start()
            self._show()
        else:
            console.print("compiling; this takes about a minute the first time")

    def done(self, name: str) -> None:
        self._left.remove(name)
        if self._progress.console.is_terminal:
            self._progress.advance(self._task)
            self._show()

    def _show(self) -> None:
        text = f"compiling, {len(self._left)} left: {', '.join(self._left)}" if self._left else "done"
        self._progress.update(self._task, description=text)
