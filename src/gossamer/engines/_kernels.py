"""Compiled loops of the simulation engine: one kernel over a method's table runs every method.

Agents x lanes. A lane is a trial (many trials side by side) or, for one large network, an agent. Each round is
one pass over the agents: gather the neighbours' messages, update the registers, draw the next observation,
write the next message into the other of two buffers. Rows of lanes are combined a few at a time, which the
compiler vectorises; the work array of an agent holds its registers, then its observation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gossamer._random import (
    ACTIVATION,
    OBSERVATION,
    _prefer_wide_vectors,
    fill_normals,
    fill_normals_agents,
    index,
)

Array = NDArray[Any]

CHUNK = 1024  # agents side by side where lanes are agents

MATRIX, PAIRWISE, BROADCAST = 0, 1, 2

_fast = njit(cache=True, fastmath={"contract"}, error_model="numpy", nogil=True)


@_fast
def combine(out: Array, p: int, q: int, rows: Array, i: int, which: Array, factor: Array, terms: int) -> None:
    """out[p, q] = sum of factor[k] * rows[i, which[k]] over the first `terms` terms, for all lanes.

    Arrays are indexed in full, never sliced: in compiled code a slice costs a reference count, and there would
    be several for every agent and round.
    """
    lanes = rows.shape[2]
    if terms == 0:
        for b in range(lanes):
            out[p, q, b] = 0.0
        return
    f0, k0 = factor[0], which[0]
    if terms == 1:
        for b in range(lanes):
            out[p, q, b] = f0 * rows[i, k0, b]
        return
    f1, k1 = factor[1], which[1]
    if terms == 2:
        for b in range(lanes):
            out[p, q, b] = f0 * rows[i, k0, b] + f1 * rows[i, k1, b]
        return
    f2, k2 = factor[2], which[2]
    if terms == 3:
        for b in range(lanes):
            out[p, q, b] = f0 * rows[i, k0, b] + f1 * rows[i, k1, b] + f2 * rows[i, k2, b]
        return
    f3, k3 = factor[3], which[3]
    for b in range(lanes):
        out[p, q, b] = f0 * rows[i, k0, b] + f1 * rows[i, k1, b] + f2 * rows[i, k2, b] + f3 * rows[i, k3, b]
    for k in range(4, terms):
        f, row = factor[k], which[k]
        for b in range(lanes):
            out[p, q, b] += f * rows[i, row, b]


@_fast
def gather(
    mixed: Array, messages: Array, now: int, i: int, indptr: Array, indices: Array, gossip: Array
) -> None:
    """mixed[0] = sum_j L_ij messages[now, j], up to five neighbours at a time."""
    _prefer_wide_vectors()
    lanes = mixed.shape[1]
    k, last = indptr[i], indptr[i + 1]
    first = True
    while k < last:
        left = last - k
        f0, j0 = gossip[k], indices[k]
        if left >= 5:
            f1, f2, f3, f4 = gossip[k + 1], gossip[k + 2], gossip[k + 3], gossip[k + 4]
            j1, j2, j3, j4 = indices[k + 1], indices[k + 2], indices[k + 3], indices[k + 4]
            for b in range(lanes):
                total = f0 * messages[now, j0, b] + f1 * messages[now, j1, b] + f2 * messages[now, j2, b]
                total += f3 * messages[now, j3, b] + f4 * messages[now, j4, b]
                mixed[0, b] = total if first else mixed[0, b] + total
            k += 5
        elif left >= 3:
            f1, f2, j1, j2 = gossip[k + 1], gossip[k + 2], indices[k + 1], indices[k + 2]
            for b in range(lanes):
                total = f0 * messages[now, j0, b] + f1 * messages[now, j1, b] + f2 * messages[now, j2, b]
                mixed[0, b] = total if first else mixed[0, b] + total
            k += 3
        else:
            for b in range(lanes):
                total = f0 * messages[now, j0, b]
                mixed[0, b] = total if first else mixed[0, b] + total
            k += 1
        first = False


@_fast
def terms_of(c: Array, row: int, size: int, which: Array, factor: Array) -> int:
    """List the nonzero ones of the first `size` entries of a coefficient row; return how many there are."""
    count = 0
    for k in range(size):
        if c[row, k] != 0.0:
            which[count] = k
            factor[count] = c[row, k]
            count += 1
    return count


def _make_advance(size: int) -> Any:
    """Build the update of one agent with `size` registers: all lanes in one fused, vectorised loop.

    `size` is a constant of the compiled function, so the branches on it vanish. Coefficients are read before the
    loop because the compiler cannot know that writing registers leaves them alone.
    """

    @_fast
    def advance(
        work: Array, i: int, c: Array, mixed: Array, r: int, messages: Array, then: int,
        noise: Array, j: int, place: int, level: float, scale: float,
    ) -> None:  # fmt: skip
        _prefer_wide_vectors()
        lanes = work.shape[2]
        y0, m0, a00, e0, ey = c[0, size], c[0, size + 1], c[0, 0], c[size, 0], c[size, size]
        if size > 1:
            y1, m1, e1 = c[1, size], c[1, size + 1], c[size, 1]
            a01, a10, a11 = c[0, 1], c[1, 0], c[1, 1]
        if size > 2:
            y2, m2, e2 = c[2, size], c[2, size + 1], c[size, 2]
            a02, a12, a20, a21, a22 = c[0, 2], c[1, 2], c[2, 0], c[2, 1], c[2, 2]
        if size > 3:
            y3, m3, e3 = c[3, size], c[3, size + 1], c[size, 3]
            a03, a13, a23, a30, a31, a32, a33 = c[0, 3], c[1, 3], c[2, 3], c[3, 0], c[3, 1], c[3, 2], c[3, 3]
        for b in range(lanes):
            y, m = work[i, size, b], mixed[r, b]
            upcoming = level + scale * noise[j, place, b]
            s0 = work[i, 0, b]
            n0 = a00 * s0 + (y0 * y + m0 * m)
            if size > 1:
                s1 = work[i, 1, b]
                n0 += a01 * s1
                n1 = a10 * s0 + a11 * s1 + (y1 * y + m1 * m)
            if size > 2:
                s2 = work[i, 2, b]
                n0 += a02 * s2
                n1 += a12 * s2
                n2 = a20 * s0 + a21 * s1 + a22 * s2 + (y2 * y + m2 * m)
            if size > 3:
                s3 = work[i, 3, b]
                n0 += a03 * s3
                n1 += a13 * s3
                n2 += a23 * s3
                n3 = a30 * s0 + a31 * s1 + a32 * s2 + a33 * s3 + (y3 * y + m3 * m)
            told = ey * upcoming + e0 * n0
            work[i, 0, b] = n0
            if size > 1:
                told += e1 * n1
                work[i, 1, b] = n1
            if size > 2:
                told += e2 * n2
                work[i, 2, b] = n2
            if size > 3:
                told += e3 * n3
                work[i, 3, b] = n3
            work[i, size, b] = upcoming
            messages[then, i, b] = told

    return advance


_advance_1, _advance_2, _advance_3, _advance_4 = (_make_advance(size) for size in (1, 2, 3, 4))


@_fast
def advance(
    work: Array, i: int, c: Array, mixed: Array, r: int, messages: Array, then: int,
    noise: Array, j: int, place: int, level: float, scale: float, fresh: Array, which: Array, factor: Array,
) -> None:  # fmt: skip
    """Update agent i's registers from mixed[r], take the next observation level + scale * noise[j, place], and write
    its next message.

    c holds the rows of the step, each over (registers, observation, mixed), then the row of the next message.
    """
    size = work.shape[1] - 1
    if size == 1:
        _advance_1(work, i, c, mixed, r, messages, then, noise, j, place, level, scale)
    elif size == 2:
        _advance_2(work, i, c, mixed, r, messages, then, noise, j, place, level, scale)
    elif size == 3:
        _advance_3(work, i, c, mixed, r, messages, then, noise, j, place, level, scale)
    elif size == 4:
        _advance_4(work, i, c, mixed, r, messages, then, noise, j, place, level, scale)
    else:
        for row in range(size):
            terms = terms_of(c, row, size + 1, which, factor)
            combine(fresh, 0, row, work, i, which, factor, terms)
        for row in range(size):
            through = c[row, size + 1]
            for b in range(work.shape[2]):
                work[i, row, b] = fresh[0, row, b] + through * mixed[r, b]
        for b in range(work.shape[2]):
            work[i, size, b] = level + scale * noise[j, place, b]
        terms = terms_of(c, size, size + 1, which, factor)
        combine(messages, then, i, work, i, which, factor, terms)


@_fast
def random_mix(
    mixed: Array,
    messages: Array,
    mixing: int,
    key: np.uint64,
    first_trial: int,
    t: int,
    edges: NDArray[np.int64],
    indptr: Array,
    indices: Array,
) -> None:
    """What the random exchange of round t makes of the messages, in every trial."""
    mixed[:, :] = 0.0
    for b in range(messages.shape[1]):
        trial = first_trial + b
        if mixing == PAIRWISE:
            e = index(key, ACTIVATION, trial, t, edges.shape[0])
            i, j = edges[e, 0], edges[e, 1]
            half = (messages[i, b] - messages[j, b]) / 2
            mixed[i, b] = half
            mixed[j, b] = -half
        else:
            speaker = index(key, ACTIVATION, trial, t, messages.shape[0])
            for k in range(indptr[speaker], indptr[speaker + 1]):
                j = indices[k]
                if j != speaker:
                    mixed[j, b] = (messages[j, b] - messages[speaker, b]) / 2


@_fast
def _trial_block(
    work: Array,  # (N, R + 1, B) registers, observation
    messages: Array,  # (2, N, B)
    noise: Array,  # (N, 4, B) scratch, if Gaussian noise is drawn here
    given: Array,  # (N, rounds of this call + 1, B) observations, or empty: draw Gaussian noise here
    mixed: Array,  # (N, B) for random mixing, otherwise (1, B)
    start: int,
    stop: int,
    rounds: int,
    table: Array,  # (T, R + 1, R + 2): the step's rows, then the row of the next round's message
    first_message: Array,  # (1, R + 2)
    estimate_state: Array,  # (T, R)
    noise_scale: Array,  # (T,)
    mean: Array,
    std: Array,
    drift: Array,
    key: np.uint64,
    component: int,
    first_trial: int,
    indptr: Array,
    indices: Array,
    gossip: Array,
    mixing: int,
    edges: NDArray[np.int64],
    horizons: NDArray[np.int64],
    target: NDArray[np.float64],  # (H,)
    by_trial: NDArray[np.float64],  # (H, B)
    by_agent: NDArray[np.float64],  # (H, N)
    lanes: int,
    estimates: Array,  # (H, N, B), or empty
) -> None:
    """Rounds start..stop-1 of one block of trials of one component."""
    agents, width, batch = work.shape
    size = width - 1
    fresh = np.empty((1, size + 1, batch), work.dtype)
    which = np.empty(width, np.int64)
    factor = np.empty(width, work.dtype)
    drawn = given.size == 0
    if start == 0:
        for i in range(agents):
            if drawn:
                fill_normals(noise[i], key, OBSERVATION, 0, i, component, first_trial)
                for b in range(batch):
                    work[i, size, b] = mean[i] + std[i] * noise_scale[0] * noise[i, 0, b]
            else:
                for b in range(batch):
                    work[i, size, b] = given[i, 0, b]
            terms = terms_of(first_message, 0, size + 1, which, factor)
            combine(messages, 0, i, work, i, which, factor, terms)
    for t in range(start, stop):
        now, then = t % 2, (t + 1) % 2
        following = t + 1 < rounds
        if mixing != MATRIX:
            random_mix(mixed, messages[now], mixing, key, first_trial, t, edges, indptr, indices)
        h = np.searchsorted(horizons, t + 1)
        asked = h < horizons.size and horizons[h] == t + 1
        c = table[t]
        for i in range(agents):
            r = i
            if mixing == MATRIX:
                r = 0
                gather(mixed, messages, now, i, indptr, indices, gossip)
            if not drawn:
                place = t + 1 - start if following else 0
                advance(
                    work, i, c, mixed, r, messages, then, given, i, place, 0.0, 1.0, fresh, which, factor
                )  # fmt: skip
            else:
                place = (t + 1) % 4
                if place == 0 and following:
                    fill_normals(noise[i], key, OBSERVATION, (t + 1) // 4, i, component, first_trial)
                level = mean[i] + drift[i] * (t + 1)
                scale = std[i] * noise_scale[t + 1] if following else 0.0
                advance(
                    work, i, c, mixed, r, messages, then, noise, i, place, level, scale, fresh, which, factor
                )  # fmt: skip
            if asked:
                terms = terms_of(estimate_state, t, size, which, factor)
                combine(fresh, 0, size, work, i, which, factor, terms)
                total = 0.0
                for b in range(lanes):
                    error = fresh[0, size, b] - target[h]
                    by_trial[h, b] += error * error
                    total += error * error
                by_agent[h, i] += total
                if estimates.size:
                    for b in range(batch):
                        estimates[h, i, b] = fresh[0, size, b]


@njit(cache=True, parallel=True, error_model="numpy")
def trial_blocks(
    work: Array,  # every array of _trial_block with one more axis in front: the tasks
    messages: Array,
    noise: Array,
    given: Array,
    mixed: Array,
    start: int,
    stop: int,
    rounds: int,
    table: Array,
    first_message: Array,
    estimate_state: Array,
    noise_scale: Array,
    mean: Array,  # (n, N)
    std: Array,
    drift: Array,
    key: np.uint64,
    components: NDArray[np.int64],  # (tasks,)
    first_trials: NDArray[np.int64],
    indptr: Array,
    indices: Array,
    gossip: Array,
    mixing: int,
    edges: NDArray[np.int64],
    horizons: NDArray[np.int64],
    target: NDArray[np.float64],  # (n, H)
    by_trial: NDArray[np.float64],
    by_agent: NDArray[np.float64],
    lanes: NDArray[np.int64],
    estimates: Array,
) -> None:
    """Rounds start..stop-1 of several blocks of trials, one thread each; blocks do not touch each other."""
    for task in prange(components.size):
        c = components[task]
        _trial_block(
            work[task],
            messages[task],
            noise[task],
            given[task],
            mixed[task],
            start,
            stop,
            rounds,
            table,
            first_message,
            estimate_state,
            noise_scale,
            mean[c],
            std[c],
            drift[c],
            key,
            c,
            first_trials[task],
            indptr,
            indices,
            gossip,
            mixing,
            edges,
            horizons,
            target[c],
            by_trial[task],
            by_agent[task],
            lanes[task],
            estimates[task],
        )


@_fast
def _agent_chunk(
    chunk: int,
    t: int,
    following: bool,
    asked: bool,
    h: int,
    work: Array,  # (chunks, R + 1, CHUNK)
    before: Array,  # (chunks * CHUNK,) messages of round t
    messages: Array,  # (2, chunks, CHUNK)
    then: int,
    noise: Array,  # (chunks, 4, CHUNK)
    given: Array,  # (N,) the next observation, or empty
    c: Array,
    estimate_state: Array,
    noise_scale: Array,
    mean: Array,
    std: Array,
    drift: Array,  # empty: no drift
    key: np.uint64,
    component: int,
    trial: int,
    indptr: Array,
    neighbours: Array,  # without the agent itself
    codes: Array,  # which of the distinct weights each of them has
    weights: Array,
    target: float,
    by_agent: NDArray[np.float64],
    estimates: Array,
) -> float:
    """Round t of one chunk of agents, lanes being agents; round -1 only draws the first observation.

    Returns the sum of squared errors if it is asked for.
    """
    size = work.shape[1] - 1
    first = chunk * CHUNK
    n = min(CHUNK, mean.size - first)
    seen = np.zeros((1, 1, CHUNK), work.dtype)
    fresh = np.empty((1, size + 1, CHUNK), work.dtype)
    which = np.empty(size + 1, np.int64)
    factor = np.empty(size + 1, work.dtype)
    mixed = np.zeros((1, CHUNK), work.dtype)
    if following:
        if given.size:
            for b in range(n):
                seen[0, 0, b] = given[first + b]
        else:
            place = (t + 1) % 4
            if place == 0:
                fill_normals_agents(noise[chunk], key, OBSERVATION, (t + 1) // 4, first, component, trial)
            scale = noise_scale[t + 1]
            for b in range(n):
                seen[0, 0, b] = mean[first + b] + std[first + b] * scale * noise[chunk, place, b]
            if drift.size:
                for b in range(n):
                    seen[0, 0, b] += drift[first + b] * (t + 1)
    if t < 0:
        for b in range(CHUNK):
            work[chunk, size, b] = seen[0, 0, b]
        terms = terms_of(c, 0, size + 1, which, factor)
        combine(messages, then, chunk, work, chunk, which, factor, terms)
        return 0.0
    if weights.size == 1:
        weight = weights[0]
        for b in range(n):
            own = before[first + b]
            total = own - own
            for k in range(indptr[first + b], indptr[first + b + 1]):
                total += own - before[neighbours[k]]
            mixed[0, b] = weight * total
    else:
        for b in range(n):
            own = before[first + b]
            total = own - own
            for k in range(indptr[first + b], indptr[first + b + 1]):
                total += weights[codes[k]] * (own - before[neighbours[k]])
            mixed[0, b] = total
    advance(work, chunk, c, mixed, 0, messages, then, seen, 0, 0, 0.0, 1.0, fresh, which, factor)
    error = 0.0
    if asked:
        terms = terms_of(estimate_state, t, size, which, factor)
        combine(fresh, 0, size, work, chunk, which, factor, terms)
        for b in range(n):
            square = (fresh[0, size, b] - target) ** 2
            error += square
            by_agent[h, first + b] += square
            if estimates.size:
                estimates[h, first + b] = fresh[0, size, b]
    return error


@njit(cache=True, parallel=True, error_model="numpy")
def one_large_trial(
    work: Array,  # (chunks, R + 1, CHUNK)
    messages: Array,  # (2, chunks, CHUNK)
    noise: Array,  # (chunks, 4, CHUNK)
    given: Array,  # (rounds of this call + 1, N), or empty
    start: int,
    stop: int,
    rounds: int,
    table: Array,
    first_message: Array,
    estimate_state: Array,
    noise_scale: Array,
    mean: Array,
    std: Array,
    drift: Array,
    key: np.uint64,
    component: int,
    trial: int,
    indptr: Array,
    neighbours: Array,
    codes: Array,
    weights: Array,
    horizons: NDArray[np.int64],
    target: NDArray[np.float64],
    by_trial: NDArray[np.float64],  # (H,)
    by_agent: NDArray[np.float64],  # (H, N)
    estimates: Array,  # (H, N) or empty
) -> None:
    """Rounds start..stop-1 of one trial of one component, threads over agents."""
    chunks = work.shape[0]
    errors = np.zeros(chunks)
    told = messages.reshape(2, chunks * CHUNK)
    for t in range(-1 if start == 0 else start, stop):
        h = int(np.searchsorted(horizons, t + 1))
        asked = bool(t >= 0 and h < horizons.size and horizons[h] == t + 1)
        goal = target[h] if asked else 0.0
        following = t + 1 < rounds
        upcoming = given[t + 1 - start] if given.shape[0] and following else mean[:0]
        before = told[t % 2]
        c = first_message if t < 0 else table[t]
        for chunk in prange(chunks):
            errors[chunk] = _agent_chunk(
                chunk, t, following, asked, h, work, before, messages, (t + 1) % 2, noise, upcoming, c,
                estimate_state, noise_scale, mean, std, drift, key, component, trial, indptr, neighbours,
                codes, weights, goal, by_agent, estimates,
            )  # fmt: skip
        if asked:
            # Summed in chunk order, so that the number of threads does not show in the last digits.
            total = 0.0
            for chunk in range(chunks):
                total += errors[chunk]
            by_trial[h] += total
