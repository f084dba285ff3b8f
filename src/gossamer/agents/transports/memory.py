"""A network inside one process, for tests and simulations: no message is lost, and their order is kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from queue import Empty, Queue

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.transport import Deliver

Inbox = Queue[tuple[int, bytes] | None]
"""(sender, payload) in the order of arrival; None wakes the reader.

Not a SimpleQueue, whose get(timeout=...) can wait forever if a signal arrives just as the timeout expires.
"""


def listen(inbox: Inbox, deadline: float, deliver: Deliver) -> None:
    """Deliver from `inbox` as `Transport.exchange` specifies."""
    while True:
        if inbox.empty():
            remaining = deadline - time.monotonic() if deadline else 0.0
            if remaining <= 0:
                return
            try:
                item = inbox.get(timeout=remaining)
            except Empty:
                return
        else:
            item = inbox.get()  # the agent's thread is the only reader
        if item is None or deliver(*item):
            return


class Memory:
    """A network inside one process.

    See Also
    --------
    TlsTransport : Messages over a network.
    Faulty : Loses and delays the messages of another transport.

    Examples
    --------
    >>> async def two():
    ...     wires = gs.agents.Memory()
    ...     def agent(me, other):
    ...         neighbors, method = (gs.Neighbor(other, weight=0.5),), gs.AnytimeSDA("local-heavy-ball")
    ...         settings = gs.AgentSettings(me, neighbors, method=method)
    ...         return gs.Agent(settings, transport=wires.transport(me, (other,)))
    ...     async with agent(0, 1) as a, agent(1, 0) as b:
    ...         a.observe(1.0), b.observe(3.0)
    ...         async for now in a.snapshots(every=0.01):
    ...             if now.neighbors[0].distance < 1e-6:
    ...                 return now.estimate
    >>> import asyncio
    >>> asyncio.run(asyncio.wait_for(two(), 30))
    array([2.])
    """

    def __init__(self) -> None:
        self._members: dict[int, MemoryTransport] = {}

    def transport(self, me: int, neighbors: tuple[int, ...]) -> MemoryTransport:
        return MemoryTransport(self, me, neighbors)


class MemoryTransport:
    """One agent's end of a `Memory` network."""

    def __init__(self, network: Memory, me: int, neighbors: tuple[int, ...]) -> None:
        self.me = me
        self.neighbors = frozenset(neighbors)
        self._network = network
        self._inbox: Inbox = Queue()

    def open(self) -> None:
        self._network._members[self.me] = self
        self._tell_neighbors()

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        for neighbor, payload in outgoing.items():
            member = self._network._members.get(neighbor)
            if member is not None and self.me in member.neighbors:
                member._inbox.put((self.me, payload))
        listen(self._inbox, deadline, deliver)

    def rewire(self, settings: AgentSettings) -> None:
        self.neighbors = frozenset(n.id for n in settings.neighbors)
        self._tell_neighbors()

    def present(self) -> frozenset[int]:
        return self.neighbors & self._network._members.keys()

    def wake(self) -> None:
        self._inbox.put(None)

    def close(self) -> None:
        if self._network._members.get(self.me) is self:
            del self._network._members[self.me]
            self._tell_neighbors()

    def _tell_neighbors(self) -> None:
        for neighbor in self.present():
            self._network._members[neighbor].wake()
