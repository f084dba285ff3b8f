"""One agent of a dual method in ledger form. `methods/ledger.py` states the rules.

What a deployed agent adds to them is how it counts. The silence of a neighbor is counted in this agent's own
messages, not in round numbers, so that an agent ten times slower than its neighbors takes part in each of its
rounds. Serials start at the clock's microseconds and grow by one per round: one number both tells an agent's
runs apart and puts its messages in order. An echo from an earlier run is too old to let an edge move, and a message
from an earlier run is refused as stale.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gossamer.agents.round.closing import ALWAYS, ENDS, HOLDS, Closing, Parked
from gossamer.agents.round.ledger_state import KEPT, RETURNING, LedgerState
from gossamer.agents.round.messages import Outgoing
from gossamer.agents.round.numbers import Numbers
from gossamer.agents.round.overgrowth import LOOK, Overgrowth
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.methods.ledger import COMPARED, DROPPED, NEW, RETURN_RATE, SILENCE, LedgerProgram

_GONE = 1e-200
"""A flow below this size has returned; smaller numbers would only slow the processor down."""


class EdgeEnd:
    """The state of this end of an edge.

    k         the row of the edge in `Numbers`
    free      whether its weight follows from the degrees
    since     serial of the first message of this run, or after the edge was dropped
    begun     the agent's age when the edge began with zero flow
    used      serial of the neighbor's newest used message
    standing  of this end's ledger: NEW, COMPARED or DROPPED
    echoed    whether the neighbor has echoed a message since then
    up        whether the edge counts, that is, was not dropped
    """

    def __init__(self, since: int, begun: int) -> None:
        self.k = 0
        self.free = False
        self.begin_anew(since, begun)

    def begin_anew(self, since: int, begun: int) -> None:
        self.since = since
        self.begun = begun
        self.used = 0
        self.standing = NEW
        self.echoed = False
        self.up = True


class Ledger:
    """One agent of a dual method in ledger form. Pure: no clock, no transport.

    program   the method's rounds, by the agent's own age; the last row holds from then on
    weights   neighbor -> w_ij = -L_ij. 0: the Metropolis weight, 1/(1 + the larger degree of the two ends), where an
              edge counts unless its neighbor was dropped
    silence   A, in rounds
    return_rate  factor per round by which the flows of dropped edges return
    serial    number of the first message, above every number this agent ever used before
    restored  what an earlier run saved
    kept      former neighbors whose flow, if it was saved, stays (see `rewire`)
    names     agent -> common name of its certificate, for all members; empty: unknown (see `Parked`)
    reset     the epoch in which all flows were set to zero last
    most      (1 + E, n) the largest size of what a neighbor is told, if it is known (see `bounds.py`)
    """

    def __init__(
        self,
        program: LedgerProgram,
        me: int,
        weights: Mapping[int, float],
        dimension: int = 1,
        *,
        silence: int = SILENCE,
        return_rate: float = RETURN_RATE,
        serial: int = 1,
        restored: LedgerState | None = None,
        kept: Collection[int] = (),
        names: Mapping[int, str] | None = None,
        reset: int = 0,
        most: Floats | None = None,
    ) -> None:
        self.program = program
        self.me = me
        self.dimension = dimension
        self.silence = silence
        self.return_rate = return_rate
        self.edge_registers = len(program.edge)
        self._rounds = program.rounds
        self._edges: dict[int, EdgeEnd] = {}  # by neighbor, in ascending order
        self._born = serial
        self.serial = serial
        state = restored or LedgerState(0, serial, 0.0, np.zeros((len(program.own), dimension)), {})
        self.age, self.samples = state.age, state.samples
        self._now = max(min(self.age, self._rounds) - 1, 0)  # the row in use
        self.closings: dict[int, Closing] = {}
        self.parked: dict[int, Parked] = {}
        self.durable = ALWAYS  # the store has all up to this serial
        self.reset = state.reset
        self.overgrowth = Overgrowth(dimension)
        self._lay(weights, state.after_reset(reset), kept, names or {}, most)
        for j, ends in state.closed.items():
            if ends and j in self._edges and reset <= state.reset:
                self.closings[j] = Closing(0, theirs=True)
                self._freeze(j)

    def rewire(
        self,
        weights: Mapping[int, float],
        kept: Collection[int] = (),
        most: Floats | None = None,
        names: Mapping[int, str] | None = None,
        reset: int = 0,
    ) -> None:
        """Continue with these neighbors: ledgers of edges that stay are kept, new edges begin at zero.

        The flow to a neighbor that leaves returns slowly, so that its data leave the average; unless it is in `kept`:
        then the flow stays as it is, and its data with it. A flow that is parked stays while the certificates of its
        ends are those of members. With a later `reset` than before all flows are set to zero.
        """
        state = self.remember()
        if reset > state.reset:
            for edge in self._edges.values():
                edge.begin_anew(self.serial, self.age)
        self._lay(weights, state.after_reset(reset), kept, names or {}, most)
        stays = {} if reset > state.reset else self.closings
        for j in [j for j in self.closings if j not in stays or j not in weights]:
            del self.closings[j]

    def _lay(
        self,
        weights: Mapping[int, float],
        state: LedgerState,
        kept: Collection[int],
        names: Mapping[int, str],
        most: Floats | None,
    ) -> None:
        """Lay the edges out anew, with the registers and flows of `state`."""
        self._check(state)
        flows = self._sort_flows(weights, state, kept, names)
        begun = self.age if self._edges else 0  # a new edge of an agent that runs begins with zero flow now
        self._edges = {j: self._edges.get(j) or EdgeEnd(self._born, begun) for j in sorted(weights)}
        for k, (j, edge) in enumerate(self._edges.items()):
            edge.k, edge.free = k, weights[j] == 0.0
        self._count()
        registers = [KEPT, RETURNING] if KEPT in flows else [RETURNING]
        rows = {j: k for k, j in enumerate([*self._edges, *registers])}
        self._returns, self._most = RETURNING in flows, most
        self._dropped = False  # whether an edge was dropped since flows were judged
        maps = self.program.maps([weights.get(j, 0.0) for j in rows])
        self._numbers = Numbers(*maps, self.dimension, most=most)
        self._numbers.own[:] = state.local
        for j, flow in flows.items():
            self._numbers.tells[rows[j], 1:] = flow
        self._numbers.conclude(self._now)

    def _check(self, state: LedgerState) -> None:
        edge = (self.edge_registers, self.dimension)
        held = [*state.flows.values(), *(parked.flow for parked in state.parked.values())]
        expected = [(len(self.program.own), self.dimension), *[edge] * len(held)]
        shapes = [state.local.shape, *(flow.shape for flow in held)]
        if shapes != expected:
            raise InvalidInput(
                f"what is restored must have the registers of {self.program.method}, shapes {expected}, got {shapes}; "
                "start over, or go back to the method that was saved"
            )

    def _sort_flows(
        self,
        weights: Mapping[int, float],
        state: LedgerState,
        kept: Collection[int],
        names: Mapping[int, str],
    ) -> dict[int, Floats]:
        """Return the flows by neighbor, `KEPT` or `RETURNING`; note those that stay although their edge is gone."""
        flows, stays, gone = {}, [], []
        for j, flow in state.flows.items():
            if j in weights:
                flows[j] = flow
            elif j == KEPT or j in kept:
                stays.append(flow)
            elif j not in state.parked:
                gone.append(flow)
        self.parked = {}
        for j, parked in state.parked.items():
            if j in kept:
                stays.append(parked.flow)
            elif not names or (parked.mine, parked.theirs) == (names.get(self.me), names.get(j)):
                if j in weights:
                    flows.setdefault(j, parked.flow)
                else:
                    self.parked[j] = parked
        if gone:
            flows[RETURNING] = np.sum(gone, axis=0)
        self.reset = state.reset
        self._kept = np.sum(stays, axis=0) if stays else None
        if stays or self.parked:
            flows[KEPT] = np.sum([*stays, *(parked.flow for parked in self.parked.values())], axis=0)
        return flows

    def _count(self) -> None:
        degree = 0
        for edge in self._edges.values():
            degree += edge.up
        self.degree = degree

    # -- a round ------------------------------------------------------------------------------------------

    def begin(self, observation: Floats, samples: float = 1.0, weight: float | None = None) -> None:
        """Start a round with the mean of `samples` new observations.

        `weight` is that of the observation in the agent's running mean; by default samples / all samples so far,
        so that the mean is the plain mean of everything this agent has seen, at whatever rate.
        """
        self.samples += samples
        if weight is None:
            weight = samples / self.samples if samples else 0.0
        if self.age < self._rounds:  # after that the coefficients no longer change
            self._now = self.age
        self._numbers.begin(self._now, observation, weight)

    def tell(self, neighbor: int, holding: int = 0) -> Outgoing:
        edge = self._edges[neighbor]
        closing = 0
        if self.closings and neighbor in self.closings:
            closing = self.closings[neighbor].flags(self.durable)
        echo = 0 if edge.standing == DROPPED else holding or edge.used
        return Outgoing(
            self.serial, echo, edge.standing != NEW, self._numbers.told(edge.k), self.degree, closing
        )

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        for j, message in heard.items():
            edge = self._edges[j]
            if self.closings and j in self.closings:  # told in this round that nothing moves
                edge.used = message.serial
                continue
            mine, theirs = edge.standing, standing_of(message)
            unheard = self.serial - (message.echo or edge.since)
            begins = mine == DROPPED or theirs == DROPPED
            if mine == NEW and theirs == NEW and self.serial - edge.since > self.silence:
                begins = True
            if message.echo >= edge.since:
                edge.echoed = True
                if mine == DROPPED:
                    mine = COMPARED
            if begins:
                edge.begun = self.age
            dropped = mine == DROPPED or theirs == DROPPED
            alone = mine != DROPPED and not edge.echoed and unheard > self.silence
            if theirs == DROPPED:
                self._return(edge.k)
            elif alone or theirs > mine or (theirs == mine and j < self.me):
                self._numbers.adopt(edge.k, message.rows)
            edge.standing = DROPPED if mine == DROPPED and theirs != DROPPED else COMPARED
            edge.used = message.serial
            edge.up = True
            if not dropped and 0 <= unheard <= self.silence:
                if edge.free:
                    self._numbers.weigh(edge.k, 1.0 / (1 + max(self.degree, message.degree)))
                self._numbers.move(edge.k, min(self.age - edge.begun, self._rounds - 1), message.rows)
        if self.closings:
            self._go_on()
        if self._returns:
            self._shrink()
        self._count()  # from the next message on: both ends of an edge use what they told each other
        self._numbers.finish(self._now)
        self.serial += 1
        self.age += 1
        if self._most is None:
            self._watch_growth()

    # -- what others read ---------------------------------------------------------------------------------

    @property
    def estimate(self) -> Floats:
        """The agent's answer after its latest round, shape (n,); a new array each time, for any thread."""
        return self._numbers.answer

    @property
    def mean(self) -> Floats:
        """The running mean of the agent's own observations: a view, which changes as rounds finish."""
        mean: Floats = self._numbers.own[self.program.mean]
        return mean

    def local(self, register: str) -> Floats:
        """One of the agent's own registers by name: a view, which changes as rounds finish."""
        own: Floats = self._numbers.own[self.program.own.index(register)]
        return own

    def flow(self, neighbor: int) -> Floats:
        """This end's ledger of one edge, shape (edge registers, n)."""
        ledger: Floats = self._numbers.tells[self._edges[neighbor].k, 1:].copy()
        return ledger

    @property
    def returning(self) -> Floats:
        """What is left of the flows of dropped edges, as it counts in the answer, shape (n,)."""
        factors = self.program.estimate[self._now, len(self.program.own) + 1 : -1]
        left: Floats = factors @ self._numbers.tells[-1, 1:]
        return left

    def drop(self, neighbor: int, *, at_once: bool = False) -> None:
        """Treat the neighbor as dead: its flow returns, and if it comes back, the edge begins with zero flow."""
        if neighbor in self.closings:  # it said why it is silent, so its flow stays
            return
        edge = self._edges[neighbor]
        if at_once:
            self._numbers.tells[edge.k, 1:] = 0.0
        else:
            self._return(edge.k)
        self._begin_again(edge)
        self._count()
        self._numbers.conclude(self._now)

    def _begin_again(self, edge: EdgeEnd) -> None:
        """Say from the next message on that this edge was dropped."""
        edge.used, edge.standing, edge.since = 0, DROPPED, self.serial
        edge.echoed = edge.up = False

    def _return(self, k: int) -> None:
        """Let the flow of the k-th edge return slowly; the edge itself begins with zero flow."""
        edge, left = self._numbers.tells[k, 1:], self._numbers.tells[-1, 1:]
        left += edge
        if self._most is None:
            self._dropped = True
            self.overgrowth.note_drop(edge, self.mean, self._numbers.answer)
        else:  # what a liar claims must not accumulate; the excess returns at once
            np.clip(left, -self._most[1:], self._most[1:], out=left)
        edge[:] = 0.0
        self._returns = True

    def _shrink(self) -> None:
        """Let the flows of dropped edges return by another round's share."""
        left = self._numbers.tells[-1, 1:]
        left *= self.return_rate
        left[np.abs(left) < _GONE] = 0.0
        self._returns = bool(left.any())

    def _watch_growth(self) -> None:
        """Drop all edges at once if their flows have outgrown the agent's values (`overgrowth.py`)."""
        flows = self._numbers.tells[:, 1:]
        if self.age % LOOK == 0:
            self.overgrowth.look(flows, self.mean, self._numbers.answer)
        elif not self._dropped:
            return
        self._dropped = False
        if self.overgrowth.begins_anew(flows):
            for j, edge in self._edges.items():
                if j not in self.closings:
                    flows[edge.k] = 0.0
                    self._begin_again(edge)
            flows[-1] = 0.0
            self._count()
            self._numbers.conclude(self._now)

    # -- edges that end (see `closing.py`) ---------------------------------------------------------------------

    def close(self, neighbor: int) -> None:
        """End the edge from this end: its flow stays as it is from now on."""
        if neighbor not in self.closings:
            self.closings[neighbor] = Closing(self.serial)
            self._freeze(neighbor)
        self.closings[neighbor].own = True

    def reopen(self, neighbor: int) -> None:
        """Resume an edge that this end closed, unless the other end has a reason to close it."""
        closing = self.closings[neighbor]
        closing.own = False
        closing.over = not closing.theirs
        self._go_on()

    def _freeze(self, neighbor: int) -> None:
        """Reduce the edge to its flow: all its registers take that value, and it no longer counts as up."""
        edge = self._edges[neighbor]
        if (flow := self.flow_register) is not None:
            self._numbers.tells[edge.k, 1:] = self._numbers.tells[edge.k, 1 + flow].copy()
        edge.up = False
        self._count()

    def _go_on(self) -> None:
        """Reopen the edges whose other end has resumed."""
        for j in [j for j, closing in self.closings.items() if closing.over]:
            del self.closings[j]
            self._edges[j].up = True

    def hear_closing(self, neighbor: int, message: Outgoing) -> None:
        """Take a message that closes an edge, or one on an edge that this end has closed, of whatever round."""
        closing = self.closings.get(neighbor)
        ends = bool(message.closing & ENDS)
        if closing is None:
            if not ends:
                return
            closing = self.closings[neighbor] = Closing(self.serial)
            self._freeze(neighbor)
        closing.theirs = ends
        if not closing.own and not ends:
            closing.over = True
            return
        closing.over = False
        k = self._edges[neighbor].k
        mine = self._numbers.tells[k, 1:]
        theirs = np.frombuffer(message.rows).reshape(1 + mine.shape[0], -1)[1:]
        if not message.closing:
            same = False
        elif not (same := np.array_equal(theirs, -mine)) and ends and (not closing.own or neighbor < self.me):
            self._numbers.adopt(k, message.rows)
            self._numbers.conclude(self._now)
            closing.since, same = self.serial, True
        closing.matched = same
        closing.confirmed = same and bool(message.closing & HOLDS)

    def farewell(self, neighbor: int) -> Outgoing:
        """A message between two rounds that says how a closed edge stands; it has no value but zero."""
        edge = self._edges[neighbor]
        rows = self._numbers.tells[edge.k].copy()
        rows[0] = 0.0
        flags = self.closings[neighbor].flags(self.durable)
        echo = 0 if edge.standing == DROPPED else edge.used
        return Outgoing(self.serial, echo, edge.standing != NEW, rows.tobytes(), self.degree, closing=flags)

    def park(self, neighbor: int, mine: str, theirs: str, *, doubt: bool = False) -> None:
        """Keep the flow of an edge that has ended; to be followed by `rewire` without it."""
        flow = self.flow(neighbor)
        self._numbers.tells[self._edges[neighbor].k, 1:] = 0.0
        self.parked[neighbor] = Parked(flow, mine, theirs, doubt)

    def settle(self, neighbor: int, flow: Floats) -> None:
        """Replace a parked flow that was in doubt; to be followed by `rewire`."""
        self.parked[neighbor] = replace(self.parked[neighbor], flow=flow, doubt=False)

    def share(self) -> Floats:
        """What this agent holds of the average once its own mean is mixed in: that mean, and all its flows; (n,).

        Without those that return, which will be gone.
        """
        flow = self.flow_register
        assert flow is not None
        held: Floats = self.mean + self._numbers.tells[:-1, 1 + flow].sum(axis=0)
        return held

    def give(self, heirs: Sequence[int]) -> None:
        """Give all that this agent holds of the average to these neighbors, whose edges are closed, in equal parts."""
        part = self.share() / len(heirs)
        for j in heirs:
            self._numbers.tells[self._edges[j].k, 1:] -= part
            self.closings[j].since = self.serial
        self._numbers.conclude(self._now)

    @property
    def flow_register(self) -> int | None:
        """Which register of an edge is its flow: the one that messages read; None: they read several."""
        reads = self.program.tell[:, 0, len(self.program.own) + 1 : -1]
        registers = np.flatnonzero(reads.any(axis=0))
        return int(registers[0]) if len(registers) == 1 and np.all(reads[:, registers[0]] == 1.0) else None

    def remember(self) -> LedgerState:
        """A copy of what must survive a restart."""
        flows = {j: self.flow(j) for j in self._edges}
        if self._kept is not None:
            flows[KEPT] = self._kept.copy()
        if self._returns:
            flows[RETURNING] = self._numbers.tells[-1, 1:].copy()
        return LedgerState(
            self.age,
            self.serial,
            self.samples,
            self._numbers.own.copy(),
            flows,
            dict(self.parked),
            {j: closing.theirs for j, closing in self.closings.items() if closing.matched},
            self.reset,
        )


def standing_of(message: Outgoing) -> int:
    """The standing of the sender's ledger; one that has dropped the edge echoes nothing."""
    if not message.settled:
        return NEW
    return COMPARED if message.echo else DROPPED
