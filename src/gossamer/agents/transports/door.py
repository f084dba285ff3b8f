"""The door of an agent: who may come in, and how an agent asks to be let in at its neighbors' doors.

Anyone can reach the port, so strangers must not be able to crowd out neighbors. One thread takes every connection as
it comes and shakes hands with all of them side by side, so that none waits for another. What a stranger can use up is
bounded: connections per second, connections that have not shown yet who they are, and the time each has for it. When
there are too many, the oldest from the address that has most must go: a crowd from one address crowds out itself,
and even where neighbors share its address, each has longer than a handshake takes.

With TLS both ends show a certificate of the fleet's authority, and its common name must be that of a neighbor. Then
each end says which agent of which fleet it is, and from there on the connection belongs to that neighbor alone:
whatever arrives on it was sent by that neighbor, under whatever name.

Every member of the fleet, and its operator, may also ask one question, about the roster, and is told the answer at the
door (`ask`). So an agent that was away while all its neighbors changed can learn who they are now.
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
from gossamer.agents.transports.hall import Guest, Hall, Secured, Steps
from gossamer.errors import GossamerError, InvalidInput
from gossamer.fingerprint import full_version

log = logging.getLogger("gossamer.agents")

_PATIENCE = 5.0
"""Seconds that a connection has to show who it is."""

_BATCH, _BREATH = 25, 0.025
"""At most so many connections are taken in so many seconds: a crowd must not keep the processor busy."""

_RETRY, _LONGEST_RETRY = 0.1, 1.0
"""Seconds between two attempts to reach a neighbor: at first, and after many."""

_SETTLING = 15.0
"""Seconds for which a neighbor may be away before the log warns: fleets start and stop, and agents are restarted."""

_BUFFER = 1 << 18
"""Bytes that the system holds for a connection each way; more would only be messages of rounds long over."""

_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""A connection is given up when the other machine has not answered for about ten seconds."""

_GREETING = 256
"""Bytes that a greeting may have."""

_TLS_HANDSHAKE = b"\x16"

VERSION = 1
"""Of how connections begin and messages are framed; `round/wire.py` has that of the messages."""

Admit = Callable[[Neighbor, Secured, float, str], None]
"""Called with a neighbor, its connection, when its certificate ends and its build, in a thread of the door."""

Answer = Callable[[str, bytes], bytes]
"""Called with the name of who asks, and the question."""

_ASKS = "asks"
_LENGTH = struct.Struct("<I")
LONGEST_QUESTION = 1 << 20


class Refused(Exception):
    """Why a connection is not let in."""


class Door:
    """Lets the neighbors of one agent in, and knocks at the doors of those that it must connect to."""

    def __init__(self, settings: AgentSettings, admit: Admit, answer: Answer | None = None) -> None:
        if not settings.endpoint:
            raise InvalidInput("endpoint must be host:port to listen on, got an empty one")
        unreachable = [n.id for n in settings.neighbors if n.id < settings.id and not n.endpoint]
        if unreachable:
            raise InvalidInput(
                f"neighbors must have an endpoint if their number is below {settings.id}, because agent "
                f"{settings.id} connects to them, but {unreachable} have none"
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
                "the port must be free, and the address this machine's"
            ) from error
        self._bell, self._rope = socket.socketpair()
        self._thread = threading.Thread(
            target=self._receive, args=(listener,), name=f"door-{settings.id}", daemon=True
        )
        self._thread.start()
        for n in settings.neighbors:
            if n.id < settings.id:
                self.call(n, after=0.0)

    def rewire(self, settings: AgentSettings) -> None:
        """Let in, and call, those who are neighbors now, with the certificates that are in the files now."""
        before = self._settings
        if _address(settings) != _address(before):
            raise GossamerError(
                f"{settings.label} listens on {_address(before)} as long as it runs, got {_address(settings)}; "
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
            self._rope.send(b"x")
            self._thread.join()
            self._thread = None
            self._bell.close()
            self._rope.close()

    # -- letting in ---------------------------------------------------------------------------------------

    def _receive(self, listener: socket.socket) -> None:
        """The thread of the door."""
        hall = Hall()
        hall.selector.register(self._bell, selectors.EVENT_READ)
        hall.selector.register(listener, selectors.EVENT_READ)
        rested, taken = 0.0, 0
        try:
            while not self._closed.is_set():
                now = time.monotonic()
                if now - rested >= _BREATH:
                    if taken >= _BATCH:
                        hall.selector.register(listener, selectors.EVENT_READ)
                    rested, taken = now, 0
                for key, _ in hall.selector.select(_BREATH if taken >= _BATCH else hall.wait(now)):
                    if key.fileobj is listener:
                        taken += self._take(listener, hall)
                        if taken >= _BATCH:
                            hall.selector.unregister(listener)
                    elif isinstance(key.data, Guest):
                        self._continue(key.data, hall)
                hall.clear_out(time.monotonic())
        finally:
            listener.close()
            hall.close()

    def _take(self, listener: socket.socket, hall: Hall) -> int:
        try:
            connection, address = listener.accept()
        except OSError as error:
            log.warning("refused a connection: %s", error.strerror)
            return _BATCH  # out of descriptors, most likely: those in the hall must leave first
        connection.setblocking(False)
        guest = Guest(connection, address[0], time.monotonic() + _PATIENCE)
        guest.steps = self._enter(guest)
        hall.add(guest)
        self._continue(guest, hall)
        return 1

    def _continue(self, guest: Guest, hall: Hall) -> None:
        """Take the conversation with a guest as far as it goes without waiting."""
        if guest not in hall:  # dismissed a moment ago, to make room
            return
        try:
            event = next(guest.steps)
        except StopIteration as end:
            if end.value is None:
                hall.dismiss(guest)
                return
            hall.remove(guest)
            self._admit(end.value, guest.connection, _end_of(guest.connection), guest.build)
        except Exception as error:  # whatever a stranger has thought of, the door stays open
            hall.dismiss(guest)
            log.warning("refused a connection: %s", _why(error))
        else:
            hall.expect(guest, event)

    def _enter(self, guest: Guest) -> Steps:
        """What a connection has to do to be let in."""
        yield selectors.EVENT_READ
        if self._server is not None:
            if guest.connection.recv(1, socket.MSG_PEEK) != _TLS_HANDSHAKE:
                raise Refused("it does not speak TLS")
            guest.connection = secured = self._server.wrap_socket(
                guest.connection, server_side=True, do_handshake_on_connect=False
            )
            yield from _patiently(secured.do_handshake)
        said = b""
        while not said.endswith(b"\n"):
            said += yield from _read(guest.connection, 1)
            if len(said) > _GREETING:
                raise Refused("it did not say who it is")
        if _who(said) == self._who(_ASKS):
            yield from self._reply(guest.connection)
            return None
        neighbor = self._recognize(guest.connection, said)
        guest.build = _build_of(said)
        yield from _patiently(lambda: guest.connection.send(self._greeting))
        return neighbor

    def _reply(self, connection: Secured) -> Steps:
        """Answer a question. An empty one, for the roster, may come from anybody with a certificate of the authority:
        a removed agent that was not there when it was told learns in this way why nobody hears it."""
        name = _name_of(connection) if isinstance(connection, ssl.SSLSocket) else ""
        if self._answer is None or not name:
            raise Refused(f"{name or 'someone'} may not ask anything here")
        (length,) = _LENGTH.unpack((yield from _read(connection, _LENGTH.size)))
        if length > LONGEST_QUESTION:
            raise Refused(f"{name} asks with {length} bytes, which is too long")
        if length and name not in (OPERATOR, *self._settings.bringers):
            raise Refused(f"{name} is not a member of this fleet, so it may bring nothing")
        question = yield from _read(connection, length)
        answer = self._answer(name, question)
        left = _LENGTH.pack(len(answer)) + answer
        while left:
            sent = yield from _patiently(partial(connection.send, left))
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
        raise Refused(f"{name or 'someone'} says that it is {said[:64]!r}{_another_version(said)}")

    def _greeting_of(self, agent: int | str) -> bytes:
        return _greeting(self._settings.fleet, agent)

    def _who(self, agent: int | str) -> list[bytes]:
        return _who(self._greeting_of(agent))

    # -- asking to be let in ------------------------------------------------------------------------------

    def call(self, neighbor: Neighbor, after: float = _RETRY) -> None:
        """Connect to a neighbor, in a thread that keeps trying until it succeeds or the door is closed."""
        name = f"call-{self._settings.id}-{neighbor.id}"
        threading.Thread(target=self._keep_calling, args=(neighbor, after), name=name, daemon=True).start()

    def _keep_calling(self, neighbor: Neighbor, after: float) -> None:
        pause, began = _RETRY, time.monotonic()
        while not self._closed.wait(after) and self._calls(neighbor):
            try:
                connection, theirs = self._reach(neighbor)
            except (OSError, Refused) as error:
                scheme = "tls" if self._client else "tcp"
                passing = not isinstance(error, ssl.SSLError) and time.monotonic() - began < _SETTLING
                level = logging.INFO if passing else logging.WARNING
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
                    raise Refused("it did not let this agent in")
            if _who(said) != self._who(neighbor.id):
                raise Refused(f"another agent answered{_another_version(said)}")
            connection.setblocking(False)
        except BaseException:
            connection.close()
            raise
        return connection, _build_of(said)


# -- what both directions share ---------------------------------------------------------------------------------


def _patiently(act: Callable[[], object]) -> Generator[int, None, object]:
    """Do something that may have to wait for the other end."""
    while True:
        try:
            return act()
        except (ssl.SSLWantReadError, BlockingIOError):
            yield selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            yield selectors.EVENT_WRITE


def _read(connection: Secured, size: int) -> Generator[int, None, bytes]:
    """Read so many bytes, and no more."""
    found = b""
    while len(found) < size:
        read = yield from _patiently(partial(connection.recv, size - len(found)))
        if not read or not isinstance(read, bytes):
            raise Refused("it did not say who it is")
        found += read
    return found


def ask(tls: Tls, fleet: str, neighbor: Neighbor, question: bytes, timeout: float = _PATIENCE) -> bytes:
    """Ask an agent at its door, with the certificate of a member or of the operator; raises OSError if it refuses."""
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
                    raise Refused("it gives no answer")
                return answers.read(min(*_LENGTH.unpack(start), LONGEST_QUESTION))
    except (OSError, Refused) as error:
        raise OSError(f"{neighbor.endpoint} cannot be asked: {_why(error)}") from error


def _greeting(fleet: str, agent: int | str) -> bytes:
    """What a connection begins with: the version, who it is, and its build, which is for people to read."""
    return f"gossamer {VERSION} {fleet} {agent} {full_version()}\n".encode()


def _who(greeting: bytes) -> list[bytes]:
    """The words of a greeting that must be right."""
    return greeting.split()[:4]


def _build_of(greeting: bytes) -> str:
    return b" ".join(greeting.split()[4:5]).decode(errors="replace")


def _another_version(greeting: bytes) -> str:
    """What to say of a greeting if its version is not the expected one."""
    if _who(greeting)[:2] in ([], [b"gossamer", str(VERSION).encode()]):
        return ""
    return f"; it is of another version ({_build_of(greeting) or 'unknown'}, this is {full_version()}); install one"


def _address(settings: AgentSettings) -> str:
    """Where an agent listens."""
    return settings.listen or settings.endpoint


def _contact(neighbor: Neighbor) -> tuple[int, str, str]:
    """Whom to reach, and where."""
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
    """Messages leave at once, little is held back, and a machine that has vanished is noticed."""
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
    """When the other end's certificate ends, in seconds since 1970."""
    if not isinstance(connection, ssl.SSLSocket):
        return float("inf")
    return float(ssl.cert_time_to_seconds(str((connection.getpeercert() or {})["notAfter"])))


def _why(error: Exception) -> str:
    """An error of a connection in plain words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"invalid peer certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = str(error.reason or error.strerror or error).lower().replace("_", " ")
        return _WORDS.get(reason, reason)
    if isinstance(error, TimeoutError):
        return "no answer"
    return str(getattr(error, "strerror", None) or error)


_WORDS = {
    "peer did not return a certificate": "it showed no certificate",
    "wrong version number": "it does not speak TLS",
    "http request": "it does not speak TLS",
}
