"""The figures of the report, in its order.

A figure is one `Figure` object; adding it here puts it into the command line, the report and the claims table.
"""

from __future__ import annotations

from gossamer.paper.figures import applications, beyond, bound, convergence, networks, samples, star
from gossamer.paper.pipeline.figure import Figure

FIGURES: tuple[Figure, ...] = (
    networks.FIGURE,
    convergence.FIGURE,
    samples.FIGURE_3,
    samples.FIGURE_4,
    star.FIGURE,
    beyond.FIGURE,
    bound.FIGURE,
    *applications.FIGURES,
)
"""In the order of the report."""
