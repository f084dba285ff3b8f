"""Where agents are drawn, if nobody knows where they are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.arrays import Floats

_MOST = 250
"""Agents up to which distances along the network become distances in the picture; beyond, springs are faster."""


def places(
    agents: Sequence[Any], links: Sequence[tuple[Any, Any]], before: Mapping[Any, Floats] | None = None
) -> Floats:
    """Positions (N, 2) in the unit square, such that neighbors are near each other.

    `before` are those of an earlier picture: agents that were there stay about where they were.
    """
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(agents)
    graph.add_edges_from(links)
    start = _start(graph, before or {})
    if len(agents) <= _MOST and nx.is_connected(graph):
        found = nx.kamada_kawai_layout(graph, pos=start, weight=None)
    else:
        found = nx.spring_layout(graph, pos=start, seed=0, weight=None)
    positions = np.array([found[agent] for agent in agents])
    return _framed(positions if before else _upright(positions))


def _start(graph: Any, before: Mapping[Any, Floats]) -> dict[Hashable, Floats]:
    import networkx as nx

    if not before:
        few = min(dict(graph.degree).values(), default=0) < 2  # ends of chains pull the eigenvectors together
        return dict(nx.circular_layout(graph) if few else nx.spectral_layout(graph, weight=None))
    middle = np.mean(list(before.values()), axis=0)
    made = {agent: before[agent] for agent in graph if agent in before}
    for k, agent in enumerate(agent for agent in graph if agent not in before):
        near = [before[other] for other in graph[agent] if other in before]
        made[agent] = np.mean(near, axis=0) if near else middle
        made[agent] = made[agent] + 0.05 * np.array([np.cos(2.4 * k), np.sin(2.4 * k)])
    return made


def _upright(positions: Floats) -> Floats:
    """The picture turned such that its box is smallest, the longer side lying: grids stand straight."""
    angles = np.linspace(0, np.pi / 2, 91)[:-1]
    turned = [positions @ _turn(angle) for angle in angles]
    best = turned[int(np.argmin([round(float(np.prod(np.ptp(each, axis=0))), 9) for each in turned]))]
    width, height = np.ptp(best, axis=0)
    return best if width >= height - 1e-9 else best @ _turn(np.pi / 2)


def _turn(angle: float) -> Floats:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _framed(positions: Floats) -> Floats:
    """The picture in the unit square; a chain does not become a zigzag by being stretched."""
    low, size = positions.min(axis=0), np.ptp(positions, axis=0)
    framed: Floats = 0.5 + (positions - low - size / 2) / np.maximum(
        size, max(0.15 * float(size.max()), 1e-9)
    )
    return framed
