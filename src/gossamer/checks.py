"""Checks of single values: each returns the value in the form we use, or says what was required and what it got.

Names are those of the parameters; the command line translates them to flags.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, nearest

MOST_ROUNDS = 2**34
"""Beyond it the random generator has no numbers; memory and patience end long before."""


def whole_number(name: str, value: Any, *, least: int | None = None, most: int | None = None) -> int:
    """Return an integer within the bounds; a float with an integer value will do."""
    if not (_is_number(value) and value == math.floor(value) and _within(value, least, most)):
        bounds = _bounds(least=least, most=most)
        raise InvalidInput(
            parameter=name, required=f"a whole number{f' {bounds}' if bounds else ''}", got=brief(value)
        )
    return int(value)


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Return a finite number within the bounds."""
    inside = _is_number(value) and _within(value, least, most)
    if not inside or (above is not None and value <= above) or (below is not None and value >= below):
        bounds = _bounds(above=above, least=least, below=below, most=most)
        raise InvalidInput(
            parameter=name, required=f"a finite number{f' {bounds}' if bounds else ''}", got=brief(value)
        )
    return float(value)


def probability(name: str, value: Any) -> float:
    """Return a number from 0 to 1."""
    if not (_is_number(value) and 0 <= value <= 1):
        raise InvalidInput(parameter=name, required="a probability from 0 to 1", got=brief(value))
    return float(value)


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return one of the words in `choices`."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        hint = nearest(value, words) if isinstance(value, str) else ""
        raise InvalidInput(parameter=name, required=_either(words), got=f"{brief(value)}{hint}")
    return str(value)


def rounds(value: Any) -> int:
    """Return a number of rounds: a whole number of at least 1."""
    found = whole_number("rounds", value, least=1)
    return found if found <= MOST_ROUNDS else whole_number("rounds", found, most=MOST_ROUNDS)


def array(name: str, value: Any, shape: tuple[int | None, ...] | None = None) -> Floats:
    """Return an array of finite floats, of the given shape if there is one (None: any length)."""
    sizes = ", ".join("n" if size is None else str(size) for size in shape or ())
    wanted = "" if shape is None else f" of shape ({sizes}{',' * (len(shape) == 1)})"
    try:
        found = np.asarray(value)
        found = found if found.dtype.kind == "c" else found.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            parameter=name, required=f"an array of numbers{wanted}", got=brief(value)
        ) from None
    if found.dtype.kind == "c":
        raise InvalidInput(parameter=name, required="real", got="complex numbers")
    fits = shape is None or (
        found.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, found.shape, strict=True))
    )
    if not fits:
        raise InvalidInput(parameter=name, required=f"an array{wanted}", got=f"shape {found.shape}")
    if not np.all(np.isfinite(found)):
        raise InvalidInput(
            parameter=name, required="finite", got=f"{int(np.sum(~np.isfinite(found)))} NaN or infinite"
        )
    return found


def seed(value: Any) -> int:
    """Return a seed: an integer of at least 0 and of any size."""
    if not isinstance(value, bool | np.bool_):
        try:
            found = operator.index(value)
        except TypeError:
            found = -1
        if found >= 0:
            return found
    raise InvalidInput(parameter="seed", required="a whole number of at least 0", got=brief(value))


def listed(name: str, value: Any) -> list[Any]:
    """Return the entries of a list, a tuple, a range or an array; a string is none of these."""
    if (
        isinstance(value, str | bytes | Mapping)
        or not isinstance(value, Iterable)
        or getattr(value, "ndim", 1) == 0
    ):
        raise InvalidInput(parameter=name, required="a list", got=brief(value))
    return list(value)


def brief(value: Any) -> str:
    """A value as it appears in a message, cut short if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_number(value: Any) -> bool:
    known = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        return known and math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def _within(value: Any, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _bounds(**bounds: float | None) -> str:
    words = {"above": "above", "least": "of at least", "below": "below", "most": "at most"}
    return " and ".join(
        f"{words[kind]} {bound if isinstance(bound, int) else format(bound, 'g')}"
        for kind, bound in bounds.items()
        if bound is not None
    )


def _either(words: list[str]) -> str:
    quoted = [repr(word) for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
