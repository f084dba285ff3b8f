"""Compiled loops of policy evaluation: sampled transitions, and distributed TD(0) in its two forms.

Trials run in parallel; within a trial, arrays are states x agents. The next state of state j in round t and the
reward noise of agent i there are pure functions of (seed, trial, j, t) and (seed, trial, i, j, t), so temporal
differences and plug-in estimates see exactly the same samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import prange

from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.numerics.compiling import contracted, parallel, parallel_contracted
from gossamer.numerics.random import OBSERVATION, fill_normals_agents, words
from gossamer.numerics.sparse import SparseRows

TRANSITION = 16
"""A purpose in addition to those of `numerics.random`: the common next states."""

_UNIT = 2.0**-32


class RewardProcess(NamedTuple):
    """The Markov reward process: transitions on a sparsity pattern, and every agent's rewards.

    From state j the process goes to a state indices[place] with indptr[j] <= place < indptr[j + 1].
    """

    indptr: AnyArray
    indices: AnyArray
    cumulative: Floats  #: along each row; the last of a row exceeds any uniform
    rewards: Floats  #: (S, N)
    std: Floats  #: (S, N)


class Learning(NamedTuple):
    """The steps of temporal differences, and when to report."""

    steps: Floats  #: (T,)
    discount: float
    radius: float  #: of the ball onto which theta is projected; infinite: no projection
    averaged: bool  #: report the average of all thetas, weighted by the steps, in place of the last
    horizons: Integers  #: (H,) ascending


class Stretch(NamedTuple):
    """The rounds of one call, their initial and final state, and rewards from other streams."""

    begin: int  #: a multiple of four
    end: int
    theta: Floats  #: (trials, rows, N)
    average: Floats  #: (trials, rows, N) the sum of all thetas so far, times their steps
    drawn: Floats  #: (rounds, N, S, trials) in place of normal numbers; empty: those are drawn here


class Visits(NamedTuple):
    """The features and the distribution of states, if one state is sampled per round."""

    features: Floats  #: (S, p)
    cumulative: Floats  #: (S,) distribution of the sampled state


class StateDraws(NamedTuple):
    """A sequence of random numbers: the key of a seed, a trial, a stream (such as a state) and a component."""

    key: np.uint64
    trial: int
    stream: int
    component: int


@contracted
def _find(cumulative: Floats, start: int, stop: int, u: float) -> int:
    """Return the first position in start..stop-1 whose cumulative probability exceeds u."""
    low, high = start, stop - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@contracted
def _draw_places(
    out: Integers, draws: StateDraws, quad: int, cumulative: Floats, start: int, stop: int
) -> None:
    """Return draws of four rounds from the distribution in cumulative[start:stop], as positions, not states."""
    if stop - start == 1:
        out[:] = start
        return
    w0, w1, w2, w3 = words(draws.key, TRANSITION, quad, draws.stream, draws.component, draws.trial)
    out[0] = _find(cumulative, start, stop, (float(w0) + 0.5) * _UNIT)
    out[1] = _find(cumulative, start, stop, (float(w1) + 0.5) * _UNIT)
    out[2] = _find(cumulative, start, stop, (float(w2) + 0.5) * _UNIT)
    out[3] = _find(cumulative, start, stop, (float(w3) + 0.5) * _UNIT)


@parallel
def count_transitions(
    counts: Integers,  # (trials, H, nnz)
    key: np.uint64,
    first_trial: int,
    horizons: Integers,  # ascending
    indptr: AnyArray,
    cumulative: Floats,
) -> None:
    """Count how often each transition was drawn in the first horizons[h] rounds."""
    trials, count = counts.shape[0], horizons.size
    states = indptr.size - 1
    for task in prange(trials * states):
        trial, j = task // states, task % states
        start, stop = indptr[j], indptr[j + 1]
        places = np.empty(4, np.int64)
        draws = StateDraws(key, first_trial + trial, j, 0)
        begin = 0
        for h in range(count):
            if h > 0:
                for move in range(start, stop):
                    counts[trial, h, move] = counts[trial, h - 1, move]
            for t in range(begin, horizons[h]):
                if t % 4 == 0:
                    _draw_places(places, draws, t // 4, cumulative, start, stop)
                counts[trial, h, places[t % 4]] += 1
            begin = horizons[h]


@contracted
def _project(theta: Floats, radius: float) -> None:
    """Project the columns (one per agent) of theta onto the ball."""
    rows, agents = theta.shape
    for i in range(agents):
        square = 0.0
        for j in range(rows):
            square += theta[j, i] * theta[j, i]
        if square > radius * radius:
            scale = radius / math.sqrt(square)
            for j in range(rows):
                theta[j, i] *= scale


@contracted
def _report(out: Floats, theta: Floats, average: Floats, weight: float, averaged: bool) -> None:
    rows, agents = theta.shape
    for j in range(rows):
        for i in range(agents):
            out[i, j] = average[j, i] / weight if averaged else theta[j, i]


@contracted
def _copy(source: Floats, target: Floats) -> None:
    """Copy element by element: slice assignments in loops over `prange` gave wrong values after `theta` and `fresh`
    were swapped."""
    rows, agents = source.shape
    for j in range(rows):
        for i in range(agents):
            target[j, i] = source[j, i]


@contracted
def _so_far(begin: int, steps: Floats, horizons: Integers) -> tuple[float, int]:
    """Return the sum of the steps of the rounds before `begin`, and the number of horizons reported by then."""
    weight, h = 0.0, 0
    for t in range(begin):
        weight += steps[t]
    while h < horizons.size and horizons[h] <= begin:
        h += 1
    return weight, h


@parallel_contracted
def generative(
    out: Floats,  # (trials, H, N, S)
    key: np.uint64,
    first_trial: int,
    process: RewardProcess,
    learning: Learning,
    gossip: SparseRows,
    piece: Stretch,
) -> None:
    """Theta <- W Theta + alpha_k (R_k + gamma Z_k Theta - Theta), every state sampled in every round."""
    indptr, indices, cumulative, rewards, std = process
    steps, discount, radius, averaged, horizons = learning
    states, agents = rewards.shape
    for trial in prange(out.shape[0]):
        theta, fresh, average = np.empty((states, agents)), np.empty((states, agents)), piece.average[trial]
        _copy(piece.theta[trial], theta)
        noise = np.empty((states, 4, agents))
        places = np.empty((states, 4), np.int64)
        weight, h = _so_far(piece.begin, steps, horizons)
        for t in range(piece.begin, piece.end):
            a, now = steps[t], t % 4
            if averaged:
                weight += a
                for j in range(states):
                    for i in range(agents):
                        average[j, i] += a * theta[j, i]
            for j in range(states):
                if now == 0:
                    draws = StateDraws(key, first_trial + trial, j, 0)
                    if piece.drawn.size == 0:
                        fill_normals_agents(noise[j], key, OBSERVATION, t // 4, 0, j, first_trial + trial)
                    _draw_places(places[j], draws, t // 4, cumulative, indptr[j], indptr[j + 1])
                if piece.drawn.size > 0:
                    noise[j, now] = piece.drawn[t - piece.begin, :, j, trial]
                mine, following, drawn = theta[j], theta[indices[places[j, now]]], noise[j, now]
                for i in range(agents):
                    mixed = 0.0
                    for e in range(gossip.indptr[i], gossip.indptr[i + 1]):
                        mixed += gossip.data[e] * mine[gossip.indices[e]]
                    reward = rewards[j, i] + std[j, i] * drawn[i]
                    fresh[j, i] = mine[i] - mixed + a * (reward + discount * following[i] - mine[i])
            theta, fresh = fresh, theta
            if radius < np.inf:
                _project(theta, radius)
            while h < horizons.size and horizons[h] == t + 1:
                _report(out[trial, h], theta, average, weight, averaged)
                h += 1
        _copy(theta, piece.theta[trial])


@parallel_contracted
def independent(
    out: Floats,  # (trials, H, N, p)
    key: np.uint64,
    first_trial: int,
    process: RewardProcess,
    learning: Learning,
    gossip: SparseRows,
    piece: Stretch,
    visits: Visits,
) -> None:
    """theta_i <- sum_j W_ij theta_j + alpha_k delta_i phi(s), one state s and its next state s' per round, where
    delta_i = R_i + gamma phi(s')'theta_i - phi(s)'theta_i."""
    indptr, indices, cumulative, rewards, std = process
    steps, discount, radius, averaged, horizons = learning
    states, agents = rewards.shape
    features, size = visits.features, visits.features.shape[1]
    for trial in prange(out.shape[0]):
        theta, fresh, average = np.empty((size, agents)), np.empty((size, agents)), piece.average[trial]
        _copy(piece.theta[trial], theta)
        noise = np.empty((4, agents))
        change = np.empty(agents)
        visited = np.empty(4, np.int64)
        moves = np.empty(4, np.int64)
        visit, move = StateDraws(key, first_trial + trial, 0, 1), StateDraws(key, first_trial + trial, 0, 2)
        weight, h = _so_far(piece.begin, steps, horizons)
        for t in range(piece.begin, piece.end):
            a, now = steps[t], t % 4
            if averaged:
                weight += a
                for j in range(size):
                    for i in range(agents):
                        average[j, i] += a * theta[j, i]
            if now == 0:
                if piece.drawn.size == 0:
                    fill_normals_agents(noise, key, OBSERVATION, t // 4, 0, 0, first_trial + trial)
                _draw_places(visited, visit, t // 4, visits.cumulative, 0, states)
            s = visited[now]
            if piece.drawn.size > 0:
                noise[now] = piece.drawn[t - piece.begin, :, s, trial]
            # Each round has its own word for the next state, because the state changes from round to round.
            _draw_places(moves, move, t, cumulative, indptr[s], indptr[s + 1])
            after = indices[moves[0]]
            for i in range(agents):
                change[i] = rewards[s, i] + std[s, i] * noise[now, i]
            for j in range(size):
                factor = discount * features[after, j] - features[s, j]
                if factor != 0.0:
                    for i in range(agents):
                        change[i] += factor * theta[j, i]
            for j in range(size):
                push = a * features[s, j]
                for i in range(agents):
                    mixed = 0.0
                    for e in range(gossip.indptr[i], gossip.indptr[i + 1]):
                        mixed += gossip.data[e] * theta[j, gossip.indices[e]]
                    fresh[j, i] = theta[j, i] - mixed + push * change[i]
            theta, fresh = fresh, theta
            if radius < np.inf:
                _project(theta, radius)
            while h < horizons.size and horizons[h] == t + 1:
                _report(out[trial, h], theta, average, weight, averaged)
                h += 1
        _copy(theta, piece.theta[trial])
