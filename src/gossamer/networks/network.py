"""The network: agents, edges, the gossip matrix and its spectrum."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidNetwork
from gossamer.networks import iterative, topologies
from gossamer.networks.gossip import (
    DENSE_LIMIT,
    check_connected,
    checked_gossip,
    edge_weights,
    weighted_laplacian,
)
from gossamer.networks.spectrum import DenseSpectrum, Spectrum
from gossamer.networks.topologies import Topology


class Network:
    """A connected, undirected network of agents and its gossip matrix L.

    L satisfies the paper's three assumptions: symmetric and positive semi-definite, nonzero only on edges and
    the diagonal, and its kernel is the constant vectors. The default L = I - W has Metropolis-Hastings weights
    W_ij = 1/(1 + max(d_i, d_j)).

        agents            how many agents, N
        edges             (E, 2) array of agent numbers
        gossip            L, a SciPy CSR matrix
        lambda_max        the largest eigenvalue of L
        lambda_2          the smallest nonzero eigenvalue of L (the paper's lambda_{N-1})
        condition_number  lambda_max / lambda_2
        labels            the names of the agents, where the graph had names

    Spectra are computed on first use: closed form for path, cycle, star, complete, torus, hypercube (and grid
    with equal weights), dense up to `DENSE_LIMIT` agents, iterative beyond.
    """

    def __init__(
        self,
        gossip: sp.csr_matrix,
        *,
        name: str = "network",
        labels: Sequence[Hashable] | None = None,
        closed_form: Callable[[], Spectrum] | None = None,
        positions: Floats | None = None,
    ) -> None:
        self.gossip = gossip
        self.agents = int(gossip.shape[0])
        upper = sp.triu(gossip, k=1).tocoo()
        order = np.lexsort((upper.col, upper.row))
        self.edges: Integers = np.column_stack([upper.row, upper.col]).astype(np.int64)[order]
        self.name = name
        self.labels = list(labels) if labels is not None else list(range(self.agents))
        self.positions = positions
        self._closed_form = closed_form

    def __repr__(self) -> str:
        return f"Network({self.name}, {self.agents} agents, {len(self.edges)} edges)"

    # -- topologies ---------------------------------------------------------------------------------------

    @classmethod
    def path(cls, n: int, weights: str = "metropolis") -> Network:
        """All agents on a line."""
        return cls._weighted(topologies.path(n), weights)

    @classmethod
    def cycle(cls, n: int, weights: str = "metropolis") -> Network:
        """A ring."""
        return cls._weighted(topologies.cycle(n), weights)

    @classmethod
    def star(cls, n: int, weights: str = "metropolis") -> Network:
        """Agent 0 in the center, everybody else its neighbor."""
        return cls._weighted(topologies.star(n), weights)

    @classmethod
    def complete(cls, n: int, weights: str = "metropolis") -> Network:
        """Everybody is everybody's neighbor."""
        return cls._weighted(topologies.complete(n), weights)

    @classmethod
    def grid(cls, rows: int, cols: int, weights: str = "metropolis") -> Network:
        """A rectangle of agents, each with its neighbors above, below, left and right."""
        return cls._weighted(topologies.grid(rows, cols), weights)

    @classmethod
    def torus(cls, rows: int, cols: int, weights: str = "metropolis") -> Network:
        """A grid whose opposite borders are joined."""
        return cls._weighted(topologies.torus(rows, cols), weights)

    @classmethod
    def hypercube(cls, dimension: int, weights: str = "metropolis") -> Network:
        """2^d agents; neighbors differ in one bit of their number."""
        return cls._weighted(topologies.hypercube(dimension), weights)

    @classmethod
    def erdos_renyi(
        cls, n: int, p: float | None = None, seed: int = 0, weights: str = "metropolis"
    ) -> Network:
        """Each edge present with probability p (default 2 ln n / n), redrawn until connected."""
        return cls._weighted(topologies.erdos_renyi(n, p, seed), weights)

    @classmethod
    def random_geometric(
        cls, n: int, radius: float | None = None, seed: int = 0, weights: str = "metropolis"
    ) -> Network:
        """Agents at random places in the unit square, neighbors within `radius`
        (default sqrt(2 ln n / (pi n))), redrawn until connected."""
        return cls._weighted(topologies.random_geometric(n, radius, seed), weights)

    @classmethod
    def expander(cls, n: int, degree: int, seed: int = 0, weights: str = "metropolis") -> Network:
        """A random regular graph: few edges, yet every agent is near every other."""
        return cls._weighted(topologies.expander(n, degree, seed), weights)

    @classmethod
    def _weighted(cls, topology: Topology, weights: str, labels: Sequence[Hashable] | None = None) -> Network:
        if topology.agents < 2:
            found = f"got {topology.agents}" if topology.agents else "but the graph is empty"
            raise InvalidNetwork(f"a network needs at least 2 agents, {found}")
        w = edge_weights(topology.agents, topology.edges, weights)
        gossip = weighted_laplacian(topology.agents, topology.edges, w)
        check_connected(gossip)

        def made(scale: float) -> Network:
            # A closed form of the Laplacian's spectrum serves whenever all edges weigh the same.
            closed_form = topology.closed_form if np.ptp(w) == 0 else None
            return cls(
                gossip if scale == 1 else gossip * scale,
                name=topology.name,
                labels=labels,
                closed_form=None if closed_form is None else lambda: closed_form(float(w[0]) * scale),
                positions=topology.positions,
            )

        network = made(1.0)
        if weights != "best-constant":
            return network
        return made(2.0 / (network.lambda_max + network.lambda_2))

    # -- from and to other things ---------------------------------------------------------------------------

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, weights: str = "metropolis", *, name: str | None = None
    ) -> Network:
        """Build a network from an undirected NetworkX graph; edge attributes are ignored.

        weights: "metropolis" 1/(1 + max(d_i, d_j)); "laplacian" 1; "max-degree" 1/(1 + max degree);
        "best-constant" 2/(lambda_max + lambda_2) of the Laplacian.
        """
        if not isinstance(graph, nx.Graph):
            raise InvalidNetwork(
                f"a NetworkX graph is needed, got {type(graph).__name__}; for pairs of agents try from_edges"
            )
        if graph.is_directed():
            raise InvalidNetwork(
                "averaging needs an undirected graph, got a directed one; try G.to_undirected()"
            )
        loops = list(nx.selfloop_edges(graph))
        if loops:
            raise InvalidNetwork(
                f"a network must have no self-loops, but agent {loops[0][0]!r} has one; "
                "try G.remove_edges_from(nx.selfloop_edges(G))"
            )
        if graph.is_multigraph() and graph.number_of_edges() != nx.Graph(graph).number_of_edges():
            raise InvalidNetwork(
                "a network must have only one edge between two agents, got parallel edges; try nx.Graph(G)"
            )
        topology, labels = topologies.of_graph(graph, name or graph.name or "graph")
        return cls._weighted(topology, weights, labels)

    @classmethod
    def from_edges(cls, agents: int, edges: ArrayLike, weights: str = "metropolis") -> Network:
        """Build a network from a list of pairs of agent numbers."""
        agents = checks.whole_number("agents", agents, least=2)
        given = np.asarray(edges)
        pairs_given = np.issubdtype(given.dtype, np.number) and given.ndim == 2 and given.shape[1] == 2
        if given.size and not (pairs_given and np.all(given == np.floor(given))):
            raise InvalidNetwork(
                f"edges must be pairs of agent numbers, an array of shape (E, 2), got shape {given.shape}"
                + ("" if pairs_given else "; leave weights out, they follow from `weights`")
            )
        pairs = given.astype(np.int64).reshape(-1, 2)
        if pairs.size and (pairs.min() < 0 or pairs.max() >= agents):
            raise InvalidNetwork(f"edges must name agents 0..{agents - 1}, got {pairs.min()}..{pairs.max()}")
        graph = nx.MultiGraph()
        graph.add_nodes_from(range(agents))
        graph.add_edges_from(map(tuple, pairs.tolist()))
        return cls.from_networkx(graph, weights)

    @classmethod
    def from_gossip_matrix(cls, matrix: Any, graph: nx.Graph | None = None) -> Network:
        """Build a network from its gossip matrix (dense or sparse); the paper's three assumptions are checked.

        With `graph` (nodes 0..N-1), entries of the matrix off its edges are refused.
        """
        return cls(checked_gossip(matrix, graph), name="matrix")

    @classmethod
    def of(cls, value: Any) -> Network:
        return value if isinstance(value, Network) else cls.from_networkx(value)

    @staticmethod
    def components(graph: nx.Graph, weights: str = "metropolis") -> list[Network]:
        """Return one network per connected component of `graph` with at least two agents, largest first."""
        parts = sorted(nx.connected_components(graph), key=len, reverse=True)
        return [
            Network.from_networkx(graph.subgraph(part).copy(), weights) for part in parts if len(part) > 1
        ]

    def to_networkx(self) -> nx.Graph:
        """Return the graph, with the gossip weight -L_ij as edge attribute "weight"."""
        graph = nx.Graph(name=self.name)
        graph.add_nodes_from(self.labels)
        rows, cols = self.edges.T
        weights = -np.asarray(self.gossip[rows, cols]).ravel()
        graph.add_weighted_edges_from(
            (self.labels[i], self.labels[j], float(w)) for i, j, w in zip(rows, cols, weights, strict=True)
        )
        return graph

    # -- spectrum ---------------------------------------------------------------------------------------------

    @cached_property
    def spectrum(self) -> Spectrum | None:
        """The full spectral decomposition, or None where only iterative methods can serve."""
        if self._closed_form is not None:
            return self._closed_form()
        return DenseSpectrum(self.gossip.toarray()) if self.agents <= DENSE_LIMIT else None

    @cached_property
    def lambda_max(self) -> float:
        """The largest eigenvalue."""
        if self.spectrum is not None:
            return float(self.spectrum.eigenvalues.max())
        return iterative.largest_eigenvalue(self.gossip)

    @property
    def lambda_bound(self) -> float:
        """A bound on all eigenvalues from the weights alone: 2 where I - L is an average, as with Metropolis weights,
        and otherwise Gershgorin's, the largest absolute row sum."""
        return max(2.0, float(abs(self.gossip).sum(axis=1).max()))

    @cached_property
    def _smallest(self) -> tuple[Floats, Floats]:
        return iterative.smallest(self.gossip)

    @cached_property
    def lambda_2(self) -> float:
        """The smallest nonzero eigenvalue."""
        if self.spectrum is not None:
            return float(np.partition(self.spectrum.eigenvalues, 1)[1])
        return float(self._smallest[0][0])

    @property
    def condition_number(self) -> float:
        """lambda_max / lambda_2."""
        return self.lambda_max / self.lambda_2

    @cached_property
    def inverse_square_trace(self) -> float:
        """Sum of 1/lambda^2 over the nonzero eigenvalues (estimated beyond `DENSE_LIMIT`, to about 10%)."""
        if self.spectrum is not None:
            values = self.spectrum.eigenvalues
            return float(np.sum(1.0 / values[values > values.max() * 1e-14] ** 2))
        return iterative.inverse_square_trace(self.gossip, *self._smallest)

    # -- neighborhoods -----------------------------------------------------------------------------------------

    def neighbors(self, agent: int) -> Integers:
        """The numbers of an agent's neighbors, ascending."""
        row = self.gossip.indices[self.gossip.indptr[agent] : self.gossip.indptr[agent + 1]]
        return np.sort(row[row != agent]).astype(np.int64)

    @cached_property
    def degrees(self) -> Integers:
        """(N,) how many neighbors each agent has."""
        return np.bincount(self.edges.ravel(), minlength=self.agents)
