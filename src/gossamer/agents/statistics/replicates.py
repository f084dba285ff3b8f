"""The standard error of the mean, from noise replicates that travel with it.

Agent i's estimate is a linear function of all observations, sum over j, t of a_ijt r_jt. Its weights a depend on the
network, on lost messages and on dead agents, and no agent knows them. But the replicates pass through the same weights.
Each observation adds to replicate k the number e_k (r - m) sqrt((c-1)/c), where m is the mean of the agent's earlier
observations, c their count with this one, and e_k a fresh standard normal number. The recursive residuals
(r - m) sqrt((c-1)/c) are uncorrelated with variance sigma_j^2, so replicate k has mean zero and the variance of the
estimate itself, and

    standard error = sqrt(mean over k of replicate_k^2)

This is the multiplier bootstrap, computed by the network for each agent, without knowing the network's size, its shape
or the other agents' noise. With K replicates the standard error itself has a relative error of 1/sqrt(2K) (25% for
K = 8): an interval uses Student's t with K degrees of freedom (2.31 standard errors for 95% with K = 8, not 1.96).
Assumed: observations of an agent are uncorrelated in time, and independent between agents. Not covered: means that have
not mixed yet (`mixing.py`), and an agent's first observation, which has no residual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from gossamer.agents.statistics.statistic import Box, Statistic
from gossamer.arrays import Floats

if TYPE_CHECKING:
    from gossamer.agents.statistics.layout import Layout


@dataclass(frozen=True)
class Replicates(Statistic):
    """K noise replicates of each component. They depend on the agent's earlier observations, so that only the compiled
    pass adds them."""

    dimension: int
    count: int
    compiled = True

    @classmethod
    def asked(cls, layout: Layout) -> Self | None:
        return cls(layout.dimension, layout.replicates) if layout.replicates else None

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.dimension * self.count

    def box(self, low: Floats, high: Floats) -> Box:
        """Residuals are at most as wide as the range, and standard normal numbers beyond 8 practically never occur."""
        width = np.tile(high - low, self.count)
        return -8 * width, 8 * width

    def masks(self, scale: Floats) -> Floats:
        return np.tile(scale, self.count)

    def answer(self, means: Floats, mean: Floats) -> Floats:
        """The standard error of the mean, shape (n,)."""
        error: Floats = np.sqrt(np.mean(means.reshape(self.count, self.dimension) ** 2, axis=0))
        return error
