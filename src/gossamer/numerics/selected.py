"""The diagonal and single columns of the inverse of a large sparse matrix, from its factors or from polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, cg, eigsh, splu

from gossamer.arrays import Floats, Integers
from gossamer.numerics.compiling import compiled, reassociated

Inverse = tuple[Floats, Callable[[int], Floats]]
"""The diagonal of an inverse, and a function that returns its column k."""

ACCURACY = 1e-8
"""Relative error of diagonals that polynomials give."""

_BLOCK = 32  # columns at a time, which fit into the cache with 10^4 rows


def factored_inverse(matrix: sp.csc_array) -> Inverse:
    """Return the inverse of a positive definite matrix."""
    size = matrix.shape[0]
    if factors_fill(matrix):
        factor, _ = lapack.dpotrf(matrix.toarray(order="F"), lower=True, overwrite_a=True)
        inverse, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
        return inverse.diagonal(), lambda k: np.concatenate([inverse[k, :k], inverse[k:, k]])
    solver = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return inverse_diagonal(solver), lambda k: np.asarray(solver.solve(np.eye(1, size, k)[0]))


def factors_fill(matrix: sp.csc_array) -> bool:
    """Return whether sparse factors would be nearly full, as those of random graphs are.

    They are if no order keeps neighbors close to each other. Rows with many entries do not count: they come last.
    """
    size = matrix.shape[0]
    few = np.diff(matrix.indptr) <= np.sqrt(size)
    rest = sp.csr_array(matrix[few][:, few])
    position = np.argsort(reverse_cuthill_mckee(rest, symmetric_mode=True))
    rows, columns = rest.nonzero()
    return bool(np.abs(position[rows] - position[columns]).max(initial=0) > size // 8)


def centered_inverse(matrix: sp.csr_array, row_sum: float) -> Inverse | None:
    r"""Return the inverse of a matrix on the vectors that sum to zero; None if factors of the full matrix are cheaper.

    The matrix :math:`A = cL + dI` has a connected Laplacian L, and `row_sum` is d. On random graphs its other
    eigenvalues are within a small interval [a, b], over which a Chebyshev series of few terms q is 1/x up to
    `ACCURACY`. The diagonals of the first 2m polynomials of A need only m products of A with every unit vector, because
    :math:`T_{2k} = 2T_k^2 - 1` and :math:`T_{2k+1} = 2T_k T_{k+1} - T_1`.
    """
    size = matrix.shape[0]

    norm = float(np.abs(matrix).sum(axis=0).max())

    def deflated(x: Floats) -> Floats:
        return np.asarray(matrix @ x + norm * np.mean(x))

    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=deflated, dtype=float)
    options = {"k": 1, "tol": 1e-3, "v0": start, "maxiter": 50, "return_eigenvectors": False}
    try:
        low, high = (eigsh(operator, which="SA", **options)[0], eigsh(matrix, which="LA", **options)[0])
    except ArpackNoConvergence:
        return None
    low, high = 0.95 * low, 1.02 * high  # because Lanczos' values are inside the spectrum
    root = math.sqrt(high / low)
    rate = (root - 1) / (root + 1)
    half = math.ceil(math.log(ACCURACY / 10) / math.log(rate)) // 2 + 1
    if half * matrix.nnz > size**2 / 8:
        return None
    middle, radius = (high + low) / 2, (high - low) / 2
    scaled = sp.csr_array((matrix - middle * sp.eye_array(size)) / radius)
    squares, products = np.ones((half, size)), np.empty((half, size))
    _chebyshev(
        scaled.indptr.astype(np.int64),
        scaled.indices.astype(np.int64),
        scaled.data,
        _BLOCK,
        squares,
        products,
    )
    diagonals = np.empty((2 * half, size))
    diagonals[::2] = 2 * squares - 1
    diagonals[1::2] = 2 * products - scaled.diagonal()
    # What the polynomials make of the mean of all agents, whose eigenvalue is outside [a, b].
    means = np.cosh(np.arange(2 * half) * np.arccosh(complex((row_sum - middle) / radius))).real / size
    series = 2 * (-rate) ** np.arange(2 * half) / math.sqrt(low * high)
    series[0] /= 2

    def column(k: int) -> Floats:
        x, failed = cg(matrix, np.eye(1, size, k)[0] - 1 / size, rtol=1e-12)
        assert not failed
        return np.asarray(x)

    return series @ (diagonals - means[:, None]), column


@reassociated
def _chebyshev(
    starts: Integers, columns: Integers, entries: Floats, block: int, squares: Floats, products: Floats
) -> None:
    """Set row k to the squares of the columns of T_k, and to their products with those of T_(k+1)."""
    half, size = squares.shape
    before, now, sums = np.empty((size, block)), np.empty((size, block)), np.empty(block)
    for first in range(0, size, block):
        now[:] = 0.0
        for b in range(min(block, size - first)):
            now[first + b, b] = 1.0
        for k in range(half):
            twice = 2.0 if k else 1.0
            square, product = np.zeros(block), np.zeros(block)
            for i in range(size):
                sums[:] = 0.0
                for p in range(starts[i], starts[i + 1]):
                    entry, other = twice * entries[p], now[columns[p]]
                    for b in range(block):
                        sums[b] += entry * other[b]
                mine, last = now[i], before[i]
                for b in range(block):
                    value = sums[b] - last[b] if k else sums[b]
                    last[b] = value
                    square[b] += value * value
                    product[b] += value * mine[b]
            before, now = now, before
            for b in range(min(block, size - first)):
                products[k, first + b] = product[b]
                if k + 1 < half:
                    squares[k + 1, first + b] = square[b]


def inverse_diagonal(factors: Any) -> Floats:
    r"""Return the diagonal of :math:`A^{-1}` of a symmetric positive definite matrix A by Takahashi's equations.

    With :math:`P A P^T = L D L^T`, the entries of :math:`Z = A^{-1}` at the nonzeros of L follow from those to their
    lower right: :math:`Z_{ij} = \delta_{ij}/d_j - \sum_{k>j} Z_{ik} L_{kj}`.

    Parameters
    ----------
    factors : SuperLU
        The result of `scipy.sparse.linalg.splu` in its symmetric mode, without row exchanges.
    """
    lower = sp.csc_array(factors.L)
    lower.sort_indices()
    pivots = factors.U.diagonal()
    diagonal = np.empty(len(pivots))
    _takahashi(lower.indptr.astype(np.int64), lower.indices.astype(np.int64), lower.data, pivots, diagonal)
    return np.asarray(diagonal[factors.perm_c])


@compiled
def _takahashi(starts: Integers, rows: Integers, lower: Floats, pivots: Floats, diagonal: Floats) -> None:
    size = len(pivots)
    inverse = np.zeros(len(rows))
    column = np.zeros(size)
    where = np.full(size, -1)
    for j in range(size - 1, -1, -1):
        first, last = starts[j] + 1, starts[j + 1]  # the diagonal comes first
        for p in range(first, last):
            where[rows[p]] = p
        for p in range(first, last):
            column[rows[p]] = 0.0
        for p in range(first, last):
            i = rows[p]
            column[i] -= diagonal[i] * lower[p]
            for q in range(starts[i] + 1, starts[i + 1]):
                k = rows[q]
                if where[k] >= 0:
                    column[i] -= inverse[q] * lower[where[k]]
                    column[k] -= inverse[q] * lower[p]
        total = 1.0 / pivots[j]
        for p in range(first, last):
            inverse[p] = column[rows[p]]
            total -= inverse[p] * lower[p]
        diagonal[j] = total
        for p in range(first, last):
            where[rows[p]] = -1
