"""Rounds per second of agents in one process, by direct TLS connections, through an MQTT broker and
through a Zenoh router.

python -m benchmarks.relay [AGENTS ...]
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.support.mosquitto import Mosquitto
from tests.support.small_fleets import fleet, hidden, make_certificates
from tests.support.zenoh_router import ZenohRouter

import gossamer as gs

SECONDS = 5.0


async def rounds_per_second(settings: list[gs.AgentSettings]) -> float:
    agents = [gs.Agent(s, source=[float(s.id)]) for s in settings]
    for agent in agents:
        await agent.__aenter__()
    while any(n.state != "alive" for agent in agents for n in agent.snapshot.neighbors):
        await asyncio.sleep(0.05)
    before, started = [agent.snapshot.age for agent in agents], time.monotonic()
    await asyncio.sleep(SECONDS)
    seconds = time.monotonic() - started
    rounds = [agent.snapshot.age - age for agent, age in zip(agents, before, strict=True)]
    for agent in agents:
        await agent.__aexit__(None, None, None)
    return sum(rounds) / len(rounds) / seconds


def main(*sizes: int) -> None:
    for n in sizes or (2, 10, 50):
        with tempfile.TemporaryDirectory() as folder:
            certificates = make_certificates(Path(folder) / "ca", n)
            network = gs.Network.path(2) if n == 2 else gs.Network.cycle(n)
            direct = fleet(network, certificates=certificates, timeout=2.0)
            rates = {"direct": asyncio.run(rounds_per_second(direct))}
            for middle in (Mosquitto, ZenohRouter):
                broker = middle(Path(folder))
                try:
                    relayed = hidden(direct, range(n), broker.address("bench"))
                    rates[middle.__name__] = asyncio.run(rounds_per_second(relayed))
                finally:
                    broker.stop()
            print(
                json.dumps({"agents": n, **{name: round(rate, 1) for name, rate in rates.items()}}),
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
