"""HTTP connections of the server: how long one may take, and which is closed when there are too many.

A connection that sends nothing, or its request byte by byte, must not keep others out. So a request must arrive in
time, no connection lasts long unless it becomes a web socket, and when there are too many, the oldest idle one from the
addresses with the most connections is closed. An address that opens many connections thus closes its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 64
"""Largest number of connections that are not pages: of HTTP, and of web sockets that are refused or being closed."""

REQUEST = 5.0
"""Seconds within which the first request must arrive."""

LONGEST = 60.0
"""Seconds after which a connection is closed, whatever it does; a browser opens a new one."""


class BoundedProtocol(H11Protocol):
    """An HTTP connection that is closed when it takes too long, or when there are too many."""

    is_page = False
    """Whether it has become the web socket of a page that is open; how many there may be is not decided here."""

    _since = 0.0
    _timers: tuple[asyncio.TimerHandle, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timers = (
            self.loop.call_later(REQUEST, self._close_without_request),
            self.loop.call_later(LONGEST, transport.abort),
        )
        self._make_room()

    def _make_room(self) -> None:
        """Close the oldest connection of the busiest addresses if there are too many that are not pages."""
        opened = [c for c in map(_origin, self.connections) if not (c.is_page or c.transport.is_closing())]
        if len(opened) > MOST_CONNECTIONS:
            number = Counter(c.address for c in opened)
            min(opened, key=lambda c: (-number[c.address], c.is_answering, c._since)).abort()

    @property
    def address(self) -> str:
        """Where the connection comes from."""
        return self.client[0] if self.client else ""

    @property
    def is_answering(self) -> bool:
        """Whether a response is on its way."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_sending(self) -> bool:
        """Whether the other end has much to receive."""
        return self.transport.get_write_buffer_size() > HIGH_WATER_LIMIT and not self.transport.is_closing()

    def abort(self) -> None:
        """Close it without waiting for its other end."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_timers()
        self.app_state = {**self.app_state, "connection": self}
        super().handle_websocket_upgrade(event)
        self._make_room()

    def _close_without_request(self) -> None:
        if not self.headers:  # of the first request
            self.transport.abort()

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()


def _origin(connection: Any) -> BoundedProtocol:
    """Return the HTTP connection that a connection of the server is, or was before it became a web socket."""
    found = connection if isinstance(connection, BoundedProtocol) else connection.app_state["connection"]
    assert isinstance(found, BoundedProtocol)
    return found
