"""The mixing error: how far an agent's answer may still move, which its standard error must include.

Noise replicates cover only noise. After a change (a neighbor died, came back or joined) answers move for a while, and
three quantities tell an agent how far they may still move:

- the distance to its neighbors, because agents that disagree will meet in between;
- the remaining flows of the edges that it has dropped, which will leave its answer;
- the movement of its answer in the last `span` rounds: dropped flows return by a constant factor per round, so an agent
  far from the change, which sees neither of the other two, still has to move about as far as it has just moved.

The mixing error is the largest of the three, by component.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from gossamer.agents.statistics.layout import Answers, Layout
from gossamer.arrays import Floats

_STEPS = 5
"""The answers of the last `span` rounds are remembered at this many moments."""

_NEGLIGIBLE, _ROUNDING = 1e-3, 1e-6
"""Relative accuracies at which an answer counts as settled: the first without replicates, when the noise is unknown;
the second if all observations are equal, so that there is no noise."""


class Mixing:
    """Remembers an agent's recent answers; `return_rate` is that of the fleet."""

    def __init__(self, layout: Layout, return_rate: float) -> None:
        self._layout = layout
        self._every = max(1, round(1.0 / (_STEPS * (1.0 - return_rate))))
        self._recent: deque[Floats] = deque(maxlen=_STEPS)

    def note(self, age: int, estimate: Floats) -> None:
        """Record the averaged vector after a round; rounds may be skipped."""
        if age % self._every == 0:
            self._recent.append(estimate.copy())

    def error(self, answers: Answers, returning: Floats, neighbors: Iterable[Floats]) -> Floats:
        """The mixing error of each component of the answer, shape (n,); nan while there is no answer.

        `returning` are the remaining flows of dropped edges, `neighbors` the latest values of live neighbors, both as
        averaged vectors.
        """
        if answers.mixed:
            return np.where(np.isnan(answers.mean), np.nan, 0.0)
        others = [answers.vector - returning, *self._recent, *neighbors]
        apart = [np.abs(self._layout.read(vector).held - answers.held) for vector in others]
        apart.append(np.abs(answers.held - answers.mean))
        known = [np.where(np.isnan(difference), 0.0, difference) for difference in apart]
        worst: Floats = np.max(known, axis=0)
        return np.where(np.isnan(answers.mean), np.nan, worst)


def combined(noise: Floats, mixing: Floats) -> Floats:
    """The standard error that includes both; nan where that of the noise is."""
    error: Floats = np.hypot(noise, mixing)
    return error


def settled(answers: Answers, noise: Floats, mixing: Floats) -> bool:
    """Whether the mixing error is at most the noise."""
    size = np.abs(answers.mean)
    least = np.where(np.isnan(noise), _NEGLIGIBLE * size, np.maximum(noise, _ROUNDING * size))
    return bool(np.all(mixing <= least))
