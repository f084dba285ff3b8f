"""The smallest and the largest observation of a fleet's members, which travel next to the ledger.

They are not averages: an agent that receives a larger value passes it on, so lost, late, repeated and reordered
messages do no harm. A maximum cannot be reduced, so it is reset: with every epoch of the roster each agent starts
again from its own observations, and those of members that have left disappear.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from gossamer.agents.statistics.statistic import Membership, Metric, Statistic, shown
from gossamer.arrays import Floats

if TYPE_CHECKING:
    from gossamer.agents.statistics.layout import Answers, Layout


@dataclass(frozen=True)
class MinimumMaximum(Statistic):
    """What is shown of the extremes; they are not averaged, so they have no components."""

    @classmethod
    def asked(cls, layout: Layout) -> Self | None:
        return cls() if layout.extremes else None

    def entries(self, answers: Answers, count: Membership) -> dict[str, object]:
        if answers.extremes is None:
            return {}
        return dict(zip(("minimum", "maximum"), map(shown, answers.extremes), strict=True))

    def metrics(self, answers: Answers, count: Membership) -> Iterable[Metric]:
        if answers.extremes is not None:
            least, largest = answers.extremes
            yield Metric.vector("minimum", "Least observation of the members, in this epoch", least)
            yield Metric.vector("maximum", "Largest observation of the members, in this epoch", largest)


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

    def plausible(self, received: bytes) -> bool:
        """Whether a neighbor sent the right number of values, none of them NaN or too large."""
        return len(received) == self.known.nbytes and bool(np.all(np.frombuffer(received) <= self._most))

    def hear(self, received: bytes) -> None:
        """Merge the extremes that a neighbor of the same epoch knows."""
        np.maximum(self.known, np.frombuffer(received), out=self.known)

    def begin_epoch(self) -> None:
        """Forget the values of other agents."""
        self.known = self.own.copy()

    @property
    def least(self) -> Floats:
        """Shape (n,); infinite before the first observation."""
        return -self.known[: len(self.known) // 2]

    @property
    def largest(self) -> Floats:
        """Shape (n,); minus infinity before the first observation."""
        return self.known[len(self.known) // 2 :].copy()
