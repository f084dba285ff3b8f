"""How numbers become verdicts and words."""

from __future__ import annotations

import pytest

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
