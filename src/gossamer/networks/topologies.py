"""Named topologies: their edges, and the spectrum of the Laplacian if it has a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, InvalidNetwork
from gossamer.networks.generated import erdos_renyi_rows, expander_rows, geometric_rows, product_rows
from gossamer.networks.layout import natural
from gossamer.networks.links import Rows, rows_of_edges, some_rows
from gossamer.networks.spectrum import CompleteSpectrum, Factor, ProductSpectrum, Spectrum, StarSpectrum
from gossamer.numerics import random

MOST_EDGES = 2**28
"""Largest number of edges, about 10 GB in memory; larger networks are refused before they are built."""

DRAWS = 200
"""Largest number of draws of a random graph until one is connected."""


COUNTED = 100_000
"""Number of agents from which random networks are drawn from counters (see `generated.py`), which is faster than
NetworkX and gives any part of them without the others."""

MOST_AGENTS = 2**32
"""Largest number of agents for which the random generator has numbers."""


@dataclass(frozen=True)
class Topology:
    """A graph without weights: its edges, or a function that returns the neighbors of any range of agents.

    size          approximate lower bound of the number of edges
    edges         (E, 2), where they are listed
    factors       the paths and cycles of which it is the product
    draw          first, last, number of the draw -> the rows of those agents and their positions, if they have any
    advice        what to do if no draw is connected
    closed_form   scale -> the spectrum of `scale` times the Laplacian; None if there is no closed form
    positions     (N, 2) where the agents are, or a function that computes it, if they have positions
    """

    name: str
    agents: int
    size: int
    edges: Integers | None = None
    factors: tuple[Factor, ...] = ()
    draw: Callable[[int, int, int], tuple[Rows, Floats | None]] | None = None
    advice: str = ""
    closed_form: Callable[[float], Spectrum] | None = None
    positions: Floats | Callable[[], Floats | None] | None = None

    def rows(self, first: int = 0, last: int | None = None, draw: int = 0) -> tuple[Rows, Floats | None]:
        """Return the rows of the agents first..last-1, and their positions if a draw has them."""
        last = self.agents if last is None else last
        _affordable(math.ceil(self.size * (last - first) / self.agents))
        if self.draw is not None:
            return self.draw(first, last, draw)
        if self.factors:
            return product_rows(self.factors, first, last), None
        assert self.edges is not None
        return some_rows(rows_of_edges(self.agents, self.edges), first, last), None

    @property
    def partial(self) -> bool:
        """Whether any part of its rows can be generated without the others."""
        return self.edges is None

    def connected(self) -> tuple[Rows, Floats | None]:
        """Return all rows, of the first draw that is connected."""
        for draw in range(DRAWS):
            rows, places = self.rows(draw=draw)
            if self.factors or self.draw is None or components(rows)[0] == 1:
                return rows, places
        raise self.disconnected()

    def disconnected(self) -> InvalidNetwork:
        return InvalidNetwork(f"none of {DRAWS} random draws of {self.name} was connected; {self.advice}")


def path(n: int) -> Topology:
    n = _agents(n, 2)
    return _product(f"path:{n}", n, ("path", n))


def cycle(n: int) -> Topology:
    n = _agents(n, 3)
    return _product(f"cycle:{n}", n, ("cycle", n))


def star(n: int) -> Topology:
    n = _agents(n, 3)
    _affordable(n)
    others = np.arange(1, n)
    edges = np.column_stack([np.zeros_like(others), others])
    name = f"star:{n}"
    closed_form = partial(StarSpectrum, agents=n)
    return Topology(name, n, n, edges, closed_form=closed_form, positions=partial(natural, name, n))


def complete(n: int) -> Topology:
    n = _agents(n, 2)
    _affordable(n * (n - 1) // 2)
    edges = np.column_stack(np.triu_indices(n, k=1))
    name = f"complete:{n}"
    closed_form = partial(CompleteSpectrum, agents=n)
    return Topology(name, n, len(edges), edges, closed_form=closed_form, positions=partial(natural, name, n))


def grid(rows: int, cols: int) -> Topology:
    # Metropolis weights differ between the inside and the border of a grid, so only equal weights, or a grid thin
    # enough to have no inside, have the closed form; the network checks.
    rows, cols = _size("rows", rows, 1), _size("cols", cols, 1)
    _agents(rows * cols, 2)
    return _product(f"grid:{rows}x{cols}", 2 * rows * cols, ("path", rows), ("path", cols))


def torus(rows: int, cols: int) -> Topology:
    rows, cols = _size("rows", rows, 3), _size("cols", cols, 3)
    _countable(rows * cols)
    return _product(f"torus:{rows}x{cols}", 2 * rows * cols, ("cycle", rows), ("cycle", cols))


def hypercube(dimension: int) -> Topology:
    dimension = _size("dimension", dimension, 1)
    size = dimension * 2 ** min(dimension - 1, 64)
    if dimension > 32:
        _affordable(size)
    pair: Factor = ("path", 2)
    return _product(f"hypercube:{dimension}", size, *[pair] * dimension)


def erdos_renyi(n: int, p: float | None = None, seed: int = 0) -> Topology:
    n = _agents(n, 2)
    p = 2 * math.log(n) / n if p is None else p
    if not isinstance(p, int | float | np.number) or not 0 < p <= 1:
        raise InvalidInput(parameter="p", required="an edge probability, 0 < p <= 1", got=repr(p))
    probability, name, advice = min(p, 1.0), f"erdos-renyi:{n}", f"raise p={p:.4g}"
    size = math.ceil(p * n * (n - 1) / 2)
    if n >= COUNTED:
        key = random.key(seed)

        def rows(first: int, last: int, draw: int) -> tuple[Rows, None]:
            return erdos_renyi_rows(n, probability, key, first, last, draw), None

        return Topology(name, n, size, draw=rows, advice=advice)
    _affordable(size)
    draw = nx.fast_gnp_random_graph if n > 2000 else nx.gnp_random_graph
    return _until_connected(name, lambda s: of_graph(draw(n, probability, seed=s), name)[0], seed, advice)


def random_geometric(n: int, radius: float | None = None, seed: int = 0) -> Topology:
    n = _agents(n, 2)
    radius = math.sqrt(2 * math.log(n) / (math.pi * n)) if radius is None else radius
    radius = checks.number("radius", radius, above=0, most=2)
    name, advice = f"geometric:{n}", f"raise radius={radius:.4g}"
    size = math.ceil(n * (n - 1) / 2 * min(1.0, math.pi * radius**2))
    if n >= COUNTED:
        draw = partial(geometric_rows, n, radius, random.key(seed))
        return Topology(name, n, size, draw=draw, advice=advice)
    _affordable(size)

    def near(seed: int) -> Topology:  # the same as nx.random_geometric_graph, in a tenth of the time
        uniform = Random(seed).random
        places = np.array([(uniform(), uniform()) for _ in range(n)])
        edges = cKDTree(places).query_pairs(radius, output_type="ndarray").astype(np.int64)
        return Topology(name, n, len(edges), edges, positions=places)

    return _until_connected(name, near, seed, advice)


def expander(n: int, degree: int, seed: int = 0) -> Topology:
    n, degree = _agents(n, 2), _size("degree", degree, 1)
    if degree >= n or n * degree % 2:
        raise InvalidInput(
            f"an expander needs 1 <= degree < n and n * degree even, got n={n}, degree={degree}"
        )
    name, advice, size = f"expander:{n}x{degree}", f"raise degree={degree}", n * degree // 2
    if n >= COUNTED:
        key = random.key(seed)

        def rows(first: int, last: int, draw: int) -> tuple[Rows, None]:
            return expander_rows(n, degree, key, first, last), None

        return Topology(name, n, size, draw=rows, advice=advice)
    _affordable(size)
    return _until_connected(
        name, lambda s: of_graph(nx.random_regular_graph(degree, n, seed=s), name)[0], seed, advice
    )


def of_graph(graph: nx.Graph, name: str) -> tuple[Topology, list[object]]:
    """Return the topology of an undirected NetworkX graph, and the names of its nodes in the order of agents."""
    labels = list(graph.nodes)
    number = {label: i for i, label in enumerate(labels)}
    edges = np.array([(number[a], number[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    return Topology(name, len(labels), len(edges), edges, positions=positions(graph)), labels


def check_simple(graph: nx.Graph) -> None:
    """Raise an error for links from an agent to itself, and for duplicate links."""
    plain = nx.DiGraph if graph.is_directed() else nx.Graph
    loops = list(nx.selfloop_edges(graph))
    if loops:
        raise InvalidNetwork(
            f"a network must have no self-loops, but agent {loops[0][0]!r} has one; "
            "try G.remove_edges_from(nx.selfloop_edges(G))"
        )
    if graph.is_multigraph() and graph.number_of_edges() != plain(graph).number_of_edges():
        raise InvalidNetwork(
            "a network must have only one edge between two agents, got parallel edges; "
            f"try nx.{plain.__name__}(G)"
        )


def checked_pairs(name: str, agents: int, values: ArrayLike, named: str) -> Integers:
    """Return (E, 2) pairs of agent numbers; `named` says what to do for agents with names."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise InvalidNetwork(
            parameter=name, required="pairs of agent numbers", got="rows of different lengths"
        ) from None
    if given.dtype.kind in "USO" and given.size:
        raise InvalidNetwork(
            parameter=name,
            required="pairs of agent numbers",
            got=repr(given.ravel().tolist()[0]),
            hint=f"for agents with names use {named}",
        )
    pairs_given = given.dtype.kind in "iuf" and given.ndim == 2 and given.shape[1] == 2
    if given.size and not pairs_given:
        raise InvalidNetwork(
            parameter=name,
            required="pairs of agent numbers, an array of shape (E, 2)",
            got=f"shape {given.shape}",
            hint="leave weights out, they are not read here",
        )
    broken = given[~(np.isfinite(given) & (given == np.floor(given)))]
    if broken.size:
        raise InvalidNetwork(
            parameter=name, required="pairs of agent numbers, which are whole", got=f"{broken[0]:g}"
        )
    pairs = given.astype(np.int64).reshape(-1, 2)
    if pairs.size and (pairs.min() < 0 or pairs.max() >= agents):
        raise InvalidNetwork(
            f"must name agents 0..{agents - 1}, got {pairs.min()}..{pairs.max()}", parameter=name
        )
    return pairs


def positions(graph: nx.Graph) -> Floats | None:
    """Return (N, 2) the attribute "pos" of the nodes, if all of them have a valid position."""
    values = [position for _, position in graph.nodes(data="pos")]
    try:
        points = np.array(values, dtype=float)
    except (TypeError, ValueError):  # "pos" has another meaning
        return None
    return points if points.ndim == 2 and points.shape[1] == 2 else None


def components(rows: Rows) -> tuple[int, Integers]:
    """Return the number of connected components, and the component of each agent."""
    ones = np.ones(len(rows.neighbors), np.uint8)
    pattern = sp.csr_matrix((ones, rows.neighbors, rows.starts), shape=(rows.agents, rows.agents))
    count, member = connected_components(pattern, directed=False)
    return int(count), member


def _product(name: str, size: int, *factors: Factor) -> Topology:
    agents = math.prod(count for _, count in factors)
    closed_form = partial(ProductSpectrum, factors=factors)
    positions = partial(natural, name, agents)
    return Topology(name, agents, size, factors=factors, closed_form=closed_form, positions=positions)


def _until_connected(name: str, draw: Callable[[int], Topology], seed: int, advice: str) -> Topology:
    for s in np.random.default_rng(checks.seed(seed)).integers(2**31, size=DRAWS):
        topology = draw(int(s))
        if components(topology.rows()[0])[0] == 1:
            return topology
    raise InvalidNetwork(f"none of {DRAWS} random draws of {name} was connected; {advice}")


def _agents(n: int, least: int) -> int:
    try:
        n = checks.whole_number("n", n)
    except InvalidInput:
        raise InvalidNetwork(
            f", how many agents there are, must be a whole number, got {n!r}", parameter="n"
        ) from None
    if n < least:
        raise InvalidNetwork(f"this network needs at least {least} agents, got {n}")
    return _countable(n)


def _size(name: str, value: int, least: int) -> int:
    try:
        size = checks.whole_number(name, value, least=least)
    except InvalidInput as error:
        raise InvalidNetwork(error.text, parameter=error.parameter) from None
    return _countable(size)


def _countable(agents: int) -> int:
    if agents > MOST_AGENTS:
        _affordable(agents)
    return agents


def _affordable(edges: int) -> None:
    """Refuse a network that would not fit into memory, before it is built."""
    if edges > MOST_EDGES:
        raise InvalidNetwork(
            f"a network may have at most {MOST_EDGES:,} edges, but this one would have {_about(edges)}"
        )


def _about(number: int) -> str:
    return f"{number:.3g}" if number < 10**300 else "more than 1e+300"
