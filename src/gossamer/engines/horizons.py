"""Numbers of rounds: checked, and grouped so that one pass over the rounds serves as many as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Integers
from gossamer.errors import InvalidInput, Unsupported
from gossamer.facts import SpectralFacts
from gossamer.methods import Method, Table, tabulate

Horizons = Sequence[int] | NDArray[np.integer]
"""Several numbers of rounds."""

LARGEST_TABLE = 2**32
"""Largest size in bytes of the coefficients of all rounds while they are read from a method."""


def horizons_of(rounds: int | Iterable[int] | Horizons) -> tuple[Integers, bool]:
    """Return the numbers of rounds as an array, and whether a single one was given."""
    return check_horizons(rounds), not np.iterable(rounds)


def check_horizons(rounds: int | Iterable[int] | Horizons) -> Integers:
    """Return one or several numbers of rounds, from any iterable, as an array of integers >= 1."""
    if isinstance(rounds, Iterable) and not isinstance(rounds, str | bytes | Mapping | np.ndarray):
        rounds = list(rounds)
    try:
        raw = np.atleast_1d(np.asarray(rounds))
    except ValueError:  # lists of different lengths
        raw = np.array([], dtype=float)
    # Numbers with more than 64 bits.
    if raw.size and raw.dtype == object and all(isinstance(number, int) for number in raw.flat):
        raise Unsupported(parameter="rounds", required=f"at most {np.iinfo(np.int64).max}", got=repr(rounds))
    if raw.ndim != 1 or raw.size == 0 or raw.dtype.kind not in "iuf" or np.any(raw != np.floor(raw)):
        raise InvalidInput(parameter="rounds", required="a whole number or a list of them", got=repr(rounds))
    if not np.all(np.isfinite(raw)):
        raise InvalidInput(parameter="rounds", required="finite", got=repr(rounds))
    if raw.min() < 1:
        raise InvalidInput(parameter="rounds", required="at least 1", got=str(raw.min()))
    return raw.astype(np.int64)


def check_table(method: Method, rounds: int) -> None:
    """Raise an error if the coefficients of this many rounds would not fit in memory."""
    row_bytes = 8 * (len(method.State._fields) + 2) ** 2
    if rounds * row_bytes > LARGEST_TABLE:
        raise Unsupported(
            f"the coefficients of {rounds} rounds of {method.label} would take {rounds * row_bytes / 2**30:.3g} GiB; "
            f"ask for at most {LARGEST_TABLE // row_bytes} rounds"
        )


def passes(method: Method, network: SpectralFacts, horizons: Integers) -> list[tuple[Table, list[int]]]:
    """Group horizons: a pass over the rounds of one table serves every horizon whose table starts like it."""
    check_table(method, int(horizons.max()))
    if method.anytime:
        return [(tabulate(method, network, int(horizons.max())), list(range(len(horizons))))]
    groups: list[tuple[Table, list[int]]] = []
    for which in np.argsort(-horizons, kind="stable").tolist():
        table = tabulate(method, network, int(horizons[which]))
        for leader, followers in groups:
            if table.starts_like(leader):
                followers.append(which)
                break
        else:
            groups.append((table, [which]))
    return groups
