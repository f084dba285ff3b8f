"""One agent as a process of its own, for the tests of real faults, and the handle through which a test controls it.

Run as a script it reads one JSON object from standard input: the settings, where observations come from and
which faults to inject. It then writes a JSON line with its snapshot every 20 ms, and obeys commands, one per
line: {"cut": [ids]}, after which it sends these neighbors nothing, and {"go": true} (see `observations`).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


class Handle:
    """A running agent process. It is signaled by its own process id only."""

    def __init__(self, settings: Any, **options: Any) -> None:
        self.id = settings.id
        self.last: dict[str, Any] = {}
        self.at: dict[int, float] = {}  # age -> estimate, for the ages in options["record"]
        self._process = subprocess.Popen(
            [sys.executable, "-u", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.send({"settings": pickle.dumps(settings).hex(), **options})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # a killed process may leave half a line
                self.last = json.loads(line)
                self.at = {int(age): estimate for age, estimate in self.last["at"].items()}

    def send(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def give(self, number: int) -> None:
        os.kill(self.pid, number)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def estimate(self) -> float:
        return float(self.last.get("estimate", np.nan))

    def end(self, number: int = signal.SIGKILL) -> int:
        """Kill the process, and return its exit code once it has ended."""
        if self.running:
            self.give(signal.SIGCONT)
            self.give(number)
        code = self._process.wait(timeout=60)
        self._reader.join(timeout=60)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return code


class Cut:
    """Links that a command cuts; on the others the fault model decides in which rounds a message is lost."""

    def __init__(self, lost: dict[str, list[int]]) -> None:
        self.cut: frozenset[int] = frozenset()
        self._lost = {int(receiver): frozenset(rounds) for receiver, rounds in lost.items()}

    def lost(self, round: int, sender: int, receiver: int) -> bool:
        return receiver in self.cut or round in self._lost.get(receiver, ())

    def delay(self, round: int, sender: int, receiver: int) -> int:
        return 0


def observations(options: dict[str, Any], go: threading.Event) -> Iterator[float]:
    """One a round: `mean` plus Gaussian noise of `std` from `seed`, `count` of them (None: for ever).

    Each takes `slow` seconds, in which the agent does nothing else: a slow machine. With `wait` the first one,
    and with it the first round, waits for the command {"go": true}.
    """
    if options.get("wait"):
        go.wait()
    rng = np.random.default_rng(options.get("seed", 0))
    count = options.get("count")
    for _ in itertools.count() if count is None else range(count):
        time.sleep(options.get("slow", 0.0))
        yield float(options["mean"] + options.get("std", 0.0) * rng.standard_normal())


async def main() -> None:
    from gossamer.agents.agent import Agent
    from gossamer.agents.transports.faulty import Faulty
    from gossamer.agents.transports.tls import TlsTransport

    warnings.simplefilter("ignore")
    options = json.loads(sys.stdin.readline())
    settings = pickle.loads(bytes.fromhex(options["settings"]))
    cut, go = Cut(options.get("lost", {})), threading.Event()

    def obey() -> None:
        for line in sys.stdin:
            command = json.loads(line)
            cut.cut = frozenset(command.get("cut", ()))
            if "go" in command:
                go.set()

    threading.Thread(target=obey, daemon=True).start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    record = set(options.get("record", ()))
    transport = Faulty(TlsTransport(settings), settings.id, cut)
    agent = Agent(settings, transport=transport, source=observations(options, go), seed=settings.id)
    at: dict[int, float] = {}

    def note(snapshot: Any) -> None:
        if snapshot.age in record:
            at[snapshot.age] = float(snapshot.estimate[0])

    if record:
        agent.subscribe(note)
    async with agent:
        while not stop.is_set():
            s = agent.snapshot
            line = {
                "estimate": float(s.estimate[0]),
                "round": s.round,
                "age": s.age,
                "samples": s.samples,
                "acknowledged": s.acknowledged,
                "state": s.state,
                "problem": s.problem,
                "rejected": dict(s.rejected),
                "neighbors": {n.id: n.state for n in s.neighbors},
                "connected": sum(n.connected for n in s.neighbors),
                "at": dict(at),
            }
            print(json.dumps(line))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 0.02)


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))
    asyncio.run(main())
