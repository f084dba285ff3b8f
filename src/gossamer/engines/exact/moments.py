"""Chebyshev moments of vectors: mu_j = x' T_j(S) x, where S is the gossip matrix with its spectrum moved to [-1, 1].

A polynomial f = sum_j c_j T_j has x' f(L) x = sum_j c_j mu_j exactly, whatever the spectrum is. With the vectors
t_j = T_j(S) x, one product with the matrix gives two moments,

    t_{j+1} = 2 S t_j - t_{j-1}        mu_{2j} = 2 t_j't_j - mu_0        mu_{2j+1} = 2 t_{j+1}'t_j - mu_1.

The recursion is stable, and it can be continued if more moments are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from gossamer.arrays import AnyArray, Floats
from gossamer.networks.links import Links
from gossamer.numerics.compiling import compiled, reassociated
from gossamer.numerics.threads import spread
from gossamer.numerics.vectors import ROW, add_product, add_scaled, clear_row, scratch, store_row

PANEL = ROW
"""Number of vectors that share a pass over the matrix."""

ALONE = 2**17
"""Number of agents from which vectors are processed one by one: they no longer fit in a cache, and few are needed."""

STEP_WORK = 2**26
"""Number of agent updates in one kernel call; Ctrl-C is handled between calls."""


NEAR = 2**12
"""Agents are reordered first if the numbers of some neighbors differ by more than this."""


class Interval(NamedTuple):
    """The interval of the spectrum without the constant mode."""

    low: float
    high: float

    def nodes(self, count: int) -> Floats:
        """(count,) the Chebyshev points of the interval, in descending order."""
        points = np.cos(np.pi * (np.arange(count) + 0.5) / count)
        return (self.high + self.low) / 2 + (self.high - self.low) / 2 * points

    @property
    def steps(self) -> int:
        """Number of products after which a constant part that rounding introduces has grown at most about tenfold."""
        return max(1, int(np.sqrt(self.high / self.low))) if self.low > 0 else 2**30


class Operator(NamedTuple):
    """The matrix 2 S of the recursion, by rows."""

    starts: AnyArray
    neighbors: AnyArray
    codes: AnyArray
    weights: Floats
    own: Floats  #: (N,) the diagonal
    order: AnyArray  #: (N,) the agents by row

    @classmethod
    def of(cls, links: Links, interval: Interval) -> Operator:
        scale = 4 / (interval.high - interval.low)
        weights = scale * links.scale * links.weights
        order = _order(links)
        degrees = links.degrees[order]
        starts = np.concatenate([[0], np.cumsum(degrees)])
        which = np.repeat(links.starts[order] - starts[:-1], degrees) + np.arange(starts[-1])
        rows = np.empty(links.agents, links.neighbors.dtype)
        rows[order] = np.arange(links.agents)
        codes = links.codes[which]
        own = np.add.reduceat(weights[codes], starts[:-1])
        shift = 2 * (interval.high + interval.low) / (interval.high - interval.low)
        return cls(starts.astype(np.uint32), rows[links.neighbors[which]], codes, weights, own - shift, order)


def _order(links: Links) -> AnyArray:
    """Return an order of the agents in which neighbors are close to each other, so that they are in the cache."""
    agent = np.repeat(np.arange(links.agents), links.degrees)
    if np.abs(links.neighbors - agent).mean() < NEAR:
        return np.arange(links.agents)
    ones = np.ones(len(links.neighbors), np.uint8)
    starts, neighbors = (array.astype(np.int32) for array in (links.starts, links.neighbors))
    pattern = sp.csr_matrix((ones, neighbors, starts), shape=(links.agents, links.agents))
    return np.asarray(reverse_cuthill_mckee(pattern, symmetric_mode=True))


@reassociated
def _step_alone(
    operator: Operator, current: Floats, previous: Floats, dots: Floats, scale: float, filtered: Floats
) -> None:
    """Take one step of the recursion for one vector."""
    starts, neighbors, codes, weights, own, _ = operator
    first, second = 0.0, 0.0
    for i in range(own.size):
        mixed = own[i] * current[i, 0] - previous[i, 0]
        for e in range(starts[i], starts[i + 1]):
            mixed -= weights[codes[e]] * current[neighbors[e], 0]
        previous[i, 0] = mixed
        first += mixed * current[i, 0]
        second += mixed * mixed
        if filtered.size > 0:
            filtered[i, 0] += scale * mixed
    dots[0, 0], dots[1, 0] = first, second


@compiled
def _step_panel(
    operator: Operator, current: Floats, previous: Floats, dots: Floats, scale: float, filtered: Floats
) -> None:
    """Take one step of the recursion for a row of vectors."""
    starts, neighbors, codes, weights, own, _ = operator
    mixed, first, second = scratch(current), scratch(current), scratch(current)
    clear_row(first)
    clear_row(second)
    for i in range(own.size):
        clear_row(mixed)
        add_scaled(mixed, -1.0, previous, i)
        add_scaled(mixed, own[i], current, i)
        for e in range(starts[i], starts[i + 1]):
            add_scaled(mixed, -weights[codes[e]], current, np.intp(neighbors[e]))
        store_row(mixed, previous, i)
        add_product(first, mixed, current, i)
        add_product(second, mixed, previous, i)
        if filtered.size > 0:
            total = scratch(filtered)
            clear_row(total)
            add_scaled(total, 1.0, filtered, i)
            add_scaled(total, scale, previous, i)
            store_row(total, filtered, i)
    store_row(first, dots, 0)
    store_row(second, dots, 1)


@reassociated
def _run(
    operator: Operator,
    current: Floats,
    previous: Floats,
    dots: Floats,
    coefficients: Floats,
    filtered: Floats,
) -> None:
    """Take as many steps as there are rows of `dots`; after each, `current` and `previous` swap roles."""
    for s in range(dots.shape[0]):
        if current.shape[1] == 1:
            _step_alone(operator, current, previous, dots[s], coefficients[s], filtered)
        else:
            _step_panel(operator, current, previous, dots[s], coefficients[s], filtered)
        current, previous = previous, current


class Panel:
    """The recursion of some vectors, and their moments so far."""

    def __init__(self, operator: Operator, interval: Interval, vectors: Floats) -> None:
        """Start from `vectors` (N, k), none of which has a constant part; k is 1 or at most PANEL."""
        self.operator, self.interval, self.count = operator, interval, vectors.shape[1]
        width = 1 if self.count == 1 else PANEL
        self._current = np.zeros((len(vectors), width))
        self._current[:, : self.count] = vectors[operator.order]
        self._previous = np.zeros_like(self._current)
        self.moments = np.empty((0, self.count))

    def extend(self, steps: int, coefficients: Floats | None = None) -> Floats:
        """Continue until `steps` products are done, which give the moments up to degree 2 steps.

        Return (N, k) sum_j coefficients_j T_j(S) x over j = 1 .. steps; of a panel that has just begun.
        """
        done = max(0, (len(self.moments) - 1) // 2)
        filtered = np.zeros((0 if coefficients is None else len(self._current), self._current.shape[1]))
        scales = np.zeros(steps + 1) if coefficients is None else coefficients
        most = max(1, min(self.interval.steps, STEP_WORK // self._current.size))
        if not done and steps:
            first = np.einsum("ik,ik->k", self._current, self._current)
            dots = self._go(scales[1:2] / 2, filtered)
            self._previous /= 2
            self._swap()
            self.moments = np.stack([first, dots[0, 0] / 2, dots[0, 1] / 2 - first])[:, : self.count]
            done = 1
        while done < steps:
            count = min(most, steps - done)
            dots = self._go(scales[done + 1 : done + count + 1], filtered)
            if count % 2:
                self._swap()
            more = 2 * dots.reshape(2 * count, -1)[:, : self.count]
            more[::2] -= self.moments[1]
            more[1::2] -= self.moments[0]
            self.moments = np.concatenate([self.moments, more])
            done += count
            for columns in (self._current, self._previous):
                columns -= columns.mean(axis=0)
        result = np.empty((len(filtered), self.count))
        result[self.operator.order[: len(filtered)]] = filtered[:, : self.count]
        return result

    def _go(self, scales: Floats, filtered: Floats) -> Floats:
        dots = np.empty((len(scales), 2, self._current.shape[1]))
        _run(self.operator, self._current, self._previous, dots, scales, filtered)
        return dots

    def _swap(self) -> None:
        self._current, self._previous = self._previous, self._current


def panels_of(operator: Operator, interval: Interval, vectors: Floats) -> list[Panel]:
    """Return panels for all vectors (N, k)."""
    width = 1 if len(vectors) >= ALONE else PANEL
    pieces = (vectors[:, k : k + width] for k in range(0, vectors.shape[1], width))
    return [Panel(operator, interval, piece) for piece in pieces]


def moments_of(panels: Sequence[Panel], degree: int) -> Floats:
    """Return (degree + 1, k) the moments of all vectors of the panels, which advance as far as needed."""

    def work(k: int) -> None:
        panels[k].extend(-(-degree // 2))

    spread(work, len(panels))
    return np.concatenate(
        [np.empty((degree + 1, 0)), *(panel.moments[: degree + 1] for panel in panels)], axis=1
    )


def filtered_by(panels: Sequence[Panel], coefficients: Floats) -> Floats:
    """Return (N, k) sum_{j > 0} coefficients_j T_j(S) x for all vectors of panels that have just begun."""
    filtered: list[Floats] = [np.empty(0)] * len(panels)

    def work(k: int) -> None:
        filtered[k] = panels[k].extend(len(coefficients) - 1, coefficients)

    spread(work, len(panels))
    return np.concatenate(filtered, axis=1)
