"""Networks of agents: topologies, gossip weights, the three assumptions, and the spectrum."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from gossamer.errors import InvalidInput, InvalidNetwork, nearest
from gossamer.networks.spectrum import (
    CompleteSpectrum,
    DenseSpectrum,
    ProductSpectrum,
    Spectrum,
    StarSpectrum,
)

DENSE_LIMIT = 3000
"""Up to this many agents an arbitrary graph is decomposed densely (a few seconds at most)."""

WEIGHTS = ("metropolis", "laplacian", "max-degree", "best-constant")
MOST_EDGES = 2**28  # about 10 GB in memory

_TOLERANCE = 1e-9


class Network:
    """A connected, undirected network of agents and its gossip matrix L.

    L satisfies the paper's three assumptions: symmetric and positive semi-definite, nonzero only on edges and
    the diagonal, and its kernel is the constant vectors. The default L = I - W has Metropolis-Hastings weights
    W_ij = 1/(1 + max(d_i, d_j)).

        agents            how many agents, N
        edges             (E, 2) array of agent numbers
        gossip            L, a SciPy CSR matrix
        lambda_max        largest eigenvalue lambda_1
        lambda_2          smallest nonzero eigenvalue lambda_{N-1}
        condition_number  lambda_1 / lambda_{N-1}
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
        positions: NDArray[np.float64] | None = None,
    ) -> None:
        self.gossip = gossip
        self.agents = int(gossip.shape[0])
        upper = sp.triu(gossip, k=1).tocoo()
        order = np.lexsort((upper.col, upper.row))
        self.edges: NDArray[np.int64] = np.column_stack([upper.row, upper.col]).astype(np.int64)[order]
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
        n = _at_least(n, 2)
        return cls._regular("path", n, weights, _line(n), [("path", n)])

    @classmethod
    def cycle(cls, n: int, weights: str = "metropolis") -> Network:
        """A ring."""
        n = _at_least(n, 3)
        edges = np.vstack([_line(n), [[0, n - 1]]])
        return cls._regular("cycle", n, weights, edges, [("cycle", n)])

    @classmethod
    def star(cls, n: int, weights: str = "metropolis") -> Network:
        """Agent 0 in the center, everybody else its neighbor."""
        n = _at_least(n, 3)
        _affordable(n)
        others = np.arange(1, n)
        edges = np.column_stack([np.zeros_like(others), others])
        return cls._build(f"star:{n}", n, edges, weights, lambda scale: StarSpectrum(scale, n))

    @classmethod
    def complete(cls, n: int, weights: str = "metropolis") -> Network:
        """Everybody is everybody's neighbor."""
        n = _at_least(n, 2)
        _affordable(n * (n - 1) // 2)
        edges = np.column_stack(np.triu_indices(n, k=1))
        return cls._build(f"complete:{n}", n, edges, weights, lambda scale: CompleteSpectrum(scale, n))

    @classmethod
    def grid(cls, rows: int, cols: int, weights: str = "metropolis") -> Network:
        """A rectangle of agents, each with its neighbors above, below, left and right."""
        rows, cols = _at_least(rows, 1, "a grid needs a row"), _at_least(cols, 1, "a grid needs a column")
        _at_least(rows * cols, 2)
        edges = _lattice(rows, cols, wrap=False)
        # Metropolis weights differ between the inside and the border of a grid, so only equal weights,
        # or a grid thin enough to have no inside, have the closed form; `_build` finds out.
        return cls._regular(
            f"grid:{rows}x{cols}", rows * cols, weights, edges, [("path", rows), ("path", cols)]
        )

    @classmethod
    def torus(cls, rows: int, cols: int, weights: str = "metropolis") -> Network:
        """A grid whose opposite borders are joined."""
        rows = _at_least(rows, 3, "a torus needs at least 3 rows")
        cols = _at_least(cols, 3, "a torus needs at least 3 columns")
        edges = _lattice(rows, cols, wrap=True)
        return cls._regular(
            f"torus:{rows}x{cols}", rows * cols, weights, edges, [("cycle", rows), ("cycle", cols)]
        )

    @classmethod
    def hypercube(cls, dimension: int, weights: str = "metropolis") -> Network:
        """2^d agents; neighbors differ in one bit of their number."""
        dimension = _at_least(dimension, 1, "a hypercube needs dimension >= 1")
        _affordable(dimension * 2 ** min(dimension - 1, 64))
        numbers = np.arange(2**dimension)
        pairs = [
            np.column_stack([numbers[numbers & bit == 0], numbers[numbers & bit == 0] | bit])
            for bit in 2 ** np.arange(dimension)
        ]
        factors = [("path", 2)] * dimension
        return cls._regular(f"hypercube:{dimension}", 2**dimension, weights, np.vstack(pairs), factors)

    @classmethod
    def erdos_renyi(
        cls, n: int, p: float | None = None, seed: int = 0, weights: str = "metropolis"
    ) -> Network:
        """Each edge present with probability p (default 2 ln n / n), redrawn until connected."""
        n = _at_least(n, 2)
        p = 2 * math.log(n) / n if p is None else p
        if not 0 < p <= 1:
            raise InvalidInput(f"erdos_renyi needs an edge probability 0 < p <= 1, got p={p!r}")
        _affordable(math.ceil(p * n * (n - 1) / 2))
        probability = min(p, 1.0)
        draw = nx.fast_gnp_random_graph if n > 2000 else nx.gnp_random_graph
        return cls._until_connected(
            f"erdos-renyi:{n}", lambda s: draw(n, probability, seed=s), seed, weights, f"raise p={p:.4g}"
        )

    @classmethod
    def random_geometric(
        cls, n: int, radius: float | None = None, seed: int = 0, weights: str = "metropolis"
    ) -> Network:
        """Agents at random places of the unit square, neighbors within `radius`
        (default sqrt(2 ln n / (pi n))), redrawn until connected."""
        n = _at_least(n, 2)
        radius = math.sqrt(2 * math.log(n) / (math.pi * n)) if radius is None else radius
        if not radius > 0:
            raise InvalidInput(f"random_geometric needs a radius above 0, got radius={radius!r}")
        _affordable(math.ceil(n * (n - 1) / 2 * min(1.0, math.pi * radius**2)))
        return cls._until_connected(
            f"geometric:{n}",
            lambda s: nx.random_geometric_graph(n, radius, seed=s),
            seed,
            weights,
            f"raise radius={radius:.4g}",
        )

    @classmethod
    def expander(cls, n: int, degree: int, seed: int = 0, weights: str = "metropolis") -> Network:
        """A random regular graph: few edges, yet every agent is near every other."""
        n, degree = _at_least(n, 2), _at_least(degree, 1, "an expander needs degree >= 1")
        if not 1 <= degree < n or n * degree % 2:
            raise InvalidInput(
                f"expander needs 1 <= degree < n and n * degree even, got n={n}, degree={degree}"
            )
        _affordable(n * degree // 2)
        return cls._until_connected(
            f"expander:{n}x{degree}",
            lambda s: nx.random_regular_graph(degree, n, seed=s),
            seed,
            weights,
            f"raise degree={degree}",
        )

    @classmethod
    def _until_connected(
        cls, name: str, draw: Callable[[int], nx.Graph], seed: int, weights: str, advice: str
    ) -> Network:
        seed = _at_least(seed, 0, "a seed is a whole number of at least 0")
        seeds = np.random.default_rng(seed).integers(2**31, size=200)
        for s in seeds:
            graph = draw(int(s))
            if nx.is_connected(graph):
                return cls.from_networkx(graph, weights, name=name)
        raise InvalidNetwork(f"none of {len(seeds)} random draws of {name} was connected; {advice}")

    # -- from and to other things ---------------------------------------------------------------------------

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, weights: str = "metropolis", *, name: str | None = None
    ) -> Network:
        """Build a network from an undirected NetworkX graph; edge attributes are ignored.

        weights: "metropolis" 1/(1 + max(d_i, d_j)); "laplacian" 1; "max-degree" 1/(1 + max degree);
        "best-constant" 2/(l_1 + l_{N-1}) of the Laplacian.
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
                f"a network has no self-loops, but agent {loops[0][0]!r} has one; "
                "try G.remove_edges_from(nx.selfloop_edges(G))"
            )
        if graph.is_multigraph() and graph.number_of_edges() != nx.Graph(graph).number_of_edges():
            raise InvalidNetwork(
                "a network has one edge between two agents, got parallel edges; try nx.Graph(G)"
            )
        labels = list(graph.nodes)
        number = {label: i for i, label in enumerate(labels)}
        edges = np.array([(number[a], number[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
        positions = None
        if labels and all("pos" in data for _, data in graph.nodes(data=True)):
            positions = np.array([graph.nodes[label]["pos"] for label in labels], dtype=float)
        return cls._build(
            name or graph.name or "graph", len(labels), edges, weights, labels=labels, positions=positions
        )

    @classmethod
    def from_edges(cls, agents: int, edges: ArrayLike, weights: str = "metropolis") -> Network:
        """Build a network from a list of pairs of agent numbers."""
        graph = nx.MultiGraph()
        graph.add_nodes_from(range(agents))
        given = np.asarray(edges)
        whole = np.issubdtype(given.dtype, np.number) and given.ndim == 2 and given.shape[1] == 2
        if given.size and not (whole and np.all(given == np.floor(given))):
            raise InvalidNetwork(
                f"edges are pairs of agent numbers, an array of shape (E, 2), got shape {given.shape}"
                + ("" if whole else "; leave weights out, they follow from `weights`")
            )
        pairs = given.astype(np.int64).reshape(-1, 2)
        if pairs.size and (pairs.min() < 0 or pairs.max() >= agents):
            raise InvalidNetwork(f"edges must name agents 0..{agents - 1}, got {pairs.min()}..{pairs.max()}")
        graph.add_edges_from(map(tuple, pairs.tolist()))
        return cls.from_networkx(graph, weights)

    @classmethod
    def from_gossip_matrix(cls, matrix: Any, graph: nx.Graph | None = None) -> Network:
        """Build a network from its gossip matrix (dense or sparse); the paper's three assumptions are checked.

        With `graph` (nodes 0..N-1), entries of the matrix off its edges are refused.
        """
        gossip = sp.csr_matrix(matrix, dtype=float)
        if gossip.ndim != 2 or gossip.shape[0] != gossip.shape[1]:
            raise InvalidNetwork(f"a gossip matrix is square, got one of shape {gossip.shape}")
        n = gossip.shape[0]
        _at_least(n, 2)
        if not np.all(np.isfinite(gossip.data)):
            raise InvalidNetwork("a gossip matrix has finite entries, got NaN or infinity")
        scale = float(abs(gossip).max()) or 1.0
        gap = abs(gossip - gossip.T).tocoo()
        if gap.nnz and gap.data.max() > _TOLERANCE * scale:
            k = int(gap.data.argmax())
            i, j = int(gap.row[k]), int(gap.col[k])
            raise InvalidNetwork(
                f"a gossip matrix is symmetric, but L[{i},{j}] = {gossip[i, j]:g} and L[{j},{i}] = {gossip[j, i]:g}; "
                "try (L + L.T) / 2"
            )
        gossip = ((gossip + gossip.T) / 2).tocsr()
        gossip.data[np.abs(gossip.data) <= 1e-15 * scale] = 0.0
        gossip.eliminate_zeros()
        if graph is not None:
            _check_on_graph(gossip, graph)
        _check_connected(gossip)
        sums = np.abs(np.asarray(gossip.sum(axis=1)).ravel())
        if sums.max() > _TOLERANCE * scale * n:
            raise InvalidNetwork(
                "the kernel of a gossip matrix is the constant vectors, so rows sum to zero, "
                f"but row {int(sums.argmax())} sums to {sums.max():g}; a weight matrix W gives L = I - W"
            )
        network = cls(gossip, name="matrix")
        off_diagonal = gossip - sp.diags(gossip.diagonal())
        if (
            off_diagonal.nnz and off_diagonal.max() > 0
        ):  # otherwise diagonally dominant: semi-definite for sure
            network._check_definite(scale)
        return network

    def _check_definite(self, scale: float) -> None:
        if self.agents > DENSE_LIMIT:
            raise InvalidNetwork(
                f"a gossip matrix with positive off-diagonal entries is checked densely up to {DENSE_LIMIT} agents, "
                f"but this one has {self.agents}; use weights of one sign"
            )
        values = np.linalg.eigvalsh(self.gossip.toarray())
        if values[0] < -_TOLERANCE * scale:
            raise InvalidNetwork(
                f"a gossip matrix is positive semi-definite, but this one has the eigenvalue {values[0]:g}"
            )
        if values[1] <= _TOLERANCE * scale:
            raise InvalidNetwork(
                "the kernel of a gossip matrix is the constant vectors alone, "
                f"but the second smallest eigenvalue is {values[1]:g}; some differences between agents never mix"
            )

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
        if self.spectrum is not None:
            return float(self.spectrum.eigenvalues.max())
        from gossamer.networks import iterative

        return iterative.largest_eigenvalue(self.gossip)

    @cached_property
    def _smallest(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        from gossamer.networks import iterative

        return iterative.smallest(self.gossip)

    @cached_property
    def lambda_2(self) -> float:
        if self.spectrum is not None:
            return float(np.partition(self.spectrum.eigenvalues, 1)[1])
        return float(self._smallest[0][0])

    @property
    def condition_number(self) -> float:
        return self.lambda_max / self.lambda_2

    @cached_property
    def inverse_square_trace(self) -> float:
        """Sum of 1/lambda^2 over the nonzero eigenvalues (estimated beyond `DENSE_LIMIT`, to about 10%)."""
        if self.spectrum is not None:
            values = self.spectrum.eigenvalues
            return float(np.sum(1.0 / values[values > values.max() * 1e-14] ** 2))
        from gossamer.networks import iterative

        return iterative.inverse_square_trace(self.gossip, *self._smallest)

    # -- neighborhoods -----------------------------------------------------------------------------------------

    def neighbors(self, agent: int) -> NDArray[np.int64]:
        """The numbers of an agent's neighbors, ascending."""
        row = self.gossip.indices[self.gossip.indptr[agent] : self.gossip.indptr[agent + 1]]
        return np.sort(row[row != agent]).astype(np.int64)

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        return np.bincount(self.edges.ravel(), minlength=self.agents)

    # -- building -------------------------------------------------------------------------------------------------

    @classmethod
    def _regular(
        cls, name: str, n: int, weights: str, edges: NDArray[np.int64], factors: list[Any]
    ) -> Network:
        name = name if ":" in name else f"{name}:{n}"
        return cls._build(name, n, edges, weights, lambda scale: ProductSpectrum(scale, factors))

    @classmethod
    def _build(
        cls,
        name: str,
        n: int,
        edges: NDArray[np.int64],
        weights: str,
        closed_form: Callable[[float], Spectrum] | None = None,
        labels: Sequence[Hashable] | None = None,
        positions: NDArray[np.float64] | None = None,
    ) -> Network:
        if n == 0:
            raise InvalidNetwork("a network needs at least 2 agents, but the graph is empty")
        _at_least(n, 2)
        if weights not in WEIGHTS:
            close = nearest(str(weights), WEIGHTS)
            raise InvalidInput(f"weights must be one of {', '.join(WEIGHTS)}, got {weights!r}{close}")
        rows, cols = edges.T
        degrees = np.bincount(edges.ravel(), minlength=n)
        if weights == "metropolis":
            w = 1.0 / (1.0 + np.maximum(degrees[rows], degrees[cols]))
        elif weights == "max-degree":
            w = np.full(len(edges), 1.0 / (1.0 + degrees.max()))
        else:
            w = np.ones(len(edges))
        gossip = _laplacian(n, rows, cols, w)
        _check_connected(gossip)
        # A closed form of the Laplacian's spectrum serves whenever all edges weigh the same.
        spectrum = None
        if closed_form is not None and np.ptp(w) == 0:
            spectrum = lambda: closed_form(float(w[0]))  # noqa: E731
        network = cls(gossip, name=name, labels=labels, closed_form=spectrum, positions=positions)
        if weights != "best-constant":
            return network
        best = 2.0 / (network.lambda_max + network.lambda_2)
        scaled = None if closed_form is None else (lambda: closed_form(best))
        return cls(gossip * best, name=name, labels=labels, closed_form=scaled, positions=positions)


def _laplacian(
    n: int, rows: NDArray[np.int64], cols: NDArray[np.int64], w: NDArray[np.float64]
) -> sp.csr_matrix:
    off = sp.coo_matrix((-w, (rows, cols)), shape=(n, n))
    off = (off + off.T).tocsr()
    return (off - sp.diags(np.asarray(off.sum(axis=1)).ravel())).tocsr()


def _check_connected(gossip: sp.csr_matrix) -> None:
    count, member = connected_components(gossip, directed=False)
    if count > 1:
        sizes = np.sort(np.bincount(member))[::-1]
        shown = ", ".join(map(str, sizes[:5])) + (", ..." if count > 5 else "")
        raise InvalidNetwork(
            f"averaging needs a connected network, but this graph has {count} components (sizes {shown}); "
            "add an edge or use Network.components(graph)"
        )


def _check_on_graph(gossip: sp.csr_matrix, graph: nx.Graph) -> None:
    if set(graph.nodes) != set(range(gossip.shape[0])):
        raise InvalidNetwork(
            f"the graph's nodes must be 0..{gossip.shape[0] - 1}, the matrix's rows; "
            "try nx.convert_node_labels_to_integers"
        )
    upper = sp.triu(gossip, k=1).tocoo()
    for i, j, value in zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True):
        if not graph.has_edge(i, j):
            raise InvalidNetwork(
                f"a gossip matrix is nonzero only on edges, but L[{i},{j}] = {value:g} and the graph has no such edge"
            )


def _at_least(n: Any, least: int, what: str | None = None) -> int:
    known = isinstance(n, int | float | np.number) and not isinstance(n, bool) and math.isfinite(n)
    if not known or n != math.floor(n) or n < least:
        raise InvalidNetwork(f"{what or f'this network needs at least {least} agents'}, got {n!r}")
    return int(n)


def _affordable(edges: int) -> None:
    """Refuse before it is built what would only fill the memory."""
    if edges > MOST_EDGES:
        raise InvalidNetwork(
            f"a network may have at most {MOST_EDGES:,} edges, but this one would have {edges:.3g}"
        )


def _line(n: int) -> NDArray[np.int64]:
    _affordable(n)
    start = np.arange(n - 1)
    return np.column_stack([start, start + 1])


def _lattice(rows: int, cols: int, *, wrap: bool) -> NDArray[np.int64]:
    _affordable(2 * rows * cols)
    number = np.arange(rows * cols).reshape(rows, cols)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    if wrap:
        pairs += [(number[:, 0], number[:, -1]), (number[0], number[-1])]
    return np.vstack([np.column_stack([a.ravel(), b.ravel()]) for a, b in pairs])
