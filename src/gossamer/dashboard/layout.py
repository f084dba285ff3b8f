"""Positions of agents in the picture: lattices at their coordinates, others by a force-directed layout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import networkx as nx
import numpy as np

import gossamer as gs
from gossamer.arrays import AnyArray, Floats
from gossamer.networks.contacts import Waypoints
from gossamer.networks.names import split_name

FEW = 150
"""Largest number of agents for which all distances in the picture follow those in the network (Kamada, Kawai)."""


@lru_cache(maxsize=4)
def places(network: gs.Network | gs.ChangingNetwork, name: str, rounds: int) -> AnyArray:
    """Return positions (N, 2), or (rounds, N, 2) if agents move, in the unit square, with equal scales on both axes."""
    if isinstance(network, gs.ChangingNetwork) and isinstance(network.contacts, Waypoints):
        return network.contacts.positions(range(rounds)).astype(np.float32)
    kind, rest = split_name(name)
    if kind in ("dropout", "switching"):
        kind, rest = split_name((rest or "").split(",")[0].split("+")[0])
    found = _lattice(kind, network.agents, rest or "")
    if found is None:
        found = getattr(network, "positions", None)
    if found is None:
        edges = network.edges if isinstance(network, gs.Network) else network.edges_at(0)
        found = _springs(network.agents, edges)
    return _fitted(found).astype(np.float32)


def fleet_places(
    name: str, agents: Sequence[str], links: Sequence[tuple[str, str]], before: Mapping[str, Floats]
) -> AnyArray:
    """Return positions (N, 2) for the members of a fleet; members in the previous picture `before` roughly keep theirs.

    The layout of a fleet is computed once and then shown for a long time, so this may take a few seconds.
    """
    place = {agent: k for k, agent in enumerate(agents)}
    edges = np.array([(place[a], place[b]) for a, b in links], dtype=np.int64).reshape(-1, 2)
    if before:
        found = _springs(len(agents), edges, _start(agents, links, before), 2 * FEW)
    else:
        kind, rest = split_name(name)
        lattice = _lattice(kind, len(agents), rest or "")
        found = _upright(_springs(len(agents), edges, few=2 * FEW)) if lattice is None else lattice
    return _fitted(found).astype(np.float32)


def _start(
    agents: Sequence[str], links: Sequence[tuple[str, str]], before: Mapping[str, Floats]
) -> dict[int, Floats]:
    """Return initial positions: as before for known members, and near their neighbors for new ones."""
    near: dict[str, list[Floats]] = {agent: [np.full(2, 0.5)] for agent in agents}
    for a, b in links:
        near[a] += [before[b]] if b in before else []
        near[b] += [before[a]] if a in before else []
    return {
        k: before[agent]
        if agent in before
        else np.mean(near[agent][-3:], axis=0) + 0.04 * np.array([math.cos(2.4 * k), math.sin(2.4 * k)])
        for k, agent in enumerate(agents)
    }


def _upright(positions: Floats) -> Floats:
    """Rotate the picture such that its bounding box is smallest, with the longer side horizontal."""

    def turned(angle: float) -> Floats:
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        return np.asarray(positions @ turn)

    return min(
        map(turned, np.radians(np.arange(0, 180, 2))),
        key=lambda each: (
            round(float(np.prod(np.ptp(each, axis=0))), 6),
            np.ptp(each[:, 1]) > np.ptp(each[:, 0]),
        ),
    )


def is_regular(name: str) -> bool:
    """Return whether a network has a natural shape, which must not be stretched."""
    return split_name(name)[0] in (
        "path",
        "cycle",
        "star",
        "complete",
        "grid",
        "torus",
        "hypercube",
        "matchings",
    )


def _lattice(kind: str, agents: int, sizes: str) -> Floats | None:
    """Return the positions of a network with a natural layout."""
    number = np.arange(agents)
    if kind == "path":
        return np.column_stack([number, np.zeros(agents)]) if agents <= 24 else _spiral(agents)
    if kind in ("cycle", "complete", "matchings"):
        return _circle(agents)
    if kind == "star":
        return np.concatenate([np.zeros((1, 2)), _circle(agents - 1)])
    if kind in ("grid", "torus"):
        columns = int(sizes.lower().replace(",", "x").split("x")[1])
        found = np.column_stack([number % columns, -(number // columns)]).astype(float)
        if kind == "torus":  # curved, or the wrap-around links would overlap the others
            found += 0.4 * np.sin(math.pi * found / np.maximum(np.ptp(found, axis=0), 1))[:, ::-1]
        return found if found[:, 0].max() >= -found[:, 1].min() else found[:, ::-1] * -1
    if kind == "hypercube":
        angle = math.pi * (np.arange(max(1, int(math.log2(agents)))) + 0.5) / math.log2(agents)
        bits = number[:, None] >> np.arange(len(angle)) & 1
        length = 1 + 0.1 * np.arange(len(angle))  # identical positions would put agents on top of each other
        return np.asarray(bits @ np.column_stack([length * np.cos(angle), length * np.sin(angle)]))
    return None


def _circle(agents: int) -> Floats:
    angle = math.pi / 2 - 2 * math.pi * np.arange(agents) / agents
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _spiral(agents: int) -> Floats:
    """Return points at equal distances on an Archimedean spiral whose turns are one and a half distances apart."""
    turn = 1.6 / (2 * math.pi)
    angle = np.sqrt(2 * (np.arange(agents) + 6) / turn)
    radius = turn * angle
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def _springs(agents: int, edges: Any, start: Mapping[int, Floats] | None = None, few: int = FEW) -> Floats:
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(range(agents))
    graph.add_edges_from(map(tuple, edges.tolist()))
    if agents <= few and nx.is_connected(graph):
        found = nx.kamada_kawai_layout(graph, pos=start)
    else:
        found = nx.spring_layout(graph, pos=start, seed=0, iterations=60, k=1.6 / math.sqrt(agents))
    return np.array([found[agent] for agent in range(agents)])


def _fitted(found: Floats) -> Floats:
    """Move and scale positions into the unit square, centered."""
    low, high = found.min(axis=0), found.max(axis=0)
    size = max(float((high - low).max()), 1e-9)
    return np.asarray(np.clip((found - (low + high) / 2) / size + 0.5, 0, 1))
