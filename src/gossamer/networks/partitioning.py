"""Divide a network into parts with few edges between different parts."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, require
from gossamer.facts import KnownFacts
from gossamer.networks.links import Links
from gossamer.networks.network import LARGE, Network
from gossamer.networks.shards import Shards, write_shards
from gossamer.numerics.blocks import BLOCK

WAYS = ("metis", "curve", "blocks")
CURVE_BITS = 20


def partition(network: Network, parts: int, folder: str | PathLike[str], by: str = "metis") -> Shards:
    """Write a network to a folder in parts; its agents are renumbered part by part (`labels` has the original names).

    by: "metis", few edges between the parts (needs pymetis); "curve", stretches of a space-filling curve, for agents
    with positions; "blocks", stretches of the numbers that the agents have.

    Parts are whole blocks of 512 agents, so that the result of a simulation depends neither on them nor on the ranks.
    The parts of METIS are rounded to blocks. If that cuts more edges than "blocks" does, the agents keep their
    numbers. The folder must be new or empty.
    """
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InvalidInput(
            parameter="folder", required="a new or an empty folder", got=f"{folder}, which has content"
        )
    checks.choice("by", by, WAYS)
    parts = checks.whole_number("parts", parts, least=1)
    most = -(-network.agents // BLOCK)
    if parts > most:
        raise InvalidInput(
            parameter="parts",
            required=f"at most {most} here, since a part has whole blocks of {BLOCK} agents",
            got=str(parts),
        )
    even = [k * most // parts * BLOCK for k in range(parts)]
    if by == "metis":
        order, bounds = _by_metis(network.links, parts)
        rounded = cut_edges(renumbered(network.links, order), [*bounds, network.agents])
        if cut_edges(network.links, [*even, network.agents]) < rounded:
            order, bounds = np.arange(network.agents), even
    elif by == "curve":
        if network.positions is None:
            raise InvalidInput(
                f"by='curve' needs agents with positions, and {network.name} has none; use 'metis' or 'blocks'"
            )
        order, bounds = np.argsort(_along_curve(network.positions), kind="stable"), even
    else:
        order, bounds = np.arange(network.agents), even
    links = renumbered(network.links, order)
    bounds = [*bounds, network.agents]
    shards = Shards(folder, network.name, network.agents, bounds, _facts(network), cut_edges(links, bounds))
    write_shards(shards, links, [network.labels[i] for i in order.tolist()])
    return shards


def renumbered(links: Links, order: Integers) -> Links:
    """Return the links of the same network in which agent order[k] has the number k."""
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    degrees = links.degrees[order]
    starts = np.concatenate([[0], np.cumsum(degrees)])
    # Positions of the links in the old arrays, by agent in the new order, then sorted by the new neighbor.
    places = np.arange(starts[-1]) + np.repeat(
        links.starts[:-1].astype(np.int64)[order] - starts[:-1], degrees
    )
    neighbors = new[links.neighbors[places]]
    agent = np.repeat(np.arange(len(order)), degrees)
    sort = np.lexsort((neighbors, agent))
    return links._replace(
        starts=starts.astype(np.uint32),
        neighbors=neighbors[sort].astype(np.uint32),
        codes=links.codes[places[sort]],
    )


def cut_edges(links: Links, bounds: list[int]) -> int:
    """Return the number of edges between different parts."""
    agent = np.repeat(np.arange(links.agents), links.degrees)
    sides = (np.searchsorted(bounds, which, side="right") for which in (agent, links.neighbors))
    return int(np.count_nonzero(np.not_equal(*sides))) // 2


def _facts(network: Network) -> KnownFacts | None:
    if network.agents > LARGE and not network.has_large_facts:
        return None  # finding them would take longer than most simulations
    return KnownFacts.copy(network)


def _by_metis(links: Links, parts: int) -> tuple[Integers, list[int]]:
    pymetis = require("pymetis", "mpi")
    member = np.zeros(links.agents, np.int64)
    if parts > 1:
        adjacency = pymetis.CSRAdjacency(links.starts.astype(np.int64), links.neighbors.astype(np.int64))
        member = np.array(pymetis.part_graph(parts, adjacency).vertex_part)
    # Neighbors are close together inside a part, so the agents that rounding to blocks moves to the next part are
    # adjacent.
    pattern = sp.csr_matrix(
        (
            np.ones(len(links.neighbors), np.uint8),
            links.neighbors.astype(np.int32),
            links.starts.astype(np.int32),
        ),
        shape=(links.agents, links.agents),
    )
    rank = np.empty(links.agents, np.int64)
    rank[reverse_cuthill_mckee(pattern, symmetric_mode=True)] = np.arange(links.agents)
    ends = np.cumsum(np.bincount(member, minlength=parts))[:-1]
    bounds = [0, *(np.rint(ends / BLOCK).astype(int) * BLOCK).tolist()]
    return np.lexsort((rank, member)), bounds


def _along_curve(positions: Floats) -> Integers:
    """Return the index of each position along Hilbert's curve."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    side = float((high - low).max()) or 1.0
    x, y = ((positions - low) / side * (2**CURVE_BITS - 1)).astype(np.int64).T
    position = np.zeros(len(x), np.int64)
    for k in range(CURVE_BITS - 1, -1, -1):
        right, upper = x >> k & 1, y >> k & 1
        position = 4 * position + (3 * right ^ upper)
        # The curve inside a quarter is rotated.
        mirrored = (upper == 0) & (right == 1)
        x, y = np.where(mirrored, ~x, x), np.where(mirrored, ~y, y)
        swapped = upper == 0
        x, y = np.where(swapped, y, x), np.where(swapped, x, y)
    return position
