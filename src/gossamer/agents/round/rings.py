"""Messages as Zenoh keeps them until the agent's thread takes them: one ring per neighbor.

The messages from each neighbor wait in a ring on Zenoh's side, which the agent's thread reads without any Python
in between. So a round costs fewer switches between threads, and a flooded agent loses the oldest messages, not the
newest. There is one ring per neighbor, because Zenoh routes an exact key much faster than a pattern. An exchange can
wait at only one ring, so it must be that of a neighbor whose message is still needed: if agents on a cycle each waited
for the one they have heard already, they would wait forever. A ring has no timeout, so a second thread nudges an
exchange that waits long, by a deletion, which no neighbor may send: the exchange then looks at all rings, checks its
deadline, and waits again. That is the fastest way to run as fast as the neighbors answer; with a pace, `inboxes.py` is
the cheaper one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from typing import Any

from gossamer.agents.transports.base import NOBODY, Deliver

_NAP = 0.02
"""Seconds between two checks of the deadline of an agent without neighbors."""


class Link:
    """One neighbor's ring, how to send to it, and how to nudge an exchange that waits at the ring."""

    def __init__(self, id: int, put: Callable[[bytes], None], ring: Any, nudge: Callable[[], None]) -> None:
        self.id = id
        self.put = put
        self.try_recv: Callable[[], Any] = ring.try_recv
        self.recv: Callable[[], Any] = ring.recv
        self.nudge = nudge


class Rings:
    """All rings of an agent. `exchange` belongs to its thread; `wake` and `nudge_if_long` to any.

    It is a transport, except for `open` and `close`.
    """

    def __init__(self) -> None:
        self.message: Any = None  # Zenoh's kind of sample that is not a deletion
        self.connected: frozenset[int] = frozenset()
        self._neighbors: dict[int, Link] = {}
        self._order: list[Link] = []  # the longest silent first
        self._woken = False
        self._waiting: Link | None = None  # at whose ring an exchange waits
        self._waits = 0
        self._seen = 0  # number of waits begun at the last check
        self._deadline = math.inf  # of the exchange that waits

    def add(self, id: int, put: Callable[[bytes], None], ring: Any, nudge: Callable[[], None]) -> None:
        self._neighbors[id] = neighbor = Link(id, put, ring, nudge)
        self._order.append(neighbor)

    def present(self) -> frozenset[int]:
        return self.connected

    def exchange(
        self,
        round: int,
        outgoing: Mapping[int, bytes],
        deadline: float,
        deliver: Deliver,
        awaited: Set[int] = NOBODY,
    ) -> None:
        for id, payload in outgoing.items():
            neighbor = self._neighbors[id]
            neighbor.put(payload)
        look = not awaited  # at all rings, before it waits at one
        while True:
            if look and self._look(deliver):
                return
            if self._woken or time.monotonic() >= deadline:
                if look:
                    self._woken = False
                    return
                look = True  # what has arrived is delivered in any case
            elif not self._order:  # no neighbors: nothing to wait for but the deadline
                time.sleep(_NAP)
            else:
                neighbor = self._likeliest(awaited)
                sample = self._wait(neighbor, deadline)
                payload = sample.payload.to_bytes()
                if (payload or sample.kind == self.message) and self._hand(neighbor, payload, deliver):
                    return
                look = not (payload and awaited)  # also when it was nudged

    def _look(self, deliver: Deliver) -> bool:
        """Deliver what is in the rings, the longest silent first; return whether that was enough."""
        place = 0
        while place < len(self._order):
            neighbor = self._order[place]
            sample = neighbor.try_recv()
            if sample is None:
                place += 1
            elif sample.kind == self.message and self._hand(neighbor, sample.payload.to_bytes(), deliver):
                return True
        return False

    def _hand(self, neighbor: Link, payload: bytes, deliver: Deliver) -> bool:
        self._order.remove(neighbor)
        self._order.append(neighbor)
        return deliver(neighbor.id, payload)

    def _likeliest(self, awaited: Set[int]) -> Link:
        """Whom to wait for: of the awaited the one heard last, which is least likely to have fallen silent."""
        for neighbor in reversed(self._order):
            if neighbor.id in awaited:
                return neighbor
        return self._order[0]

    def _wait(self, neighbor: Link, deadline: float) -> Any:
        self._waits += 1
        self._deadline = deadline
        self._waiting = neighbor
        if self._woken:  # since the last check; later calls of `wake` find this exchange waiting
            self._nudge(neighbor)
        sample = neighbor.recv()
        self._waiting = None
        return sample

    def nudge_if_long(self) -> bool:
        """Nudge an exchange that has waited since the last call or past its deadline; return whether one had."""
        long = self._waits == self._seen or time.monotonic() >= self._deadline
        self._seen = self._waits
        if long:
            self._nudge(self._waiting)
        return long

    def wake(self) -> None:
        """End the running exchange, or the next one, soon."""
        self._woken = True
        self._nudge(self._waiting)

    def _nudge(self, neighbor: Link | None) -> None:
        if neighbor is not None:
            with suppress(Exception):  # the session was closed in the meantime
                neighbor.nudge()

    def clear(self) -> None:
        """Forget all neighbors."""
        self.connected = frozenset()
        self._neighbors.clear()
        self._order.clear()
