"""Applies changes of an agent's neighbors between two rounds, so that no change biases the average.

- An edge that the roster ends, between two agents that stay members, is closed first (`round/closing.py`): its ends
  exchange messages until both hold the same flow, and then park it. If they cannot, the end with the smaller number
  decides alone: it keeps the flow if the other end may already have kept it, and returns it otherwise; the other end
  asks for the decision.
- An agent that leaves, but whose data stay in the average, hands them over: it accepts no further observations, closes
  all its edges, and adds the rest of its mean to its neighbors' flows. Once they have confirmed, the members hold
  exactly its observations and their own. Only then may a roster without it be signed, with these heirs. A neighbor that
  is absent does not inherit: the leaving agent has dropped the flow to it, and the neighbor does so when it reads that
  roster.
- An agent that stops regularly announces it, and its neighbors keep its flow unchanged until it returns.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gossamer.agents.config.settings import AgentSettings, Label, Neighbor
from gossamer.agents.round.bounds import Bounds
from gossamer.agents.round.closing import Parked
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.ledger_state import KEPT, LedgerState
from gossamer.agents.round.round_trip import timeout_of
from gossamer.agents.round.transport import Transport
from gossamer.arrays import Floats
from gossamer.errors import GossamerError

log = logging.getLogger("gossamer.agents")

HAND_OVER, TAKE_BACK, HELD = b"gossamer hand over\n", b"gossamer take back\n", b"gossamer held\n"
"""Questions to an agent: the operator's, to leave or to stay, and that of the other end of a former edge."""

STAYS = -1
"""Instead of an epoch, if the agent is not leaving."""

_ROUNDING = 1e-9


def resumed(state: LedgerState, settings: AgentSettings) -> LedgerState:
    """Return a stored state, in which the edges that ended while the agent was down are parked.

    The end with the smaller number can decide: if it had not confirmed the flow, the other end has not kept it.
    """
    names, current = settings.names, {n.id for n in settings.neighbors}
    parked = dict(state.parked)
    for j in state.flows:
        if j == KEPT or j in current or j in settings.kept or j not in names:
            continue
        if settings.id > j and settings.tls is not None:
            parked[j] = Parked(state.total(j), settings.name, names[j], doubt=True)
        elif j in state.closed:
            parked[j] = Parked(state.total(j), settings.name, names[j])
    return replace(state, parked=parked)


class Rewiring:
    """Applies changes of an agent's neighbors; except for its properties it is used by the agent's own thread.

    bounds   gives the bounds on numbers that follow from settings
    leaving  the epoch in which the agent hands its data over; `STAYS` if it does not
    """

    def __init__(
        self,
        settings: AgentSettings,
        ledger: Ledger,
        conversation: Conversation,
        transport: Transport,
        bounds: Callable[[AgentSettings], Bounds | None],
    ) -> None:
        self.settings = settings
        self.leaving = STAYS
        self._ledger = ledger
        self._conversation = conversation
        self._transport = transport
        self._bounds = bounds
        self._parting: dict[int, Neighbor] = {}
        self._asked: set[int] = set()  # ends that asked for a flow that is not decided yet
        self._told: dict[int, Floats] = {}  # flows that former neighbors have reported
        self._barred: frozenset[int] = frozenset()  # neighbors without a connection: those in quarantine
        self._wish = False  # whether the operator wants this agent to hand its data over
        self._began = False
        self._report: dict[str, object] = {}

    # -- changes of the roster ------------------------------------------------------------------------------

    def follow(self, settings: AgentSettings) -> bool:
        """Use these settings from now on; return whether the transport could apply them."""
        before, was = self.settings, self._parting
        names, current = settings.names, {n.id for n in settings.neighbors}
        known = {n.id: n for n in (*before.neighbors, *was.values())}
        ending = {j: n for j, n in known.items() if j not in current and names.get(j) == n.name}
        self._conversation.part([*current, *ending], settings.roster)
        self._parting = {j: replace(n, weight=0.0) for j, n in ending.items()}
        if settings.reset > self._ledger.reset:
            self._parting = {}
        self.settings = settings
        try:
            self._wire()
        except GossamerError as failure:
            self.settings, self._parting = before, was
            log.error("%s keeps its old settings, because the new ones failed: %s", settings.label, failure)
            return False
        for j in self._parting:
            self._ledger.close(j)
        if self.leaving < settings.epoch:  # the roster without it was not signed
            self._wish = False
            self._take_back()
        self._conversation.adjust(timeout_of(settings), settings.dead_after)
        self._conversation.names = {n.id: n.label for n in settings.neighbors}
        self._conversation.follow(settings.epoch, settings.roster, settings.reset)
        log.info("%s continues with %d neighbors, epoch %d", settings.label, len(current), settings.epoch)
        self._conversation.gather(timeout_of(settings))
        return True

    def _wire(self) -> None:
        """Wire the transport, the ledger and the conversation, with the edges that are being closed.

        A neighbor in quarantine has no connection, because reading its messages takes time.
        """
        settings, self._barred = self.settings, self._conversation.barred
        wired = replace(settings, neighbors=(*settings.neighbors, *self._parting.values()))
        connected = tuple(n for n in wired.neighbors if n.id not in self._barred)
        self._transport.rewire(replace(wired, neighbors=connected))
        bounds = self._bounds(wired)
        weights = {n.id: n.weight for n in wired.neighbors}
        self._ledger.rewire(weights, settings.kept, bounds, settings.names, settings.reset)
        self._conversation.rewire(tuple(weights), None if bounds is None else bounds.rows)

    @property
    def busy(self) -> bool:
        """Whether a change is in progress."""
        return bool(
            self._parting
            or self._told
            or self._wish
            or self.leaving != STAYS
            or self._barred != self._conversation.barred
        )

    def look(self) -> None:
        """Continue the changes in progress; called between two rounds."""
        if self._barred != self._conversation.barred:
            try:
                self._wire()
            except GossamerError as failure:  # such as a certificate that cannot be read now
                log.error("%s keeps its connections: %s", self.settings.label, failure)
        if self._parting or self._told:
            self._part()
        if self._wish and self.leaving == STAYS:
            self._hand_over()
        elif not self._wish and self.leaving != STAYS:
            self._take_back()
        if self.leaving != STAYS:
            self._report = self._progress()

    # -- edges that end -------------------------------------------------------------------------------------

    def _part(self) -> None:
        ledger, present = self._ledger, self._transport.present()
        kept: dict[int, bool] = {}  # edge that has ended -> whether the other end must be asked
        over = []
        for j in self._parting:
            peer, closing = self._conversation.peers[j], ledger.closings.get(j)
            agreed = closing is not None and closing.agreed(ledger.durable)
            gone = peer.dead or j in self._asked or (peer.stopped and j not in present)
            if closing is None or agreed or gone:
                over.append(j)
                asks = not agreed and self.settings.id > j and self.settings.tls is not None
                if closing is not None and (agreed or asks or closing.said or closing.theirs):
                    kept[j] = asks
        self._conversation.bid_farewell(over)
        for j, asks in kept.items():
            ledger.park(j, self.settings.name, self._parting[j].name, doubt=asks)
        reported, self._told = self._told, {}
        for j, flow in reported.items():
            if j in ledger.parked:
                ledger.settle(j, flow)
        if over or reported:
            self._parting = {j: n for j, n in self._parting.items() if j not in over}
            self._asked.difference_update(over)
            self._wire()

    @property
    def doubts(self) -> list[int]:
        """Former neighbors that must be asked for the flow of their edge."""
        return [j for j, parked in self._ledger.parked.copy().items() if parked.doubt]

    def held(self, asker: int) -> bytes:
        """Return the flow of a former edge, for its other end; empty while it is not decided."""
        if asker in self._parting:
            self._asked.add(asker)
            return b""
        if any(n.id == asker for n in self.settings.neighbors) or self.settings.epoch == 0:
            return b""
        parked = self._ledger.parked.get(asker)
        ledger = self._ledger
        flow = np.zeros((ledger.edge_registers, ledger.dimension)) if parked is None else parked.flow
        return flow.astype("<f8").tobytes()

    def settle(self, other: int, held: bytes) -> None:
        """Take the flow that the other end of a former edge reported; any thread may call this."""
        ledger = self._ledger
        if len(held) == 8 * ledger.edge_registers * ledger.dimension:
            theirs = np.frombuffer(held, "<f8").reshape(ledger.edge_registers, ledger.dimension)
            if np.isfinite(theirs).all():
                self._told[other] = -theirs.astype(float)

    # -- stopping and leaving -------------------------------------------------------------------------------

    def say_goodbye(self) -> None:
        """Close all edges because the agent stops: its neighbors keep its flow until it returns."""
        for j in self._conversation.peers:
            self._ledger.close(j)
        self._conversation.bid_farewell(list(self._conversation.peers))

    @property
    def report(self) -> bytes:
        """The progress of handing over, as JSON: `done`, the `heirs`, and what the agent waits for (`problem`)."""
        return json.dumps(
            self._report or {"done": False, "problem": "it begins with its next round"}
        ).encode()

    def wish(self, leave: bool) -> None:
        """Start to hand the agent's data over, or take them back; any thread may call this."""
        if leave and not self._wish:
            self._report = {}
        self._wish = leave
        self._transport.wake()

    def resume_leaving(self, epoch: int) -> None:
        """Continue to leave after a restart, if the fleet has not changed since."""
        if epoch != STAYS and epoch == self.settings.epoch:
            self._wish, self.leaving = True, epoch
            for n in self.settings.neighbors:
                self._ledger.close(n.id)

    def _hand_over(self) -> None:
        ledger, peers = self._ledger, self._conversation.peers
        present, silence = self._transport.present(), self.settings.silence
        stopped = [j for j in peers if j in ledger.closings and j not in present]
        alive = [j for j, p in peers.items() if j in present and p.misses <= silence and not p.dead]
        alive = [j for j in alive if j not in ledger.closings]
        waits = [j for j, p in peers.items() if j not in (*stopped, *alive) and not p.dead]
        problem = ""
        if ledger.program.flow_register is None or not ledger.program.weighted:
            problem = (
                f"only a method that averages means can hand data over, and {ledger.program.method} does not"
            )
        elif waits or self._parting or self.doubts:
            problem = f"it waits for {self._names([*waits, *self._parting, *self.doubts])}"
        elif not alive:
            problem = "none of its neighbors is up to take its data; start one of them"
        elif not ledger.mean[0] > 0:
            problem = (
                "it has observed nothing, so there is nothing to keep; remove it without keeping its data"
            )
        if problem:
            self._report = {"done": False, "problem": problem}
            return
        self.leaving = self.settings.epoch
        for j, peer in peers.items():
            if peer.dead and j not in stopped:
                ledger.drop(j)
            ledger.close(j)
        ledger.give(alive)
        limits, flows = ledger.limits, {j: ledger.flow(j) for j in alive}
        if limits is not None and any((limits.clip_last(j, f) != f).any() for j, f in flows.items()):
            self._wish = False
            self._take_back()
            problem = "a flow would be beyond what the range allows; wait until the fleet agrees"
            self._report = {"done": False, "problem": problem}
            return
        log.info("%s hands its data over to %s", self.settings.label, self._names(alive))

    def _progress(self) -> dict[str, object]:
        ledger, peers = self._ledger, self._conversation.peers
        present = self._transport.present()
        needed = [j for j in peers if ledger.flow(j).any()]
        missing = [
            j
            for j in needed
            if not ledger.closings[j].agreed(ledger.durable)
            and not (ledger.closings[j].theirs and ledger.closings[j].matched and j not in present)
        ]
        left = np.abs(ledger.share()).max()
        if missing:
            return {"done": False, "problem": f"{self._names(missing)} did not confirm what it handed over"}
        if left > _ROUNDING * (1.0 + np.abs(ledger.mean).max()):
            return {"done": False, "problem": "a neighbor closed its edge at the same time; try again"}
        return {"done": True, "heirs": sorted({*needed, *ledger.parked})}

    def _take_back(self) -> None:
        """Reopen all edges; the data that were handed over mix like all others."""
        self.leaving, self._report = STAYS, {}
        ledger = self._ledger
        for j, closing in list(ledger.closings.items()):
            if closing.own and j not in self._parting:
                ledger.reopen(j)
                if self._conversation.peers[j].dead:
                    ledger.drop(j)

    @property
    def problem(self) -> str:
        """What the operator must do about an agent that has handed its data over; empty if it has not."""
        if self.leaving == STAYS:
            return ""
        return (
            "it has handed its data over and waits to be removed; `gossamer fleet push` the roster without it, or "
            "`gossamer fleet sign` and push one with it, to let it take part again"
        )

    def _names(self, agents: list[int]) -> str:
        names = self.settings.names
        return ", ".join(Label.of(names[j]) if j in names else self.settings.label_of(j) for j in agents)
