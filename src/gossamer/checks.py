"""Checks of single values: each returns the value in the form we use, or says what was required and what it got.

Names are those of the parameters; the command line translates them to flags.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import SupportsIndex, TypeGuard, TypeVar, overload

import numpy as np

from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, nearest

Item = TypeVar("Item")

MOST_ROUNDS = 2**34
"""Beyond it the random generator has no numbers; memory and patience end long before."""


def whole_number(name: str, value: object, *, least: int | None = None, most: int | None = None) -> int:
    """Return an integer within the bounds; a float with an integer value will do."""
    if not (_is_number(value) and value == math.floor(value) and _within(value, least, most)):
        bounds = _bounds(least=least, most=most)
        raise InvalidInput(
            parameter=name, required=f"a whole number{f' {bounds}' if bounds else ''}", got=brief(value)
        )
    return int(value)


def number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Return a finite number within the bounds."""
    if (
        not _is_number(value)
        or not _within(value, least, most)
        or (above is not None and value <= above)
        or (below is not None and value >= below)
    ):
        bounds = _bounds(above=above, least=least, below=below, most=most)
        raise InvalidInput(
            parameter=name, required=f"a finite number{f' {bounds}' if bounds else ''}", got=brief(value)
        )
    return float(value) + 0.0  # -0.0 becomes 0.0


def probability(name: str, value: object) -> float:
    """Return a number from 0 to 1."""
    if not (_is_number(value) and 0 <= value <= 1):
        raise InvalidInput(parameter=name, required="a probability from 0 to 1", got=brief(value))
    return float(value)


def choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return one of the words in `choices`."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        hint = nearest(value, words) if isinstance(value, str) else ""
        raise InvalidInput(parameter=name, required=_either(words), got=f"{brief(value)}{hint}")
    return str(value)


def text(name: str, value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise InvalidInput(parameter=name, required="a text", got=brief(value))
    return value


def rounds(value: object) -> int:
    """Return a number of rounds: a whole number of at least 1."""
    count = whole_number("rounds", value, least=1)
    return count if count <= MOST_ROUNDS else whole_number("rounds", count, most=MOST_ROUNDS)


def array(name: str, value: object, shape: tuple[int | None, ...] | None = None) -> Floats:
    """Return an array of finite floats, of the given shape if there is one (None: any length)."""
    sizes = ", ".join("n" if size is None else str(size) for size in shape or ())
    wanted = "" if shape is None else f" of shape ({sizes}{',' * (len(shape) == 1)})"
    try:
        values = np.asarray(value)
        values = values if values.dtype.kind == "c" else values.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            parameter=name, required=f"an array of numbers{wanted}", got=brief(value)
        ) from None
    if values.dtype.kind == "c":
        raise InvalidInput(parameter=name, required="real", got="complex numbers")
    fits = shape is None or (
        values.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, values.shape, strict=True))
    )
    if not fits:
        raise InvalidInput(parameter=name, required=f"an array{wanted}", got=f"shape {values.shape}")
    if not np.all(np.isfinite(values)):
        raise InvalidInput(
            parameter=name, required="finite", got=f"{int(np.sum(~np.isfinite(values)))} NaN or infinite"
        )
    return values


def seed(value: object) -> int:
    """Return a seed: an integer of at least 0 and of any size."""
    if isinstance(value, SupportsIndex) and not isinstance(value, bool | np.bool_):
        try:
            number = operator.index(value)
        except TypeError:
            number = -1
        if number >= 0:
            return number
    raise InvalidInput(parameter="seed", required="a whole number of at least 0", got=brief(value))


@overload
def listed(name: str, value: Iterable[Item]) -> list[Item]: ...
@overload
def listed(name: str, value: object) -> list[object]: ...
def listed(name: str, value: object) -> list[Item] | list[object]:
    """Return the entries of a list, a tuple, a range or an array; a string is none of these."""
    if (
        isinstance(value, str | bytes | Mapping)
        or not isinstance(value, Iterable)
        or getattr(value, "ndim", 1) == 0
    ):
        raise InvalidInput(parameter=name, required="a list", got=brief(value))
    return list(value)


def brief(value: object) -> str:
    """Return a value as it appears in a message, cut short if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_number(value: object) -> TypeGuard[float]:
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def _within(value: float, least: float | None, most: float | None) -> bool:
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
