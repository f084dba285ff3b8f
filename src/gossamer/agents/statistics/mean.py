"""The mean of all observations, how many members have observed, and their total."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from gossamer.agents.statistics.statistic import Box, Membership, Metric, Statistic, shown
from gossamer.arrays import Floats

if TYPE_CHECKING:
    from gossamer.agents.statistics.layout import Answers, Layout


@dataclass(frozen=True)
class Mean(Statistic):
    """The observation itself."""

    size: int
    compiled = True

    @classmethod
    def asked(cls, layout: Layout) -> Self:
        return cls(layout.dimension)

    def components(self, observation: Floats) -> Floats:
        return observation

    def box(self, low: Floats, high: Floats) -> Box:
        return np.minimum(low, 0.0), np.maximum(high, 0.0)

    def masks(self, scale: Floats) -> Floats:
        return scale

    def entries(self, answers: Answers, count: Membership) -> dict[str, object]:
        observing = answers.observing(*count)
        if not math.isfinite(observing):
            return {}
        return {
            "observing": observing,
            "total": shown(answers.total(count.members)),
            "total_standard_error": shown(answers.total_error(count.members)),
        }

    def metrics(self, answers: Answers, count: Membership) -> Iterable[Metric]:
        members = count.members
        yield Metric("observing_members", "Members that have observed", (), {(): answers.observing(*count)})
        yield Metric.vector("total", "Sum over the members of each one's mean", answers.total(members))
        yield Metric.vector(
            "total_standard_error", "Standard error of the total", answers.total_error(members)
        )
