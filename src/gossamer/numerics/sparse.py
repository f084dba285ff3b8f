"""Sparse matrices as compiled code takes them."""

from __future__ import annotations

from typing import Any, NamedTuple

from gossamer.arrays import AnyArray


class SparseRows(NamedTuple):
    """Row i of a matrix holds data[e] in column indices[e], for e from indptr[i] to indptr[i + 1] - 1."""

    indptr: AnyArray
    indices: AnyArray
    data: AnyArray


def rows_of(matrix: Any) -> SparseRows:
    """The rows of a matrix in SciPy's CSR form, sharing its memory."""
    return SparseRows(matrix.indptr, matrix.indices, matrix.data)
