"""Figure 12: the claims follow the numbers."""

from __future__ import annotations

import pytest
from tests.support.small_runs import judge

from gossamer.paper.figures.figure_12_learning import FAMILIES, FIGURE, GRAPHS, networks
from gossamer.paper.pipeline.claims import Verdict


def rows(family="logistic", at=1000, value=1.05, high=1.08):
    """Multiples of 1.02 everywhere but for one family on the grid, at one number of rounds."""
    found = []
    for name in FAMILIES:
        for graph in GRAPHS:
            for t in (1000, 2000, 3000):
                odd = (name, graph, t) == (family, "grid", at)
                base = {
                    "experiment": f"learning {name}",
                    "graph": graph,
                    "method": "anytime-sda",
                    "rounds": t,
                }
                base |= {"quantity": "over_limit", "value": value if odd else 1.02, "low": 1.0}
                found.append(base | {"high": high if odd else 1.05})
    return found


@pytest.mark.parametrize(
    ("claim", "changes", "verdict"),
    [
        ("learning-logistic", {}, Verdict.HOLDS),
        ("learning-logistic", {"at": 2000, "high": 1.11}, Verdict.CAVEAT),
        ("learning-logistic", {"at": 3000, "value": 1.11}, Verdict.FAILS),
        ("learning-logistic", {"family": "gamma", "value": 1.2}, Verdict.HOLDS),
        ("learning-families", {"family": "gamma", "value": 1.2, "high": 1.25}, Verdict.HOLDS),
        ("learning-families", {"family": "gamma", "value": 1.31}, Verdict.FAILS),
        ("learning-families", {"family": "huber", "at": 3000, "value": 1.12}, Verdict.FAILS),
        ("learning-families", {"family": "huber", "at": 2000, "value": 1.5}, Verdict.HOLDS),
    ],
)
def test_claims_follow_the_numbers(claim, changes, verdict):
    finding = judge(FIGURE, claim, rows(**changes))
    assert finding.verdict is verdict
    assert "at T = 3000" in finding.measured


def test_networks_of_any_number_of_agents():
    assert [net.agents for net in networks(30, 0).values()] == [30, 30, 30]
    assert networks(30, 0)["grid"].name == "grid:5x6"
    assert networks(25, 0)["grid"].name == "grid:5x5"
