"""Animations of simulations: a page drawn by the code of the playground, or a video drawn by Matplotlib."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import gossamer as gs
from gossamer import checks, plotting
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.dashboard.layout import places
from gossamer.dashboard.runs import Part, network_part, numbers, references
from gossamer.dashboard.saving import SavedPage, recorded
from gossamer.dashboard.scenario import MOST_AGENTS
from gossamer.engines.results import OneOrMore, TrialResult, spread_out
from gossamer.errors import InvalidInput, OutputError, require
from gossamer.networks import AnyNetwork
from gossamer.networks.drawing import dot_size, drawn_links, outline
from gossamer.observations.masks import Masked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRAMES = 120
"""Number of rounds that a video shows, evenly spaced on a log scale like the axis of its errors."""

FRAMES_PER_SECOND = 12

SUFFIXES = (".html", ".gif", ".mp4")


def check_format(path: Path) -> str | None:
    """Refuse a file whose format is unknown or cannot be written here; return the program that writes it, if any."""
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise InvalidInput(f"an animation's file name must end in .html, .gif or .mp4, got {path}")
    if kind != ".html":
        require("matplotlib", "plot")
    if kind != ".mp4":
        return None
    if (installed := shutil.which("ffmpeg")) is not None:
        return installed
    try:
        packaged: str = import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        raise OutputError(
            f"{path} cannot be written without the program ffmpeg; install it, or run: pip install 'gossamer[video]', "
            "or write a .gif or an .html file"
        ) from None
    return packaged


def check_agents(agents: int) -> None:
    """Refuse a run of too many agents."""
    if agents > MOST_AGENTS:
        raise InvalidInput(f"an animation shows at most {MOST_AGENTS} agents, but this run has {agents}")


class Animation:
    """An animation of one trial: the agents' answers on their network, and the error below them.

    `run.animate()` creates it; the parameters are explained there. Notebooks show it as a page.

    Attributes
    ----------
    page : SavedPage
        The page that `save` writes to an HTML file.
    rounds : ndarray
        About 60 numbers of rounds, evenly spaced on a log scale, and those before and after each crash, restart or
        partition.
    errors : ndarray
        The total error of the answers after each of these numbers of rounds.

    See Also
    --------
    Scenario : Runs that the playground can show.
    widget : Shows an animation as a Jupyter widget.

    Examples
    --------
    >>> obs = gs.Gaussian(np.arange(16.0))
    >>> run = gs.simulate("dsg", gs.Network.grid(4, 4), obs, 30, trials=2, keep="iterates")
    >>> film = run.animate(trial=1)  # film.save("run.html") or film.save("run.gif") writes it to a file
    >>> film.page.summary.split(": ")[1]
    '16 agents, 30 rounds'
    """

    def __init__(
        self,
        run: TrialResult[OneOrMore, OneOrMore],
        *,
        trial: int = 0,
        component: int = 0,
        title: str | None = None,
    ) -> None:
        check_agents(run.network.agents)
        trial = checks.whole_number("trial", trial, least=0, most=run.trials - 1)
        self.component = checks.whole_number(
            "component", component, least=0, most=run.observations.components - 1
        )
        self.run, self.title = run, title or run.title
        self.network: AnyNetwork = run.network
        self._answers = run.iterates["estimate"][trial]  # (T, N, n)
        self._length = len(self._answers)
        self._burn_in = run.method.averages_since(self._length) or 0  # it has no answer before that
        self._faults = gs.faults.Faults.of(getattr(run, "faults", None))
        first = 1 + self._burn_in
        turns = {t + k for t in self._faults.changes for k in (0, 1) if first <= t + k <= self._length}
        self.rounds = np.array(sorted({*spread_out(first, self._length).tolist(), *turns}))

    def __repr__(self) -> str:
        return f"<Animation {self.title}: {self._length} rounds>"

    def _repr_html_(self) -> str:
        return self.page._repr_html_()

    def save(self, path: str | Path) -> Path:
        """Write a page (.html) that needs no server or a video (.gif, .mp4) to a file, and return its path.

        A video needs the extra `plot`; an .mp4 also needs the program ffmpeg or the extra `video`, which contains it.
        """
        path = Path(path)
        program = check_format(path)
        if path.suffix.lower() == ".html":
            return self.page.write(path)
        from matplotlib import animation, rc_context

        writer = (animation.FFMpegWriter if program else animation.PillowWriter)(fps=FRAMES_PER_SECOND)
        figure, frames = self._film()
        with (
            rc_context({"animation.ffmpeg_path": program or "ffmpeg"}),
            writer.saving(figure, str(path), dpi=100),
        ):
            for _ in frames:
                writer.grab_frame()
        return path

    @cached_property
    def errors(self) -> Floats:
        values = np.full(len(self.rounds), np.nan)
        for k, t in enumerate(self.rounds.tolist()):
            alive, target = self._target(t)
            values[k] = ((self._answers[t - 1, alive] - target) ** 2).sum() if alive.any() else np.nan
        return values

    def _target(self, t: int) -> tuple[AnyArray, Floats]:
        """Return which agents are alive in round t, and the average (n,) of their means."""
        alive = self._faults.alive_agents(self.network.agents, t - 1)
        means = self.run.observations.means(range(t - 1, t))[0]
        return alive, means[alive if alive.any() else slice(None)].mean(axis=0)

    @cached_property
    def page(self) -> SavedPage:
        methods = [[self.run.label, {}]]
        variants: list[dict[str, object]] = [
            {"label": "", "events": [item.to_json() for item in self._faults.items]}
        ]
        frames = ((kind, {**header, "variant": None}, arrays) for kind, header, arrays in self._frames())
        shown = {"methods": methods, "rounds": self._length}
        # In a lesson, the error grows as the run plays.
        return recorded(frames, shown, variants, title=self.title, lesson=True)

    def _edges(self, t: int) -> Integers:
        """Return (E, 2) the links of round t."""
        network = self.network
        return network.edges_at(t - 1) if isinstance(network, gs.ChangingNetwork) else network._drawn()[0]

    def _shown(self) -> Floats:
        """Return (T, N) the answers that colors show; NaN where there is none."""
        shown: Floats = self._answers[:, :, self.component].astype(np.float64)
        shown[: self._burn_in] = np.nan
        return shown

    def _frames(self) -> Iterator[Part]:
        run, horizons, streams = self.run, self.rounds.tolist(), self.run.observations
        streams, masks = (streams.base, streams.masks) if isinstance(streams, Masked) else (streams, None)
        yield network_part(self.network.name, self._length, self.network, streams, self.component, masks)
        header = {"method": 0, "label": run.label, "rounds": horizons, "error": numbers(self.errors)}
        yield "run", {**header, "notes": run.notes}, {"estimates": self._shown().astype(np.float32)}
        # Runs of other lengths have other answers, unless the method is the same for any number of rounds.
        methods = [run.method] if run.method.anytime else []
        yield from references(methods, self.network, streams, horizons, masks)

    def _film(self) -> tuple[Figure, Iterator[int]]:
        """Return a figure, and an iterator that draws one round after another on it."""
        from matplotlib import colormaps, rc_context
        from matplotlib.figure import Figure as NewFigure

        observations, positions = self.run.observations, places(self.network, self._length)
        away = np.abs(observations.mean - observations.target(self._length))[:, self.component]
        # One agent far away must not make all others look the same.
        spread = float(np.quantile(away, 0.95)) or 1.0
        with rc_context(plotting.STYLE):
            figure = NewFigure(figsize=(6.4, 7.6), layout="constrained")
            above, below = figure.subplots(2, 1, height_ratios=(5, 3))
        figure.suptitle(self.title, fontsize=11, parse_math=False)
        above.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")
        above.set_axis_off()
        first = positions.reshape(-1, self.network.agents, 2)[0]
        lines = drawn_links(first, self._edges(1), above)
        above.add_collection(lines)
        dots = above.scatter(
            *first.T,
            c=np.zeros(len(first)),
            s=(size := dot_size(first, above)),
            cmap=colormaps["coolwarm"].with_extremes(bad="white"),
            edgecolors="0.35",
            linewidths=outline(size),
            zorder=2,
        )
        figure.colorbar(dots, ax=above, shrink=0.8, extend="both", label="answer (white: none)")
        limit = gs.theory.centralized_limit(observations, self.rounds)
        below.plot(
            self.rounds,
            limit,
            color=plotting.GRAY,
            linewidth=1,
            label="centralized limit (mean of many runs)",
        )
        (curve,) = below.plot(
            self.rounds, self.errors, color=plotting.BLUE, marker="o", markersize=4, label="this run"
        )
        scale = "log" if np.nanmax([*limit, *self.errors]) > 0 else "linear"
        below.set(xscale="log", yscale=scale, xlabel="rounds", ylabel="total error")
        below.minorticks_off()  # they take half of the time to draw
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        below.set(xlim=below.get_xlim(), ylim=below.get_ylim())  # as the whole run needs them
        above.set_title("round 1", fontsize=10)
        figure.draw_without_rendering()
        figure.set_layout_engine(None)  # the layout of the first round serves all

        def draw() -> Iterator[int]:
            shown = self._shown()
            for t in np.unique(np.geomspace(1, self._length, FRAMES).round().astype(int)).tolist():
                now: AnyArray = positions if positions.ndim == 2 else positions[t - 1]
                lines.set_segments(list(now[self._edges(t)]))
                dots.set_offsets(now)
                dots.set_array(shown[t - 1])
                middle = self._target(t)[1][self.component]  # of the survivors, after a crash
                dots.set_clim(middle - spread, middle + spread)
                above.set_title(f"round {t}", fontsize=10)
                past = self.rounds <= t
                curve.set_data(self.rounds[past], self.errors[past])
                curve.set_markevery([max(int(past.sum()) - 1, 0)])
                yield t

        return figure, draw()
