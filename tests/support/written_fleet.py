"""A fleet on paper: status files of agents that do not run, for tests and pictures."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.agents.files import replace
from gossamer.agents.host.status import STATUS
from gossamer.agents.membership.fleet import Fleet
from gossamer.networks import Network


class WrittenFleet:
    """A fleet whose status files are written here, as if it had run for some rounds at ten a second.

    Estimates come together like 1/t, standard errors fall like 1/sqrt(t). `changes` of an agent replace what its file
    would say; an agent in `missing` has none.
    """

    def __init__(self, directory: Path, network: Network, **parts: Any) -> None:
        self.fleet = Fleet.create(network, **parts)
        self.path = self.fleet.write(directory)
        self.directory = directory
        self.rounds = self.more_lost = 0
        self.changes: dict[str, dict[str, Any]] = {}
        self.missing: set[str] = set()
        self._random = np.random.default_rng(7)
        (directory / STATUS).mkdir()

    def file(self, name: str) -> Path:
        return self.directory / STATUS / f"{name}.json"

    def play(self, rounds: int, at: float | None = None) -> None:
        """Let rounds pass, and write the status files that the agents would then have."""
        self.rounds += rounds
        fleet, at = self.fleet, time.time() if at is None else at
        names = {member.id: member.name for member in fleet.agents}
        for k, member in enumerate(fleet.agents):
            file = self.file(member.name)
            if member.name in self.missing:
                file.unlink(missing_ok=True)
                continue
            neighbors = {names[j]: self.neighbor() for j in fleet.weights[member.id]}
            line = self.line(member.id, member.name, k, at, neighbors) | self.changes.get(member.name, {})
            replace(file, json.dumps(line))

    def neighbor(self) -> dict[str, Any]:
        known = {"state": "alive", "distance": 0.01, "round_trip": 0.001, "late": 0, "epoch": 1}
        return known | {"lost": 2 + self.more_lost, "last_heard": 0.05}

    def line(self, id: int, name: str, k: int, at: float, neighbors: dict[str, Any]) -> dict[str, Any]:
        t = max(self.rounds, 1)
        start = 10 * (k * 0.618 % 1) - 5
        error = 1 / np.sqrt(t * 9)
        return {
            "time": "2026-01-01T00:00:00.000+00:00",
            "agent": id,
            "name": name,
            "round": self.rounds,
            "samples": self.rounds,
            "estimate": 5.0 + start / t + 0.3 * error * float(self._random.normal()),
            "standard_error": error,
            "distance": abs(start) / t,
            "neighbors_alive": sum(n["state"] == "alive" for n in neighbors.values()),
            "state": "running",
            "settled": True,
            "participating": len(neighbors) + 1,
            "at": at,
            "epoch": 1,
            "members": 0,
            "certificate_expires": None,
            "rounds": self.rounds,
            "acknowledged": self.rounds,
            "presence": 1.0,
            "problem": "",
            "sent": self.rounds * len(neighbors),
            "received": self.rounds * len(neighbors),
            "rejected": {"late": self.rounds // 10},
            "lost": sum(n["lost"] for n in neighbors.values()),
            "neighbors": neighbors,
            "pid": os.getpid(),
            "restarts": 0,
            "version": "0",
            "every": 60.0,  # seconds, so that a slow test does not find it silent
        }


@contextmanager
def playing(written: WrittenFleet) -> Iterator[None]:
    """A fleet whose files change all the time."""
    over = threading.Event()

    def play() -> None:
        while not over.wait(0.05):
            written.play(1)

    written.play(1)
    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
