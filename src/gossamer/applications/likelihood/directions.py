"""Newton's direction over a network: from averaged curvatures, or by conjugate gradients from averaged vectors.

`Cholesky` averages, of every agent, the curvature A_i = sum of l'' x x' and the pseudo-response
b_i = A_i theta_i - sum of l' x, which is p(p+3)/2 numbers, and each agent solves (A/n + penalty) theta = b/n.

`ConjugateGradients` averages gradients and products A_i v, p numbers each, so that it sends less from a size on, in
more rounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from gossamer import least_squares
from gossamer.applications.likelihood.agent import FittingAgent
from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.likelihood.lasso import quadratic_lasso
from gossamer.applications.likelihood.local import eliminate
from gossamer.applications.likelihood.rows import Model, spread_over
from gossamer.arrays import Floats
from gossamer.least_squares import Singular, pack, unknown_direction, unpack

ACCURACY = 1e-3
"""Factor by which the averaging of one step shrinks the differences between agents."""

LARGEST_CHOLESKY = 300
"""Largest number of parameters for which curvatures are averaged. Beyond 200 to 330, conjugate gradients take less
time, and they send less even before that (`benchmarks/models.py`)."""

_SHRUNK = 1e-3
"""Curvatures that shrink by this factor are averaged from scratch, because larger ones leave rounding errors."""

_RESIDUAL = 0.1
"""Conjugate gradients end when the residual is this share of the gradient."""

_MOST_PRODUCTS = 250
_FINEST = 1e-8

_HEAD = 3


class Direction(NamedTuple):
    """One agent's view of a step.

    way        (p,) the change of its parameters
    spreads    (p,) the typical size of the covariate that each parameter multiplies
    slope      the root mean square of the rows' slopes
    unit       the typical change of a predictor that would minimize the loss of a single row
    terms      averages from which a scale is estimated
    unknown    (p,) a direction that the curvature does not determine, if there is one
    """

    way: Floats
    spreads: Floats
    slope: float
    unit: float
    terms: Floats
    unknown: Floats | None = None


class Directions(ABC):
    """Directions of all agents, from averages that are updated with changes only.

    An agent adds the change of its own sums to its average, and some rounds of averaging follow, so that the error of
    averaging shrinks by `ACCURACY` with each step, along with the error of Newton's method.
    """

    def __init__(self, model: Model, exchange: Consensus) -> None:
        self.model = model
        self.exchange = exchange
        self._held = self._told = np.zeros((1, 1))
        self._peak = 0.0

    def ways(self, agents: Sequence[FittingAgent]) -> list[Direction]:
        """Return every agent's direction at its parameters."""
        fresh = np.stack(spread_over(self._sums, agents))
        self._held = self.exchange.average(self._held + fresh - self._told, ACCURACY)
        self._told = fresh
        return self._solve(agents, self._held[:, 1:] / self._held[:, :1])

    def note_size(self, size: float) -> None:
        """Record the size of the curvatures of all agents."""
        self._peak = max(self._peak, size)
        if size < _SHRUNK * self._peak:
            self._held, self._told, self._peak = np.zeros((1, 1)), np.zeros((1, 1)), size

    @abstractmethod
    def _sums(self, agent: FittingAgent) -> Floats:
        """Return one agent's contribution to the averages; its number of rows comes first."""

    @abstractmethod
    def _solve(self, agents: Sequence[FittingAgent], means: Floats) -> list[Direction]:
        """Return the directions, from averages per row."""

    def _viewed(
        self, way: Floats, diagonal: Floats, means: Floats, unknown: Floats | None = None
    ) -> Direction:
        slope, bend = float(np.sqrt(max(means[0], 0.0))), max(float(means[1]), 1e-300)
        terms = means[len(means) - self.model.family.scale_terms :]
        spreads = np.sqrt(np.maximum(diagonal, 0.0) / bend)
        return Direction(way, spreads, slope, slope / bend, terms, unknown)


class Cholesky(Directions):
    """Every agent factors the averaged curvature.

    If steps may need to be short near the minimum (families without a reach), all agents use the first agent's average:
    if parameters differed, a line search would also measure the cost of bringing them together.
    """

    def _sums(self, agent: FittingAgent) -> Floats:
        curvature = agent.curvature()
        response = curvature @ agent.theta - agent.gradient()
        if self.model.local is not None:
            curvature, response, agent.own = eliminate(curvature, response, self.model.local)
        return np.concatenate([agent.head(), pack(curvature), response, agent.scale_terms()])

    def _solve(self, agents: Sequence[FittingAgent], means: Floats) -> list[Direction]:
        shared = self.model.shared
        size = int(shared.sum())
        packed = size * (size + 1) // 2
        diagonal = np.zeros(len(shared))
        solved: list[Direction] = []
        for agent, row in zip(agents, means, strict=True):
            averaged = row[_HEAD - 1 :]
            curvature = unpack(averaged[:packed], size)
            diagonal[shared] = np.diag(curvature)
            factor = self.model.family.penalty_factor(agent.scale)
            try:
                target = solve(
                    self.model, curvature, averaged[packed : packed + size], factor, agent.theta[shared]
                )
            except Singular as error:
                unknown = np.zeros(len(shared))
                unknown[shared] = error.direction
                solved.append(self._viewed(np.zeros(len(shared)), diagonal.copy(), row, unknown))
                continue
            if agent.own is not None:
                target = agent.own.completed(target)
                diagonal[~shared] = agent.own.diagonal / max(agent.head()[2], 1e-300) * row[1]
            solved.append(self._viewed(target - agent.theta, diagonal.copy(), row))
        if self.model.family.reach or self.model.local is not None:
            return solved
        way = self.exchange.first(np.stack([one.way for one in solved]))
        return [one._replace(way=way if one.unknown is None else one.way) for one in solved]


class ConjugateGradients(Directions):
    """Conjugate gradients, preconditioned by the diagonal, whose products with the curvature are averages.

    All agents hold the same vectors: they use the first agent's copy of every average, because copies that differ
    slightly would drift apart from product to product. A residual that is recomputed at the end shows whether the
    averages were accurate enough; if not, later ones are more accurate.
    """

    _accuracy = ACCURACY

    def _sums(self, agent: FittingAgent) -> Floats:
        return np.concatenate([agent.head(), agent.diagonal(), agent.gradient(), agent.scale_terms()])

    def _solve(self, agents: Sequence[FittingAgent], means: Floats) -> list[Direction]:
        size = len(self.model.penalty)
        common = self.exchange.first(np.column_stack([self._held[:, 0], means]))
        count, (diagonal, gradient) = common[0], common[_HEAD : _HEAD + 2 * size].reshape(2, size)
        factor = self.model.family.penalty_factor(agents[0].scale)
        penalty = factor * self.model.penalty  # the scale comes from common averages as well
        total = diagonal + penalty
        if np.any(total <= 0):
            return [
                self._viewed(np.zeros(size), diagonal, common[1:], (total <= 0).astype(float)) for _ in agents
            ]
        system = _System(agents, self.exchange, count, penalty, 1 / total)
        way = self._way(system, -gradient - penalty * agents[0].theta)
        if self.model.free_sums:  # keep the sum over the classes of what has no penalty at 0
            by_class = way.reshape(self.model.family.outputs, -1)
            way = (
                by_class - by_class.mean(axis=0) * (self.model.penalty == 0).reshape(by_class.shape)
            ).ravel()
        return [self._viewed(way, diagonal, common[1:]) for _ in agents]

    def _way(self, system: _System, right: Floats) -> Floats:
        """Return (p,) an approximate solution of (curvature + penalty) way = right."""
        way, residual = np.zeros_like(right), right
        length = system.length(right)
        while True:
            way = way + self._conjugate(system, residual, _RESIDUAL * length)
            residual = right - system.product(way, self._accuracy)
            left = system.length(residual)
            if left <= 3 * _RESIDUAL * length or self._accuracy < _FINEST:
                return way
            self._accuracy /= 10
            if left > length:
                way, residual = np.zeros_like(right), right

    def _conjugate(self, system: _System, residual: Floats, enough: float) -> Floats:
        """Return (p,) an approximate solution for this right side, whose residual has at most the length `enough`."""
        way = np.zeros_like(residual)
        towards = system.inverse * residual
        square = best = float(residual @ towards)
        for _ in range(_MOST_PRODUCTS):
            product = system.product(towards, self._accuracy)
            bend = float(towards @ product)
            if bend <= 0:
                break
            way = way + square / bend * towards
            residual = residual - square / bend * product
            scaled = system.inverse * residual
            before, square = square, float(residual @ scaled)
            if square <= enough**2 or square > 100 * best:  # or products are not accurate enough
                break
            towards = scaled + square / before * towards
            best = min(best, square)
        return way


class _System(NamedTuple):
    """The equations of a direction: the agents, their mean number of rows, the penalty, and 1/diagonal."""

    agents: Sequence[FittingAgent]
    exchange: Consensus
    rows: float
    penalty: Floats
    inverse: Floats

    def product(self, vector: Floats, accuracy: float) -> Floats:
        """Return (p,) the curvature and penalty times a vector, the same for all agents."""
        sums = np.stack(spread_over(FittingAgent.product, self.agents, repeat(vector, len(self.agents))))
        return (
            self.exchange.largest(self.exchange.average(sums, accuracy)) / self.rows + self.penalty * vector
        )

    def length(self, residual: Floats) -> float:
        return float(np.sqrt(residual @ (self.inverse * residual)))


def regularized(model: Model, curvature: Floats, factor: float) -> Floats:
    """Return the curvature of the shared parameters plus `factor` times the penalty."""
    total = curvature + np.diag(factor * model.penalty[model.shared])
    if model.free_sums:  # keep the sum over the classes of what has no penalty at 0
        by_class = np.diag(curvature).reshape(model.family.outputs, -1)  # in the units of each covariate
        free = np.diag((by_class * (model.penalty[model.shared] == 0).reshape(by_class.shape)).mean(axis=0))
        total = total + np.tile(free, (model.family.outputs,) * 2)
    return total


def solve(
    model: Model, curvature: Floats, response: Floats, factor: float = 1.0, start: Floats | None = None
) -> Floats:
    """Return the shared theta that solves (curvature + factor x penalty) theta = response; with a lasso, the minimum,
    searched from `start`."""
    total = regularized(model, curvature, factor)
    if model.lasso is None or start is None:
        return least_squares.solve(total, response)
    size = least_squares.units(total)
    lasso = factor * model.lasso[model.shared]
    sparse = quadratic_lasso(total / np.outer(size, size), response / size, lasso / size, start * size)
    if sparse is None:
        raise Singular(unknown_direction(total))
    return sparse / size
