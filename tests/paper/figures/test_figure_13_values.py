"""Figure 13: the claims follow the numbers, and the rows of an environment have every curve."""

from __future__ import annotations

import pytest
from tests.support.small_runs import judge

from gossamer.paper.figures.figure_13_values import (
    ENVIRONMENTS,
    FIGURE,
    GRAPHS,
    HORIZONS,
    MARKS,
    TD,
    curves,
    learning_values,
)
from gossamer.paper.pipeline.claims import Verdict
from gossamer.paper.pipeline.results import Results


def rows(ours=1.05, rival=5.0):
    common = {"quantity": "over_limit", "rounds": HORIZONS[-1]}
    return [
        {
            **common,
            "experiment": f"values {name}",
            "graph": graph,
            "method": method,
            "value": value,
            "low": 0.9 * value,
            "high": 1.05 * value,
        }
        for name in ENVIRONMENTS
        for graph, method, value in (
            *((graph, "least-squares", ours) for graph in GRAPHS),
            *(("grid", method, rival) for method in TD),
        )
    ]


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({}, "values-center", Verdict.HOLDS),
        ({"ours": 1.12}, "values-center", Verdict.CAVEAT),
        ({"ours": 1.2}, "values-center", Verdict.FAILS),
        ({}, "values-td", Verdict.HOLDS),
        ({"rival": 2.1}, "values-td", Verdict.CAVEAT),
        ({"rival": 1.9}, "values-td", Verdict.FAILS),
    ],
)
def test_claims(changes, claim, verdict):
    assert judge(FIGURE, claim, rows(**changes)).verdict == verdict


@pytest.mark.slow
def test_an_environment_has_every_curve():
    results = Results(learning_values("grid-world", agents=9, trials=2, seed=0))
    for name, curve in curves(results, "grid-world").items():
        for quantity in ("over_limit", "worst"):
            shown = curve.where(quantity=quantity)
            assert shown.column("rounds").tolist() == list(HORIZONS), name
            assert (shown.column("value") > 0).all()
    assert set(curves(results, "grid-world")) == set(MARKS)
