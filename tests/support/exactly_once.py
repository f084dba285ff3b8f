"""Readings through kills of an agent and restarts of its broker: how many are counted, and with which sum.

Run as a script it is the agent: it reads from the broker whose address it is given until its standard input is closed,
and writes a JSON line with what its store holds every few milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

_AHEAD = 400
"""Readings that are published before the agent has stored the ones before them."""


class _Agent:
    """The agent as a process."""

    def __init__(self, address: str, store: Path) -> None:
        self.last: dict[str, Any] = {"samples": 0, "stored": 0}
        self._process = subprocess.Popen(
            [sys.executable, __file__, address, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self.last = json.loads(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def run(broker: Any, folder: Path, readings: int, kills: int, restarts: int, seed: int = 0) -> dict[str, Any]:
    """Publish `readings` at QoS 1 meanwhile, at random moments; return the agent's last report.

    The values repeat often, so that equal readings must not be taken for one. The sensor waits for the broker before
    a restart: what it publishes twice is two messages.
    """
    from tests.support.mosquitto import Client
    from tests.support.waiting import until

    random = np.random.default_rng(seed)
    address = broker.address("readings?field=v&client_id=exactly-once&session=1h")
    events = [*["kill"] * kills, *["restart"] * restarts]
    random.shuffle(events)
    at = np.sort(random.integers(1, readings, len(events))).tolist()
    store = folder / "agent.sqlite"
    agent = _Agent(address, store)
    until(lambda: agent.last.get("subscribed"), "a subscription")
    sent, total, client = 0, 0, Client(broker.port)
    started = time.monotonic()
    for event, moment in [*zip(events, at, strict=True), ("end", readings)]:
        for k in range(sent, moment):
            total += k % 7
            client.publish("readings", json.dumps({"v": k % 7}))
        sent = moment
        client.wait()
        until(lambda: agent.last["stored"] >= sent - _AHEAD, "an agent that keeps up")  # noqa: B023
        time.sleep(random.uniform(0, 0.05))  # a random moment: before, during or after a commit
        if event == "kill":
            agent.kill()
            agent = _Agent(address, store)
        elif event == "restart":
            client.__exit__()
            broker.stop()
            broker.start()
            client = Client(broker.port)
    until(lambda: agent.last["stored"] >= readings, "all readings")
    seconds = time.monotonic() - started
    client.publish("readings", json.dumps({"v": 0}))  # everything that is delivered again arrives before this
    client.__exit__()
    until(lambda: agent.last["stored"] >= readings + 1, "the last reading")
    last = agent.last
    agent.kill()
    return {
        "readings": readings,
        "counted": last["stored"] - 1,
        "sum": round(last["mean"][1] / last["mean"][0] * last["samples"], 6),
        "right": total,
        "kills": kills,
        "restarts": restarts,
        "seconds": seconds,
    }


async def _live(address: str, store: str) -> None:
    import gossamer as gs
    from gossamer.agents.config.urls import Place
    from gossamer.agents.sources.opening import open_source

    settings = gs.AgentSettings(0, (), method=gs.AnytimeSDA("local"), pace=0.01, commit=0.01, replicates=0)
    source = open_source(address, Place())
    memory = gs.agents.Memory().transport(0, ())
    async with gs.Agent(settings, transport=memory, source=source, store=store) as agent:  # type: ignore[arg-type]
        async for now in agent.snapshots(0.01):
            line = {
                "samples": now.samples,
                "stored": now.acknowledged,
                "mean": agent._ledger.mean.tolist(),
                "subscribed": not source.failing,
            }
            print(json.dumps(line), flush=True)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(_live(*sys.argv[1:]))
