"""One agent of a dual method in ledger form. `methods/ledger.py` states the rules.

A deployed agent differs from a simulated one in how it counts. The silence of a neighbor is counted in this agent's own
messages, not in round numbers, so that an agent that is ten times slower than its neighbors takes part in each of its
own rounds. Serials start at the clock's microseconds and grow by one per round, so that one number both distinguishes
the runs of an agent and orders its messages. An echo from an earlier run is too old to update an edge, and a message
from an earlier run is rejected as stale.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gossamer.agents.round.bounds import Bounds, EdgeLimits
from gossamer.agents.round.closing import ALWAYS, ENDS, HOLDS, Closing, Parked
from gossamer.agents.round.ledger_state import KEPT, RETURNING, LedgerState
from gossamer.agents.round.masking import AWAITED, Masking
from gossamer.agents.round.messages import Outgoing, standing_of
from gossamer.agents.round.numbers import Numbers
from gossamer.agents.round.overgrowth import LOOK, Overgrowth
from gossamer.arrays import Floats
from gossamer.methods.ledger import COMPARED, DROPPED, NEW, QUIET, RETURN_RATE, SILENCE, LedgerProgram

_GONE = 1e-200
"""A flow below this size counts as returned, because arithmetic on denormal numbers is slow."""


class EdgeEnd:
    """The state of this end of an edge.

    k         the row of the edge in `Numbers`
    free      whether its weight is computed from the degrees
    since     serial of the first message of this run, or of the first after the edge was dropped
    begun     age of the agent when the edge started with zero flow
    used      serial of the newest message of the neighbor that was used
    standing  of this end's ledger: NEW, COMPARED or DROPPED
    echoed    whether the neighbor has echoed a message since `since`
    heard     age of the agent when it last heard the neighbor
    calm      age of the agent from which on the edge takes the method's own step again
    up        whether the edge counts toward the degree: it is neither dropped nor closed
    """

    def __init__(self, since: int, begun: int, age: int) -> None:
        self.k, self.free, self.calm = 0, False, 0
        self.begin_anew(since, begun, age)

    def begin_anew(self, since: int, begun: int, age: int) -> None:
        self.since = since
        self.heard = age - 1
        self.begun = begun
        self.used = 0
        self.standing = NEW
        self.echoed = False
        self.up = True


class Ledger:
    """One agent of a dual method in ledger form. Pure: no clock, no transport.

    program   the method's rounds, by the agent's own age; the last row applies to all later rounds
    weights   neighbor -> w_ij = -L_ij; 0 stands for the Metropolis weight, 1/(1 + the larger degree of the two ends),
              where dropped edges do not count
    silence   A, in rounds
    return_rate  factor per round by which the flows of dropped edges return
    serial    number of the first message, larger than any that this agent has used before
    restored  the state that an earlier run saved
    kept      former neighbors whose saved flow is kept (see `rewire`)
    names     agent -> common name of its certificate, for all members; empty if unknown (see `Parked`)
    reset     the epoch in which all flows were last set to zero
    bounds    limits on the registers of edges, if any follow from a range (see `bounds.py`)
    masks     the masks of the edges, in a fleet that has them
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
        bounds: Bounds | None = None,
        masks: Masking | None = None,
    ) -> None:
        self.program, self.me, self.dimension = program, me, dimension
        self.masks, self.silence, self.return_rate = masks, silence, return_rate
        self.edge_registers = len(program.edge)
        self._rounds, self._after_loss = program.rounds, program.after_loss
        self._edges: dict[int, EdgeEnd] = {}  # by neighbor, in ascending order
        self._born = self.serial = serial
        state = restored or LedgerState(0, serial, 0.0, np.zeros((len(program.own), dimension)), {})
        self.age, self.samples = state.age, state.samples
        self._now = max(min(self.age, self._rounds) - 1, 0)  # the row in use
        self.closings: dict[int, Closing] = {}
        self._held: Floats | None = None  # the agent's registers, while its value does not follow them
        self.durable = ALWAYS  # the store has everything up to this serial
        self.overgrowth = Overgrowth(dimension, None if masks is None else masks.scales)
        self._lay(weights, state.after_reset(reset), kept, names or {}, bounds)
        for j, ends in state.closed.items():
            if ends and j in self._edges and reset <= state.reset:
                self.closings[j] = Closing(0, theirs=True)
                self._freeze(j)

    def rewire(
        self,
        weights: Mapping[int, float],
        kept: Collection[int] = (),
        bounds: Bounds | None = None,
        names: Mapping[int, str] | None = None,
        reset: int = 0,
    ) -> None:
        """Continue with these neighbors: the ledgers of edges that remain are kept, and new edges start at zero.

        The flow of an edge to a former neighbor returns slowly, so that its data leave the average. For a neighbor in
        `kept` the flow is kept, and its data remain in the average. A parked flow is kept while the certificates of
        both ends are those of members. If `reset` is later than before, all flows are set to zero.
        """
        state = self.remember()
        if reset > state.reset:
            for edge in self._edges.values():
                edge.begin_anew(self.serial, self.age, self.age)
            if self.masks is not None:
                self.masks.rewire((), anew=True)
        self._lay(weights, state.after_reset(reset), kept, names or {}, bounds)
        stays = {} if reset > state.reset else self.closings
        for j in [j for j in self.closings if j not in stays or j not in weights]:
            del self.closings[j]

    def _lay(
        self,
        weights: Mapping[int, float],
        state: LedgerState,
        kept: Collection[int],
        names: Mapping[int, str],
        bounds: Bounds | None,
    ) -> None:
        """Arrange the edges, with the registers and flows of `state`."""
        state.check(self.program, self.dimension)
        flows, self._kept, self.parked = state.sort(self.me, weights, kept, names)
        self.reset, self._constant = state.reset, flows.get(KEPT, 0.0)
        begun = self.age if self._edges else 0  # a new edge of a running agent starts now, with zero flow
        self._edges = {j: self._edges.get(j) or EdgeEnd(self._born, begun, self.age) for j in sorted(weights)}
        for k, (j, edge) in enumerate(self._edges.items()):
            edge.k, edge.free = k, weights[j] == 0.0
        self._count()
        registers = [KEPT, RETURNING] if KEPT in flows or self.masks is not None else [RETURNING]
        rows = {j: k for k, j in enumerate([*self._edges, *registers])}
        self._returns, self._dropped = RETURNING in flows, False
        self.limits = None if bounds is None else EdgeLimits(bounds, list(rows), flows)
        maps = self.program.maps([weights.get(j, 0.0) for j in rows])
        self._numbers = Numbers(*maps, self.dimension, most=None if self.limits is None else self.limits.rows)
        self._numbers.own[:] = state.local
        for j, flow in flows.items():
            self._numbers.tells[rows[j], 1:] = flow
        if self.masks is not None:
            self.masks.rewire(weights)
            self._follow_masks()
        self._numbers.conclude(self._now)

    def _count(self) -> None:
        degree = 0
        for edge in self._edges.values():
            degree += edge.up
        self.degree = degree

    # -- a round ------------------------------------------------------------------------------------------

    def begin(self, observation: Floats, samples: float = 1.0, weight: float | None = None) -> None:
        """Start a round with the mean of `samples` new observations.

        `weight` is the weight of the observation in the agent's running mean. By default it is samples / all samples so
        far, so that the running mean is the plain mean of everything that this agent has observed, at any rate.
        """
        if self.masks is not None and self.masks.opened and samples and not self.samples:
            self._withdraw()
        self.samples += samples
        if weight is None:
            weight = samples / self.samples if samples else 0.0
        if self.masks is not None and not (self.masks.fresh or samples):
            own, weight = self._numbers.own, 0.0  # without this, smoothing would change the value
            self._held = own.copy()
            own[:] = self.program.estimate[self._now, : len(own)] @ own
        if self.age < self._rounds:  # after that the coefficients no longer change
            self._now = self.age
        self._numbers.begin(self._now, observation, weight)

    def tell(self, neighbor: int, holding: int = 0) -> Outgoing:
        edge = self._edges[neighbor]
        closing = 0
        if self.closings and neighbor in self.closings:
            closing = self.closings[neighbor].flags(self.durable)
        echo = 0 if edge.standing == DROPPED else holding or edge.used
        rows, mask = self._numbers.told(edge.k), b""
        if self.masks is not None:
            mask, rows = self.masks.say(neighbor, rows)
        return Outgoing(self.serial, echo, edge.standing != NEW, rows, self.degree, closing, mask)

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        degree = self.degree
        for j, message in heard.items():
            edge = self._edges[j]
            if self.closings and j in self.closings:  # both ends were told that the flow is final
                edge.used = message.serial
                continue
            mine, theirs = edge.standing, standing_of(message)
            unheard = self.serial - (message.echo or edge.since)
            late = mine == NEW and theirs == NEW and self.serial - edge.since > self.silence
            begins = late or mine == DROPPED or theirs == DROPPED
            if message.echo >= edge.since:
                edge.echoed = True
                if mine == DROPPED:
                    mine = COMPARED
            if begins:
                edge.begun = self.age
            missed = 0 < edge.used < message.serial - 1  # perhaps in rounds that this agent skipped
            if begins or missed or unheard > 1 or edge.heard < self.age - 1:
                edge.calm = self.age + QUIET
            edge.heard = self.age
            dropped = mine == DROPPED or theirs == DROPPED
            alone = mine != DROPPED and not edge.echoed and unheard > self.silence
            if theirs == DROPPED:
                self._return(j)
            elif alone or theirs > mine or (theirs == mine and j < self.me):
                self._numbers.adopt(edge.k, message.rows)
            edge.standing = DROPPED if mine == DROPPED and theirs != DROPPED else COMPARED
            edge.used = message.serial
            edge.up = True
            moves = not dropped and 0 <= unheard <= self.silence
            if self.masks is not None and not dropped:
                moves = self._hear_mask(j, message) and moves
            if moves:
                if edge.free:
                    self._numbers.weigh(edge.k, 1.0 / (1 + max(self.degree, message.degree)))
                row = min(self.age - edge.begun, self._rounds - 1)
                if self.age < edge.calm:
                    row += self._after_loss
                self._numbers.move(edge.k, row, message.rows)
        if self.closings:
            self._go_on()
        if self._returns:
            self._shrink()
        self._count()  # valid from the next message on, because both ends use the degrees that they sent
        if self.masks is not None and (self.masks.stale or not self.masks.opened or self.degree != degree):
            self._follow_masks()
        self._numbers.finish(self._now)
        if self._held is not None:
            self._numbers.own[:], self._held = self._held, None
        self.serial += 1
        self.age += 1
        if self.limits is None:
            self._watch_growth()
        elif self.age % LOOK == 0:
            self.limits.look(self._numbers.tells[:, 1:])

    # -- what others read ---------------------------------------------------------------------------------

    @property
    def estimate(self) -> Floats:
        """The agent's answer after its latest round, shape (n,): a new array each time, safe for any thread."""
        return self._numbers.answer

    @property
    def mean(self) -> Floats:
        """The running mean of the agent's own observations: a view, which changes as rounds finish."""
        return np.asarray(self._numbers.own[self.program.mean])

    def local(self, register: str) -> Floats:
        """One of the agent's own registers by name: a view, which changes as rounds finish."""
        return np.asarray(self._numbers.own[self.program.own.index(register)])

    def flow(self, neighbor: int) -> Floats:
        """This end's ledger of one edge, shape (edge registers, n)."""
        return np.array(self._numbers.tells[self._edges[neighbor].k, 1:])

    @property
    def returning(self) -> Floats:
        """The part of the answer that comes from the flows of dropped edges, shape (n,)."""
        factors = self.program.estimate[self._now, len(self.program.own) + 1 : -1]
        return np.asarray(factors @ self._numbers.tells[-1, 1:])

    def drop(self, neighbor: int, *, at_once: bool = False) -> None:
        """Treat the neighbor as dead: its flow returns, and if it comes back, the edge starts with zero flow."""
        if neighbor in self.closings:  # its silence was announced, so its flow is kept
            return
        edge = self._edges[neighbor]
        if at_once:
            self._take_mask(neighbor)
            self._numbers.tells[edge.k, 1:] = 0.0
        else:
            self._return(neighbor)
        self._begin_again(edge)
        self._count()
        if self.masks is not None:
            self._follow_masks()
        self._numbers.conclude(self._now)

    def _begin_again(self, edge: EdgeEnd) -> None:
        """Tell the neighbor, from the next message on, that this edge was dropped."""
        edge.used, edge.standing, edge.since, edge.heard = 0, DROPPED, self.serial, self.age - 1
        edge.echoed = edge.up = False

    def _return(self, neighbor: int) -> None:
        """Let the flow of an edge return slowly, with its mask; the edge itself starts again with zero flow."""
        self._take_mask(neighbor)
        edge, left = self._numbers.tells[self._edges[neighbor].k, 1:], self._numbers.tells[-1, 1:]
        left += edge
        if self.limits is None:
            self._dropped = True
            self.overgrowth.note_drop(edge, self.mean, self._numbers.answer)
        else:  # claims of a lying neighbor must not accumulate; the excess is removed at once
            np.clip(left, -self.limits.rows[-1], self.limits.rows[-1], out=left)
        edge[:] = 0.0
        self._returns = True

    def _shrink(self) -> None:
        """Reduce the flows of dropped edges by one round."""
        left = self._numbers.tells[-1, 1:]
        left *= self.return_rate
        left[np.abs(left) < _GONE] = 0.0
        self._returns = bool(left.any())

    def _watch_growth(self) -> None:
        """Drop all edges if their flows have outgrown the agent's values (`overgrowth.py`)."""
        flows = self._numbers.tells[:, 1:]
        if self.age % LOOK == 0:
            self.overgrowth.look(flows, self.mean, self._numbers.answer)
        elif not self._dropped:
            return
        self._dropped = False
        if self.overgrowth.begins_anew(flows):
            for j, edge in self._edges.items():
                if j not in self.closings:
                    self._take_mask(j)
                    flows[edge.k] = 0.0
                    self._begin_again(edge)
            flows[-1] = 0.0
            self._count()
            self._numbers.conclude(self._now)

    def _hear_mask(self, neighbor: int, message: Outgoing) -> bool:
        assert self.masks is not None
        tell, edge = self.masks.hear(neighbor, message), self._edges[neighbor]
        if tell and self.masks.begins(neighbor):
            edge.calm = self.age + QUIET  # it has rested, and momentum would overshoot
            if self.serial - edge.since > self.silence:
                edge.begun = self.age
        return tell

    def _take_mask(self, neighbor: int) -> None:
        """Make the mask of an edge that ends part of its flow."""
        if self.masks is not None and (mask := self.masks.forget(neighbor)) is not None:
            self._numbers.tells[self._edges[neighbor].k, 1:] += mask
            self._numbers.tells[-2, 1:] -= mask

    def _follow_masks(self) -> None:
        """Let the agent's value and its next messages follow what is known of the masks."""
        live = self.live
        assert self.masks is not None
        if self.masks.withdraws(live):
            self._withdraw()
        self.masks.update(live, self.samples > 0 or self.age >= AWAITED)
        self._numbers.tells[-2, 1:] = self._constant + self.masks.total

    def _withdraw(self) -> None:
        """Start all edges anew, with other masks; tell no value until these are agreed."""
        assert self.masks is not None
        for j in self.live:
            self._return(j)
            self._begin_again(self._edges[j])
        self._count()
        self.masks.opened, self.masks.stale = False, True
        self._numbers.tells[-2, 1:] = self._constant

    @property
    def live(self) -> list[int]:
        """The neighbors whose edges are neither dropped nor closed."""
        return [j for j, edge in self._edges.items() if edge.up]

    # -- edges that end (see `closing.py`) ---------------------------------------------------------------------

    def close(self, neighbor: int) -> None:
        """Close the edge from this end: its flow no longer changes."""
        if neighbor not in self.closings:
            self.closings[neighbor] = Closing(self.serial)
            self._freeze(neighbor)
        self.closings[neighbor].own = True

    def reopen(self, neighbor: int) -> None:
        """Resume an edge that this end closed, unless the other end has a reason to keep it closed."""
        closing = self.closings[neighbor]
        closing.own = False
        closing.over = not closing.theirs
        self._go_on()

    def _freeze(self, neighbor: int) -> None:
        """Reduce the edge to its flow: all its registers get that value, and it no longer counts as up."""
        edge = self._edges[neighbor]
        if (flow := self.program.flow_register) is not None:
            self._numbers.tells[edge.k, 1:] = self._numbers.tells[edge.k, 1 + flow].copy()
        edge.up = False
        self._count()

    def _go_on(self) -> None:
        """Reopen the edges whose other end has resumed."""
        for j in [j for j, closing in self.closings.items() if closing.over]:
            del self.closings[j]
            self._edges[j].up = True

    def hear_closing(self, neighbor: int, message: Outgoing) -> None:
        """Process a message that closes an edge, or that belongs to an edge closed by this end, from any round."""
        closing, ends = self.closings.get(neighbor), bool(message.closing & ENDS)
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
        if self.masks is not None:
            self.masks.hear(neighbor, message, rests=True)
        theirs = np.frombuffer(message.rows).reshape(1 + mine.shape[0], -1)[1:]
        if not message.closing:
            same = False
        elif not (same := np.array_equal(theirs, -mine)) and ends and (not closing.own or neighbor < self.me):
            mine[:] = -theirs if self.limits is None else self.limits.clip_last(neighbor, -theirs)
            self._numbers.conclude(self._now)
            closing.since, same = self.serial, np.array_equal(theirs, -mine)
        closing.matched = same = same and (self.masks is None or self.masks.edges[neighbor].agrees)
        closing.confirmed = same and bool(message.closing & HOLDS)

    def farewell(self, neighbor: int) -> Outgoing:
        """Return a message about a closed edge, to be sent between two rounds; the value in it is zero."""
        edge = self._edges[neighbor]
        rows = self._numbers.tells[edge.k].copy()
        rows[0] = 0.0
        flags = self.closings[neighbor].flags(self.durable)
        echo = 0 if edge.standing == DROPPED else edge.used
        told, mask = rows.tobytes(), b""
        if self.masks is not None:
            mask, told = self.masks.say(neighbor, told)
        return Outgoing(self.serial, echo, edge.standing != NEW, told, self.degree, flags, mask)

    def park(self, neighbor: int, mine: str, theirs: str, *, doubt: bool = False) -> None:
        """Keep the flow of an edge that was removed; call `rewire` without the edge afterwards."""
        self._take_mask(neighbor)
        flow = self.flow(neighbor)
        self._numbers.tells[self._edges[neighbor].k, 1:] = 0.0
        self.parked[neighbor] = Parked(flow, mine, theirs, doubt)

    def settle(self, neighbor: int, flow: Floats) -> None:
        """Replace a parked flow that was in doubt by what the other end reports; call `rewire` afterwards."""
        flow = flow if self.limits is None else self.limits.clip_parked(flow)
        self.parked[neighbor] = replace(self.parked[neighbor], flow=flow, doubt=False)

    def share(self) -> Floats:
        """Return (n,) this agent's share of the average: its own mean plus its flows, without returning ones."""
        flow = self.program.flow_register
        assert flow is not None
        return np.asarray(self.mean + self._numbers.tells[:-1, 1 + flow].sum(axis=0))

    def give(self, heirs: Sequence[int]) -> None:
        """Hand this agent's share of the average to these neighbors, whose edges are closed, in equal parts."""
        part = self.share() / len(heirs)
        for j in heirs:
            self._numbers.tells[self._edges[j].k, 1:] -= part
            self.closings[j].since = self.serial
        self._numbers.conclude(self._now)

    def remember(self) -> LedgerState:
        """Return a copy of the state that must survive a restart."""
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
            *(({}, {}) if self.masks is None else (self.masks.kept, self.masks.secrets)),
        )
