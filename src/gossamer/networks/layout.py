"""Positions of agents in pictures: the natural ones of a topology, otherwise a tree's or a force-directed layout."""

from __future__ import annotations

import math
from collections.abc import Mapping

import networkx as nx
import numpy as np

from gossamer.arrays import Floats, Integers

FEW = 150
"""Largest number of agents for which all distances in the picture follow those in the network (Kamada, Kawai)."""

SHORT = 16
"""Largest number of agents of a path that are drawn on a line; longer ones are drawn as a spiral."""


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
        length = 1 + 0.1 * np.arange(len(angle))  # identical positions would put agents on top of each other
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
    else:
        positions = nx.spring_layout(graph, pos=start, seed=0, iterations=60, k=1.6 / math.sqrt(agents))
    return np.array([positions[agent] for agent in range(agents)])


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


def _middle(tree: nx.Graph) -> int:
    """Return the agent in the middle of the longest path of a tree."""
    far = list(nx.bfs_tree(tree, 0))[-1]
    longest = nx.single_source_shortest_path(tree, far)
    path = max(longest.values(), key=len)
    return int(path[len(path) // 2])
