"""Positions of agents in pictures: the natural ones of a topology, otherwise a tree's or a force-directed layout."""

from __future__ import annotations

import math
from collections.abc import Mapping

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree

from gossamer.arrays import Floats, Integers

FEW = 150
"""Largest number of agents for which all distances in the picture follow those in the network (Kamada, Kawai)."""

SHORT = 16
"""Largest number of agents of a path that are drawn on a line; longer ones are drawn as a spiral."""

PIVOTS = 30
"""Number of agents whose distances to all others shape the picture of a large network."""

STEPS = 50
"""Number of steps in which agents of a large network move apart."""


def natural(name: str, agents: int) -> Floats | None:
    """Return (N, 2) the positions of a network by name, such as "grid:4x5", or None if its kind has no natural ones."""
    kind, _, sizes = name.lower().replace("_", "-").partition(":")
    number = np.arange(agents)
    if kind == "path":
        return np.column_stack([number, np.zeros(agents)]) if agents <= SHORT else _spiral(agents)
    if kind in ("cycle", "complete", "matchings"):
        return _circle(agents)
    if kind == "star":
        return np.concatenate([np.zeros((1, 2)), _circle(agents - 1)])
    if kind in ("grid", "torus"):
        columns = int(sizes.replace(",", "x").split("x")[1])
        positions = np.column_stack([number % columns, -(number // columns)]).astype(float)
        if kind == "torus":  # curved, or the wrap-around links would overlap the others
            positions += 0.4 * np.sin(math.pi * positions / np.maximum(np.ptp(positions, axis=0), 1))[:, ::-1]
        return positions if positions[:, 0].max() >= -positions[:, 1].min() else positions[:, ::-1] * -1
    if kind == "hypercube":
        angle = math.pi * (np.arange(max(1, int(math.log2(agents)))) + 0.5) / math.log2(agents)
        bits = number[:, None] >> np.arange(len(angle)) & 1
        length = 1 + 0.5 * np.arange(len(angle))  # equal lengths would put agents on top of each other
        return np.asarray(bits @ np.column_stack([length * np.cos(angle), length * np.sin(angle)]))
    return None


def computed(
    agents: int, edges: Integers, start: Mapping[int, Floats] | None = None, few: int = FEW
) -> Floats:
    """Return (N, 2) positions computed from the edges alone; `start` gives initial ones for some agents."""
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(range(agents))
    graph.add_edges_from(map(tuple, edges.tolist()))
    connected = nx.is_connected(graph)
    if start is None and connected and len(edges) == agents - 1:
        return _tree(graph)
    if agents <= few and connected:
        positions = nx.kamada_kawai_layout(graph, pos=start)
        return np.array([positions[agent] for agent in range(agents)])
    ends = np.concatenate([edges, edges[:, ::-1]])
    links = sp.csr_matrix((np.ones(len(ends)), tuple(ends.T)), shape=(agents, agents))
    if start is None:
        return _relaxed(links, _projected(links))
    return _relaxed(links, math.sqrt(agents) * np.array([start[agent] for agent in range(agents)]))


def fitted(positions: Floats) -> Floats:
    """Move and scale positions into the unit square, centered."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    size = max(float((high - low).max()), 1e-9)
    return np.asarray(np.clip((positions - (low + high) / 2) / size + 0.5, 0, 1))


def _circle(agents: int) -> Floats:
    angle = math.pi / 2 - 2 * math.pi * np.arange(agents) / agents
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _spiral(agents: int) -> Floats:
    """Return points at equal distances on an Archimedean spiral whose turns are one and a half distances apart."""
    turn = 1.6 / (2 * math.pi)
    angle = np.sqrt(2 * (np.arange(agents) + 6) / turn)
    radius = turn * angle
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def _tree(graph: nx.Graph) -> Floats:
    """Return rings around the center of a tree; every branch has a share of the circle that fits its leaves."""
    agents = graph.number_of_nodes()
    root = _middle(graph)
    children = {parent: list(below) for parent, below in nx.bfs_successors(graph, root)}
    order = [root, *(child for below in children.values() for child in below)]
    leaves = dict.fromkeys(order, 1)
    for agent in reversed(order):
        if agent in children:
            leaves[agent] = sum(leaves[child] for child in children[agent])
    positions = np.zeros((agents, 2))
    sector = {root: (0.0, 2 * math.pi, 0)}
    for agent in order:
        start, width, depth = sector[agent]
        angle = start + width / 2
        positions[agent] = depth * math.cos(angle), depth * math.sin(angle)
        for child in children.get(agent, ()):
            part = width * leaves[child] / leaves[agent]
            sector[child] = (start, part, depth + 1)
            start += part
    return positions


def _projected(links: sp.csr_matrix) -> Floats:
    """Return positions whose distances follow those in the network, from some agents that are far apart to all others.

    These are the two largest principal components of the squared distances (pivot MDS, Brandes and Pich 2007). A little
    noise keeps agents with the same neighbors apart.
    """
    agents = links.shape[0]
    nearest, columns = np.full(agents, np.inf), list[Floats]()
    while len(columns) < PIVOTS and nearest.max() > 0:
        columns.append(shortest_path(links, method="D", unweighted=True, indices=int(nearest.argmax())))
        nearest = np.minimum(nearest, columns[-1])
    distances = np.stack(columns, axis=1)
    reached = np.isfinite(distances)
    squared = np.where(reached, distances, 1.5 * distances[reached].max()) ** 2
    centered = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    centered *= np.linspace(
        1, 0.5, len(columns)
    )  # equal components could be turned, differently on each machine
    directions = np.linalg.eigh(centered.T @ centered)[1][:, :-3:-1]
    directions *= np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    positions = centered @ directions
    spread = np.quantile(np.abs(positions), 0.6, axis=0) + 0.1 * positions.std(axis=0)  # few may be far away
    positions /= np.maximum(spread, 0.3 * spread[0] + 1e-9)
    positions *= math.sqrt(agents) / 4 / np.hypot(1, np.linalg.norm(positions, axis=1, keepdims=True) / 4)
    noise = np.random.default_rng(0).random((agents, 2)) - 0.5
    return np.asarray((positions + noise).round(6))  # the last digits may differ between machines


def _relaxed(links: sp.csr_matrix, positions: Floats) -> Floats:
    """Move agents toward the average of their neighbors, less and less, and away from others nearer than 1."""
    degrees = np.maximum(np.diff(links.indptr), 1)[:, None]
    for heat in 0.5 * np.linspace(1, 0, STEPS) ** 2:
        distance, other = cKDTree(positions).query(positions, k=min(9, len(positions)))
        overlap = np.clip(1 / np.maximum(distance, 1e-6) - 1, 0, None)[:, :, None]
        away = 0.5 * ((positions[:, None] - positions[other]) * overlap).sum(axis=1)
        move = away + heat * (links @ positions / degrees - positions)
        positions = (positions + np.clip(move, -2, 2)).round(6)
    return positions


def _middle(tree: nx.Graph) -> int:
    """Return the agent in the middle of the longest path of a tree."""
    far = list(nx.bfs_tree(tree, 0))[-1]
    longest = nx.single_source_shortest_path(tree, far)
    path = max(longest.values(), key=len)
    return int(path[len(path) // 2])
