"""The logarithm of the gamma function and its derivatives in NumPy alone, because agents load no SciPy."""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Floats

_SHIFT = range(10)
"""The recurrence takes an argument x to x + 10, where Stirling's series is exact to rounding."""

_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def log_gamma(x: Floats) -> Floats:
    """Return log Gamma(x) of positive numbers.

    Examples
    --------
    >>> from gossamer.families.special import log_gamma
    >>> bool(abs(log_gamma(np.array(5.0)) - np.log(24)) < 1e-13)
    True
    """
    far = x + len(_SHIFT)
    series = sum(c * far ** (-1.0 - 2 * k) for k, c in enumerate(_SERIES))
    whole = (far - 0.5) * np.log(far) - far + 0.5 * np.log(2 * np.pi) + series
    return np.asarray(whole - sum(np.log(x + k) for k in _SHIFT))


def digamma(x: Floats) -> Floats:
    """Return the derivative of `log_gamma`."""
    far = x + len(_SHIFT)
    series = sum(c * (-1.0 - 2 * k) * far ** (-2.0 - 2 * k) for k, c in enumerate(_SERIES))
    return np.asarray(np.log(far) - 0.5 / far + series - sum(1 / (x + k) for k in _SHIFT))


def trigamma(x: Floats) -> Floats:
    """Return the second derivative of `log_gamma`."""
    far = x + len(_SHIFT)
    series = sum(c * (1.0 + 2 * k) * (2 + 2 * k) * far ** (-3.0 - 2 * k) for k, c in enumerate(_SERIES))
    return np.asarray(1 / far + 0.5 / far**2 + series + sum(1 / (x + k) ** 2 for k in _SHIFT))
