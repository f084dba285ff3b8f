"""Compiled recursions for means over windows of identical rounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange

from gossamer.arrays import Booleans, Floats, Integers
from gossamer.engines.exact.recursions import (
    PANEL,
    RegisterMoments,
    add,
    affine,
    connections,
    initial_moments,
    multiply_add,
    step_forward,
)
from gossamer.methods import Table
from gossamer.numerics.compiling import compiled, parallel, reassociated
from gossamer.numerics.vectors import borrowed

BLOCK = 64
"""Number of rounds that are computed side by side."""


class Windows(NamedTuple):
    """Stretches of rounds, each from one of `times` to another; both lists ascend."""

    starts: Integers  #: (W,) positions in `times`
    ends: Integers  #: (W,) positions in `times`
    lengths: Integers  #: (W,) positions in `gaps`
    times: Integers
    gaps: Integers


@compiled
def _window_panel(
    m: RegisterMoments, x: Floats, table: Table, register: int, windows: Windows, used: Booleans
) -> Floats:
    """The sum s of one register grows by s(T) - s(T0), whose variance needs cov(s(T), s(T0)).

    The rounds are identical, so this is (A^d)[register] . cov(registers, s)(T0) with d = T - T0: a row that is
    multiplied by A once per round serves every window of that length.
    """
    m = borrowed(m)
    size, n = table.message_state.shape[1], x.size
    times, gaps = windows.times, windows.gaps
    means = np.zeros((times.size, 2, n))
    columns = np.zeros((times.size, size, n))
    position = 1 if times[0] == 0 else 0
    for t in range(times[-1]):
        step_forward(m, x, t, table, used)
        if times[position] == t + 1:
            means[position] = m.mean[1 - t % 2, :, register]
            columns[position] = m.cov[register]
            position += 1
    reach = np.zeros((gaps.size, size, n))
    row, following = np.zeros((size, n)), np.zeros((size, n))
    row[register, :] = 1.0
    position = 0
    for d in range(1, gaps[-1] + 1):
        following[:, :] = 0.0
        for j in range(size):
            for k in range(size):
                if used[j, k]:
                    multiply_add(following[k], m.transition[j, k], row[j])
        row, following = following, row
        if gaps[position] == d:
            reach[position] = row
            position += 1
    result = np.zeros((3, windows.starts.size, n))
    for w in range(windows.starts.size):
        start, end, length = windows.starts[w], windows.ends[w], windows.lengths[w]
        share = 1.0 / gaps[length]
        for i in range(2):
            add(result[i, w], share, means[end, i])
            add(result[i, w], -share, means[start, i])
        noise = result[2, w]
        for k in range(size):
            multiply_add(noise, reach[length, k], columns[start, k])
        affine(noise, 0.0, -2.0, noise)
        add(noise, 1.0, columns[start, register])
        add(noise, 1.0, columns[end, register])
        for g in range(n):
            noise[g] = max(noise[g], 0.0) * share * share
    return result


@parallel
def windowed(lam: Floats, table: Table, register: int, windows: Windows) -> Any:
    """Return means over windows of rounds of what `register` sums up; every round must be like the first.

    Returns (3, W, G): what `backward` returns, for every window, in one pass over the rounds.
    """
    groups = lam.shape[0]
    # Panels are narrower if more must be stored, so that each takes at most a few dozen megabytes.
    width = min(PANEL, max(1, 2**22 // (windows.times.size * table.message_state.shape[1])))
    result = np.empty((3, windows.starts.size, groups))
    used = connections(table, 1)
    for panel in prange((groups + width - 1) // width):
        start = panel * width
        stop = min(start + width, groups)
        m = initial_moments(table.message_state.shape[1], stop - start)
        result[:, :, start:stop] = _window_panel(m, lam[start:stop], table, register, windows, used)
    return result


@reassociated
def _squared_distance(x: Floats, y: Floats) -> float:
    total = 0.0
    for t in range(x.size):
        total += (x[t] - y[t]) * (x[t] - y[t])
    return total


@compiled
def _impulse_sums(x: float, table: Table, run: int, register: int, sums: Floats) -> None:
    """Write what `register` holds of an observation after 1, ..., T rounds, including the round of the observation.

    This is (A^t b)[register]. Rows of A^0, ..., A^(BLOCK - 1) are multiplied by A^(BLOCK k) b for one k after another,
    BLOCK rounds side by side.
    """
    size, rounds = table.message_state.shape[1], sums.size
    mixed = x * table.step_mixed[run]
    entry = table.step_observation[run] + mixed * table.message_observation[run]
    transition = table.step_state[run] + mixed.reshape(size, 1) * table.message_state[run]
    power = np.eye(size)
    rows = np.empty((size, BLOCK))
    for t in range(BLOCK):
        rows[:, t] = power[register]
        following = np.zeros((size, size))
        for i in range(size):
            for j in range(size):
                for k in range(size):
                    following[i, j] += power[i, k] * transition[k, j]
        power = following
    sums[:] = 0.0
    for start in range(0, rounds, BLOCK):
        stop = min(start + BLOCK, rounds)
        following_entry = np.zeros(size)
        for j in range(size):
            add(sums[start:stop], entry[j], rows[j, : stop - start])
            for k in range(size):
                following_entry[j] += power[j, k] * entry[k]
            if abs(following_entry[j]) < 1e-150:  # arithmetic on denormal numbers is slow
                following_entry[j] = 0.0
        entry = following_entry


@compiled
def _average(sums: Floats, starts: Integers, share: float, result: Floats) -> None:
    """Return (3, W) response, drift and noise gain of the means since each of `starts`, at one eigenvalue."""
    rounds = sums.size
    level, slope, square = np.zeros(rounds + 1), np.zeros(rounds + 1), np.zeros(rounds + 1)
    for d in range(1, rounds + 1):
        level[d] = level[d - 1] + sums[d - 1]
        slope[d] = slope[d - 1] + d * sums[d - 1]
        square[d] = square[d - 1] + sums[d - 1] * sums[d - 1]
    for w in range(starts.size):
        since = starts[w]
        length = rounds - since
        result[0, w] = (level[rounds] - level[since]) / length
        drift = rounds * level[rounds] - slope[rounds] - since * level[since] + slope[since]
        result[1, w] = drift / length
        noise = square[length] + _squared_distance(sums[length:], sums[:since])
        result[2, w] = share * noise / (length * length)


@parallel
def averaged(lam: Floats, table: Table, rounds: int, register: int, starts: Integers) -> Any:
    """Return means from each of `starts` to the end of what `register` sums up, for several runs: (3, runs, W, G).

    Row k of the table is every round of run k, so an observation's weight in the mean of the last L rounds depends on
    its age d alone: S(d) / L if it was made in these rounds, (S(d) - S(d - L)) / L if before, where S(d) is what the
    register holds of an observation after d rounds.
    """
    groups, runs = lam.shape[0], table.batches.size
    result = np.empty((3, runs, starts.size, groups))
    for job in prange(runs * groups):
        run, g = job // groups, job % groups
        sums = np.empty(rounds)
        _impulse_sums(lam[g], table, run, register, sums)
        share = 1.0 / table.batches[run] if table.batches[run] > 0 else 0.0
        _average(sums, starts, share, result[:, run, :, g])
    return result
