"""What an agent averages beside its observations, and how the answers are read back.

Averaging is linear and runs on vectors, so everything that is a mean of something over the network comes for
the price of more components:

    1                      who has observed anything at all (or, weighting by samples, how many per round)
    r                      the observation itself
    r^2                    for the network-wide variance
    [r <= b] per bin edge  for the network-wide distribution and its quantiles
    e_k residual           K noise replicates, for the standard error

Every answer is a ratio to the first component. So an agent that has seen nothing yet does not pull the
average towards zero; and with weighting by samples, where an agent feeds the sum and the count of each
round, the ratio counts every observation alike. (An agent's weight is then its observations per round of
its own life, so one that joins late weighs what its rate is, not what its total is.)

The standard error. Agent i's estimate is a linear function of all observations, sum over j, t of a_ijt r_jt,
whose weights a depend on the network, on the losses and on who died, and which nobody knows. But the
replicates pass through the very same weights. Each observation adds to replicate k the number e_k (r - m)
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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gossamer.agents.readings import LARGEST_OBSERVATION, vector
from gossamer.agents.settings import AgentSettings
from gossamer.errors import InvalidInput, Unsupported

Array = NDArray[np.float64]

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

    @classmethod
    def of(cls, settings: AgentSettings) -> Layout:
        s = settings
        return cls(s.dimension, s.variance, s.bins, s.weighting, s.replicates)

    @cached_property
    def features(self) -> int:
        """Components without the first and the replicates."""
        return self.dimension * (1 + self.variance + len(self.bins))

    @cached_property
    def size(self) -> int:
        """Length of the averaged vector."""
        return 1 + self.features + self.dimension * self.replicates

    @cached_property
    def largest(self) -> float:
        """The largest observation of which the neighbors accept everything that is averaged."""
        return math.sqrt(LARGEST_OBSERVATION) if self.variance else LARGEST_OBSERVATION

    def check(self, observation: object) -> Array:
        """Return an observation as a new vector, or say what is wrong with it."""
        return vector(observation, self.dimension, self.largest)

    def read(self, vector: Array) -> Answers:
        """The answers in an averaged vector."""
        return Answers(self, vector)


@dataclass(frozen=True)
class Answers:
    """What an averaged vector says; arrays of shape (n,), nan while nothing is known."""

    layout: Layout
    vector: Array

    @cached_property
    def _ratio(self) -> Array:
        presence = self.vector[0]
        if not presence > _FAINTEST:
            return np.full(len(self.vector), np.nan)
        ratio: Array = self.vector / presence
        return ratio

    @property
    def presence(self) -> float:
        """Share of agents that have observed (weighting by agents), or observations per agent and round."""
        return float(self.vector[0])

    @property
    def mean(self) -> Array:
        return self._ratio[1 : 1 + self.layout.dimension]

    @property
    def variance(self) -> Array | None:
        """Variance of a single observation drawn from the whole network, or None if it is not averaged."""
        n = self.layout.dimension
        if not self.layout.variance:
            return None
        return np.maximum(self._ratio[1 + n : 1 + 2 * n] - self.mean**2, 0.0)

    @property
    def standard_error(self) -> Array:
        k, n = self.layout.replicates, self.layout.dimension
        if k == 0:
            return np.full(n, np.nan)
        replicates = self._ratio[1 + self.layout.features :].reshape(k, n)
        error: Array = np.sqrt(np.mean(replicates**2, axis=0))
        return error

    @property
    def distribution(self) -> Array:
        """Share of observations at or below each bin edge, made increasing; shape (edges, n)."""
        if not self.layout.bins:
            raise Unsupported("no histogram is averaged; set bins to learn quantiles")
        n = self.layout.dimension
        start = 1 + n * (1 + self.layout.variance)
        shares = self._ratio[start : 1 + self.layout.features].reshape(-1, n)
        increasing: Array = np.clip(np.maximum.accumulate(shares, axis=0), 0.0, 1.0)
        return increasing

    def quantile(self, q: float) -> Array:
        """The network-wide q-quantile, linear between bin edges; the outermost edge beyond them."""
        if not 0 <= q <= 1:
            raise InvalidInput(f"a quantile is between 0 and 1, got {q!r}")
        shares = self.distribution
        edges = np.array(self.layout.bins)
        return np.array([np.interp(q, column, edges) for column in shares.T])


@dataclass(frozen=True)
class NeighborView:
    """What an agent knows of one neighbor.

    state       "joining" (not heard yet), "alive", "silent" (missed its last A rounds) or "dead"
    connected   whether the transport sees it
    last_heard  seconds since its last used message; infinite before the first
    distance    largest difference between its estimate and the agent's own, over the components
    used        messages of its that took part in a round
    lost        rounds in which nothing usable of it was there in time
    late        messages that arrived for a round already over
    round_trip  smoothed seconds from sending a message to hearing it echoed; nan before the first
    """

    id: int
    state: str
    connected: bool
    last_heard: float
    distance: float
    used: int
    lost: int
    late: int
    round_trip: float


@dataclass(frozen=True)
class Snapshot:
    """The agent at one moment; what tables, JSON lines and metrics show.

    round         Lamport number of the current round, shared with the neighbors
    age           rounds this agent has taken part in, over all its lives
    samples       observations it has used; `acknowledged` of them are safe in the store
    estimate, standard_error, variance   shape (n,), nan while nothing is known
    answers       everything averaged, for quantiles (see `statistics.Answers`)
    state         "running", "degraded" (the store cannot be written, or the source failed; `problem` says why)
                  or "stopped"
    rejected      dropped messages by reason (see `wire.Reason`)
    bad           values of the source that were no observations
    """

    agent: int
    time: float
    round: int
    age: int
    samples: int
    acknowledged: int
    estimate: Array
    standard_error: Array
    variance: Array | None
    answers: Answers
    state: str
    problem: str
    sent: int
    received: int
    rejected: Mapping[str, int]
    neighbors: tuple[NeighborView, ...]
    bad: int = 0
