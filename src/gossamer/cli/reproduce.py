"""`gossamer reproduce`: the paper's figures and claims in one command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gossamer.cli.options import Address, Backend, Workers, option
from gossamer.cli.output import console, task_text
from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    from gossamer.paper.pipeline.pieces import Piece
    from gossamer.paper.reproduce import Reproduction

COLORS = {"holds": "green", "holds with a caveat": "yellow", "does not hold": "red"}


def reproduce(
    figure: Annotated[
        list[str] | None,
        option("Only this figure (repeat for more); all by default.", "--figure", "-f", metavar="NUMBER"),
    ] = None,
    quick: Annotated[
        bool, option("Use smaller networks and fewer runs, which takes about a minute.", "--quick")
    ] = False,
    agents: Annotated[
        int | None,
        option("Number of agents in all figures except 5, a square number such as 100."),
    ] = None,
    trials: Annotated[int | None, option("Number of simulated runs per point, for example 100.")] = None,
    seed: Annotated[int | None, option("Seed for means, random graph and noise.")] = None,
    draws: Annotated[
        int | None,
        option("Number of draws of means and graphs for the intervals of the claims, for example 200."),
    ] = None,
    spread: Annotated[float | None, option("Means of Figure 2 are uniform on [0, SPREAD].")] = None,
    small_spread: Annotated[float | None, option("The same for Figures 3 and 4.")] = None,
    stages: Annotated[
        str | None, option("Stages K of D-MASG, such as 3,4,5; they set T in Figure 2.")
    ] = None,
    large: Annotated[str | None, option("Accuracies of Figure 3, such as 0.015,0.01.")] = None,
    small: Annotated[str | None, option("Accuracies of Figure 4.")] = None,
    star_agents: Annotated[str | None, option("Sizes of the stars in Figure 5, such as 148,190.")] = None,
    out: Annotated[Path, option("Folder for all results.", "--out", "-o")] = Path("results/paper"),
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = None,
) -> None:
    """Regenerate the paper's figures, exactly and by simulation, and check each of its claims.

    After an interrupt, the same command continues where it stopped.
    """
    # Compilers and plotting load only when this command is used.
    from gossamer.paper.pipeline.settings import Settings
    from gossamer.paper.reproduce import reproduce as run

    changes: dict[str, Any] = {
        "agents": agents,
        "trials": trials,
        "seed": seed,
        "draws": draws,
        "spread": spread,
        "small_spread": small_spread,
        "stages": _numbers("--stages", stages, int),
        "large": _numbers("--large", large, float),
        "small": _numbers("--small", small, float),
        "star_agents": _numbers("--star-agents", star_agents, int),
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    settings = Settings.quick(**changes) if quick else Settings(**changes)
    errors = console(stderr=True)
    with Bars(errors) as bars:
        try:
            result = run(
                settings, out, figure, backend=backend, workers=workers, address=address, watcher=bars
            )
        except KeyboardInterrupt:
            done = f"interrupted with {bars.ready} of {bars.total} pieces in {out}"
            errors.print(Text(f"{done}; the same command continues from there"), soft_wrap=True)
            raise
    _show(result)


def _numbers(option: str, text: str | None, kind: type) -> tuple[object, ...] | None:
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(parameter=option, required="numbers separated by commas", got=repr(text)) from None


class Bars:
    """Show a progress bar over all computations, weighted by their expected time."""

    def __init__(self, console: Console) -> None:
        columns = (
            task_text(), BarColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False),
        )  # fmt: skip
        self._console = console
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("pieces", total=None)
        self.ready = self.total = 0

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, pieces: Sequence[Piece]) -> None:
        self.total = len(pieces)
        self._progress.update(self._task, total=sum(max(1, round(10 * piece.weight)) for piece in pieces))

    def done(self, piece: Piece, fresh: bool) -> None:
        self.ready += 1
        text = f"{self.ready} of {self.total} pieces, last {piece.name if fresh else 'from disk'}"
        self._progress.update(self._task, advance=max(1, round(10 * piece.weight)), description=text)

    def stage(self, text: str) -> None:
        self._progress.update(self._task, description=text)
        if not self._console.is_terminal:  # where no bar is shown, a line for each figure
            self._console.print(Text(text), soft_wrap=True)


def _show(result: Reproduction) -> None:
    screen = console()
    if result.judged:
        table = Table(
            title="The paper's claims", title_justify="left", header_style="bold", box=None, pad_edge=False
        )
        table.add_column("claim", ratio=4)
        table.add_column("measured", ratio=4)
        table.add_column("verdict", ratio=2)
        for judged in result.judged:
            verdict = judged.finding.verdict.value
            sentence, measured = Text(judged.claim.sentence), Text(judged.finding.measured)
            table.add_row(sentence, measured, Text(verdict, style=COLORS[verdict]))
        screen.print(table)
    times = result.times
    done = f"{times.computed} pieces computed, {times.reused} read from disk, {times.wall:.1f} s in all"
    screen.print(Text(f"{done}. Open {result.page}"), soft_wrap=True)
