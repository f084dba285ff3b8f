"""Connections that are idle or slow do not keep others out."""

from __future__ import annotations

import http.client
import socket
import threading
from collections import Counter
from contextlib import ExitStack

import pytest
from starlette.websockets import WebSocketDisconnect
from tests.support.serving import serving

from gossamer.dashboard import connections, safety
from gossamer.dashboard import server as dashboard
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


def test_connections_of_many_addresses_displace_the_oldest() -> None:
    with serving([PAGE]) as server, ExitStack() as stack:
        place, most = ("127.0.0.1", server.port), connections.MOST_CONNECTIONS
        crowd = [
            stack.enter_context(socket.create_connection(place, timeout=60, source_address=(own, 0)))
            for own in (f"127.0.1.{k + 1}" for k in range(most + 32))
        ]
        assert all(closed(old) for old in crowd[:32])  # which ones was arbitrary, the newest included
        for young in crowd[most:]:
            young.sendall(b"GET /pages HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port)
            assert young.recv(15) == b"HTTP/1.1 200 OK"


async def welcome(channel: Channel) -> None:
    await channel.send("hello")
    await nothing(channel)


def opened(port: int, address: str = "127.0.0.1") -> socket.socket:
    """A web socket without a client: it answers nothing, and reads what is asked of it."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.sendall(
        b"GET /live/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: http://127.0.0.1:%d\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        % (port, port)
    )
    return raw


def answer(page: socket.socket) -> str:
    """The type of its first frame."""
    said = b""
    while b'"}' not in said and b"[]}" not in said and (more := page.recv(1000)):
        said += more
    return next(word for word in ("full", "hello") if f'"{word}"'.encode() in said)


def test_pages_that_are_refused_do_not_keep_others_out() -> None:
    """They are told why, and then wait for an end of the connection that never answers."""
    with serving([Page("/", "index.html", welcome)]) as server, ExitStack() as stack:
        most = safety.MOST_SESSIONS
        answers = Counter(answer(stack.enter_context(opened(server.port))) for _ in range(8 * most))
        assert status(server.port) == 200  # it was 503
        assert answers == {"hello": most, "full": 7 * most}


def test_an_address_with_many_pages_makes_room_for_others() -> None:
    with serving([Page("/", "index.html", welcome)]) as server, ExitStack() as stack:

        def page(address: str) -> socket.socket:
            return stack.enter_context(opened(server.port, address))

        crowd = [page("127.0.0.2") for _ in range(safety.MOST_SESSIONS)]
        assert {answer(each) for each in crowd} == {"hello"}
        assert answer(page("127.0.0.2")) == "full"
        assert answer(page("127.0.0.3")) == "hello"
        assert closed(crowd[-1])


def test_a_page_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else ends it: its buffers are full, so it is not even asked whether it is still there."""
    monkeypatch.setattr(dashboard, "SLOWEST", 0.2)
    ended = threading.Event()

    async def flood(channel: Channel) -> None:
        try:
            while True:
                await channel.pass_on(bytes(2**20))
        except WebSocketDisconnect:
            ended.set()

    with serving([Page("/", "index.html", flood)]) as server, opened(server.port):
        assert ended.wait(60)


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
