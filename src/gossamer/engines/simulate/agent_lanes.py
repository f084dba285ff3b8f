"""Simulation with lanes of agents: one trial at a time, its agents side by side in chunks.

The layout for large networks, for few trials, and for networks in which neighbors follow a pattern. Consecutive
agents whose neighbors lie at the same distances (the inside of a path, a row of a grid) form a
stretch, and a stretch mixes by adding shifted rows, without looking up neighbors.

A trial that fits in a core's cache has one thread; the agents of a larger one are spread over all threads. Where
neighbors have numbers close to each other, as on a grid, a chunk then plays several rounds while it is in the cache:
chunks further ahead have played the rounds that it needs, so a round does not wait for the memory (a wave through the
chunks, "time skewing"). The order in which chunks play changes no number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import get_num_threads, prange

from gossamer.arrays import AnyArray, Booleans, Floats, Integers, Precision
from gossamer.engines.simulate.lane_rounds import (
    Draw,
    Input,
    PassTable,
    Scratch,
    SentMessages,
    advance,
    estimate,
    horizon_at,
    mix_row,
    scratch_for,
)
from gossamer.networks.links import Links
from gossamer.numerics.blocks import BLOCK
from gossamer.numerics.compiling import compiled, inlined, parallel
from gossamer.numerics.random import OBSERVATION, fill_normals_agents
from gossamer.numerics.threads import spread
from gossamer.numerics.vectors import borrowed, fma, prefer_wide_vectors

CHUNK = BLOCK  # agents side by side
SHORT = 8  # stretches of fewer agents are mixed one agent at a time
NEAR = 3 * 2**19  # bytes of the chunks that take part in a wave
DEEP = 16  # largest number of rounds of a wave: more would hardly save memory traffic


class ChunkLinks(NamedTuple):
    """The links of the network in as few bytes as possible, since a large network is read from memory every round.

    Stretch q is the agents stretches[q]..stretches[q + 1] - 1, whose neighbors lie at the same distances with the
    same weights; chunk k holds the stretches chunks[k]..chunks[k + 1] - 1. The neighbors of agent i are
    neighbors[starts[i]:starts[i + 1]], with the weights -L_ij weights[codes[...]].
    """

    stretches: AnyArray  #: uint32
    chunks: AnyArray  #: uint32
    starts: AnyArray  #: uint32
    neighbors: AnyArray  #: uint32
    codes: AnyArray  #: uint8 if there are at most 256 different weights
    weights: AnyArray
    reach: int  #: the neighbors on this rank of an agent of chunk q are in the chunks q - reach..q + reach


class Tasks(NamedTuple):
    """The trials of one call, one component each, K of them with C chunks of B agents; chunk q of trial k has row
    k * C + q."""

    components: Integers  #: (K,)
    trials: Integers  #: (K,)
    work: AnyArray  #: (K * C, R, B) registers
    messages: AnyArray  #: (2, K * C, B) of even and of odd rounds
    given: AnyArray  #: (K, rounds, N) observations from round `origin` on; empty: draw Gaussian ones
    origin: int
    noise: AnyArray  #: (K * C, 4, B) of four rounds
    by_trial: Floats  #: (K, H) sums of squared errors
    by_chunk: Floats  #: (C,) those of this round, where the threads share one trial
    by_agent: Floats  #: (K, H, N), or none
    estimates: AnyArray  #: (K, H, N), or none
    first_agent: int  #: the number of the first agent on this rank; 0 without a cluster


def chunk_links(links: Links, width: int, dtype: Precision) -> ChunkLinks:
    """Return the links in the form of the kernels, for chunks of `width` agents."""
    stretches = np.append(
        np.flatnonzero(_begins(links.starts, links.neighbors, links.codes, width)), links.agents
    )
    inside = np.searchsorted(stretches, np.arange(0, links.agents, width))
    return ChunkLinks(
        stretches=stretches.astype(np.uint32),
        chunks=np.append(inside, len(stretches) - 1).astype(np.uint32),
        starts=links.starts,
        neighbors=links.neighbors,
        codes=links.codes,
        weights=(links.weights * links.scale).astype(dtype),
        reach=-(-_reach(links.starts, links.neighbors, -(-links.agents // width) * width) // width),
    )


@compiled
def _reach(starts: AnyArray, neighbors: AnyArray, own: int) -> int:
    """Return the largest difference between the numbers of two neighbors below `own`."""
    reach = 0
    for i in range(starts.size - 1):
        for e in range(starts[i], starts[i + 1]):
            if neighbors[e] < own:
                reach = max(reach, abs(int(neighbors[e]) - i))
    return reach


@compiled
def _begins(starts: AnyArray, neighbors: AnyArray, codes: AnyArray, width: int) -> Booleans:
    """Return whether each agent begins a stretch.

    An agent continues the stretch of the agent before it if its neighbors are that agent's, one further along, with the
    same weights, unless it begins a chunk.
    """
    agents = starts.size - 1
    begins = np.ones(agents, np.bool_)
    for i in range(1, agents):
        if i % width:
            before, begin, end = int(starts[i - 1]), int(starts[i]), int(starts[i + 1])
            same = begin - before == end - begin
            if same:
                for e in range(end - begin):
                    same = same and neighbors[begin + e] == neighbors[before + e] + 1
                    same = same and codes[begin + e] == codes[before + e]
            begins[i] = not same
    return begins


def play_trials(
    tasks: Tasks, start: int, stop: int, table: PassTable, links: ChunkLinks, strips: int
) -> None:
    """Play rounds start..stop-1, with the trials divided among as many threads as strips."""

    def play(strip: int) -> None:
        _trials(strip, strips, tasks, start, stop, table, links, scratch_for(tasks.work, 1))

    spread(play, strips)


@compiled
def _trials(
    strip: int,
    strips: int,
    tasks: Tasks,
    start: int,
    stop: int,
    table: PassTable,
    links: ChunkLinks,
    s: Scratch,
) -> None:
    tasks, table, links, s = borrowed(tasks), borrowed(table), borrowed(links), borrowed(s)
    count = tasks.components.size
    for k in range(strip * count // strips, (strip + 1) * count // strips):
        for t in range(start, stop):
            h = horizon_at(table.horizons, t)
            for q in range(links.chunks.size - 1):
                error = _chunk(k, q, t, h, tasks, table, links, s)
                if h >= 0:
                    tasks.by_trial[k, h] += error


def wave_depth(tasks: Tasks, links: ChunkLinks, strips: int, ends: tuple[int, int] = (0, 0)) -> int:
    """Return how many rounds a chunk plays while it is in the cache: 1 if its neighbors are too far away for more."""
    rows, registers, width = tasks.work.shape
    reach = max(links.reach, 1)
    chunk = (registers + 7) * width * tasks.work.itemsize
    alone = strips == 1 and ends == (0, 0)
    apart = rows if alone else rows // strips // (2 * max(reach, *ends))  # strips of a wave must not meet
    return max(1, min(DEEP, int(NEAR // (chunk * reach)), int(apart)))


def play_agents(
    tasks: Tasks, start: int, stop: int, table: PassTable, links: ChunkLinks, strips: int
) -> None:
    """Play rounds start..stop-1 of one trial, with its chunks divided among as many threads as strips."""
    _waves(tasks, (start, stop), table, links, strips, wave_depth(tasks, links, strips), (0, 0))


def play_wave(
    tasks: Tasks, rounds: tuple[int, int], table: PassTable, links: ChunkLinks, ends: tuple[int, int]
) -> None:
    """Play the rounds of one wave where other ranks hold some of the agents: from round to round, ends[0] chunks fewer
    from the first one on, and ends[1] fewer up to the last one."""
    _waves(tasks, rounds, table, links, get_num_threads(), rounds[1] - rounds[0], ends)


@parallel
def _waves(
    tasks: Tasks,
    rounds: tuple[int, int],
    table: PassTable,
    links: ChunkLinks,
    strips: int,
    depth: int,
    ends: tuple[int, int],
) -> None:
    t, stop = rounds
    count = tasks.by_chunk.size
    while t < stop:
        end = t + 1  # a wave ends where a horizon does, so that only its last round has errors to add
        while end < min(t + depth, stop) and horizon_at(table.horizons, end - 1) < 0:
            end += 1
        for strip in prange(strips):
            low, high = strip * count // strips, (strip + 1) * count // strips
            left = links.reach if strip > 0 else ends[0]
            right = links.reach if strip + 1 < strips else ends[1]
            _wedge((low, high, left, right), (t, end), tasks, table, links, scratch_for(tasks.work, 1))
        if end > t + 1:
            for strip in prange(1, strips):
                low = strip * count // strips
                gap = (low, low, -links.reach, -links.reach)
                _wedge(gap, (t, end), tasks, table, links, scratch_for(tasks.work, 1))
        h = horizon_at(table.horizons, end - 1)
        if h >= 0:
            # Added in the order of the chunks, so that the last digit does not depend on the number of threads.
            for q in range(tasks.by_chunk.size):
                tasks.by_trial[0, h] += tasks.by_chunk[q]
        t = end


@compiled
def _wedge(
    span: tuple[int, int, int, int],
    rounds: tuple[int, int],
    tasks: Tasks,
    table: PassTable,
    links: ChunkLinks,
    s: Scratch,
) -> None:
    """Play the rounds of a wave in a strip of chunks, low..high-1 in the first round, or in the gap between two strips.

    Chunk q plays round t after the chunks up to q + reach have played round t - 1. A strip therefore gets narrower from
    round to round where another one begins, by `left` and `right` chunks, and the gap that is left gets wider. Messages
    of two rounds are enough: every chunk that reads chunk q has by then read its message of round t - 1.
    """
    tasks, table, links, s = borrowed(tasks), borrowed(table), borrowed(links), borrowed(s)
    (low, high, left, right), (start, stop) = span, rounds
    for front in range(low, high + 2 * (stop - start - 1) * links.reach + 1):
        for t in range(start, stop):
            age = t - start
            q = front - age * links.reach
            if low + age * left <= q < high - age * right:
                tasks.by_chunk[q] = _chunk(0, q, t, horizon_at(table.horizons, t), tasks, table, links, s)


def play_chunks(chunks: Integers, t: int, h: int, tasks: Tasks, table: PassTable, links: ChunkLinks) -> None:
    """Play round t of some chunks of the only trial, divided among all threads."""
    strips = get_num_threads()

    def play(strip: int) -> None:
        some = chunks[strip * len(chunks) // strips : (strip + 1) * len(chunks) // strips]
        _listed(some, t, h, tasks, table, links, scratch_for(tasks.work, 1))

    if len(chunks):
        spread(play, strips)


@compiled
def _listed(
    chunks: Integers, t: int, h: int, tasks: Tasks, table: PassTable, links: ChunkLinks, s: Scratch
) -> None:
    tasks, table, links, s = borrowed(tasks), borrowed(table), borrowed(links), borrowed(s)
    for q in chunks:
        tasks.by_chunk[q] = _chunk(0, q, t, h, tasks, table, links, s)


@compiled
def refill(tasks: Tasks, t: int, table: PassTable) -> None:
    """Draw the noise of the four rounds around round t again, for the only trial."""
    for q in range(tasks.noise.shape[0]):
        agent = tasks.first_agent + q * tasks.noise.shape[2]
        fill_normals_agents(
            tasks.noise[q], table.key, OBSERVATION, t // 4, agent, tasks.components[0], tasks.trials[0]
        )


@compiled
def _chunk(
    k: int, q: int, t: int, h: int, tasks: Tasks, table: PassTable, links: ChunkLinks, s: Scratch
) -> float:
    """Play round t of one chunk of agents; return its squared errors if horizon h needs them."""
    prefer_wide_vectors()
    work, noise, given = tasks.work, tasks.noise, tasks.given
    registers, width = work.shape[1], work.shape[2]
    rounds, chunks = table.noise_scale.size, links.chunks.size - 1
    row, first, c = k * chunks + q, q * width, tasks.components[k]
    n = min(width, table.mean.shape[1] - first)
    size = table.active[t + 1]
    for u in range(t if size > 0 else t + 1, min(t + 2, rounds)):
        if given.size:
            for b in range(n):
                s.observations[0, u - t, b] = given[k, u - tasks.origin, first + b]
        else:
            if u > t and u % 4 == 0:
                agent = tasks.first_agent + first
                fill_normals_agents(noise[row], table.key, OBSERVATION, u // 4, agent, c, tasks.trials[k])
            _observe(s.observations, u - t, noise, row, u, table, c, first)
    if size > 0:
        _mix(s.mixed, tasks.messages, t, k * chunks * width, q, links)
    zero, one = work.dtype.type(0), work.dtype.type(1)
    observation, following = Draw(s.observations, 0, 0, zero, one), Draw(s.observations, 0, 1, zero, one)
    advance(work, tasks.messages, row, table, t, Input(0, observation, following), s)
    error = 0.0
    if h >= 0:
        estimate(work, row, table.rows, t, s)
        for b in range(n):
            square = (s.fresh[0, registers, b] - table.target[c, h]) ** 2
            error += square
            if tasks.by_agent.size:
                tasks.by_agent[k, h, first + b] += square
        if tasks.estimates.size:
            for b in range(n):
                tasks.estimates[k, h, first + b] = s.fresh[0, registers, b]
    return error


@inlined
def _observe(
    out: AnyArray, slot: int, noise: AnyArray, row: int, t: int, table: PassTable, c: int, first: int
) -> None:
    """out[0, slot] = component c of the observations in round t of the chunk that begins with agent `first`."""
    mean, std, drift, batch = table.mean, table.std, table.drift, table.noise_scale[t]
    n = min(out.shape[2], mean.shape[1] - first)
    offset = np.uint64(first)
    scale = std[c, 0] * batch
    if drift.shape[1]:
        for b in range(n):
            i = offset + np.uint64(b)
            level = mean[c, i] + out.dtype.type(drift[c, i] * t)
            if std.shape[1] > 1:
                scale = std[c, i] * batch
            out[0, slot, b] = fma(scale, noise[row, t % 4, b], level)
    elif std.shape[1] > 1:
        for b in range(n):
            i = offset + np.uint64(b)
            out[0, slot, b] = fma(std[c, i] * batch, noise[row, t % 4, b], mean[c, i])
    else:
        for b in range(n):
            out[0, slot, b] = fma(scale, noise[row, t % 4, b], mean[c, offset + np.uint64(b)])


@inlined
def _mix(mixed: AnyArray, messages: AnyArray, t: int, base: int, q: int, links: ChunkLinks) -> None:
    """mixed[0] = sum over the neighbors j of weight_ij (message_i - message_j), for the agents of chunk q."""
    flat, now, first = messages.reshape((2, messages.shape[1] * messages.shape[2])), t % 2, q * mixed.shape[1]
    sent = SentMessages(flat, t, base, 1)
    for stretch in range(links.chunks[q], links.chunks[q + 1]):
        low, high = int(links.stretches[stretch]), int(links.stretches[stretch + 1])
        if high - low >= SHORT:  # the neighbors of its first agent, shifted along it
            mix_row(mixed, low - first, high - low, sent, low, links)
        else:
            for i in range(low, high):
                own = flat[now, base + i]
                total = own - own
                for e in range(links.starts[i], links.starts[i + 1]):
                    heard = flat[now, base + int(links.neighbors[e])]
                    total = fma(links.weights[links.codes[e]], own - heard, total)
                mixed[0, i - first] = total
