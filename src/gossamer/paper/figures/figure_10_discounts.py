"""Figure 10, ours: how the errors of policy evaluation grow with the effective horizon 1/(1 - gamma)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossamer.arrays import Floats
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import Claim, Finding, Verdict, extremes, interval, number
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared.policy import DISCOUNTS, GRAPHS, pieces, quantity_at
from gossamer.paper.shared.problem import TITLES, slope

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def _growth(results: Results, graph: str, solver: str) -> Floats:
    """Return the errors after the last round by discount."""
    last = float(np.nanmax(results.column("rounds")))
    return np.array(
        [
            results.value(
                graph=graph, method=solver, source="simulation", quantity=quantity_at(d), rounds=last
            )
            for d in DISCOUNTS
        ]
    )


def _exponent(errors: Floats) -> float:
    return slope([1 / (1 - d) for d in DISCOUNTS], errors)


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL, 2.9)
    axes = drawn.subplots(1, len(GRAPHS), sharey=True)
    horizon = np.array([1 / (1 - d) for d in DISCOUNTS])
    for ax, graph in zip(axes, GRAPHS, strict=True):
        for name in ("anytime-sda", "sda", "td, last", "td, averaged"):
            errors = _growth(results, graph, name)
            mark = style.MARKS[name]
            face = mark.color if mark.filled else "white"
            style.line(ax, mark, horizon, errors, marker=mark.marker, markerfacecolor=face)
            at = (horizon[-1] * 1.12, errors[-1])
            ax.text(*at, number(_exponent(errors), 2), color=mark.color, fontsize=6.5, va="center")
        style.listed_axis(ax, horizon.round())
        ax.set(yscale="log", xlabel=r"$1/(1-\gamma)$", xlim=(4.3, 190))
        ax.set_title(TITLES[graph])
    axes[0].set_ylabel(r"E max$_i\,\|\hat J_i - J^*\|_\infty$")
    names = ("anytime-sda", "sda", "td, last", "td, averaged")
    drawn.legend(
        handles=[style.key(style.MARKS[n]) for n in names],
        loc="outside lower center",
        ncols=4,
        handlelength=3,
    )
    return drawn


def explain(results: Results, settings: Settings) -> str:
    exponents = {s: [_exponent(_growth(results, g, s)) for g in GRAPHS] for s in ("anytime-sda", "td, last")}
    last = int(np.nanmax(results.column("rounds")))
    return (
        f"After {last} rounds the plug-in error grows like 1/(1 − γ) to the power "
        f"{number(min(exponents['anytime-sda']), 2)} to {number(max(exponents['anytime-sda']), 2)} (at the lines), "
        "below the 3/2 that Corollary 2 allows. "
        f"The last iterate of temporal differences grows with exponents {number(min(exponents['td, last']), 2)} to "
        f"{number(max(exponents['td, last']), 2)}, starting from a larger error."
    )


def _growth_claim(results: Results, settings: Settings) -> Finding:
    exponents = [_exponent(_growth(results, graph, "anytime-sda")) for graph in GRAPHS]
    low, high = extremes(exponents)
    kind = Verdict.HOLDS if high <= 1.5 else Verdict.FAILS
    return Finding(
        kind, float(np.median(exponents)), low, high, f"exponent {interval(float(np.median(exponents)), low, high, 2)}",
        f"γ in {{{', '.join(f'{d:g}' for d in DISCOUNTS)}}}; an upper bound, and not tight for this process",
    )  # fmt: skip


FIGURE = Figure(
    "10", "Errors against the effective horizon", pieces, draw, explain,
    (Claim("discount", "after Corollary 2", "The plug-in error grows at most like (1 − γ)^(-3/2).", _growth_claim),),
    ours=True,
)  # fmt: skip
