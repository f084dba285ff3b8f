"""A connection between two agents: mutual TLS, and who is at its other end."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from gossamer.agents.config.settings import AgentSettings, Tls
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.text import printable
from gossamer.errors import GossamerError
from gossamer.fingerprint import full_version

Secured = socket.socket | ssl.SSLSocket

PATIENCE = 5.0
"""Seconds in which a connection must be established, greetings included."""

LONGEST_GREETING = 256
"""Largest size of a greeting in bytes."""

VERSION = 1
"""Version of the greeting and the framing; `round/wire.py` has the version of the messages."""

ASKS = "asks"
"""In place of a number in the greeting, if the connection is for one question."""

_BUFFER = 1 << 18
"""Size of the socket buffers in bytes; a larger one would only hold messages of past rounds."""

_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""A connection is closed when the other machine has not answered for about ten seconds."""


class Refused(Exception):
    """Why a connection is refused; `said` is what the other end said, which it may change every time."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


def longest_message(settings: AgentSettings) -> int:
    """An upper bound on the size of a valid message in bytes; a transport need not hold more."""
    return max(1 << 20, 2 * settings.limits.message_bytes, 512 * Layout.of(settings).size)


def greeting_of(fleet: str, agent: int | str) -> bytes:
    """The first line on a connection: version, fleet, agent, and the build, which is informational."""
    return f"gossamer {VERSION} {fleet} {agent} {full_version()}\n".encode()


def who_in(greeting: bytes) -> list[bytes]:
    """The part of a greeting that must match."""
    return greeting.split()[:4]


def build_in(greeting: bytes) -> str:
    """The version that the other end runs."""
    return printable(b" ".join(greeting.split()[4:5]).decode(errors="replace"))


def another_version(greeting: bytes) -> str:
    """The text to append for a greeting of another version; empty if the version is as expected."""
    if who_in(greeting)[:2] in ([], [b"gossamer", str(VERSION).encode()]):
        return ""
    return f"; it runs another version (this agent runs {full_version()}); install the same one"


def prepare(connection: socket.socket) -> None:
    """Send messages immediately, keep buffers small, and notice a machine that has vanished."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for size in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, size, _BUFFER)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def contexts(tls: Tls) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS 1.3 with certificates at both ends, for listening and for connecting."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in made:
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
    made[0].num_tickets = 0  # connections are not resumed
    return made


def name_of(connection: ssl.SSLSocket) -> str:
    """The common name in the other end's certificate."""
    subject: Any = (connection.getpeercert() or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "")


def end_of(connection: Secured) -> float:
    """When the other end's certificate expires, in seconds since 1970."""
    if not isinstance(connection, ssl.SSLSocket):
        return float("inf")
    return float(ssl.cert_time_to_seconds(str((connection.getpeercert() or {})["notAfter"])))


def why(error: Exception) -> str:
    """A connection error in plain words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"invalid peer certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "the connection ended"
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
