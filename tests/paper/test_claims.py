"""Verdicts, with data made to hold and to fail."""

from __future__ import annotations

import numpy as np
import pytest

from gossamer.paper.figures import bound, convergence, networks, samples, star
from gossamer.paper.pipeline import registry
from gossamer.paper.pipeline.cache import Table
from gossamer.paper.pipeline.claims import (
    Verdict,
    by_share,
    interval,
    listed,
    near,
    number,
    share,
    span,
    verdict,
)
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.problem import GRAPHS

SETTINGS = Settings(stages=(3, 4))


def judge(figure, name, rows, settings=SETTINGS):
    claim = next(claim for claim in figure.claims if claim.name == name)
    return claim.judge(Table(rows), settings)


def test_helpers():
    assert verdict(False, caveat=True) is Verdict.FAILS
    assert verdict(True) is Verdict.HOLDS
    assert verdict(True, caveat=True) is Verdict.CAVEAT
    assert by_share([True] * 99 + [False]) is Verdict.HOLDS
    assert by_share([True] * 9 + [False]) is Verdict.CAVEAT
    assert by_share([True] + [False] * 9) is Verdict.FAILS
    assert near([-1.05, -0.96], -1, close=0.1, loose=0.25) is Verdict.HOLDS
    assert near([-0.8], -1, close=0.1, loose=0.25) is Verdict.CAVEAT
    assert near([-0.5], -1, close=0.1, loose=0.25) is Verdict.FAILS


def test_share_has_the_exact_binomial_interval():
    part, low, high = share([True] * 8 + [False] * 2)
    assert (part, low, high) == pytest.approx((0.8, 0.4439, 0.9748), abs=1e-4)
    assert share([True] * 10)[1:] == pytest.approx((0.6915, 1.0), abs=1e-4)
    assert share([False] * 10)[1:] == pytest.approx((0.0, 0.3085), abs=1e-4)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5164, "0.516"),
        (-1.994, "−1.99"),
        (159114.5, "159,114"),
        (1.303e9, "1.30e9"),
        (0.0, "0.00"),
        (2e-7, "2.00e−7"),
    ],
)
def test_numbers_for_reading(value, text):
    assert number(value) == text


def test_intervals_for_reading():
    assert interval(2.0, 1.9, 2.2, 2) == "2.0 (1.9 to 2.2)"
    assert interval(2.0, 2.001, 2.002, 2) == "2.0"
    assert span([3.0, 1.0], 2) == "1.0 to 3.0"
    assert span([1.0, 1.001], 2) == "1.0"
    assert listed({"path": -0.59, "star": 2.0}, 2) == "path −0.59, star 2.0"
    assert number(float("inf")) == "∞"


# -- Figure 1 ---------------------------------------------------------------------------------------------------


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
    assert judge(networks.FIGURE, "kappas", kappas(paper, [11.5] * 20)).verdict is Verdict.HOLDS
    assert judge(networks.FIGURE, "kappas", kappas(paper, [6.0] * 20)).verdict is Verdict.CAVEAT
    assert (
        judge(networks.FIGURE, "kappas", kappas([4000, 900, 100, 76], [11.5] * 20)).verdict is Verdict.FAILS
    )
    assert judge(networks.FIGURE, "kappas", kappas(paper, [11.0]), Settings(agents=400)) is None


def test_order_of_condition_numbers():
    assert judge(networks.FIGURE, "decreasing", kappas([9, 8, 7, 6], [5.0] * 50)).verdict is Verdict.HOLDS
    assert (
        judge(networks.FIGURE, "decreasing", kappas([9, 8, 7, 6], [5.0] * 6 + [7.0] * 4)).verdict
        is Verdict.CAVEAT
    )
    assert judge(networks.FIGURE, "decreasing", kappas([9, 8, 8.5, 6], [5.0] * 50)).verdict is Verdict.FAILS


# -- Figure 2 ---------------------------------------------------------------------------------------------------


def races(error, draws=40):
    """error(graph number, method, K, draw) -> mse"""
    return [
        {"experiment": convergence.DRAWS, "graph": g, "method": m, "draw": d, "quantity": f"total_error, K={k}",
         "value": error(i, m, k, d)}
        for i, g in enumerate(GRAPHS) for m in convergence.METHODS for k in (3, 4) for d in range(draws)
    ]  # fmt: skip


def test_outperforming():
    ahead = races(lambda g, m, k, d: 1.0 if m == "sda" else 2.0)
    assert judge(convergence.FIGURE, "outperforms", ahead).verdict is Verdict.HOLDS
    sometimes = races(
        lambda g, m, k, d: 1.0 if m == "sda" else (0.5 if m == "dsg" and g == 4 and d < 8 else 2.0)
    )
    found = judge(convergence.FIGURE, "outperforms", sometimes)
    assert found.verdict is Verdict.CAVEAT
    assert found.value == pytest.approx(0.8)
    assert found.low < 0.8 < found.high
    never = races(lambda g, m, k, d: 1.0 if m == "sda" else (0.5 if m == "dsg" and g == 4 else 2.0))
    found = judge(convergence.FIGURE, "outperforms", never)
    assert found.verdict is Verdict.FAILS
    assert "Erdős–Rényi" in found.measured


def test_advantage_for_large_kappa():
    falling = races(lambda g, m, k, d: 1.0 if m == "sda" else np.exp(5.0 - g))
    assert judge(convergence.FIGURE, "large-kappa", falling).verdict is Verdict.HOLDS
    bumpy = races(lambda g, m, k, d: 1.0 if m == "sda" else np.exp([3, 4, 5, 1, 0][g]))
    assert judge(convergence.FIGURE, "large-kappa", bumpy).verdict is Verdict.CAVEAT
    flat = races(lambda g, m, k, d: 1.0 if m == "sda" else np.exp([1, 1, 1, 2, 2][g]))
    assert judge(convergence.FIGURE, "large-kappa", flat).verdict is Verdict.FAILS


def test_early_rounds():
    at_once = races(lambda g, m, k, d: 2.0 if m == "dsg" else 1.0)
    assert judge(convergence.FIGURE, "early-dmasg", at_once).verdict is Verdict.HOLDS
    later = races(lambda g, m, k, d: 2.0 if m == "dsg" else (3.0 if k == 3 else 1.0))
    assert judge(convergence.FIGURE, "early-dmasg", later).verdict is Verdict.CAVEAT
    never = races(lambda g, m, k, d: 2.0 if m == "dsg" else 3.0)
    assert judge(convergence.FIGURE, "early-dmasg", never).verdict is Verdict.FAILS


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
    exponential = judge(convergence.FIGURE, "bias-dmasg", biases(lambda t: np.exp(-t / 10)))
    assert exponential.verdict is Verdict.HOLDS
    assert exponential.value == pytest.approx(1.0)
    power = judge(convergence.FIGURE, "bias-dmasg", biases(lambda t: float(t) ** -4))
    assert power.verdict is Verdict.FAILS
    assert "−4.00" in power.reason
    assert judge(convergence.FIGURE, "bias-sda", biases(lambda t: 1e-30, "sda")) is None
    # What rounding leaves of an exponential, far below where it can be told from zero, is not its decay.
    floored = biases(lambda t: max(np.exp(-t / 4), 1e-18), "sda")
    assert judge(convergence.FIGURE, "bias-sda", floored).verdict is Verdict.HOLDS


def test_theorem_1_covers():
    def rows(start):
        base = {"experiment": "convergence", "method": "sda"}
        points = [
            {**base, "graph": g, "source": "simulation", "rounds": t} for g in GRAPHS for t in (100, 200)
        ]
        return points + [{**base, "graph": g, "quantity": "k*", "value": start} for g in GRAPHS]

    assert judge(convergence.FIGURE, "theorem-applies", rows(50)).verdict is Verdict.HOLDS
    broken = judge(convergence.FIGURE, "theorem-applies", rows(51))
    assert broken.verdict is Verdict.FAILS
    assert "Path T=100 (needs 102)" in broken.reason


# -- Figures 3 and 4 --------------------------------------------------------------------------------------------


def needs(slopes, share_of_1_over_t=0.5, epsilons=SETTINGS.large):
    """Rows in which every method needs 100 eps^slope samples, on every graph, in three draws."""
    rows = []
    for g in GRAPHS:
        for d in range(3):
            for eps in epsilons:
                base = {"experiment": "samples", "graph": g, "draw": d, "epsilon": eps, "source": "exact"}
                for method, (factor, power) in slopes.items():
                    rows.append(
                        {**base, "method": method, "quantity": "samples", "value": factor * eps**power}
                    )
                rows.append({**base, "method": "sda", "quantity": "share of 1/T", "value": share_of_1_over_t})
                rows.append({**base, "method": "sstm_sc", "quantity": "share of last batch", "value": 0.95})
    return rows


def test_sample_claims():
    usual = {"sda": (1, -0.6), "sstm_sc": (1e4, -2.0), "sstm_sc, tuned": (100, -1.1)}
    assert judge(samples.FIGURE_3, "fewer", needs(usual)).verdict is Verdict.HOLDS
    assert judge(samples.FIGURE_3, "fewer", needs({**usual, "sstm_sc": (0.1, -0.6)})).verdict is Verdict.FAILS
    assert judge(samples.FIGURE_3, "fewer", needs({**usual, "sstm_sc": (3, -0.6)})).verdict is Verdict.CAVEAT
    found = judge(samples.FIGURE_3, "sstm-slope", needs(usual))
    assert found.verdict is Verdict.CAVEAT  # because tuned batches have another slope
    assert found.value == pytest.approx(-2.0)
    assert (
        judge(samples.FIGURE_3, "sstm-slope", needs({**usual, "sstm_sc, tuned": (9, -2)})).verdict
        is Verdict.HOLDS
    )
    assert (
        judge(samples.FIGURE_3, "sstm-slope", needs({**usual, "sstm_sc": (9, -1.5)})).verdict is Verdict.FAILS
    )
    assert judge(samples.FIGURE_3, "sda-slope", needs(usual)).verdict is Verdict.HOLDS
    assert judge(samples.FIGURE_3, "sda-slope", needs({**usual, "sda": (1, -1.2)})).verdict is Verdict.FAILS
    assert judge(samples.FIGURE_3, "neither", needs(usual)).verdict is Verdict.HOLDS
    assert judge(samples.FIGURE_3, "neither", needs(usual, 0.95)).verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("power", "expected"), [(-0.97, Verdict.HOLDS), (-0.8, Verdict.CAVEAT), (-0.6, Verdict.FAILS)]
)
def test_slope_for_small_accuracies(power, expected):
    rows = needs({"sda": (1, power)}, epsilons=SETTINGS.small)
    assert judge(samples.FIGURE_4, "small-slope", rows).verdict is expected


@pytest.mark.parametrize(
    ("part", "expected"), [(0.95, Verdict.HOLDS), (0.7, Verdict.CAVEAT), (0.3, Verdict.FAILS)]
)
def test_dominating_term(part, expected):
    rows = needs({"sda": (1, -1)}, part, epsilons=SETTINGS.small)
    assert judge(samples.FIGURE_4, "dominates", rows).verdict is expected


# -- Figures 5 and 7 --------------------------------------------------------------------------------------------


def stars(sda, masg, alone):
    base = {"quantity": "total_error", "source": "exact"}
    return [
        {**base, "agents": n, "method": m, "value": v * n**0.5}
        for n in (100, 400) for m, v in (("sda", sda), ("d-masg", masg), ("alone", alone))
    ]  # fmt: skip


def test_star_claims():
    assert judge(star.FIGURE, "superior", stars(1, 2, 3)).verdict is Verdict.HOLDS
    assert judge(star.FIGURE, "superior", stars(1, 2, 0.5)).verdict is Verdict.CAVEAT
    assert judge(star.FIGURE, "superior", stars(2, 1, 3)).verdict is Verdict.FAILS
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
    assert judge(star.FIGURE, "star-sda", slopes).verdict is Verdict.HOLDS
    assert judge(star.FIGURE, "star-sda", [{**row, "value": 0.8} for row in slopes]).verdict is Verdict.FAILS


def test_bound_claim():
    def rows(low):
        base = {"experiment": "bound", "rounds": 100}
        parts = [
            {**base, "graph": g, "source": s, "value": 1.0} for g in GRAPHS for s in ("exact", "theorem 1")
        ]
        facts = [{"experiment": "bound", "graph": g, "quantity": "k*", "value": 10} for g in GRAPHS]
        slack = [{"experiment": "bound", "quantity": "slack", "value": 3.0, "low": low, "high": 9.0}]
        return parts + facts + slack

    assert judge(bound.FIGURE, "theorem-1", rows(1.2)).verdict is Verdict.HOLDS
    assert judge(bound.FIGURE, "theorem-1", rows(0.99)).verdict is Verdict.FAILS


def test_every_claim_has_its_own_name():
    names = [claim.name for figure in registry.FIGURES for claim in figure.claims]
    assert len(names) == len(set(names))
