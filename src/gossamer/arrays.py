"""Names for the array types that signatures use, defined once."""

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
