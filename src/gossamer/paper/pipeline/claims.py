"""Claims of the paper and how they are judged: a measured number, an interval and a verdict, from results.

No verdict is written by hand. A claim holds a function from the rows of the experiments to a `Finding`; the
helpers here turn fractions and slopes into verdicts by thresholds that are stated once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.special import betaincinv

from gossamer.arrays import Floats
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.settings import Settings

USUALLY = 0.95
"""A claim about one draw of graph and means holds if it does so in at least this share of the draws."""


class Verdict(StrEnum):
    HOLDS = "holds"
    CAVEAT = "holds with a caveat"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Finding:
    """What was measured about a claim: the deciding number with its interval, in figures and in words."""

    verdict: Verdict
    value: float
    low: float
    high: float
    measured: str
    reason: str


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper in short, where it stands, and how rows of the experiments judge it.

    `judge` returns None where the settings leave nothing to judge (numbers that the paper gives for N = 100).
    """

    name: str
    place: str
    sentence: str
    judge: Callable[[Results, Settings], Finding | None]


def verdict(holds: bool, caveat: bool = False) -> Verdict:
    """The verdict on a claim that holds or not, perhaps with a caveat."""
    if not holds:
        return Verdict.FAILS
    return Verdict.CAVEAT if caveat else Verdict.HOLDS


def share(outcomes: Any) -> tuple[float, float, float]:
    """The share of true outcomes with its 95% Clopper-Pearson interval."""
    flat = np.asarray(outcomes, dtype=bool).ravel()
    n, k = len(flat), int(flat.sum())
    low = float(betaincinv(k, n - k + 1, 0.025)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 0.975)) if k < n else 1.0
    return k / n, low, high


def by_share(outcomes: Any) -> Verdict:
    """Holds in at least `USUALLY` of the draws; in more than half: with a caveat; otherwise it does not hold."""
    part, _, _ = share(outcomes)
    return verdict(part > 0.5, caveat=part < USUALLY)


def near(values: Any, target: float, close: float, loose: float) -> Verdict:
    """Every value within `close` of the target holds; within `loose`, with a caveat."""
    off = float(np.abs(np.asarray(values, dtype=float) - target).max())
    return verdict(off <= loose, caveat=off > close)


def middle(values: Any) -> tuple[float, float, float]:
    """Median and 5-95% range over draws."""
    low, center, high = np.quantile(np.asarray(values, dtype=float), [0.05, 0.5, 0.95])
    return float(center), float(low), float(high)


def number(value: float, digits: int = 3) -> str:
    """A number for reading: `digits` significant figures, a real minus sign, no exponent where avoidable."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "undefined"
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    decimals = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
    return f"{value:,.{decimals}f}".replace("-", "−")


def interval(center: float, low: float, high: float, digits: int = 3) -> str:
    """`2.1 (1.9 to 2.3)`, or the number alone where the interval has no width at this precision."""
    if number(low, digits) == number(high, digits):
        return number(center, digits)
    return f"{number(center, digits)} ({number(low, digits)} to {number(high, digits)})"


def span(values: Any, digits: int = 2) -> str:
    """`1.2 to 2.5`: the least and the largest, or one number where they look the same."""
    low, high = (number(value, digits) for value in extremes(values))
    return low if low == high else f"{low} to {high}"


def percent(part: float, low: float, high: float) -> str:
    return f"{100 * part:.0f}% ({100 * low:.0f}–{100 * high:.0f}%)"


def listed(values: dict[str, float], digits: int = 3) -> str:
    """`path −0.59, cycle −0.60`."""
    return ", ".join(f"{name} {number(value, digits)}" for name, value in values.items())


def extremes(values: Any) -> tuple[float, float]:
    flat: Floats = np.asarray(values, dtype=float).ravel()
    return float(flat.min()), float(flat.max())
