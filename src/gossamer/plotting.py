"""The look that all plots share: colors that color-blind readers can tell apart, marks that stay apart in gray.

The colors are those of Okabe and Ito (2008).
"""

from __future__ import annotations

from typing import Any

BLACK, GRAY, LIGHT = "#000000", "#555555", "#BBBBBB"
ORANGE, SKY, GREEN, BLUE, RED, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"

COLORS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = (
    "o",
    "s",
    "^",
    "D",
    "v",
    "P",
    "X",
    "*",
)  # one more than colors: the eighth line differs from the first
DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), ":", "-")

BASE: dict[str, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # fonts that stay text in a PDF
}
"""Matplotlib settings that every plot starts from."""
