"""Check the numbers that a user gives for streams, and bring them into our shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput

LARGEST = 1e145
"""Largest number; squares of larger ones, and sums of many squares, would overflow."""


def as_numbers(value: ArrayLike, name: str) -> Floats:
    try:
        array = np.asarray(value)
        if array.dtype.kind in "US":
            raise TypeError("text")
        if array.dtype.kind != "c":
            return array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            parameter=name, required="numbers, equally many for each agent", got=checks.brief(value)
        ) from None
    raise InvalidInput(
        parameter=name,
        required="real",
        got="complex numbers",
        hint="give real and imaginary parts as two components",
    )


def as_means(mean: ArrayLike) -> Floats:
    array = as_numbers(mean, "the means")
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidInput(
            f"one value per agent, (N,), or per agent and component, (N, n), is needed, got shape {array.shape}"
        )
    check_finite(array, "the means")
    squared(array, "the means")
    return array[:, None].copy() if array.ndim == 1 else array.copy()


def like_means(mean: Floats, value: ArrayLike, name: str, ndim: int) -> Floats:
    array = as_numbers(value, name)
    check_finite(array, name)
    if array.ndim == 1 and (ndim == 1 or mean.shape[1] == 1):
        array = array[:, None]
    elif array.ndim == 1 and mean.shape[0] == mean.shape[1] > 1:
        raise InvalidInput(
            f"{name} of shape {array.shape} could be per agent or per component here; "
            f"write {name}[:, None] or {name}[None, :]"
        )
    try:
        return np.broadcast_to(array, mean.shape).copy()
    except ValueError:
        hint = f"; for one {name} per agent write {name}[:, None]" if array.shape == mean.shape[:1] else ""
        raise InvalidInput(
            parameter=name,
            required=f"a scalar or broadcast to the shape {mean.shape} of the means",
            got=f"shape {np.shape(value)}{hint}",
        ) from None


def check_finite(array: Floats, what: str) -> None:
    if not np.all(np.isfinite(array)):
        raise InvalidInput(
            parameter=what, required="finite", got=f"{int(np.sum(~np.isfinite(array)))} NaN or infinite"
        )


def squared(array: Floats, what: str) -> Floats:
    """Return the squares; raise an error if they overflow, because errors are squares."""
    largest = float(np.abs(array).max())
    if largest > LARGEST:
        raise InvalidInput(
            f"must not exceed {LARGEST:g}, because errors are squared, got {largest:g}; use another unit",
            parameter=what,
        )
    return array**2
