"""The compiled loop of a simulation with faults: agents, edges and a block of trials, round by round.

By the ledger's rules, edges carry the registers that gossip changes. By the skip rule nothing lives on edges: all
registers are local, and `mixed` is a sum over the neighbors that the agent hears.
"""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Flags, Floats, Integers
from gossamer.engines.faulty.memory import EdgeList, LedgerMemory, LedgerTable, Rules
from gossamer.faults.link_draws import ChainDraws, fill_link, recall_states
from gossamer.methods.ledger import COMPARED, DROPPED, NEW, QUIET
from gossamer.numerics.compiling import compiled

STRETCH = 4096
"""Number of values of one register that fit in the cache together with those of the other registers."""


@compiled
def play_rounds(
    memory: LedgerMemory,
    edges: EdgeList,
    table: LedgerTable,
    draws: ChainDraws,
    rules: Rules,
    alive: Flags,
    first_round: int,
    observations: Floats,
) -> None:
    """Play as many rounds of a phase, from `first_round` on, as there are `observations` (rounds, N, n, B)."""
    agents, _, components, trials = memory.registers.shape
    messages = np.empty((agents, components, trials))
    mixed = np.zeros((agents if rules.skip else 0, components, trials))
    scratch = np.empty((3, len(table.ledger), trials))
    updated = np.empty((len(table.local), trials))
    stretch = max(1, STRETCH // (components * trials))
    if not rules.changing:
        add_ledgers(memory, edges, table, alive)
    for k in range(len(observations)):
        t = first_round + k
        present = range(edges.start[k], edges.stop[k])
        if len(draws.chains):
            _listen(memory, edges, draws, t // 4, present)
        if rules.skip:
            all_agents = range(agents)
            _speak(messages, memory, table, observations[k], alive, all_agents)
            _mix_heard(mixed, memory, edges, messages, t, present)
            _step_locally(memory, table, observations[k], mixed, alive, all_agents, updated)
        else:  # a stretch of agents at a time, while their registers are in the cache
            for first in range(0, agents, stretch):
                block = range(first, min(first + stretch, agents))
                _speak(messages, memory, table, observations[k], alive, block)
                _step_locally(memory, table, observations[k], mixed, alive, block, updated)
        if rules.reliable:
            _exchange_reliably(memory, edges, table, messages, t, present, scratch)
        elif not rules.skip:
            if len(rules.quiet):
                _choose_speakers(memory, edges, rules, messages, t)
            _exchange(memory, edges, table, rules, messages, t, present, scratch)
            _return_flows(memory, table, rules, alive)
        if not rules.changing:
            add_ledgers(memory, edges, table, alive)
        _watch(memory, table, observations[k], alive)


@compiled
def _watch(memory: LedgerMemory, table: LedgerTable, observation: Floats, alive: Flags) -> None:
    """Extend the ranges of all observations and estimates so far by those of this round."""
    components, trials = observation.shape[1:]
    estimate = np.empty(trials)
    for i in range(len(alive)):
        now = memory.clock[i] - 1
        if not alive[i]:
            continue
        for c in range(components):
            for b in range(trials):
                memory.observed[0, c, b] = min(memory.observed[0, c, b], observation[i, c, b])
                memory.observed[1, c, b] = max(memory.observed[1, c, b], observation[i, c, b])
            if not table.answers[now]:
                continue
            estimate[:] = 0.0
            for r in range(memory.registers.shape[1]):
                weight = table.estimate_state[now, r]
                if weight != 0.0:
                    for b in range(trials):
                        estimate[b] += weight * memory.registers[i, r, c, b]
            for b in range(trials):
                memory.answered[0, c, b] = min(memory.answered[0, c, b], estimate[b])
                memory.answered[1, c, b] = max(memory.answered[1, c, b], estimate[b])


@compiled
def _listen(memory: LedgerMemory, edges: EdgeList, draws: ChainDraws, quad: int, present: range) -> None:
    """Draw which messages of four rounds arrive, on the links where this has not been drawn yet."""
    for k in present:
        e = edges.edge[k]
        for side in range(2):
            link = 2 * e + side
            if memory.filled[link] != quad:
                sender, receiver = (edges.low[e], edges.high[e]) if side else (edges.high[e], edges.low[e])
                states = memory.chains[:, link]
                if memory.filled[link] != quad - 1:
                    recall_states(states, draws, 4 * quad - 1, sender, receiver)
                fill_link(memory.heard[:, link], states, draws, quad, sender, receiver)
                memory.filled[link] = quad


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
                for k in range(edges.indptr[i], edges.indptr[i + 1]):
                    _add(total, 1.0, memory.ledgers[edges.own[k], q])
                if len(memory.returning):
                    _add(total, 1.0, memory.returning[i, q])


@compiled
def _return_flows(memory: LedgerMemory, table: LedgerTable, rules: Rules, alive: Flags) -> None:
    """Shrink what is left of the flows of dropped edges."""
    size, components, trials = memory.returning.shape[1:]
    for i in range(len(memory.returning)):
        if alive[i]:
            for q in range(size):
                for c in range(components):
                    for b in range(trials):
                        left = rules.return_rate * memory.returning[i, q, c, b]
                        if rules.changing and q == table.flow:
                            change = left - memory.returning[i, q, c, b]
                            memory.registers[i, table.ledger[q], c, b] += change
                        memory.returning[i, q, c, b] = left


@compiled
def _speak(
    messages: Floats,
    memory: LedgerMemory,
    table: LedgerTable,
    observation: Floats,
    alive: Flags,
    block: range,
) -> None:
    """Compute the messages of the agents in `block`, each by its own clock."""
    components, trials = messages.shape[1:]
    for i in block:
        if alive[i]:
            now = memory.clock[i]
            for c in range(components):
                weight = table.message_observation[now]
                for b in range(trials):
                    messages[i, c, b] = 0.0 + weight * observation[i, c, b]
                for r in range(memory.registers.shape[1]):
                    weight = table.message_state[now, r]
                    if weight != 0.0:
                        for b in range(trials):
                            messages[i, c, b] += weight * memory.registers[i, r, c, b]


@compiled
def _choose_speakers(memory: LedgerMemory, edges: EdgeList, rules: Rules, messages: Floats, t: int) -> None:
    """Decide which agents send in round t: all every `silence` rounds, otherwise those with news for or from a
    neighbor."""
    agents, components, trials = messages.shape
    for i in range(agents):
        own = edges.own[edges.indptr[i] : edges.indptr[i + 1]]
        for b in range(trials):
            speaks = t % rules.silence == 0
            for c in range(components):
                limit = rules.quiet[c] / np.sqrt(t + 1.0)
                speaks = speaks or not abs(messages[i, c, b] - memory.told[i, c, b]) < limit
                for link in own:
                    speaks = speaks or not abs(messages[i, c, b] - memory.held[link, c, b]) < limit
            if speaks:
                memory.sent[b] += len(own)
                for c in range(components):
                    memory.told[i, c, b] = messages[i, c, b]
            memory.speaks[i, b] = speaks


@compiled
def _mix_heard(
    mixed: Floats, memory: LedgerMemory, edges: EdgeList, messages: Floats, t: int, present: range
) -> None:
    """mixed_i = sum over the neighbors j that agent i hears of w_ij (m_i - m_j)."""
    components, trials = messages.shape[1:]
    mixed[:] = 0.0
    for k in present:
        e = edges.edge[k]
        ends = (edges.low[e], edges.high[e])
        for side in range(2):
            me, other, link = ends[side], ends[1 - side], 2 * e + side
            for c in range(components):
                for b in range(trials):
                    if memory.heard[t % 4, link, b]:
                        mixed[me, c, b] += edges.weight[k] * (messages[me, c, b] - messages[other, c, b])


@compiled
def _exchange(
    memory: LedgerMemory,
    edges: EdgeList,
    table: LedgerTable,
    rules: Rules,
    messages: Floats,
    t: int,
    present: range,
    scratch: Floats,
) -> None:
    """Apply the rules of the ledger to each edge; both ends see what the other had before this round."""
    components, trials = messages.shape[1:]
    size = len(table.ledger)
    low_old, high_old, moved = scratch[0], scratch[1], scratch[2]
    arrived = np.empty((2, trials), dtype=np.bool_)
    moves = np.empty((2, trials), dtype=np.bool_)
    alone = np.empty((2, trials), dtype=np.bool_)  # never heard by the other, and the first rounds are over
    standing = np.empty((2, trials), dtype=np.uint8)  # of the two ends, once they have read the other's echo
    difference, mixed = np.empty(trials), np.empty(trials)
    row = np.empty((2, trials), dtype=np.int64)  # of the table, by the age of each end's ledger
    quiet = len(rules.quiet) > 0
    for k in present:
        e = edges.edge[k]
        turn, fresh = t, False
        if rules.changing:
            turn, fresh = edges.turn[k], edges.fresh[k] == 1
        low, high = 2 * e, 2 * e + 1
        ends = (edges.low[e], edges.high[e])
        for b in range(trials):
            for side in range(2):
                arrived[side, b] = memory.heard[t % 4, low + side, b]
                if quiet and not memory.speaks[ends[1 - side], b]:
                    arrived[side, b] = False
            if fresh and rules.folds and _agree(memory, table.flow, e, b):
                _fold(memory, e, b, turn)
            for side in range(2):
                born, theirs = memory.born[low + side], memory.standing[high - side, b]
                unheard = turn - _last_heard(memory.last_heard[high - side, b], born)
                if (
                    arrived[side, b]
                    and theirs != DROPPED  # which echoes nothing
                    and memory.last_heard[high - side, b] >= born
                ):
                    memory.echoed[low + side, b] = 1
                mine = memory.standing[low + side, b]
                if mine == DROPPED and memory.echoed[low + side, b]:
                    mine = COMPARED
                standing[side, b] = mine
                dropped = mine == DROPPED or theirs == DROPPED
                moves[side, b] = arrived[side, b] and unheard <= rules.silence and not dropped
                unknown = memory.echoed[low + side, b] == 0 and unheard > rules.silence
                alone[side, b] = arrived[side, b] and unknown and mine != DROPPED
                if arrived[side, b] and theirs == DROPPED:
                    drop_flow(memory, ends[side], low + side, b)
                begins = theirs == DROPPED or memory.standing[low + side, b] == DROPPED
                if not rules.changing and mine == NEW and theirs == NEW:
                    begins = turn - born > rules.silence
                heard = memory.last_heard[low + side, b]
                if heard < born:
                    heard = born - 1
                if arrived[side, b] and begins:
                    memory.begun[low + side, b] = t
                if arrived[side, b] and (begins or unheard > 1 or heard < turn - 1):
                    memory.calm[low + side, b] = t + QUIET
                row[side, b] = t - memory.begun[low + side, b]
                if t < memory.calm[low + side, b]:
                    row[side, b] += rules.after_loss
        for c in range(components):
            for b in range(trials):
                difference[b] = edges.weight[k] * (messages[ends[0], c, b] - messages[ends[1], c, b])
            for q in range(size):
                source = table.flow if fresh else q
                for b in range(trials):
                    mine, theirs = memory.ledgers[low, source, c, b], memory.ledgers[high, source, c, b]
                    adopts = arrived[1, b] and memory.standing[low, b] >= standing[1, b]
                    high_old[q, b] = -mine if alone[1, b] or adopts else theirs
                    adopts = arrived[0, b] and memory.standing[high, b] > standing[0, b]
                    low_old[q, b] = -theirs if alone[0, b] or adopts else mine
            for side in range(2):
                old = low_old if side == 0 else high_old
                sign = 1.0 if side == 0 else -1.0
                for b in range(trials):
                    mixed[b] = sign * difference[b]
                _update(moved, old, table, row[side], mixed)
                for q in range(size):
                    for b in range(trials):
                        new = moved[q, b] if moves[side, b] else old[q, b]
                        if rules.changing and q == table.flow:
                            change = new - memory.ledgers[low + side, q, c, b]
                            memory.registers[ends[side], table.ledger[q], c, b] += change
                        memory.ledgers[low + side, q, c, b] = new
        for b in range(trials):
            both = memory.standing[low, b] == DROPPED and memory.standing[high, b] == DROPPED
            for side in range(2):
                if arrived[side, b]:
                    memory.last_heard[low + side, b] = turn
                    if quiet:
                        memory.held[low + side, :, b] = messages[ends[1 - side], :, b]
                    if both or standing[side, b] != DROPPED:
                        standing[side, b] = COMPARED
                else:
                    standing[side, b] = memory.standing[low + side, b]
            memory.standing[low, b], memory.standing[high, b] = standing[0, b], standing[1, b]


@compiled
def _exchange_reliably(
    memory: LedgerMemory,
    edges: EdgeList,
    table: LedgerTable,
    messages: Floats,
    t: int,
    present: range,
    scratch: Floats,
) -> None:
    """Do what `_exchange` does, to the last bit, on a changing network without loss, where one ledger per edge is
    enough."""
    components, trials = messages.shape[1:]
    size, x = len(table.ledger), table.ledger[table.flow]
    old, new, difference = scratch[0], scratch[1], np.empty(trials)
    row = np.full(trials, t)
    for k in present:
        e, weight, fresh = edges.edge[k], edges.weight[k], edges.fresh[k] == 1
        low, high = edges.low[e], edges.high[e]
        for c in range(components):
            for b in range(trials):
                difference[b] = weight * (messages[low, c, b] - messages[high, c, b])
            for q in range(size):
                for b in range(trials):  # an edge that comes up was folded, so its ledger begins at zero
                    old[q, b] = 0.0 if fresh else memory.ledgers[2 * e, q, c, b]
            _update(new, old, table, row, difference)
            for q in range(size):
                for b in range(trials):
                    memory.ledgers[2 * e, q, c, b] = new[q, b]
            for b in range(trials):
                moved = new[table.flow, b] - old[table.flow, b]
                memory.registers[low, x, c, b] += moved
                memory.registers[high, x, c, b] -= moved


@compiled
def drop_flow(memory: LedgerMemory, agent: int, link: int, b: int) -> None:
    """Restart one end of an edge; its flow so far returns slowly."""
    for q in range(memory.ledgers.shape[1]):
        for c in range(memory.ledgers.shape[2]):
            memory.returning[agent, q, c, b] += memory.ledgers[link, q, c, b]
            memory.ledgers[link, q, c, b] = 0.0


@compiled
def _agree(memory: LedgerMemory, flow: int, e: int, b: int) -> bool:
    """Return whether both ends have the same flow."""
    for c in range(memory.ledgers.shape[2]):
        if memory.ledgers[2 * e, flow, c, b] != -memory.ledgers[2 * e + 1, flow, c, b]:
            return False
    return True


@compiled
def _fold(memory: LedgerMemory, e: int, b: int, turn: int) -> None:
    """Make both ends forget the edge, as if it began now; its flow stays in the registers."""
    for link in (2 * e, 2 * e + 1):
        for q in range(memory.ledgers.shape[1]):
            for c in range(memory.ledgers.shape[2]):
                memory.ledgers[link, q, c, b] = 0.0
        memory.last_heard[link, b] = -1 - turn
        memory.standing[link, b], memory.echoed[link, b] = NEW, 0


@compiled
def _last_heard(echo: int, born: int) -> int:
    """Return the turn in which the other end last heard this one, from its echo (-1 - k: nothing since turn k).

    An echo of nothing counts as one from this end's own beginning, so that agents that begin together move in their
    first round. An echo from before a restart counts as never.
    """
    if echo < 0:
        return max(-1 - echo, born)
    return echo if echo >= born else -(1 << 40)


@compiled
def _update(moved: Floats, old: Floats, table: LedgerTable, rows: Integers, mixed: Floats) -> None:
    """Apply the method's own step to one end's ledger; `mixed` is the edge's share of what that end mixes."""
    first = 0
    while first < len(rows):  # a run of trials with the same row at a time, usually all trials
        stop = first + 1
        while stop < len(rows) and rows[stop] == rows[first]:
            stop += 1
        t = rows[first]
        for q in range(len(table.ledger)):
            r = table.ledger[q]
            gain = table.step_mixed[t, r]
            for b in range(first, stop):
                moved[q, b] = gain * mixed[b]
            for p in range(len(table.ledger)):
                weight = table.step_state[t, r, table.ledger[p]]
                if weight != 0.0:
                    for b in range(first, stop):
                        moved[q, b] += weight * old[p, b]
        first = stop


@compiled
def _step_locally(
    memory: LedgerMemory,
    table: LedgerTable,
    observation: Floats,
    mixed: Floats,
    alive: Flags,
    block: range,
    updated: Floats,
) -> None:
    """Update the registers that do not belong to edges, by each agent's own clock. With a ledger they do not mix."""
    components, trials = observation.shape[1:]
    for i in block:
        if alive[i]:
            now = memory.clock[i]
            for c in range(components):
                for r in range(len(table.local)):
                    row = table.local[r]
                    weight = table.step_observation[now, row]
                    for b in range(trials):
                        updated[r, b] = 0.0 + weight * observation[i, c, b]
                    if len(mixed):
                        weight = table.step_mixed[now, row]
                        for b in range(trials):
                            updated[r, b] += weight * mixed[i, c, b]
                    for s in range(memory.registers.shape[1]):
                        weight = table.step_state[now, row, s]
                        if weight != 0.0:
                            for b in range(trials):
                                updated[r, b] += weight * memory.registers[i, s, c, b]
                for r in range(len(table.local)):
                    for b in range(trials):
                        memory.registers[i, table.local[r], c, b] = updated[r, b]
            memory.clock[i] += 1
