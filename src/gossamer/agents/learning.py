"""Agents that learn a model: an observation is a row, covariates and then a label, and never leaves its agent.

What an agent averages are sums over its rows, each linearized at a reference of its own (`families.py`):

    n                           its number of rows
    A = sum of l'' x x'         curvature, the upper triangle
    b = A r - sum of l' x       pseudo-response, for rows linearized at the predictor x'r
    sum of e_k l' x             K replicates of the score, for standard errors

An agent that holds the averages solves (A/n + ridge) theta = b/n, a Newton step for everybody's rows. Whenever it has
grown a quarter older, it takes theta as its reference and linearizes all rows in memory again, but changes the
predictor of none of them by more than `STEP` at once: so a wild estimate, from before the network has mixed, does no
lasting harm, and in the end every agent has the fit of all rows, as if they were in one place. While there is no
estimate, a row is linearized at what its label suggests.

The replicates are those of `statistics.py`, of the scores: e_k is a standard normal number that a row keeps, so that
A^{-1} sum of e_k l' x varies as theta does (the sandwich), whatever the network has done with the sums.

A table (a CSV file that is not followed) is read as a whole, at every start. Other rows are taken as they come, but at
least `FleetModel.least` at a time: the difference between two messages is that of the sums, and must not be a row. An
agent never stores a row, so after a restart those that came keep their sums as they were, and so do rows beyond
`FleetModel.memory`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gossamer.agents.readings import BadObservation, Range, short
from gossamer.agents.round.batching import Batch, Batcher
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.settings import AgentSettings, FleetModel
from gossamer.agents.statistics import Answers, Layout
from gossamer.arrays import Floats
from gossamer.families import Family, centering, curvature_of

log = logging.getLogger("gossamer.agents")

STEP = 2.0
"""By how much a predictor may change when an agent takes a new reference."""

_LARGEST_ROW = 1e20
"""The largest number in a row: sums of products of two are sent."""


@dataclass(frozen=True)
class ModelLayout(Layout):
    """Which component of the averaged vector means what, for an agent that learns a model."""

    model: FleetModel = field(default_factory=FleetModel)

    @cached_property
    def family(self) -> Family:
        return self.model.build()

    @cached_property
    def width(self) -> int:
        """Numbers of theta for one predictor."""
        return self.dimension - 1 + self.model.intercept

    @cached_property
    def parameters(self) -> int:
        return self.width * self.family.outputs

    @cached_property
    def packed(self) -> int:
        return self.parameters * (self.parameters + 1) // 2

    @cached_property
    def features(self) -> int:
        return self.packed + self.parameters

    @cached_property
    def size(self) -> int:
        return 1 + self.features + self.parameters * self.replicates

    @cached_property
    def largest(self) -> float:
        return _LARGEST_ROW

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the numbers of theta are called."""
        one = (*self.model.covariates, "intercept")[: self.width]
        if self.family.outputs == 1:
            return one
        return tuple(f"{name} ({k})" for k in range(1, 1 + self.family.outputs) for name in one)

    @cached_property
    def penalty(self) -> Floats:
        found = np.full((self.family.outputs, self.width), self.model.ridge)
        found[:, self.dimension - 1 :] = 0.0
        return found.ravel()

    @property
    def box(self) -> None:
        """Nothing: pseudo-responses have no bound that honest agents could agree on (docs/security.md)."""

    def read(self, vector: Floats) -> ModelAnswers:
        return ModelAnswers(self, vector[: self.size])  # a message has more behind it

    def solve(self, means: Floats, least: float = 1e-9) -> tuple[Floats, Floats] | None:
        """theta, and its standard errors, from the means over rows; None while some direction is not known."""
        p = self.parameters
        rows, columns = np.triu_indices(p)
        curvature = np.diag(self.penalty)
        curvature[rows, columns] += means[: self.packed]
        curvature[columns, rows] = curvature[rows, columns]
        if not np.isfinite(means).all():
            return None
        change = centering(curvature, self.family.outputs) if self.model.intercept else np.eye(p)
        centered = change.T @ curvature @ change
        if np.diag(centered).min() <= 0:
            return None
        basis = change / np.sqrt(np.diag(centered))
        values, vectors = np.linalg.eigh(basis.T @ curvature @ basis)
        if values[0] <= least:
            return None
        right = np.column_stack(
            [means[self.packed : self.features], means[self.features :].reshape(self.replicates, p).T]
        )
        found = basis @ (vectors @ ((vectors.T @ (basis.T @ right)) / values[:, None]))
        spread = np.sqrt(np.mean(found[:, 1:] ** 2, axis=1)) if self.replicates else np.full(p, np.nan)
        return found[:, 0], spread


def layout_of(settings: AgentSettings) -> Layout:
    """What an agent with these settings averages."""
    if settings.model is None:
        return Layout.of(settings)
    return ModelLayout(
        settings.dimension, weighting=settings.weighting, replicates=settings.replicates, model=settings.model
    )


def range_of(settings: AgentSettings, layout: Layout) -> Range:
    """What becomes of observations that such an agent does not take."""
    if isinstance(layout, ModelLayout):
        return Labels(settings, layout.family)
    return Range(settings.range, clips=settings.outside == "clip")


def batcher_of(settings: AgentSettings, layout: Layout, ledger: Ledger, seed: int | None) -> Batcher:
    """What turns its observations into what it averages."""
    if isinstance(layout, ModelLayout):
        return RowBatcher(layout, lambda: ledger.estimate, ledger.mean, ledger.samples, seed)
    weighted = ledger.program.weighted
    gain = getattr(settings.method, "gain", None) if weighted else None
    return Batcher(layout, gain=gain, holds=not weighted, seed=seed)


@dataclass(frozen=True)
class ModelAnswers(Answers):
    """What an averaged vector says of a model; nan while some direction is not known."""

    layout: ModelLayout

    @cached_property
    def _solved(self) -> tuple[Floats, Floats]:
        unknown = np.full(self.layout.parameters, np.nan)
        return self.layout.solve(self._ratio[1:]) or (unknown, unknown)

    @property
    def mean(self) -> Floats:
        """The estimated parameters, in the order of `ModelLayout.names`."""
        return self._solved[0]

    @property
    def standard_error(self) -> Floats:
        return self._solved[1]

    @property
    def variance(self) -> None:
        return None

    @property
    def covariance(self) -> None:
        return None

    def observing(self, members: int) -> float:
        """Unknown: an average of curvature does not say how many contribute to it, and a total makes no sense."""
        return np.nan


class Labels(Range):
    """The rows that a model takes: within the range, if there is one, and with a label of its family."""

    def __init__(self, settings: AgentSettings, family: Family) -> None:
        super().__init__(settings.range, clips=settings.outside == "clip")
        self._family = family

    def admit(self, observation: Floats) -> Floats:
        if self._family.outside(observation[-1:]).any():
            raise BadObservation(
                f"the label of a row must be {self._family.labels} for the family {self._family.name}, "
                f"got {short(float(observation[-1]))}"
            )
        return super().admit(observation)

    def doubt(self, estimate: Floats, *, observed: bool) -> str:
        return ""  # coefficients have no range, and are withheld while they are unknown


class RowBatcher(Batcher):
    """Turns an agent's rows into the sums that it averages. See the top of this file.

    estimate  what the agent holds of the network's average, (n,)
    own       its own sums from before a restart, (n,), and of how many rows they are
    """

    def __init__(
        self,
        layout: ModelLayout,
        estimate: Callable[[], Floats],
        own: Floats,
        samples: float,
        seed: int | None = None,
    ) -> None:
        self.layout: ModelLayout = layout
        self._estimate = estimate
        self._random = np.random.default_rng(seed)
        by_agents = layout.weighting == "agents"
        self._by_agents = by_agents
        self._frozen = own * samples if by_agents else own.copy()
        self._kept = _Kept(layout)
        self._sums = np.zeros(layout.size)  # of the rows in memory
        self._waiting: list[Floats] = []
        self._theta: Floats | None = None
        self._renewed = 0

    def batch(self, new: Sequence[Floats], mean: Floats, samples: float, age: int) -> Batch:
        if age - self._renewed > self._renewed // 4:
            self._renew(age)
        rows, count = self._take(new, samples)
        if len(rows):
            noise = self._random.standard_normal((len(rows), self.layout.replicates))
            room = max(self.layout.model.memory - len(self._kept.rows), 0)
            for part, sums in ((slice(room), self._sums), (slice(room, None), self._frozen)):
                if len(rows[part]):
                    sums += self._kept.sums(rows[part], noise[part], self._theta)
            self._kept.keep(rows[:room], noise[:room])
        total = self._frozen + self._sums
        if not total[0]:
            return Batch(total, 0, 0.0)
        return Batch(total / total[0] if self._by_agents else total, count, 1.0)

    def _take(self, new: Sequence[Floats], samples: float) -> tuple[Floats, int]:
        """The rows to add now, and how many of them are new to an agent that had `samples` before."""
        least, count = self.layout.model.least, 0
        rows = np.zeros((0, self.layout.dimension))
        for table in (item for item in new if item.ndim == 2):
            if len(table) < least:
                log.warning("a table of %d rows is not used: fewer than %d are not told", len(table), least)
                continue
            rows, count = table, max(len(table) - int(samples), 0)
            self._frozen[:] = 0.0  # it has all rows that this agent had before it was restarted
        self._waiting += [item for item in new if item.ndim == 1]
        if len(self._waiting) >= least:
            rows = np.vstack([rows, *self._waiting])
            count += len(self._waiting)
            self._waiting = []
        return rows, count

    def _renew(self, age: int) -> None:
        """Take the estimate of now as the reference, and linearize the rows in memory again."""
        self._renewed = age
        held = self._estimate()
        if not held[0] > 0:
            return
        solved = self.layout.solve(held[1:] / held[0], least=max(1.0 / max(age, 1), 1e-9))
        if solved is None:
            return
        theta = solved[0]
        if self._theta is not None:
            way = theta - self._theta
            theta = self._theta + way * min(1.0, STEP / max(self._kept.largest_change(way), 1e-300))
        self._theta = theta
        if len(self._kept.rows):
            self._sums = self._kept.sums(self._kept.rows, self._kept.noise, theta)


class _Kept:
    """The rows in memory, with the noise of their replicates."""

    def __init__(self, layout: ModelLayout) -> None:
        self._layout = layout
        self.rows = np.zeros((0, layout.dimension))
        self.noise = np.zeros((0, layout.replicates))

    def keep(self, rows: Floats, noise: Floats) -> None:
        if len(rows):
            self.rows, self.noise = np.vstack([self.rows, rows]), np.vstack([self.noise, noise])

    def _covariates(self, rows: Floats) -> Floats:
        x = rows[:, :-1]
        return np.column_stack([x, np.ones(len(x))]) if self._layout.model.intercept else x

    def largest_change(self, way: Floats) -> float:
        """By how much a change of theta changes the predictors of the rows at most."""
        changes = way.reshape(self._layout.family.outputs, -1) @ self._covariates(self.rows).T
        return float(np.abs(changes).max(initial=0.0))

    def sums(self, rows: Floats, noise: Floats, theta: Floats | None) -> Floats:
        """What the agent averages of these rows, linearized at theta, or at what their labels suggest."""
        layout, family = self._layout, self._layout.family
        x, y = self._covariates(rows), rows[:, -1]
        if theta is None:
            predictors = family.start(y, np.append(self.rows[:, -1], y))
        else:
            predictors = theta.reshape(family.outputs, -1) @ x.T
        slopes, bends = family.slopes(predictors, y), family.curvatures(predictors, y)
        response = (bends * predictors).sum(axis=1) - slopes
        curvature = curvature_of(x, bends)
        scores = np.hstack([(noise.T * slope) @ x for slope in slopes])  # (K, parameters)
        found: Floats = np.concatenate(
            [[len(y)], curvature[np.triu_indices(layout.parameters)], (response @ x).ravel(), scores.ravel()]
        )
        return found
