"""Connections that an agent opens: to neighbors (`AgentSettings.calls`), and to any member to ask it a question.

Each of these neighbors has one thread, which connects again whenever the connection is lost. So the number of threads
and sockets does not depend on what a neighbor does, and one that closes every connection is called once a second.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable

from gossamer.agents.config.members import NOWHERE
from gossamer.agents.config.settings import AgentSettings, Neighbor, Tls
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

log = logging.getLogger("gossamer.agents")

_RETRY, _LONGEST_RETRY = 0.1, 1.0
"""Seconds between two attempts to reach a neighbor: the first delay and the longest one."""

_SETTLING = 15.0
"""Seconds for which a neighbor may be unreachable before the log warns: agents start at different times and restart."""

LONGEST_QUESTION = 1 << 20
"""Largest size of a question and of its answer in bytes."""

LENGTH = struct.Struct("<I")

Admit = Callable[[Neighbor, Secured, float, str], None]
"""Called with a neighbor, its connection, when its certificate expires, and its build, in a thread of this module or of
the connector."""

Contact = tuple[int, str, str]
"""The number, address and name of a neighbor."""


class Callers:
    """Connects to those of an agent's neighbors that do not connect themselves, one thread for each of them."""

    def __init__(self, admit: Admit, dial: Callable[[Neighbor], socket.socket]) -> None:
        self._admit = admit
        self._dial = dial
        self._settings: AgentSettings | None = None
        self._client: ssl.SSLContext | None = None
        self._wanted: dict[Contact, threading.Event] = {}  # set while a neighbor has no connection
        self._closed = threading.Event()

    def follow(self, settings: AgentSettings, client: ssl.SSLContext | None) -> None:
        """Call the neighbors of these settings from now on; without `client`, in plaintext."""
        self._settings, self._client = settings, client
        called = {_contact(n): n for n in settings.neighbors if settings.calls(n)}
        for contact in self._wanted.keys() - called.keys():
            self._wanted.pop(contact).set()  # its thread ends
        for contact in called.keys() - self._wanted.keys():
            wanted = self._wanted[contact] = threading.Event()
            wanted.set()
            given = called[contact], settings.id, wanted
            name = f"call-{settings.id}-{contact[0]}"
            threading.Thread(target=self._keep_calling, args=given, name=name, daemon=True).start()

    def call(self, neighbor: Neighbor) -> None:
        """Connect to a neighbor again, because its connection is lost; does nothing if the neighbor connects itself."""
        if (wanted := self._wanted.get(_contact(neighbor))) is not None:
            wanted.set()

    def close(self) -> None:
        self._closed.set()
        for wanted in self._wanted.values():
            wanted.set()

    def _keep_calling(self, neighbor: Neighbor, me: int, wanted: threading.Event) -> None:
        began, pause = time.monotonic(), 0.0
        while not self._closed.wait(pause) and self._wanted.get(_contact(neighbor)) is wanted:
            pause = min(max(2 * pause, _RETRY), _LONGEST_RETRY)
            try:
                connection, build = self._reach(neighbor, me)
            except (OSError, Refused) as error:
                self._tell(neighbor, error, time.monotonic() - began)
                continue
            wanted.clear()
            began = time.monotonic()
            self._admit(neighbor, connection, end_of(connection), build)
            wanted.wait()
            if time.monotonic() - began >= PATIENCE:
                pause = _RETRY
            began = time.monotonic()

    def _tell(self, neighbor: Neighbor, error: Exception, seconds: float) -> None:
        """Log that a neighbor could not be reached for this many seconds."""
        refused = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)
        transient = not refused and seconds < _SETTLING
        level = logging.INFO if transient else logging.WARNING
        scheme = "tls" if self._client else "tcp"
        said = {"said": error.said} if isinstance(error, Refused) and error.said else {}
        log.log(
            level,
            "cannot connect to %s at %s/%s: %s",
            neighbor.label,
            scheme,
            neighbor.endpoint or "the broker",
            why(error),
            extra=said,
        )

    def _reach(self, neighbor: Neighbor, me: int) -> tuple[Secured, str]:
        settings, client = self._settings, self._client
        assert settings is not None
        deadline = time.monotonic() + PATIENCE
        connection: Secured = self._dial(neighbor)
        try:
            connection.settimeout(PATIENCE)
            if client is not None:
                connection = _secure(connection, client, neighbor)
            connection.sendall(greeting_of(settings.fleet, me))
            said = b""
            while not said.endswith(b"\n"):
                said += (rest := _receive(connection, 1, deadline))
                if not rest or len(said) > LONGEST_GREETING:
                    raise Refused("it refused this agent")
            if who_in(said) != who_in(greeting_of(settings.fleet, neighbor.id)):
                raise Refused(f"another agent answered{another_version(said)}", build_in(said))
            connection.setblocking(False)
        except BaseException:
            connection.close()
            raise
        return connection, build_in(said)


def dial_directly(neighbor: Neighbor) -> socket.socket:
    """A connection to a neighbor at its endpoint."""
    connection = socket.create_connection(_address_of(neighbor), timeout=PATIENCE)
    prepare(connection)
    return connection


def ask(tls: Tls, fleet: str, neighbor: Neighbor, question: bytes, timeout: float = PATIENCE) -> bytes:
    """Ask a running agent a question, with the certificate of a member or of the operator.

    Raises OSError if the agent cannot be reached, refuses to answer, or has not answered after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    if not neighbor.endpoint:
        raise OSError(f"{neighbor.label} cannot be asked: it cannot be reached (reachable = false)")
    try:
        with (
            socket.create_connection(_address_of(neighbor), timeout=timeout) as plain,
            _secure(plain, contexts(tls)[1], neighbor) as connection,
        ):
            connection.sendall(greeting_of(fleet, ASKS) + LENGTH.pack(len(question)) + question)
            start = _receive(connection, LENGTH.size, deadline)
            if len(start) < LENGTH.size:
                raise Refused("it did not answer")
            return _receive(connection, min(*LENGTH.unpack(start), LONGEST_QUESTION), deadline)
    except (OSError, Refused) as error:
        raise OSError(f"{neighbor.endpoint} cannot be asked: {why(error)}") from error


def _secure(connection: socket.socket, client: ssl.SSLContext, neighbor: Neighbor) -> ssl.SSLSocket:
    """The connection over TLS, with the certificate of this neighbor at its other end."""
    host = _address_of(neighbor)[0] if neighbor.endpoint else NOWHERE
    secured = client.wrap_socket(connection, server_hostname=host)
    if (name := name_of(secured)) != neighbor.name:
        secured.close()
        raise Refused(f"it is {name}, not {neighbor.name}")
    return secured


def _receive(connection: Secured, size: int, deadline: float) -> bytes:
    """Read `size` bytes, or fewer if the other end has closed; raise TimeoutError after the deadline."""
    data = bytearray()
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        piece = connection.recv(size - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def _address_of(neighbor: Neighbor) -> tuple[str, int]:
    host, _, port = neighbor.endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def _contact(neighbor: Neighbor) -> Contact:
    return neighbor.id, neighbor.endpoint, neighbor.name
