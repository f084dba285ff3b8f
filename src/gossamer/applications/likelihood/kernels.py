"""Compiled loops of maximum likelihood: samples linearized, and averaged round by round, with a lane per trial."""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Floats
from gossamer.methods import Table
from gossamer.numerics.compiling import contracted
from gossamer.numerics.sparse import SparseRows


@contracted
def predict(out: Floats, x: Floats, theta: Floats) -> None:
    """out (m, rounds, N, B): the predictors of samples x (rounds, N, d, B) by every agent's theta (N, m d, B)."""
    outputs, rounds, agents, lanes = out.shape
    width = x.shape[2]
    for a in range(outputs):
        for t in range(rounds):
            for i in range(agents):
                for b in range(lanes):
                    out[a, t, i, b] = 0.0
                for k in range(width):
                    for b in range(lanes):
                        out[a, t, i, b] += x[t, i, k, b] * theta[i, a * width + k, b]


@contracted
def linearize(out: Floats, x: Floats, curvatures: Floats, first: int, group: int) -> None:
    """Add the Kronecker product of W and x x' of each sample to out (samples / group, N, n, B), from `first` on.

    x (samples, N, d, B), curvatures W (m, m, samples, N, B); the upper triangle, row by row.
    """
    outputs, samples, agents, lanes = curvatures.shape[1:]
    width = x.shape[2]
    scaled = np.empty(lanes)
    for t in range(samples):
        place = t // group
        for i in range(agents):
            row = first
            for a in range(outputs):
                for k in range(width):
                    for c in range(a, outputs):
                        for b in range(lanes):
                            scaled[b] = curvatures[a, c, t, i, b] * x[t, i, k, b]
                        for other in range(k if c == a else 0, width):
                            for b in range(lanes):
                                out[place, i, row, b] += scaled[b] * x[t, i, other, b]
                            row += 1


@contracted
def respond(out: Floats, x: Floats, responses: Floats, first: int, group: int) -> None:
    """Add z times x of each sample to out (samples / group, N, n, B), from `first` on; z (m, samples, N, B)."""
    outputs, samples, agents, lanes = responses.shape
    width = x.shape[2]
    for t in range(samples):
        place = t // group
        for i in range(agents):
            for a in range(outputs):
                for k in range(width):
                    row = first + a * width + k
                    for b in range(lanes):
                        out[place, i, row, b] += responses[a, t, i, b] * x[t, i, k, b]


@contracted
def play(registers: Floats, observations: Floats, first_round: int, table: Table, gossip: SparseRows) -> None:
    """Play rounds of a method from `first_round` on: registers (N, n, R, B), observations (rounds, N, n, B)."""
    rounds, agents, components, lanes = observations.shape
    size = registers.shape[2]
    messages = np.empty((agents, components, lanes))
    mixed = np.empty(lanes)
    fresh = np.empty((size, lanes))
    for r in range(rounds):
        t = first_round + r
        for i in range(agents):
            for c in range(components):
                factor = table.message_observation[t]
                for b in range(lanes):
                    messages[i, c, b] = factor * observations[r, i, c, b]
                for k in range(size):
                    factor = table.message_state[t, k]
                    if factor != 0.0:
                        for b in range(lanes):
                            messages[i, c, b] += factor * registers[i, c, k, b]
        for i in range(agents):
            for c in range(components):
                mixed[:] = 0.0
                for e in range(gossip.indptr[i], gossip.indptr[i + 1]):
                    weight, j = gossip.data[e], gossip.indices[e]
                    for b in range(lanes):
                        mixed[b] += weight * messages[j, c, b]
                for k in range(size):
                    own, heard = table.step_observation[t, k], table.step_mixed[t, k]
                    for b in range(lanes):
                        fresh[k, b] = own * observations[r, i, c, b] + heard * mixed[b]
                    for o in range(size):
                        factor = table.step_state[t, k, o]
                        if factor != 0.0:
                            for b in range(lanes):
                                fresh[k, b] += factor * registers[i, c, o, b]
                for k in range(size):
                    for b in range(lanes):
                        registers[i, c, k, b] = fresh[k, b]
