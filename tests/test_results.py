"""What every result offers, checked on one of each kind."""

from __future__ import annotations

import pickle
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt

import gossamer as gs
from gossamer.applications.policy import problems
from gossamer.arrays import same
from gossamer.results import Result

mpl.use("Agg")

NET = gs.Network.grid(3, 3)
OBS = gs.Gaussian(np.arange(9.0), 1.0)


def _problem() -> gs.PolicyEvaluation:
    return gs.PolicyEvaluation.from_problem(NET, problems.garnet(5, 2, seed=1))


def _values() -> gs.ValueEstimation:
    return gs.ValueEstimation.from_policy(_problem(), np.eye(5))


RESULTS = {
    "exact": lambda: gs.exact("sda", NET, OBS, [20, 50, 100]),
    "exact, one horizon": lambda: gs.exact("anytime-sda", NET, OBS, 50),
    "simulate": lambda: gs.simulate("sda", NET, OBS, [20, 50], 8),
    "simulate, random gossip": lambda: gs.simulate("pairwise", NET, OBS, [20, 50], 8),
    "faulty": lambda: gs.simulate(
        "anytime-sda",
        NET,
        OBS,
        [30, 60],
        6,
        faults=gs.faults.Faults(gs.faults.Loss(0.2), gs.faults.Crash(4, 20)),
    ),
    "plan": lambda: gs.plan(NET, OBS, 0.05),
    "plans": lambda: gs.plan(NET, OBS, [0.05, 0.01], ["sda", "anytime-sda"]),
    "tune": lambda: gs.tune("anytime-sda", NET, OBS, 40, "smoothing"),
    "compare": lambda: gs.compare(
        ["sda", "dsg"], {"a": NET, "b": gs.Network.path(9)}, OBS, [20, 50], trials=4
    ),
    "estimation": lambda: gs.LinearEstimation.random(NET, 2, 2).simulate("sda", [100, 200], 4),
    "evaluation": lambda: _problem().simulate("anytime-sda", [50, 100], 4),
    "values": lambda: _values().simulate("anytime-sda", [50, 100], 4),
    "values, several": lambda: _values().simulate(["anytime-sda", "dsg"], [50, 100], 4),
}


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return {name: make() for name, make in RESULTS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RESULTS)
def test_a_frame_is_tidy_in_both_libraries(results, kind):
    result = results[kind]
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert {"network", "method", "rounds"} <= set(frame.columns)
    assert len(frame) == len(result.records())
    assert not frame.duplicated(
        ["network", "method", "rounds", *(["target"] if "target" in frame else [])]
    ).any()
    other = result.to_frame("polars")
    assert isinstance(other, pl.DataFrame)
    assert other.columns == list(frame.columns)
    with pytest.raises(gs.InvalidInput, match="'pandas' or 'polars'"):
        result.to_frame("excel")


@pytest.mark.parametrize("kind", RESULTS)
def test_a_look_is_short(results, kind):
    text = repr(results[kind])
    assert type(results[kind]).__name__ in text
    assert len(text) < 400
    html = results[kind]._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == 1 + len(results[kind].records())
    assert ("<th>note</th>" in html) == any(row.get("note") for row in results[kind].records())


@pytest.mark.slow
@pytest.mark.parametrize("kind", RESULTS)
def test_equality_and_pickling(results, kind):
    result = results[kind]
    assert result == pickle.loads(pickle.dumps(result))
    assert result == RESULTS[kind]()
    assert result != RESULTS["exact" if kind != "exact" else "tune"]()


@pytest.mark.slow
@pytest.mark.parametrize("kind", RESULTS)
def test_a_plot_shows_limits_and_says_what_it_shows(results, kind):
    axes = np.atleast_1d(results[kind].plot())
    figure = axes[0].figure
    for ax in axes:
        assert ax.get_xlabel()
        assert ax.has_data()
    shown = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    if kind not in ("plans",):
        assert "centralized limit" in shown
    if kind in ("exact", "simulate", "compare", "tune", "plan"):
        assert "network limit" in shown
    figure.canvas.draw()
    _nothing_overlaps(figure)
    plt.close(figure)
    _, given = plt.subplots(1, len(axes))
    drawn = results[kind].plot(given)
    assert np.atleast_1d(drawn)[0] is np.atleast_1d(given)[0]
    plt.close("all")


def _nothing_overlaps(figure):
    """No two tick labels of an axis touch."""
    renderer = figure.canvas.get_renderer()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            boxes = [t.get_window_extent(renderer) for t in axis.get_ticklabels(which="both") if t.get_text()]
            inside = [b for b in boxes if ax.get_window_extent().padded(5).overlaps(b) or True]
            for i, a in enumerate(inside):
                assert not any(a.overlaps(b) for b in inside[:i]), (
                    f"tick labels of {ax.get_title()!r} overlap"
                )


def test_simulated_points_carry_error_bars_and_the_exact_curve():
    run = gs.simulate("sda", NET, OBS, [20, 50, 100], 8)
    ax = run.plot()
    assert len(ax.containers) == 1  # the error bars
    exact = next(line for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 3)
    np.testing.assert_allclose(exact.get_ydata(), gs.exact("sda", NET, OBS, [20, 50, 100]).total_error)
    plt.close("all")


def test_one_horizon_is_drawn_as_methods_below_each_other():
    ax = gs.compare(["sda", "dsg", "d-masg"], NET, OBS, 50).plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["sda", "dsg", "d-masg"]
    plt.close("all")


def test_notes_are_a_column():
    rows = gs.exact(gs.SDA(momentum=0.99, step_size=50.0), NET, OBS, [600]).records()
    assert "diverges" in rows[0]["note"]
    assert "samples per agent" in gs.exact(gs.SSTM(), NET, OBS, [50]).records()[0]["note"]
    crashed = gs.simulate("anytime-sda", NET, OBS, 60, 4, faults=gs.faults.Crash(4, 20)).records()[0]
    assert "8 of 9 agents alive" in crashed["note"]


def test_heavy_tails_are_warned_of_where_trials_are_held_against_exact_values():
    heavy = gs.StudentT(np.arange(9.0), 1.0, df=3.0)
    run = gs.simulate("sda", NET, heavy, 20, 4)
    assert "fourth moment" in run.records()[0]["note"]
    with pytest.warns(UserWarning, match="fourth moment"):
        assert run.expected.total_error > 0
    assert "fourth moment" in gs.compare("sda", NET, heavy, 20, trials=4).records()[0]["note"]
    assert gs.compare("sda", NET, heavy, 20).records()[0]["note"] == ""


def test_same_compares_values_of_any_kind():
    assert same({"a": [np.array([1.0, np.nan]), None]}, {"a": [np.array([1.0, np.nan]), None]})
    assert not same(np.zeros(2), np.zeros(3))
    assert not same([1], [2])
    assert same(float("nan"), float("nan"))


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (gs.Gaussian([0.0, 4.0], 2.0), ["<svg", "<circle", "Gaussian(2 agents, means 0 to 4, std 2)"]),
        (gs.Gaussian(np.zeros((3, 2)), 0.0), ["3 agents x 2 components"]),
        (gs.AnytimeSDA("local"), ["<caption>anytime-sda</caption>", "<td>acceleration</td><td>local</td>"]),
        (gs.SDA(), ["<td>step_size</td><td>chosen for the network</td>"]),
        (gs.faults.Crash(3, 20), ["1 fault<", "<td>crash</td><td>agent 3, round 20"]),
        (
            gs.faults.Faults(gs.faults.Loss(0.3), gs.faults.Partition(range(50), 2, 9)),
            ["2 faults", "probability 0.3", "groups [0, 1, 2", "..."],
        ),
    ],
    ids=["streams", "components", "method", "chosen", "fault", "faults"],
)
def test_notebooks_show_streams_methods_and_faults(shown, words):
    text = shown._repr_html_()
    ET.fromstring(f"<div>{text.replace('<br>', '<br/>')}</div>")  # every element is closed
    for word in words:
        assert word in text
    assert "nan" not in text


@pytest.mark.parametrize(("trials", "factor"), [(2, 12.706), (3, 4.303), (100, 1.984)])
def test_plotted_intervals_are_those_of_few_trials(trials, factor):
    run = gs.simulate("anytime-sda", "grid:3x3", gs.Gaussian(np.arange(9.0)), [10, 20], trials=trials)
    (half,) = (curve.half for curve in run.curves() if curve.half is not None)
    np.testing.assert_allclose(half, factor * run.stderr, rtol=1e-3)
