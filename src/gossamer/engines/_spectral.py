"""Compiled recursions of the exact engine: one scalar system per eigenvalue, many eigenvalues side by side.

The inner loops run over a block of eigenvalues and live in functions of their own, on rows of arrays, which is
what the compiler turns into vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Array = NDArray[np.float64]

BLOCK = 256  # eigenvalues side by side: their registers and covariances stay in the nearest caches

_row = njit(cache=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")


@_row
def _add(out: Array, scale: float, x: Array) -> None:
    for g in range(out.size):
        out[g] += scale * x[g]


@_row
def _multiply_add(out: Array, x: Array, y: Array) -> None:
    for g in range(out.size):
        out[g] += x[g] * y[g]


@_row
def _affine(out: Array, constant: float, scale: float, x: Array) -> None:
    for g in range(out.size):
        out[g] = constant + scale * x[g]


@_row
def _scaled(out: Array, scale: float, x: Array) -> None:
    for g in range(out.size):
        out[g] = scale * x[g]


@_row
def _product(out: Array, scale: float, x: Array, y: Array) -> None:
    for g in range(out.size):
        out[g] = scale * x[g] * y[g]


@_row
def _flush(x: Array) -> None:
    """Set what has decayed beyond any influence to zero: arithmetic on denormal numbers is a hundred times slower."""
    for g in range(x.size):
        x[g] = x[g] if abs(x[g]) > 1e-150 else 0.0


@_row
def _finish_round(
    through: Array, weight: Array, x: Array, told: float, t: int, share: float, sums: Array
) -> None:
    level, slope, square = sums[0], sums[1], sums[2]
    for g in range(x.size):
        through[g] *= x[g]
        weight[g] += told * through[g]
        level[g] += weight[g]
        slope[g] += t * weight[g]
        square[g] += share * weight[g] * weight[g]


@njit(cache=True, error_model="numpy")
def _backward_block(
    x: Array,
    message_state: Array,
    message_input: Array,
    step_state: Array,
    step_input: Array,
    step_mixed: Array,
    estimate_state: Array,
    batches: Array,
    weights: Array,
    start: int,
) -> Array:
    rounds, size = message_state.shape
    n = x.size
    w = np.empty((2, size, n))
    through = np.empty(n)
    weight = np.empty(n)
    sums = np.zeros((3, n))
    for j in range(size):
        w[0, j, :] = estimate_state[rounds - 1, j]
    now = 0
    for t in range(rounds - 1, -1, -1):
        through[:] = 0.0
        weight[:] = 0.0
        for j in range(size):
            if step_mixed[t, j] != 0.0:
                _add(through, step_mixed[t, j], w[now, j])
            if step_input[t, j] != 0.0:
                _add(weight, step_input[t, j], w[now, j])
        share = 1.0 / batches[t] if batches[t] > 0 else 0.0
        _finish_round(through, weight, x, message_input[t], t, share, sums)
        if weights.shape[0] > 0:
            weights[t, start : start + n] = weight
        for k in range(size):
            _scaled(w[1 - now, k], message_state[t, k], through)
            for j in range(size):
                if step_state[t, j, k] != 0.0:
                    _add(w[1 - now, k], step_state[t, j, k], w[now, j])
            if t % 4 == 0:
                _flush(w[1 - now, k])
        now = 1 - now
    return sums


@njit(cache=True, parallel=True, error_model="numpy")
def backward(
    lam: Array,
    message_state: Array,
    message_input: Array,
    step_state: Array,
    step_input: Array,
    step_mixed: Array,
    estimate_state: Array,
    batches: Array,
    weights: Array,
) -> Array:
    """Walk the rounds backwards from the final estimate: the weight g_t of every round's observation.

    Returns (3, G): sum_t g_t, sum_t t g_t and sum_t g_t^2 / batch_t, per eigenvalue: the response to the mean, to
    its drift, and the noise gain. The weights themselves are written to `weights` (T, G), unless that has no rows.
    """
    groups = lam.shape[0]
    sums = np.empty((3, groups))
    for block in prange((groups + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        stop = min(start + BLOCK, groups)
        sums[:, start:stop] = _backward_block(
            lam[start:stop],
            message_state,
            message_input,
            step_state,
            step_input,
            step_mixed,
            estimate_state,
            batches,
            weights,
            start,
        )
    return sums


@njit(cache=True, error_model="numpy")
def _forward_block(
    x: Array,
    message_state: Array,
    message_input: Array,
    step_state: Array,
    step_input: Array,
    step_mixed: Array,
    estimate_state: Array,
    batches: Array,
    horizons: NDArray[np.int64],
    used: NDArray[np.bool_],
) -> Array:
    size = message_state.shape[1]
    n = x.size
    result = np.zeros((3, horizons.shape[0], n))
    a = np.zeros((size, size, n))
    b = np.zeros((size, n))
    mean = np.zeros((2, 2, size, n))
    cov = np.zeros((size, size, n))
    half = np.zeros((size, size, n))
    done = now = 0
    for t in range(horizons[-1]):
        for j in range(size):
            for k in range(size):
                if used[j, k]:
                    _affine(a[j, k], step_state[t, j, k], step_mixed[t, j] * message_state[t, k], x)
            _affine(b[j], step_input[t, j], step_mixed[t, j] * message_input[t], x)
        for i in range(2):
            for j in range(size):
                row = mean[1 - now, i, j]
                _scaled(row, 1.0 if i == 0 else float(t), b[j])
                for k in range(size):
                    if used[j, k]:
                        _multiply_add(row, a[j, k], mean[now, i, k])
        now = 1 - now
        share = 1.0 / batches[t] if batches[t] > 0 else 0.0
        for j in range(size):
            for k in range(size):
                half[j, k, :] = 0.0
                for m in range(size):
                    if used[j, m]:
                        _multiply_add(half[j, k], a[j, m], cov[m, k])
        for j in range(size):
            for k in range(j + 1):
                _product(cov[j, k], share, b[j], b[k])
                for m in range(size):
                    if used[k, m]:
                        _multiply_add(cov[j, k], half[j, m], a[k, m])
                if k < j:
                    cov[k, j, :] = cov[j, k]
        while done < horizons.shape[0] and horizons[done] == t + 1:
            for j in range(size):
                e = estimate_state[t, j]
                if e != 0.0:
                    _add(result[0, done], e, mean[now, 0, j])
                    _add(result[1, done], e, mean[now, 1, j])
                    for k in range(size):
                        if estimate_state[t, k] != 0.0:
                            _add(result[2, done], e * estimate_state[t, k], cov[j, k])
            done += 1
    return result


@njit(cache=True, parallel=True, error_model="numpy")
def forward(
    lam: Array,
    message_state: Array,
    message_input: Array,
    step_state: Array,
    step_input: Array,
    step_mixed: Array,
    estimate_state: Array,
    batches: Array,
    horizons: NDArray[np.int64],
) -> Any:
    """Propagate means and covariances of the registers; read the estimate after each of `horizons` rounds.

    Returns (3, H, G): what `backward` returns, for every horizon, in one pass over the rounds.
    """
    size = message_state.shape[1]
    groups = lam.shape[0]
    result = np.empty((3, horizons.shape[0], groups))
    used = np.zeros((size, size), dtype=np.bool_)
    for t in range(horizons[-1]):
        for j in range(size):
            for k in range(size):
                if step_state[t, j, k] != 0.0 or step_mixed[t, j] * message_state[t, k] != 0.0:
                    used[j, k] = True
    for block in prange((groups + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        stop = min(start + BLOCK, groups)
        result[:, :, start:stop] = _forward_block(
            lam[start:stop],
            message_state,
            message_input,
            step_state,
            step_input,
            step_mixed,
            estimate_state,
            batches,
            horizons,
            used,
        )
    return result
