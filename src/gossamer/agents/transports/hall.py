"""Those who came in by the door (`door.py`) and have not shown yet who they are: never more than fit."""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

from gossamer.agents.config.settings import Neighbor

log = logging.getLogger("gossamer.agents")

_GUESTS = 256
"""Connections that may be showing who they are at the same time; during a handshake each takes some 50 kB."""

Secured = socket.socket | ssl.SSLSocket

Steps = Generator[int, None, Neighbor | None]
"""A conversation that yields what it waits for, to read or to write, and returns the neighbor it was with, if one."""


@dataclass(eq=False)
class Guest:
    """A connection that has not shown yet who it is."""

    connection: Secured
    address: str
    deadline: float
    steps: Steps = field(init=False)
    expected: int = 0
    build: str = ""


class Hall:
    """The guests and whom each waits for; of too many, the oldest from the address that has most must go."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._guests: dict[Guest, None] = {}  # the oldest first
        self._crowd: Counter[str] = Counter()  # how many from which address

    def __contains__(self, guest: Guest) -> bool:
        return guest in self._guests

    def add(self, guest: Guest) -> None:
        if len(self._guests) >= _GUESTS:
            [(crowded, _)] = self._crowd.most_common(1)
            self.dismiss(next(g for g in self._guests if g.address == crowded))
        self._guests[guest] = None
        self._crowd[guest.address] += 1

    def expect(self, guest: Guest, event: int) -> None:
        """Wait until the guest can be read from or written to."""
        if not guest.expected:
            self.selector.register(guest.connection, event, guest)
        elif guest.expected != event:
            self.selector.modify(guest.connection, event, guest)
        guest.expected = event

    def remove(self, guest: Guest) -> None:
        del self._guests[guest]
        self._crowd[guest.address] -= 1
        if not self._crowd[guest.address]:
            del self._crowd[guest.address]
        if guest.expected:
            self.selector.unregister(guest.connection)

    def dismiss(self, guest: Guest) -> None:
        self.remove(guest)
        guest.connection.close()

    def wait(self, now: float) -> float | None:
        """Seconds until the oldest guest has used up its time; None: there are none."""
        return max(next(iter(self._guests)).deadline - now, 0.0) if self._guests else None

    def clear_out(self, now: float) -> None:
        """Dismiss those who have used up their time."""
        while self._guests and (oldest := next(iter(self._guests))).deadline <= now:
            self.dismiss(oldest)
            log.warning("refused a connection: it did not say who it is")

    def close(self) -> None:
        for guest in list(self._guests):
            self.dismiss(guest)
        self.selector.close()
