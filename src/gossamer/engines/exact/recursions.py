"""Compiled recursions of the exact engine: one scalar system per eigenvalue, many eigenvalues side by side.

The inner loops run over a panel of eigenvalues and live in their own functions, on rows of arrays, which is
what the compiler turns into vector instructions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange

from gossamer.arrays import Booleans, Floats, Integers
from gossamer.methods import Table
from gossamer.numerics.compiling import compiled, parallel, reassociated
from gossamer.numerics.vectors import borrowed

PANEL = 128  # eigenvalues side by side: their registers and covariances stay in the nearest caches


@reassociated
def add(out: Floats, scale: float, x: Floats) -> None:
    for g in range(out.size):
        out[g] += scale * x[g]


@reassociated
def multiply_add(out: Floats, x: Floats, y: Floats) -> None:
    for g in range(out.size):
        out[g] += x[g] * y[g]


@reassociated
def affine(out: Floats, constant: float, scale: float, x: Floats) -> None:
    for g in range(out.size):
        out[g] = constant + scale * x[g]


@reassociated
def _product(out: Floats, scale: float, x: Floats, y: Floats) -> None:
    for g in range(out.size):
        out[g] = scale * x[g] * y[g]


def _make_step_back(size: int) -> Any:
    """Build one round of the backward walk for `size` registers: all eigenvalues in one fused, vectorized loop.

    `size` is a constant of the compiled function, so the branches on it vanish. Weights that have decayed beyond
    any influence are set to zero: arithmetic on denormal numbers is a hundred times slower.
    """

    @reassociated
    def step_back(
        w: Floats, x: Floats, t: int, table: Table, share: float, sums: Floats, weight: Floats
    ) -> None:
        sent, message_state, step_state = table.message_observation[t], table.message_state, table.step_state
        step_observation, step_mixed = table.step_observation, table.step_mixed
        m0, i0, e0, a00 = step_mixed[t, 0], step_observation[t, 0], message_state[t, 0], step_state[t, 0, 0]
        if size > 1:
            m1, i1, e1 = step_mixed[t, 1], step_observation[t, 1], message_state[t, 1]
            a01, a10, a11 = step_state[t, 0, 1], step_state[t, 1, 0], step_state[t, 1, 1]
        if size > 2:
            m2, i2, e2 = step_mixed[t, 2], step_observation[t, 2], message_state[t, 2]
            a02, a12, a20 = step_state[t, 0, 2], step_state[t, 1, 2], step_state[t, 2, 0]
            a21, a22 = step_state[t, 2, 1], step_state[t, 2, 2]
        if size > 3:
            m3, i3, e3 = step_mixed[t, 3], step_observation[t, 3], message_state[t, 3]
            a03, a13, a23, a30 = (
                step_state[t, 0, 3],
                step_state[t, 1, 3],
                step_state[t, 2, 3],
                step_state[t, 3, 0],
            )
            a31, a32, a33 = step_state[t, 3, 1], step_state[t, 3, 2], step_state[t, 3, 3]
        for g in range(x.size):
            w0 = w[0, g]
            through, direct = m0 * w0, i0 * w0
            n0 = a00 * w0
            if size > 1:
                w1 = w[1, g]
                through += m1 * w1
                direct += i1 * w1
                n0 += a10 * w1
                n1 = a01 * w0 + a11 * w1
            if size > 2:
                w2 = w[2, g]
                through += m2 * w2
                direct += i2 * w2
                n0 += a20 * w2
                n1 += a21 * w2
                n2 = a02 * w0 + a12 * w1 + a22 * w2
            if size > 3:
                w3 = w[3, g]
                through += m3 * w3
                direct += i3 * w3
                n0 += a30 * w3
                n1 += a31 * w3
                n2 += a32 * w3
                n3 = a03 * w0 + a13 * w1 + a23 * w2 + a33 * w3
            through *= x[g]
            direct += sent * through
            weight[g] = direct
            sums[0, g] += direct
            sums[1, g] += t * direct
            sums[2, g] += share * direct * direct
            n0 += e0 * through
            w[0, g] = n0 if abs(n0) > 1e-150 else 0.0
            if size > 1:
                n1 += e1 * through
                w[1, g] = n1 if abs(n1) > 1e-150 else 0.0
            if size > 2:
                n2 += e2 * through
                w[2, g] = n2 if abs(n2) > 1e-150 else 0.0
            if size > 3:
                n3 += e3 * through
                w[3, g] = n3 if abs(n3) > 1e-150 else 0.0

    return step_back


_step_back_1, _step_back_2, _step_back_3, _step_back_4 = (_make_step_back(size) for size in (1, 2, 3, 4))


@reassociated
def _step_back_any(
    w: Floats, x: Floats, t: int, table: Table, share: float, sums: Floats, weight: Floats
) -> None:
    """Walk one round backward for any number of registers, without unrolled loops."""
    sent, message_state, step_state = table.message_observation[t], table.message_state, table.step_state
    step_observation, step_mixed = table.step_observation, table.step_mixed
    size = w.shape[0]
    fresh = np.empty(size)
    for g in range(x.size):
        through, direct = 0.0, 0.0
        for j in range(size):
            through += step_mixed[t, j] * w[j, g]
            direct += step_observation[t, j] * w[j, g]
        through *= x[g]
        direct += sent * through
        weight[g] = direct
        sums[0, g] += direct
        sums[1, g] += t * direct
        sums[2, g] += share * direct * direct
        for k in range(size):
            fresh[k] = message_state[t, k] * through
            for j in range(size):
                fresh[k] += step_state[t, j, k] * w[j, g]
        for k in range(size):
            w[k, g] = fresh[k] if abs(fresh[k]) > 1e-150 else 0.0


@compiled
def _backward_panel(x: Floats, table: Table, weights: Floats, start: int) -> Floats:
    rounds, size = table.message_state.shape
    n = x.size
    w = np.empty((size, n))
    weight = np.empty(n)
    sums = np.zeros((3, n))
    for j in range(size):
        w[j, :] = table.estimate_state[rounds - 1, j]
    for t in range(rounds - 1, -1, -1):
        share = 1.0 / table.batches[t] if table.batches[t] > 0 else 0.0
        if size == 1:
            _step_back_1(w, x, t, table, share, sums, weight)
        elif size == 2:
            _step_back_2(w, x, t, table, share, sums, weight)
        elif size == 3:
            _step_back_3(w, x, t, table, share, sums, weight)
        elif size == 4:
            _step_back_4(w, x, t, table, share, sums, weight)
        else:
            _step_back_any(w, x, t, table, share, sums, weight)
        if weights.shape[0] > 0:
            for g in range(n):
                weights[t, start + g] = weight[g]
    return sums


class RegisterMoments(NamedTuple):
    """The registers of a panel of eigenvalues: means under a unit mean and a unit drift, covariances, and scratch."""

    mean: Floats  #: (2, 2, R, n) before and after a round (it alternates), by input
    cov: Floats  #: (R, R, n)
    transition: Floats  #: (R, R, n)
    entry: Floats  #: (R, n)
    half: Floats  #: (R, R, n)


@compiled
def initial_moments(size: int, n: int) -> RegisterMoments:
    return RegisterMoments(
        np.zeros((2, 2, size, n)),
        np.zeros((size, size, n)),
        np.zeros((size, size, n)),
        np.zeros((size, n)),
        np.zeros((size, size, n)),
    )


@compiled
def step_forward(
    m: RegisterMoments, x: Floats, t: int, table: Table, used: Booleans, before: int = 0
) -> None:
    """Play round t of a table after `before` others. The means are read from half t % 2 and written to the other."""
    message_state, message_observation = table.message_state, table.message_observation
    step_state, step_observation, step_mixed = table.step_state, table.step_observation, table.step_mixed
    a, b, mean, cov, half = m.transition, m.entry, m.mean, m.cov, m.half
    size = message_state.shape[1]
    now = t % 2
    for j in range(size):
        for k in range(size):
            if used[j, k]:
                affine(a[j, k], step_state[t, j, k], step_mixed[t, j] * message_state[t, k], x)
        affine(b[j], step_observation[t, j], step_mixed[t, j] * message_observation[t], x)
    for i in range(2):
        for j in range(size):
            row = mean[1 - now, i, j]
            affine(row, 0.0, 1.0 if i == 0 else float(before + t), b[j])
            for k in range(size):
                if used[j, k]:
                    multiply_add(row, a[j, k], mean[now, i, k])
    share = 1.0 / table.batches[t] if table.batches[t] > 0 else 0.0
    for j in range(size):
        for k in range(size):
            half[j, k, :] = 0.0
            for i in range(size):
                if used[j, i]:
                    multiply_add(half[j, k], a[j, i], cov[i, k])
    for j in range(size):
        for k in range(j + 1):
            _product(cov[j, k], share, b[j], b[k])
            for i in range(size):
                if used[k, i]:
                    multiply_add(cov[j, k], half[j, i], a[k, i])
            if k < j:
                cov[k, j, :] = cov[j, k]


@compiled
def connections(table: Table, rounds: int) -> Booleans:
    """Return (R, R) whether any of the rounds takes register k into register j."""
    size = table.message_state.shape[1]
    used = np.zeros((size, size), dtype=np.bool_)
    for t in range(rounds):
        for j in range(size):
            for k in range(size):
                if (
                    table.step_state[t, j, k] != 0.0
                    or table.step_mixed[t, j] * table.message_state[t, k] != 0.0
                ):
                    used[j, k] = True
    return used


@compiled
def _forward_panel(m: RegisterMoments, x: Floats, table: Table, horizons: Integers, used: Booleans) -> Floats:
    m = borrowed(m)
    result = np.zeros((3, horizons.shape[0], x.size))
    done = 0
    for t in range(horizons[-1]):
        step_forward(m, x, t, table, used)
        mean = m.mean[1 - t % 2]
        while done < horizons.shape[0] and horizons[done] == t + 1:
            _read(result[0, done], result[1, done], result[2, done], mean, m.cov, table.estimate_state[t])
            done += 1
    return result


@compiled
def _read(
    response: Floats, drift: Floats, noise: Floats, mean: Floats, cov: Floats, estimate: Floats
) -> None:
    """Add what the estimate makes of the registers' means and covariances."""
    for j in range(estimate.size):
        if estimate[j] != 0.0:
            add(response, estimate[j], mean[0, j])
            add(drift, estimate[j], mean[1, j])
            for k in range(estimate.size):
                if estimate[k] != 0.0:
                    add(noise, estimate[j] * estimate[k], cov[j, k])


@parallel
def forward(lam: Floats, table: Table, horizons: Integers) -> Any:
    """Propagate means and covariances of the registers; read the estimate after each of `horizons` rounds.

    Returns (3, H, G): what `backward` returns, for every horizon, in one pass over the rounds.
    """
    groups = lam.shape[0]
    result = np.empty((3, horizons.shape[0], groups))
    used = connections(table, horizons[-1])
    for panel in prange((groups + PANEL - 1) // PANEL):
        start = panel * PANEL
        stop = min(start + PANEL, groups)
        m = initial_moments(table.message_state.shape[1], stop - start)
        result[:, :, start:stop] = _forward_panel(m, lam[start:stop], table, horizons, used)
    return result


class Weights(NamedTuple):
    """A measure in panels of eigenvalues, the last one padded with zero weights; (panels, PANEL) each."""

    nodes: Floats
    constant: Floats
    mean: Floats  #: the signal's Gram matrix: of the mean, ...
    mixed: Floats  #: ... of mean and drift, ...
    drift: Floats  #: ... and of the drift
    power: Floats


@reassociated
def _bias(response: Floats, drift: Floats, last: int, weights: Weights, panel: int) -> float:
    total = 0.0
    for g in range(response.size):
        constant = weights.constant[panel, g]
        first, second = response[g] - constant, drift[g] - constant * last
        total += weights.mean[panel, g] * first * first
        total += (2.0 * weights.mixed[panel, g] * first + weights.drift[panel, g] * second) * second
    return total


@reassociated
def _variance(noise: Floats, weights: Weights, panel: int) -> float:
    total = 0.0
    for g in range(noise.size):
        total += weights.power[panel, g] * noise[g]
    return total


@compiled
def _sweep_panel(
    m: RegisterMoments, panel: int, table: Table, before: int, weights: Weights, used: Booleans, out: Floats
) -> None:
    m, weights = borrowed(m), borrowed(weights)
    x = weights.nodes[panel]
    estimates = np.zeros((3, x.size))
    for t in range(out.shape[1]):
        step_forward(m, x, t, table, used, before)
        estimates[:, :] = 0.0
        _read(estimates[0], estimates[1], estimates[2], m.mean[1 - t % 2], m.cov, table.estimate_state[t])
        out[0, t] = _bias(estimates[0], estimates[1], before + t, weights, panel)
        out[1, t] = _variance(estimates[2], weights, panel)


@parallel
def sweep(m: RegisterMoments, table: Table, before: int, weights: Weights) -> Any:
    """Continue through all rounds of a table, an even number, after `before` rounds; return (2, T) bias and variance.

    The moments of all panels, (panels, ...) each, are updated in place.
    """
    panels, rounds = weights.nodes.shape[0], table.batches.size
    out = np.empty((panels, 2, rounds))
    used = connections(table, rounds)
    for panel in prange(panels):
        one = RegisterMoments(m.mean[panel], m.cov[panel], m.transition[panel], m.entry[panel], m.half[panel])
        _sweep_panel(one, panel, table, before, weights, used, out[panel])
    return out.sum(axis=0)


@compiled
def _run(table: Table, rounds: int, run: int) -> Table:
    """Return the rows of one of several runs of equal length that are concatenated in one table."""
    rows = slice(run * rounds, (run + 1) * rounds)
    return Table(
        table.message_state[rows],
        table.message_observation[rows],
        table.step_state[rows],
        table.step_observation[rows],
        table.step_mixed[rows],
        table.estimate_state[rows],
        table.batches[rows],
    )


@parallel
def backward(lam: Floats, table: Table, rounds: int, weights: Floats) -> Any:
    """Walk the rounds backward from the final estimate: the weight g_t of every round's observation.

    Returns (3, runs, G) for several runs of `rounds` rounds that are concatenated in one table: sum_t g_t, sum_t t g_t
    and sum_t g_t^2 / batch_t, per eigenvalue: the response to the mean, to its drift, and the noise gain. The weights
    of a single run are written to `weights` (T, G), unless that has no rows.
    """
    groups, runs = lam.shape[0], table.batches.size // rounds
    panels = (groups + PANEL - 1) // PANEL
    result = np.empty((3, runs, groups))
    for job in prange(runs * panels):
        run, start = job // panels, job % panels * PANEL
        stop = min(start + PANEL, groups)
        one = _run(table, rounds, run)
        result[:, run, start:stop] = _backward_panel(lam[start:stop], one, weights, start)
    return result
