"""What an agent serves over HTTP: its metrics, its status, and whether it is alive and ready.

    /metrics   for Prometheus
    /status    the agent's status as JSON, as in its status file (`status.py`)
    /healthz   200 while the process is alive
    /readyz    200 if the agent runs and hears a neighbor, or has none; otherwise 503, with the reason

Anyone may connect, so no client may block the others: a connection has a few seconds, and the number of connections is
limited. One more closes the oldest, because a proper request takes milliseconds. A page of another site could make a
browser ask this server under a name that the site lets point here (DNS rebinding), so a Host with a domain must be
known.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from gossamer import checks
from gossamer.errors import OutputError

if TYPE_CHECKING:
    from gossamer.agents.host.metrics import AgentCollector
    from gossamer.agents.snapshot import Snapshot

log = logging.getLogger("gossamer.agents.host.web")

CONNECTIONS = 16
_IDLE_TIMEOUT = 5.0
"""Seconds without a byte after which a connection is closed."""

_PLAIN = "text/plain; charset=utf-8"
_JSON = "application/json"

Answer = tuple[int, str, bytes]
"""Status, content type, and content."""


def readiness(now: Snapshot) -> str:
    """Return why an agent is not ready; empty if it is."""
    if now.state != "running":
        return f"{now.state}: {now.problem}" if now.problem else now.state
    if now.neighbors and not any(neighbor.state == "alive" for neighbor in now.neighbors):
        return "alone: it hears none of its neighbors"
    return ""


def serve(
    collector: AgentCollector,
    status: Callable[[], str],
    port: int,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
) -> Callable[[], None]:
    """Serve an agent's metrics, status, health and readiness in a thread; return a function that stops it.

    `names` are those, besides the machine's own, under which others ask: addresses and names without a dot always work.
    """
    from prometheus_client.exposition import choose_encoder

    checks.whole_number("metrics_port", port, least=1, most=65535)
    registry = collector.registry()

    def answer(path: str, accept: str) -> Answer:
        if path == "/metrics":
            encode, content_type = choose_encoder(accept)
            return 200, content_type, encode(registry)
        if path == "/status":
            return 200, _JSON, status().encode()
        if path == "/healthz":
            return 200, _PLAIN, b"ok\n"
        if path == "/readyz":
            why = readiness(collector.snapshot())
            return (503, _PLAIN, f"{why}\n".encode()) if why else (200, _PLAIN, b"ok\n")
        return 404, _PLAIN, b"the paths are /metrics, /status, /healthz and /readyz\n"

    try:
        server = _Server((host, port), answer, {name.lower() for name in (host, *names)})
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise AddressMissing(
                f"the metrics cannot be served on {host}:{port} yet, because this machine does not have that "
                f"address ({error.strerror})"
            ) from error
        raise OutputError(
            f"must be free, but {host}:{port} cannot be used ({error.strerror}); choose another",
            parameter="metrics_port",
        ) from error
    thread = threading.Thread(target=server.run, name="metrics", daemon=True)
    thread.start()

    def stop() -> None:
        server.end()
        thread.join()
        server.server_close()

    return stop


class AddressMissing(OutputError):
    """The address does not belong to this machine; it may later, once its network is up."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; any other method is answered with 501."""

    timeout = _IDLE_TIMEOUT
    server: _Server

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        if all(map(self.server.knows, self.headers.get_all("Host", []))):
            status, content_type, content = self.server.answer(
                self.path.partition("?")[0], self.headers.get("Accept", "")
            )
        else:
            status, content_type, content = 403, _PLAIN, b"this agent does not answer under that name\n"
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def version_string(self) -> str:
        return "gossamer"  # without the version of Python

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a line per scrape would fill the log."""


class _Server(ThreadingHTTPServer):
    """A server with one thread per connection that closes the oldest connection if there are too many."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, address: tuple[str, int], answer: Callable[[str, str], Answer], names: set[str]
    ) -> None:
        self.answer = answer
        self._names = names | {socket.gethostname().lower(), socket.getfqdn().lower()}
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        self.address_family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        self._wake_reader, self._wake_writer = socket.socketpair()
        super().__init__(address, _Handler)  # which closes the server if it fails

    def knows(self, host: str) -> bool:
        """Return whether a Host header names this server: other sites can let only names with a domain point here."""
        name = host.lower()
        name = name if name.startswith("[") else name.partition(":")[0]  # without the port
        if name in self._names or "." not in name:
            return True
        try:
            return ipaddress.ip_address(name).version == 4
        except ValueError:
            return False

    def run(self) -> None:
        """Answer until `end` is called; unlike `serve_forever`, without waking up twice a second to check."""
        self.socket.setblocking(False)  # a connection may be closed before it is accepted
        poll = select.poll()
        for waited in (self._wake_reader, self.socket):
            poll.register(waited, select.POLLIN)
        while all(descriptor != self._wake_reader.fileno() for descriptor, _ in poll.poll()):
            self._handle_request_noblock()  # type: ignore[attr-defined]

    def end(self) -> None:
        """Make `run` return."""
        self._wake_writer.send(b"x")

    def server_close(self) -> None:
        super().server_close()
        self._wake_reader.close()
        self._wake_writer.close()

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        connection.setblocking(True)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
            if len(self._open) > CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _hang_up(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an exception, unless the client disconnected or its connection was closed to make room."""
        if not isinstance(sys.exception(), OSError):
            log.exception("the answer to %s failed", client_address[0])


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it is already closed
        connection.shutdown(socket.SHUT_RDWR)  # its thread then reads the end and closes it
