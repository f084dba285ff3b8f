"""Plots as a reader sees them: labels apart, the legend outside, every line known, every name as it is."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from gossamer import plotting
from gossamer.plotting import Curve


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def drawn(ax):
    ax.figure.canvas.draw()
    return ax


def boxes(axis):
    """Where the labels of an axis that can be read are, by their place along it."""
    low, high = sorted(axis.get_view_interval())
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    found = [tick.label1.get_window_extent() for tick in ticks if tick.label1.get_text()]
    assert len(found) >= 2
    return found


CURVES = {
    "narrow": ([100, 110, 121], [0.0102, 0.0099, 0.0091]),
    "six times": ([21, 50, 130], [0.21, 0.5, 1.3]),
    "a decade": ([10, 40, 90], [0.5, 0.02, 0.009]),
    "two decades": ([10, 100, 1000], [0.5, 0.02, 0.004]),
    "thousands": ([1000, 3000, 12_000], [5000.0, 700.0, 90.0]),
    "many decades": ([1, 1000, 10**7], [1e4, 1.0, 1e-9]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("x", "y"), CURVES.values(), ids=CURVES)
@pytest.mark.parametrize("panels", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_labels_never_collide(x, y, panels):
    axes = plotting.panels([f"network {k}" for k in range(panels)])
    for ax in axes:
        plotting.draw_curves(
            ax, [Curve("sda", x, y), Curve("dsg", x, np.multiply(y, 2.5), np.multiply(y, 0.2))]
        )
    plotting.legend(axes)
    drawn(axes[0])  # one figure has them all
    for ax in axes:
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes(ax.xaxis)))
        assert all(a.y1 < b.y0 for a, b in pairwise(boxes(ax.yaxis)))


@pytest.mark.parametrize("spread", [1.05, 3, 6.2, 13, 40, 300, 1e6])
@pytest.mark.slow
def test_labels_of_a_single_horizon_never_collide(spread):
    curves = [
        Curve(f"anytime-sda, chebyshev {k}", [300], [0.003 * spread ** (k / 4)], [0.0008]) for k in range(5)
    ]
    axes = plotting.panels(["one", "two", "three"])
    for ax in axes:
        plotting.draw_curves(ax, [*curves, Curve("centralized limit", [300], [0.0029], limit=True)])
    plotting.legend(axes)
    drawn(axes[0])  # one figure has them all
    for ax in axes:
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes(ax.xaxis)))
        assert [label.get_text() for label in ax.get_yticklabels()] == [curve.label for curve in curves]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 8, 30])
def test_the_legend_is_outside_and_whole_and_limits_come_last(count):
    curves = [Curve("centralized limit", [1, 9], [1, 2], limit=True)]
    curves += [Curve(f"method {k}", [1, 9], [k + 1, k + 2]) for k in range(count)]
    ax = drawn(plotting.draw_errors(None, curves, "title"))
    (legend,) = ax.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        *(f"method {k}" for k in range(count)),
        "centralized limit",
    ]
    box, page = legend.get_window_extent(), ax.figure.bbox
    assert box.x0 > ax.get_window_extent().x1
    assert box.y0 >= 0
    assert box.x1 <= page.x1 + 1
    assert ax.get_window_extent().width > 300


def test_no_two_methods_look_the_same():
    ax = plotting.draw_errors(None, [Curve(f"m{k}", [1, 2], [1, k + 1]) for k in range(40)], "title")
    lines = ax.get_lines()
    assert len({to_hex(line.get_color()) for line in lines[:11]}) == 11
    assert len({(line.get_color(), line.get_marker(), str(line._dash_pattern)) for line in lines}) == 40


def test_simulated_points_are_joined_unless_there_is_an_exact_line():
    curves = [
        Curve("both", [1, 2, 4], [4, 2, 1]),
        Curve("both", [1, 2, 4], [4, 2, 1], [0.1] * 3),
        Curve("alone", [1, 2, 4], [8, 4, 2], [0.1] * 3),
    ]
    ax = plotting.draw_errors(None, curves, "title")
    both, alone = (container.lines[0] for container in ax.containers)
    assert both.get_linestyle() == "None"
    assert alone.get_linestyle() != "None"
    labels = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert sorted(labels) == ["alone", "both", "simulated, 95% interval"]


@pytest.mark.parametrize("ax", [None, "own"])
@pytest.mark.parametrize("x", [[5], [5, 9]])
def test_names_are_not_formulas(ax, x):
    name = "costs $x_{ and $y^"
    given = plt.subplots()[1] if ax else None
    drawn(plotting.draw_errors(given, [Curve(name, x, x), Curve("b", x, x, x)], name))


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("x", [[5], [5, 9]])
def test_values_that_no_log_scale_shows(value, x):
    drawn(plotting.draw_errors(None, [Curve("a", x, [value] * len(x))], "title"))


@pytest.mark.slow
def test_panels_are_dealt_evenly():
    for count, across in ((1, 1), (4, 4), (5, 3), (8, 4), (9, 3)):
        axes = plotting.panels([str(k) for k in range(count)])
        assert len(axes) == count
        assert axes[0].get_gridspec().ncols == across
