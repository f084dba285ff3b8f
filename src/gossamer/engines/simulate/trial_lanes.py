"""Simulation with lanes of trials: blocks of trials side by side, one thread for each block.

The layout for small networks in many trials: an agent's message is a row, so mixing adds whole rows and does not
care how irregular the network is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
from gossamer.numerics.compiling import compiled
from gossamer.numerics.random import ACTIVATION, OBSERVATION, fill_normals, index
from gossamer.numerics.threads import spread
from gossamer.numerics.vectors import GRAIN, borrowed, prefer_wide_vectors

MATRIX, PAIRWISE, BROADCAST = 0, 1, 2


class Links(NamedTuple):
    """Who mixes with whom: neighbors[starts[i]:starts[i + 1]], and their weights -L_ij weights[codes[...]]."""

    mixing: int
    starts: Array
    neighbors: Array
    codes: Array
    weights: Array
    edges: Numbers  #: (E, 2)


class Blocks(NamedTuple):
    """The blocks of one call, K of them with B trials each; an agent of block k has row k * N + agent."""

    components: Numbers  #: (K,)
    first_trials: Numbers  #: (K,)
    lanes: Numbers  #: (K,) how many of the B trials count
    work: Array  #: (K * N, R, B) registers
    messages: Array  #: (2, K * N, B) of even and of odd rounds
    given: Array  #: (K * N, rounds, B) observations from round max(start, 0) to `stop`; empty: draw Gaussian ones
    noise: Array  #: (K * N, 4, B) of four rounds
    by_trial: Floats  #: (K, H, B) sums of squared errors
    by_agent: Floats  #: (K, B / GRAIN, H, N)
    estimates: Array  #: (K, H, N, B), or none


def run(blocks: Blocks, start: int, stop: int, plan: Pass, links: Links) -> None:
    """Play the passes of rounds start..stop-1 of all blocks, a thread for each."""
    mixed = 1 if links.mixing == MATRIX else plan.mean.shape[1]

    def play(k: int) -> None:
        _block(k, blocks, start, stop, plan, links, scratch_for(blocks.work, mixed))

    spread(play, blocks.components.size)


@compiled
def _block(k: int, blocks: Blocks, start: int, stop: int, plan: Pass, links: Links, s: Scratch) -> None:
    prefer_wide_vectors()
    blocks, plan, links, s = borrowed(blocks), borrowed(plan), borrowed(links), borrowed(s)
    work, messages, noise, given, mixed = blocks.work, blocks.messages, blocks.noise, blocks.given, s.mixed
    agents, registers, lanes = plan.mean.shape[1], work.shape[1], work.shape[2]
    rounds, origin, base = plan.noise_scale.size, max(start, 0), k * agents
    c, first_trial = blocks.components[k], blocks.first_trials[k]
    told = messages.reshape((2, messages.shape[1] * lanes))
    drawn = given.size == 0
    one = work.dtype.type(1)
    for t in range(start, stop):
        size = plan.active[t + 1]
        following = t + 1 < rounds
        refill = following and (t + 1) % 4 == 0
        if t >= 0 and links.mixing != MATRIX:
            _random_mix(mixed, messages, t % 2, base, plan.key, first_trial, t, links)
        h = horizon_at(plan.horizons, t)
        for i in range(agents):
            r = i
            if links.mixing == MATRIX:
                r = 0
                if size > 0:
                    mix_row(
                        mixed, 0, lanes, told, t % 2, (base + i) * lanes, base * lanes, lanes,
                        links.starts[i], links.starts[i + 1], links.neighbors, links.codes, links.weights,
                    )  # fmt: skip
            # One call of `advance` for both kinds of noise: it is compiled into this place.
            now, j, place, level, scale = given, base + i, max(t - origin, 0), one - one, one
            coming, place_next, level_next, scale_next = given, t + 1 - origin if following else 0, level, one
            if drawn:
                now, place, coming, place_next = noise, t % 4, noise, (t + 1) % 4
                if refill:
                    now, j, place = s.seen, 0, 0
                    for b in range(lanes):
                        now[0, 0, b] = noise[base + i, 3, b]
                    fill_normals(noise[base + i], plan.key, OBSERVATION, (t + 1) // 4, i, c, first_trial)
                level = level_next = plan.mean[c, i]
                if plan.drift.shape[1]:
                    level += work.dtype.type(plan.drift[c, i] * t)
                    level_next += work.dtype.type(plan.drift[c, i] * (t + 1))
                std = plan.std[c, i if plan.std.shape[1] > 1 else 0]
                scale = std * plan.noise_scale[max(t, 0)]
                scale_next = std * plan.noise_scale[min(t + 1, rounds - 1)]
            advance(
                work, base + i, plan.rows, t + 1, size, mixed, r, messages, (t + 1) % 2, now, j, place, level, scale,
                coming, base + i, place_next, level_next, scale_next, s,
            )  # fmt: skip
            if h >= 0:
                estimate(work, base + i, plan.rows, t, s)
                for b in range(blocks.lanes[k]):
                    square = (s.fresh[0, registers, b] - plan.target[c, h]) ** 2
                    blocks.by_trial[k, h, b] += square
                    blocks.by_agent[k, b // GRAIN, h, i] += square
                if blocks.estimates.size:
                    for b in range(lanes):
                        blocks.estimates[k, h, i, b] = s.fresh[0, registers, b]


@compiled
def _random_mix(
    mixed: Array, messages: Array, now: int, base: int, key: np.uint64, first_trial: int, t: int, links: Links
) -> None:
    """What the random exchange of round t makes of the messages, in every trial."""
    agents, lanes = mixed.shape
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
