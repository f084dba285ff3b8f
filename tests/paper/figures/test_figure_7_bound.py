"""Figure 7's verdict, with data made to hold and to fail."""

from __future__ import annotations

from tests.support.small_runs import judge

from gossamer.paper.figures.figure_7_bound import FIGURE
from gossamer.paper.pipeline.claims import Verdict
from gossamer.paper.shared.problem import GRAPHS


def test_bound_claim():
    def rows(low):
        base = {"experiment": "bound", "rounds": 100}
        parts = [
            {**base, "graph": g, "source": s, "value": 1.0} for g in GRAPHS for s in ("exact", "theorem 1")
        ]
        facts = [{"experiment": "bound", "graph": g, "quantity": "k*", "value": 10} for g in GRAPHS]
        slack = [{"experiment": "bound", "quantity": "slack", "value": 3.0, "low": low, "high": 9.0}]
        return parts + facts + slack

    assert judge(FIGURE, "theorem-1", rows(1.2)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "theorem-1", rows(0.99)).verdict is Verdict.FAILS
