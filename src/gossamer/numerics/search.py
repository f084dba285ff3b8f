"""Find the smallest number that satisfies a condition, by doubling and bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload


@overload
def first_true(condition: Callable[[int], bool], most: None = None) -> int: ...
@overload
def first_true(condition: Callable[[int], bool], most: int) -> int | None: ...
def first_true(condition: Callable[[int], bool], most: int | None = None) -> int | None:
    """Return the smallest n >= 1 for which `condition(n)` is true, or None if there is none up to `most`.

    The condition must stay true once it is. The search doubles n, then bisects; without `most` it does not end unless
    the condition becomes true.
    """
    low, high = 0, 1
    while not condition(high):
        if high == most:
            return None
        low, high = high, 2 * high if most is None else min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high
