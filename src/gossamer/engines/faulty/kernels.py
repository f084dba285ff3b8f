"""The compiled loop of a network with faults: agents, edges and a block of trials, round by round.

By the ledger's rules, edges carry the registers that gossip changes. By the skip rule nothing lives on edges: all
registers are local, and what an agent mixes is the sum over the neighbors that it hears.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Flags, Floats, Integers
from gossamer.faults.kernels import ChainDraws, fill_link, recall_states
from gossamer.numerics.compiling import compiled

STRETCH = 4096
"""So many values of one register fit into the cache together with the others."""


class EdgeList(NamedTuple):
    """Edge e joins agents low[e] < high[e]; link 2e is what `low` hears from `high`, link 2e + 1 the converse.

    Both the messages and the ends' ledgers are numbered by these links: ledger 2e is kept by `low`. The edges that are
    there in the k-th of some rounds are edge[start[k]:stop[k]].
    """

    low: Integers  #: (E,)
    high: Integers  #: (E,)
    indptr: Integers  #: (N + 1,) an agent's own links are own[indptr[i]:indptr[i + 1]]; empty on changing networks
    own: Integers  #: (2E,)
    start: Integers  #: (rounds,)
    stop: Integers  #: (rounds,)
    edge: Integers  #: which edges are there
    turn: Integers  #: how often each was there before; empty if that is the number of the round
    fresh: Flags  #: whether each was down before, so that its momentum is gone; empty if none ever is
    weight: Floats  #: -L_ij of each


class LedgerTable(NamedTuple):
    """A method's table (see methods/table.py) with its registers told apart."""

    message_state: Floats
    message_observation: Floats
    step_state: Floats
    step_observation: Floats
    step_mixed: Floats
    ledger: Integers  #: registers that live on the edges; none by the skip rule
    local: Integers  #: all others
    flow: int  #: which of `ledger` the messages read


class LedgerMemory(NamedTuple):
    """All that a block of B trials carries from round to round (n components, R registers, Q on edges)."""

    registers: Floats  #: (N, R, n, B); those of the ledger are sums over the agent's links (changing: the flow alone)
    ledgers: Floats  #: (2E, Q, n, B)
    last_heard: NDArray[
        np.int32
    ]  #: (2E, B) the last turn in which a message arrived; -1 - k: none since turn k
    settled: Flags  #: (2E, B) whether the end has compared its ledger since it began
    echoed: Flags  #: (2E, B) whether the other end ever said that it heard this one since it began
    chains: Flags  #: (K, 2E, B) states of the random link faults
    heard: Flags  #: (4, 2E, B) which messages of four rounds arrive
    filled: Integers  #: (2E,) which four rounds: 4 k .. 4 k + 3
    clock: Integers  #: (N,) rounds in which the agent has taken part
    born: Integers  #: (2E,) the turn in which the link's receiver began, or came back

    def with_room(self, links: int) -> LedgerMemory:
        """The same with room for so many links."""
        if links <= len(self.born):
            return self
        sizes = {"chains": 1, "heard": 1, "registers": None, "clock": None}
        fresh = {"last_heard": -1, "filled": -1, "heard": 1}
        larger = {}
        for name, array in self._asdict().items():
            axis = sizes.get(name, 0)
            if axis is not None:
                widths = [(0, links - array.shape[k] if k == axis else 0) for k in range(array.ndim)]
                larger[name] = np.pad(array, widths, constant_values=fresh.get(name, 0))
        return self._replace(**larger)

    def clear(self, links: Integers) -> None:
        """Forget all about these links."""
        self.ledgers[links] = 0.0
        self.last_heard[links] = self.filled[links] = -1
        self.settled[links] = self.echoed[links] = self.born[links] = 0


class Phase(NamedTuple):
    """Rounds start .. stop - 1, in which nobody joins or crashes and no partition begins or heals."""

    start: int
    stop: int
    alive: Flags  #: (N,)
    dead: Integers  #: agents that are declared dead at the start
    begun: Integers  #: agents that begin or come back at the start


class Rules(NamedTuple):
    """How an agent treats a neighbor that it does not hear, and edges that come and go."""

    silence: int  #: A of the ledger's rules
    skip: bool  #: no ledger: leave the neighbor out of the sum
    changing: bool  #: edges come and go: registers are kept up to date, and turns counted
    folds: bool  #: a flow that both ends agree on is forgotten when its edge goes down: registers hold it
    reliable: bool  #: edges come and go, but nothing is lost and nobody dies: both ends always agree


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
    for k in range(len(observations)):
        t = first_round + k
        there = range(edges.start[k], edges.stop[k])
        if len(draws.chains):
            _listen(memory, edges, draws, t // 4, there)
        if not rules.changing:
            add_ledgers(memory, edges, table, alive)
        if rules.skip:
            everybody = range(agents)
            _speak(messages, memory, table, observations[k], alive, everybody)
            _mix_heard(mixed, memory, edges, messages, t, there)
            _step_locally(memory, table, observations[k], mixed, alive, everybody, updated)
        else:  # a stretch of agents at a time, while their registers are in the cache
            for first in range(0, agents, stretch):
                some = range(first, min(first + stretch, agents))
                _speak(messages, memory, table, observations[k], alive, some)
                _step_locally(memory, table, observations[k], mixed, alive, some, updated)
        if rules.reliable:
            _exchange_reliably(memory, edges, table, messages, t, there, scratch)
        elif not rules.skip:
            _exchange(memory, edges, table, rules, messages, t, there, scratch)


@compiled
def _listen(memory: LedgerMemory, edges: EdgeList, draws: ChainDraws, quad: int, there: range) -> None:
    """Draw which messages of four rounds arrive, on links where that is not known yet."""
    for k in there:
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
                for place in range(edges.indptr[i], edges.indptr[i + 1]):
                    _add(total, 1.0, memory.ledgers[edges.own[place], q])


@compiled
def _speak(
    messages: Floats,
    memory: LedgerMemory,
    table: LedgerTable,
    observation: Floats,
    alive: Flags,
    some: range,
) -> None:
    """What some agents tell their neighbors, each by its own clock."""
    components, trials = messages.shape[1:]
    for i in some:
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
def _mix_heard(
    mixed: Floats, memory: LedgerMemory, edges: EdgeList, messages: Floats, t: int, there: range
) -> None:
    """mixed_i = sum over the neighbors j that agent i hears of w_ij (m_i - m_j)."""
    components, trials = messages.shape[1:]
    mixed[:] = 0.0
    for k in there:
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
    there: range,
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
    for k in there:
        e = edges.edge[k]
        turn, fresh = t, False
        if rules.changing:
            turn, fresh = edges.turn[k], edges.fresh[k] == 1
        low, high = 2 * e, 2 * e + 1
        ends = (edges.low[e], edges.high[e])
        for b in range(trials):
            for side in range(2):
                arrived[side, b] = memory.heard[t % 4, low + side, b]
            if fresh and rules.folds and _agree(memory, table.flow, e, b):
                _fold(memory, e, b, turn)
            for side in range(2):
                born = memory.born[low + side]
                unheard = turn - _last_heard(memory.last_heard[high - side, b], born)
                moves[side, b] = arrived[side, b] and unheard <= rules.silence
                if arrived[side, b] and memory.last_heard[high - side, b] >= born:
                    memory.echoed[low + side, b] = 1
                unknown = memory.echoed[low + side, b] == 0 and unheard > rules.silence
                alone[side, b] = arrived[side, b] and unknown
        for c in range(components):
            for b in range(trials):
                difference[b] = edges.weight[k] * (messages[ends[0], c, b] - messages[ends[1], c, b])
            for q in range(size):
                source = table.flow if fresh else q
                for b in range(trials):
                    mine, theirs = memory.ledgers[low, source, c, b], memory.ledgers[high, source, c, b]
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
                        new = moved[q, b] if moves[side, b] else old[q, b]
                        if rules.changing and q == table.flow:
                            change = new - memory.ledgers[low + side, q, c, b]
                            memory.registers[ends[side], table.ledger[q], c, b] += change
                        memory.ledgers[low + side, q, c, b] = new
        for b in range(trials):
            for side in range(2):
                if arrived[side, b]:
                    memory.last_heard[low + side, b] = turn
                    memory.settled[low + side, b] = 1


@compiled
def _exchange_reliably(
    memory: LedgerMemory,
    edges: EdgeList,
    table: LedgerTable,
    messages: Floats,
    t: int,
    there: range,
    scratch: Floats,
) -> None:
    """What `_exchange` does, to the last bit, on a changing network where every message arrives: one ledger will do."""
    components, trials = messages.shape[1:]
    size, x = len(table.ledger), table.ledger[table.flow]
    old, new, difference = scratch[0], scratch[1], np.empty(trials)
    for k in there:
        e, weight, fresh = edges.edge[k], edges.weight[k], edges.fresh[k] == 1
        low, high = edges.low[e], edges.high[e]
        for c in range(components):
            for b in range(trials):
                difference[b] = weight * (messages[low, c, b] - messages[high, c, b])
            for q in range(size):
                for b in range(trials):  # an edge that comes up was folded, so that its ledger begins at zero
                    old[q, b] = 0.0 if fresh else memory.ledgers[2 * e, q, c, b]
            _update(new, old, table, t, difference)
            for q in range(size):
                for b in range(trials):
                    memory.ledgers[2 * e, q, c, b] = new[q, b]
            for b in range(trials):
                moved = new[table.flow, b] - old[table.flow, b]
                memory.registers[low, x, c, b] += moved
                memory.registers[high, x, c, b] -= moved


@compiled
def _agree(memory: LedgerMemory, flow: int, e: int, b: int) -> bool:
    """Whether both ends have the same flow."""
    for c in range(memory.ledgers.shape[2]):
        if memory.ledgers[2 * e, flow, c, b] != -memory.ledgers[2 * e + 1, flow, c, b]:
            return False
    return True


@compiled
def _fold(memory: LedgerMemory, e: int, b: int, turn: int) -> None:
    """Both ends forget the edge, as if it began now; the registers hold its flow for good."""
    for link in (2 * e, 2 * e + 1):
        for q in range(memory.ledgers.shape[1]):
            for c in range(memory.ledgers.shape[2]):
                memory.ledgers[link, q, c, b] = 0.0
        memory.last_heard[link, b] = -1 - turn
        memory.settled[link, b] = memory.echoed[link, b] = 0


@compiled
def _last_heard(echo: int, born: int) -> int:
    """The turn in which the other end last heard this one, from what it echoes (-1 - k: nothing since turn k).

    Nothing yet counts from this end's own beginning, so that agents that begin together move in their first
    round. An echo from before a restart counts as never.
    """
    if echo < 0:
        return max(-1 - echo, born)
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
    some: range,
    updated: Floats,
) -> None:
    """Registers that do not live on edges; each agent goes by its own clock. Those beside a ledger mix nothing."""
    components, trials = observation.shape[1:]
    for i in some:
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
