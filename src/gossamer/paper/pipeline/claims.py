"""Claims of the paper and how they are judged: a measured number, an interval and a verdict, from results.

No verdict is written by hand. A claim has a function from the rows of the experiments to a `Finding`; the helpers here
turn fractions and slopes into verdicts by thresholds that are stated once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from gossamer.arrays import Floats
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.settings import Settings

USUALLY = 0.95
"""A claim about one draw of graph and means holds if it is true in at least this share of the draws."""


class Verdict(StrEnum):
    HOLDS = "holds"
    CAVEAT = "holds with a caveat"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Finding:
    """The evidence on a claim: the verdict, the deciding number with its interval, and both in words."""

    verdict: Verdict
    value: float
    low: float
    high: float
    measured: str
    reason: str


Judge = Callable[[Results, Settings], Finding | None]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: a short version, its section, and a function that judges it from the rows.

    `judge` returns None if the claim does not apply to the settings (such as a number given for N = 100).
    """

    name: str
    section: str
    sentence: str
    judge: Judge


def verdict(holds: bool, caveat: bool = False) -> Verdict:
    """Return the verdict on a claim."""
    if not holds:
        return Verdict.FAILS
    return Verdict.CAVEAT if caveat else Verdict.HOLDS


def share(outcomes: ArrayLike) -> tuple[float, float, float]:
    """Return the share of true outcomes with its 95% Clopper-Pearson interval."""
    flat = np.asarray(outcomes, dtype=bool).ravel()
    n, k = len(flat), int(flat.sum())
    low = float(betaincinv(k, n - k + 1, 0.025)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 0.975)) if k < n else 1.0
    return k / n, low, high


def by_share(outcomes: ArrayLike) -> Verdict:
    """Judge by the share of draws: at least `USUALLY` holds, more than half holds with a caveat."""
    part, _, _ = share(outcomes)
    return verdict(part > 0.5, caveat=part < USUALLY)


def near(values: ArrayLike, target: float, close: float, loose: float) -> Verdict:
    """Judge by the distance from a target: all values within `close` holds, within `loose` holds with a caveat."""
    off = float(np.abs(np.asarray(values, dtype=float) - target).max())
    return verdict(off <= loose, caveat=off > close)


def middle(values: ArrayLike) -> tuple[float, float, float]:
    """Return the median and the 5-95% range over draws."""
    low, center, high = np.quantile(np.asarray(values, dtype=float), [0.05, 0.5, 0.95])
    return float(center), float(low), float(high)


def number(value: float, digits: int = 3) -> str:
    """Format a number with `digits` significant figures, a real minus sign, and an exponent only if necessary."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "undefined"
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    decimals = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
    return f"{value:,.{decimals}f}".replace("-", "−")


def interval(center: float, low: float, high: float, digits: int = 3) -> str:
    """Format a number with its interval, `2.1 (1.9 to 2.3)`; the number alone if both ends are equal when rounded."""
    if number(low, digits) == number(high, digits):
        return number(center, digits)
    return f"{number(center, digits)} ({number(low, digits)} to {number(high, digits)})"


def span(values: ArrayLike, digits: int = 2) -> str:
    """Format the smallest and the largest value, `1.2 to 2.5`; one number if they are equal when rounded."""
    low, high = (number(value, digits) for value in extremes(values))
    return low if low == high else f"{low} to {high}"


def percent(part: float, low: float, high: float) -> str:
    return f"{100 * part:.0f}% ({100 * low:.0f}–{100 * high:.0f}%)"


def listed(values: dict[str, float], digits: int = 3) -> str:
    """Format named values, `path −0.59, cycle −0.60`."""
    return ", ".join(f"{name} {number(value, digits)}" for name, value in values.items())


def extremes(values: ArrayLike) -> tuple[float, float]:
    flat: Floats = np.asarray(values, dtype=float).ravel()
    return float(flat.min()), float(flat.max())
