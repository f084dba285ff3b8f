"""A slow network on this machine: a relay that passes bytes on after a delay."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def slow_link(listen: int, target: int, delay: tuple[float, float], seed: int = 0) -> Iterator[None]:
    """Relay connections to port `listen` to port `target`; what is sent arrives after delay[0] to delay[1] seconds."""
    loop, chance = asyncio.new_event_loop(), random.Random(seed)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        due = 0.0
        with suppress(ConnectionError):
            while piece := await reader.read(1 << 16):
                due = max(due, loop.time() + chance.uniform(*delay))  # in order, as TCP delivers
                loop.call_at(due, writer.write, piece)
        await asyncio.sleep(due - loop.time())
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except ConnectionError:
            writer.close()
            return
        try:
            await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))
        finally:
            for end in (writer, far_writer):
                end.transport.abort()

    async def serve() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", listen)
        ready.set()
        async with server:
            await ended.wait()
            relays = asyncio.all_tasks() - {asyncio.current_task()}
            for relay in relays:
                relay.cancel()
            await asyncio.gather(*relays, return_exceptions=True)
        await asyncio.sleep(0)  # aborted transports close their sockets in the loop's next turn

    ended, ready = asyncio.Event(), threading.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(30)
        loop.close()
