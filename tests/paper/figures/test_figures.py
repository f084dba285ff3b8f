"""Every figure at small size: finite numbers, all panels, two sentences, a judgment on each claim."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from tests.support.small_runs import TINY, rows_of

from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.report import judge
from gossamer.paper.registry import FIGURES
from gossamer.plotting import half_width

pytestmark = pytest.mark.xdist_group("figures")  # one worker, so that figures share their pieces


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=[f.name for f in FIGURES])
def test_figure_at_small_size(figure, store):
    results = rows_of(figure, TINY, store)
    assert np.all(np.isfinite(results.column("value")))
    with style.paper_style():
        drawn = figure.draw(results, TINY)
        drawn.savefig(io.BytesIO(), format="png")
    panels = [ax for ax in drawn.axes if ax.lines or ax.collections]
    assert len(panels) >= {"5": 1, "6": 10, "8": 3, "10": 3, "11": 4}.get(figure.name, 5)
    sentences = re.findall(r"[.!](?= [A-Z0-9]|$)", figure.explain(results, TINY))
    assert len(sentences) == 2
    judged = judge([figure], {figure.name: results}, TINY)
    assert all(np.isfinite([j.finding.value, j.finding.low, j.finding.high]).all() for j in judged)
    assert all(j.finding.measured and j.finding.reason for j in judged)


@pytest.mark.slow
def test_simulations_agree_with_exact_errors(store):
    """Of the marks in Figures 2 and 5, most lie within four standard errors of their line (fixed seed)."""
    for figure in (FIGURES[1], FIGURES[4]):
        results = rows_of(figure, TINY, store)
        runs = results.where(source="simulation", quantity="total_error").sort(
            "graph", "method", "agents", "rounds"
        )
        keep = tuple(runs.distinct("method"))
        truth = results.where(source="exact", quantity="total_error", method=keep).sort(
            "graph", "method", "agents", "rounds"
        )
        error = (runs.column("high") - runs.column("low")) / 2 / half_width(1.0, TINY.trials)
        off = np.abs(runs.column("value") - truth.column("value")) / error
        assert np.mean(off < 4) > 0.9
