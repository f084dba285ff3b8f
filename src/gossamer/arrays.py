"""Names for the array types that signatures use, defined once; arrays compared and in a few words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Flags = NDArray[np.uint8]
"""Zeros and ones, one byte each."""
AnyArray = NDArray[Any]
"""Of either precision, or of integers as narrow as they can be."""


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal that are arrays, or dictionaries that hold some."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def extent(values: AnyArray) -> str:
    """The least and the largest of some numbers, as text."""
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
