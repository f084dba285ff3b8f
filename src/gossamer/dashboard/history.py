"""History in bounded memory: the newest rows one by one, older ones increasingly coarse."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from gossamer.arrays import Floats, Integers

ROWS = 96
"""Rows in each tier: at two rows a second the newest tier reaches back 48 seconds, and the last one 3 days."""

MERGED = 4
"""Number of rows of one tier that become one row of the next."""

TIERS = 7


class History:
    """Rows of numbers, all of one shape.

    A tier that is full merges its oldest rows into one, their mean, which goes to the next tier; what does not fit
    into the last tier is forgotten.
    """

    def __init__(self) -> None:
        self._tiers: list[deque[Floats]] = [deque() for _ in range(TIERS)]

    def add(self, row: Floats) -> None:
        """Add the newest row."""
        for tier in self._tiers:
            tier.append(row)
            if len(tier) <= ROWS:
                return
            row = _mean([tier.popleft() for _ in range(MERGED)])

    def __len__(self) -> int:
        return sum(map(len, self._tiers))

    def rows(self) -> Floats:
        """All rows, the oldest first; shape (rows, ...)."""
        return np.array([row for tier in reversed(self._tiers) for row in tier])

    def rearrange(self, columns: Integers) -> None:
        """Reorder the last axis by the index of the old column for each new one; -1 for a new column."""
        for tier in self._tiers:
            for k, row in enumerate(tier):
                extended = np.concatenate([row, np.full((*row.shape[:-1], 1), np.nan)], axis=-1)
                tier[k] = extended[..., columns]


def _mean(rows: Sequence[Floats]) -> Floats:
    """Return the mean of the known values of each entry; nan if there are none."""
    stacked = np.array(rows)
    known = ~np.isnan(stacked)
    count = known.sum(axis=0)
    total: Floats = np.where(known, stacked, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
