"""Figure 3's verdicts, with data made to hold and to fail."""

from __future__ import annotations

import pytest
from tests.support.small_runs import judge, needs

from gossamer.paper.figures.figure_3_larger_accuracies import FIGURE
from gossamer.paper.pipeline.claims import Verdict


def test_sample_claims():
    usual = {"sda": (1, -0.6), "sstm_sc": (1e4, -2.0), "sstm_sc, tuned": (100, -1.1)}
    assert judge(FIGURE, "fewer", needs(usual)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "fewer", needs({**usual, "sstm_sc": (0.1, -0.6)})).verdict is Verdict.FAILS
    assert judge(FIGURE, "fewer", needs({**usual, "sstm_sc": (3, -0.6)})).verdict is Verdict.CAVEAT
    found = judge(FIGURE, "sstm-slope", needs(usual))
    assert found.verdict is Verdict.CAVEAT  # because tuned batches have another slope
    assert found.value == pytest.approx(-2.0)
    assert judge(FIGURE, "sstm-slope", needs({**usual, "sstm_sc, tuned": (9, -2)})).verdict is Verdict.HOLDS
    assert judge(FIGURE, "sstm-slope", needs({**usual, "sstm_sc": (9, -1.5)})).verdict is Verdict.FAILS
    assert judge(FIGURE, "sda-slope", needs(usual)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "sda-slope", needs({**usual, "sda": (1, -1.2)})).verdict is Verdict.FAILS
    assert judge(FIGURE, "neither", needs(usual)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "neither", needs(usual, 0.95)).verdict is Verdict.FAILS
