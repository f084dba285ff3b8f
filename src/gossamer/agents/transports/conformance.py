"""The conformance check of transports: what every implementation must do.

    check(transport, me, neighbors)      run by every agent of a small connected fleet at the same time

Every agent runs `check` with its own transport, in its own thread, process or rank. It raises AssertionError with an
explanation at the first requirement that is not met.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from gossamer.agents.round.transport import Transport

ROUNDS = 20
_PATIENCE = 60.0
_SLACK = 5.0


def check(transport: Transport, me: int, neighbors: tuple[int, ...]) -> None:
    """Open the transport, check everything that `Transport` requires, and close it."""
    assert isinstance(transport, Transport), f"{type(transport).__name__} lacks a method of Transport"
    transport.open()
    try:
        subject = _Subject(transport, me, neighbors)
        subject.neighbors_appear()
        for t in range(ROUNDS):  # every message arrives once, under its sender's number
            subject.swap(partial(_greeting, t))
        subject.silence_ends_at_the_deadline()
        subject.wake_ends_an_exchange()
        body = bytes(range(256)) * 400
        subject.swap(lambda sender, receiver: bytes([sender]) + body)  # large, with every value of a byte
        # Stay until the neighbors are done too; leaving early would look like a failure to them.
        subject.swap(lambda sender, receiver: b"done")
        strays = [sender for sender, _ in subject.backlog]
        assert not strays, f"messages that were never sent, or arrived twice, were delivered from {strays}"
    finally:
        transport.close()
        transport.close()


def _greeting(t: int, sender: int, receiver: int) -> bytes:
    return f"{t} from {sender} to {receiver}".encode()


class _Subject:
    """The transport under test, and messages that arrived before they were expected."""

    def __init__(self, transport: Transport, me: int, neighbors: tuple[int, ...]) -> None:
        self.transport = transport
        self.me = me
        self.neighbors = neighbors
        self.backlog: list[tuple[int, bytes]] = []

    def _keep(self, sender: int, payload: bytes) -> bool:
        self.backlog.append((sender, payload))
        return False

    def neighbors_appear(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while self.transport.present() < frozenset(self.neighbors) and time.monotonic() < deadline:
            self.transport.exchange(0, {}, time.monotonic() + 0.02, self._keep)
        assert self.transport.present() == frozenset(self.neighbors), (
            f"present() must eventually be {self.neighbors}, got {sorted(self.transport.present())}"
        )

    def swap(self, text: Callable[[int, int], bytes]) -> None:
        """Send text(me, j) to every neighbor j and receive text(j, me); early arrivals are kept."""
        outgoing = {j: text(self.me, j) for j in self.neighbors}
        wanted = {(j, text(j, self.me)) for j in self.neighbors}
        missing = wanted - set(self.backlog)
        for item in wanted - missing:
            self.backlog.remove(item)

        def deliver(sender: int, payload: bytes) -> bool:
            assert isinstance(payload, bytes), f"payloads must be bytes, got {type(payload).__name__}"
            if (sender, payload) in missing:
                missing.remove((sender, payload))
            else:
                self._keep(sender, payload)
            return not missing

        deadline = time.monotonic() + _PATIENCE
        self.transport.exchange(0, outgoing, deadline if missing else 0.0, deliver)
        # An exchange ends early if a neighbor connects or leaves.
        while missing and time.monotonic() < deadline:
            self.transport.exchange(0, {}, deadline, deliver)
        assert not missing, f"no messages arrived from {sorted(sender for sender, _ in missing)}"

    def silence_ends_at_the_deadline(self) -> None:
        started = time.monotonic()
        while time.monotonic() < started + 0.1:
            self.transport.exchange(0, {}, started + 0.1, self._keep)
        self.transport.exchange(0, {}, 0.0, self._keep)
        assert time.monotonic() - started < _SLACK, "exchange must end at its deadline, but it went on"

    def wake_ends_an_exchange(self) -> None:
        started = time.monotonic()
        self.transport.wake()
        self.transport.exchange(0, {}, started + _PATIENCE, self._keep)
        assert time.monotonic() - started < _SLACK, "wake must end an exchange, but it went on"
