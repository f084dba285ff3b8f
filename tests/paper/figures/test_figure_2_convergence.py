"""Figure 2's verdicts, with data made to hold and to fail."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.small_runs import judge

from gossamer.paper.figures.figure_2_convergence import DRAWS, FIGURE
from gossamer.paper.pipeline.claims import Verdict
from gossamer.paper.shared.convergence import METHODS
from gossamer.paper.shared.problem import GRAPHS


def races(error, draws=40):
    """error(graph number, method, K, draw) -> total error"""
    return [
        {"experiment": DRAWS, "graph": g, "method": m, "draw": d, "quantity": f"total_error, K={k}",
         "value": error(i, m, k, d)}
        for i, g in enumerate(GRAPHS) for m in METHODS for k in (3, 4) for d in range(draws)
    ]  # fmt: skip


def test_outperforming():
    ahead = races(lambda g, m, k, d: 1.0 if m == "sda" else 2.0)
    assert judge(FIGURE, "outperforms", ahead).verdict is Verdict.HOLDS
    sometimes = races(
        lambda g, m, k, d: 1.0 if m == "sda" else (0.5 if m == "dsg" and g == 4 and d < 8 else 2.0)
    )
    found = judge(FIGURE, "outperforms", sometimes)
    assert found.verdict is Verdict.CAVEAT
    assert found.value == pytest.approx(0.8)
    assert found.low < 0.8 < found.high
    never = races(lambda g, m, k, d: 1.0 if m == "sda" else (0.5 if m == "dsg" and g == 4 else 2.0))
    found = judge(FIGURE, "outperforms", never)
    assert found.verdict is Verdict.FAILS
    assert "Erdős–Rényi" in found.measured


def test_advantage_for_large_kappa():
    falling = races(lambda g, m, k, d: 1.0 if m == "sda" else np.exp(5.0 - g))
    assert judge(FIGURE, "large-kappa", falling).verdict is Verdict.HOLDS
    bumpy = races(lambda g, m, k, d: 1.0 if m == "sda" else np.exp([3, 4, 5, 1, 0][g]))
    assert judge(FIGURE, "large-kappa", bumpy).verdict is Verdict.CAVEAT
    flat = races(lambda g, m, k, d: 1.0 if m == "sda" else np.exp([1, 1, 1, 2, 2][g]))
    assert judge(FIGURE, "large-kappa", flat).verdict is Verdict.FAILS


def test_early_rounds():
    at_once = races(lambda g, m, k, d: 2.0 if m == "dsg" else 1.0)
    assert judge(FIGURE, "early-dmasg", at_once).verdict is Verdict.HOLDS
    later = races(lambda g, m, k, d: 2.0 if m == "dsg" else (3.0 if k == 3 else 1.0))
    assert judge(FIGURE, "early-dmasg", later).verdict is Verdict.CAVEAT
    never = races(lambda g, m, k, d: 2.0 if m == "dsg" else 3.0)
    assert judge(FIGURE, "early-dmasg", never).verdict is Verdict.FAILS


def biases(curve, method="d-masg"):
    rows = [
        {"experiment": "convergence", "graph": g, "quantity": "condition number", "value": 100.0}
        for g in GRAPHS
    ]
    return rows + [
        {"experiment": "convergence", "graph": g, "method": method, "quantity": "bias", "rounds": t, "value": curve(t)}
        for g in GRAPHS for t in (50, 100, 200)
    ]  # fmt: skip


def test_exponential_and_polynomial_bias_are_told_apart():
    exponential = judge(FIGURE, "bias-dmasg", biases(lambda t: np.exp(-t / 10)))
    assert exponential.verdict is Verdict.HOLDS
    assert exponential.value == pytest.approx(1.0)
    power = judge(FIGURE, "bias-dmasg", biases(lambda t: float(t) ** -4))
    assert power.verdict is Verdict.FAILS
    assert "−4.00" in power.reason
    assert judge(FIGURE, "bias-sda", biases(lambda t: 1e-30, "sda")) is None
    # What rounding leaves of an exponential, far below where it can be told from zero, is not its decay.
    floored = biases(lambda t: max(np.exp(-t / 4), 1e-18), "sda")
    assert judge(FIGURE, "bias-sda", floored).verdict is Verdict.HOLDS


def test_theorem_1_covers():
    def rows(start):
        base = {"experiment": "convergence", "method": "sda"}
        points = [
            {**base, "graph": g, "source": "simulation", "rounds": t} for g in GRAPHS for t in (100, 200)
        ]
        return points + [{**base, "graph": g, "quantity": "k*", "value": start} for g in GRAPHS]

    assert judge(FIGURE, "theorem-applies", rows(50)).verdict is Verdict.HOLDS
    broken = judge(FIGURE, "theorem-applies", rows(51))
    assert broken.verdict is Verdict.FAILS
    assert "Path T=100 (needs 102)" in broken.reason
