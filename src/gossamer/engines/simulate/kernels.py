"""One round of any method for one row of lanes, compiled: what both layouts of the simulation share.

Numbers come in rows of lanes, which the compiler turns into vector instructions. A lane is a trial
(`_trial_lanes.py`) or an agent (`_agent_lanes.py`). In the pass of round t an agent mixes its neighbors' messages
of round t, updates its registers and writes its message of round t + 1, for which it sees its next observation; the
pass of round -1 writes the first message. Both layouts do the same operations in the same order on every number,
so they give the same results to the last digit.

Arrays are indexed in full, never sliced: in compiled code a slice costs a reference count, and there would be
several for every agent and round.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.numerics.compiling import compiled, inlined
from gossamer.numerics.vectors import fma

Array = NDArray[Any]
Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

SEEN, MIXED, STATE = 0, 1, 2  # columns of Pass.rows


class Pass(NamedTuple):
    """A method's table, its noise and its horizons (n components, N agents, T rounds, R registers, H horizons).

    rows[t + 1] serves the pass of round t. Row 0 is the next message, row 1 + k the new register k, row R + 1 the
    estimate; columns are the observation, what was mixed, then the registers. Only the first active[t + 1] registers
    change or are used in that pass.
    """

    rows: Array  #: (T + 1, R + 2, R + 2)
    active: Numbers  #: (T + 1,)
    noise_scale: Array  #: (T,) 1 / sqrt(batch)
    mean: Array  #: (n, N)
    std: Array  #: (n, N), or (n, 1) if it is the same for all agents
    drift: Array  #: (n, N), or (n, 0) if there is none
    key: np.uint64
    horizons: Numbers  #: (H,) ascending
    target: Floats  #: (n, H)


class Scratch(NamedTuple):
    """Rows for what lives no longer than one agent's update."""

    seen: Array  #: (1, 2, B) this observation and the next
    mixed: Array  #: (1, B), or (N, B) if all agents mix before the first one moves on
    fresh: Array  #: (1, R + 1, B)
    which: Numbers  #: (R,)
    factor: Array  #: (R,)


@compiled
def scratch_for(work: Array, mixed: int) -> Scratch:
    registers, lanes = work.shape[1], work.shape[2]
    return Scratch(
        np.zeros((1, 2, lanes), work.dtype),
        np.zeros((mixed, lanes), work.dtype),
        np.empty((1, registers + 1, lanes), work.dtype),
        np.empty(registers, np.int64),
        np.empty(registers, work.dtype),
    )


@inlined
def horizon_at(horizons: Numbers, t: int) -> int:
    """Which horizon ends with the pass of round t, or -1."""
    h = int(np.searchsorted(horizons, t + 1))
    return h if t >= 0 and h < horizons.size and horizons[h] == t + 1 else -1


@compiled
def _combine(
    out: Array, p: int, q: int, work: Array, i: int, rows: Array, t: int, row: int, size: int, s: Scratch
) -> None:
    """out[p, q] = sum over registers k of rows[t, row, STATE + k] * work[i, k], for all lanes."""
    lanes = work.shape[2]
    terms = 0
    for k in range(size):
        if rows[t, row, STATE + k] != 0.0:
            s.which[terms] = k
            s.factor[terms] = rows[t, row, STATE + k]
            terms += 1
    if terms == 0:
        for b in range(lanes):
            out[p, q, b] = 0.0
        return
    f0, k0 = s.factor[0], s.which[0]
    for b in range(lanes):
        out[p, q, b] = f0 * work[i, k0, b]
    for n in range(1, terms):
        f, k = s.factor[n], s.which[n]
        for b in range(lanes):
            out[p, q, b] = fma(f, work[i, k, b], out[p, q, b])


@inlined
def estimate(work: Array, i: int, rows: Array, t: int, s: Scratch) -> None:
    """Write the estimate of row i after the pass of round t into s.fresh[0, R]."""
    size = work.shape[1]
    _combine(s.fresh, 0, size, work, i, rows, t + 1, size + 1, size, s)


@inlined
def mix_row(
    mixed: Array, out: int, lanes: int, told: Array, now: int, own: int, base: int, stride: int,
    first: int, last: int, neighbors: Array, codes: Array, weights: Array,
) -> None:  # fmt: skip
    """mixed[0, out:] = sum over links e of weight_e (own message - that of neighbors[e]), up to four at a time.

    Messages lie in the flat rows told[now]: the lanes' own from `own` on, a neighbor's from base + stride * number on.
    """
    # Unsigned, so that Numba does not ask for every lane whether its index is negative.
    o, m = np.uint64(out), np.uint64(own)
    for lane in range(lanes):
        mixed[0, o + np.uint64(lane)] = 0.0
    e, end = int(first), int(last)
    while e < end:
        w0, j0 = weights[codes[e]], np.uint64(base + stride * int(neighbors[e]))
        if end - e >= 4:
            w1, j1 = weights[codes[e + 1]], np.uint64(base + stride * int(neighbors[e + 1]))
            w2, j2 = weights[codes[e + 2]], np.uint64(base + stride * int(neighbors[e + 2]))
            w3, j3 = weights[codes[e + 3]], np.uint64(base + stride * int(neighbors[e + 3]))
            for lane in range(lanes):
                b = np.uint64(lane)
                mine = told[now, m + b]
                total = fma(w0, mine - told[now, j0 + b], mixed[0, o + b])
                total = fma(w1, mine - told[now, j1 + b], total)
                total = fma(w2, mine - told[now, j2 + b], total)
                mixed[0, o + b] = fma(w3, mine - told[now, j3 + b], total)
            e += 4
        elif end - e >= 2:
            w1, j1 = weights[codes[e + 1]], np.uint64(base + stride * int(neighbors[e + 1]))
            for lane in range(lanes):
                b = np.uint64(lane)
                mine = told[now, m + b]
                total = fma(w0, mine - told[now, j0 + b], mixed[0, o + b])
                mixed[0, o + b] = fma(w1, mine - told[now, j1 + b], total)
            e += 2
        else:
            for lane in range(lanes):
                b = np.uint64(lane)
                mixed[0, o + b] = fma(w0, told[now, m + b] - told[now, j0 + b], mixed[0, o + b])
            e += 1


def _make_advance(size: int) -> Any:
    """Build the update of `size` registers: all lanes in one fused, vectorized loop.

    `size` is a constant of the compiled function, so the branches on it vanish. Coefficients are read before the
    loop because the compiler cannot know that writing registers leaves them alone.
    """

    @inlined
    def advance(
        work: Array, i: int, rows: Array, p: int, mixed: Array, r: int, messages: Array, then: int,
        now: Array, j: int, place: int, level: float, scale: float,
        coming: Array, j_next: int, place_next: int, level_next: float, scale_next: float,
    ) -> None:  # fmt: skip
        lanes = work.shape[2]
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
            told = ey * fma(scale_next, coming[j_next, place_next, b], level_next)
            if size > 0:
                y, m = fma(scale, now[j, place, b], level), mixed[r, b]
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
                told = fma(e0, n0, told)
                work[i, 0, b] = n0
            if size > 1:
                told = fma(e1, n1, told)
                work[i, 1, b] = n1
            if size > 2:
                told = fma(e2, n2, told)
                work[i, 2, b] = n2
            if size > 3:
                told = fma(e3, n3, told)
                work[i, 3, b] = n3
            messages[then, i, b] = told

    return advance


_advance_0, _advance_1, _advance_2, _advance_3, _advance_4 = (_make_advance(size) for size in range(5))


@inlined
def advance(
    work: Array, i: int, rows: Array, p: int, size: int, mixed: Array, r: int, messages: Array, then: int,
    now: Array, j: int, place: int, level: float, scale: float,
    coming: Array, j_next: int, place_next: int, level_next: float, scale_next: float, s: Scratch,
) -> None:  # fmt: skip
    """Update the first `size` registers of row i by rows[p], from mixed[r] and the observation
    level + scale * now[j, place], and write the next message with the next observation, likewise of `coming`."""
    if size == 0:
        _advance_0(work, i, rows, p, mixed, r, messages, then, now, j, place, level, scale,
                   coming, j_next, place_next, level_next, scale_next)  # fmt: skip
    elif size == 1:
        _advance_1(work, i, rows, p, mixed, r, messages, then, now, j, place, level, scale,
                   coming, j_next, place_next, level_next, scale_next)  # fmt: skip
    elif size == 2:
        _advance_2(work, i, rows, p, mixed, r, messages, then, now, j, place, level, scale,
                   coming, j_next, place_next, level_next, scale_next)  # fmt: skip
    elif size == 3:
        _advance_3(work, i, rows, p, mixed, r, messages, then, now, j, place, level, scale,
                   coming, j_next, place_next, level_next, scale_next)  # fmt: skip
    elif size == 4:
        _advance_4(work, i, rows, p, mixed, r, messages, then, now, j, place, level, scale,
                   coming, j_next, place_next, level_next, scale_next)  # fmt: skip
    else:
        lanes = work.shape[2]
        for k in range(size):
            _combine(s.fresh, 0, k, work, i, rows, p, 1 + k, size, s)
        for k in range(size):
            own, heard = rows[p, 1 + k, SEEN], rows[p, 1 + k, MIXED]
            for b in range(lanes):
                y = fma(scale, now[j, place, b], level)
                work[i, k, b] = fma(own, y, fma(heard, mixed[r, b], s.fresh[0, k, b]))
        _combine(messages, then, i, work, i, rows, p, 0, size, s)
        for b in range(lanes):
            y = fma(scale_next, coming[j_next, place_next, b], level_next)
            messages[then, i, b] = fma(rows[p, 0, SEEN], y, messages[then, i, b])
