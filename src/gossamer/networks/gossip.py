"""Gossip matrices: weights of edges, and checks of the three assumptions of the paper.

A gossip matrix L is symmetric and positive semi-definite, nonzero only on edges and the diagonal, and its kernel is
the constant vectors.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from gossamer import checks
from gossamer.arrays import Integers
from gossamer.errors import InvalidNetwork

DENSE_LIMIT = 3000
"""Largest number of agents for which an arbitrary graph is decomposed densely (a few seconds at most)."""

_TOLERANCE = 1e-9


def given_weights(graph: nx.Graph) -> sp.csr_matrix:
    """Return L with L_ij = -w_ij for the attribute "weight" of every edge; the diagonal follows from these."""
    graph = nx.Graph(graph)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    for a, b, w in graph.edges(data="weight"):
        known = isinstance(w, int | float | np.number) and not isinstance(w, bool)
        if not (known and np.isfinite(w) and w != 0):
            raise InvalidNetwork(
                f"weights='file' needs a weight for every edge, one number other than 0, but {a}-{b} has "
                f"{'none, or several' if w is None or w != w else repr(w)}; correct the file, or choose other weights"
            )
    return sp.csr_matrix(nx.laplacian_matrix(graph, weight="weight"), dtype=float)


def check_connected(gossip: sp.csr_matrix) -> None:
    check_components(*connected_components(gossip, directed=False))


def check_components(count: int, member: Integers) -> None:
    """Raise an error unless all agents are in one component."""
    if count > 1:
        sizes = np.sort(np.bincount(member))[::-1]
        shown = ", ".join(map(str, sizes[:5])) + (", ..." if count > 5 else "")
        raise InvalidNetwork(
            f"averaging needs a connected network, but this graph has {count} components (sizes {shown}); "
            "add an edge or use Network.components(graph)"
        )


def square_matrix(what: str, matrix: ArrayLike | sp.spmatrix) -> sp.csr_matrix:
    """Return a table of finite real numbers, one row and column for each of at least two agents, as CSR."""
    if getattr(matrix, "dtype", np.dtype(float)).kind == "c":
        raise InvalidNetwork(parameter=what, required="real", got="complex entries", hint="take matrix.real")
    try:
        if np.ndim(matrix) == 0 and not sp.issparse(matrix):
            raise TypeError
        square = sp.csr_matrix(matrix, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InvalidNetwork(
            parameter=what,
            required="a square table of real numbers, dense or sparse",
            got=checks.brief(matrix),
        ) from None
    if square.ndim != 2 or square.shape[0] != square.shape[1]:
        raise InvalidNetwork(parameter=what, required="square", got=f"shape {square.shape}")
    if square.shape[0] < 2:
        raise InvalidNetwork(f"a network needs at least 2 agents, got {square.shape[0]}")
    if not np.all(np.isfinite(square.data)):
        raise InvalidNetwork("must have finite entries, got NaN or infinity", parameter=what)
    return square


def checked_gossip(matrix: ArrayLike | sp.spmatrix, graph: nx.Graph | None) -> sp.csr_matrix:
    """Return a matrix that satisfies the three assumptions as CSR, symmetric to the last bit, or say what is wrong."""
    gossip = square_matrix("a gossip matrix", matrix)
    n = gossip.shape[0]
    scale = float(abs(gossip).max()) or 1.0
    gossip = _symmetric(gossip, scale)
    if graph is not None:
        _check_on_graph(gossip, graph)
    check_connected(gossip)
    sums = np.abs(np.asarray(gossip.sum(axis=1)).ravel())
    if sums.max() > _TOLERANCE * scale * n:
        raise InvalidNetwork(
            "the kernel of a gossip matrix must be the constant vectors, so rows must sum to zero, "
            f"but row {int(sums.argmax())} sums to {sums.max():g}; a weight matrix W gives L = I - W"
        )
    off_diagonal = gossip - sp.diags(gossip.diagonal())
    if off_diagonal.nnz and off_diagonal.max() > 0:  # otherwise diagonally dominant: semi-definite for sure
        _check_definite(gossip, scale)
    return gossip


def _symmetric(gossip: sp.csr_matrix, scale: float) -> sp.csr_matrix:
    gap = abs(gossip - gossip.T).tocoo()
    if gap.nnz and gap.data.max() > _TOLERANCE * scale:
        k = int(gap.data.argmax())
        i, j = int(gap.row[k]), int(gap.col[k])
        raise InvalidNetwork(
            f"a gossip matrix must be symmetric, but L[{i},{j}] = {gossip[i, j]:g} and L[{j},{i}] = {gossip[j, i]:g}; "
            "try (L + L.T) / 2"
        )
    symmetric = ((gossip + gossip.T) / 2).tocsr()
    symmetric.data[np.abs(symmetric.data) <= 1e-15 * scale] = 0.0
    symmetric.eliminate_zeros()
    return symmetric


def _check_on_graph(gossip: sp.csr_matrix, graph: nx.Graph) -> None:
    if not isinstance(graph, nx.Graph):
        raise InvalidNetwork(parameter="graph", required="a NetworkX graph", got=checks.brief(graph))
    if set(graph.nodes) != set(range(gossip.shape[0])):
        raise InvalidNetwork(
            f"the graph's nodes must be 0..{gossip.shape[0] - 1}, the matrix's rows; "
            "try nx.convert_node_labels_to_integers"
        )
    upper = sp.triu(gossip, k=1).tocoo()
    for i, j, value in zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True):
        if not graph.has_edge(i, j):
            raise InvalidNetwork(
                f"a gossip matrix must be nonzero only on edges, but L[{i},{j}] = {value:g} and the graph has no "
                "such edge"
            )


def _check_definite(gossip: sp.csr_matrix, scale: float) -> None:
    agents = gossip.shape[0]
    if agents > DENSE_LIMIT:
        raise InvalidNetwork(
            f"a gossip matrix with positive off-diagonal entries is checked densely up to {DENSE_LIMIT} agents, "
            f"but this one has {agents}; use weights of one sign"
        )
    values = np.linalg.eigvalsh(gossip.toarray())
    if values[0] < -_TOLERANCE * scale:
        raise InvalidNetwork(
            f"a gossip matrix must be positive semi-definite, but this one has the eigenvalue {values[0]:g}"
        )
    if values[1] <= _TOLERANCE * scale:
        raise InvalidNetwork(
            "the kernel of a gossip matrix must be the constant vectors alone, "
            f"but the second smallest eigenvalue is {values[1]:g}; some differences between agents never mix"
        )
