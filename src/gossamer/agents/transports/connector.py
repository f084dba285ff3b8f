"""Connections of an agent to its neighbors: accepting them, and opening those that this agent must open.

Anyone can reach the port, so strangers must not be able to keep neighbors out. One thread accepts every connection and
runs all handshakes concurrently, so that none waits for another. What a stranger can use up is bounded: connections per
second, unfinished handshakes, and the time of each. When there are too many, the oldest from the address with the most
is closed: a crowd from one address displaces itself, and even a neighbor with the same address has more time than a
handshake takes.

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
import struct
import threading
import time
import warnings
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from gossamer.agents.config.settings import OPERATOR, AgentSettings, Neighbor, Tls
from gossamer.agents.text import printable
from gossamer.agents.transports.handshakes import Handshake, Handshakes, Secured, Steps
from gossamer.errors import GossamerError, InvalidInput
from gossamer.fingerprint import full_version

log = logging.getLogger("gossamer.agents")

_PATIENCE = 5.0
"""Seconds in which a connection must finish its handshake."""

_BATCH, _INTERVAL = 25, 0.025
"""Largest number of connections accepted per interval (seconds), so that a crowd does not keep the processor busy."""

_RETRY, _LONGEST_RETRY = 0.1, 1.0
"""Seconds between two attempts to reach a neighbor: the first delay and the longest one."""

_SETTLING = 15.0
"""Seconds for which a neighbor may be unreachable before the log warns: agents start at different times and restart."""

_BUFFER = 1 << 18
"""Size of the socket buffers in bytes; a larger one would only hold messages of past rounds."""

_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""A connection is closed when the other machine has not answered for about ten seconds."""

_GREETING = 256
"""Largest size of a greeting in bytes."""

_TLS_HANDSHAKE = b"\x16"

VERSION = 1
"""Version of the greeting and the framing; `round/wire.py` has the version of the messages."""

Admit = Callable[[Neighbor, Secured, float, str], None]
"""Called with a neighbor, its connection, when its certificate expires, and its build, in a thread of the connector."""

Answer = Callable[[str, bytes], bytes]
"""Called with the name of the peer that asks, and the question; returns the answer."""

_ASKS = "asks"
_LENGTH = struct.Struct("<I")
LONGEST_QUESTION = 1 << 20


class Refused(Exception):
    """Why a connection is refused."""


class Connector:
    """Accepts the connections of an agent's neighbors, and connects to those with a smaller number."""

    def __init__(self, settings: AgentSettings, admit: Admit, answer: Answer | None = None) -> None:
        if not settings.endpoint:
            raise InvalidInput(parameter="endpoint", required="host:port to listen on", got="an empty one")
        unreachable = [n.id for n in settings.neighbors if n.id < settings.id and not n.endpoint]
        if unreachable:
            raise InvalidInput(
                f"must have an endpoint if their number is below {settings.id}, because agent "
                f"{settings.id} connects to them, but {unreachable} have none",
                parameter="neighbors",
            )
        self._settings = settings
        self._admit = admit
        self._answer = answer
        self._greeting = self._greeting_of(settings.id)
        self._server: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        settings = self._settings
        if settings.tls:
            settings.tls.check_files()
            self._server, self._client = _contexts(settings.tls)
        else:
            warnings.warn(
                f"{settings.label} talks in plaintext: anyone on the network can read and forge messages; "
                "give it certificates (tls) unless this is a test",
                stacklevel=3,
            )
        try:
            listener = _listen(_address(settings))
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
        for n in settings.neighbors:
            if n.id < settings.id:
                self.call(n, after=0.0)

    def rewire(self, settings: AgentSettings) -> None:
        """Use the neighbors of these settings, and read the certificates again."""
        before = self._settings
        if _address(settings) != _address(before):
            raise GossamerError(
                f"{settings.label} listens on {_address(before)} until it is restarted, got {_address(settings)}; "
                "restart it"
            )
        if settings.tls:
            settings.tls.check_files()
            self._server, self._client = _contexts(settings.tls)
        self._settings = settings
        known = [_contact(n) for n in before.neighbors]
        for n in settings.neighbors:
            if n.id < settings.id and _contact(n) not in known:
                self.call(n)

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._wake_writer.send(b"x")
            self._thread.join()
            self._thread = None
            self._wake_reader.close()
            self._wake_writer.close()

    # -- accepting -----------------------------------------------------------------------------------------

    def _receive(self, listener: socket.socket) -> None:
        """Accept connections and run their handshakes, in the connector's thread."""
        handshakes = Handshakes()
        handshakes.selector.register(self._wake_reader, selectors.EVENT_READ)
        handshakes.selector.register(listener, selectors.EVENT_READ)
        rested, taken = 0.0, 0
        try:
            while not self._closed.is_set():
                now = time.monotonic()
                if now - rested >= _INTERVAL:
                    if taken >= _BATCH:
                        handshakes.selector.register(listener, selectors.EVENT_READ)
                    rested, taken = now, 0
                for key, _ in handshakes.selector.select(
                    _INTERVAL if taken >= _BATCH else handshakes.wait(now)
                ):
                    if key.fileobj is listener:
                        taken += self._take(listener, handshakes)
                        if taken >= _BATCH:
                            handshakes.selector.unregister(listener)
                    elif isinstance(key.data, Handshake):
                        self._continue(key.data, handshakes)
                handshakes.abort_expired(time.monotonic())
        finally:
            listener.close()
            handshakes.close()

    def _take(self, listener: socket.socket, handshakes: Handshakes) -> int:
        try:
            connection, address = listener.accept()
        except OSError as error:
            log.warning("refused a connection: %s", error.strerror)
            return _BATCH  # most likely out of descriptors: wait until handshakes have ended
        connection.setblocking(False)
        handshake = Handshake(connection, address[0], time.monotonic() + _PATIENCE)
        handshake.steps = self._enter(handshake)
        handshakes.add(handshake)
        self._continue(handshake, handshakes)
        return 1

    def _continue(self, handshake: Handshake, handshakes: Handshakes) -> None:
        """Advance a handshake as far as possible without waiting."""
        if handshake not in handshakes:  # aborted a moment ago to make room
            return
        try:
            event = next(handshake.steps)
        except StopIteration as end:
            if end.value is None:
                handshakes.abort(handshake)
                return
            handshakes.remove(handshake)
            self._admit(end.value, handshake.connection, _end_of(handshake.connection), handshake.build)
        except Exception as error:  # whatever a stranger sends, the thread must survive
            handshakes.abort(handshake)
            log.warning("refused a connection: %s", _why(error))
        else:
            handshakes.expect(handshake, event)

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
            if len(said) > _GREETING:
                raise Refused("it did not identify itself")
        if _who(said) == self._who(_ASKS):
            yield from self._reply(handshake.connection)
            return None
        neighbor = self._recognize(handshake.connection, said)
        handshake.build = _build_of(said)
        yield from _retrying(lambda: handshake.connection.send(self._greeting))
        return neighbor

    def _reply(self, connection: Secured) -> Steps:
        """Answer a question.

        An empty one asks for the roster, and any holder of a certificate of the authority may ask it: so a removed
        agent that missed the announcement learns why its neighbors refuse it.
        """
        name = _name_of(connection) if isinstance(connection, ssl.SSLSocket) else ""
        if self._answer is None or not name:
            raise Refused(f"{name or 'someone'} is not allowed to ask questions")
        (length,) = _LENGTH.unpack((yield from _read(connection, _LENGTH.size)))
        if length > LONGEST_QUESTION:
            raise Refused(f"{name} sent a question of {length} bytes, which is too long")
        if length and name not in (OPERATOR, *self._settings.bringers):
            raise Refused(f"{name} is not a member of this fleet, so it may only ask for the roster")
        question = yield from _read(connection, length)
        answer = self._answer(name, question)
        left = _LENGTH.pack(len(answer)) + answer
        while left:
            sent = yield from _retrying(partial(connection.send, left))
            assert isinstance(sent, int)
            left = left[sent:]
        return None

    def _recognize(self, connection: Secured, said: bytes) -> Neighbor:
        """The neighbor that this connection belongs to, by its certificate and its greeting."""
        name = _name_of(connection) if isinstance(connection, ssl.SSLSocket) else None
        if name is not None and all(name != n.name for n in self._settings.neighbors):
            raise Refused(f"{name} is an agent of this fleet, but not a neighbor")
        for neighbor in self._settings.neighbors:
            if name in (None, neighbor.name) and _who(said) == self._who(neighbor.id):
                return neighbor
        raise Refused(f"{name or 'someone'} identified itself as {said[:64]!r}{_another_version(said)}")

    def _greeting_of(self, agent: int | str) -> bytes:
        return _greeting(self._settings.fleet, agent)

    def _who(self, agent: int | str) -> list[bytes]:
        return _who(self._greeting_of(agent))

    # -- connecting -------------------------------------------------------------------------------------

    def call(self, neighbor: Neighbor, after: float = _RETRY) -> None:
        """Connect to a neighbor, in a thread that retries until it succeeds or the connector is closed."""
        name = f"call-{self._settings.id}-{neighbor.id}"
        threading.Thread(target=self._keep_calling, args=(neighbor, after), name=name, daemon=True).start()

    def _keep_calling(self, neighbor: Neighbor, after: float) -> None:
        pause, began = _RETRY, time.monotonic()
        while not self._closed.wait(after) and self._calls(neighbor):
            try:
                connection, theirs = self._reach(neighbor)
            except (OSError, Refused) as error:
                scheme = "tls" if self._client else "tcp"
                transient = not isinstance(error, ssl.SSLError) and time.monotonic() - began < _SETTLING
                level = logging.INFO if transient else logging.WARNING
                log.log(
                    level,
                    "cannot connect to %s at %s/%s: %s",
                    neighbor.label,
                    scheme,
                    neighbor.endpoint,
                    _why(error),
                )
            else:
                self._admit(neighbor, connection, _end_of(connection), theirs)
                return
            after, pause = pause, min(2 * pause, _LONGEST_RETRY)

    def _calls(self, neighbor: Neighbor) -> bool:
        return any(_contact(n) == _contact(neighbor) for n in self._settings.neighbors)

    def _reach(self, neighbor: Neighbor) -> tuple[Secured, str]:
        host, _, port = neighbor.endpoint.rpartition(":")
        host = host.strip("[]")
        connection: Secured = socket.create_connection((host, int(port)), timeout=_PATIENCE)
        try:
            _prepare(connection)
            if self._client is not None:
                connection = self._client.wrap_socket(connection, server_hostname=host)
                if (name := _name_of(connection)) != neighbor.name:
                    raise Refused(f"it is {name}, not {neighbor.name}")
            connection.sendall(self._greeting)
            said = b""
            while not said.endswith(b"\n"):
                said += (rest := connection.recv(1))
                if not rest or len(said) > _GREETING:
                    raise Refused("it refused this agent")
            if _who(said) != self._who(neighbor.id):
                raise Refused(f"another agent answered{_another_version(said)}")
            connection.setblocking(False)
        except BaseException:
            connection.close()
            raise
        return connection, _build_of(said)


# -- what both directions share ---------------------------------------------------------------------------------


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
    data = b""
    while len(data) < size:
        read = yield from _retrying(partial(connection.recv, size - len(data)))
        if not read or not isinstance(read, bytes):
            raise Refused("it did not identify itself")
        data += read
    return data


def ask(tls: Tls, fleet: str, neighbor: Neighbor, question: bytes, timeout: float = _PATIENCE) -> bytes:
    """Ask a running agent a question, with the certificate of a member or of the operator.

    Raises OSError if the agent cannot be reached or refuses to answer.
    """
    host, _, port = neighbor.endpoint.rpartition(":")
    host = host.strip("[]")
    try:
        with (
            socket.create_connection((host, int(port)), timeout=timeout) as plain,
            _contexts(tls)[1].wrap_socket(plain, server_hostname=host) as connection,
        ):
            if (name := _name_of(connection)) != neighbor.name:
                raise Refused(f"it is {name}, not {neighbor.name}")
            connection.sendall(_greeting(fleet, _ASKS) + _LENGTH.pack(len(question)) + question)
            with connection.makefile("rb") as answers:
                start = answers.read(_LENGTH.size)
                if len(start) < _LENGTH.size:
                    raise Refused("it did not answer")
                return answers.read(min(*_LENGTH.unpack(start), LONGEST_QUESTION))
    except (OSError, Refused) as error:
        raise OSError(f"{neighbor.endpoint} cannot be asked: {_why(error)}") from error


def _greeting(fleet: str, agent: int | str) -> bytes:
    """The first line on a connection: version, fleet, agent, and the build, which is informational."""
    return f"gossamer {VERSION} {fleet} {agent} {full_version()}\n".encode()


def _who(greeting: bytes) -> list[bytes]:
    """The part of a greeting that must match."""
    return greeting.split()[:4]


def _build_of(greeting: bytes) -> str:
    return printable(b" ".join(greeting.split()[4:5]).decode(errors="replace"))


def _another_version(greeting: bytes) -> str:
    """The text to append for a greeting of another version; empty if the version is as expected."""
    if _who(greeting)[:2] in ([], [b"gossamer", str(VERSION).encode()]):
        return ""
    theirs = _build_of(greeting) or "unknown"
    return f"; it runs another version ({theirs}, this agent runs {full_version()}); install the same one"


def _address(settings: AgentSettings) -> str:
    """The address an agent listens on."""
    return settings.listen or settings.endpoint


def _contact(neighbor: Neighbor) -> tuple[int, str, str]:
    """The number, address and name of a neighbor."""
    return neighbor.id, neighbor.endpoint, neighbor.name


def _listen(endpoint: str) -> socket.socket:
    host, _, port = endpoint.rpartition(":")
    [family, *_, address] = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _prepare(listener)  # what it accepts inherits this
        listener.bind(address)
        listener.listen(4096)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _prepare(connection: socket.socket) -> None:
    """Send messages immediately, keep buffers small, and notice a machine that has vanished."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for size in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, size, _BUFFER)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _contexts(tls: Tls) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS 1.3 with certificates at both ends, for listening and for connecting."""
    contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in contexts:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(tls.authority)
            context.load_cert_chain(tls.certificate, tls.key)
        except (OSError, ValueError) as error:
            raise GossamerError(
                f"the certificate {tls.certificate} cannot be used ({error}); make it with "
                "`gossamer fleet init` or `gossamer fleet renew`"
            ) from error
    contexts[0].num_tickets = 0  # connections are not resumed
    return contexts


def _name_of(connection: ssl.SSLSocket) -> str:
    """The common name in the other end's certificate."""
    subject: Any = (connection.getpeercert() or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "")


def _end_of(connection: Secured) -> float:
    """When the other end's certificate expires, in seconds since 1970."""
    if not isinstance(connection, ssl.SSLSocket):
        return float("inf")
    return float(ssl.cert_time_to_seconds(str((connection.getpeercert() or {})["notAfter"])))


def _why(error: Exception) -> str:
    """A connection error in plain words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"invalid peer certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = str(error.reason or error.strerror or error).lower().replace("_", " ")
        return _WORDS.get(reason, reason)
    if isinstance(error, TimeoutError):
        return "no answer"
    return str(getattr(error, "strerror", None) or error)


_WORDS = {
    "peer did not return a certificate": "it presented no certificate",
    "wrong version number": "it does not speak TLS",
    "http request": "it does not speak TLS",
}
