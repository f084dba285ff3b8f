"""Simulation with lanes of trials: blocks of trials side by side, one thread for each block.

The layout for small networks in many trials: an agent's message is a row, so mixing adds whole rows and does not
care how irregular the network is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.engines.simulate.kernels import (
    Draw,
    Input,
    PassTable,
    Scratch,
    Told,
    advance,
    estimate,
    horizon_at,
    mix_row,
    scratch_for,
)
from gossamer.numerics.compiling import compiled
from gossamer.numerics.random import ACTIVATION, OBSERVATION, fill_normals, index
from gossamer.numerics.threads import spread
from gossamer.numerics.vectors import GRAIN, borrowed, prefer_wide_vectors

MIXINGS = ("matrix", "pairwise", "broadcast")
MATRIX, PAIRWISE, BROADCAST = range(3)


class TrialLinks(NamedTuple):
    """Who mixes with whom: neighbors[starts[i]:starts[i + 1]], and their weights -L_ij weights[codes[...]]."""

    mixing: int  #: its place in MIXINGS
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
    work, messages, noise, given, mixed = blocks.work, blocks.messages, blocks.noise, blocks.given, s.mixed
    agents, registers, lanes = table.mean.shape[1], work.shape[1], work.shape[2]
    rounds, base = table.noise_scale.size, k * agents
    c, first_trial = blocks.components[k], blocks.first_trials[k]
    flat = messages.reshape((2, messages.shape[1] * lanes))
    drawn = given.size == 0
    one = work.dtype.type(1)
    for t in range(start, stop):
        following = t + 1 < rounds
        refill = following and (t + 1) % 4 == 0
        told = Told(flat, t, base * lanes, lanes)
        if t >= 0 and links.mixing != MATRIX:
            _random_mix(mixed, messages, base, table.key, first_trial, t, links)
        h = horizon_at(table.horizons, t)
        for i in range(agents):
            r = i
            if links.mixing == MATRIX:
                r = 0
                if table.active[t + 1] > 0:
                    mix_row(mixed, 0, lanes, told, i, links)
            # One call of `advance` for both kinds of noise: it is compiled into this place.
            now, j, place, level, scale = given, base + i, max(t - blocks.origin, 0), one - one, one
            coming, place_next, level_next, scale_next = (
                given,
                t + 1 - blocks.origin if following else 0,
                level,
                one,
            )
            if drawn:
                now, place, coming, place_next = noise, t % 4, noise, (t + 1) % 4
                if refill:
                    now, j, place = s.observations, 0, 0
                    for b in range(lanes):
                        now[0, 0, b] = noise[base + i, 3, b]
                    fill_normals(noise[base + i], table.key, OBSERVATION, (t + 1) // 4, i, c, first_trial)
                level = level_next = table.mean[c, i]
                if table.drift.shape[1]:
                    level += work.dtype.type(table.drift[c, i] * t)
                    level_next += work.dtype.type(table.drift[c, i] * (t + 1))
                std = table.std[c, i if table.std.shape[1] > 1 else 0]
                scale = std * table.noise_scale[max(t, 0)]
                scale_next = std * table.noise_scale[min(t + 1, rounds - 1)]
            observation = Draw(now, j, place, level, scale)
            next_one = Draw(coming, base + i, place_next, level_next, scale_next)
            advance(work, messages, base + i, table, t, Input(r, observation, next_one), s)
            if h >= 0:
                estimate(work, base + i, table.rows, t, s)
                for b in range(blocks.lanes[k]):
                    square = (s.fresh[0, registers, b] - table.target[c, h]) ** 2
                    blocks.by_trial[k, h, b] += square
                    blocks.by_agent[k, b // GRAIN, h, i] += square
                if blocks.estimates.size:
                    for b in range(lanes):
                        blocks.estimates[k, h, i, b] = s.fresh[0, registers, b]


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
    """What the random exchange of round t makes of the messages, in every trial."""
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
