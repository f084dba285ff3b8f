"""The style of all plots, and the function that plots errors against rounds.

The first seven colors are those of Okabe and Ito (2008), which color-blind readers can tell apart; markers and dashes
stay apart in gray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.legend import Legend
    from matplotlib.ticker import Locator

Panels: TypeAlias = "Axes | Sequence[Axes] | NDArray[np.object_]"
"""The axes of one panel, or of several as `plt.subplots` returns them."""

RcSettings: TypeAlias = dict[Any, Any]
"""Settings of Matplotlib, of any version: its types list the names that one version has."""

BLACK, GRAY, LIGHT = "#000000", "#555555", "#BBBBBB"
ORANGE, SKY, GREEN, BLUE, RED, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"

COLORS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY, BLACK, "#882255", "#999933", "#6A3D9A", "#8C564B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[str | tuple[int, tuple[int, ...]], ...] = (
    "-",
    "--",
    "-.",
    (0, (5, 1)),
    (0, (3, 1, 1, 1)),
    ":",
    "-",
)
# 11 colors, 8 markers and 7 dashes: no two of the first 616 lines look the same

BASE: RcSettings = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # fonts that stay text in a PDF
}
"""Matplotlib settings of all plots."""

STYLE: RcSettings = {**BASE, "font.size": 10, "grid.alpha": 0.25, "svg.fonttype": "none", "figure.dpi": 150}
"""Matplotlib settings of the figures created by `plot` methods."""

LEGEND_WIDTH = 2.6  # inches

TOTAL_ERROR = r"$E\,\sum_i\|\hat\theta_i-\bar\mu\|^2$"
PARAMETER_ERROR = r"$E\,\sum_i\|\hat\beta_i-\beta^*\|^2$"
VALUE_ERROR = r"$E\,\max_i\|\hat J_i-J^*\|_\infty$"


class Curve(NamedTuple):
    """Values against rounds (or against something else), under one name.

    half    half of their 95% intervals: then points with intervals are drawn, joined by a thin line unless another
            curve of the same label is the line
    limit   whether this is a reference value rather than a method, drawn as a thin gray line
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    half: ArrayLike | None = None
    limit: bool = False


def half_width(stderr: ArrayLike, trials: int) -> Any:
    """Return half of the 95% interval of a mean over independent trials with this standard error (Student's t)."""
    from scipy.special import stdtrit  # loaded by every simulation

    return np.asarray(stderr, dtype=float) * (stdtrit(trials - 1, 0.975) if trials > 1 else np.nan)


def panels(titles: Sequence[str], width: float = 4.2) -> Sequence[Axes]:
    """Create a figure with one panel per title, side by side, and room for a legend on the right."""
    plt = require("matplotlib.pyplot", "plot")
    with plt.rc_context(STYLE):
        down = -(-len(titles) // 4)
        across = -(-len(titles) // down)
        _, axes = plt.subplots(
            down,
            across,
            figsize=(width * across + LEGEND_WIDTH, 3.9 * down),
            layout="constrained",
            squeeze=False,
        )
        for ax, title in zip(axes.flat, titles, strict=False):
            ax.set_title("\n".join(wrap(title, 12 * round(width))), loc="left", parse_math=False)
        for ax in axes.flat[len(titles) :]:
            ax.set_axis_off()
    return list(axes.flat[: len(titles)])


def axes_for(titles: Sequence[str], given: Panels | None) -> Sequence[Axes]:
    """One axes for each title: those given, or a new figure's."""
    if given is None:
        return panels(titles)
    axes: list[Axes] = list(np.atleast_1d(np.asarray(given, dtype=object)).ravel())
    if len(axes) != len(titles):
        raise InvalidInput(
            f"one axes for each of the {len(titles)} networks is needed, got {len(axes)}; "
            f"make them with plt.subplots(1, {len(titles)}), or leave ax out"
        )
    return axes


def draw_curves(
    ax: Axes, curves: Sequence[Curve], ylabel: str = TOTAL_ERROR, xlabel: str = "rounds $T$"
) -> None:
    """Curves on log scales; for a single value of x, the methods below each other, with their y along the axis.

    Curves of the same label share their color: a line for exact values, points with intervals for simulated ones.
    """
    if not curves:
        return
    places = np.unique(np.concatenate([np.atleast_1d(curve.x) for curve in curves]))
    if len(places) == 1:
        _draw_dots(ax, curves, f"{ylabel},  {xlabel} = {_plain(places[0])}")
        return
    looks = _looks(curves)
    simulated = {curve.label for curve in curves if curve.half is not None}
    lines = {curve.label for curve in curves if curve.half is None}
    for curve in curves:
        x, y = np.atleast_1d(curve.x), np.atleast_1d(curve.y).astype(float)
        every = max(1, len(x) // 8)
        if curve.limit:
            ax.plot(
                x, y, label=curve.label, color=GRAY, linewidth=1, linestyle=_limit_dashes(curve), zorder=1
            )
            continue
        look = looks[curve.label]
        if curve.half is None:
            ax.plot(
                x,
                y,
                label=curve.label,
                color=look.color,
                marker=look.marker if len(x) <= 40 and curve.label not in simulated else "",
                linestyle=look.dashes,
                markevery=every,
                markersize=5,
            )
        else:
            given = curve.label in ax.get_legend_handles_labels()[1]
            ax.errorbar(
                x,
                y,
                yerr=_downward_visible(y, np.atleast_1d(curve.half).astype(float)),
                label=None if given else curve.label,
                color=look.color,
                marker=look.marker,
                markersize=5,
                markerfacecolor="white",
                linestyle="none" if curve.label in lines else look.dashes,
                linewidth=0.8,
                elinewidth=1.5,
                markevery=every,
                errorevery=every,
                capsize=2,
            )
    ax.set(xscale="log", yscale=_scale(curves), xlabel=xlabel, ylabel=ylabel)
    _explain(ax, curves)
    log_ticks(ax.xaxis, room=38)
    log_ticks(ax.yaxis, room=18)


def legend(axes: Sequence[Axes]) -> None:
    """Add one legend for all panels, outside of them."""
    entries: dict[str, Artist] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries = {**dict(zip(labels, handles, strict=True)), **entries}
    if entries:
        figure = axes[0].figure.figure
        width, height = figure.get_size_inches()
        columns = -(-len(entries) // int(4 * height))  # four lines of text to the inch
        figure.set_size_inches(width + LEGEND_WIDTH * (columns - 1), height)
        _fill_legend(figure.legend, entries, loc="outside right upper", ncols=columns)


def _fill_legend(make: Callable[..., Legend], entries: Mapping[str, Artist], **where: str | int) -> None:
    """The methods, then what they are measured by; the names are not read as formulas."""
    names = sorted(entries, key=lambda name: getattr(entries[name], "get_color", str)() == GRAY)
    wrapped = ["\n".join(wrap(name, 28)) for name in names]
    for text in make([entries[name] for name in names], wrapped, frameon=False, **where).get_texts():
        text.set_parse_math(False)


def draw_errors(given: Panels | None, curves: Sequence[Curve], title: str, ylabel: str = TOTAL_ERROR) -> Axes:
    """Draw on the given axes, or on a new figure with its legend outside; return the axes."""
    (ax,) = axes_for([title], given)
    draw_curves(ax, curves, ylabel)
    if given is None:
        legend([ax])
    else:
        handles, labels = ax.get_legend_handles_labels()
        _fill_legend(ax.legend, dict(zip(labels, handles, strict=True)))
    return ax


def _draw_dots(ax: Axes, curves: Sequence[Curve], label: str) -> None:
    """The methods below each other, their values along the x axis, limits as vertical lines."""
    methods = list(dict.fromkeys(curve.label for curve in curves if not curve.limit))
    looks = _looks(curves)
    for curve in curves:
        value = float(np.atleast_1d(curve.y)[0])
        if curve.limit:
            ax.axvline(
                value, label=curve.label, color=GRAY, linewidth=1, linestyle=_limit_dashes(curve), zorder=1
            )
            continue
        row, look = methods.index(curve.label), looks[curve.label]
        if curve.half is None:
            ax.plot([value], [row], color=look.color, marker=look.marker, linestyle="none")
        else:
            ax.errorbar(
                [value],
                [row],
                xerr=_downward_visible(np.array([value]), np.atleast_1d(curve.half).astype(float)),
                color=look.color,
                marker=look.marker,
                markerfacecolor="white",
                linestyle="none",
                capsize=2,
            )
    ax.set(xscale=_scale(curves), xlabel=label, ylim=(len(methods) - 0.5, -0.5))
    ax.set_yticks(range(len(methods)), methods, parse_math=False)
    if _explain(ax, curves):
        ax.plot([], [], "o", color=GRAY, label="exact")
    log_ticks(ax.xaxis, room=24)


def _explain(ax: Axes, curves: Sequence[Curve]) -> bool:
    """Where there are exact and simulated values, let the legend say which points are simulated."""
    both = {curve.half is None for curve in curves if not curve.limit} == {True, False}
    if both:
        ax.plot(
            [], [], "o", color=GRAY, markersize=5, markerfacecolor="white", label="simulated, 95% interval"
        )
    return both


class _Look(NamedTuple):
    """How a method is drawn."""

    color: str
    marker: str
    dashes: str | tuple[int, tuple[int, ...]]


def _looks(curves: Sequence[Curve]) -> dict[str, _Look]:
    """Return how each method is drawn, so that neighbors differ in color, marker and dashes."""
    labels = dict.fromkeys(curve.label for curve in curves if not curve.limit)
    looks = map(_Look, cycle(COLORS), cycle(MARKERS), cycle(DASHES))
    return dict(zip(labels, looks, strict=False))


def _limit_dashes(curve: Curve) -> str:
    return {"network limit": ":", "centralized limit": "-"}.get(curve.label, "--")


def _downward_visible(values: Floats, spread: Floats) -> Floats:
    """Return (2, H) lengths of error bars that stay above zero, where a log scale ends; none where they are unknown."""
    spread = np.where(np.isfinite(spread), spread, 0.0)
    return np.stack([np.minimum(spread, 0.95 * np.abs(values)), spread])


def _scale(curves: Sequence[Curve]) -> str:
    """Return the scale of the values: a log scale, unless none of them can be shown on it."""
    values = np.concatenate([np.atleast_1d(curve.y).astype(float) for curve in curves])
    return "log" if np.any(np.isfinite(values) & (values > 0)) else "linear"


def log_ticks(axis: XAxis | YAxis, room: int) -> None:
    """Set labels on a log axis that has room for this many characters (lines on the y axis), without overlaps."""
    from matplotlib.ticker import (
        FuncFormatter,
        LogFormatterSciNotation,
        LogLocator,
        MaxNLocator,
        NullFormatter,
    )

    if axis.get_scale() != "log":
        return
    low, high = sorted(axis.get_view_interval())

    def fits(locator: Locator, least: int) -> bool:
        ticks = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
        places = room * np.log(ticks) / np.log(high / low)
        sizes = np.array([len(_plain(tick)) if axis.axis_name == "x" else 1 for tick in ticks])
        return len(ticks) >= least and bool(np.all(np.diff(places) > (sizes[1:] + sizes[:-1]) / 2 + 0.7))

    dense, sparse = (LogLocator(subs=subs, numticks=100) for subs in ((1.0, 2.0, 5.0), (1.0, 3.0)))
    even = [MaxNLocator(count, steps=[1, 2, 5, 10]) for count in (5, 4, 3, 2)] if high < 12 * low else []
    fitting = [
        *(locator for locator in (dense, sparse) if fits(locator, 3)),
        *(locator for locator in even if fits(locator, 2)),
    ]
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_locator(fitting[0] if fitting else LogLocator(numticks=7))
    axis.set_major_formatter(FuncFormatter(_plain) if fitting else LogFormatterSciNotation())


def _plain(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
