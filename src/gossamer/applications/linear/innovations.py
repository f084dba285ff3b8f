"""Compiled loops of linear estimation over agents x parameters x lanes; a lane is a trial."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange

from gossamer.arrays import Floats, Integers
from gossamer.numerics.compiling import contracted, parallel
from gossamer.numerics.random import OBSERVATION, fill_normals
from gossamer.numerics.sparse import SparseRows

LANES = 32


class Innovations(NamedTuple):
    """The parts of agent i's innovation K (A_i'Q Y_i - A_i'Q A_i x_i), with measurements Y_i and estimate x_i."""

    level: Floats  #: (N, d) K A'Q E[Y]
    factor: Floats  #: (N, d, r) K times a square root of the moments' covariance
    pull: Floats  #: (N, d, d) K A'QA


class StepSizes(NamedTuple):
    """The steps of every round, and when to report."""

    innovation: Floats  #: (T,) a_t
    consensus: Floats  #: (T,) b_t
    horizons: Integers  #: (H,) ascending


@contracted
def _innovate(
    out: Floats,  # (H, N, d, B)
    x: Floats,  # (N, d, B)
    first_trial: int,
    key: np.uint64,
    innovations: Innovations,
    steps: StepSizes,
    gossip: SparseRows,
) -> None:
    level, factor, pull = innovations
    indptr, indices, weights = gossip
    horizons = steps.horizons
    agents, size, lanes = x.shape
    rank = factor.shape[2]
    fresh = np.empty_like(x)
    noise = np.empty((agents, rank, 4, lanes))
    h = 0
    for t in range(steps.innovation.size):
        a, b = steps.innovation[t], steps.consensus[t]
        slot = t % 4
        for i in range(agents):
            if slot == 0:
                for r in range(rank):
                    fill_normals(noise[i, r], key, OBSERVATION, t // 4, i, r, first_trial)
            for c in range(size):
                row = fresh[i, c]
                for k in range(lanes):
                    row[k] = x[i, c, k] + a * level[i, c]
                for e in range(indptr[i], indptr[i + 1]):
                    weight, other = b * weights[e], x[indices[e], c]
                    for k in range(lanes):
                        row[k] -= weight * other[k]
                for r in range(rank):
                    scale, drawn = a * factor[i, c, r], noise[i, r, slot]
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


@parallel
def innovate(
    out: Floats,  # (blocks, H, N, d, B)
    x: Floats,  # (blocks, N, d, B)
    first_trials: Integers,  # (blocks,)
    key: np.uint64,
    innovations: Innovations,
    steps: StepSizes,
    gossip: SparseRows,
) -> None:
    """x_i <- x_i - b_t sum_j L_ij x_j + a_t K (A_i'Q Y_i - A_i'Q A_i x_i), blocks of trials in parallel."""
    for block in prange(first_trials.size):
        _innovate(out[block], x[block], first_trials[block], key, innovations, steps, gossip)
