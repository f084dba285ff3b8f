"""Connections that are idle or slow do not keep others out."""

from __future__ import annotations

import http.client
import socket
from contextlib import ExitStack

import pytest
from tests.support.serving import serving

from gossamer.dashboard import connections
from gossamer.dashboard.server import Channel, Page


async def nothing(channel: Channel) -> None:
    async for _ in channel:
        pass


PAGE = Page("/", "index.html", nothing)


def status(port: int) -> int:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        asked.request("GET", "/pages")
        return asked.getresponse().status
    finally:
        asked.close()


def closed(connection: socket.socket) -> bool:
    """Whether the server closes the connection within the socket's timeout."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_crowd_of_idle_connections_displaces_itself() -> None:
    with serving([PAGE]) as server, ExitStack() as stack:
        crowd = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            for _ in range(3 * connections.MOST_CONNECTIONS)
        ]
        assert status(server.port) == 200  # it was 503
        assert closed(crowd[0])
        crowd[-1].sendall(b"GET /pages HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port)
        assert crowd[-1].recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: 127"], ids=["idle", "half a request"])
def test_a_request_must_arrive_in_time(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST", 0.2)
    with serving([PAGE]) as server, socket.create_connection(("127.0.0.1", server.port), timeout=60) as slow:
        slow.sendall(said)
        assert closed(slow)


def test_no_connection_lasts_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that arrives byte by byte keeps it busy, although the request was answered long ago."""
    monkeypatch.setattr(connections, "LONGEST", 0.5)
    with (
        serving([PAGE]) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=0.05) as slow,
    ):
        slow.sendall(
            b"POST /pages HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 100000\r\n\r\n" % server.port
        )
        assert dripped(slow)


def dripped(slow: socket.socket) -> bool:
    """Send a byte at a time; return whether the server ends it."""
    for _ in range(10_000):
        try:
            slow.sendall(b"x")
            if slow.recv(1000) == b"":
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False
