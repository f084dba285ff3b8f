"""The least and the largest observation of a fleet's members, beside the ledger.

They are no averages, but they need none: who hears of a larger one passes it on, however often and in whatever order,
so lost, late and repeated messages do no harm. What cannot be undone is forgotten instead: with every epoch of the
roster each agent begins again with its own observations, so that those of members that left are gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossamer.arrays import Floats


class Extremes:
    """Smallest and largest values by component, as 2n maxima: those of -r, then those of r.

    own    those of this agent's observations, which survive a restart
    known  those of all observations heard of in this epoch
    range  of the observations, which no honest agent exceeds: a pair per component; empty: unknown
    """

    def __init__(self, dimension: int, own: bytes = b"", range: Sequence[tuple[float, float]] = ()) -> None:
        self.own = np.frombuffer(own).copy() if own else np.full(2 * dimension, -np.inf)
        low, high = np.array(range or [(-np.inf, np.inf)] * dimension).T
        self._most = np.concatenate([-low, high])
        self.known = self.own.copy()

    def observe(self, new: Sequence[Floats]) -> None:
        """Take this agent's observations of one round."""
        for value in new:
            np.maximum(self.own, np.concatenate([-value, value]), out=self.own)
        np.maximum(self.known, self.own, out=self.known)

    def plausible(self, told: bytes) -> bool:
        """Whether a neighbor's numbers are as many as they must be, and none is NaN or too large."""
        return len(told) == self.known.nbytes and bool(np.all(np.frombuffer(told) <= self._most))

    def hear(self, told: bytes) -> None:
        """Take what a neighbor of the same epoch knows."""
        np.maximum(self.known, np.frombuffer(told), out=self.known)

    def begin_epoch(self) -> None:
        """Forget what others said."""
        self.known = self.own.copy()

    @property
    def least(self) -> Floats:
        """Shape (n,); infinite before the first observation."""
        return -self.known[: len(self.known) // 2]

    @property
    def largest(self) -> Floats:
        """Shape (n,); minus infinity before the first observation."""
        return self.known[len(self.known) // 2 :].copy()
