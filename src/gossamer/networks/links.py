"""The neighbors of each agent and the weights of their edges, in as few bytes as possible.

Large networks are built, stored and read in this form, as a whole or for some of the agents at a time; the gossip
matrix is computed from it on request.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from gossamer import checks
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.numerics.compiling import compiled

WEIGHTS = ("metropolis", "laplacian", "max-degree", "best-constant")
"""Rules for the weight of an edge: 1/(1 + max(d_i, d_j)); 1; 1/(1 + max degree); 2/(lambda_max + lambda_2) of the
Laplacian."""


class Rows(NamedTuple):
    """The neighbors of agent i are neighbors[starts[i]:starts[i + 1]], ascending."""

    starts: AnyArray  #: (N + 1,) uint32
    neighbors: AnyArray  #: uint32

    @property
    def agents(self) -> int:
        return len(self.starts) - 1

    @property
    def degrees(self) -> Integers:
        return np.diff(self.starts).astype(np.int64)


class Links(NamedTuple):
    """Rows with weights: -L_ij of the link at e is scale weights[codes[e]], where the weights are distinct."""

    starts: AnyArray
    neighbors: AnyArray
    codes: AnyArray  #: uint8 if there are at most 256 different weights, otherwise uint32
    weights: Floats
    scale: float = 1.0

    @property
    def agents(self) -> int:
        return len(self.starts) - 1

    @property
    def degrees(self) -> Integers:
        return np.diff(self.starts).astype(np.int64)

    @property
    def edges(self) -> Integers:
        """(E, 2) every edge once, with the smaller number first, in ascending order."""
        agent = np.repeat(np.arange(self.agents), self.degrees)
        once = self.neighbors > agent
        return np.column_stack([agent[once], self.neighbors[once]]).astype(np.int64)

    @property
    def eigenvalue_bound(self) -> float:
        """A bound on the eigenvalues of L: twice the largest sum of an agent's absolute weights (Gershgorin)."""
        return 2 * float(_largest_sum(self.starts, self.codes, np.abs(self.weights * self.scale)))

    def laplacian(self) -> sp.csr_matrix:
        """Return L, whose rows sum to zero."""
        count = len(self.neighbors) + self.agents
        kind = np.int32 if count < 2**31 else np.int64
        indptr = np.empty(self.agents + 1, kind)
        indices, data = np.empty(count, kind), np.empty(count)
        own = np.add.reduceat(self.weights[self.codes], self.starts[:-1])
        _fill_laplacian(indptr, indices, data, own, *self[:4])
        data *= self.scale
        return sp.csr_matrix((data, indices, indptr), shape=(self.agents, self.agents), copy=False)


def some_rows(rows: Rows, first: int, last: int) -> Rows:
    """Return the rows of the agents first..last-1; the neighbors keep their numbers."""
    begin, end = rows.starts[[first, last]]
    return Rows(rows.starts[first : last + 1] - begin, rows.neighbors[begin:end])


def rows_of_edges(agents: int, edges: Integers) -> Rows:
    """Return the rows of an undirected graph, from a list that has each edge once."""
    i, j = edges.T
    ones = np.ones(2 * len(edges), np.uint8)
    pattern = sp.csr_matrix((ones, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(agents, agents))
    pattern.sort_indices()
    return Rows(pattern.indptr.astype(np.uint32), pattern.indices.astype(np.uint32))


def links_of_matrix(gossip: sp.csr_matrix) -> Links:
    """Return the links of a gossip matrix, whose diagonal follows from them because rows sum to zero."""
    if not gossip.has_sorted_indices:
        gossip = gossip.sorted_indices()
    agent = np.repeat(np.arange(gossip.shape[0]), np.diff(gossip.indptr))
    others = gossip.indices != agent
    starts = np.concatenate([[0], np.cumsum(np.bincount(agent[others], minlength=gossip.shape[0]))])
    weights, codes = np.unique(-gossip.data[others], return_inverse=True)
    return Links(
        starts.astype(np.uint32),
        gossip.indices[others].astype(np.uint32),
        codes.astype(np.uint8 if len(weights) <= 256 else np.uint32),
        weights,
    )


def weighted(rows: Rows, weights: str, degrees: Integers | None = None, most: int | None = None) -> Links:
    """Return rows with the weights of a rule ("best-constant" is 1 here, and is scaled when the spectrum is known).

    If the rows are those of some of the agents, `degrees` has the degrees of all agents whose numbers occur in them,
    those with rows first, and `most` is the largest degree of the whole network.
    """
    checks.choice("weights", weights, WEIGHTS)
    if weights == "metropolis":
        degrees = rows.degrees if degrees is None else degrees
        kinds = np.count_nonzero(np.bincount(degrees)) if len(degrees) else 0
        codes = np.empty(len(rows.neighbors), np.uint8 if kinds <= 256 else np.uint32)
        larger = _code_larger_degrees(codes, rows.starts, rows.neighbors, degrees)
        return Links(*rows, codes, np.asarray(1.0 / (1.0 + larger), dtype=float))
    most = int(rows.degrees.max()) if most is None else most
    same = 1.0 / (1.0 + most) if weights == "max-degree" else 1.0
    return Links(*rows, np.zeros(len(rows.neighbors), np.uint8), np.array([same]))


@compiled
def _code_larger_degrees(
    codes: AnyArray, starts: AnyArray, neighbors: AnyArray, degrees: Integers
) -> Integers:
    """Number the different values of max(d_i, d_j) as they occur, without sorting all links, and return them."""
    code_of = np.full(degrees.max() + 1 if degrees.size else 1, -1, np.int64)
    values = np.empty(code_of.size, np.int64)
    count = 0
    for i in range(starts.size - 1):
        for e in range(starts[i], starts[i + 1]):
            larger = max(degrees[i], degrees[np.int64(neighbors[e])])
            if code_of[larger] < 0:
                code_of[larger] = count
                values[count] = larger
                count += 1
            codes[e] = code_of[larger]
    return values[:count]


@compiled
def _fill_laplacian(
    indptr: AnyArray,
    indices: AnyArray,
    data: AnyArray,
    own: Floats,
    starts: AnyArray,
    neighbors: AnyArray,
    codes: AnyArray,
    weights: Floats,
) -> None:
    entry = 0
    indptr[0] = 0
    for i in range(starts.size - 1):
        pending = True
        for e in range(starts[i], starts[i + 1]):
            if pending and neighbors[e] > i:
                indices[entry], data[entry] = i, own[i]
                entry += 1
                pending = False
            indices[entry], data[entry] = neighbors[e], -weights[codes[e]]
            entry += 1
        if pending:
            indices[entry], data[entry] = i, own[i]
            entry += 1
        indptr[i + 1] = entry


@compiled
def _largest_sum(starts: AnyArray, codes: AnyArray, weights: Floats) -> float:
    largest = 0.0
    for i in range(starts.size - 1):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            total += weights[codes[e]]
        largest = max(largest, total)
    return largest
