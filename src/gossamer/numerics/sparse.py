"""Sparse matrices as compiled code takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gossamer.arrays import AnyArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class SparseRows(NamedTuple):
    """Row i of a matrix holds data[e] in column indices[e], for e from indptr[i] to indptr[i + 1] - 1."""

    indptr: AnyArray
    indices: AnyArray
    data: AnyArray


def rows_of(matrix: csr_matrix) -> SparseRows:
    """The rows of a matrix in SciPy's CSR form, sharing its memory."""
    return SparseRows(matrix.indptr, matrix.indices, matrix.data)
