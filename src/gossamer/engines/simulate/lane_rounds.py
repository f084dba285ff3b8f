"""One round of any method for one row of lanes, compiled: what both layouts of the simulation share.

Numbers come in rows of lanes, which the compiler turns into vector instructions. A lane is a trial
(`trial_lanes.py`) or an agent (`agent_lanes.py`). In round t an agent mixes its neighbors' messages of round t,
updates its registers and writes its message of round t + 1, for which it sees its next observation; round -1 only
writes the first message. Both layouts do the same operations in the same order on every number, so they give the
same results to the last digit.

Arrays are indexed in full, never sliced: in compiled code a slice costs a reference count, and there would be
several for every agent and round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.numerics.compiling import compiled, inlined
from gossamer.numerics.vectors import fma, prefer_wide_vectors

OBSERVED, MIXED, STATE = 0, 1, 2  # columns of PassTable.rows


class PassTable(NamedTuple):
    """What a pass over the rounds of one table needs (n components, N agents, T rounds, R registers, H horizons).

    rows[t + 1] serves round t. Row 0 is the next message, row 1 + k the new register k, row R + 1 the estimate;
    columns are the observation, what was mixed, then the registers. Only the first active[t + 1] registers change or
    are used in that round.
    """

    rows: AnyArray  #: (T + 1, R + 2, R + 2)
    active: Integers  #: (T + 1,)
    noise_scale: AnyArray  #: (T,) 1 / sqrt(batch)
    mean: AnyArray  #: (n, N)
    std: AnyArray  #: (n, N), or (n, 1) if it is the same for all agents
    drift: AnyArray  #: (n, N), or (n, 0) if there is none
    key: np.uint64
    horizons: Integers  #: (H,) ascending
    target: Floats  #: (n, H)


class Draw(NamedTuple):
    """Where the observations of a row of lanes lie: level + scale * noise[row, slot]."""

    noise: AnyArray
    row: int
    slot: int
    level: float
    scale: float


class Input(NamedTuple):
    """The inputs of an update of a row of lanes."""

    mixed: int  #: the row of Scratch.mixed
    observation: Draw  #: of this round
    following: Draw  #: of the next one, for the next message


class SentMessages(NamedTuple):
    """Where messages lie: agent i's are the lanes flat[round % 2, base + stride * i:]."""

    flat: AnyArray
    round: int
    base: int
    stride: int


class MixingLinks(Protocol):
    """The part of a layout's links that mixing reads: the neighbors of each agent, and their weights."""

    @property
    def starts(self) -> AnyArray: ...
    @property
    def neighbors(self) -> AnyArray: ...
    @property
    def codes(self) -> AnyArray: ...
    @property
    def weights(self) -> AnyArray: ...


class Scratch(NamedTuple):
    """Scratch rows, used within one agent's update only."""

    observations: AnyArray  #: (1, 2, B) of this round and of the next
    mixed: AnyArray  #: (1, B), or (N, B) if all agents mix before the first one moves on
    fresh: AnyArray  #: (1, R + 1, B)
    which: Integers  #: (R,)
    factor: AnyArray  #: (R,)


@compiled
def scratch_for(work: AnyArray, mixed: int) -> Scratch:
    registers, lanes = work.shape[1], work.shape[2]
    return Scratch(
        np.zeros((1, 2, lanes), work.dtype),
        np.zeros((mixed, lanes), work.dtype),
        np.empty((1, registers + 1, lanes), work.dtype),
        np.empty(registers, np.int64),
        np.empty(registers, work.dtype),
    )


@inlined
def horizon_at(horizons: Integers, t: int) -> int:
    """Return the horizon that ends with round t, or -1. NumPy's searchsorted would take a second to compile."""
    low, high = 0, horizons.size
    while low < high:
        middle = (low + high) // 2
        if horizons[middle] <= t:
            low = middle + 1
        else:
            high = middle
    return low if t >= 0 and low < horizons.size and horizons[low] == t + 1 else -1


@compiled
def _combine(
    s: Scratch, out: int, work: AnyArray, i: int, rows: AnyArray, t: int, row: int, size: int
) -> None:
    """s.fresh[0, out] = sum over registers k of rows[t + 1, row, STATE + k] * work[i, k], for all lanes."""
    lanes = work.shape[2]
    terms = 0
    for k in range(size):
        if rows[t + 1, row, STATE + k] != 0.0:
            s.which[terms] = k
            s.factor[terms] = rows[t + 1, row, STATE + k]
            terms += 1
    if terms == 0:
        for b in range(lanes):
            s.fresh[0, out, b] = 0.0
        return
    f0, k0 = s.factor[0], s.which[0]
    for b in range(lanes):
        s.fresh[0, out, b] = f0 * work[i, k0, b]
    for n in range(1, terms):
        f, k = s.factor[n], s.which[n]
        for b in range(lanes):
            s.fresh[0, out, b] = fma(f, work[i, k, b], s.fresh[0, out, b])


@inlined
def estimate(work: AnyArray, i: int, rows: AnyArray, t: int, s: Scratch) -> None:
    """Write the estimate of row i after round t into s.fresh[0, R]."""
    size = work.shape[1]
    _combine(s, size, work, i, rows, t, size + 1, size)


@compiled
def read_estimates(out: AnyArray, work: AnyArray, rows: AnyArray, t: int, s: Scratch) -> None:
    """out[i] = the estimates of row i after round t, for all rows."""
    for i in range(out.shape[0]):
        estimate(work, i, rows, t, s)
        for b in range(out.shape[1]):
            out[i, b] = s.fresh[0, work.shape[1], b]


@inlined
def mix_row(
    mixed: AnyArray, out: int, lanes: int, sent: SentMessages, agent: int, links: MixingLinks
) -> None:
    """mixed[0, out:] = sum over the agent's links of weight (own message - the neighbor's), up to four at a time."""
    flat, now = sent.flat, sent.round % 2
    neighbors, codes, weights = links.neighbors, links.codes, links.weights
    base, stride = sent.base, sent.stride
    # Unsigned, so that Numba does not ask for every lane whether its index is negative.
    o, m = np.uint64(out), np.uint64(base + stride * agent)
    for lane in range(lanes):
        mixed[0, o + np.uint64(lane)] = 0.0
    e, end = int(links.starts[agent]), int(links.starts[agent + 1])
    while e < end:
        w0, j0 = weights[codes[e]], np.uint64(base + stride * int(neighbors[e]))
        if end - e >= 4:
            w1, j1 = weights[codes[e + 1]], np.uint64(base + stride * int(neighbors[e + 1]))
            w2, j2 = weights[codes[e + 2]], np.uint64(base + stride * int(neighbors[e + 2]))
            w3, j3 = weights[codes[e + 3]], np.uint64(base + stride * int(neighbors[e + 3]))
            for lane in range(lanes):
                b = np.uint64(lane)
                mine = flat[now, m + b]
                total = fma(w0, mine - flat[now, j0 + b], mixed[0, o + b])
                total = fma(w1, mine - flat[now, j1 + b], total)
                total = fma(w2, mine - flat[now, j2 + b], total)
                mixed[0, o + b] = fma(w3, mine - flat[now, j3 + b], total)
            e += 4
        elif end - e >= 2:
            w1, j1 = weights[codes[e + 1]], np.uint64(base + stride * int(neighbors[e + 1]))
            for lane in range(lanes):
                b = np.uint64(lane)
                mine = flat[now, m + b]
                total = fma(w0, mine - flat[now, j0 + b], mixed[0, o + b])
                mixed[0, o + b] = fma(w1, mine - flat[now, j1 + b], total)
            e += 2
        else:
            for lane in range(lanes):
                b = np.uint64(lane)
                mixed[0, o + b] = fma(w0, flat[now, m + b] - flat[now, j0 + b], mixed[0, o + b])
            e += 1


def _make_advance(size: int) -> Callable[..., None]:
    """Build the update of `size` registers: all lanes in one fused, vectorized loop.

    `size` is a constant of the compiled function, so the branches on it vanish. Coefficients are read before the
    loop because the compiler cannot know that writing registers leaves them alone.
    """

    @inlined
    def advance(
        work: AnyArray, messages: AnyArray, i: int, rows: AnyArray, t: int, mixed: AnyArray, given: Input
    ) -> None:
        lanes, p, then, r = work.shape[2], t + 1, (t + 1) % 2, given.mixed
        now, j, slot, level, scale = given.observation
        coming, j_next, slot_next, level_next, scale_next = given.following
        ey = rows[p, 0, 0]
        if size > 0:
            e0 = rows[p, 0, 2]
            y0, m0, a00 = rows[p, 1, 0], rows[p, 1, 1], rows[p, 1, 2]
        if size > 1:
            e1, a01 = rows[p, 0, 3], rows[p, 1, 3]
            y1, m1, a10, a11 = rows[p, 2, 0], rows[p, 2, 1], rows[p, 2, 2], rows[p, 2, 3]
        if size > 2:
            e2, a02, a12 = rows[p, 0, 4], rows[p, 1, 4], rows[p, 2, 4]
            y2, m2 = rows[p, 3, 0], rows[p, 3, 1]
            a20, a21, a22 = rows[p, 3, 2], rows[p, 3, 3], rows[p, 3, 4]
        if size > 3:
            e3, a03, a13, a23 = rows[p, 0, 5], rows[p, 1, 5], rows[p, 2, 5], rows[p, 3, 5]
            y3, m3 = rows[p, 4, 0], rows[p, 4, 1]
            a30, a31, a32, a33 = rows[p, 4, 2], rows[p, 4, 3], rows[p, 4, 4], rows[p, 4, 5]
        for b in range(lanes):
            message = ey * fma(scale_next, coming[j_next, slot_next, b], level_next)
            if size > 0:
                y, m = fma(scale, now[j, slot, b], level), mixed[r, b]
                s0 = work[i, 0, b]
                n0 = fma(a00, s0, fma(y0, y, m0 * m))
            if size > 1:
                s1 = work[i, 1, b]
                n0 = fma(a01, s1, n0)
                n1 = fma(a11, s1, fma(a10, s0, fma(y1, y, m1 * m)))
            if size > 2:
                s2 = work[i, 2, b]
                n0 = fma(a02, s2, n0)
                n1 = fma(a12, s2, n1)
                n2 = fma(a22, s2, fma(a21, s1, fma(a20, s0, fma(y2, y, m2 * m))))
            if size > 3:
                s3 = work[i, 3, b]
                n0 = fma(a03, s3, n0)
                n1 = fma(a13, s3, n1)
                n2 = fma(a23, s3, n2)
                n3 = fma(a33, s3, fma(a32, s2, fma(a31, s1, fma(a30, s0, fma(y3, y, m3 * m)))))
            if size > 0:
                message = fma(e0, n0, message)
                work[i, 0, b] = n0
            if size > 1:
                message = fma(e1, n1, message)
                work[i, 1, b] = n1
            if size > 2:
                message = fma(e2, n2, message)
                work[i, 2, b] = n2
            if size > 3:
                message = fma(e3, n3, message)
                work[i, 3, b] = n3
            messages[then, i, b] = message

    return advance


_advance_0, _advance_1, _advance_2, _advance_3, _advance_4 = (_make_advance(size) for size in range(5))


@inlined
def advance(
    work: AnyArray, messages: AnyArray, i: int, table: PassTable, t: int, given: Input, s: Scratch
) -> None:
    """Play round t of row i: update the registers that are active, and write the message of round t + 1."""
    rows, size = table.rows, table.active[t + 1]
    if size == 0:
        _advance_0(work, messages, i, rows, t, s.mixed, given)
    elif size == 1:
        _advance_1(work, messages, i, rows, t, s.mixed, given)
    elif size == 2:
        _advance_2(work, messages, i, rows, t, s.mixed, given)
    elif size == 3:
        _advance_3(work, messages, i, rows, t, s.mixed, given)
    elif size == 4:
        _advance_4(work, messages, i, rows, t, s.mixed, given)
    else:
        _advance_any(work, messages, i, table, t, given, s)


@compiled
def _advance_any(
    work: AnyArray, messages: AnyArray, i: int, table: PassTable, t: int, given: Input, s: Scratch
) -> None:
    """Update any number of registers, one after another; not inlined, to avoid compiling it three times."""
    prefer_wide_vectors()
    lanes, rows, size = work.shape[2], table.rows, table.active[t + 1]
    now, j, slot, level, scale = given.observation
    for k in range(size):
        _combine(s, k, work, i, rows, t, 1 + k, size)
    for k in range(size):
        own, heard = rows[t + 1, 1 + k, OBSERVED], rows[t + 1, 1 + k, MIXED]
        for b in range(lanes):
            y = fma(scale, now[j, slot, b], level)
            work[i, k, b] = fma(own, y, fma(heard, s.mixed[given.mixed, b], s.fresh[0, k, b]))
    _combine(s, size, work, i, rows, t, 0, size)
    now, j, slot, level, scale = given.following
    for b in range(lanes):
        y = fma(scale, now[j, slot, b], level)
        messages[(t + 1) % 2, i, b] = fma(rows[t + 1, 0, OBSERVED], y, s.fresh[0, size, b])
