"""Connections of an agent to its neighbors: accepting those of the neighbors with a larger number, and opening the
others (`calling.py`). An agent that cannot be reached, behind NAT, opens all of its connections, and does not listen.
If its neighbor cannot be reached either, a broker carries the connection (`relay.py`).

Anyone can reach the port, so strangers must not be able to keep neighbors out. One thread accepts every connection and
runs all handshakes concurrently, so that none waits for another. What a stranger can use up is bounded: connections per
second, unfinished handshakes, and the time of each. When there are too many, the oldest from the address with the most
is closed: a crowd from one address displaces itself, and even a neighbor with the same address has more time than a
handshake takes. Of members it is bounded as well: a neighbor has one connection, which this agent opens if its own
number is larger, and the other end may not; and a member asks one question at a time.

With TLS both ends present a certificate signed by the fleet's authority, and its common name must be that of a
neighbor. Then each end says which agent of which fleet it is, and from there on the connection belongs to that
neighbor: whatever arrives on it was sent by that neighbor, under whatever name.

Every member of the fleet, and its operator, may also ask one question, about the roster, instead of connecting
(`ask`). So an agent that was away while all its neighbors changed can learn its new ones.
"""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator
from functools import partial

from gossamer.agents.config.settings import OPERATOR, AgentSettings, Neighbor
from gossamer.agents.text import printable
from gossamer.agents.transports.calling import LENGTH, LONGEST_QUESTION, Admit, Callers, dial_directly
from gossamer.agents.transports.handshakes import Handshake, Handshakes, Steps
from gossamer.agents.transports.relay import Relay
from gossamer.agents.transports.secured import (
    ASKS,
    LONGEST_GREETING,
    PATIENCE,
    Refused,
    Secured,
    another_version,
    build_in,
    contexts,
    end_of,
    greeting_of,
    name_of,
    prepare,
    who_in,
    why,
)
from gossamer.errors import GossamerError, InvalidInput

log = logging.getLogger("gossamer.agents")

_BATCH, _INTERVAL = 25, 0.025
"""Largest number of connections accepted per interval (seconds), so that a crowd does not keep the processor busy."""

_TLS_HANDSHAKE = b"\x16"

Answer = Callable[[str, bytes], bytes]
"""Called with the name of the peer that asks, and the question; returns the answer."""


class Connector:
    """Accepts the connections of an agent's neighbors, and connects to those with a smaller number."""

    def __init__(self, settings: AgentSettings, admit: Admit, answer: Answer | None = None) -> None:
        if settings.reachable and not settings.endpoint:
            raise InvalidInput(parameter="endpoint", required="host:port to listen on", got="an empty one")
        unknown = [
            n.label
            for n in settings.neighbors
            if settings.calls(n) and not n.endpoint and not settings.relayed(n)
        ]
        if unknown:
            whose = f" if their number is below that of {settings.label}" if settings.reachable else ""
            raise InvalidInput(
                f"must have an endpoint{whose}, because {settings.label} connects to them, but {', '.join(unknown)} "
                "has none",
                parameter="neighbors",
            )
        self._settings = settings
        self._admit = admit
        self._answer = answer
        self._relay = Relay(settings, self._arrive) if settings.broker else None
        self._relayed: deque[tuple[int, socket.socket]] = deque()
        self._callers = Callers(admit, self._dial)
        self._asking: set[str] = set()  # the members whose question is being read or answered
        self._greeting = greeting_of(settings.fleet, settings.id)
        self._server: ssl.SSLContext | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        settings, client = self._settings, None
        if settings.tls:
            settings.tls.check_files()
            self._server, client = contexts(settings.tls)
        else:
            warnings.warn(
                f"{settings.label} talks in plaintext: anyone on the network can read and forge messages; "
                "give it certificates (tls) unless this is a test",
                stacklevel=3,
            )
        if settings.reachable or self._relay is not None:
            self._start_accepting(settings)
        if self._relay is not None:
            self._relay.neighbors = {str(n.id): n.id for n in settings.neighbors if settings.relayed(n)}
            self._relay.open()
        self._callers.follow(settings, client)

    def _dial(self, neighbor: Neighbor) -> socket.socket:
        if self._relay is not None and self._settings.relayed(neighbor):
            return self._relay.dial(neighbor.id)
        return dial_directly(neighbor)

    def _arrive(self, neighbor: int, connection: socket.socket) -> None:
        """Take a connection from the broker; the relay calls this."""
        self._relayed.append((neighbor, connection))
        self._wake_writer.send(b"x")

    def _start_accepting(self, settings: AgentSettings) -> None:
        try:
            listener = _listen(_address(settings)) if settings.reachable else None
        except OSError as error:
            raise GossamerError(
                f"{settings.label} cannot listen on {_address(settings)} ({error.strerror or error}); "
                "the port must be free, and the address must belong to this machine"
            ) from error
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._thread = threading.Thread(
            target=self._receive, args=(listener,), name=f"accept-{settings.id}", daemon=True
        )
        self._thread.start()

    def rewire(self, settings: AgentSettings) -> None:
        """Use the neighbors of these settings, and read the certificates again."""
        before = self._settings
        if _address(settings) != _address(before):
            raise GossamerError(
                f"{settings.label} listens on {_address(before)} until it is restarted, got {_address(settings)}; "
                "restart it"
            )
        client = None
        if settings.tls:
            settings.tls.check_files()
            self._server, client = contexts(settings.tls)
        self._settings = settings
        if self._relay is not None:
            self._relay.neighbors = {str(n.id): n.id for n in settings.neighbors if settings.relayed(n)}
        self._callers.follow(settings, client)

    def call(self, neighbor: Neighbor) -> None:
        """Connect to a neighbor again if this agent does so, because its connection is lost."""
        self._callers.call(neighbor)

    def close(self) -> None:
        self._closed.set()
        self._callers.close()
        if self._relay is not None:
            self._relay.close()
        if self._thread is not None:
            self._wake_writer.send(b"x")
            self._thread.join()
            self._thread = None
            self._wake_reader.close()
            self._wake_writer.close()

    # -- accepting -----------------------------------------------------------------------------------------

    def _receive(self, listener: socket.socket | None) -> None:
        """Accept connections and run their handshakes, in the connector's thread."""
        handshakes = Handshakes()
        handshakes.selector.register(self._wake_reader, selectors.EVENT_READ)
        if listener is not None:
            handshakes.selector.register(listener, selectors.EVENT_READ)
        rested, taken = 0.0, 0
        try:
            while not self._closed.is_set():
                now = time.monotonic()
                if now - rested >= _INTERVAL:
                    if taken >= _BATCH and listener is not None:
                        handshakes.selector.register(listener, selectors.EVENT_READ)
                    rested, taken = now, 0
                for key, _ in handshakes.selector.select(
                    _INTERVAL if taken >= _BATCH else handshakes.wait(now)
                ):
                    if listener is not None and key.fileobj is listener:
                        taken += self._take(listener, handshakes)
                        if taken >= _BATCH:
                            handshakes.selector.unregister(listener)
                    elif isinstance(key.data, Handshake):
                        self._continue(key.data, handshakes)
                    else:
                        self._wake_reader.recv(4096)
                        while self._relayed:
                            neighbor, connection = self._relayed.popleft()
                            self._begin(connection, f"broker {neighbor}", handshakes)
                handshakes.abort_expired(time.monotonic())
        finally:
            if listener is not None:
                listener.close()
            handshakes.close()
            for _, connection in self._relayed:
                connection.close()

    def _take(self, listener: socket.socket, handshakes: Handshakes) -> int:
        try:
            connection, address = listener.accept()
        except OSError as error:
            log.warning("refused a connection: %s", error.strerror)
            return _BATCH  # most likely out of descriptors: wait until handshakes have ended
        self._begin(connection, address[0], handshakes)
        return 1

    def _begin(self, connection: socket.socket, address: str, handshakes: Handshakes) -> None:
        connection.setblocking(False)
        handshake = Handshake(connection, address, time.monotonic() + PATIENCE)
        handshake.steps = self._enter(handshake)
        handshakes.add(handshake)
        self._continue(handshake, handshakes)

    def _continue(self, handshake: Handshake, handshakes: Handshakes) -> None:
        """Advance a handshake as far as possible without waiting."""
        if handshake not in handshakes:  # aborted a moment ago to make room
            return
        try:
            handshakes.expect(handshake, next(handshake.steps))
        except StopIteration:
            if handshake.neighbor is None:  # it only asked a question
                handshakes.abort(handshake)
                return
            handshakes.remove(handshake)
            self._admit(handshake.neighbor, handshake.connection, handshake.end, handshake.build)
        except Exception as error:  # whatever a stranger sends, the thread must survive
            handshakes.abort(handshake)
            said = {"said": error.said} if isinstance(error, Refused) and error.said else {}
            log.warning("refused a connection: %s", why(error), extra=said)

    def _enter(self, handshake: Handshake) -> Steps:
        """The handshake of an incoming connection."""
        yield selectors.EVENT_READ
        if self._server is not None:
            if handshake.connection.recv(1, socket.MSG_PEEK) != _TLS_HANDSHAKE:
                raise Refused("it does not speak TLS")
            handshake.connection = secured = self._server.wrap_socket(
                handshake.connection, server_side=True, do_handshake_on_connect=False
            )
            yield from _retrying(secured.do_handshake)
        said = b""
        while not said.endswith(b"\n"):
            said += yield from _read(handshake.connection, 1)
            if len(said) > LONGEST_GREETING:
                raise Refused("it did not identify itself")
        if who_in(said) == self._who(ASKS):
            yield from self._reply(handshake.connection)
            return
        neighbor, handshake.build = self._recognize(handshake.connection, said), build_in(said)
        handshake.end = end_of(handshake.connection)
        yield from _retrying(lambda: handshake.connection.send(self._greeting))
        handshake.neighbor = neighbor

    def _reply(self, connection: Secured) -> Steps:
        """Answer a question.

        An empty one asks for the roster, and any holder of a certificate of the authority may ask it: so a removed
        agent that missed the announcement learns why its neighbors refuse it.
        """
        name = name_of(connection) if isinstance(connection, ssl.SSLSocket) else ""
        if self._answer is None or not name:
            raise Refused(f"{name or 'someone'} is not allowed to ask questions")
        (length,) = LENGTH.unpack((yield from _read(connection, LENGTH.size)))
        if length > LONGEST_QUESTION:
            raise Refused(f"{name} sent a question of {length} bytes, which is too long")
        if length and name not in (OPERATOR, *self._settings.bringers):
            raise Refused(f"{name} is not a member of this fleet, so it may only ask for the roster")
        if length and name in self._asking:
            raise Refused(f"{name} asks more than one question at a time")
        self._asking |= {name} if length and name != OPERATOR else set()
        try:
            question = yield from _read(connection, length)
            answer = self._answer(name, question)
        finally:
            self._asking.discard(name)
        left = LENGTH.pack(len(answer)) + answer
        while left:
            sent = yield from _retrying(partial(connection.send, left))
            assert isinstance(sent, int)
            left = left[sent:]

    def _recognize(self, connection: Secured, said: bytes) -> Neighbor:
        """The neighbor that this connection belongs to, by its certificate and its greeting."""
        name = name_of(connection) if isinstance(connection, ssl.SSLSocket) else None
        if name is not None and all(name != n.name for n in self._settings.neighbors):
            raise Refused(f"{name} is an agent of this fleet, but not a neighbor, or in quarantine")
        for neighbor in self._settings.neighbors:
            if name in (None, neighbor.name) and who_in(said) == self._who(neighbor.id):
                if self._settings.calls(neighbor):
                    raise Refused(f"{neighbor.label} has the smaller number, so this agent connects to it")
                return neighbor
        raise Refused(
            f"{name or 'someone'} identified itself as another agent{another_version(said)}",
            printable(said.decode(errors="replace")),
        )

    def _who(self, agent: int | str) -> list[bytes]:
        return who_in(greeting_of(self._settings.fleet, agent))


def _retrying(act: Callable[[], object]) -> Generator[int, None, object]:
    """Call `act` until it no longer has to wait for the other end."""
    while True:
        try:
            return act()
        except (ssl.SSLWantReadError, BlockingIOError):
            yield selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            yield selectors.EVENT_WRITE


def _read(connection: Secured, size: int) -> Generator[int, None, bytes]:
    """Read exactly `size` bytes."""
    data = bytearray()
    while len(data) < size:
        read = yield from _retrying(partial(connection.recv, size - len(data)))
        if not read or not isinstance(read, bytes):
            raise Refused("it did not identify itself")
        data += read
    return bytes(data)


def _address(settings: AgentSettings) -> str:
    """The address an agent listens on."""
    return settings.listen or settings.endpoint


def _listen(endpoint: str) -> socket.socket:
    host, _, port = endpoint.rpartition(":")
    [family, *_, address] = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        prepare(listener)  # what it accepts inherits this
        listener.bind(address)
        listener.listen(4096)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
