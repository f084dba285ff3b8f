"""Which statistics a fleet averages, where their components are in the vector, and how answers are read from it.

The vector begins with 1, which says whether the agent has observed anything (or, weighting by samples, how often per
round). Then follow the components of the statistics, in the order of `STATISTICS`.

Every answer is a ratio to the first component. So an agent that has seen nothing yet does not pull the
average toward zero; and with weighting by samples, where an agent feeds the sum and the count of each
round, every observation counts the same. (An agent's weight is then its observations per round that it took
part in, so the weight of an agent that joins late is given by its rate, not by its total.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gossamer import checks
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.config.tables import StatisticSettings
from gossamer.agents.statistics.covariance import Covariance
from gossamer.agents.statistics.extremes import MinimumMaximum
from gossamer.agents.statistics.histogram import Histogram
from gossamer.agents.statistics.mean import Mean
from gossamer.agents.statistics.readings import LARGEST_OBSERVATION, vector
from gossamer.agents.statistics.replicates import Replicates
from gossamer.agents.statistics.statistic import Membership, Metric, Statistic
from gossamer.agents.statistics.variance import Variance
from gossamer.arrays import Floats
from gossamer.errors import Unsupported

STATISTICS: tuple[type[Statistic], ...] = (
    Mean,
    Variance,
    Histogram,
    Covariance,
    MinimumMaximum,
    Replicates,
)
"""All statistics, in the order of their components. Replicates stay last: the compiled pass counts on it."""

_FAINTEST = 1e-6
"""If a smaller share of agents observes, the ratio is noise, and the answer is nan."""


@dataclass(frozen=True)
class Layout(StatisticSettings):
    """What is averaged; the fields are the settings of the same names."""

    dimension: int
    weighting: str = "agents"
    range: tuple[tuple[float, float], ...] = ()
    noise_scale: tuple[float, ...] = ()
    replicates: int = field(default=0, kw_only=True)

    @classmethod
    def of(cls, settings: AgentSettings) -> Layout:
        """What agents with these settings average."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        """The enabled statistics, in the order of their components."""
        asked = (kind.asked(self) for kind in STATISTICS)
        return tuple(statistic for statistic in asked if statistic is not None)

    @cached_property
    def slices(self) -> dict[type[Statistic], slice]:
        """Where the components of each statistic are."""
        ends = np.cumsum([1, *(statistic.size for statistic in self.statistics)]).tolist()
        spans = zip(self.statistics, ends, ends[1:], strict=False)
        return {type(statistic): slice(start, end) for statistic, start, end in spans}

    @cached_property
    def size(self) -> int:
        """Length of the averaged vector."""
        return 1 + sum(statistic.size for statistic in self.statistics)

    @cached_property
    def interpreted(self) -> tuple[tuple[Statistic, slice], ...]:
        """The statistics whose components Python adds, because the compiled pass does not know them."""
        return tuple((s, self.slices[type(s)]) for s in self.statistics if s.size and not s.compiled)

    @cached_property
    def largest(self) -> float:
        """The largest observation for which neighbors still accept everything that is averaged."""
        squares = any(statistic.squares for statistic in self.statistics)
        return math.sqrt(LARGEST_OBSERVATION) if squares else LARGEST_OBSERVATION

    @property
    def box(self) -> tuple[Floats, Floats] | None:
        """The smallest and the largest value of each component in one agent's mean; None if the range does not say.

        An agent that has not observed contributes zero, so zero is in all of them. The weight of an agent is not
        bounded if every observation counts the same.
        """
        if not self.range or self.weighting == "samples":
            return None
        low, high = np.array(self.range).T
        boxes = [(np.zeros(1), np.ones(1)), *(s.box(low, high) for s in self.statistics if s.size)]
        least, most = zip(*boxes, strict=True)
        return np.concatenate(least), np.concatenate(most)

    def masks(self, scale: tuple[float, ...]) -> Floats:
        """(size,) standard deviations of the masks of all components, for these of an observation's components.

        The first component, which says whether the agent has observed, is not masked.
        """
        scales = np.array(scale)
        return np.concatenate([np.zeros(1), *(s.masks(scales) for s in self.statistics if s.size)])

    @cached_property
    def level_noise(self) -> Floats | None:
        """(size,) standard deviations of the noise that an agent adds once to its level; None if there is none.

        Replicates get draws of their own, so that standard errors include the noise.
        """
        return self.masks(self.noise_scale) if self.noise_scale else None

    def check(self, observation: object) -> Floats:
        """Return an observation as a new vector, or raise `BadObservation`."""
        return vector(observation, self.dimension, self.largest)

    def read(self, vector: Floats) -> Answers:
        """The answers in an averaged vector."""
        return Answers(self, vector)


@dataclass(frozen=True)
class Answers:
    """The answers in an averaged vector; arrays of shape (n,), nan while nothing is known.

    extremes  the smallest and the largest observation of the members, if they are collected
    """

    mixed: ClassVar[bool] = False  #: whether what has not mixed is withheld
    layout: Layout
    vector: Floats
    extremes: tuple[Floats, Floats] | None = None

    @property
    def withheld(self) -> str:
        """Why there is no answer; empty if there is one, or if nothing was observed."""
        return ""

    def get(self, kind: type[Statistic]) -> Any:
        """The answer of one statistic, or None if it is not averaged."""
        where = self.layout.slices.get(kind)
        if where is None:
            return None
        statistic = next(s for s in self.layout.statistics if type(s) is kind)
        return statistic.answer(self._ratio[where], self.held)

    def entries(self, count: Membership) -> dict[str, object]:
        """What status files and JSON lines show of all statistics."""
        return {name: value for s in self.layout.statistics for name, value in s.entries(self, count).items()}

    def metrics(self, count: Membership) -> Iterable[Metric]:
        """What Prometheus sees of all statistics."""
        for statistic in self.layout.statistics:
            yield from statistic.metrics(self, count)

    def distance(self, vector: Floats) -> float:
        """The largest difference between these answers' mean and that of another vector, before both are clipped."""
        return float(np.abs(self.layout.read(vector).held - self.held).max())

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
    def held(self) -> Floats:
        """The average as the agent holds it, which may be outside the range while it mixes, or if a member lies."""
        return self._ratio[self.layout.slices[Mean]]

    @property
    def mean(self) -> Floats:
        """The average of all observations, clipped to the range: a mean of numbers in a range is in it."""
        if not self.layout.range:
            return self.held
        low, high = np.array(self.layout.range).T
        return np.clip(self.held, low, high)

    @property
    def variance(self) -> Floats | None:
        """Variance of a single observation drawn from the whole network, or None if it is not averaged."""
        variance: Floats | None = self.get(Variance)
        return variance

    @property
    def covariance(self) -> Floats | None:
        """Covariance (n, n) of the components of one observation from the whole network; None if it is not averaged."""
        between, variance = self.get(Covariance), self.variance
        if between is None or variance is None:
            return None
        matrix: Floats = between + np.diag(variance)
        return matrix

    def observing(self, members: int, inherited: int = 0) -> float:
        """How many of the fleet's members have observed anything; nan if that is not known.

        `inherited` is the number of agents that have left and handed their data over: they are not counted.
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
        """Standard error of `mean` (`replicates.py`)."""
        error: Floats | None = self.get(Replicates)
        return np.full(self.layout.dimension, np.nan) if error is None else error

    @property
    def distribution(self) -> Floats:
        """Share of observations at or below each bin edge, made increasing; shape (edges, n)."""
        shares: Floats | None = self.get(Histogram)
        if shares is None:
            raise Unsupported(
                "must be set to learn the distribution and its quantiles; this agent averages no histogram",
                parameter="bins",
            )
        return shares

    def quantile(self, q: float) -> Floats:
        """The network-wide q-quantile, linear between bin edges; the outermost edge beyond them."""
        checks.probability("q", q)
        edges = np.array(self.layout.bins)
        return np.array([np.interp(q, column, edges) for column in self.distribution.T])
