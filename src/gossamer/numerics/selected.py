"""The diagonal and single columns of the inverse of a large sparse matrix, from its triangular factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from gossamer.arrays import Floats, Integers
from gossamer.numerics.compiling import compiled


def factored_inverse(matrix: sp.csc_array) -> tuple[Floats, Callable[[int], Floats]]:
    """Return the diagonal of the inverse of a positive definite matrix, and a function that returns its column k."""
    size = matrix.shape[0]
    if _factors_fill(matrix):
        factor, _ = lapack.dpotrf(matrix.toarray(order="F"), lower=True, overwrite_a=True)
        inverse, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
        return inverse.diagonal(), lambda k: np.concatenate([inverse[k, :k], inverse[k:, k]])
    solver = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return inverse_diagonal(solver), lambda k: np.asarray(solver.solve(np.eye(1, size, k)[0]))


def _factors_fill(matrix: sp.csc_array) -> bool:
    """Return whether sparse factors would be nearly full, as those of random graphs are.

    They are if no order keeps neighbors close to each other. Rows with many entries do not count: they come last.
    """
    size = matrix.shape[0]
    few = np.diff(matrix.indptr) <= np.sqrt(size)
    rest = sp.csr_array(matrix[few][:, few])
    place = np.argsort(reverse_cuthill_mckee(rest, symmetric_mode=True))
    rows, columns = rest.nonzero()
    return bool(np.abs(place[rows] - place[columns]).max(initial=0) > size // 8)


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
