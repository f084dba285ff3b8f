"""Simulation with lanes of trials: blocks of trials side by side, one thread for each block.

The layout for small networks in many trials: an agent's message is a row, so mixing adds whole rows and does not
care how irregular the network is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.arrays import AnyArray, Floats, Integers
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
from gossamer.numerics.blocks import BLOCK
from gossamer.numerics.compiling import compiled, inlined
from gossamer.numerics.random import ACTIVATION, OBSERVATION, fill_normals, index
from gossamer.numerics.threads import spread
from gossamer.numerics.vectors import GRAIN, borrowed, prefer_wide_vectors

MIXINGS = ("matrix", "pairwise", "broadcast")
MATRIX, PAIRWISE, BROADCAST = range(3)


class TrialLinks(NamedTuple):
    """The links of the network: neighbors[starts[i]:starts[i + 1]], and their weights -L_ij weights[codes[...]]."""

    mixing: int  #: its index in MIXINGS
    starts: AnyArray
    neighbors: AnyArray
    codes: AnyArray
    weights: AnyArray
    edges: Integers  #: (E, 2)


class Blocks(NamedTuple):
    """The blocks of one call, K of them with B trials each; an agent of block k has row k * N + agent."""

    components: Integers  #: (K,)
    first_trials: Integers  #: (K,)
    lanes: Integers  #: (K,) how many of the B trials count
    work: AnyArray  #: (K * N, R, B) registers
    messages: AnyArray  #: (2, K * N, B) of even and of odd rounds
    given: AnyArray  #: (K * N, rounds, B) observations from round `origin` on; empty: draw Gaussian ones
    origin: int
    noise: AnyArray  #: (K * N, 4, B) of four rounds
    by_trial: Floats  #: (K, H, B) sums of squared errors
    by_block: Floats  #: (K, B) those of a block of agents (see `numerics/blocks.py`)
    by_agent: Floats  #: (K, B / GRAIN, H, N)
    estimates: AnyArray  #: (K, H, N, B), or none


def play_blocks(blocks: Blocks, start: int, stop: int, table: PassTable, links: TrialLinks) -> None:
    """Play rounds start..stop-1 of all blocks, a thread for each."""
    mixed = 1 if links.mixing == MATRIX else table.mean.shape[1]

    def play(k: int) -> None:
        _block(k, blocks, start, stop, table, links, scratch_for(blocks.work, mixed))

    spread(play, blocks.components.size)


@compiled
def _block(
    k: int, blocks: Blocks, start: int, stop: int, table: PassTable, links: TrialLinks, s: Scratch
) -> None:
    prefer_wide_vectors()
    blocks, table, links, s = borrowed(blocks), borrowed(table), borrowed(links), borrowed(s)
    work, messages, mixed = blocks.work, blocks.messages, s.mixed
    agents, registers, lanes = table.mean.shape[1], work.shape[1], work.shape[2]
    base, c, first_trial = k * agents, blocks.components[k], blocks.first_trials[k]
    flat = messages.reshape((2, messages.shape[1] * lanes))
    for t in range(start, stop):
        sent = SentMessages(flat, t, base * lanes, lanes)
        if t >= 0 and links.mixing != MATRIX:
            _random_mix(mixed, messages, base, table.key, first_trial, t, links)
        h = horizon_at(table.horizons, t)
        for i in range(agents):
            r = i
            if links.mixing == MATRIX:
                r = 0
                if table.active[t + 1] > 0:
                    mix_row(mixed, 0, lanes, sent, i, links)
            observation, following = _observe(k, i, t, blocks, table, s)
            advance(work, messages, base + i, table, t, Input(r, observation, following), s)
            if h >= 0:
                estimate(work, base + i, table.rows, t, s)
                for b in range(blocks.lanes[k]):
                    square = (s.fresh[0, registers, b] - table.target[c, h]) ** 2
                    blocks.by_block[k, b] += square
                    blocks.by_agent[k, b // GRAIN, h, i] += square
                if (i + 1) % BLOCK == 0 or i + 1 == agents:
                    for b in range(blocks.lanes[k]):
                        blocks.by_trial[k, h, b] += blocks.by_block[k, b]
                        blocks.by_block[k, b] = 0.0
                if blocks.estimates.size:
                    for b in range(lanes):
                        blocks.estimates[k, h, i, b] = s.fresh[0, registers, b]


@inlined
def _observe(k: int, i: int, t: int, blocks: Blocks, table: PassTable, s: Scratch) -> tuple[Draw, Draw]:
    """Where the observations of agent i in rounds t and t + 1 lie; normals are drawn for four rounds at a time."""
    noise, rounds = blocks.noise, table.noise_scale.size
    lanes, row = blocks.work.shape[2], k * table.mean.shape[1] + i
    one = blocks.work.dtype.type(1)
    zero = one - one
    # Both kinds of noise end in one return, so that `advance` is compiled into one place.
    now, j, slot, level, scale = blocks.given, row, max(t - blocks.origin, 0), zero, one
    slot_next = t + 1 - blocks.origin if t + 1 < rounds else 0
    coming, level_next, scale_next = blocks.given, zero, one
    if blocks.given.size == 0:
        c = blocks.components[k]
        now, slot, coming, slot_next = noise, t % 4, noise, (t + 1) % 4
        if (t + 1) % 4 == 0 and t + 1 < rounds:
            now, j, slot = s.observations, 0, 0
            for b in range(lanes):
                now[0, 0, b] = noise[row, 3, b]
            fill_normals(noise[row], table.key, OBSERVATION, (t + 1) // 4, i, c, blocks.first_trials[k])
        level = level_next = table.mean[c, i]
        if table.drift.shape[1]:
            level += blocks.work.dtype.type(table.drift[c, i] * t)
            level_next += blocks.work.dtype.type(table.drift[c, i] * (t + 1))
        std = table.std[c, i if table.std.shape[1] > 1 else 0]
        scale = std * table.noise_scale[max(t, 0)]
        scale_next = std * table.noise_scale[min(t + 1, rounds - 1)]
    return Draw(now, j, slot, level, scale), Draw(coming, row, slot_next, level_next, scale_next)


@compiled
def _random_mix(
    mixed: AnyArray,
    messages: AnyArray,
    base: int,
    key: np.uint64,
    first_trial: int,
    t: int,
    links: TrialLinks,
) -> None:
    """Compute what the random exchange of round t makes of the messages, in every trial."""
    agents, lanes = mixed.shape
    now = t % 2
    mixed[:, :] = 0.0
    for b in range(lanes):
        if links.mixing == PAIRWISE:
            e = index(key, ACTIVATION, first_trial + b, t, links.edges.shape[0])
            i, j = links.edges[e, 0], links.edges[e, 1]
            half = (messages[now, base + i, b] - messages[now, base + j, b]) / 2
            mixed[i, b] = half
            mixed[j, b] = -half
        else:
            i = index(key, ACTIVATION, first_trial + b, t, agents)
            for k in range(links.starts[i], links.starts[i + 1]):
                j = links.neighbors[k]
                mixed[j, b] = (messages[now, base + j, b] - messages[now, base + i, b]) / 2
