"""Names for the array types that signatures use, defined once; arrays compared and in a few words."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Flags = NDArray[np.uint8]
"""Zeros and ones, one byte each."""
AnyArray = NDArray[Any]
"""Of either precision, or of integers as narrow as they can be."""
Precision = type[np.float64] | type[np.float32]
"""What a simulation computes in."""


NOT_NPZ = (OSError, EOFError, TypeError, ValueError, KeyError, BadZipFile, zlib.error)
"""What reading a file as NPZ raises if it is damaged or something else."""


def same(a: object, b: object) -> bool:
    """Return whether two values are equal, arrays entry by entry, with NaN equal to NaN."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        x, y = np.asarray(a), np.asarray(b)
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f" and y.dtype.kind == "f"))
    if type(a) is not type(b):
        return bool(a == b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def extent(values: AnyArray) -> str:
    """Return the least and the largest of some numbers, as text."""
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
