"""Named topologies: who is whose neighbor, and the Laplacian's spectrum where it has a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, InvalidNetwork
from gossamer.networks.spectrum import CompleteSpectrum, Factor, ProductSpectrum, Spectrum, StarSpectrum

MOST_EDGES = 2**28
"""Refused before it is built: about 10 GB in memory."""

DRAWS = 200
"""Random graphs are redrawn at most this many times until one is connected."""


class Topology(NamedTuple):
    """A graph before it has weights.

    closed_form   scale -> the spectrum of `scale` times the Laplacian; None: it has no closed form
    positions     (N, 2) where the agents are, if they have positions
    """

    name: str
    agents: int
    edges: Integers  #: (E, 2)
    closed_form: Callable[[float], Spectrum] | None = None
    positions: Floats | None = None


def path(n: int) -> Topology:
    n = _agents(n, 2)
    return _product(f"path:{n}", n, _line(n), [("path", n)])


def cycle(n: int) -> Topology:
    n = _agents(n, 3)
    return _product(f"cycle:{n}", n, np.vstack([_line(n), [[0, n - 1]]]), [("cycle", n)])


def star(n: int) -> Topology:
    n = _agents(n, 3)
    _affordable(n)
    others = np.arange(1, n)
    edges = np.column_stack([np.zeros_like(others), others])
    return Topology(f"star:{n}", n, edges, partial(StarSpectrum, agents=n))


def complete(n: int) -> Topology:
    n = _agents(n, 2)
    _affordable(n * (n - 1) // 2)
    edges = np.column_stack(np.triu_indices(n, k=1))
    return Topology(f"complete:{n}", n, edges, partial(CompleteSpectrum, agents=n))


def grid(rows: int, cols: int) -> Topology:
    # Metropolis weights differ between the inside and the border of a grid, so only equal weights, or a grid thin
    # enough to have no inside, have the closed form; the network checks.
    rows, cols = _size("rows", rows, 1), _size("cols", cols, 1)
    _agents(rows * cols, 2)
    edges = _lattice(rows, cols, wrap=False)
    return _product(f"grid:{rows}x{cols}", rows * cols, edges, [("path", rows), ("path", cols)])


def torus(rows: int, cols: int) -> Topology:
    rows, cols = _size("rows", rows, 3), _size("cols", cols, 3)
    edges = _lattice(rows, cols, wrap=True)
    return _product(f"torus:{rows}x{cols}", rows * cols, edges, [("cycle", rows), ("cycle", cols)])


def hypercube(dimension: int) -> Topology:
    dimension = _size("dimension", dimension, 1)
    _affordable(dimension * 2 ** min(dimension - 1, 64))
    numbers = np.arange(2**dimension)
    pairs = [
        np.column_stack([numbers[numbers & bit == 0], numbers[numbers & bit == 0] | bit])
        for bit in 2 ** np.arange(dimension)
    ]
    factors: list[Factor] = [("path", 2)] * dimension
    return _product(f"hypercube:{dimension}", 2**dimension, np.vstack(pairs), factors)


def erdos_renyi(n: int, p: float | None = None, seed: int = 0) -> Topology:
    n = _agents(n, 2)
    p = 2 * math.log(n) / n if p is None else p
    if not isinstance(p, int | float | np.number) or not 0 < p <= 1:
        raise InvalidInput(f"p must be an edge probability, 0 < p <= 1, got {p!r}")
    _affordable(math.ceil(p * n * (n - 1) / 2))
    probability = min(p, 1.0)
    draw = nx.fast_gnp_random_graph if n > 2000 else nx.gnp_random_graph
    return _until_connected(
        f"erdos-renyi:{n}", lambda s: draw(n, probability, seed=s), seed, f"raise p={p:.4g}"
    )


def random_geometric(n: int, radius: float | None = None, seed: int = 0) -> Topology:
    n = _agents(n, 2)
    radius = math.sqrt(2 * math.log(n) / (math.pi * n)) if radius is None else radius
    radius = checks.number("radius", radius, above=0, most=2)
    _affordable(math.ceil(n * (n - 1) / 2 * min(1.0, math.pi * radius**2)))
    return _until_connected(
        f"geometric:{n}",
        lambda s: nx.random_geometric_graph(n, radius, seed=s),
        seed,
        f"raise radius={radius:.4g}",
    )


def expander(n: int, degree: int, seed: int = 0) -> Topology:
    n, degree = _agents(n, 2), _size("degree", degree, 1)
    if degree >= n or n * degree % 2:
        raise InvalidInput(
            f"an expander needs 1 <= degree < n and n * degree even, got n={n}, degree={degree}"
        )
    _affordable(n * degree // 2)
    return _until_connected(
        f"expander:{n}x{degree}",
        lambda s: nx.random_regular_graph(degree, n, seed=s),
        seed,
        f"raise degree={degree}",
    )


def of_graph(graph: nx.Graph, name: str) -> tuple[Topology, list[object]]:
    """The topology of an undirected NetworkX graph, and the names of its nodes in the order of agents."""
    labels = list(graph.nodes)
    number = {label: i for i, label in enumerate(labels)}
    edges = np.array([(number[a], number[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    return Topology(name, len(labels), edges, positions=positions(graph)), labels


def check_simple(graph: nx.Graph) -> None:
    """Complain about links from an agent to itself, and about two that say the same."""
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
    """(E, 2) pairs of agent numbers; `named` says what to do for agents with names."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise InvalidNetwork(
            f"{name} must be pairs of agent numbers, got rows of different lengths"
        ) from None
    if given.dtype.kind in "USO" and given.size:
        raise InvalidNetwork(
            f"{name} must be pairs of agent numbers, got {given.ravel().tolist()[0]!r}; for agents with names use "
            f"{named}"
        )
    pairs_given = given.dtype.kind in "iuf" and given.ndim == 2 and given.shape[1] == 2
    if given.size and not pairs_given:
        raise InvalidNetwork(
            f"{name} must be pairs of agent numbers, an array of shape (E, 2), got shape {given.shape}; leave weights "
            "out, they are not read here"
        )
    broken = given[~(np.isfinite(given) & (given == np.floor(given)))]
    if broken.size:
        raise InvalidNetwork(f"{name} must be pairs of agent numbers, which are whole, got {broken[0]:g}")
    pairs = given.astype(np.int64).reshape(-1, 2)
    if pairs.size and (pairs.min() < 0 or pairs.max() >= agents):
        raise InvalidNetwork(f"{name} must name agents 0..{agents - 1}, got {pairs.min()}..{pairs.max()}")
    return pairs


def positions(graph: nx.Graph) -> Floats | None:
    """(N, 2) the attribute "pos" of the nodes, where all of them have one that is a place."""
    places = [place for _, place in graph.nodes(data="pos")]
    try:
        found = np.array(places, dtype=float)
    except (TypeError, ValueError):  # somebody else's "pos"
        return None
    return found if found.ndim == 2 and found.shape[1] == 2 else None


def _product(name: str, n: int, edges: Integers, factors: list[Factor]) -> Topology:
    return Topology(name, n, edges, partial(ProductSpectrum, factors=factors))


def _until_connected(name: str, draw: Callable[[int], nx.Graph], seed: int, advice: str) -> Topology:
    for s in np.random.default_rng(checks.seed(seed)).integers(2**31, size=DRAWS):
        graph = draw(int(s))
        if nx.is_connected(graph):
            return of_graph(graph, name)[0]
    raise InvalidNetwork(f"none of {DRAWS} random draws of {name} was connected; {advice}")


def _agents(n: int, least: int) -> int:
    try:
        n = checks.whole_number("n", n)
    except InvalidInput:
        raise InvalidNetwork(f"n, how many agents there are, must be a whole number, got {n!r}") from None
    if n < least:
        raise InvalidNetwork(f"this network needs at least {least} agents, got {n}")
    _affordable(n)
    return n


def _size(name: str, value: int, least: int) -> int:
    try:
        size = checks.whole_number(name, value, least=least)
    except InvalidInput as error:
        raise InvalidNetwork(str(error)) from None
    _affordable(size)
    return size


def _affordable(edges: int) -> None:
    """Refuse before it is built what would only fill the memory."""
    if edges > MOST_EDGES:
        raise InvalidNetwork(
            f"a network may have at most {MOST_EDGES:,} edges, but this one would have {_about(edges)}"
        )


def _about(number: int) -> str:
    return f"{number:.3g}" if number < 10**300 else "more than 1e+300"


def _line(n: int) -> Integers:
    _affordable(n)
    start = np.arange(n - 1)
    return np.column_stack([start, start + 1])


def _lattice(rows: int, cols: int, *, wrap: bool) -> Integers:
    _affordable(2 * rows * cols)
    number = np.arange(rows * cols).reshape(rows, cols)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    if wrap:
        pairs += [(number[:, 0], number[:, -1]), (number[0], number[-1])]
    return np.vstack([np.column_stack([a.ravel(), b.ravel()]) for a, b in pairs])
