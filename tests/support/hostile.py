"""A crowd of strangers at one port: COUNT connections kept open, each opened again as soon as it is refused.

    python hostile.py KIND COUNT HOST PORT [CERTIFICATE KEY [GREETING]]

KIND: "garbage" sends bytes that are not TLS, "idle" sends nothing, "stalled" begins a TLS handshake and leaves it
there, "none" shakes hands without a certificate, "other" with the given one, which is of another authority. A "member"
has a certificate of the fleet and sends the greeting, and then garbage. A line is written when each of them has been
open once.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress

GARBAGE = b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n" * 4
FAILURES = (OSError, asyncio.IncompleteReadError, TimeoutError)


def client_context(certificate: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(*certificate[:2])
    return context


def client_hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


async def knock(
    kind: str, host: str, port: int, context: ssl.SSLContext, greeting: str, there: Callable[[], None]
) -> None:
    """Keep one connection until the other end closes it."""
    tls = context if kind in ("none", "other", "member") else None
    reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port, ssl=tls), 60)
    there()
    try:
        if kind == "garbage":
            writer.write(GARBAGE)
        elif kind == "stalled":
            writer.write(client_hello(context))
        elif kind == "member":
            writer.write(f"{greeting}\n".encode() + GARBAGE)
        while await reader.read(4096):
            pass
    finally:
        writer.transport.abort()


async def keep_knocking(
    kind: str, host: str, port: int, context: ssl.SSLContext, greeting: str, there: Callable[[], None]
) -> None:
    while True:
        with suppress(*FAILURES):
            await knock(kind, host, port, context, greeting, there)
        await asyncio.sleep(0.01)


async def main() -> None:
    kind, count, host, port, *certificate = sys.argv[1:]
    context, greeting = client_context(certificate), "".join(certificate[2:])
    arrived: set[asyncio.Task[None] | None] = set()

    def there() -> None:
        if len(arrived) < int(count):
            arrived.add(asyncio.current_task())
            if len(arrived) == int(count):
                print("all are there", flush=True)

    strangers = [
        asyncio.create_task(keep_knocking(kind, host, int(port), context, greeting, there))
        for _ in range(int(count))
    ]
    await asyncio.to_thread(sys.stdin.read)
    for stranger in strangers:
        stranger.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
