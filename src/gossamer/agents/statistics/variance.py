"""The variance of a single observation drawn from the whole network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from gossamer.agents.statistics.statistic import Box, Membership, Metric, Statistic, shown
from gossamer.arrays import Floats

if TYPE_CHECKING:
    from gossamer.agents.statistics.layout import Answers, Layout


@dataclass(frozen=True)
class Variance(Statistic):
    """Averages r^2; the variance is the mean of r^2 minus the square of the mean."""

    size: int
    compiled = True
    squares = True

    @classmethod
    def asked(cls, layout: Layout) -> Self | None:
        return cls(layout.dimension) if layout.variance else None

    def components(self, observation: Floats) -> Floats:
        return observation**2

    def box(self, low: Floats, high: Floats) -> Box:
        return np.zeros(self.size), np.maximum(low**2, high**2)

    def masks(self, scale: Floats) -> Floats:
        return scale**2

    def answer(self, means: Floats, mean: Floats) -> Floats:
        return np.maximum(means - mean**2, 0.0)

    def entries(self, answers: Answers, count: Membership) -> dict[str, object]:
        return {"variance": shown(answers.get(Variance))}

    def metrics(self, answers: Answers, count: Membership) -> Iterable[Metric]:
        yield Metric.vector("variance", "Variance of one observation of the network", answers.get(Variance))
