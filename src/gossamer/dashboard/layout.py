"""Positions of agents on the page: those of a network's picture, of agents that move, and of a fleet that changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

import gossamer as gs
from gossamer.arrays import AnyArray, Floats
from gossamer.networks import AnyNetwork
from gossamer.networks.contacts import Waypoints
from gossamer.networks.drawing import positions_of
from gossamer.networks.layout import FEW, computed, fitted, natural
from gossamer.networks.names import split_name


@lru_cache(maxsize=4)
def places(network: AnyNetwork, rounds: int) -> AnyArray:
    """Return positions (N, 2), or (rounds, N, 2) if agents move, in the unit square, with equal scales on both axes."""
    if isinstance(network, gs.ChangingNetwork) and isinstance(network.contacts, Waypoints):
        return network.contacts.positions(range(rounds)).astype(np.float32)
    return fitted(positions_of(network)).astype(np.float32)


def fleet_places(
    name: str, agents: Sequence[str], links: Sequence[tuple[str, str]], before: Mapping[str, Floats]
) -> AnyArray:
    """Return positions (N, 2) for the members of a fleet; members in the previous picture `before` roughly keep theirs.

    The layout of a fleet is computed once and then shown for a long time, so this may take a few seconds.
    """
    number = {agent: k for k, agent in enumerate(agents)}
    edges = np.array([(number[a], number[b]) for a, b in links], dtype=np.int64).reshape(-1, 2)
    if before:
        positions = computed(len(agents), edges, _start(agents, links, before), 2 * FEW)
    else:
        lattice = natural(name, len(agents))
        positions = _upright(computed(len(agents), edges, few=2 * FEW)) if lattice is None else lattice
    return fitted(positions).astype(np.float32)


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
        key=lambda points: (
            round(float(np.prod(np.ptp(points, axis=0))), 6),
            np.ptp(points[:, 1]) > np.ptp(points[:, 0]),
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
