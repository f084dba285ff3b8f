"""Samples per agent against accuracy, for Figures 3 and 4, and in part for Figure 6."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

from gossamer.arrays import Floats
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import interval, middle, number
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared.complexity import exact_samples, sda_protocol
from gossamer.paper.shared.problem import GRAPHS, TITLES, slope

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


def main_pieces(settings: Settings) -> list[Piece]:
    """Return the pieces of SDA's samples, exact and by the protocol; Figure 6 uses them as well."""
    s = settings
    both = [*s.large, *s.small]
    common = {
        "agents": s.agents,
        "spread": s.small_spread,
        "epsilons": both,
        "trials": s.trials,
        "seed": s.seed,
    }
    weight = s.agents * s.trials / min(both) / 3e7
    parts = [
        Piece(f"samples-protocol-{graph}", sda_protocol, dict(graph=graph, **common), weight)
        for graph in GRAPHS
    ]
    for graph in GRAPHS:
        split = 4 if graph == "erdos-renyi" else 1
        bounds = np.linspace(0, s.draws + 1, split + 1).astype(int).tolist()
        for first, last in itertools.pairwise(bounds):
            work = {
                "graph": graph,
                "agents": s.agents,
                "spread": s.small_spread,
                "large": list(s.large),
                "small": list(s.small),
                "first": first,
                "draws": last - first,
                "seed": s.seed,
            }
            parts.append(Piece(f"samples-exact-{graph}-{first}", exact_samples, work, 1.0))
    return parts


def sample_counts(results: Results, method: str, epsilons: Sequence[float], source: str = "exact") -> Floats:
    """Return (graph, draw, eps) numbers of samples."""
    results = results.where(
        experiment="samples", method=method, quantity="samples", source=source, epsilon=tuple(epsilons)
    )
    return np.stack([results.grid("draw", "epsilon", graph=g) for g in GRAPHS])


def fitted_slopes(results: Results, method: str, epsilons: Sequence[float], source: str = "exact") -> Floats:
    """Return (graph, draw) fitted slopes."""
    values = sample_counts(results, method, epsilons, source)
    logs = np.log(sorted(epsilons))
    centered = logs - logs.mean()
    slopes: Floats = np.log(values) @ centered / (centered @ centered)
    return slopes


def averaging_shares(results: Results, epsilons: Sequence[float]) -> Floats:
    """Return (graph, draw, eps) shares of the 1/T term in the error when SDA first reaches eps."""
    results = results.where(experiment="samples", quantity="share of 1/T", epsilon=tuple(epsilons))
    return np.stack([results.grid("draw", "epsilon", graph=g) for g in GRAPHS])


def by_graph(values: Floats, digits: int = 3) -> str:
    """Format the median and range over draws for each graph, from values of shape (graph, ...)."""
    return ", ".join(
        f"{TITLES[g]} {interval(*middle(v), digits)}" for g, v in zip(GRAPHS, values, strict=True)
    )


def draw_samples(
    results: Results, settings: Settings, epsilons: Sequence[float], methods: Sequence[str]
) -> Picture:
    drawn = style.picture(style.FULL, 4.6)
    axes = drawn.subplots(2, 3)
    results = results.where(experiment="samples", draw=0, quantity="samples", epsilon=tuple(epsilons)).sort(
        "epsilon"
    )
    for ax, graph in zip(axes.flat, GRAPHS, strict=False):
        exactly, by_runs = [], []
        for method in methods:
            mark = style.MARKS[method]
            subset = results.where(graph=graph, method=method)
            truth, runs = subset.where(source="exact"), subset.where(source="protocol")
            style.line(ax, mark, truth.column("epsilon"), truth.column("value"))
            style.points(ax, mark, runs.column("epsilon"), runs)
            fits = [slope(rows.column("epsilon"), rows.column("value")) for rows in (truth, runs)]
            exactly.append(f"{mark.label} {number(fits[0], 3)}")
            by_runs.append(number(fits[1], 3))
        if "sstm_sc" in methods:
            tuned = results.where(graph=graph, method="sstm_sc, tuned")
            style.line(ax, style.MARKS["sstm_sc, tuned"], tuned.column("epsilon"), tuned.column("value"))
        _accuracy_axis(ax, epsilons)
        ax.set_yscale("log")
        ax.set_title(TITLES[graph], pad=22)
        ax.margins(y=0.12)
        slopes = f"slopes: {', '.join(exactly)}\nby runs: {', '.join(by_runs)}"
        ax.text(
            0.5,
            1.02,
            slopes,
            transform=ax.transAxes,
            ha="center",
            va="bottom",
            fontsize=6.5,
            color=style.GRAY,
        )
        if len(methods) == 1:
            ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
            ax.yaxis.set_minor_formatter(
                FuncFormatter(lambda v, _: f"{v:,.0f}" if str(v)[0] in "257" else "")
            )
    for ax in axes[:, 0]:
        ax.set_ylabel("samples per agent")
    for ax in (*axes[1, :2], axes[0, 2]):
        ax.set_xlabel(r"accuracy $\varepsilon$")
    keys = [style.key(style.MARKS[m]) for m in methods]
    if "sstm_sc" in methods:
        keys.append(style.key(style.MARKS["sstm_sc, tuned"]))
    note = (
        f"lines: exact\nmarks: first $T$ whose average over\n{settings.trials} runs is at most ε, with 95%\n"
        "bootstrap intervals"
    )
    style.legend_panel(axes[1, 2], keys, note)
    return drawn


def _accuracy_axis(ax: Axes, epsilons: Sequence[float]) -> None:
    """Make a logarithmic axis with plain numbers at a few of the accuracies."""
    ax.set_xscale("log")
    shown = sorted(epsilons)[:: max(1, (len(epsilons) - 1) // 2)] if len(epsilons) > 3 else sorted(epsilons)
    ax.set_xticks(shown, [f"{eps:g}" if eps >= 1e-3 else f"{eps * 1e4:.1f}e−4" for eps in shown])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", which="minor", length=0)
