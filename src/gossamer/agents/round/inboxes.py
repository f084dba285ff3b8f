"""What an agent's neighbors have sent, until its thread takes it: one inbox per neighbor, and one bell for all.

Zenoh's thread puts each message into its sender's inbox and rings the bell; the agent's thread sleeps until the bell
rings or its deadline passes, and then looks into every inbox. So a waiting agent costs nothing, and hears anyone at
once; but Zenoh's thread needs Python's lock for each message, which costs an agent without a pace a tenth of its
rounds, so that one uses `rings.py`. There is one inbox per neighbor, because Zenoh routes an exact key much faster than
a pattern, and because a neighbor that floods the agent then pushes out its own oldest messages, and nobody else's.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from typing import Any

from gossamer.agents.transports.base import NOBODY, Deliver

_WAITING = 64
"""How many messages from one neighbor may wait; a round uses only the newest."""


class Inbox:
    """One neighbor's inbox, and how to send to it."""

    def __init__(self, id: int, put: Callable[[bytes], None], bell: Any) -> None:
        self.id = id
        self.put = put
        self.waiting: deque[Any] = deque(maxlen=_WAITING)
        self._bell = bell

    def arrive(self, sample: Any) -> None:
        """Take a message from Zenoh's thread."""
        self.waiting.append(sample)
        ring(self._bell)


def _bell() -> threading.Lock:
    """A lock that is free once it has rung, and taken by the one who hears it."""
    bell = threading.Lock()
    bell.acquire()
    return bell


def ring(bell: Any) -> None:
    """Let the one who waits for this lock have it; any thread may call this, any number of times."""
    if bell.locked():  # or it has rung already, and nobody has listened since
        with suppress(RuntimeError):  # another thread was faster
            bell.release()


class Inboxes:
    """All inboxes of an agent. `exchange` belongs to its thread; `wake` to any.

    It is a transport, except for `open` and `close`.
    """

    def __init__(self, bell: Any = None) -> None:
        self.message: Any = None  # Zenoh's kind of sample that is not a deletion
        self.connected: frozenset[int] = frozenset()
        self._inboxes: dict[int, Inbox] = {}
        self._order: list[Inbox] = []
        self._woken = False
        self._bell = _bell() if bell is None else bell

    def add(self, id: int, put: Callable[[bytes], None]) -> Callable[[Any], None]:
        """Open an inbox for a neighbor; return the function that takes what it sends."""
        self._inboxes[id] = inbox = Inbox(id, put, self._bell)
        self._order.append(inbox)
        return inbox.arrive

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
            inbox = self._inboxes[id]
            inbox.put(payload)
        while not self._look(deliver):
            remaining = deadline - time.monotonic()
            if self._woken or remaining <= 0:
                self._woken = False
                return
            self._bell.acquire(True, remaining)

    def _look(self, deliver: Deliver) -> bool:
        """Deliver what is in the inboxes; return whether that was enough."""
        for inbox in self._order:
            while inbox.waiting:
                sample = inbox.waiting.popleft()
                if sample.kind == self.message and deliver(inbox.id, sample.payload.to_bytes()):
                    return True
        return False

    def wake(self) -> None:
        """End the running exchange, or the next one, soon."""
        self._woken = True
        ring(self._bell)

    def clear(self) -> None:
        """Forget all neighbors."""
        self.connected = frozenset()
        self._inboxes.clear()
        self._order.clear()
