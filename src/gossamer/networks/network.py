"""The network: agents, edges, the gossip matrix and its spectrum."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, InvalidNetwork, Unsupported
from gossamer.facts import ExchangeFacts, KnownFacts
from gossamer.networks import files, iterative, topologies
from gossamer.networks.directed import DirectedNetwork
from gossamer.networks.drawing import Drawn
from gossamer.networks.gossip import (
    DENSE_LIMIT,
    check_components,
    checked_gossip,
    given_weights,
)
from gossamer.networks.links import WEIGHTS, Links, links_of_matrix, weighted
from gossamer.networks.names import EXAMPLES, named_topology
from gossamer.networks.shards import is_sharded, open_shards
from gossamer.networks.spectrum import DenseSpectrum, Factor, Spectrum, product_facts
from gossamer.networks.topologies import Topology, components

LARGE = 2**20
"""Largest number of agents for which a network is built to compute its spectral facts."""

LATTICE = 2**16
"""Number of agents of a lattice from which its extreme eigenvalues are computed from its sides alone."""

ONE_WAY = (
    "for links that go one way see gs.DirectedNetwork and gs.PushSum, which gs.simulate and gs.compare run"
)


@runtime_checkable
class Graph(Protocol):
    """The part of a NetworkX graph that is used here, since NetworkX has no type annotations."""

    def is_directed(self) -> bool: ...
    def is_multigraph(self) -> bool: ...


@runtime_checkable
class Changing(Protocol):
    """The part of a `ChangingNetwork` that is used here; it has different edges in every round."""

    def edges_at(self, round: int) -> Integers: ...


@runtime_checkable
class InParts(Protocol):
    """The part of `NetworkParts` that is used here; no process holds the whole network."""

    def bounds(self, ranks: int) -> list[int]: ...


class Network(Drawn):
    r"""A connected, undirected network of agents and its gossip matrix L.

    L satisfies the paper's three assumptions: it is symmetric and positive semi-definite, it is nonzero only on edges
    and the diagonal, and its kernel consists of the constant vectors. The default L = I - W has Metropolis-Hastings
    weights :math:`W_{ij} = 1/(1 + \max(d_i, d_j))` with the degrees :math:`d_i`.

    Two networks are equal if they have the same gossip matrix and labels.

    Spectra are computed on first use: closed form for path, cycle, star, complete, torus, hypercube (and grid
    with equal weights), dense up to 3000 agents, iterative beyond. Those of lattices of more than 65,536 agents are
    computed from their sides alone.

    Attributes
    ----------
    agents : int
        Number of agents N in the network.
    edges : ndarray
        Agent numbers of the two ends of each edge, shape (E, 2).
    gossip : csr_matrix
        The gossip matrix L, sparse, shape (N, N).
    lambda_max, lambda_2 : float
        The largest eigenvalue of L, and the smallest nonzero one (the paper's :math:`\lambda_{N-1}`).
    condition_number : float
        The ratio :math:`\kappa = \lambda_\max/\lambda_2`; the larger it is, the slower the network mixes.
    labels : list
        The names of the agents, if the graph had names.
    positions : ndarray or None
        Positions of the agents in a picture, shape (N, 2), if they have positions or the topology has natural ones.

    See Also
    --------
    ChangingNetwork : Links that come and go.
    DirectedNetwork : One-way links.

    Examples
    --------
    >>> net = gs.Network.grid(10, 10)
    >>> net
    Network(grid:10x10, 100 agents, 180 edges)
    >>> net.condition_number
    76.34
    """

    def __init__(
        self,
        gossip: sp.csr_matrix | Links,
        *,
        name: str = "network",
        labels: Sequence[Hashable] | None = None,
        closed_form: Callable[[], Spectrum] | None = None,
        positions: Floats | Callable[[], Floats | None] | None = None,
        facts: Callable[[], KnownFacts] | None = None,
    ) -> None:
        if not isinstance(gossip, Links) and not sp.issparse(gossip):
            raise InvalidInput(
                parameter="gossip",
                required="a sparse gossip matrix",
                got=type(gossip).__name__,
                hint="gs.Network.of(...) takes a NetworkX graph or a name, gs.Network.from_edges(...) pairs of agents",
            )
        # The one that is not given is computed from the other on first access.
        if isinstance(gossip, Links):
            self.links = gossip
        else:
            self.gossip = checked_gossip(gossip, None)
        self.agents = gossip.agents if isinstance(gossip, Links) else int(gossip.shape[0])
        if labels is not None:
            self.labels = list(labels)
        self.name = name
        self._positions = positions
        self._closed_form = closed_form
        self._facts = facts

    @cached_property
    def positions(self) -> Floats | None:
        return self._positions() if callable(self._positions) else self._positions

    @cached_property
    def gossip(self) -> sp.csr_matrix:
        return self.links.laplacian()

    @cached_property
    def links(self) -> Links:
        """The rows of the gossip matrix in compact form."""
        return links_of_matrix(self.gossip)

    @cached_property
    def edges(self) -> Integers:
        return self.links.edges

    @cached_property
    def labels(self) -> list[Hashable]:
        return list(range(self.agents))

    def __repr__(self) -> str:
        return f"Network({self.name}, {self.agents} agents, {len(self.links.neighbors) // 2} edges)"

    def __len__(self) -> int:
        return self.agents

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return NotImplemented
        return (
            self.labels == other.labels
            and np.array_equal(self.edges, other.edges)
            and (self.gossip != other.gossip).nnz == 0
        )

    def __hash__(self) -> int:
        return hash((self.agents, self.edges.tobytes()))

    @classmethod
    def of(cls, value: NetworkLike | DirectedNetwork | Changing | InParts) -> Network:
        """Return `value` itself, the network of a NetworkX graph, or the network of a name such as `grid:10x10`.

        Every function that takes a network takes all three; graphs and names get the weights of `from_networkx` and
        `named`.
        """
        if isinstance(value, Network):
            return value
        if isinstance(value, str):
            return cls.named(value)
        if isinstance(value, nx.Graph):
            return cls.from_networkx(value)
        if isinstance(value, DirectedNetwork):
            raise InvalidNetwork(
                f"averaging needs an undirected graph, got {value!r}; on one-way links use gs.PushSum, in trials"
            )
        if isinstance(value, Changing):
            raise Unsupported(
                f"{value!r} has different edges in every round, so it has no gossip matrix; simulate it: "
                "gs.simulate and gs.compare take changing networks"
            )
        if isinstance(value, InParts):
            raise Unsupported(
                f"{value!r} is stored in parts, so its gossip matrix is not available; simulate it"
            )
        raise InvalidInput(
            parameter="network",
            required="a network such as gs.Network.path(10), a NetworkX graph or a name such as 'grid:10x10'",
            got=repr(value),
        )

    # -- topologies ---------------------------------------------------------------------------------------

    @classmethod
    def path(cls, n: int, weights: str = "metropolis") -> Network:
        """Build a path: all agents on a line."""
        return cls._weighted(topologies.path(n), weights)

    @classmethod
    def cycle(cls, n: int, weights: str = "metropolis") -> Network:
        """Build a ring."""
        return cls._weighted(topologies.cycle(n), weights)

    @classmethod
    def star(cls, n: int, weights: str = "metropolis") -> Network:
        """Build a star: agent 0 in the center, connected to all other agents."""
        return cls._weighted(topologies.star(n), weights)

    @classmethod
    def complete(cls, n: int, weights: str = "metropolis") -> Network:
        """Build a complete network: every pair of agents is connected."""
        return cls._weighted(topologies.complete(n), weights)

    @classmethod
    def grid(cls, rows: int, cols: int, weights: str = "metropolis") -> Network:
        """Build a rectangle of agents, each with its neighbors above, below, left and right."""
        return cls._weighted(topologies.grid(rows, cols), weights)

    @classmethod
    def torus(cls, rows: int, cols: int, weights: str = "metropolis") -> Network:
        """Build a grid whose opposite borders are connected."""
        return cls._weighted(topologies.torus(rows, cols), weights)

    @classmethod
    def hypercube(cls, dimension: int, weights: str = "metropolis") -> Network:
        """Build a hypercube of :math:`2^d` agents; neighbors differ in one bit of their number."""
        return cls._weighted(topologies.hypercube(dimension), weights)

    @classmethod
    def erdos_renyi(
        cls, n: int, p: float | None = None, seed: int = 0, weights: str = "metropolis"
    ) -> Network:
        """Build a random network with each edge present with probability p (default 2 ln n / n), redrawn until
        connected."""
        return cls._weighted(topologies.erdos_renyi(n, p, seed), weights)

    @classmethod
    def random_geometric(
        cls, n: int, radius: float | None = None, seed: int = 0, weights: str = "metropolis"
    ) -> Network:
        r"""Build a network of agents at random positions in the unit square, connected within `radius`
        (default :math:`\sqrt{2 \ln n / (\pi n)}`), redrawn until connected."""
        return cls._weighted(topologies.random_geometric(n, radius, seed), weights)

    @classmethod
    def expander(cls, n: int, degree: int, seed: int = 0, weights: str = "metropolis") -> Network:
        """Build a random regular graph: few edges, but short distances between all agents."""
        return cls._weighted(topologies.expander(n, degree, seed), weights)

    @classmethod
    def named(cls, text: str, weights: str = "metropolis", seed: int = 0) -> Network:
        """Return the network with this name and sizes, as on the command line: `grid:10x10`, `erdos-renyi:100`."""
        if not isinstance(text, str):
            raise InvalidInput(f"a name is needed, such as {EXAMPLES.split(',')[0]!r}, got {text!r}")
        return cls._weighted(named_topology(text, seed), weights)

    @classmethod
    def _weighted(cls, topology: Topology, weights: str, labels: Sequence[Hashable] | None = None) -> Network:
        if topology.agents < 2:
            count = f"got {topology.agents}" if topology.agents else "but the graph is empty"
            raise InvalidNetwork(f"a network needs at least 2 agents, {count}")
        rows, places = topology.connected()
        links = weighted(rows, weights)
        if topology.edges is not None:
            check_components(*components(rows))

        def made(scale: float) -> Network:
            # A closed form of the Laplacian's spectrum serves whenever all edges weigh the same.
            closed_form = topology.closed_form if len(links.weights) == 1 else None
            return cls(
                links._replace(scale=scale),
                name=topology.name,
                labels=labels,
                closed_form=None
                if closed_form is None
                else partial(closed_form, float(links.weights[0]) * scale),
                positions=topology.positions if places is None else places,
                facts=partial(_lattice_facts, topology.factors, links._replace(scale=scale))
                if topology.factors and topology.agents > LATTICE
                else None,
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
        r"""Build a network from an undirected NetworkX graph; edge attributes are ignored.

        With degrees d, edges weigh :math:`1/(1 + \max(d_i, d_j))` ("metropolis"), 1 ("laplacian"),
        :math:`1/(1 + \max d)` ("max-degree") or :math:`2/(\lambda_\max + \lambda_2)` of L ("best-constant").
        """
        if not isinstance(graph, nx.Graph):
            raise InvalidNetwork(
                f"a NetworkX graph is needed, got {type(graph).__name__}; for pairs of agents try from_edges"
            )
        if graph.is_directed():
            raise InvalidNetwork(
                f"averaging needs an undirected graph, got a directed one; try G.to_undirected(), or {ONE_WAY}"
            )
        topologies.check_simple(graph)
        topology, labels = topologies.of_graph(graph, name or graph.name or "graph")
        return cls._weighted(topology, weights, labels)

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        weights: str = "metropolis",
        *,
        format: str | None = None,
        most_agents: int | None = None,
    ) -> Network:
        """Read a network from a file; the names of agents in the file become `labels`.

        Files whose names end in .graphml, .gml, .gexf, .net (Pajek), .g6 or .s6 (graph6), .json (as NetworkX writes it,
        {"agent": ["neighbor", ...]}, or a list of pairs), .mtx, .npy (adjacency matrices), .edgelist and .adjlist
        have that format, and so does .matrix (an adjacency matrix as text). For all others, give the `format`:
        "edge-list", "adjacency-list", "matrix", "npy", "mtx", "graphml", "gexf", "gml", "pajek", "graph6",
        "sparse6" or "json". Without it, text with two agents per line, or with a header such as
        source,target,weight, is read as an edge list, and everything else is refused.

        A folder written by `gossamer partition` is read as the whole network, with its weights.

        weights: as in `from_networkx`; or "file", the gossip weights :math:`-L_{ij}` that the file gives: the third
        column of an edge list, the entries of a matrix, the attribute "weight" elsewhere.

        most_agents: a file that describes more agents, or far more links, is refused before it is built; 250,000 unless
        given. A file of a few bytes could fill the memory otherwise.
        """
        checks.choice("weights", weights, (*WEIGHTS, "file"))
        if not isinstance(path, str | PathLike):
            raise InvalidInput(f"must name a file, got {path!r}", parameter="path")
        file = Path(path)
        if is_sharded(file):
            shards = open_shards(file, weights)
            facts = None if shards.facts is None else partial(KnownFacts, *shards.facts)
            return cls(shards.links(0, shards.agents), name=shards.name, labels=shards.labels(), facts=facts)
        graph = files.read_graph(file, format, most_agents)
        if weights == "file":
            positions = topologies.positions(graph)
            return cls(given_weights(graph), name=file.stem, labels=list(graph), positions=positions)
        return cls.from_networkx(graph, weights, name=file.stem)

    @classmethod
    def from_edges(cls, agents: int, edges: ArrayLike, weights: str = "metropolis") -> Network:
        """Build a network from a list of pairs of agent numbers."""
        agents = checks.whole_number("agents", agents, least=2, most=topologies.MOST_EDGES)
        pairs = topologies.checked_pairs("edges", agents, edges, "Network.from_networkx(nx.Graph(edges))")
        graph = nx.MultiGraph()
        graph.add_nodes_from(range(agents))
        graph.add_edges_from(map(tuple, pairs.tolist()))
        return cls.from_networkx(graph, weights)

    @classmethod
    def from_gossip_matrix(cls, matrix: ArrayLike | sp.spmatrix, graph: nx.Graph | None = None) -> Network:
        """Build a network from its gossip matrix (dense or sparse); the paper's three assumptions are checked.

        With `graph` (nodes 0..N-1), entries of the matrix off its edges are refused.
        """
        return cls(checked_gossip(matrix, graph), name="matrix")

    @staticmethod
    def components(graph: nx.Graph, weights: str = "metropolis") -> list[Network]:
        """Return one network per connected component of `graph` with at least two agents, largest first."""
        if not isinstance(graph, nx.Graph) or graph.is_directed():
            raise InvalidNetwork(f"an undirected NetworkX graph is needed, got {type(graph).__name__}")
        parts = sorted(nx.connected_components(graph), key=len, reverse=True)
        return [
            Network.from_networkx(graph.subgraph(part).copy(), weights) for part in parts if len(part) > 1
        ]

    def to_networkx(self) -> nx.Graph:
        """Return the graph, with the gossip weight :math:`-L_{ij}` as edge attribute "weight"."""
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
        """The full spectral decomposition, or None if the network is too large for it."""
        if self._closed_form is not None:
            return self._closed_form()
        return DenseSpectrum(self.gossip.toarray()) if self.agents <= DENSE_LIMIT else None

    @cached_property
    def _large_facts(self) -> KnownFacts | None:
        """The spectral facts that are known without computing the spectrum."""
        return None if self._facts is None else self._facts()

    @property
    def has_large_facts(self) -> bool:
        return self._facts is not None

    @cached_property
    def lambda_max(self) -> float:
        """The largest eigenvalue."""
        if self._large_facts is not None:
            return self._large_facts.lambda_max
        if self.spectrum is not None:
            return float(self.spectrum.eigenvalues.max())
        return iterative.largest_eigenvalue(self.gossip)

    @property
    def lambda_bound(self) -> float:
        """A bound on all eigenvalues from the weights alone: 2 if I - L averages, as with Metropolis weights, otherwise
        Gershgorin's bound, the largest absolute row sum."""
        if self._large_facts is not None:
            return self._large_facts.lambda_bound
        if self.links.eigenvalue_bound <= 2:
            return 2.0
        return max(2.0, float(abs(self.gossip).sum(axis=1).max()))

    @cached_property
    def _smallest(self) -> tuple[Floats, Floats]:
        return iterative.smallest(self.gossip)

    @cached_property
    def lambda_2(self) -> float:
        """The smallest nonzero eigenvalue."""
        if self._large_facts is not None:
            return self._large_facts.lambda_2
        if self.spectrum is not None:
            return float(np.partition(self.spectrum.eigenvalues, 1)[1])
        return float(self._smallest[0][0])

    @property
    def condition_number(self) -> float:
        r"""The ratio :math:`\kappa = \lambda_\max/\lambda_2`."""
        return self.lambda_max / self.lambda_2

    @cached_property
    def inverse_square_trace(self) -> float:
        r"""Sum of :math:`1/\lambda^2` over the nonzero eigenvalues (estimated beyond 3000 agents, to about 10%)."""
        if self._large_facts is not None:
            return self._large_facts.inverse_square_trace
        if self.spectrum is not None:
            values = self.spectrum.eigenvalues
            return float(np.sum(1.0 / values[values > values.max() * 1e-14] ** 2))
        return iterative.inverse_square_trace(self.gossip, *self._smallest)

    @cached_property
    def exchanges(self) -> ExchangeFacts:
        """What the speed of random exchanges depends on (beyond 3000 agents the resistance is 1, an upper bound)."""
        return iterative.exchange_facts(self.agents, self.edges, dense=self.agents <= DENSE_LIMIT)

    # -- neighborhoods -----------------------------------------------------------------------------------------

    def neighbors(self, agent: int) -> Integers:
        """Return the numbers of an agent's neighbors, ascending."""
        agent = checks.whole_number("agent", agent, least=0, most=self.agents - 1)
        begin, end = self.links.starts[agent : agent + 2]
        return self.links.neighbors[begin:end].astype(np.int64)

    @cached_property
    def degrees(self) -> Integers:
        """(N,) the number of neighbors of each agent."""
        return self.links.degrees


def _lattice_facts(factors: tuple[Factor, ...], links: Links) -> KnownFacts:
    return product_facts(factors, (links.weights * links.scale).tolist(), links.eigenvalue_bound)


NetworkLike: TypeAlias = Network | Graph | str
"""The types that `Network.of` accepts: a network, a NetworkX graph, or a name."""
