r"""Gaussian differential privacy in terms of :math:`(\epsilon, \delta)`, without SciPy, which agents do not load.

A mechanism is :math:`\mu`-Gaussian differentially private if telling apart two neighboring inputs is at least as hard
as telling apart :math:`N(0, 1)` and :math:`N(\mu, 1)` (Dong, Roth, Su, 2022).
"""

from __future__ import annotations

import math

from gossamer import checks


def delta_of(mu: float, epsilon: float) -> float:
    r"""Return the delta of a Gaussian mechanism.

    It is :math:`\Phi(-\epsilon/\mu + \mu/2) - e^\epsilon\,\Phi(-\epsilon/\mu - \mu/2)`.
    """
    if not mu > 0:
        return 0.0 if mu == 0 else math.nan
    if math.isinf(mu):
        return 1.0
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # The second term is the density at `near` times the Mills ratio at `far`, which cannot overflow.
    density = math.exp(-near * near / 2) / math.sqrt(2 * math.pi)
    return max(math.erfc(near / math.sqrt(2)) / 2 - density * _mills(far), 0.0)


def _mills(x: float) -> float:
    """Return the tail of the standard normal distribution beyond x, divided by its density at x."""
    if x > 25:  # the next term is below 1e-9 of the sum
        square = x * x
        return (1 - (1 - (3 - 15 / square) / square) / square) / x
    return math.sqrt(math.pi / 2) * math.erfc(x / math.sqrt(2)) * math.exp(x * x / 2)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which a Gaussian mechanism is (epsilon, delta)-differentially private."""
    if not math.isfinite(mu):
        return mu
    low, high = 0.0, 1.0
    if delta_of(mu, low) <= delta:
        return 0.0
    while delta_of(mu, high) > delta:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if delta_of(mu, middle) > delta else (low, middle)
    return high


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu of a Gaussian mechanism that is (epsilon, delta)-differentially private."""
    epsilon = checks.number("epsilon", epsilon, above=0)
    delta = checks.number("delta", delta, above=0, below=1)
    low, high = 0.0, 1.0
    while delta_of(high, epsilon) < delta:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if delta_of(middle, epsilon) < delta else (low, middle)
    return low
