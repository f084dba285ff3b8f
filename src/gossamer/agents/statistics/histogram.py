"""The distribution of all observations over given bins, and its quantiles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gossamer.agents.statistics.statistic import Box, Membership, Metric, Statistic, shown
from gossamer.arrays import Floats

if TYPE_CHECKING:
    from gossamer.agents.statistics.layout import Answers, Layout

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Which quantiles status files and metrics show."""


@dataclass(frozen=True)
class Histogram(Statistic):
    """Averages whether r <= b, for each bin edge b."""

    dimension: int
    bins: tuple[float, ...]
    compiled = True

    @classmethod
    def asked(cls, layout: Layout) -> Self | None:
        return cls(layout.dimension, layout.bins) if layout.bins else None

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.dimension * len(self.bins)

    def components(self, observation: Floats) -> Floats:
        below: Floats = (observation <= np.array(self.bins)[:, None]).astype(float)
        return below.ravel()

    def box(self, low: Floats, high: Floats) -> Box:
        return np.zeros(self.size), np.ones(self.size)

    def masks(self, scale: Floats) -> Floats:
        """As large, next to a share of 1, as the mask of an observation next to the width of the bins."""
        width = self.bins[-1] - self.bins[0] or abs(self.bins[0]) or 1.0
        return np.tile(scale / width, len(self.bins))

    def answer(self, means: Floats, mean: Floats) -> Floats:
        """The share of observations at or below each bin edge, made increasing; shape (edges, n)."""
        shares = means.reshape(-1, self.dimension)
        increasing: Floats = np.clip(np.maximum.accumulate(shares, axis=0), 0.0, 1.0)
        return increasing

    def entries(self, answers: Answers, count: Membership) -> dict[str, Any]:
        return {"quantiles": {str(q): shown(answers.quantile(q)) for q in QUANTILES}}

    def metrics(self, answers: Answers, count: Membership) -> Iterable[Metric]:
        values = {
            (str(q), str(k)): float(value) for q in QUANTILES for k, value in enumerate(answers.quantile(q))
        }
        text = "Quantiles of the network's observations"
        yield Metric("quantile", text, ("quantile", "component"), values)
