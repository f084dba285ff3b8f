"""Compiled loops of the simulation engine: one kernel over a method's table runs every method.

Agents x lanes. A lane is a trial (many trials side by side) or, for one large network, an agent. Each round is
one pass over the agents: gather the neighbours' messages, update the registers, draw the next observation,
write the next message into the other of two buffers. Rows of lanes are combined a few at a time, which the
compiler vectorises; the work array of an agent holds its registers, then its observation, then `mixed`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gossamer._random import ACTIVATION, OBSERVATION, fill_normals, fill_normals_agents, index

Array = NDArray[Any]

CHUNK = 1024  # agents side by side where lanes are agents

MATRIX, PAIRWISE, BROADCAST = 0, 1, 2

_fast = njit(cache=True, fastmath={"contract"}, error_model="numpy", nogil=True)


@_fast
def combine(out: Array, rows: Array, which: Array, factor: Array, terms: int) -> None:
    """out = sum of factor[k] * rows[which[k]] over the first `terms` terms."""
    n = out.size
    if terms == 0:
        for b in range(n):
            out[b] = 0.0
        return
    done = min(terms, 4)
    f0, x0 = factor[0], rows[which[0]]
    if done == 1:
        for b in range(n):
            out[b] = f0 * x0[b]
    elif done == 2:
        f1, x1 = factor[1], rows[which[1]]
        for b in range(n):
            out[b] = f0 * x0[b] + f1 * x1[b]
    elif done == 3:
        f1, x1, f2, x2 = factor[1], rows[which[1]], factor[2], rows[which[2]]
        for b in range(n):
            out[b] = f0 * x0[b] + f1 * x1[b] + f2 * x2[b]
    else:
        f1, x1, f2, x2 = factor[1], rows[which[1]], factor[2], rows[which[2]]
        f3, x3 = factor[3], rows[which[3]]
        for b in range(n):
            out[b] = f0 * x0[b] + f1 * x1[b] + f2 * x2[b] + f3 * x3[b]
    for k in range(4, terms):
        f, x = factor[k], rows[which[k]]
        for b in range(n):
            out[b] += f * x[b]


@_fast
def gather(out: Array, messages: Array, neighbours: Array, factor: Array) -> None:
    """out = sum_j L_ij messages[j] over one row of the gossip matrix, four neighbours at a time."""
    n = out.size
    terms = neighbours.size
    first = min(terms, 4)
    combine(out, messages, neighbours[:first], factor[:first], first)
    k = first
    while k + 4 <= terms:
        f0, f1, f2, f3 = factor[k], factor[k + 1], factor[k + 2], factor[k + 3]
        x0, x1 = messages[neighbours[k]], messages[neighbours[k + 1]]
        x2, x3 = messages[neighbours[k + 2]], messages[neighbours[k + 3]]
        for b in range(n):
            out[b] += f0 * x0[b] + f1 * x1[b] + f2 * x2[b] + f3 * x3[b]
        k += 4
    for m in range(k, terms):
        f, x = factor[m], messages[neighbours[m]]
        for b in range(n):
            out[b] += f * x[b]


@_fast
def shift_scale(out: Array, level: float, scale: float, x: Array) -> None:
    for b in range(out.size):
        out[b] = level + scale * x[b]


@_fast
def terms_of(row: Array, which: Array, factor: Array) -> int:
    """List the nonzero entries of a coefficient row; return how many there are."""
    count = 0
    for k in range(row.size):
        if row[k] != 0.0:
            which[count] = k
            factor[count] = row[k]
            count += 1
    return count


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
    work: Array,  # (N, R + 2, B) registers, observation, mixed
    messages: Array,  # (2, N, B)
    noise: Array,  # (N, 4, B)
    given: Array,  # (rounds of this call + 1, N, B), or empty: draw Gaussian noise here
    mixed: Array,  # (N, B), used by random mixing only
    start: int,
    stop: int,
    rounds: int,
    table: Array,  # (T, R + 1, R + 2): the step's rows, then the message's row
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
    size = width - 2
    fresh = np.empty((size + 1, batch), work.dtype)
    which = np.empty((size + 1, width), np.int64)
    factor = np.empty((size + 1, width), work.dtype)
    count = np.empty(size + 1, np.int64)
    told_which = np.empty(width, np.int64)
    told_factor = np.empty(width, work.dtype)
    read_which = np.empty(width, np.int64)
    read_factor = np.empty(width, work.dtype)
    if start == 0:
        told = terms_of(table[0, size], told_which, told_factor)
        for i in range(agents):
            if given.size:
                work[i, size, :] = given[0, i]
            else:
                fill_normals(noise[i], key, OBSERVATION, 0, i, component, first_trial)
                shift_scale(work[i, size], mean[i], std[i] * noise_scale[0], noise[i, 0])
            combine(messages[0, i], work[i], told_which, told_factor, told)
    for t in range(start, stop):
        now, then = t % 2, (t + 1) % 2
        for j in range(size):
            count[j] = terms_of(table[t, j], which[j], factor[j])
        following = t + 1 < rounds
        told = terms_of(table[t + 1, size], told_which, told_factor) if following else 0
        if mixing != MATRIX:
            random_mix(mixed, messages[now], mixing, key, first_trial, t, edges, indptr, indices)
        h = np.searchsorted(horizons, t + 1)
        asked = h < horizons.size and horizons[h] == t + 1
        read = terms_of(estimate_state[t], read_which, read_factor) if asked else 0
        for i in range(agents):
            rows = work[i]
            if mixing == MATRIX:
                a, b = indptr[i], indptr[i + 1]
                gather(rows[size + 1], messages[now], indices[a:b], gossip[a:b])
            else:
                rows[size + 1, :] = mixed[i]
            for j in range(size):
                combine(fresh[j], rows, which[j], factor[j], count[j])
            rows[:size, :] = fresh[:size]
            if asked:
                combine(fresh[size], rows, read_which, read_factor, read)
                total = 0.0
                for b in range(lanes):
                    error = fresh[size, b] - target[h]
                    by_trial[h, b] += error * error
                    total += error * error
                by_agent[h, i] += total
                if estimates.size:
                    estimates[h, i, :] = fresh[size]
            if following:
                if given.size:
                    rows[size, :] = given[t + 1 - start, i]
                else:
                    place = (t + 1) % 4
                    if place == 0:
                        fill_normals(noise[i], key, OBSERVATION, (t + 1) // 4, i, component, first_trial)
                    level = mean[i] + drift[i] * (t + 1)
                    shift_scale(rows[size], level, std[i] * noise_scale[t + 1], noise[i, place])
                combine(messages[then, i], rows, told_which, told_factor, told)


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
def _draw_chunk(
    out: Array,
    noise: Array,
    first: int,
    t: int,
    noise_scale: Array,
    mean: Array,
    std: Array,
    drift: Array,
    key: np.uint64,
    component: int,
    trial: int,
) -> None:
    place = t % 4
    if place == 0:
        fill_normals_agents(noise, key, OBSERVATION, t // 4, first, component, trial)
    scale = noise_scale[t]
    for b in range(out.size):
        i = first + b
        out[b] = mean[i] + drift[i] * t + std[i] * scale * noise[place, b]


@_fast
def _agent_chunk(
    first: int,
    t: int,
    draw_only: bool,
    following: bool,
    asked: bool,
    h: int,
    state: Array,  # (R, N)
    seen: Array,  # (N,) the observation of round t
    before: Array,  # (N,) messages of round t
    after: Array,  # (N,) messages of round t + 1
    noise: Array,  # (4, CHUNK)
    given: Array,  # (N,) the next observation, or empty
    table: Array,
    estimate_state: Array,
    noise_scale: Array,
    mean: Array,
    std: Array,
    drift: Array,
    key: np.uint64,
    component: int,
    trial: int,
    indptr: Array,
    indices: Array,
    gossip: Array,
    target: float,
    by_agent: NDArray[np.float64],
    estimates: Array,
) -> float:
    """Round t of `CHUNK` agents from `first` on, lanes being agents. Returns the sum of squared errors if asked."""
    agents = before.size
    size = state.shape[0]
    n = min(CHUNK, agents - first)
    last = first + n
    rows = np.empty((size + 2, n), state.dtype)
    fresh = np.empty(n, state.dtype)
    which = np.empty(size + 2, np.int64)
    factor = np.empty(size + 2, state.dtype)
    error = 0.0
    for j in range(size):
        rows[j, :] = state[j, first:last]
    if not draw_only:
        rows[size, :] = seen[first:last]
        mixed = rows[size + 1]
        for b in range(n):
            total = gossip[indptr[first + b]] * before[indices[indptr[first + b]]]
            for k in range(indptr[first + b] + 1, indptr[first + b + 1]):
                total += gossip[k] * before[indices[k]]
            mixed[b] = total
        for j in range(size):
            count = terms_of(table[t, j], which, factor)
            combine(state[j, first:last], rows, which, factor, count)
        for j in range(size):
            rows[j, :] = state[j, first:last]
        if asked:
            count = terms_of(estimate_state[t], which, factor)
            combine(fresh, rows, which, factor, count)
            for b in range(n):
                square = (fresh[b] - target) ** 2
                error += square
                by_agent[h, first + b] += square
            if estimates.size:
                estimates[h, first:last] = fresh
    if following:
        upcoming = 0 if draw_only else t + 1
        if given.size:
            rows[size, :] = given[first:last]
        else:
            _draw_chunk(
                rows[size], noise, first, upcoming, noise_scale, mean, std, drift, key, component, trial
            )
        seen[first:last] = rows[size]
        count = terms_of(table[upcoming, size], which, factor)
        combine(after[first:last], rows, which, factor, count)
    return error


@njit(cache=True, parallel=True, error_model="numpy")
def one_large_trial(
    state: Array,  # (R, N)
    seen: Array,  # (N,)
    messages: Array,  # (2, N)
    noise: Array,  # (chunks, 4, CHUNK)
    given: Array,  # (rounds of this call + 1, N), or empty
    start: int,
    stop: int,
    rounds: int,
    table: Array,
    estimate_state: Array,
    noise_scale: Array,
    mean: Array,
    std: Array,
    drift: Array,
    key: np.uint64,
    component: int,
    trial: int,
    indptr: Array,
    indices: Array,
    gossip: Array,
    horizons: NDArray[np.int64],
    target: NDArray[np.float64],
    by_trial: NDArray[np.float64],  # (H,)
    by_agent: NDArray[np.float64],  # (H, N)
    estimates: Array,  # (H, N) or empty
) -> None:
    """Rounds start..stop-1 of one trial of one component, threads over agents."""
    chunks = noise.shape[0]
    errors = np.zeros(chunks)
    nothing = given[0] if given.shape[0] else seen[:0]
    if start == 0:
        for c in prange(chunks):
            _agent_chunk(
                c * CHUNK, 0, True, True, False, 0, state, seen, messages[1], messages[0], noise[c], nothing,
                table, estimate_state, noise_scale, mean, std, drift, key, component, trial,
                indptr, indices, gossip, 0.0, by_agent, estimates,
            )  # fmt: skip
    for t in range(start, stop):
        h = int(np.searchsorted(horizons, t + 1))
        asked = bool(h < horizons.size and horizons[h] == t + 1)
        goal = target[h] if asked else 0.0
        following = t + 1 < rounds
        now, then = t % 2, (t + 1) % 2
        upcoming = given[t + 1 - start] if given.shape[0] and following else seen[:0]
        for c in prange(chunks):
            errors[c] = _agent_chunk(
                c * CHUNK, t, False, following, asked, h, state, seen, messages[now], messages[then], noise[c],
                upcoming, table, estimate_state, noise_scale, mean, std, drift, key, component, trial,
                indptr, indices, gossip, goal, by_agent, estimates,
            )  # fmt: skip
        if asked:
            # Summed in chunk order, so that the number of threads does not show in the last digits.
            total = 0.0
            for c in range(chunks):
                total += errors[c]
            by_trial[h] += total
