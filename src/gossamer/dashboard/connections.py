"""HTTP connections of the server: how long one may take, and which is closed when there are too many.

A connection that sends nothing, or its request byte by byte, must not keep others out. So a request must arrive in
time, no connection lasts long unless it becomes a web socket, and when there are too many, the oldest idle one from the
address with the most connections is closed. An address that opens many connections thus closes its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 64
"""Largest number of connections that are not web sockets."""

REQUEST = 5.0
"""Seconds within which the first request must arrive."""

LONGEST = 60.0
"""Seconds after which a connection is closed, whatever it does; a browser opens a new one."""


class BoundedProtocol(H11Protocol):
    """An HTTP connection that is closed when it takes too long, or when there are too many."""

    _since = 0.0
    _timers: tuple[asyncio.TimerHandle, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timers = (
            self.loop.call_later(REQUEST, self._close_without_request),
            self.loop.call_later(LONGEST, transport.abort),
        )
        opened = [c for c in self.connections if isinstance(c, BoundedProtocol)]
        if len(opened) > MOST_CONNECTIONS:
            [(busiest, _)] = Counter(c.address for c in opened).most_common(1)
            crowd = [c for c in opened if c.address == busiest]
            oldest = min(crowd, key=lambda c: (c.is_answering, c._since))
            self.connections.discard(oldest)  # connection_lost() is called later
            oldest.transport.abort()

    @property
    def address(self) -> str:
        """Where the connection comes from."""
        return self.client[0] if self.client else ""

    @property
    def is_answering(self) -> bool:
        """Whether a response is on its way."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_timers()
        super().handle_websocket_upgrade(event)

    def _close_without_request(self) -> None:
        if not self.headers:  # of the first request
            self.transport.abort()

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
