"""Compiled loops of linear estimation: agents x parameters x lanes, a lane being a trial."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gossamer.numerics.random import OBSERVATION, fill_normals

Array = NDArray[Any]

LANES = 32


@njit(cache=True, fastmath={"contract"}, error_model="numpy", nogil=True)
def _innovate(
    x: Array,  # (N, d, B)
    first_trial: int,
    level: Array,  # (N, d) K A'Q E[Y]
    factor: Array,  # (N, d, r) K times a square root of the moments' covariance
    pull: Array,  # (N, d, d) K A'QA
    innovation: Array,  # (T,) a_t
    consensus: Array,  # (T,) b_t
    key: np.uint64,
    indptr: Array,
    indices: Array,
    gossip: Array,
    horizons: NDArray[np.int64],
    out: Array,  # (H, N, d, B)
) -> None:
    agents, size, lanes = x.shape
    rank = factor.shape[2]
    fresh = np.empty_like(x)
    noise = np.empty((agents, rank, 4, lanes))
    h = 0
    for t in range(innovation.size):
        a, b = innovation[t], consensus[t]
        place = t % 4
        for i in range(agents):
            if place == 0:
                for r in range(rank):
                    fill_normals(noise[i, r], key, OBSERVATION, t // 4, i, r, first_trial)
            for c in range(size):
                row = fresh[i, c]
                for k in range(lanes):
                    row[k] = x[i, c, k] + a * level[i, c]
                for e in range(indptr[i], indptr[i + 1]):
                    weight, other = b * gossip[e], x[indices[e], c]
                    for k in range(lanes):
                        row[k] -= weight * other[k]
                for r in range(rank):
                    scale, drawn = a * factor[i, c, r], noise[i, r, place]
                    for k in range(lanes):
                        row[k] += scale * drawn[k]
                for o in range(size):
                    weight, other = a * pull[i, c, o], x[i, o]
                    for k in range(lanes):
                        row[k] -= weight * other[k]
        x[:] = fresh
        while h < horizons.size and horizons[h] == t + 1:
            out[h] = x
            h += 1


@njit(cache=True, parallel=True, error_model="numpy")
def innovate(
    x: Array,  # (blocks, N, d, B)
    first_trials: NDArray[np.int64],  # (blocks,)
    level: Array,
    factor: Array,
    pull: Array,
    innovation: Array,
    consensus: Array,
    key: np.uint64,
    indptr: Array,
    indices: Array,
    gossip: Array,
    horizons: NDArray[np.int64],  # ascending
    out: Array,  # (blocks, H, N, d, B)
) -> None:
    """x_i <- x_i - b_t sum_j L_ij x_j + a_t K (A_i'Q Y_i - A_i'Q A_i x_i), blocks of trials in parallel."""
    for block in prange(first_trials.size):
        _innovate(
            x[block], first_trials[block], level, factor, pull, innovation, consensus, key, indptr, indices,
            gossip, horizons, out[block],
        )  # fmt: skip


@njit(cache=True, parallel=True, error_model="numpy")
def draw_moments(
    out: Array,  # (rounds, agents, d, trials)
    mean: Array,  # (agents, d)
    factor: Array,  # (agents, d, r)
    scale: Array,  # (rounds,)
    key: np.uint64,
    first_round: int,
    first_agent: int,
    first_trial: int,
) -> None:
    """mean + scale factor z with independent standard normals z: r of them per agent and round."""
    rounds, agents, size, lanes = out.shape
    rank = factor.shape[2]
    for i in prange(agents):
        noise = np.empty((rank, 4, lanes))
        for quad in range(first_round // 4, (first_round + rounds + 3) // 4):
            for r in range(rank):
                fill_normals(noise[r], key, OBSERVATION, quad, first_agent + i, r, first_trial)
            for place in range(4):
                t = 4 * quad + place - first_round
                if 0 <= t < rounds:
                    for c in range(size):
                        row = out[t, i, c]
                        row[:] = mean[i, c]
                        for r in range(rank):
                            weight, drawn = scale[t] * factor[i, c, r], noise[r, place]
                            for k in range(lanes):
                                row[k] += weight * drawn[k]
