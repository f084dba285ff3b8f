"""A new fleet from a network: where its agents run, what they observe, and what they are called."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gossamer.agents.config.settings import LARGEST
from gossamer.agents.config.tables import (
    MethodTable,
    ModelTable,
    ObservationsTable,
    PrivacyTable,
    RoundsTable,
)
from gossamer.agents.config.urls import Place, Url
from gossamer.agents.membership.fleet import Fleet, simulated_sources
from gossamer.agents.membership.hosts import (
    PORT,
    Hosts,
    labels_are_addresses,
    names_and_endpoints,
    numbered,
    placed,
    with_metrics,
)
from gossamer.agents.sources.csv_files import CsvFile, open_csv
from gossamer.arrays import Floats
from gossamer.errors import GossamerError, InvalidInput, OutputError
from gossamer.methods.method import Method

if TYPE_CHECKING:
    from gossamer.networks import Network

_FILES, _ROWS = 20, 100
"""How many sources, and how many rows of each, are looked at to suggest a range."""


@dataclass(frozen=True, kw_only=True)
class FleetPlan:
    """What is decided about a fleet before it is made.

    network       who talks to whom
    by_number     the agents are only numbered; otherwise the network's labels are their names, or their addresses
    hosts         name, number and host:port of each agent; None: all run on this machine, or labels are addresses
    port          the first port of a fleet on this machine; None: PORT
    metrics_port  each agent serves its metrics on its host, from this port on; 0: none do
    source        where all agents' observations come from; None: a file of the agent's name for a model, otherwise a
                  simulated sensor on this machine, and standard input elsewhere
    seed          of simulated sensors
    method_file   the file of a method of the user's own
    """

    network: Network
    by_number: bool = True
    hosts: Hosts | None = None
    port: int | None = None
    metrics_port: int = 0
    source: str | None = None
    seed: int = 0
    method_file: Path | None = None

    @cached_property
    def local(self) -> bool:
        """Whether all agents run on this machine."""
        return self.hosts is None and (self.by_number or not labels_are_addresses(self.network))

    @property
    def ports(self) -> range:
        """The ports of a fleet on this machine."""
        agents, first = self.network.agents, PORT if self.port is None else self.port
        last = 65536 - agents
        if not 1 <= first <= last:
            raise InvalidInput(
                f"is the first of {agents} ports in a row, so it must be from 1 to {last}, got {first}",
                parameter="port",
            )
        return range(first, first + agents)

    def places(self) -> tuple[list[str], list[str]]:
        """The names and the endpoints of the agents."""
        if self.local:
            names = [f"agent{i}" for i in range(self.network.agents)]
            return names, [f"127.0.0.1:{port}" for port in self.ports]
        if self.port is not None:
            raise InvalidInput(
                "has no effect where agents have addresses of their own; leave it out", parameter="port"
            )
        if self.by_number and self.hosts is not None:
            return placed(self.network, self.hosts.endpoints)
        return names_and_endpoints(self.network, self.hosts and self.hosts.endpoints)

    def sources(self, names: Sequence[str], model: ModelTable) -> list[str]:
        """Where the observations of each agent come from."""
        if self.source is not None:
            return [self.source] * len(names)
        if model.family:
            return [f"csv:{name}.csv,target=label" for name in names]
        return simulated_sources(len(names), self.seed) if self.local else ["-"] * len(names)

    def fleet(
        self,
        name: str = "gossamer",
        *,
        method: Method | MethodTable | None = None,
        observations: ObservationsTable | None = None,
        rounds: RoundsTable | None = None,
        model: ModelTable | None = None,
        privacy: PrivacyTable | None = None,
    ) -> Fleet:
        """The fleet; its agents have the numbers of `hosts`."""
        names, endpoints = self.places()
        model = model or ModelTable()
        made = Fleet.create(
            self.network,
            names=names,
            endpoints=endpoints,
            sources=self.sources(names, model),
            fleet=name,
            method=method,
            directory=self.method_file and self.method_file.parent,
            observations=observations or ObservationsTable(),
            rounds=rounds or RoundsTable(),
            model=model,
            privacy=privacy or PrivacyTable(),
        )
        if self.hosts is not None:
            made = numbered(made, self.hosts.ids)
        return made.with_(agents=with_metrics(made.agents, self.metrics_port)) if self.metrics_port else made

    @staticmethod
    def lacks_range(fleet: Fleet) -> bool:
        """Whether this fleet should have a range and has none; one that is simulated or learns no mean needs none."""
        simulated = all(member.source.startswith("sim:") for member in fleet.agents)
        return not (fleet.observations.range or fleet.model.family or fleet.values.features or simulated)

    def write(self, fleet: Fleet, directory: Path) -> Path:
        """Write the fleet with the file of its method next to it, where every agent looks for it; return fleet.toml."""
        path = fleet.write(directory)
        source = self.method_file
        target = directory / source.name if source else path
        if source is not None and not (target.exists() and target.samefile(source)):
            try:
                shutil.copyfile(source, target)
            except OSError as error:
                raise OutputError(f"cannot write {target}: {error.strerror}") from error
        return path


def exposures(fleet: Fleet) -> list[str]:
    """What the network of a fleet with masks cannot hide; empty for a fleet without masks."""
    if not fleet.privacy.mask:
        return []
    neighbors = {agent.id: set(fleet.weights[agent.id]) for agent in fleet.agents}
    names = {agent.id: agent.name for agent in fleet.agents}
    leaves = [names[i] for i, others in neighbors.items() if len(others) == 1]
    closed = [
        names[i]
        for i, others in neighbors.items()
        if len(others) > 1 and all(others <= neighbors[j] | {j} for j in others)
    ]
    texts = []
    if leaves:
        which, whose = ("has", "it") if len(leaves) == 1 else ("have", "each")
        texts.append(
            f"{_listed(leaves)} {which} one neighbor only, from which masks hide nothing: {whose} needs another edge"
        )
    if closed:
        texts.append(
            f"all neighbors of {_listed(closed)} know each other; together they can read what masks hide from each "
            "of them"
        )
    return texts


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:4])} and {len(names) - 4} others"


def first_rows(fleet: Fleet) -> Floats:
    """The first rows of the first sources of a fleet that are files, shape (rows, dimension)."""
    rows: list[Floats] = []
    sources, dimension = [member.source for member in fleet.agents], fleet.observations.dimension
    for source in dict.fromkeys(s for s in sources[:_FILES] if s.startswith("csv:")):
        with contextlib.suppress(GossamerError, OSError):
            reader = open_csv(Url(source.replace(",follow", "")), Place(dimension))
            reader.begin(0, LARGEST)
            assert isinstance(reader, CsvFile)
            rows.extend(row for row in itertools.islice(reader.rounds(), _ROWS) if row is not None)
    return np.array(rows).reshape(-1, dimension)
