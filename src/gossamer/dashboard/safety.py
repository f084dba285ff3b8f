"""Which requests the server accepts, and their limits.

A page of another site can make a browser send requests to this server and, by DNS rebinding, even make them look as if
they came from a page of this server. So the Host of every request must be this server's, its Origin must match if
present, and a web socket must have one. Beyond loopback anyone can connect, so a token is required as well: it is sent
once, in the URL, and then kept in a cookie that no script can read and that is not sent from other sites.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

MOST_SESSIONS = 24
"""Largest number of open pages."""

MOST_MESSAGE = 2**20
"""Largest message from a page in bytes, including an uploaded file."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: everything comes from this server, nothing is inline, and framing is forbidden."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Middleware that accepts only requests from pages of this server; `token` is None on loopback."""

    def __init__(self, app: ASGIApp, host: str, port: int, token: str | None) -> None:
        self.app, self.port, self.token = app, port, token
        self._names = {"localhost"}
        if not is_loopback(host):
            self._names |= {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        self._loopback = is_loopback(host)
        self._cookie = f"gossamer-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers, live = Headers(scope=scope), scope["type"] == "websocket"
        why = self._why_not(headers, live)
        if why is not None:
            await _refuse(why, live)(scope, receive, _hardened(send))
        elif self.token is None or self._known(headers):
            await self.app(scope, receive, send if live else _hardened(send))
        elif not live and self._introduced(scope):
            await self._welcome(scope)(scope, receive, _hardened(send))
        else:
            text = "This page requires a token: open the URL that gossamer dashboard printed."
            await _refuse(text, live)(scope, receive, _hardened(send))

    def _why_not(self, headers: Headers, live: bool) -> str | None:
        """Return what is wrong with the Host or the Origin of a request, or None."""
        host, origins = headers.get("host", ""), headers.getlist("origin")
        if len(headers.getlist("host")) != 1 or not self._is_ours(host):
            return "This server answers only under its own name."
        if live and not origins:
            return "Only pages of this server may connect."
        if any(origin.lower() != f"http://{host}".lower() for origin in origins):
            return "Pages of other sites may not connect to this server."
        return None

    def _is_ours(self, host: str) -> bool:
        """Return whether a Host header names this server. Only names can be rebound, not addresses."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return False
        if (80 if port is None else port) != self.port or "@" in host:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return address.is_loopback or not self._loopback

    def _known(self, headers: Headers) -> bool:
        """Return whether a request has the cookie with the token."""
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _introduced(self, scope: Scope) -> bool:
        return any(
            self._is_token(value)
            for value in parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        )

    def _is_token(self, value: str) -> bool:
        return self.token is not None and hmac.compare_digest(value.encode(), self.token.encode())

    def _welcome(self, scope: Scope) -> ASGIApp:
        """Redirect to the same page without the token in its URL, which keeps it out of the browser's history."""
        response = RedirectResponse(scope["path"] if scope["path"].startswith("/") else "/", 303)
        response.set_cookie(self._cookie, self.token or "", httponly=True, samesite="strict", path="/")
        return response


def _refuse(text: str, live: bool) -> ASGIApp:
    return WebSocketClose(reason=text) if live else PlainTextResponse(text, 403)


def _hardened(send: Send) -> Send:
    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return hardened
