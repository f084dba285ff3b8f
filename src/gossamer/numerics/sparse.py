"""Sparse matrices as arguments of compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gossamer.arrays import AnyArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class SparseRows(NamedTuple):
    """A CSR matrix: row i has the value data[e] in column indices[e], for e from indptr[i] to indptr[i + 1] - 1."""

    indptr: AnyArray
    indices: AnyArray
    data: AnyArray


def rows_of(matrix: csr_matrix) -> SparseRows:
    """Return the rows of a SciPy CSR matrix, sharing its memory."""
    return SparseRows(matrix.indptr, matrix.indices, matrix.data)
