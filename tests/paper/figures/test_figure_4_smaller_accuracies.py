"""Figure 4's verdicts, with data made to hold and to fail."""

from __future__ import annotations

import pytest
from tests.support.small_runs import FEW_STAGES, judge, needs

from gossamer.paper.figures.figure_4_smaller_accuracies import FIGURE
from gossamer.paper.pipeline.claims import Verdict


@pytest.mark.parametrize(
    ("power", "expected"), [(-0.97, Verdict.HOLDS), (-0.8, Verdict.CAVEAT), (-0.6, Verdict.FAILS)]
)
def test_slope_for_small_accuracies(power, expected):
    rows = needs({"sda": (1, power)}, epsilons=FEW_STAGES.small)
    assert judge(FIGURE, "small-slope", rows).verdict is expected


@pytest.mark.parametrize(
    ("part", "expected"), [(0.95, Verdict.HOLDS), (0.7, Verdict.CAVEAT), (0.3, Verdict.FAILS)]
)
def test_dominating_term(part, expected):
    rows = needs({"sda": (1, -1)}, part, epsilons=FEW_STAGES.small)
    assert judge(FIGURE, "dominates", rows).verdict is expected
