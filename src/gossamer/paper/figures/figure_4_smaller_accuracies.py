"""Figure 4: samples per agent for smaller accuracies, SDA alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossamer.paper.pipeline.claims import Claim, Finding, extremes, listed, near, number, verdict
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared.problem import GRAPHS, TITLES
from gossamer.paper.shared.samples import averaging_shares, by_graph, draw_samples, fitted_slopes, main_pieces

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def draw(results: Results, settings: Settings) -> Picture:
    return draw_samples(results, settings, settings.small, ("sda",))


def explain(results: Results, settings: Settings) -> str:
    slopes = {
        TITLES[g]: fitted_slopes(results, "sda", settings.small)[k].mean() for k, g in enumerate(GRAPHS)
    }
    part = averaging_shares(results, settings.small)
    return (
        f"For small ε the slopes come closer to −1: {listed(slopes, 2)}. "
        f"The 1/T term makes up {100 * part.min():.0f}–{100 * part.max():.0f}% of the error here, least on "
        f"{TITLES[GRAPHS[int(part.min(axis=(1, 2)).argmin())]]}; −1 is the limit as it goes to 100%."
    )


# -- the claims --------------------------------------------------------------------------------------------


def _small_slope(results: Results, settings: Settings) -> Finding:
    slopes = fitted_slopes(results, "sda", settings.small)
    low, high = extremes(slopes)
    return Finding(
        near(slopes, -1.0, close=0.1, loose=0.25), float(np.median(slopes)), low, high, by_graph(slopes),
        f"furthest from −1: {TITLES[GRAPHS[int(np.argmax(slopes.max(axis=1)))]]} ({number(high, 3)}); "
        "the limit −1 is approached from above as the mixing term fades",
    )  # fmt: skip


def _dominates(results: Results, settings: Settings) -> Finding:
    part = averaging_shares(results, settings.small)
    low, high = extremes(part)
    return Finding(
        verdict(low > 0.5, caveat=low < 0.9), float(np.median(part)), low, high,
        f"the 1/T term is {100 * low:.0f}–{100 * high:.0f}% of the error",
        "per graph at the largest and smallest ε: " + ", ".join(
            f"{TITLES[g]} {100 * np.median(p[:, -1]):.0f}→{100 * np.median(p[:, 0]):.0f}%"
            for g, p in zip(GRAPHS, part, strict=True)
        ),
    )  # fmt: skip


CLAIMS = (
    Claim(
        "small-slope",
        "Sec. 5.2",
        "For small ε the slope of SDA is approximately −1 on each graph.",
        _small_slope,
    ),
    Claim("dominates", "Sec. 5.2", "At these ε the O(1/ε) term dominates.", _dominates),
)

FIGURE = Figure("4", "Samples for smaller ε: SDA", main_pieces, draw, explain, CLAIMS)
