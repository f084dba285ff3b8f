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


def test_anytime_bound_claim():
    def rows(bound):
        base = {"experiment": "bound", "method": "anytime-sda", "quantity": "total_error"}
        exact = [
            {**base, "graph": g, "source": "exact", "rounds": t, "value": 1 / t}
            for g in GRAPHS
            for t in (5, 10, 20)
        ]
        covered = [
            {**base, "graph": g, "source": "theorem 3", "rounds": t, "value": bound / t}
            for g in GRAPHS
            for t in (10, 20)
        ]
        return exact + covered

    assert judge(FIGURE, "theorem-3", rows(1.01)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "theorem-3", rows(0.99)).verdict is Verdict.FAILS


def test_claims_about_the_orders_of_the_error():
    def rows(ours, papers=2.0, star=1.5, path=0.75):
        base = {"experiment": "orders", "graph": "star", "source": "exact", "quantity": "leading constant"}
        slopes = {"star": star, "path": path}
        return [
            {**base, "method": "anytime-sda", "value": ours},
            {**base, "method": "sda", "value": papers},
            *({**base, "graph": g, "quantity": "slope", "value": v} for g, v in slopes.items()),
        ]

    assert judge(FIGURE, "leading-constant", rows(1.001)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "leading-constant", rows(1.01)).verdict is Verdict.CAVEAT
    assert judge(FIGURE, "leading-constant", rows(1.001, papers=1.0)).verdict is Verdict.FAILS
    assert judge(FIGURE, "second-order", rows(1.0, path=0.72)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "second-order", rows(1.0, path=0.6)).verdict is Verdict.CAVEAT
    assert judge(FIGURE, "second-order", rows(1.0, star=1.0)).verdict is Verdict.FAILS
