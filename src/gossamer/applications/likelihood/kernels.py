"""Compiled loops of maximum likelihood: samples linearized, and averaged round by round.

A lane is an agent in a trial. Lanes are the last axis, so that all loops inside are along contiguous memory.
"""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Floats
from gossamer.methods import Table
from gossamer.models import FIRST
from gossamer.numerics.compiling import contracted, inlined
from gossamer.numerics.sparse import SparseRows


@contracted
def predict(out: Floats, x: Floats, theta: Floats) -> None:
    """out (m, samples, lanes): the predictors of samples x (samples, d, lanes) by the parameters theta (m d, lanes)."""
    outputs, samples, lanes = out.shape
    width = x.shape[1]
    for a in range(outputs):
        for t in range(samples):
            for b in range(lanes):
                out[a, t, b] = x[t, 0, b] * theta[a * width, b]
            for k in range(1, width):
                for b in range(lanes):
                    out[a, t, b] += x[t, k, b] * theta[a * width + k, b]


@inlined
def _add_products(
    out: Floats, interval: int, row: int, x: Floats, weights: Floats, bends: Floats, t: int, scaled: Floats
) -> None:
    """Add the Kronecker product of W and x x' of sample t, the upper triangle row by row, from `row` on."""
    outputs, _, _, lanes = bends.shape
    width = x.shape[1]
    for a in range(outputs):
        for k in range(width):
            for c in range(a, outputs):
                for b in range(lanes):
                    scaled[b] = weights[t, b] * bends[a, c, t, b] * x[t, k, b]
                for other in range(k if c == a else 0, width):
                    for b in range(lanes):
                        out[interval, row, b] += scaled[b] * x[t, other, b]
                    row += 1


@contracted
def add_products(out: Floats, x: Floats, weights: Floats, bends: Floats, first: int, group: int) -> None:
    """Add the Kronecker products of W and x x' over groups of samples to out (samples / group, n, lanes).

    x (samples, d, lanes), weights (samples, lanes), W (m, m, samples, lanes); the upper triangle, from `first` on.
    """
    scaled = np.empty(x.shape[2])
    for t in range(len(x)):
        _add_products(out, t // group, first, x, weights, bends, t, scaled)


@contracted
def add_sums(
    out: Floats, x: Floats, weights: Floats, predictors: Floats, slopes: Floats, bends: Floats, group: int
) -> None:
    """Add n, v, s, c, g and A of `models.SumLayout` over groups of samples to out (samples / group, n, lanes).

    x (samples, d, lanes), weights (samples, lanes), predictors and slopes (m, samples, lanes), curvatures `bends`
    (m, m, samples, lanes).
    """
    outputs, samples, lanes = slopes.shape
    width = x.shape[1]
    size = outputs * width
    shifted = np.empty(lanes)
    scaled = np.empty(lanes)
    for t in range(samples):
        interval = t // group
        for b in range(lanes):
            out[interval, 0, b] += weights[t, b]
        for a in range(outputs):
            for b in range(lanes):
                out[interval, 1, b] += weights[t, b] * bends[a, a, t, b]
                shifted[b] = weights[t, b] * bends[a, 0, t, b] * predictors[0, t, b]
            for c in range(1, outputs):
                for b in range(lanes):
                    shifted[b] += weights[t, b] * bends[a, c, t, b] * predictors[c, t, b]
            for b in range(lanes):
                out[interval, 2, b] += shifted[b] * predictors[a, t, b]
                scaled[b] = weights[t, b] * slopes[a, t, b]
            for k in range(width):
                row = FIRST + a * width + k
                for b in range(lanes):
                    out[interval, row, b] += shifted[b] * x[t, k, b]
                for b in range(lanes):
                    out[interval, row + size, b] += scaled[b] * x[t, k, b]
        _add_products(out, interval, FIRST + 2 * size, x, weights, bends, t, scaled)


@contracted
def play(registers: Floats, observations: Floats, first_round: int, table: Table, gossip: SparseRows) -> None:
    """Play rounds of a method from `first_round` on: registers (n, N, R, B), observations (rounds, n, N, B).

    Components do not depend on each other, so each is played to the end while its registers are in the cache.
    """
    rounds, components, agents, lanes = observations.shape
    size = registers.shape[2]
    messages = np.empty((agents, lanes))
    mixed = np.empty(lanes)
    fresh = np.empty((size, lanes))
    for c in range(components):
        for r in range(rounds):
            t = first_round + r
            for i in range(agents):
                factor = table.message_observation[t]
                for b in range(lanes):
                    messages[i, b] = factor * observations[r, c, i, b]
                for k in range(size):
                    factor = table.message_state[t, k]
                    if factor != 0.0:
                        for b in range(lanes):
                            messages[i, b] += factor * registers[c, i, k, b]
            for i in range(agents):
                mixed[:] = 0.0
                for e in range(gossip.indptr[i], gossip.indptr[i + 1]):
                    weight, j = gossip.data[e], gossip.indices[e]
                    for b in range(lanes):
                        mixed[b] += weight * messages[j, b]
                for k in range(size):
                    own, heard = table.step_observation[t, k], table.step_mixed[t, k]
                    for b in range(lanes):
                        fresh[k, b] = own * observations[r, c, i, b] + heard * mixed[b]
                    for o in range(size):
                        factor = table.step_state[t, k, o]
                        if factor != 0.0:
                            for b in range(lanes):
                                fresh[k, b] += factor * registers[c, i, o, b]
                for k in range(size):
                    for b in range(lanes):
                        registers[c, i, k, b] = fresh[k, b]
