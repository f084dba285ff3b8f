"""The compiled loop of a network with faults: agents, edges and a block of trials, round by round.

By the ledger's rules, edges carry the registers that gossip changes. By the skip rule nothing lives on edges: all
registers are local, and what an agent mixes is the sum over the neighbors that it hears.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Flags, Floats, Integers
from gossamer.faults.kernels import ChainDraws, fill_heard
from gossamer.numerics.compiling import compiled


class EdgeList(NamedTuple):
    """Edge e joins agents low[e] < high[e]; link 2e is what `low` hears from `high`, link 2e + 1 the converse.

    Both the messages and the ends' ledgers are numbered by these links: ledger 2e is kept by `low`.
    """

    low: Integers  #: (E,)
    high: Integers  #: (E,)
    weight: Floats  #: (E,) -L_ij
    senders: Integers  #: (2E,)
    receivers: Integers  #: (2E,)
    indptr: Integers  #: (N + 1,) an agent's own links are own[indptr[i]:indptr[i + 1]]
    own: Integers  #: (2E,)


class LedgerTable(NamedTuple):
    """A method's table (see methods/table.py) with its registers told apart."""

    message_state: Floats
    message_observation: Floats
    step_state: Floats
    step_observation: Floats
    step_mixed: Floats
    ledger: Integers  #: registers that live on the edges; none by the skip rule
    local: Integers  #: all others


class LedgerMemory(NamedTuple):
    """All that a block of B trials carries from round to round (n components, R registers, Q on edges)."""

    registers: Floats  #: (N, R, n, B); those of the ledger are sums over the agent's links
    ledgers: Floats  #: (2E, Q, n, B)
    last_heard: NDArray[np.int32]  #: (2E, B) the last round in which the link's message arrived; -1: none yet
    settled: Flags  #: (2E, B) whether the end has compared its ledger since it began
    echoed: Flags  #: (2E, B) whether the other end ever said that it heard this one since it began
    chains: Flags  #: (K, 2E, B) states of the random link faults
    heard: Flags  #: (4, 2E, B) which messages of the current four rounds arrive
    clock: Integers  #: (N,) rounds in which the agent has taken part
    born: Integers  #: (N,) the round in which it began, or came back


class Phase(NamedTuple):
    """Rounds start .. stop - 1, in which nobody joins or crashes and no partition begins or heals."""

    start: int
    stop: int
    alive: Flags  #: (N,)
    up: Flags  #: (2E,) links between agents that are alive, cut by no partition
    dropped: Integers  #: links from agents that are declared dead at the start
    begun: Integers  #: agents that begin or come back at the start


class Rules(NamedTuple):
    """How an agent treats a neighbor that it does not hear."""

    silence: int  #: A of the ledger's rules
    skip: bool  #: no ledger: leave the neighbor out of the sum


@compiled
def play_rounds(
    memory: LedgerMemory,
    edges: EdgeList,
    table: LedgerTable,
    draws: ChainDraws,
    rules: Rules,
    phase: Phase,
    first_round: int,
    observations: Floats,
) -> None:
    """Play as many rounds of a phase, from `first_round` on, as there are `observations` (rounds, N, n, B)."""
    agents, _, components, trials = memory.registers.shape
    messages = np.empty((agents, components, trials))
    mixed = np.zeros((agents if rules.skip else 0, components, trials))
    scratch = np.empty((3, len(table.ledger), trials))
    updated = np.empty((len(table.local), components, trials))
    for t in range(first_round, first_round + len(observations)):
        if t % 4 == 0 and len(draws.chains):
            fill_heard(memory.heard, memory.chains, draws, t // 4, edges.senders, edges.receivers)
        observation = observations[t - first_round]
        add_ledgers(memory, edges, table, phase.alive)
        _speak(messages, memory, table, observation, phase.alive)
        if rules.skip:
            _mix_heard(mixed, memory, edges, messages, phase.up, t)
        else:
            _exchange(memory, edges, table, rules, messages, phase.up, t, scratch)
        _step_locally(memory, table, observation, mixed, phase.alive, updated)


@compiled
def _add(total: Floats, weight: float, terms: Floats) -> None:
    """total += weight * terms for arrays of (components, trials), in loops that compile fast."""
    for c in range(total.shape[0]):
        for b in range(total.shape[1]):
            total[c, b] += weight * terms[c, b]


@compiled
def add_ledgers(memory: LedgerMemory, edges: EdgeList, table: LedgerTable, alive: Flags) -> None:
    """x_i = sum_j g_ij: set the registers that live on the edges from the ledgers."""
    for i in range(len(alive)):
        if alive[i]:
            for q in range(len(table.ledger)):
                total = memory.registers[i, table.ledger[q]]
                total[:] = 0.0
                for place in range(edges.indptr[i], edges.indptr[i + 1]):
                    _add(total, 1.0, memory.ledgers[edges.own[place], q])


@compiled
def _speak(
    messages: Floats, memory: LedgerMemory, table: LedgerTable, observation: Floats, alive: Flags
) -> None:
    """What every agent tells its neighbors, by its own clock."""
    for i in range(len(alive)):
        if alive[i]:
            now = memory.clock[i]
            messages[i] = 0.0
            _add(messages[i], table.message_observation[now], observation[i])
            for r in range(memory.registers.shape[1]):
                _add(messages[i], table.message_state[now, r], memory.registers[i, r])


@compiled
def _mix_heard(
    mixed: Floats, memory: LedgerMemory, edges: EdgeList, messages: Floats, up: Flags, t: int
) -> None:
    """mixed_i = sum over the neighbors j that agent i hears of w_ij (m_i - m_j)."""
    components, trials = messages.shape[1:]
    mixed[:] = 0.0
    for e in range(len(edges.weight)):
        for side in range(2):
            link = 2 * e + side
            if up[link]:
                me, other = edges.receivers[link], edges.senders[link]
                for c in range(components):
                    for b in range(trials):
                        if memory.heard[t % 4, link, b]:
                            mixed[me, c, b] += edges.weight[e] * (messages[me, c, b] - messages[other, c, b])


@compiled
def _exchange(
    memory: LedgerMemory,
    edges: EdgeList,
    table: LedgerTable,
    rules: Rules,
    messages: Floats,
    up: Flags,
    t: int,
    scratch: Floats,
) -> None:
    """The rules of the ledger, edge by edge; both ends see what the other had before this round."""
    components, trials = messages.shape[1:]
    size = len(table.ledger)
    low_old, high_old, moved = scratch[0], scratch[1], scratch[2]
    arrived = np.empty((2, trials), dtype=np.bool_)
    moves = np.empty((2, trials), dtype=np.bool_)
    alone = np.empty((2, trials), dtype=np.bool_)  # never heard by the other, and the first rounds are over
    difference, mixed = np.empty(trials), np.empty(trials)
    for e in range(len(edges.weight)):
        low, high = 2 * e, 2 * e + 1
        ends = (edges.low[e], edges.high[e])
        if not (up[low] or up[high]):
            continue
        for b in range(trials):
            for side in range(2):
                arrived[side, b] = up[low + side] and memory.heard[t % 4, low + side, b]
                born = memory.born[ends[side]]
                unheard = t - _last_heard(memory.last_heard[high - side, b], born)
                moves[side, b] = arrived[side, b] and unheard <= rules.silence
                if arrived[side, b] and memory.last_heard[high - side, b] >= born:
                    memory.echoed[low + side, b] = 1
                unknown = memory.echoed[low + side, b] == 0 and unheard > rules.silence
                alone[side, b] = arrived[side, b] and unknown
        for c in range(components):
            for b in range(trials):
                difference[b] = edges.weight[e] * (messages[ends[0], c, b] - messages[ends[1], c, b])
            for q in range(size):
                for b in range(trials):
                    mine, theirs = memory.ledgers[low, q, c, b], memory.ledgers[high, q, c, b]
                    low_is_right = memory.settled[low, b] >= memory.settled[high, b]
                    adopts = alone[1, b] or (arrived[1, b] and low_is_right)
                    high_old[q, b] = -mine if adopts else theirs
                    adopts = alone[0, b] or (arrived[0, b] and not low_is_right)
                    low_old[q, b] = -theirs if adopts else mine
            for side in range(2):
                old = low_old if side == 0 else high_old
                sign = 1.0 if side == 0 else -1.0
                for b in range(trials):
                    mixed[b] = sign * difference[b]
                _update(moved, old, table, t, mixed)
                for q in range(size):
                    for b in range(trials):
                        memory.ledgers[low + side, q, c, b] = moved[q, b] if moves[side, b] else old[q, b]
        for b in range(trials):
            for side in range(2):
                if arrived[side, b]:
                    memory.last_heard[low + side, b] = t
                    memory.settled[low + side, b] = 1


@compiled
def _last_heard(echo: int, born: int) -> int:
    """The round in which the other end last heard this one, from the round that it echoes (-1: none yet).

    None yet counts from this end's own beginning, so that agents that begin together move in their first
    round. An echo from before a restart counts as never.
    """
    if echo < 0:
        return born
    return echo if echo >= born else -(1 << 40)


@compiled
def _update(moved: Floats, old: Floats, table: LedgerTable, t: int, mixed: Floats) -> None:
    """The method's own step, applied to one end's ledger; `mixed` is the edge's share of what that end mixes."""
    for q in range(len(table.ledger)):
        row = table.ledger[q]
        gain = table.step_mixed[t, row]
        for b in range(len(mixed)):
            moved[q, b] = gain * mixed[b]
        for p in range(len(table.ledger)):
            weight = table.step_state[t, row, table.ledger[p]]
            if weight != 0.0:
                for b in range(len(mixed)):
                    moved[q, b] += weight * old[p, b]


@compiled
def _step_locally(
    memory: LedgerMemory,
    table: LedgerTable,
    observation: Floats,
    mixed: Floats,
    alive: Flags,
    updated: Floats,
) -> None:
    """Registers that do not live on edges; each agent goes by its own clock. Those beside a ledger mix nothing."""
    for i in range(len(alive)):
        if alive[i]:
            now = memory.clock[i]
            updated[:] = 0.0
            for r in range(len(table.local)):
                row = table.local[r]
                _add(updated[r], table.step_observation[now, row], observation[i])
                if len(mixed):
                    _add(updated[r], table.step_mixed[now, row], mixed[i])
                for s in range(memory.registers.shape[1]):
                    _add(updated[r], table.step_state[now, row, s], memory.registers[i, s])
            for r in range(len(table.local)):
                memory.registers[i, table.local[r]] = updated[r]
            memory.clock[i] += 1
