"""Rows of networks that are formulas or pure functions of counters: any range of agents, without the others.

Lattices are products of paths and cycles. Random networks draw everything from Philox counters (see
`numerics/random.py`) that identify what is drawn, never from a stream, so that the neighbors of an agent do not depend
on which range of agents is generated. Rows are (starts, neighbors) of the agents first..last-1 with the numbers of
their neighbors in the whole network, ascending.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.networks.links import Rows
from gossamer.networks.spectrum import Factor
from gossamer.numerics.compiling import compiled, inlined
from gossamer.numerics.random import TOPOLOGY, words

BITS = 128  # of one call of the generator
PAIRS = 64  # edges of an Erdős–Rényi network that are drawn from one stream, at least, on average
HALF = np.uint64(32)


def product_rows(factors: Sequence[Factor], first: int, last: int) -> Rows:
    """Return the rows of a product of paths and cycles (such as a grid), numbered along the last factor first."""
    sizes = np.array([size for _, size in factors])
    wraps = np.array([kind == "cycle" for kind, _ in factors])
    return Rows(*_product_rows(sizes, wraps, first, last))


@compiled
def _product_rows(sizes: Integers, wraps: AnyArray, first: int, last: int) -> tuple[AnyArray, AnyArray]:
    axes = sizes.size
    strides, position = np.ones(axes, np.int64), np.zeros(axes, np.int64)
    for a in range(axes - 2, -1, -1):
        strides[a] = strides[a + 1] * sizes[a + 1]
    for a in range(axes):
        position[a] = first // strides[a] % sizes[a]
    most = np.minimum(sizes - 1, 2).sum()
    starts = np.zeros(last - first + 1, np.uint32)
    neighbors = np.empty((last - first) * most, np.uint32)
    count = 0
    for i in range(first, last):
        row = count
        for a in range(axes):  # from the farthest below, ...
            if position[a] > 0:
                neighbors[count] = i - strides[a]
                count += 1
        for a in range(axes - 1, -1, -1):  # ... to the farthest above
            if position[a] < sizes[a] - 1:
                neighbors[count] = i + strides[a]
                count += 1
        if wraps.any():
            for a in range(axes):
                around = (sizes[a] - 1) * strides[a]
                if wraps[a] and (position[a] == 0 or position[a] == sizes[a] - 1):
                    neighbors[count] = i + around if position[a] == 0 else i - around
                    count += 1
            _sort(neighbors, row, count)
        starts[i - first + 1] = count
        a = axes - 1
        position[a] += 1
        while a > 0 and position[a] == sizes[a]:
            position[a] = 0
            a -= 1
            position[a] += 1
    return starts, neighbors[:count]


@inlined
def _sort(values: AnyArray, begin: int, end: int) -> None:
    """Sort a short stretch in place."""
    for k in range(begin + 1, end):
        value, j = values[k], k
        while j > begin and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


# -- agents at random places --------------------------------------------------------------------------------------


def geometric_rows(
    agents: int, radius: float, key: np.uint64, first: int, last: int, draw: int
) -> tuple[Rows, Floats]:
    """Return the rows of a geometric network, whose neighbors are within `radius`, and (n, 2) the agents' positions.

    The unit square is halved until its cells are hardly wider than the radius: at every halving, each agent tosses a
    coin for its side. Agents are numbered cell by cell along the Z-curve, so neighbors mostly have close numbers.
    """
    levels = 2 * max(0, math.floor(-math.log2(min(radius, 1.0)) + 1e-12))
    if first >= last:
        return Rows(np.zeros(1, np.uint32), np.empty(0, np.uint32)), np.empty((0, 2))
    lowest, highest = (_cell_of(i, agents, levels, key, draw) for i in (first, last - 1))
    own = np.arange(lowest, highest + 1)
    around = _around(own, levels)  # (cells, 9) ascending; -1: beyond the border
    wanted = np.union1d(own, around[around >= 0])
    firsts, counts = _cells(agents, levels, wanted, key, draw)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    places = _places(wanted, firsts, counts, levels, key, draw)
    near = np.where(around < 0, -1, np.searchsorted(wanted, around))
    home = np.searchsorted(wanted, own)
    rows = _near(first, last, radius, home, near, firsts, offsets, places)
    begin = int(offsets[home[0]] + first - firsts[home[0]])
    return Rows(*rows), places[begin : begin + last - first]


@inlined
def _ones(bits: np.uint64) -> int:
    """Return the number of bits that are set."""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]


@compiled
def _heads(tosses: int, node: int, level: int, key: np.uint64, draw: int) -> int:
    """Return how many of the agents in a cell of this level go to its lower half, by a coin toss for each."""
    heads = 0
    for k in range(0, tosses, BITS):
        w0, w1, w2, w3 = words(key, TOPOLOGY, k // BITS, node, 1 + level, draw)
        low, high, left = (w0 << HALF) | w1, (w2 << HALF) | w3, tosses - k
        if left < 64:
            low &= (np.uint64(1) << np.uint64(left)) - np.uint64(1)
        if left < 128:
            high &= (np.uint64(1) << np.uint64(max(left - 64, 0))) - np.uint64(1)
        heads += _ones(low) + _ones(high)
    return heads


@compiled
def _all_heads(sizes: Integers, nodes: Integers, level: int, key: np.uint64, draw: int) -> Integers:
    heads = np.empty_like(sizes)
    for k in range(sizes.size):
        heads[k] = _heads(sizes[k], nodes[k], level, key, draw)
    return heads


@compiled
def _cell_of(agent: int, agents: int, levels: int, key: np.uint64, draw: int) -> int:
    """Return the cell that contains an agent."""
    node, size = 0, agents
    for level in range(levels):
        lower = _heads(size, node, level, key, draw)
        node *= 2
        if agent < lower:
            size = lower
        else:
            agent, size, node = agent - lower, size - lower, node + 1
    return node


def _cells(
    agents: int, levels: int, wanted: Integers, key: np.uint64, draw: int
) -> tuple[Integers, Integers]:
    """Return the first agent and the number of agents of each of these cells, which ascend."""
    nodes, firsts, sizes = np.array([0]), np.array([0]), np.array([agents])
    for level in range(levels):
        lower = _all_heads(sizes, nodes, level, key, draw)
        needed = np.unique(wanted >> (levels - level - 1))
        parent, upper = np.searchsorted(nodes, needed >> 1), needed & 1
        firsts = firsts[parent] + upper * lower[parent]
        sizes = np.where(upper, sizes[parent] - lower[parent], lower[parent])
        nodes = needed
    return firsts, sizes


@compiled
def _unfold(cell: int, levels: int) -> tuple[int, int]:
    """Return the column and row of a cell on the Z-curve."""
    x = y = 0
    for k in range(levels // 2):
        y |= (cell >> (2 * k) & 1) << k
        x |= (cell >> (2 * k + 1) & 1) << k
    return x, y


@compiled
def _fold(x: int, y: int, levels: int) -> int:
    cell = 0
    for k in range(levels // 2):
        cell |= (y >> k & 1) << (2 * k) | (x >> k & 1) << (2 * k + 1)
    return cell


@compiled
def _around(cells: Integers, levels: int) -> Integers:
    """Return (cells, 9) each cell and the cells around it, ascending; -1 beyond the border of the square."""
    side = 1 << (levels // 2)
    around = np.full((cells.size, 9), -1, np.int64)
    for k in range(cells.size):
        x, y = _unfold(cells[k], levels)
        for cell in range(9):
            u, v = x + cell // 3 - 1, y + cell % 3 - 1
            if 0 <= u < side and 0 <= v < side:
                around[k, cell] = _fold(u, v, levels)
        around[k].sort()
    return around


@compiled
def _places(
    cells: Integers, firsts: Integers, counts: Integers, levels: int, key: np.uint64, draw: int
) -> Floats:
    """Return (n, 2) the positions of the agents of these cells, cell by cell."""
    side = 2.0 ** -(levels // 2)
    places = np.empty((counts.sum(), 2))
    at = 0
    for k in range(cells.size):
        x, y = _unfold(cells[k], levels)
        for agent in range(firsts[k], firsts[k] + counts[k]):
            w0, w1, _, _ = words(key, TOPOLOGY, 0, agent, 0, draw)
            places[at, 0] = side * (x + (w0 + 0.5) * 2.0**-32)
            places[at, 1] = side * (y + (w1 + 0.5) * 2.0**-32)
            at += 1
    return places


@compiled
def _near(
    first: int,
    last: int,
    radius: float,
    home: Integers,
    near: Integers,
    firsts: Integers,
    offsets: Integers,
    places: Floats,
) -> tuple[AnyArray, AnyArray]:
    starts = np.zeros(last - first + 1, np.uint32)
    neighbors = np.empty(0, np.uint32)
    for counting in (True, False):
        count = 0
        for c in range(home.size):
            h = home[c]
            for a in range(offsets[h], offsets[h + 1]):
                i = firsts[h] + a - offsets[h]
                if not first <= i < last:
                    continue
                for n in near[c]:
                    if n < 0:
                        continue
                    for b in range(offsets[n], offsets[n + 1]):
                        dx, dy = places[a, 0] - places[b, 0], places[a, 1] - places[b, 1]
                        if dx * dx + dy * dy <= radius * radius and a != b:
                            if not counting:
                                neighbors[count] = firsts[n] + b - offsets[n]
                            count += 1
                starts[i - first + 1] = count
        if counting:
            neighbors = np.empty(count, np.uint32)
    return starts, neighbors


# -- every edge with the same probability ---------------------------------------------------------------------------


def erdos_renyi_rows(agents: int, p: float, key: np.uint64, first: int, last: int, draw: int) -> Rows:
    """Return the rows of an Erdős–Rényi network: each pair of blocks of agents draws its edges from its own stream."""
    block = 1 << max(6, math.ceil(math.log2(PAIRS / p) / 2))
    return Rows(*_erdos_renyi_rows(agents, float(p), block, key, first, last, draw))


@compiled
def _erdos_renyi_rows(
    agents: int, p: float, block: int, key: np.uint64, first: int, last: int, draw: int
) -> tuple[AnyArray, AnyArray]:
    none = np.log1p(-p)
    blocks = (agents + block - 1) // block
    counts = np.zeros(last - first, np.int64)
    places = np.zeros(last - first + 1, np.int64)
    neighbors = np.empty(0, np.uint32)
    for counting in (True, False):
        for mine in range(first // block, (last + block - 1) // block):
            for other in range(blocks):
                low, high = min(mine, other), max(mine, other)
                width = min(block, agents - high * block)
                size = min(block, agents - low * block) * width
                at, k = -1, 0
                while True:
                    # The distance to the next edge has a geometric distribution.
                    w0, w1, w2, w3 = words(key, TOPOLOGY, k // 2, low, high, draw)
                    word = (w0 << HALF | w1) if k % 2 == 0 else (w2 << HALF | w3)
                    u = (np.float64(word >> np.uint64(11)) + 0.5) * 2.0**-53
                    k += 1
                    at += 1 + int(min(np.log(u) / none, float(size)))
                    if at >= size:
                        break
                    i, j = low * block + at // width, high * block + at % width
                    if i >= j:  # each pair of a block with itself counts once
                        continue
                    for a, b in ((i, j), (j, i)):
                        if first <= a < last and a // block == mine:
                            if not counting:
                                neighbors[places[a - first]] = b
                                places[a - first] += 1
                            else:
                                counts[a - first] += 1
        if counting:
            places[1:] = np.cumsum(counts)
            neighbors = np.empty(places[-1], np.uint32)
    starts = np.zeros(last - first + 1, np.uint32)
    starts[1:] = np.cumsum(counts)
    return starts, neighbors


# -- few edges, short distances ----------------------------------------------------------------------------------------


def expander_rows(agents: int, degree: int, key: np.uint64, first: int, last: int) -> Rows:
    """Return the rows of degree/2 random Hamiltonian cycles and, if the degree is odd, a random matching.

    This is a random regular graph except that edges which two of them share count only once: about degree^2/4 in the
    whole network, whose ends have one neighbor fewer.
    """
    half = np.uint64((max(agents - 1, 1).bit_length() + 1) // 2)
    return Rows(*_expander_rows(agents, degree, half, key, first, last))


@compiled
def _shuffled(i: int, agents: int, half: np.uint64, key: np.uint64, which: int, back: bool) -> int:
    """Return the image of i under the random permutation `which`, or its preimage: a Feistel cipher of its bits."""
    mask, value = (np.uint64(1) << half) - np.uint64(1), np.uint64(i)
    while True:  # permute a number beyond the last agent again until it is that of an agent
        left, right = value >> half, value & mask
        for k in range(4):
            if back:
                w, _, _, _ = words(key, TOPOLOGY, 3 - k, int(left), which, 0)
                left, right = right ^ (w & mask), left
            else:
                w, _, _, _ = words(key, TOPOLOGY, k, int(right), which, 0)
                left, right = right, left ^ (w & mask)
        value = left << half | right
        if value < np.uint64(agents):
            return np.int64(value)  # type: ignore[return-value]


@compiled
def _expander_rows(
    agents: int, degree: int, half: np.uint64, key: np.uint64, first: int, last: int
) -> tuple[AnyArray, AnyArray]:
    starts = np.zeros(last - first + 1, np.uint32)
    neighbors = np.empty((last - first) * degree, np.uint32)
    count = 0
    for i in range(first, last):
        row = count
        for which in range((degree + 1) // 2):
            position = _shuffled(i, agents, half, key, which, True)
            if 2 * which + 1 < degree:
                neighbors[count] = _shuffled((position + 1) % agents, agents, half, key, which, False)
                neighbors[count + 1] = _shuffled((position - 1) % agents, agents, half, key, which, False)
                count += 2
            else:
                neighbors[count] = _shuffled(position ^ 1, agents, half, key, which, False)
                count += 1
        _sort(neighbors, row, count)
        end, count = count, row
        for e in range(row, end):
            if count == row or neighbors[e] != neighbors[count - 1]:
                neighbors[count] = neighbors[e]
                count += 1
        starts[i - first + 1] = count
    return starts, neighbors[:count]
