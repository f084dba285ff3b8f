"""Format numbers for output: in full for programs, short for people."""

from __future__ import annotations

import math
from collections.abc import Sequence


def plain(value: object) -> object:
    """Return a value for JSON and CSV: NumPy types become Python types, infinities and NaN become None."""
    if hasattr(value, "tolist"):  # a NumPy scalar or array, without loading NumPy to ask
        value = value.tolist()
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def shown(value: object) -> str:
    """Return a value as text for people."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**9 else f"{value:.3g}"
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        if math.isinf(value):
            return "inf"
        if value == int(value) and 1 <= abs(value) < 1e9:
            return shown(int(value))
        return f"{value:.3g}"
    return str(value)


def compact(number: int) -> str:
    """Return a count in at most five characters."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= max(size, 1e5):
            return f"{number / size:.3g}{unit}"
    return str(number)


def small(number: float | None) -> str:
    """Return the size of an error with two digits."""
    return "-" if number is None else _digits(number, 2)


def vector(values: Sequence[float | None]) -> str:
    """Return the first component with five digits, and the number of further components."""
    if not values or values[0] is None:
        return "-"
    more = f" (+{len(values) - 1})" if len(values) > 1 else ""
    return _digits(values[0], 5) + more


def _digits(number: float, digits: int) -> str:
    """Return this many digits; one fewer, and a short exponent, if an exponent is needed."""
    if 10 ** (digits - 1) <= abs(number) < 1e7:
        return f"{number:.0f}"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return f"{number:#.{digits}g}"
    mantissa, exponent = f"{number:.{max(digits - 2, 1)}e}".split("e")
    return f"{mantissa}e{int(exponent)}"
