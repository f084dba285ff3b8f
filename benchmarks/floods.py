"""What a flooding member costs its neighbor: rounds and processor time, with and without the flood.

python -m benchmarks.floods [SECONDS]

A path of three agents, each in a process of its own, over TLS: agent 0 and agent 1 average, and agent 2, a neighbor of
agent 1, floods it with its own certificate. The table has the rounds of agent 1 relative to those without a flood, and
the share of a core that its process takes.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import multiprocessing
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.small_fleets import fleet, make_certificates, member

import gossamer as gs
from gossamer.agents.round.wire import roster_payload

NEIGHBOR = b"gossamer 1 gossamer 2\n"
ASKS = b"gossamer 1 gossamer asks\n"


def framed(payload: bytes) -> bytes:
    return struct.pack("<I", len(payload)) + payload


def sent(payloads: Callable[[int], bytes]) -> Callable[..., None]:
    """A flood over one connection at a time, which is opened again when it is closed."""

    def flood(me: gs.AgentSettings, victim: gs.AgentSettings) -> None:
        numbers = itertools.count()
        while True:
            with suppress(OSError), member(me, victim, NEIGHBOR) as connection:
                while True:
                    connection.sendall(b"".join(framed(payloads(next(numbers))) for _ in range(100)))
            time.sleep(0.001)

    return flood


def connects(say: Callable[[int], bytes]) -> Callable[..., None]:
    """A flood of connections, each with a greeting of its own."""

    def flood(me: gs.AgentSettings, victim: gs.AgentSettings) -> None:
        assert me.tls is not None
        context = ssl.create_default_context(cafile=me.tls.authority)
        context.load_cert_chain(me.tls.certificate, me.tls.key)
        host, _, port = victim.endpoint.partition(":")
        for k in itertools.count():
            with suppress(OSError):
                made = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
                made.settimeout(1.0)
                made.sendall(say(k))
                made.recv(100)
                made.close()

    return flood


FLOODS: dict[str, Callable[..., None] | None] = {
    "none": None,
    "garbage": sent(lambda k: b"garbage %d" % k),
    "messages of another version": sent(lambda k: b"Gs\x63"),
    "fake rosters": sent(lambda k: roster_payload(b"gossamer roster 1\n" + bytes(1000) + b"%d" % k)),
    "greetings": connects(lambda k: b"gossamer 1 gossamer x%d\n" % k),
    "connections": connects(lambda k: NEIGHBOR),
    "questions": connects(lambda k: ASKS + framed(b"roster %d" % k)),
}


def live(settings: gs.AgentSettings, results: Any, seconds: float) -> None:
    """An agent's process: its rounds and its processor time in the given seconds, once its neighbor is alive."""
    logging.disable()

    async def run() -> None:
        async with gs.Agent(settings, source=[float(settings.id)]) as agent:
            while agent.snapshot.neighbors[0].state != "alive":
                await asyncio.sleep(0.05)
            await asyncio.sleep(2.0)
            age, processor = agent.snapshot.age, time.process_time()
            began = time.monotonic()
            await asyncio.sleep(seconds)
            took = time.monotonic() - began
            results.put(
                (settings.id, (agent.snapshot.age - age) / took, (time.process_time() - processor) / took)
            )
            await asyncio.sleep(0.5)

    asyncio.run(run())


def measure(
    folder: Path, pace: float | None, flood: Callable[..., None] | None, seconds: float
) -> Iterator[tuple[int, float, float]]:
    context = multiprocessing.get_context("fork")
    settings = fleet(gs.Network.path(3), certificates=folder, pace=pace, timeout=0.2)
    results: Any = context.Queue()
    agents = [context.Process(target=live, args=(settings[i], results, seconds)) for i in (0, 1)]
    floods = [context.Process(target=flood, args=(settings[2], settings[1]), daemon=True)] if flood else []
    for process in (*agents, *floods):
        process.start()
    yield from sorted(results.get(timeout=seconds + 60) for _ in agents)
    for process in agents:
        process.join()
    for process in floods:
        process.kill()
        process.join()


def main(seconds: float = 10.0) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = make_certificates(Path(temporary), 3)
        for pace in (0.1, 0.01):
            before = 0.0
            for name, flood in FLOODS.items():
                _, (_, rounds, share) = measure(folder, pace, flood, seconds)
                before = before or rounds
                print(
                    f"| {'none' if pace is None else f'{1000 * pace:.0f} ms'} | {name} | {rounds:.1f} | "
                    f"{rounds / before:.2f} | {share:.3f} | {share / rounds * 1000:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
