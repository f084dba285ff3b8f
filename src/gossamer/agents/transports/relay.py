"""Connections through a broker or router (`carriers.py`), between two agents that both cannot be reached.

To the rest of an agent such a connection is a local socket like any other. Data written to it, mutual TLS 1.3 with the
fleet's certificates, are sent in packets to the topic of the neighbor; data that arrive on the agent's own topic are
read from it. So the broker, and anyone who may read its topics, sees only ciphertext.

    PREFIX/FLEET/TO/FROM     a random number of the connection (8 bytes), the number of the packet (4), and data

A packet without data ends a connection, and is the answer to packets of one that has ended. A missing packet ends
it too, and the agents connect again; a duplicate is dropped. Anyone who may write to these topics can disturb
connections, but can neither read nor forge their data.

A broker drops packets for an agent that is not connected to it. So an agent that has connected announces itself to its
neighbors, by a packet with the number zero, and they call again where their call was not answered.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.transports.carriers import carrier_of
from gossamer.agents.transports.secured import longest_message

_HEADER = struct.Struct("<8sI")
_HERE = bytes(8)
"""The number, of no connection, by which an agent announces itself."""

_PIECE = 1 << 16
_BUFFER = 1 << 18
"""Size of the socket buffers in bytes."""

_PACKETS = 2**32 - 1
"""Largest number of packets of a connection, which then ends and is made again."""

_MOST = 64
"""Largest number of connections per neighbor: its own, and those that others open in its name. Beyond it, the one on
which the least has arrived ends, which is not its own."""

Arrive = Callable[[int, socket.socket], None]
"""Called with a neighbor and the socket of its new connection, in a thread of the carrier."""


class _Stream:
    """The far end of a connection, the numbers of the next packets, and data that the agent has not read yet."""

    def __init__(self, neighbor: int, number: bytes, far: socket.socket) -> None:
        self.neighbor = neighbor
        self.number = number
        self.far = far
        self.sent = self.received = 0
        self.unread = bytearray()
        self.finished = False  # the other end has ended it


class Relay:
    """An agent's connections through a broker; `arrive` gets those that neighbors open."""

    def __init__(self, settings: AgentSettings, arrive: Arrive) -> None:
        self._carrier = carrier_of(settings, self._receive, self._renew)
        self._me = settings.id
        self.neighbors: Mapping[str, int] = {}  # by the last part of their topics
        self._arrive = arrive
        self._most_unread = 2 * longest_message(settings)
        self._streams: dict[tuple[int, bytes], _Stream] = {}
        self._lock = threading.Lock()  # guards `_streams`, their sockets, and the selector
        self._selector = selectors.DefaultSelector()
        self._opened = self._closed = False

    def open(self) -> None:
        self._opened = True
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=f"relay-{self._me}", daemon=True)
        self._thread.start()
        self._carrier.open()

    def close(self) -> None:
        if not self._opened or self._closed:
            return
        with self._lock:
            self._closed = True  # no connection is opened from now on
        self._wake()
        self._thread.join()
        for stream in list(self._streams.values()):
            self._end(stream, told=False)
        self._carrier.close()
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def dial(self, neighbor: int) -> socket.socket:
        """Open a connection to a neighbor; raises OSError while the broker is not connected."""
        if self._carrier.failing:
            raise ConnectionError(self._carrier.failing)
        return self._open(neighbor, os.urandom(8))[0]

    def _wake(self) -> None:
        with suppress(OSError):  # the relay has been closed, or will wake up anyway
            self._wake_writer.send(b"x")

    def _open(self, neighbor: int, number: bytes) -> tuple[socket.socket, _Stream]:
        near, far = socket.socketpair()
        far.setblocking(False)
        for end in (near, far):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        stream = _Stream(neighbor, number, far)
        with self._lock:
            if self._closed:
                near.close()
                far.close()
                raise ConnectionError("the connection to the broker has been closed")
            self._streams[neighbor, number] = stream
            self._selector.register(far, selectors.EVENT_READ, stream)
        self._wake()
        return near, stream

    def _run(self) -> None:
        """Send the data that connections write, in the thread of the relay."""
        while not self._closed:
            for key, event in self._selector.select():
                if key.data is None:
                    self._wake_reader.recv(4096)
                    continue
                if event & selectors.EVENT_WRITE:
                    self._pass_on(key.data)
                if event & selectors.EVENT_READ:
                    self._forward(key.data)
        for stream in list(self._streams.values()):  # what was written before the relay was closed
            while self._forward(stream):
                pass

    def _forward(self, stream: _Stream) -> bool:
        """Send a piece of what a connection has written; return False if there is none, or if it has ended."""
        try:
            with self._lock:
                piece = stream.far.recv(_PIECE) if stream.sent < _PACKETS else b""
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if self._send(stream, piece) and piece:
            return True
        self._end(stream, told=not piece)
        return False

    def _send(self, stream: _Stream, piece: bytes) -> bool:
        packet = _HEADER.pack(stream.number, stream.sent) + piece
        stream.sent += 1
        return self._carrier.send(f"{stream.neighbor}/{self._me}", packet)

    def _end(self, stream: _Stream, *, told: bool = True) -> None:
        """Forget a connection, and notify the other end unless it knows."""
        with self._lock:
            if self._streams.pop((stream.neighbor, stream.number), None) is None:
                return
            with suppress(KeyError, ValueError):
                self._selector.unregister(stream.far)
            stream.far.close()
        if not told:
            self._send(stream, b"")

    # -- threads of the carrier ----------------------------------------------------------------------

    def _renew(self) -> None:
        """End all connections, because packets were lost, and announce this agent."""
        for stream in list(self._streams.values()):
            self._end(stream, told=False)
        for neighbor in self.neighbors:
            self._carrier.send(f"{neighbor}/{self._me}", _HEADER.pack(_HERE, 0))

    def _receive(self, sender: str, payload: bytes) -> None:
        neighbor = self.neighbors.get(sender)
        if neighbor is None or len(payload) < _HEADER.size:
            return
        number, k = _HEADER.unpack_from(payload)
        piece = payload[_HEADER.size :]
        if number == _HERE:
            for call in self._of(neighbor):
                if not call.received:
                    self._end(call, told=False)
            return
        stream = self._streams.get((neighbor, number))
        if stream is not None:
            self._take(stream, k, piece)
        elif k and piece:  # of a connection that has ended here, which the other end does not know
            self._carrier.send(f"{neighbor}/{self._me}", _HEADER.pack(number, 0))
        elif piece:
            others = self._of(neighbor)
            if len(others) >= _MOST:
                self._end(min(others, key=lambda s: s.received), told=False)
            with suppress(OSError):  # the relay has been closed, or there are too many open files
                near, stream = self._open(neighbor, number)
                self._take(stream, k, piece)
                self._arrive(neighbor, near)

    def _of(self, neighbor: int) -> list[_Stream]:
        return [stream for stream in list(self._streams.values()) if stream.neighbor == neighbor]

    def _take(self, stream: _Stream, k: int, piece: bytes) -> None:
        if piece and k < stream.received:  # a repeated one
            return
        if piece and k > stream.received:
            self._end(stream, told=False)
            return
        with self._lock:
            stream.received += 1
            stream.unread += piece
            stream.finished = stream.finished or not piece
        self._pass_on(stream)

    def _pass_on(self, stream: _Stream) -> None:
        """Let the agent read what has arrived, as far as its socket has room for it."""
        with self._lock:
            if self._streams.get((stream.neighbor, stream.number)) is not stream:
                return
            try:
                while stream.unread:
                    del stream.unread[: stream.far.send(stream.unread)]
            except BlockingIOError:
                pass
            except OSError:
                # The agent has closed its end, which `_forward` notices after all that it sent before.
                stream.unread.clear()
            left = len(stream.unread)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if left else 0)
            if changed := self._selector.get_key(stream.far).events != events:
                self._selector.modify(stream.far, events, stream)
        if left > self._most_unread or (stream.finished and not left):
            self._end(stream, told=stream.finished)
        elif changed:
            self._wake()
