"""Sums over agents whose last digit depends neither on threads nor on the distribution of agents over ranks.

Agents are added in blocks of consecutive numbers, and the sums of the blocks in order. A rank that holds whole blocks
can therefore contribute their sums.
"""

from __future__ import annotations

import numpy as np

from gossamer.arrays import AnyArray, Floats

BLOCK = 512
"""Number of agents that are added one after the other."""


def block_sums(values: Floats, size: int = BLOCK) -> Floats:
    """Return (blocks, ...) sums of every `size` entries along the first axis."""
    values = np.ascontiguousarray(values)
    whole = len(values) // size * size
    sums = values[:whole].reshape(-1, size, *values.shape[1:]).sum(axis=1)
    rest = values[None, whole:].sum(axis=1)
    return np.concatenate([sums, rest]) if whole < len(values) else sums


def in_order(sums: AnyArray) -> AnyArray:
    """Return the sum along the first axis, added from the first to the last."""
    return np.asarray(np.add.accumulate(sums, axis=0)[-1])


def average(values: Floats) -> Floats:
    """Return the mean over agents of their values (N, n)."""
    return np.asarray(in_order(block_sums(values)) / len(values))
