"""Simulation with lanes of agents: one trial at a time, its agents side by side in chunks.

The layout for large networks, for few trials, and for networks in which neighbors follow a pattern. Consecutive
agents whose neighbors lie at the same distances (the inside of a path, a row of a grid) form a run, and a run
mixes by adding shifted rows, without looking up who is whose neighbor.

A trial that fits in a core's cache has one thread; the agents of a larger one are spread over all threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange

from gossamer.engines.simulate.kernels import (
    Array,
    Floats,
    Numbers,
    Pass,
    Scratch,
    advance,
    estimate,
    horizon_at,
    mix_row,
    scratch_for,
)
from gossamer.numerics.compiling import compiled, inlined, parallel
from gossamer.numerics.random import OBSERVATION, fill_normals_agents
from gossamer.numerics.threads import spread
from gossamer.numerics.vectors import borrowed, fma, prefer_wide_vectors

CHUNK = 512  # agents side by side
SHORT = 8  # runs of fewer agents are mixed one agent at a time


class Links(NamedTuple):
    """Who mixes with whom, in as few bytes as it takes, since a large network is read from memory every round.

    Run q is the agents runs[q]..runs[q + 1] - 1, whose neighbors lie at the same distances with the same weights;
    chunk k holds the runs chunk_runs[k]..chunk_runs[k + 1] - 1. The neighbors of agent i are
    neighbors[starts[i]:starts[i + 1]], with the weights -L_ij weights[codes[...]].
    """

    runs: Array  #: uint32
    chunk_runs: Array  #: uint32
    starts: Array  #: uint32
    neighbors: Array  #: uint32
    codes: Array  #: uint8 if there are so few different weights
    weights: Array


class Tasks(NamedTuple):
    """The trials of one call, one component each, K of them with C chunks of B agents; chunk q of trial k has row
    k * C + q."""

    components: Numbers  #: (K,)
    trials: Numbers  #: (K,)
    work: Array  #: (K * C, R, B) registers
    messages: Array  #: (2, K * C, B) of even and of odd rounds
    given: Array  #: (K, rounds, N) observations from round max(start, 0) to `stop`; empty: draw Gaussian ones
    noise: Array  #: (K * C, 4, B) of four rounds
    by_trial: Floats  #: (K, H) sums of squared errors
    by_agent: Floats  #: (K, H, N)
    estimates: Array  #: (K, H, N), or none


@compiled
def read_links(indptr: Array, indices: Array, data: Array, width: int) -> tuple[Array, Array, Array, Array]:
    """Starts, neighbors and weights of all agents from the rows of L, and whether each agent begins a run.

    An agent continues the run of the agent before it if its neighbors are theirs, one further along, with the same
    weights, unless it begins a chunk.
    """
    agents = indptr.size - 1
    starts = np.zeros(agents + 1, np.uint32)
    neighbors = np.empty(indices.size, np.uint32)
    weights = np.empty(indices.size)
    begins = np.ones(agents, np.bool_)
    count = 0
    for i in range(agents):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                neighbors[count] = indices[e]
                weights[count] = -data[e]
                count += 1
        starts[i + 1] = count
        if i % width:
            before, here, degree = int(starts[i - 1]), int(starts[i]), count - int(starts[i])
            same = here - before == degree
            for e in range(degree):
                same = same and neighbors[here + e] == neighbors[before + e] + 1
                same = same and weights[here + e] == weights[before + e]
            begins[i] = not same
    return starts, neighbors[:count], weights[:count], begins


def run_trials(tasks: Tasks, start: int, stop: int, plan: Pass, links: Links, strips: int) -> None:
    """Play the passes of rounds start..stop-1, the trials dealt out to as many threads as strips."""

    def play(strip: int) -> None:
        _trials(strip, strips, tasks, start, stop, plan, links, scratch_for(tasks.work, 1))

    spread(play, strips)


@compiled
def _trials(
    strip: int, strips: int, tasks: Tasks, start: int, stop: int, plan: Pass, links: Links, s: Scratch
) -> None:
    tasks, plan, links, s = borrowed(tasks), borrowed(plan), borrowed(links), borrowed(s)
    count = tasks.components.size
    for k in range(strip * count // strips, (strip + 1) * count // strips):
        for t in range(start, stop):
            h = horizon_at(plan.horizons, t)
            for q in range(links.chunk_runs.size - 1):
                error = _chunk(k, q, t, h, tasks, max(start, 0), plan, links, s)
                if h >= 0:
                    tasks.by_trial[k, h] += error


@parallel
def run_agents(tasks: Tasks, start: int, stop: int, plan: Pass, links: Links, strips: int) -> None:
    """Play the passes of rounds start..stop-1 of one trial, its chunks dealt out to as many threads as strips."""
    chunks = links.chunk_runs.size - 1
    errors = np.zeros(chunks)
    for t in range(start, stop):
        h = horizon_at(plan.horizons, t)
        for strip in prange(strips):
            s = scratch_for(tasks.work, 1)
            _strip(errors, strip, strips, t, h, tasks, max(start, 0), plan, links, s)
        if h >= 0:
            # Added in the order of the chunks, so that the number of threads does not show in the last digit.
            for q in range(chunks):
                tasks.by_trial[0, h] += errors[q]


@compiled
def _strip(
    errors: Floats, strip: int, strips: int, t: int, h: int, tasks: Tasks, origin: int, plan: Pass, links: Links,
    s: Scratch,
) -> None:  # fmt: skip
    tasks, plan, links, s = borrowed(tasks), borrowed(plan), borrowed(links), borrowed(s)
    for q in range(strip * errors.size // strips, (strip + 1) * errors.size // strips):
        errors[q] = _chunk(0, q, t, h, tasks, origin, plan, links, s)


@compiled
def _chunk(
    k: int, q: int, t: int, h: int, tasks: Tasks, origin: int, plan: Pass, links: Links, s: Scratch
) -> float:  # fmt: skip
    """The pass of round t of one chunk of agents. Returns its squared errors if horizon h asks for them."""
    prefer_wide_vectors()
    work, noise, given = tasks.work, tasks.noise, tasks.given
    registers, width = work.shape[1], work.shape[2]
    rounds, chunks = plan.noise_scale.size, links.chunk_runs.size - 1
    row, first, c = k * chunks + q, q * width, tasks.components[k]
    n = min(width, plan.mean.shape[1] - first)
    size = plan.active[t + 1]
    for u in range(t if size > 0 else t + 1, min(t + 2, rounds)):
        if given.size:
            for b in range(n):
                s.seen[0, u - t, b] = given[k, u - origin, first + b]
        else:
            if u > t and u % 4 == 0:
                fill_normals_agents(noise[row], plan.key, OBSERVATION, u // 4, first, c, tasks.trials[k])
            _observe(
                s.seen,
                u - t,
                noise,
                row,
                u,
                plan.noise_scale[u],
                plan.mean,
                plan.std,
                plan.drift,
                c,
                first,
                n,
            )
    if size > 0:
        _mix(s.mixed, tasks.messages, t % 2, k * chunks * width, q, first, links)
    zero, one = work.dtype.type(0), work.dtype.type(1)
    advance(
        work, row, plan.rows, t + 1, size, s.mixed, 0, tasks.messages, (t + 1) % 2,
        s.seen, 0, 0, zero, one, s.seen, 0, 1, zero, one, s,
    )  # fmt: skip
    error = 0.0
    if h >= 0:
        estimate(work, row, plan.rows, t, s)
        for b in range(n):
            square = (s.fresh[0, registers, b] - plan.target[c, h]) ** 2
            error += square
            tasks.by_agent[k, h, first + b] += square
        if tasks.estimates.size:
            for b in range(n):
                tasks.estimates[k, h, first + b] = s.fresh[0, registers, b]
    return error


@inlined
def _observe(
    seen: Array, place: int, noise: Array, row: int, t: int, batch: float, mean: Array, std: Array, drift: Array,
    c: int, first: int, n: int,
) -> None:  # fmt: skip
    """seen[0, place] = the observations of round t."""
    offset = np.uint64(first)
    scale = std[c, 0] * batch
    if drift.shape[1]:
        for b in range(n):
            i = offset + np.uint64(b)
            level = mean[c, i] + seen.dtype.type(drift[c, i] * t)
            if std.shape[1] > 1:
                scale = std[c, i] * batch
            seen[0, place, b] = fma(scale, noise[row, t % 4, b], level)
    elif std.shape[1] > 1:
        for b in range(n):
            i = offset + np.uint64(b)
            seen[0, place, b] = fma(std[c, i] * batch, noise[row, t % 4, b], mean[c, i])
    else:
        for b in range(n):
            seen[0, place, b] = fma(scale, noise[row, t % 4, b], mean[c, offset + np.uint64(b)])


@inlined
def _mix(mixed: Array, messages: Array, now: int, base: int, q: int, first: int, links: Links) -> None:
    """mixed[0] = sum over the neighbors j of weight_ij (message_i - message_j), for the agents of chunk q."""
    told = messages.reshape((2, messages.shape[1] * messages.shape[2]))
    for run in range(links.chunk_runs[q], links.chunk_runs[q + 1]):
        low, high = int(links.runs[run]), int(links.runs[run + 1])
        if high - low >= SHORT:  # the neighbors of its first agent, shifted along it
            mix_row(
                mixed, low - first, high - low, told, now, base + low, base, 1,
                links.starts[low], links.starts[low + 1], links.neighbors, links.codes, links.weights,
            )  # fmt: skip
        else:
            for i in range(low, high):
                own = told[now, base + i]
                total = own - own
                for e in range(links.starts[i], links.starts[i + 1]):
                    heard = told[now, base + int(links.neighbors[e])]
                    total = fma(links.weights[links.codes[e]], own - heard, total)
                mixed[0, i - first] = total
