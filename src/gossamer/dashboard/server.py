"""Pages, their sessions, and the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from gossamer import checks
from gossamer.arrays import AnyArray
from gossamer.dashboard.connections import BoundedProtocol
from gossamer.dashboard.frames import packed
from gossamer.dashboard.safety import MOST_MESSAGE, MOST_SESSIONS, Guard, is_loopback
from gossamer.errors import GossamerError, InvalidInput

STATIC = Path(__file__).parent / "static"

SLOWEST = 60.0
"""Seconds within which a page must receive a frame: while it does not, it keeps a worker from other pages."""


class Channel:
    """The connection of a session to its page: frames go out, messages (JSON objects with a "type") come in."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self.connection: BoundedProtocol = websocket.scope["state"]["connection"]

    async def send(
        self, type: str, /, *, arrays: dict[str, AnyArray] | None = None, **header: object
    ) -> None:
        """Send a frame, after the page has received all earlier frames."""
        await self.pass_on(packed({"type": type, **header}, **(arrays or {})))

    async def pass_on(self, frame: bytes) -> None:
        """Send a frame that is already packed; a page that does not receive it in time is disconnected."""
        try:
            async with asyncio.timeout(SLOWEST):
                await self._websocket.send_bytes(frame)
                while self.connection.is_sending:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self.connection.abort()
            raise WebSocketDisconnect(1013) from None

    async def complain(self, error: GossamerError, **header: Any) -> None:
        """Show an error on the page."""
        await self.send("error", message=str(error), **header)

    async def __aiter__(self) -> AsyncIterator[dict[str, object]]:
        """Yield the page's messages until it closes; invalid ones are answered with an error."""
        while True:
            try:
                text = await self._websocket.receive_text()
            except (WebSocketDisconnect, KeyError):  # the page closed, or sent bytes
                return
            try:
                message = json.loads(text, parse_constant=_no_number)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict) and isinstance(message.get("type"), str):
                yield message
            else:
                await self.complain(InvalidInput("a message must be a JSON object with a type"))


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


class Page(NamedTuple):
    """A page: its path below the root, its file in `static`, and what runs while it is open.

    resources   entered when the server starts and left when it stops
    """

    path: str
    file: str
    session: Callable[[Channel], Awaitable[None]]
    resources: Callable[[], contextlib.AbstractAsyncContextManager[None]] = contextlib.nullcontext


def application(pages: Sequence[Page], host: str, port: int, token: str | None) -> Guard:
    """Return the pages as an application behind its guard."""
    sessions: list[BoundedProtocol] = []  # in the order in which they were opened

    def show(page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def shown(request: Request) -> Response:
            return FileResponse(STATIC / page.file)

        return shown

    def talk(page: Page) -> Callable[[WebSocket], Awaitable[None]]:
        async def talking(websocket: WebSocket) -> None:
            channel = Channel(websocket)
            connection = channel.connection
            connection.is_page = _has_room(sessions, connection.address)
            if connection.is_page:
                sessions.append(connection)
            try:
                await websocket.accept()
                if connection.is_page:
                    await page.session(channel)
                else:
                    await channel.send("full", message=f"{MOST_SESSIONS} pages are open; close one")
            except WebSocketDisconnect:
                pass
            finally:
                if connection in sessions:
                    sessions.remove(connection)
                connection.is_page = False
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                    await websocket.close(1013)

        return talking

    async def offered(request: Request) -> Response:
        return Response(json.dumps([page.path for page in pages]), media_type="application/json")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for page in pages:
                await stack.enter_async_context(page.resources())
            yield

    routes: list[BaseRoute] = [Route(page.path, show(page)) for page in pages]
    routes += [WebSocketRoute(f"/live{page.path}", talk(page)) for page in pages]
    routes += [Route("/pages", offered), Mount("/static", StaticFiles(directory=STATIC))]
    return Guard(Starlette(routes=routes, lifespan=lifespan), host, port, token)


def _has_room(sessions: list[BoundedProtocol], address: str) -> bool:
    """Return whether a page may open; one of an address with fewer pages takes the place of a busier address's."""
    if len(sessions) < MOST_SESSIONS:
        return True
    pages = Counter(session.address for session in sessions)
    most = max(pages.values())
    if 0 < pages[address] >= most - 1:
        return False
    newest = [session for session in sessions if pages[session.address] == most][-1]
    sessions.remove(newest)
    newest.abort()
    return True


class Server:
    """A server of some pages; `address` is the URL of the first one, with the token if there is one.

    host   address to listen on, by default loopback
    port   port to listen on; 0 chooses a free one
    """

    def __init__(self, pages: Sequence[Page], host: str = "127.0.0.1", port: int = 0) -> None:
        port = checks.whole_number("port", port, least=0, most=65535)
        self._socket = _listen(host, port)
        self.port = int(self._socket.getsockname()[1])
        token = None if is_loopback(host) else secrets.token_urlsafe(24)
        everywhere = host in ("0.0.0.0", "::")
        name = socket.gethostname() if everywhere else f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{self.port}{pages[0].path}" + (
            f"?token={quote(token)}" if token else ""
        )
        config = uvicorn.Config(
            application(pages, host, self.port, token),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http=BoundedProtocol,
            ws_max_size=MOST_MESSAGE,
            ws_per_message_deflate=False,  # packing numbers costs more than sending them
            ws_ping_interval=20,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until interrupted."""
        with contextlib.suppress(KeyboardInterrupt), contextlib.closing(self._socket):
            self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Release the port."""
        self._socket.close()

    def stop(self) -> None:
        """End `run`, from any thread."""
        self._server.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Already listening, so early connections wait.
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise InvalidInput(
            f"host and port must be an address of this machine that is free, got {host} and {port}: {error}"
        ) from error
