"""The paper's numerical results, figure by figure, and what became of each of its claims.

    networks, convergence, samples, star    Figures 1-5 of the paper
    beyond, bound                           Figures 6 and 7, ours
    settings, store, run                    what is asked, what is on disk, what runs in parallel
    claims, style, report                   verdicts, looks, the folder that a reader opens

`FIGURES` is the registry: a figure is one `Figure` object, and adding it here puts it into the command line, the
report and the claims table.
"""

from __future__ import annotations

from gossamer.experiments import beyond, bound, convergence, networks, samples, star
from gossamer.experiments.figure import Figure

FIGURES: tuple[Figure, ...] = (
    networks.FIGURE,
    convergence.FIGURE,
    samples.FIGURE_3,
    samples.FIGURE_4,
    star.FIGURE,
    beyond.FIGURE,
    bound.FIGURE,
)
"""In the order of the report."""
