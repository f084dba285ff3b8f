"""Figure 1's verdicts, with data made to hold and to fail."""

from __future__ import annotations

from tests.support.small_runs import judge

from gossamer.paper.figures.figure_1_networks import FIGURE
from gossamer.paper.pipeline.claims import Verdict
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared.problem import GRAPHS


def kappas(values, random):
    rows = [
        {"graph": g, "draw": 0, "quantity": "condition number", "value": v}
        for g, v in zip(GRAPHS, values, strict=False)
    ]
    return rows + [
        {"graph": "erdos-renyi", "draw": d, "quantity": "condition number", "value": v}
        for d, v in enumerate(random)
    ]


def test_condition_numbers():
    paper = [4052, 1013, 100, 76]
    assert judge(FIGURE, "kappas", kappas(paper, [11.5] * 20)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "kappas", kappas(paper, [6.0] * 20)).verdict is Verdict.CAVEAT
    assert judge(FIGURE, "kappas", kappas([4000, 900, 100, 76], [11.5] * 20)).verdict is Verdict.FAILS
    assert judge(FIGURE, "kappas", kappas(paper, [11.0]), Settings(agents=400)) is None


def test_order_of_condition_numbers():
    assert judge(FIGURE, "decreasing", kappas([9, 8, 7, 6], [5.0] * 50)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "decreasing", kappas([9, 8, 7, 6], [5.0] * 6 + [7.0] * 4)).verdict is Verdict.CAVEAT
    assert judge(FIGURE, "decreasing", kappas([9, 8, 8.5, 6], [5.0] * 50)).verdict is Verdict.FAILS
