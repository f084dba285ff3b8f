"""Incoming connections whose handshake is not finished (see `connector.py`), bounded in number and time."""

from __future__ import annotations

import logging
import selectors
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

from gossamer.agents.config.settings import Neighbor
from gossamer.agents.transports.secured import Secured

log = logging.getLogger("gossamer.agents")

_MOST = 256
"""Largest number of unfinished handshakes; each takes about 50 kB."""

Steps = Generator[int, None, None]
"""A handshake as a generator: it yields the event it waits for (read or write)."""


def _nothing() -> Steps:
    yield from ()


@dataclass(eq=False)
class Handshake:
    """A connection whose peer is not identified yet.

    neighbor, end, build   what it has turned out to be, when its certificate expires, and what it runs
    """

    connection: Secured
    address: str
    deadline: float
    steps: Steps = field(default_factory=_nothing)
    expected: int = 0
    neighbor: Neighbor | None = None
    end: float = 0.0
    build: str = ""


class Handshakes:
    """The unfinished handshakes and the events they wait for.

    When there are too many, the oldest one from the address with the most handshakes is closed.
    """

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._pending: dict[Handshake, None] = {}  # oldest first
        self._by_address: Counter[str] = Counter()

    def __contains__(self, handshake: Handshake) -> bool:
        return handshake in self._pending

    def add(self, handshake: Handshake) -> None:
        if len(self._pending) >= _MOST:
            [(address, _)] = self._by_address.most_common(1)
            self.abort(next(h for h in self._pending if h.address == address))
        self._pending[handshake] = None
        self._by_address[handshake.address] += 1

    def expect(self, handshake: Handshake, event: int) -> None:
        """Wait until the connection can be read from or written to."""
        if not handshake.expected:
            self.selector.register(handshake.connection, event, handshake)
        elif handshake.expected != event:
            self.selector.modify(handshake.connection, event, handshake)
        handshake.expected = event

    def remove(self, handshake: Handshake) -> None:
        del self._pending[handshake]
        self._by_address[handshake.address] -= 1
        if not self._by_address[handshake.address]:
            del self._by_address[handshake.address]
        if handshake.expected:
            self.selector.unregister(handshake.connection)

    def abort(self, handshake: Handshake) -> None:
        self.remove(handshake)
        handshake.steps.close()
        handshake.connection.close()

    def wait(self, now: float) -> float | None:
        """Seconds until the oldest handshake times out; None if there are none."""
        return max(next(iter(self._pending)).deadline - now, 0.0) if self._pending else None

    def abort_expired(self, now: float) -> None:
        """Close the connections whose handshake timed out."""
        while self._pending and (oldest := next(iter(self._pending))).deadline <= now:
            self.abort(oldest)
            log.warning("refused a connection: the handshake timed out")

    def close(self) -> None:
        for handshake in list(self._pending):
            self.abort(handshake)
        self.selector.close()
