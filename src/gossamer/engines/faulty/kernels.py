"""The compiled loop of the edge ledger: agents, edges and a block of trials, round by round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gossamer.faults.kernels import fill_heard

_Function = TypeVar("_Function", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.uint8]


def _compiled(function: _Function) -> _Function:
    return cast(_Function, njit(cache=True, nogil=True, error_model="numpy")(function))


class Graph(NamedTuple):
    """Edge e joins agents low[e] < high[e]; link 2e is what `low` hears of `high`, link 2e + 1 the converse.

    Both the messages and the ends' ledgers are numbered by these links: ledger 2e is kept by `low`.
    """

    low: Numbers  #: (E,)
    high: Numbers  #: (E,)
    weight: Floats  #: (E,) -L_ij
    senders: Numbers  #: (2E,)
    receivers: Numbers  #: (2E,)
    indptr: Numbers  #: (N + 1,) an agent's own links are own[indptr[i]:indptr[i + 1]]
    own: Numbers  #: (2E,)


class Coefficients(NamedTuple):
    """A method's table (see methods/table.py) with its registers told apart."""

    message_state: Floats
    message_observation: Floats
    step_state: Floats
    step_observation: Floats
    step_mixed: Floats
    ledger: Numbers  #: registers that live on the edges
    local: Numbers  #: all others


class Memory(NamedTuple):
    """All that a block of B trials carries from round to round (n components, R registers, Q on edges)."""

    registers: Floats  #: (N, R, n, B); those of the ledger are sums over the agent's links
    ledgers: Floats  #: (2E, Q, n, B)
    last_heard: NDArray[np.int32]  #: (2E, B) the last round in which the link's message arrived; -1: none yet
    settled: Flags  #: (2E, B) whether the end has compared its ledger since it began
    echoed: Flags  #: (2E, B) whether the other end ever said that it heard this one since it began
    chains: Flags  #: (K, 2E, B) states of the random link faults
    heard: Flags  #: (4, 2E, B) which messages of the present four rounds arrive
    clock: Numbers  #: (N,) rounds in which the agent has taken part
    born: Numbers  #: (N,) the round in which it began, or came back


@_compiled
def run(
    memory: Memory,
    graph: Graph,
    method: Coefficients,
    observations: Floats,
    alive: Flags,
    up: Flags,
    chains: Floats,
    key: np.uint64,
    first_round: int,
    first_trial: int,
    heard_within: int,
    skip: bool,
) -> None:
    """Advance by the rounds of `observations` (rounds, N, n, B), in which nobody comes, goes or is cut off.

    `alive` (N,) and `up` (2E,) tell which agents take part and which links can carry messages at all.
    """
    agents, _, components, trials = memory.registers.shape
    messages = np.empty((agents, components, trials))
    scratch = np.empty((3, len(method.ledger), trials))
    updated = np.empty((len(method.local), components, trials))
    for t in range(first_round, first_round + len(observations)):
        if t % 4 == 0 and len(chains):
            fill_heard(
                memory.heard, memory.chains, chains, key, t // 4, graph.senders, graph.receivers, first_trial
            )
        y = observations[t - first_round]
        add_ledgers(memory, graph, method, alive)
        _speak(messages, memory, method, y, alive)
        _exchange(memory, graph, method, messages, up, t, heard_within, skip, scratch)
        _step_locally(memory, method, y, alive, updated)


@_compiled
def _add(total: Floats, weight: float, terms: Floats) -> None:
    """total += weight * terms for arrays of (components, trials), in loops that compile fast."""
    for c in range(total.shape[0]):
        for b in range(total.shape[1]):
            total[c, b] += weight * terms[c, b]


@_compiled
def add_ledgers(memory: Memory, graph: Graph, method: Coefficients, alive: Flags) -> None:
    """x_i = sum_j g_ij: set the registers that live on the edges from the ledgers."""
    for i in range(len(alive)):
        if alive[i]:
            for q in range(len(method.ledger)):
                total = memory.registers[i, method.ledger[q]]
                total[:] = 0.0
                for place in range(graph.indptr[i], graph.indptr[i + 1]):
                    _add(total, 1.0, memory.ledgers[graph.own[place], q])


@_compiled
def _speak(messages: Floats, memory: Memory, method: Coefficients, y: Floats, alive: Flags) -> None:
    for i in range(len(alive)):
        if alive[i]:
            now = memory.clock[i]
            messages[i] = 0.0
            _add(messages[i], method.message_observation[now], y[i])
            for r in range(memory.registers.shape[1]):
                _add(messages[i], method.message_state[now, r], memory.registers[i, r])


@_compiled
def _exchange(
    memory: Memory,
    graph: Graph,
    method: Coefficients,
    messages: Floats,
    up: Flags,
    t: int,
    heard_within: int,
    skip: bool,
    scratch: Floats,
) -> None:
    """The rules of the ledger, edge by edge; both ends see what the other had before this round."""
    components, trials = messages.shape[1:]
    size = len(method.ledger)
    low_old, high_old, moved = scratch[0], scratch[1], scratch[2]
    arrived = np.empty((2, trials), dtype=np.bool_)
    moves = np.empty((2, trials), dtype=np.bool_)
    alone = np.empty((2, trials), dtype=np.bool_)  # never heard by the other, and the first rounds are over
    difference = np.empty(trials)
    for e in range(len(graph.weight)):
        low, high = 2 * e, 2 * e + 1
        ends = (graph.low[e], graph.high[e])
        if not (up[low] or up[high]) and not skip:
            continue
        for b in range(trials):
            for side in range(2):
                arrived[side, b] = up[low + side] and memory.heard[t % 4, low + side, b]
                born = memory.born[ends[side]]
                unheard = t - _last_heard(memory.last_heard[high - side, b], born)
                moves[side, b] = arrived[side, b] and unheard <= heard_within
                if arrived[side, b] and memory.last_heard[high - side, b] >= born:
                    memory.echoed[low + side, b] = 1
                unknown = memory.echoed[low + side, b] == 0 and unheard > heard_within
                alone[side, b] = arrived[side, b] and unknown
        for c in range(components):
            for b in range(trials):
                difference[b] = graph.weight[e] * (messages[ends[0], c, b] - messages[ends[1], c, b])
            for q in range(size):
                for b in range(trials):
                    mine, theirs = memory.ledgers[low, q, c, b], memory.ledgers[high, q, c, b]
                    low_is_right = memory.settled[low, b] >= memory.settled[high, b]
                    adopts = (alone[1, b] or (arrived[1, b] and low_is_right)) and not skip
                    high_old[q, b] = -mine if adopts else theirs
                    adopts = (alone[0, b] or (arrived[0, b] and not low_is_right)) and not skip
                    low_old[q, b] = -theirs if adopts else mine
            for side in range(2):
                old = low_old if side == 0 else high_old
                sign = 1.0 if side == 0 else -1.0
                _update(moved, old, method, t, sign, difference, arrived[side], skip)
                for q in range(size):
                    for b in range(trials):
                        go = moves[side, b] or skip
                        memory.ledgers[low + side, q, c, b] = moved[q, b] if go else old[q, b]
        for b in range(trials):
            for side in range(2):
                if arrived[side, b]:
                    memory.last_heard[low + side, b] = t
                    memory.settled[low + side, b] = 1


@_compiled
def _last_heard(echo: int, born: int) -> int:
    """The round in which the other end last heard this one, from the round that it echoes (-1: none yet).

    None yet counts from this end's own beginning, so that agents that begin together move in their first
    round. An echo of an earlier life counts as never.
    """
    if echo < 0:
        return born
    return echo if echo >= born else -(1 << 40)


@_compiled
def _update(
    moved: Floats,
    old: Floats,
    method: Coefficients,
    t: int,
    sign: float,
    difference: Floats,
    arrived: NDArray[np.bool_],
    skip: bool,
) -> None:
    """The method's own step, applied to one end's ledger; the edge's `mixed` is its weighted difference."""
    for q in range(len(method.ledger)):
        row = method.ledger[q]
        gain = sign * method.step_mixed[t, row]
        for b in range(len(difference)):
            # Naive skipping leaves the missing neighbor out of the sum and goes on.
            moved[q, b] = 0.0 if skip and not arrived[b] else gain * difference[b]
        for p in range(len(method.ledger)):
            weight = method.step_state[t, row, method.ledger[p]]
            if weight != 0.0:
                for b in range(len(difference)):
                    moved[q, b] += weight * old[p, b]


@_compiled
def _step_locally(memory: Memory, method: Coefficients, y: Floats, alive: Flags, updated: Floats) -> None:
    """Registers that do not live on edges; each agent goes by its own clock."""
    for i in range(len(alive)):
        if alive[i]:
            now = memory.clock[i]
            updated[:] = 0.0
            for r in range(len(method.local)):
                row = method.local[r]
                _add(updated[r], method.step_observation[now, row], y[i])
                for s in range(memory.registers.shape[1]):
                    _add(updated[r], method.step_state[now, row, s], memory.registers[i, s])
            for r in range(len(method.local)):
                memory.registers[i, method.local[r]] = updated[r]
            memory.clock[i] += 1
