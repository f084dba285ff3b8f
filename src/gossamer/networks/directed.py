"""Directed networks: links may be one-way."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import shortest_path

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidNetwork
from gossamer.networks import topologies
from gossamer.networks.drawing import Drawn
from gossamer.networks.gossip import _TOLERANCE, square_matrix


class DirectedNetwork(Drawn):
    r"""A network of agents and one-way links, over which every agent sends shares of what it holds.

    The matrix A is column-stochastic: its entries are nonnegative and nonzero only on links and the diagonal, and its
    columns sum to 1, so that shares move and nothing is lost. It is strongly connected, so that information from every
    agent reaches every other, and aperiodic, so that shares converge. By default an agent divides equally among itself
    and its receivers, :math:`A_{ij} = 1/(1 + d_j)` with the out-degree :math:`d_j`, so it needs to know only their
    number.

    Averaging rows, as on a `Network`, would require symmetry. Use `gs.PushSum` in `gs.simulate` and `gs.compare`.
    Two networks are equal if they have the same weights and labels.

    Attributes
    ----------
    agents : int
        Number of agents N in the network.
    links : ndarray
        Agent numbers of sender and receiver of each link, shape (E, 2).
    weights : csr_matrix
        The matrix A, shape (N, N): :math:`A_{ij}` is the share of what j holds that it sends to i, and :math:`A_{jj}`
        the share that it keeps.
    labels : list
        The names of the agents, if the graph had names.
    positions : ndarray or None
        Positions of the agents in a picture, shape (N, 2), if the nodes of the graph had the attribute `pos`.

    See Also
    --------
    Network : Links in both directions.
    PushSum : The method for one-way links.

    Examples
    --------
    >>> ring = gs.DirectedNetwork.from_links(3, [(0, 1), (1, 2), (2, 0)])
    >>> ring.weights.toarray()
    array([[0.5, 0. , 0.5],
           [0.5, 0.5, 0. ],
           [0. , 0.5, 0.5]])
    """

    def __init__(
        self,
        weights: sp.csr_matrix,
        *,
        name: str = "directed network",
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        self.weights = _checked(square_matrix("a matrix of shares", weights))
        self.agents = int(self.weights.shape[0])
        self.links: Integers = _links(self.weights)
        self.name = name
        self.labels: list[Hashable] = list(labels) if labels is not None else list(range(self.agents))
        self.positions: Floats | None = None

    def _drawn(self) -> tuple[Integers, Integers]:
        pairs = np.sort(self.links, axis=1)
        lines, first, count = np.unique(pairs, axis=0, return_index=True, return_counts=True)
        return lines, self.links[first[count == 1]]

    def _degrees(self) -> Integers:
        return np.bincount(self.links.ravel(), minlength=self.agents)

    def __repr__(self) -> str:
        return f"DirectedNetwork({self.name}, {self.agents} agents, {len(self.links)} links)"

    def __len__(self) -> int:
        return self.agents

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DirectedNetwork):
            return NotImplemented
        return (
            self.labels == other.labels
            and np.array_equal(self.links, other.links)
            and (self.weights != other.weights).nnz == 0
        )

    def __hash__(self) -> int:
        return hash((self.agents, self.links.tobytes()))

    @classmethod
    def from_networkx(cls, graph: nx.Graph, *, name: str | None = None) -> DirectedNetwork:
        """Build a network from a NetworkX graph, whose edges lead from sender to receiver, or both ways where it is
        undirected; edge attributes are ignored."""
        if not isinstance(graph, nx.Graph):
            raise InvalidNetwork(
                f"a NetworkX graph is needed, got {type(graph).__name__}; for pairs of agents try from_links"
            )
        topologies.check_simple(graph)
        topology, labels = topologies.of_graph(
            graph.to_directed(as_view=True), name or graph.name or "directed graph"
        )
        assert topology.edges is not None  # a graph lists them
        network = cls.equal_shares(topology.agents, topology.edges, name=topology.name, labels=labels)
        network.positions = topologies.positions(graph)
        return network

    @classmethod
    def from_links(cls, agents: int, links: ArrayLike, *, name: str = "links") -> DirectedNetwork:
        """Build a network from a list of pairs of agent numbers: sender and receiver."""
        agents = checks.whole_number("agents", agents, least=2, most=topologies.MOST_EDGES)
        pairs = topologies.checked_pairs(
            "links", agents, links, "DirectedNetwork.from_networkx(nx.DiGraph(links))"
        )
        graph = nx.MultiDiGraph(name=name)
        graph.add_nodes_from(range(agents))
        graph.add_edges_from(map(tuple, pairs.tolist()))
        return cls.from_networkx(graph)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike | sp.spmatrix, *, name: str = "matrix") -> DirectedNetwork:
        """Build a network from its weights A (dense or sparse), :math:`A_{ij}` the share that j sends to i."""
        return cls(matrix, name=name)

    @classmethod
    def equal_shares(
        cls, agents: int, links: Integers, *, name: str, labels: Sequence[Hashable] | None = None
    ) -> DirectedNetwork:
        """Return the default weights on distinct links: 1/(1 + out-degree of the sender)."""
        if agents < 2:
            raise InvalidNetwork(f"a network needs at least 2 agents, got {agents}")
        own = np.arange(agents)
        senders, receivers = np.concatenate([links, np.column_stack([own, own])]).T
        shares = 1.0 / np.bincount(senders, minlength=agents)
        matrix = sp.csr_matrix((shares[senders], (receivers, senders)), shape=(agents, agents))
        _check_strongly_connected(matrix, labels)
        return cls(matrix, name=name, labels=labels)


def _links(weights: sp.csr_matrix) -> Integers:
    """Return (E, 2) sender and receiver, in order."""
    entries = weights.tocoo()
    apart = entries.row != entries.col
    links = np.column_stack([entries.col[apart], entries.row[apart]]).astype(np.int64)
    return np.asarray(links[np.lexsort((links[:, 1], links[:, 0]))])


def _checked(weights: sp.csr_matrix) -> sp.csr_matrix:
    """Return the matrix if it is column-stochastic, strongly connected and aperiodic; otherwise raise an error."""
    weights = weights.copy()  # the caller's may be shared
    weights.sum_duplicates()
    weights.eliminate_zeros()
    if weights.nnz and weights.data.min() < 0:
        raise InvalidNetwork(parameter="shares", required="at least 0", got=f"{weights.data.min():g}")
    sums = np.asarray(weights.sum(axis=0)).ravel()
    wrong = int(np.abs(sums - 1).argmax())
    if abs(sums[wrong] - 1) > _TOLERANCE * weights.shape[0]:
        rows = np.asarray(weights.sum(axis=1)).ravel()
        hint = (
            "its rows do: try A.T"
            if np.allclose(rows, 1, rtol=0, atol=_TOLERANCE)
            else "try A / A.sum(axis=0)"
        )
        raise InvalidNetwork(
            "columns of a matrix of shares must sum to 1, so that every agent gives away or keeps all that it holds, "
            f"but column {wrong} sums to {sums[wrong]:g}; {hint}"
        )
    _check_strongly_connected(weights, None)
    period = _period(weights)
    if period > 1:
        raise InvalidNetwork(
            "a matrix of shares must be aperiodic, but every way around this network takes a multiple of "
            f"{period} rounds, so shares never settle; let agents keep some of what they hold (a positive diagonal)"
        )
    return weights


def _check_strongly_connected(weights: sp.csr_matrix, labels: Sequence[Hashable] | None) -> None:
    """Raise an error unless agent 0 reaches all agents, and all agents reach agent 0."""
    names = range(weights.shape[0]) if labels is None else labels
    hears, heard = (np.isfinite(_distances(matrix)) for matrix in (weights, weights.T))
    if hears.all() and heard.all():
        return
    apart = np.flatnonzero(~(hears if heard.all() else heard)).tolist()
    first, others = _several([names[0]]), _several([names[k] for k in apart])
    lost = (first, others) if heard.all() else (others, first)
    raise InvalidNetwork(
        f"averaging over one-way links needs a strongly connected network, but here {lost[0]} cannot be reached from "
        f"{lost[1]}; add a link, or take a part: graph.subgraph(max(nx.strongly_connected_components(graph), key=len))"
    )


def _several(names: Sequence[Hashable]) -> str:
    shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"agent{'s' if len(names) > 1 else ''} {shown}"


def _distances(links: sp.csr_matrix) -> Floats:
    """Return (N,) the distance from agent 0 to every agent, where row i of `links` has the receivers of agent i."""
    return np.asarray(shortest_path(links, unweighted=True, indices=0))


def _period(weights: sp.csr_matrix) -> int:
    """Return the greatest common divisor of the lengths of all cycles of the network."""
    links = weights.tocoo()
    level = _distances(weights).astype(np.int64)
    return int(np.gcd.reduce(level[links.row] + 1 - level[links.col]))
