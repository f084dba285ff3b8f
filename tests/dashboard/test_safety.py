"""Who may speak to the server: hosts, origins, tokens, and how much of everything."""

from __future__ import annotations

import http.client
import json
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import pytest
from tests.support.frames import unpacked
from tests.support.serving import serving
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from gossamer.dashboard import safety
from gossamer.dashboard.server import Page, Server
from gossamer.errors import InvalidInput


async def echo(channel):
    async for message in channel:
        await channel.send("echo", text=message.get("text"))


PAGE = Page("/", "index.html", echo)

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def ask(port, path="/", method="GET", **headers):
    """One request, with exactly these headers (`host` among them)."""
    raw = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    raw.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in ({"host": f"127.0.0.1:{port}"} | headers).items():
        if value is not None:
            raw.putheader(name, value)
    raw.endheaders()
    found = raw.getresponse()
    upgraded = found.status == 101
    answer = SimpleNamespace(
        status=found.status, headers=found.headers, text="" if upgraded else found.read().decode()
    )
    raw.close()
    return answer


def live(port, path="/live/", **headers):
    """The status with which a web socket is answered: 101 is a welcome."""
    return ask(port, path, **UPGRADE, **headers).status


@pytest.fixture(scope="module")
def port():
    with serving([PAGE]) as server:
        yield server.port


@pytest.fixture(scope="module")
def wide():
    """A server beyond loopback: its port and its token."""
    with serving([PAGE], "0.0.0.0") as server:
        yield server.port, server.address.partition("?token=")[2]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_the_server_answers_under_its_own_names(port, host):
    name = f"{host}:{port}"
    assert ask(port, host=name).status == 200
    assert live(port, host=name, origin=f"http://{name}") == 101


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:PORT",
        "127.0.0.1.evil.example:PORT",
        "127.0.0.1:9",
        "127.0.0.1",
        "localhost",
        "10.0.0.7:PORT",
        "user@127.0.0.1:PORT",
        "127.0.0.1:x",
        "[::1",
        "",
    ],
)
def test_other_names_are_refused_for_pages_and_sockets(port, host):
    """A name that resolves to this machine today is still another site's name."""
    name = host.replace("PORT", str(port))
    found = ask(port, host=name)
    assert (found.status, found.text) == (403, "This server answers only under its own name.")
    assert live(port, host=name, origin=f"http://{name}") == 403


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://127.0.0.1:PORT", "http://127.0.0.1:9", "http://localhost:PORT", "null"],
)
def test_pages_of_other_sites_are_refused(port, origin):
    origin = origin.replace("PORT", str(port))
    assert ask(port, "/pages", origin=origin).status == 403
    assert live(port, origin=origin) == 403


def test_a_socket_needs_an_origin_and_a_page_does_not(port):
    assert live(port) == 403
    assert live(port, origin=f"http://127.0.0.1:{port}") == 101
    assert ask(port).status == 200


def test_messages_are_answered_and_what_is_none_gets_an_error(port):
    with connect(f"ws://127.0.0.1:{port}/live/", origin=f"http://127.0.0.1:{port}", proxy=None) as socket:
        socket.send(json.dumps({"type": "say", "text": "hello"}))
        assert unpacked(socket.recv(timeout=60))[0] == {"type": "echo", "text": "hello"}
        for text in ("{", "[]", "{}", '{"type": 3}', '{"type": "say", "text": NaN}', "[" * 100_000):
            socket.send(text)
            header, _ = unpacked(socket.recv(timeout=60))
            assert header["message"] == "a message must be a JSON object with a type"


@pytest.mark.parametrize("path", ["/", "/pages", "/static/style.css", "/nothing"])
def test_every_answer_has_a_strict_policy(port, path):
    headers = ask(port, path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_possible(port, method):
    assert ask(port, method=method).status == 405


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/server.py"]
)
def test_files_outside_the_static_folder_are_not_served(port, path):
    assert ask(port, path).status == 404


def test_beyond_loopback_a_token_is_needed_once(wide):
    port, token = wide
    assert len(token) >= 32
    for path in ("/", "/?token=wrong", "/?token=", "/pages", "/static/style.css"):
        found = ask(port, path)
        assert (found.status, found.text.partition(":")[0]) == (403, "This page requires a token")
    origin = f"http://127.0.0.1:{port}"
    assert live(port, f"/live/?token={token}", origin=origin) == 403
    welcome = ask(port, f"/?token={token}")
    assert (welcome.status, welcome.headers["location"]) == (303, "/")
    cookie, *rules = welcome.headers["set-cookie"].split("; ")
    assert {rule.lower() for rule in rules} >= {"httponly", "samesite=strict"}
    assert ask(port, cookie=cookie).status == 200
    assert live(port, origin=origin, cookie=cookie) == 101
    assert ask(port, cookie=cookie + "x").status == 403
    # An address of this machine will do as its name, a foreign name or page will not.
    assert ask(port, host=f"192.0.2.7:{port}", cookie=cookie).status == 200
    assert ask(port, host=f"evil.example:{port}", cookie=cookie).status == 403
    assert ask(port, origin="http://evil.example", cookie=cookie).status == 403


def test_loopback_needs_no_token_and_every_server_has_its_own():
    servers = [Server([PAGE]), Server([PAGE], "0.0.0.0"), Server([PAGE], "0.0.0.0")]
    local, *tokens = (server.address.partition("?token=") for server in servers)
    assert local == (f"http://127.0.0.1:{servers[0].port}/", "", "")
    assert tokens[0][2] != tokens[1][2]
    for server in servers:
        server.close()


def test_an_address_that_cannot_be_had_is_an_error():
    with pytest.raises(InvalidInput, match="host and port must be an address of this machine that is free"):
        Server([PAGE], "192.0.2.1")
    with pytest.raises(InvalidInput, match="port must be a whole number of at least 0 and at most 65535"):
        Server([PAGE], port=70000)


def test_large_messages_and_many_sessions_are_refused(monkeypatch):
    monkeypatch.setattr("gossamer.dashboard.server.MOST_SESSIONS", 3)
    with serving([PAGE]) as server:
        place, origin = f"ws://127.0.0.1:{server.port}/live/", f"http://127.0.0.1:{server.port}"
        with connect(place, origin=origin, proxy=None) as socket:
            with suppress(ConnectionClosed):  # the server may refuse it before all of it is sent
                socket.send(json.dumps({"type": "say", "text": "x" * safety.MOST_MESSAGE}))
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=60)
            assert socket.close_code in (
                1009,
                1006,
            )  # 1006 where the reason was lost with the rest of the message
        with ExitStack() as opened:
            for _ in range(3):
                socket = opened.enter_context(connect(place, origin=origin, proxy=None))
                socket.send(json.dumps({"type": "say"}))
                socket.recv(timeout=60)  # so it is open
            with connect(place, origin=origin, proxy=None) as socket:
                header, _ = unpacked(socket.recv(timeout=60))
                assert (header["type"], header["message"]) == ("full", "3 pages are open; close one")
