"""Agents over mutual TLS: one connection per edge, and a length prefix before every message.

An agent listens on its own endpoint; of two neighbors the one with the larger number connects, and retries
(`connector.py`). The agent's own thread sends and receives: there is no switch between threads, nothing is copied
twice, and only a message wakes an agent that waits for its next round. A neighbor that sends far more than one message
per round is read only a tenth of the time, so that it cannot use up the agent's time.

A connection belongs to one neighbor, by its certificate, so no agent can impersonate another. Messages that a neighbor
does not read in time are lost, not queued, and a message longer than any valid one is truncated: so the memory that a
neighbor can use up is bounded.

Once a second a probe follows a message, and the other end answers it immediately, whatever its pace: so both ends know
the round-trip time of the network.
"""

from __future__ import annotations

import logging
import math
import os
import select
import ssl
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from gossamer.agents.config.settings import AgentSettings, Neighbor
from gossamer.agents.round.round_trip import RoundTrip
from gossamer.agents.round.transport import Deliver
from gossamer.agents.transports.connector import Answer, Connector
from gossamer.agents.transports.secured import Secured, longest_message

log = logging.getLogger("gossamer.agents")

_LENGTH = struct.Struct("<I")
_PROBE = struct.Struct("<2s?d")
"""Measures the round trip: "Gp", whether this is the answer, and the sender's clock, which the answer repeats."""

_MARK = b"Gp"
_PROBE_EVERY, _PROBE_LOST = 1.0, 10.0
"""Seconds between two probes, and after which an answer is no longer expected."""

_ANSWER_EVERY = 0.1
"""Least number of seconds between two answers, however often a neighbor probes."""

_CHUNK = 1 << 16
_BUSY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_BURST, _REST = 4, 9.0
"""Number of messages of one neighbor in a round after which reading pauses, and the pause per second spent on them."""

_LATE = 16
"""Number of polls after the deadline of an exchange, so that a neighbor that never stops sending cannot hold it up."""


class Connection:
    """The connection to one neighbor."""

    def __init__(self, neighbor: Neighbor, connection: Secured, end: float, longest: int) -> None:
        self.id = neighbor.id
        self.label = neighbor.label
        self._longest = longest
        self.socket = connection
        self.end = end
        self.descriptor = connection.fileno()
        self.unsent = b""
        self.trip = RoundTrip()
        self._probed = -math.inf  # when the newest probe was sent
        self._probing = False  # whether its answer is still expected
        self._answered = -math.inf  # when a probe of the neighbor was last answered
        self._arrived = bytearray()
        self._excess = 0  # bytes still to come of a message that was too long
        self.taken = 0  # messages since this agent last sent its own
        self.spent = 0.0  # seconds spent on them
        self.rests_until = 0.0  # nothing is read before this time

    def send(self, payload: bytes) -> bool:
        """Send a message, followed by a probe once a second; return whether everything is sent.

        The message is lost if the previous one is not sent yet.
        """
        self.taken, self.spent = 0, 0.0
        if not self.unsent or self.flush():
            self.unsent = _LENGTH.pack(len(payload)) + payload
            now = time.monotonic()
            if now - self._probed >= (_PROBE_LOST if self._probing else _PROBE_EVERY):
                self._probed, self._probing = now, True
                self.unsent += _LENGTH.pack(_PROBE.size) + _PROBE.pack(_MARK, False, now)
        return self.flush()

    def probed(self, payload: bytes) -> bool:
        """Answer a neighbor's probe, or process the answer to one; return whether everything is sent."""
        if len(payload) != _PROBE.size:
            return True
        _, answer, sent_at = _PROBE.unpack(payload)
        now = time.monotonic()
        if answer and self._probing and sent_at == self._probed:
            self._probing = False
            self.trip.add(now - sent_at)
        elif not answer and now - self._answered >= _ANSWER_EVERY:
            self._answered = now
            self.unsent += _LENGTH.pack(_PROBE.size) + _PROBE.pack(_MARK, True, sent_at)
        return self.flush()

    def flush(self) -> bool:
        """Send the rest of the last message; return whether nothing is left to send."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except _BUSY:
            return False
        except OSError:  # the other end has closed, which `receive` reports after all that it sent before
            self.unsent = b""
        return True

    def receive(self) -> bool:
        """Read what has arrived; return whether the neighbor is still connected."""
        connection, arrived = self.socket, self._arrived
        with suppress(*_BUSY):
            while True:
                piece = connection.recv(_CHUNK)
                if not piece:
                    return False
                if self._excess:
                    skipped = min(self._excess, len(piece))
                    piece = piece[skipped:]
                    self._excess -= skipped
                arrived += piece
                more = isinstance(connection, ssl.SSLSocket) and connection.pending()
                if not more or len(arrived) > _CHUNK:
                    break
        return True

    def take(self) -> bytes | None:
        """The next complete message, or None; one that is too long is truncated."""
        arrived = self._arrived
        if len(arrived) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(arrived)
        end = _LENGTH.size + min(length, self._longest)
        if len(arrived) < end:
            return None
        payload = bytes(arrived[_LENGTH.size : end])
        self._excess = max(length - self._longest, 0)
        skipped = min(self._excess, len(arrived) - end)
        self._excess -= skipped
        del arrived[: end + skipped]
        return payload


class TlsTransport:
    """One agent's end of a network of TLS connections, as its settings say.

    Parameters
    ----------
    settings : AgentSettings
        The settings of the agent, which name its neighbors, their addresses and its certificates.
    answer : callable, optional
        Answers questions of members and the operator (see `calling.ask`).

    See Also
    --------
    Tls : The certificates that it needs.
    Memory : Messages inside one process, for tests.

    Examples
    --------
    >>> neighbor = gs.Neighbor(1, endpoint="127.0.0.1:7448")
    >>> method = gs.AnytimeSDA("local-heavy-ball")
    >>> settings = gs.AgentSettings(0, (neighbor,), endpoint="127.0.0.1:7447", method=method)
    >>> gs.agents.TlsTransport(settings).present()
    frozenset()
    """

    def __init__(self, settings: AgentSettings, answer: Answer | None = None) -> None:
        self.settings = settings
        self.connected: frozenset[int] = frozenset()
        self.trips: dict[int, RoundTrip] = {}
        self.builds: dict[int, str] = {}  # versions that the neighbors run
        self._connector = Connector(settings, self._admit, answer)
        self._connections: dict[int, Connection] = {}
        self._by_descriptor: dict[int, Connection] = {}
        self._waiting: list[Connection] = []  # with data that has arrived but is not delivered
        self._resting: list[Connection] = []  # not read for a while, because they send too much
        self._arrivals: list[tuple[Neighbor, Connection]] = []
        self._lock = threading.Lock()  # guards `connected` and `_arrivals`
        self._poll = select.poll()
        self._wake_reader = self._wake_writer = -1
        self._end = math.inf  # when the first of the neighbors' certificates expires
        self._longest = longest_message(settings)

    def open(self) -> None:
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll.register(self._wake_reader, select.POLLIN)
        self._connector.open()

    def rewire(self, settings: AgentSettings) -> None:
        self._connector.rewire(settings)
        before = {n.id: n.name for n in self.settings.neighbors}
        current = {n.id: n.name for n in settings.neighbors}
        self.settings = settings
        for connection in list(self._connections.values()):
            if current.get(connection.id) != before.get(connection.id):  # it left, or was replaced
                self._lose(connection)

    def present(self) -> frozenset[int]:
        return self.connected

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        if time.time() >= self._end:
            self._lose_expired()
        if self._arrivals:
            self._take_arrivals()
        connections = self._connections
        for id, payload in outgoing.items():
            if (connection := connections.get(id)) is not None:
                self._send(connection, payload)
        if self._waiting and self._deliver_waiting(deliver):
            return
        late, changed = 0, False
        while not changed and late < _LATE:
            now = time.monotonic()
            if deadline <= now:
                late += 1
            end = deadline
            if self._resting:
                end = min(end, self._rouse(now))
                if self._waiting and self._deliver_waiting(deliver):
                    return
            ready = self._poll.poll(max(1000 * (end - now), 0))
            for descriptor, event in ready:
                if descriptor == self._wake_reader:
                    changed = self._take_arrivals()
                elif (connection := self._by_descriptor.get(descriptor)) is not None:
                    changed = not self._attend(connection, event) or changed
            if self._waiting and self._deliver_waiting(deliver):
                return
            if late and not ready:
                return

    def _send(self, connection: Connection, payload: bytes, *, probe: bool = False) -> None:
        if not (connection.probed(payload) if probe else connection.send(payload)):
            self._watch(connection)

    def _attend(self, connection: Connection, event: int) -> bool:
        """Send and receive without waiting; return whether the connection is still open."""
        try:
            if event & select.POLLOUT and connection.flush():
                self._watch(connection)
            began = time.monotonic()
            goes_on = not event & ~select.POLLOUT or connection.receive()
            connection.spent += time.monotonic() - began
        except OSError:
            goes_on = False
        self._waiting.append(connection)
        if not goes_on:
            self._lose(connection)
        return goes_on

    def _deliver_waiting(self, deliver: Deliver) -> bool:
        """Deliver the messages that have arrived; return whether the round has heard enough."""
        waiting, enough = self._waiting, False
        while waiting and not enough:
            connection = waiting[-1]
            began = time.monotonic()
            while not enough and (payload := connection.take()) is not None:
                connection.taken += 1
                if payload.startswith(_MARK):
                    self._send(connection, payload, probe=True)
                else:
                    enough = deliver(connection.id, payload)
            connection.spent += time.monotonic() - began
            if connection.taken > _BURST:
                self._rest(connection)
            if not enough or connection.rests_until:
                waiting.pop()
        return enough

    def _watch(self, connection: Connection) -> None:
        """Poll a connection for data to read, unless it rests, and for room to write if anything is unsent."""
        reading = 0 if connection.rests_until else select.POLLIN
        self._poll.modify(connection.descriptor, reading | (select.POLLOUT if connection.unsent else 0))

    def _rest(self, connection: Connection) -> None:
        """Stop reading a connection for a while; the neighbor's writes block once the buffers are full."""
        if self._connections.get(connection.id) is connection and not connection.rests_until:
            connection.rests_until = time.monotonic() + _REST * connection.spent
            self._resting.append(connection)
            self._watch(connection)

    def _rouse(self, now: float) -> float:
        """Resume reading connections whose rest is over; return when the next rest ends."""
        for connection in self._resting.copy():
            if self._connections.get(connection.id) is not connection:
                self._resting.remove(connection)
            elif connection.rests_until <= now:
                self._resting.remove(connection)
                connection.taken, connection.spent, connection.rests_until = 0, 0.0, 0.0
                self._watch(connection)
                self._waiting.append(connection)
        return min((c.rests_until for c in self._resting), default=math.inf)

    # -- coming and going ---------------------------------------------------------------------------------

    def _admit(self, neighbor: Neighbor, secured: Secured, end: float, build: str = "") -> None:
        """Add the connection of a neighbor; the connector calls this."""
        with self._lock:
            if self._wake_writer < 0:  # closed in the meantime
                secured.close()
                return
            for arrival in self._arrivals.copy():  # only the newest of a neighbor is kept
                if arrival[0].id == neighbor.id:
                    self._arrivals.remove(arrival)
                    arrival[1].socket.close()
            self._arrivals.append((neighbor, Connection(neighbor, secured, end, self._longest)))
            self.connected |= {neighbor.id}
            self.builds[neighbor.id] = build
        log.info("%s: neighbor %s connected", self.settings.label, neighbor.label)
        self.wake()

    def _take_arrivals(self) -> bool:
        with suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)
        with self._lock:
            arrivals, self._arrivals = self._arrivals, []
            for neighbor, connection in arrivals:
                if all((n.id, n.name) != (neighbor.id, neighbor.name) for n in self.settings.neighbors):
                    connection.socket.close()  # it left, or was replaced, during its handshake
                    self.connected -= {neighbor.id}
                    continue
                if (earlier := self._connections.get(neighbor.id)) is not None:
                    self._forget(earlier)
                self._connections[neighbor.id] = connection
                self.trips[neighbor.id] = connection.trip
                self._by_descriptor[connection.descriptor] = connection
                self._poll.register(connection.descriptor, select.POLLIN)
                self._end = min(self._end, connection.end)
        return True

    def _lose_expired(self) -> None:
        """Close the connections whose certificate has expired since they were opened."""
        for connection in list(self._connections.values()):
            if connection.end <= time.time():
                self._lose(connection)
        self._end = min((c.end for c in self._connections.values()), default=math.inf)

    def _lose(self, connection: Connection) -> None:
        """Drop a connection; the end that opened it opens a new one."""
        if self._connections.get(connection.id) is not connection:
            return
        with self._lock:
            self._forget(connection)
            if not any(neighbor.id == connection.id for neighbor, _ in self._arrivals):
                self.connected -= {connection.id}
        log.info("%s: neighbor %s disconnected", self.settings.label, connection.label)
        for n in self.settings.neighbors:
            if n.id == connection.id:
                self._connector.call(n)

    def _forget(self, connection: Connection) -> None:
        del self._connections[connection.id], self._by_descriptor[connection.descriptor]
        self._poll.unregister(connection.descriptor)
        connection.socket.close()

    def wake(self) -> None:
        with suppress(OSError):  # closed in the meantime, or the pipe is full
            os.write(self._wake_writer, b"x")

    def close(self) -> None:
        self._connector.close()
        with self._lock:
            for connection in [*self._connections.values(), *(c for _, c in self._arrivals)]:
                connection.socket.close()
            self._connections.clear()
            self._by_descriptor.clear()
            self._arrivals.clear()
            self.connected = frozenset()
            self._poll = select.poll()
            for descriptor in (self._wake_reader, self._wake_writer):
                if descriptor >= 0:
                    os.close(descriptor)
            self._wake_reader = self._wake_writer = -1
