"""Figure 5's verdicts, with data made to hold and to fail."""

from __future__ import annotations

from tests.support.small_runs import judge

from gossamer.paper.figures.figure_5_stars import FIGURE
from gossamer.paper.pipeline.claims import Verdict


def stars(sda, masg, alone):
    base = {"quantity": "total_error", "source": "exact"}
    return [
        {**base, "agents": n, "method": m, "value": v * n**0.5}
        for n in (100, 400) for m, v in (("sda", sda), ("d-masg", masg), ("alone", alone))
    ]  # fmt: skip


def test_star_claims():
    assert judge(FIGURE, "superior", stars(1, 2, 3)).verdict is Verdict.HOLDS
    assert judge(FIGURE, "superior", stars(1, 2, 0.5)).verdict is Verdict.CAVEAT
    assert judge(FIGURE, "superior", stars(2, 1, 3)).verdict is Verdict.FAILS
    slopes = [
        {"method": "sda", "quantity": "slope", "source": "exact", "value": 0.52},
        {
            "method": "sda",
            "quantity": "slope",
            "source": "simulation",
            "value": 0.53,
            "low": 0.5,
            "high": 0.56,
        },
    ]
    assert judge(FIGURE, "star-sda", slopes).verdict is Verdict.HOLDS
    assert judge(FIGURE, "star-sda", [{**row, "value": 0.8} for row in slopes]).verdict is Verdict.FAILS
