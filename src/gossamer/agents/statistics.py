"""What an agent averages besides its observations, and how the answers are read back.

Averaging is linear and runs on vectors, so anything that is a mean over the network costs only more components:

    1                      whether the agent has observed anything (or, weighting by samples, how often per round)
    r                      the observation itself
    r^2                    for the network-wide variance
    [r <= b] per bin edge  for the network-wide distribution and its quantiles
    r_a r_b                for the covariance between components of the observation
    e_k residual           K noise replicates, for the standard error

Every answer is a ratio to the first component. So an agent that has seen nothing yet does not pull the
average toward zero; and with weighting by samples, where an agent feeds the sum and the count of each
round, every observation counts the same. (An agent's weight is then its observations per round that it took
part in, so the weight of one that joins late is given by its rate, not by its total.)

The standard error. Agent i's estimate is a linear function of all observations, sum over j, t of a_ijt r_jt.
Its weights a depend on the network, on lost messages and on dead agents, and nobody knows them. But the
replicates pass through the same weights. Each observation adds to replicate k the number e_k (r - m)
sqrt((c-1)/c), where m is the mean of the agent's earlier observations, c their count with this one, and
e_k a fresh standard normal number. The recursive residuals (r - m) sqrt((c-1)/c) are uncorrelated with
variance sigma_j^2, so replicate k has mean zero and the variance of the estimate itself, and

    standard error = sqrt(mean over k of replicate_k^2)

This is the multiplier bootstrap, computed by the network for each agent, without knowing the network's size,
its shape or the other agents' noise. With K replicates the standard error itself has a relative error of
1/sqrt(2K) (25% for K = 8): an interval uses Student's t with K degrees of freedom (2.31 standard errors
for 95% with K = 8, not 1.96). Assumed: observations of an agent are uncorrelated in time, and independent
between agents. Not covered: means that have not mixed yet (watch the distance to the neighbors), and an
agent's first observation, which has no residual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from gossamer import checks
from gossamer.agents.readings import LARGEST_OBSERVATION, vector
from gossamer.agents.settings import AgentSettings
from gossamer.arrays import Floats
from gossamer.errors import Unsupported

_FAINTEST = 1e-6
"""Below this share of observing agents the ratio is noise, and the answer is nan."""


@dataclass(frozen=True)
class Layout:
    """Which component of the averaged vector means what."""

    dimension: int
    variance: bool = False
    bins: tuple[float, ...] = ()
    weighting: str = "agents"
    replicates: int = 0
    range: tuple[tuple[float, float], ...] = ()
    covariance: bool = False

    @classmethod
    def of(cls, settings: AgentSettings) -> Layout:
        s = settings
        return cls(s.dimension, s.variance, s.bins, s.weighting, s.replicates, s.range, s.covariance)

    @cached_property
    def features(self) -> int:
        """Components without the first and the replicates."""
        n = self.dimension
        return n * (1 + self.variance + len(self.bins)) + self.covariance * n * (n - 1) // 2

    @cached_property
    def size(self) -> int:
        """Length of the averaged vector."""
        return 1 + self.features + self.dimension * self.replicates

    @cached_property
    def largest(self) -> float:
        """The largest observation for which neighbors still accept everything that is averaged."""
        return math.sqrt(LARGEST_OBSERVATION) if self.variance else LARGEST_OBSERVATION

    @property
    def box(self) -> tuple[Floats, Floats] | None:
        """The least and the largest value of each component in one agent's mean; None if the range does not say.

        An agent that has not observed contributes zero, so zero is in all of them. Residuals are as wide as the range,
        and a standard normal number beyond 8 is never seen. The weight of an agent is not bounded where every
        observation counts the same.
        """
        if not self.range or self.weighting == "samples":
            return None
        low, high = np.array(self.range).T
        one, width = np.ones(self.dimension), high - low
        parts = [(0 * one[:1], one[:1]), (np.minimum(low, 0.0), np.maximum(high, 0.0))]
        parts += [(0 * one, np.maximum(low**2, high**2))] * self.variance
        parts += [(0 * one, one)] * len(self.bins)
        if self.covariance:
            a, b = np.triu_indices(self.dimension, 1)
            corners = np.array([x[a] * y[b] for x in (low, high) for y in (low, high)])
            parts.append((np.minimum(corners.min(axis=0), 0.0), np.maximum(corners.max(axis=0), 0.0)))
        parts += [(-8 * width, 8 * width)] * self.replicates
        least, most = zip(*parts, strict=True)
        return np.concatenate(least), np.concatenate(most)

    def check(self, observation: object) -> Floats:
        """Return an observation as a new vector, or raise `BadObservation`."""
        return vector(observation, self.dimension, self.largest)

    def read(self, vector: Floats) -> Answers:
        """The answers in an averaged vector."""
        return Answers(self, vector)


@dataclass(frozen=True)
class Answers:
    """What an averaged vector says; arrays of shape (n,), nan while nothing is known."""

    mixed: ClassVar[bool] = False  #: whether what has not mixed is withheld
    layout: Layout
    vector: Floats

    @property
    def withheld(self) -> str:
        """Why there is no answer; empty: there is one, or nothing was observed."""
        return ""

    def distance(self, vector: Floats) -> float:
        """The largest difference between these answers' mean and that of another vector."""
        return float(np.abs(self.layout.read(vector).mean - self.mean).max())

    @cached_property
    def _ratio(self) -> Floats:
        presence = self.vector[0]
        if not presence > _FAINTEST:
            return np.full(len(self.vector), np.nan)
        ratio: Floats = self.vector / presence
        return ratio

    @property
    def presence(self) -> float:
        """Share of agents that have observed (weighting by agents), or observations per agent and round."""
        return float(self.vector[0])

    @property
    def mean(self) -> Floats:
        return self._ratio[1 : 1 + self.layout.dimension]

    @property
    def variance(self) -> Floats | None:
        """Variance of a single observation drawn from the whole network, or None if it is not averaged."""
        n = self.layout.dimension
        if not self.layout.variance:
            return None
        return np.maximum(self._ratio[1 + n : 1 + 2 * n] - self.mean**2, 0.0)

    @property
    def covariance(self) -> Floats | None:
        """Covariance (n, n) of the components of one observation from the whole network; None if it is not averaged."""
        n, variance = self.layout.dimension, self.variance
        if not self.layout.covariance or variance is None:
            return None
        start = 1 + self.layout.features - n * (n - 1) // 2
        found = np.diag(variance)
        a, b = np.triu_indices(n, 1)
        found[a, b] = found[b, a] = (
            self._ratio[start : 1 + self.layout.features] - self.mean[a] * self.mean[b]
        )
        return found

    def observing(self, members: int, inherited: int = 0) -> float:
        """How many of the fleet's members have observed anything; nan if that is not known.

        `inherited` is how many agents have left and handed their data over: they are not counted.
        """
        counts = members and self.layout.weighting == "agents"
        return members * self.presence - inherited if counts else math.nan

    def total(self, members: int) -> Floats:
        """The sum over the members of the mean of what each has observed, and over those that have left and handed
        their data over; nan if that is not known."""
        return self.observing(members) * self.mean

    def total_error(self, members: int) -> Floats:
        """Standard error of `total`."""
        return self.observing(members) * self.standard_error

    @property
    def standard_error(self) -> Floats:
        k, n = self.layout.replicates, self.layout.dimension
        if k == 0:
            return np.full(n, np.nan)
        replicates = self._ratio[1 + self.layout.features :].reshape(k, n)
        error: Floats = np.sqrt(np.mean(replicates**2, axis=0))
        return error

    @property
    def distribution(self) -> Floats:
        """Share of observations at or below each bin edge, made increasing; shape (edges, n)."""
        if not self.layout.bins:
            raise Unsupported(
                "bins must be set to learn the distribution and its quantiles; this agent averages no histogram"
            )
        n = self.layout.dimension
        start = 1 + n * (1 + self.layout.variance)
        shares = self._ratio[start : start + n * len(self.layout.bins)].reshape(-1, n)
        increasing: Floats = np.clip(np.maximum.accumulate(shares, axis=0), 0.0, 1.0)
        return increasing

    def quantile(self, q: float) -> Floats:
        """The network-wide q-quantile, linear between bin edges; the outermost edge beyond them."""
        checks.probability("q", q)
        shares = self.distribution
        edges = np.array(self.layout.bins)
        return np.array([np.interp(q, column, edges) for column in shares.T])
