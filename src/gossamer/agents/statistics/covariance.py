"""The covariance between the components of one observation of the whole network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gossamer.agents.statistics.statistic import Box, Membership, Metric, Statistic, shown
from gossamer.arrays import Floats

if TYPE_CHECKING:
    from gossamer.agents.statistics.layout import Answers, Layout


@dataclass(frozen=True)
class Covariance(Statistic):
    """Averages r_a r_b for all pairs a < b; the diagonal comes from `Variance`."""

    dimension: int
    compiled = True
    squares = True

    @classmethod
    def asked(cls, layout: Layout) -> Self | None:
        return cls(layout.dimension) if layout.covariance else None

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.dimension * (self.dimension - 1) // 2

    @property
    def _pairs(self) -> tuple[Any, ...]:
        return np.triu_indices(self.dimension, 1)

    def components(self, observation: Floats) -> Floats:
        a, b = self._pairs
        product: Floats = observation[a] * observation[b]
        return product

    def box(self, low: Floats, high: Floats) -> Box:
        a, b = self._pairs
        corners = np.array([x[a] * y[b] for x in (low, high) for y in (low, high)])
        return np.minimum(corners.min(axis=0), 0.0), np.maximum(corners.max(axis=0), 0.0)

    def masks(self, scale: Floats) -> Floats:
        a, b = self._pairs
        product: Floats = scale[a] * scale[b]
        return product

    def answer(self, means: Floats, mean: Floats) -> Floats:
        """Shape (n, n), with zeros on the diagonal."""
        a, b = self._pairs
        matrix = np.zeros((self.dimension, self.dimension))
        matrix[a, b] = matrix[b, a] = means - mean[a] * mean[b]
        return matrix

    def entries(self, answers: Answers, count: Membership) -> dict[str, Any]:
        matrix = answers.covariance
        return {} if matrix is None else {"covariance": [shown(row) for row in matrix]}

    def metrics(self, answers: Answers, count: Membership) -> Iterable[Metric]:
        matrix = answers.covariance
        if matrix is not None:
            cells = {(str(a), str(b)): float(value) for (a, b), value in np.ndenumerate(matrix)}
            text = "Covariance of two components of one observation"
            yield Metric("covariance", text, ("component", "other"), cells)
