"""The style of the figures: vector fonts, Okabe-Ito colors, and markers that can be distinguished in gray."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Picture
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import ArrayLike

from gossamer import plotting
from gossamer.arrays import Floats
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.settings import Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import LineStyleType

FULL = 7.2  # inches: the text width of a paper with one column
BLACK, GRAY, LIGHT = plotting.BLACK, plotting.GRAY, plotting.LIGHT
ORANGE, SKY, GREEN = plotting.ORANGE, plotting.SKY, plotting.GREEN
BLUE, RED, PURPLE = plotting.BLUE, plotting.RED, plotting.PURPLE

RC: plotting.RcSettings = {
    **plotting.BASE,
    "ps.fonttype": 42,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.2,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "savefig.dpi": 200,
}


class Mark(NamedTuple):
    """The line and marker of a method, the same in all figures."""

    label: str
    color: str
    line: LineStyleType
    marker: str
    filled: bool = True


MARKS = {
    "sda": Mark("SDA", BLUE, "-", "o"),
    "d-masg": Mark("D-MASG", RED, (0, (4, 1.5)), "s", False),
    "dsg": Mark("DSG", GREEN, (0, (4, 1.2, 1, 1.2)), "^"),
    "sstm_sc": Mark("SSTM$_{sc}$", ORANGE, (0, (4, 1.5)), "D"),
    "sstm_sc, tuned": Mark("SSTM$_{sc}$, tuned batches", GRAY, (0, (1, 1.3)), ""),
    "nesterov": Mark("Anytime SDA, Nesterov", RED, (0, (4, 1.5)), "s", False),
    "chebyshev": Mark("Anytime SDA, Chebyshev", GREEN, (0, (4, 1.2, 1, 1.2)), "^"),
    "heavy-ball": Mark("Anytime SDA, heavy ball", SKY, (0, (6, 1)), "v", False),
    "local": Mark("Anytime SDA, local", PURPLE, (0, (2, 1)), "x"),
    "network limit": Mark("network limit", BLACK, (0, (1, 1.3)), ""),
    "centralized limit": Mark("centralized limit", GRAY, "-", ""),
    "alone": Mark("an agent alone (no messages)", GRAY, (0, (1, 1.3)), ""),
    "anytime-sda": Mark("Anytime SDA", RED, (0, (4, 1.5)), "s", False),
    "xiao-boyd-lall": Mark("Xiao–Boyd–Lall, all samples first", BLACK, (0, (1, 1.3)), "v"),
    "kar-moura, lu": Mark("Kar–Moura, LU", ORANGE, (0, (4, 1.5)), "D"),
    "kar-moura, mixed": Mark("Kar–Moura, mixed", PURPLE, "-", "X"),
    "td, last": Mark("TD(0), last iterate", ORANGE, (0, (4, 1.5)), "D"),
    "td, averaged": Mark("TD(0), averaged", PURPLE, (0, (4, 1.2, 1, 1.2)), "X"),
    "centralized": Mark("centralized", GRAY, "-", ""),
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Apply the style of the figures inside the block."""
    with mpl.rc_context(RC), warnings.catch_warnings():
        # Matplotlib warns if a panel has nothing to lay out, which is intended here.
        warnings.simplefilter("ignore", UserWarning)
        yield


def picture(width: float, height: float) -> Picture:
    """Return an empty figure that needs no window system."""
    return Picture(figsize=(width, height), layout="constrained")


def line(axes: Axes, mark: Mark, x: ArrayLike, y: ArrayLike, **changes: Any) -> None:
    """Draw an exact curve."""
    options = {"color": mark.color, "linestyle": mark.line, **changes}
    axes.plot(x, y, **options)


def points(
    axes: Axes, mark: Mark, x: ArrayLike, rows: Results, transform: Callable[[Floats], Floats] = np.asarray
) -> None:
    """Draw simulated values with their 95% intervals."""
    value, low, high = (np.asarray(rows.column(name), dtype=float) for name in ("value", "low", "high"))
    value, low, high = transform(value), transform(low), transform(high)
    axes.errorbar(
        x,
        value,
        yerr=np.maximum(0, [value - low, high - value]),
        fmt=mark.marker,
        color=mark.color,
        markerfacecolor=mark.color if mark.filled else "white",
        markeredgewidth=0.9,
        elinewidth=0.8,
        capsize=1.8,
        capthick=0.8,
        zorder=3,
    )


def key(mark: Mark, label: str | None = None, marker: bool = True) -> Line2D:
    """Return a legend entry: line and marker of a method."""
    return Line2D(
        [],
        [],
        color=mark.color,
        linestyle=mark.line,
        marker=mark.marker if marker else "",
        markerfacecolor=mark.color if mark.filled else "white",
        label=mark.label if label is None else label,
    )


def bound_key(corollary: str) -> Line2D:
    """Return a legend entry: the thin line of a corollary's bound."""
    entry = key(Mark(f"{corollary} (SDA)", BLUE, "-", ""))
    entry.set_linewidth(0.6)
    return entry


def legend_panel(axes: Axes, keys: Sequence[Line2D], note: str) -> None:
    """Put the legend into a panel of its own, so that it covers no data."""
    axes.axis("off")
    corner = (-0.02, 1.04)
    axes.legend(handles=keys, loc="upper left", bbox_to_anchor=corner, handlelength=3.2, borderaxespad=0)
    text: dict[str, Any] = {"va": "top", "fontsize": 7, "color": GRAY, "linespacing": 1.35}
    axes.text(0.0, 0.97 - 0.115 * len(keys), note, transform=axes.transAxes, **text)


def marks_note(settings: Settings) -> str:
    return f"lines: exact\nmarks: mean of {settings.trials} runs and its\n95% interval"


def listed_axis(axes: Axes, values: Iterable[float]) -> None:
    """Make the x axis logarithmic, with ticks only at these numbers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(values)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{value:.0f}" for value in values])


def rounds_axis(axes: Axes, rounds: Iterable[float]) -> None:
    """Make the x axis logarithmic, with a tick at every other number of rounds."""
    listed_axis(axes, sorted({int(t) for t in rounds})[::2])


def save(drawn: Picture, stem: Path) -> list[Path]:
    """Write PNG and PDF without a date inside, so that equal results give equal files."""
    paths = []
    # The layout is the slow part and the same for both.
    drawn.draw_without_rendering()
    drawn.set_layout_engine(None)
    for kind, metadata in (("png", {}), ("pdf", {"CreationDate": None})):
        path = stem.with_suffix(f".{kind}")
        drawn.savefig(path, metadata=metadata)
        paths.append(path)
    return paths
