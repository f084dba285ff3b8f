"""Rounds per second of agents in one process, by direct TLS connections, through an MQTT broker and
through a Zenoh router; and processor time, which a loaded machine does not change much: of the process of the
agents per agent and round, and of the broker or router per message.

python -m benchmarks.relay [AGENTS ...]
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.support.mosquitto import Mosquitto
from tests.support.small_fleets import fleet, hidden, make_certificates
from tests.support.zenoh_router import ZenohRouter

import gossamer as gs

SECONDS = 5.0


def processor_seconds(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(settings: list[gs.AgentSettings], broker: int | None = None) -> dict[str, float]:
    """Rounds per second, milliseconds per agent and round, and microseconds of the process `broker` per message."""
    agents = [gs.Agent(s, source=[float(s.id)]) for s in settings]
    for agent in agents:
        await agent.__aenter__()
    while any(n.state != "alive" for agent in agents for n in agent.snapshot.neighbors):
        await asyncio.sleep(0.05)
    before, started = [agent.snapshot.age for agent in agents], time.monotonic()
    sent, used = sum(agent._conversation.sent for agent in agents), time.process_time()
    carried = processor_seconds(broker) if broker else 0.0
    await asyncio.sleep(SECONDS)
    seconds, used = time.monotonic() - started, time.process_time() - used
    rounds = [agent.snapshot.age - age for agent, age in zip(agents, before, strict=True)]
    sent = sum(agent._conversation.sent for agent in agents) - sent
    carried = processor_seconds(broker) - carried if broker else 0.0
    for agent in agents:
        await agent.__aexit__(None, None, None)
    result = {"rounds/s": sum(rounds) / len(rounds) / seconds, "ms per round": 1e3 * used / sum(rounds)}
    if broker:
        result["broker us per message"] = 1e6 * carried / sent
    return {name: round(value, 3) for name, value in result.items()}


def main(*sizes: int) -> None:
    for n in sizes or (2, 10, 50):
        with tempfile.TemporaryDirectory() as folder:
            certificates = make_certificates(Path(folder) / "ca", n)
            network = gs.Network.path(2) if n == 2 else gs.Network.cycle(n)
            direct = fleet(network, certificates=certificates, timeout=2.0)
            found = {"direct": asyncio.run(measure(direct))}
            for middle in (Mosquitto, ZenohRouter):
                broker = middle(Path(folder))
                try:
                    relayed = hidden(direct, range(n), broker.address("bench"))
                    assert broker._process is not None
                    found[middle.__name__] = asyncio.run(measure(relayed, broker._process.pid))
                finally:
                    broker.stop()
            print(json.dumps({"agents": n, **found}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
