"""Philox4x32-10 without a compiler: the numbers of `random.py`, for programs that must not load Numba.

A deployed agent draws a few numbers per second, so plain Python is fast enough there. The tests compare the two.
"""

from __future__ import annotations

from typing import TypeVar, cast

import numpy as np

from gossamer import checks
from gossamer.arrays import AnyArray

FAULT = 3
"""Purpose: lost messages, failed links and other faults."""

_LOW = 0xFFFFFFFF

Word = TypeVar("Word", int, AnyArray)
"""A 32-bit number, or an array of such numbers as uint64."""


def key(seed: int) -> np.uint64:
    """Return the 64-bit key of a seed, a whole number of at least 0 of any size."""
    number = checks.seed(seed)
    return cast(np.uint64, np.random.SeedSequence(number).generate_state(1, np.uint64)[0])


def philox(c0: Word, c1: Word, c2: Word, c3: Word, key: np.uint64) -> tuple[Word, Word, Word, Word]:
    """Return four random 32-bit words for a counter of four; arrays broadcast."""
    k0, k1 = int(key) & _LOW, int(key) >> 32
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & _LOW, (p0 >> 32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + 0x9E3779B9) & _LOW, (k1 + 0xBB67AE85) & _LOW
    return c0, c1, c2, c3


def uniform(key: np.uint64, purpose: int, trial: int, agent: int, component: int, round: int) -> float:
    """Return the uniform of one round, strictly between 0 and 1: that of `random.uniform`."""
    words = philox((round >> 2) & _LOW, agent, trial, component | (purpose << 24), key)
    return (words[round & 3] + 0.5) * 2.0**-32
