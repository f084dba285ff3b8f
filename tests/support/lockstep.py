"""Conversations of a whole fleet in one thread, in lockstep: real codecs, ledgers and rounds, no network, no waiting.

In a round every agent sends to its neighbors before any of them listens: an agent's `exchange` starts the step of the
next agent, and listens when that has returned. A liar is an honest agent whose messages are rewritten on their way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import networkx as nx
import numpy as np

from gossamer.agents.config.settings import AgentSettings, Limits, Neighbor
from gossamer.agents.round.bounds import SLACK, Bounds, with_loads
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.ledger_state import LedgerState
from gossamer.agents.round.masking import LARGEST_MASK, Masking
from gossamer.agents.round.messages import Outgoing, Received
from gossamer.agents.round.transport import Deliver, Transport
from gossamer.agents.round.wire import Codec
from gossamer.agents.statistics.layout import Layout
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import ledger_program
from gossamer.methods.method import Method
from gossamer.networks import Network
from tests.support.small_fleets import weights_of

PACE = 0.1
"""Seconds of the agents' clocks per round."""

Lie = Callable[["Told"], "Told | None"]
"""Rewrites a message; None: it is not sent."""


class Told:
    """A message as the liar's program sees it: every field may be changed. `rows` has shape (1 + E, n)."""

    def __init__(self, message: Received, receiver: int) -> None:
        self.receiver = receiver
        self.round, self.serial, self.echo = message.round, message.serial, message.echo
        self.settled = message.settled
        self.rows = np.frombuffer(message.rows).copy()

    def shape(self, registers: int) -> np.ndarray:
        return self.rows.reshape(1 + registers, -1)


class Forger:
    """Rewrites the messages of one agent before they leave."""

    def __init__(self, id: int, size: int, registers: int, agreed: bytes = b"") -> None:
        self._id = id
        self._reading = Codec(-1, frozenset({id}), size, registers, Limits(rounds_ahead=2**62), agreed)
        self._writing = Codec(id, frozenset(), size, registers, Limits(), agreed)

    def forge(self, lie: Lie, receiver: int, payload: bytes) -> bytes | None:
        message = self._reading.decode(self._id, payload, 0)
        if not isinstance(message, Received):
            return payload  # a roster, which is passed on as it is
        self._writing.epoch = message.epoch
        told = lie(Told(message, receiver))
        if told is None:
            return None
        content = Outgoing(told.serial, told.echo, told.settled, told.rows.tobytes(), message.degree)
        return self._writing.encode(told.round, content)


class Lying:
    """A transport whose agent lies, once it has a `lie`."""

    def __init__(self, transport: Transport, forger: Forger) -> None:
        self._transport, self._forger = transport, forger
        self.lie: Lie | None = None

    def exchange(
        self,
        round: int,
        outgoing: Mapping[int, bytes],
        deadline: float,
        deliver: Deliver,
    ) -> None:
        if self.lie is not None:
            forged = {j: self._forger.forge(self.lie, j, payload) for j, payload in outgoing.items()}
            outgoing = {j: payload for j, payload in forged.items() if payload is not None}
        self._transport.exchange(round, outgoing, deadline, deliver)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Desk:
    """One agent: its conversation, and the transport through which it talks."""

    def __init__(
        self, fleet: Lockstep, id: int, restored: LedgerState | None = None, serial: int = 0
    ) -> None:
        self.fleet, self.id = fleet, id
        self.now = 0.0
        self.inbox: list[tuple[int, bytes]] = []
        self.lie: Lie | None = None
        network = fleet.network
        weights = weights_of(network, id)
        size, registers = fleet.layout.size, len(fleet.program.edge)
        bounds = fleet.bounds_of(id)
        most = bounds and bounds.rows
        masks = None
        if fleet.masks is not None:
            known = restored.masks if restored else {}
            draw = np.random.default_rng([fleet.seed, id, serial]).standard_normal
            masks = Masking(id, fleet.masks, 1, known, draw)
        self.ledger = Ledger(
            fleet.program,
            id,
            weights,
            size,
            serial=serial or 1000 * (id + 1),
            bounds=bounds,
            return_rate=fleet.return_rate,
            restored=restored,
            masks=masks,
        )
        self.conversation = Conversation(
            id,
            self.ledger,
            self,  # type: ignore[arg-type]
            tuple(weights),
            timeout=PACE / 10,
            death=fleet.death,
            clock=lambda: self.now,
            limits=fleet.limits,
            most=most,
            masks=None if fleet.masks is None else LARGEST_MASK * fleet.masks,
            single=fleet.single,
        )
        self.forger = Forger(id, size, registers)

    def rewire(self) -> None:
        """Follow the fleet's network as it is now."""
        fleet, weights = self.fleet, weights_of(self.fleet.network, self.id)
        self.ledger.rewire(weights, (), fleet.bounds_of(self.id))
        self.conversation.rewire(tuple(weights), fleet.bounds and fleet.bounds.rows)

    def present(self) -> frozenset[int]:
        return frozenset(self.conversation.peers) & self.fleet.desks.keys()

    def exchange(
        self,
        round: int,
        outgoing: Mapping[int, bytes],
        deadline: float,
        deliver: Deliver,
    ) -> None:
        for receiver, payload in outgoing.items():
            self.fleet.bytes += len(payload)
            sent = self.forger.forge(self.lie, receiver, payload) if self.lie else payload
            if sent is not None and receiver in self.fleet.desks and self.fleet.arrives(self.id, receiver):
                self.fleet.desks[receiver].inbox.append((self.id, sent))
        if outgoing:  # a round hears its neighbors here, not in an earlier poll
            self.fleet.next_agent()
        while self.inbox:
            if deliver(*self.inbox.pop(0)):
                return
        self.now = max(self.now, deadline)

    @property
    def estimate(self) -> float:
        return float(self.fleet.layout.read(self.ledger.estimate).held[0])

    @property
    def rejected(self) -> dict[str, int]:
        return {str(reason): count for reason, count in self.conversation.rejected.items()}

    def state(self, neighbor: int) -> str:
        peer = self.conversation.peers[neighbor]
        return "quarantined" if peer.quarantined else "dead" if peer.dead else "alive"


class Lockstep:
    """A fleet on `network` in which agent i always observes means[i]; `range` as in the settings."""

    def __init__(
        self,
        network: Network,
        means: Any,
        range: tuple[float, float] | None = None,
        *,
        method: Method | None = None,
        loss: float = 0.0,
        death: float = 1.0,
        seed: int = 0,
        replicates: int = 0,
        return_rate: float = 0.5,  # faster than agents do it, for tests that wait until a flow has returned
        layout: Layout | None = None,  # instead of the mean; then `means` are rows of this layout
        mask: float = 0.0,  # standard deviation of masks
        single: Callable[[np.ndarray], float] | None = None,  # as for a conversation
        soft: bool = True,  # whether flows have soft limits
    ) -> None:
        self.single, self.bytes, self.soft = single, 0, soft
        self.return_rate = return_rate
        self.network, self.means, self.death = network, np.asarray(means, dtype=float), death
        self.program = _program(method or AnytimeSDA(), network)
        self.layout = layout or Layout(1, replicates=replicates, range=(range,) if range else ())
        self.seed, self.masks = seed, self.layout.masks((mask,) * self.layout.dimension) if mask else None
        self.bounds = Bounds.of(self.layout, self.program, network.agents, self.masks)
        self.limits = Limits(rounds_ahead=10**6)
        self.random, self.loss = np.random.default_rng(seed), loss
        self.desks: dict[int, Desk] = {}
        self.desks = {i: Desk(self, i) for i in map(int, np.arange(network.agents))}
        self._waiting: list[Desk] = []
        self._round = 0

    def bounds_of(self, agent: int) -> Bounds | None:
        """The limits of an agent, with the soft ones of its edges."""
        near = loaded(self.network, agent) if self.soft else ()
        return Bounds.of(self.layout, self.program, self.network.agents, self.masks, near)

    def arrives(self, sender: int, receiver: int) -> bool:
        return not self.loss or self.random.random() >= self.loss

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self._round += 1
            for desk in self.desks.values():
                if desk.conversation.called():  # it is behind its neighbors, and may catch up
                    self._step(desk)
            self._waiting = list(self.desks.values())
            while self._waiting:
                self.next_agent()

    def next_agent(self) -> None:
        if self._waiting:
            self._step(self._waiting.pop())

    def _step(self, desk: Desk) -> None:
        desk.now = max(desk.now, self._round * PACE)
        row = np.zeros(self.layout.size)
        row[: 2 if self.means.ndim == 1 else None] = self._told(desk.id)
        desk.conversation.step(row)

    def _told(self, agent: int) -> Any:
        return (1.0, self.means[agent]) if self.means.ndim == 1 else self.means[agent]

    def remove(self, *agents: int) -> None:
        for agent in agents:
            del self.desks[agent]

    def restart(self, agent: int, restored: LedgerState | None = None) -> None:
        """Start a removed agent again, from what it has stored."""
        self.desks[agent] = Desk(self, agent, restored, serial=10**6 * (self._round + 1))
        self.desks = dict(sorted(self.desks.items()))

    def unlink(self, i: int, j: int) -> bool:
        """Take an edge out of the roster, and keep its flow; return whether that was possible."""
        graph = nx.empty_graph(self.network.agents)
        graph.add_edges_from(self.network.edges.tolist())
        graph.remove_edge(i, j)
        if not nx.is_connected(graph):
            return False
        ends = [(self.desks[a].ledger, b) for a, b in ((i, j), (j, i))]
        for ledger, other in ends:
            ledger.close(other)
        for _ in range(50):
            self.run(4)
            if all(ledger.closings[other].agreed(ledger.durable) for ledger, other in ends):
                break
        else:
            raise AssertionError(f"agents {i} and {j} cannot end their edge")
        for ledger, other in ends:
            ledger.park(other, "", "")
        self.network = Network.of(graph)
        for desk in self.desks.values():
            desk.rewire()
        return True

    def estimates(self, without: tuple[int, ...] = ()) -> np.ndarray:
        return np.array([desk.estimate for i, desk in self.desks.items() if i not in without])

    def average(self, without: tuple[int, ...] = ()) -> float:
        return float(np.mean([m for i, m in enumerate(self.means) if i not in without]))


@cache
def loaded(network: Network, id: int) -> tuple[Neighbor, ...]:
    """The neighbors of an agent, with what their edges may need."""
    weights = {i: weights_of(network, i) for i in range(network.agents)}
    ends = tuple(Neighbor(j, weight) for j, weight in weights[id].items())
    made = AgentSettings(id, ends, method=AnytimeSDA("local"), range=(0.0, 1.0), mask=1.0)
    return with_loads(made, weights).neighbors


_program = cache(ledger_program)  # of a network that is the same object

GRID = Network.grid(4, 4)
RANGE = (-40.0, 60.0)
WIDTH = 100.0
FLOW = SLACK * 16 * WIDTH / 4
"""F of the observation's component."""

REGISTERS = 2


def adds(amount: float, component: slice) -> Lie:
    def lie(told: Told) -> Told:
        told.shape(REGISTERS)[1:, component] += amount
        return told

    return lie
