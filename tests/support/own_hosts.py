"""Agents as processes, each with a folder of its own, as on its own host: it learns of the others from the first
roster, and then from its neighbors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.agents.config.settings import Neighbor, Tls
from gossamer.agents.config.tables import ObservationsTable, RoundsTable
from gossamer.agents.host.options import Options
from gossamer.agents.membership import changes as membership
from gossamer.agents.membership import roster
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.transports.calling import ask
from gossamer.faults import Loss
from gossamer.networks import Network
from tests.support.reading import parse_source
from tests.support.small_fleets import free_ports

DIMENSION = 20
PACE = "25ms"
STD = 3.0


class Hosts:
    """The operator's folder, and one folder per agent with the files that belong on its host.

    Without `means` every agent sees a noisy vector, and a fifth of all messages are lost; with them, constants.
    """

    def __init__(self, folder: Path, network: Network, means: dict[str, float] | None = None) -> None:
        self.folder = folder
        self.loss = None if means else Loss(0.2)
        ports = free_ports(network.agents)
        made = Fleet.create(
            network,
            endpoints=[f"127.0.0.1:{port}" for port in ports],
            names=list(means) if means else None,
            sources=[constant(m) for m in means.values()] if means else list(map(source, range(len(ports)))),
            observations=ObservationsTable(dimension=1 if means else DIMENSION),
            rounds=RoundsTable(every=PACE, timeout="200ms", death="3s"),
        )
        self.file = made.write(folder / "operator")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for member in made.agents:
            self.copy(member.name)

    @property
    def fleet(self) -> Fleet:
        return Fleet.read(self.file)

    def copy(self, name: str) -> None:
        """Copy the files that a host needs to it."""
        here, there = self.file.parent, self.folder / name
        (there / "certificates").mkdir(parents=True, exist_ok=True)
        for file in ("fleet.toml", "fleet.roster", "certificates/ca.pem", *self.own(name)):
            shutil.copy2(here / file, there / file)

    def own(self, name: str) -> list[str]:
        return [f"certificates/{name}.pem", f"certificates/{name}.key"]

    def start(self, name: str) -> None:
        there = self.folder / name
        options = Options(
            fleet=str(there / "fleet.toml"),
            agent=name,
            store=str(there / "store"),
            logs=str(there),
            faults=(str(self.loss),) if self.loss else (),
        )
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", "gossamer.agents.host.process", options.text()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def change(self, changed: Fleet, to: str) -> str:
        """Publish a draft, and give its roster to one agent."""
        membership.publish(self.file, changed)
        return self.push(roster.roster_path(self.file).read_bytes(), to)

    def push(self, signed: bytes, to: str, by: Tls | None = None) -> str:
        return self.ask(to, signed, by).decode()

    def ask(self, to: str, question: bytes = b"", by: Tls | None = None) -> bytes:
        fleet = self.fleet
        member = fleet.member(to)
        contact = Neighbor(member.id, endpoint=member.endpoint, name=member.certified)
        files = by or membership.operator_files(self.file, fleet)
        return ask(files, fleet.fleet, contact, question, timeout=60.0)

    def status(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / name / "status" / f"{name}.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def all_at(self, epoch: int, names: Sequence[str]) -> bool:
        return all(self.status(name).get("epoch") == epoch for name in names)

    def log(self, name: str) -> str:
        return (self.folder / name / f"{name}.log").read_text()


def constant(mean: float) -> str:
    return f"sim:{mean},0,0"


def source(i: int) -> str:
    return f"sim:{10 + i},{STD},5"


def seen_by(agent: int, samples: int) -> np.ndarray:
    """The mean of an agent's first observations."""
    stream = iter(parse_source(source(agent), DIMENSION, agent))  # type: ignore[arg-type]
    return np.mean([next(stream) for _ in range(samples)], axis=0)
