"""The fleet's file: who the agents are, who talks to whom, and the numbers that all of them must share.

`Fleet.create` makes a fleet from a network, `write` writes it as a commented fleet.toml with a certificate
for each agent, `Fleet.read` reads it back and checks every field, and `settings` gives one agent its part.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.agents.bounds import Bounds
from gossamer.agents.fleet.certificates import Authority, check_name, check_private
from gossamer.agents.fleet.hosts import PORT
from gossamer.agents.fleet.tables import (
    Member,
    MethodTable,
    ObservationsTable,
    RoundsTable,
    WireTable,
    duration,
)
from gossamer.agents.fleet.template import fleet_text
from gossamer.agents.host.sources import parse_source
from gossamer.agents.round.wire import Codec
from gossamer.agents.settings import AgentSettings, Limits, Neighbor, Tls, check_endpoint
from gossamer.agents.statistics import Layout
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, InvalidNetwork, OutputError, Unsupported, require
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.base import KnownFacts, Method
from gossamer.methods.ledger import ledger_program

if TYPE_CHECKING:
    import msgspec

    from gossamer.networks import Network
else:
    msgspec = require("msgspec", "agents")

FORMAT = 1

_PLACES = (
    {
        field: f"{table}.{field}"
        for table, fields in {
            "method": ("step_size", "momentum", "smoothing", "gain"),
            "observations": ("dimension", "weighting", "variance", "bins", "replicates", "range", "outside"),
            "rounds": ("timeout", "silence", "death", "commit"),
        }.items()
        for field in fields
    }
    | {"pace": "rounds.every"}
    | {f"limits.{field}": f"wire.{field}" for field in ("message_bytes", "rounds_ahead")}
)
"""Where fleet.toml holds the fields of `AgentSettings` and of Anytime SDA."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A whole fleet, as in fleet.toml.

    Relative paths (of the certificates, and of a method of your own) are relative to the `directory` of the file.
    """

    format: int = FORMAT
    fleet: str = "gossamer"
    network: str = ""
    certificates: str = "certificates"
    method: MethodTable = MethodTable()
    observations: ObservationsTable = ObservationsTable()
    rounds: RoundsTable = RoundsTable()
    wire: WireTable = WireTable()
    agents: list[Member]
    edges: list[tuple[int, int, float]]

    # -- making ------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        network: Network,
        *,
        names: Sequence[str] | None = None,
        endpoints: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        fleet: str = "gossamer",
        method: Method | MethodTable | None = None,
        directory: Path | None = None,
        **parts: Any,
    ) -> Fleet:
        """Make a fleet on `network`; by default all its agents are on this machine and simulate a sensor.

        `method` is Anytime SDA unless given, with parameters from the network's spectrum; the file of a method of
        your own is looked for in `directory`. `parts` are the tables observations, rounds and wire, where they
        should differ from the defaults.
        """
        n = network.agents
        names = [f"agent{i}" for i in range(n)] if names is None else names
        endpoints = [f"127.0.0.1:{PORT + i}" for i in range(n)] if endpoints is None else endpoints
        sources = simulated_sources(n) if sources is None else sources
        if not isinstance(method, MethodTable):
            method = MethodTable.of(method or AnytimeSDA(), network)
        gossip = network.gossip
        made = cls(
            fleet=fleet,
            network=network.name,
            method=method,
            agents=[
                Member(id=i, name=name, endpoint=endpoint, source=source)
                for i, (name, endpoint, source) in enumerate(zip(names, endpoints, sources, strict=True))
            ],
            edges=[(i, j, -float(gossip[i, j])) for i, j in network.edges.tolist()],
            **parts,
        )
        made.check(directory)
        return made

    def write(self, directory: Path, *, force: bool = False) -> Path:
        """Write fleet.toml, the authority and a certificate per agent into `directory`; return the file.

        With `force` an existing fleet.toml is replaced; its authority stays.
        """
        path = directory / "fleet.toml"
        if path.exists() and not force:
            raise InvalidInput(
                f"force must be set to replace {path}, which exists already; or choose another directory"
            )
        text = fleet_text(self)
        self.certify(directory)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error
        return path

    def certify(self, directory: Path) -> None:
        """Give every agent a new certificate, from the existing authority or from a new one."""
        where = directory / self.certificates
        known = (where / "ca.key").exists()
        authority = Authority.load(where) if known else Authority.create(where, self.fleet)
        for agent in self.agents:
            authority.issue(agent.name, [agent.endpoint.rpartition(":")[0].strip("[]")])

    # -- reading -----------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: Path) -> Fleet:
        """Read and check a fleet.toml; a mistake is reported with the field it is in."""
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(
                f"{path} cannot be read ({error.strerror}); run `gossamer fleet init` to make a fleet"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path} must be a valid TOML file: {error}") from None
        if found.get("format") != FORMAT:
            raise InvalidInput(f"{path}: format must be {FORMAT}, got {found.get('format')!r}")
        if isinstance(found.get("method"), dict):
            found["method"] = MethodTable.from_file(found["method"])
        try:
            fleet = msgspec.convert(found, cls)
        except msgspec.ValidationError as error:
            problem, _, place = str(error).partition(" - at ")
            field = place.strip("`").removeprefix("$").removeprefix(".") or "the file"
            raise InvalidInput(f"{path}: {field}: {_plain(problem)}") from None
        try:
            fleet.check(path.parent)
        except (InvalidInput, Unsupported) as error:
            raise InvalidInput(f"{path}: {error}") from None
        return fleet

    def check(self, directory: Path | None = None) -> None:
        """Raise for the first field that cannot be used."""
        ids = [agent.id for agent in self.agents]
        if ids != list(range(len(ids))):
            raise InvalidInput(f"agents: ids must be 0, 1, 2, ... in this order, got {_some(ids)}")
        if len(ids) < 2:
            raise InvalidInput(f"agents: a fleet must have at least 2 agents, got {len(ids)}")
        _distinct("agents: name", [agent.name for agent in self.agents])
        _distinct("agents: endpoint", [agent.endpoint for agent in self.agents])
        for agent in self.agents:
            try:
                check_name(agent.name)
            except InvalidInput as error:
                raise InvalidInput(f"agents[{agent.id}].name: {error}") from None
            check_endpoint(f"agents[{agent.id}].endpoint", agent.endpoint, tls=True)
        seen: set[tuple[int, int]] = set()
        for k, (i, j, weight) in enumerate(self.edges):
            pair = (min(i, j), max(i, j))
            if i == j or pair in seen or pair[0] < 0 or pair[1] >= len(ids):
                raise InvalidInput(
                    f"edges[{k}]: an edge must join two different agents from 0 to {len(ids) - 1}, once, "
                    f"got [{i}, {j}]"
                )
            seen.add(pair)
            if not 0 < weight < np.inf:
                raise InvalidInput(f"edges[{k}]: a weight must be a finite number above 0, got {weight!r}")
        self._check_connected()
        method = self.method.build(directory)
        for agent in self.agents:
            self._settings(agent, method)
            if not agent.source.startswith("csv:"):  # whose file need not be on this machine
                try:
                    parse_source(agent.source, self.observations.dimension, agent.id)
                except InvalidInput as error:
                    text = str(error)
                    text = text if text.startswith("source ") else f"source: {text}"
                    raise InvalidInput(f"agents[{agent.id}].{text}") from None
        self._check_method(method)

    def _check_connected(self) -> None:
        part = list(range(len(self.agents)))  # the smallest agent known to be connected to each

        def root(i: int) -> int:
            while part[i] != i:
                part[i] = i = part[part[i]]
            return i

        for i, j, _ in self.edges:
            a, b = root(i), root(j)
            part[max(a, b)] = min(a, b)
        sizes = np.unique([root(i) for i in range(len(part))], return_counts=True)[1]
        if len(sizes) > 1:
            raise InvalidNetwork(
                f"averaging needs a connected network, but this graph has {len(sizes)} components "
                f"(sizes {_some(sorted(sizes.tolist(), reverse=True))}); add an edge or use Network.components(graph)"
            )

    def _check_method(self, method: Method) -> None:
        """The method must run on edges, with messages of this size, and its step size must suit the edges."""
        program = ledger_program(method, self.facts)
        layout = Layout.of(self._settings(self.agents[0], method))
        Bounds.of(layout, program, len(self.agents))  # raises if the method's registers cannot be bounded
        needed = Codec(0, frozenset(), layout.size, len(program.edge), Limits()).longest
        if 0 < self.wire.message_bytes < needed:
            raise InvalidInput(
                f"wire.message_bytes must be at least {needed}, the length of this fleet's messages, or 0 for just "
                f"that, got {self.wire.message_bytes}"
            )
        step_size = getattr(method, "step_size", None)
        most = method.largest_step if isinstance(method, AnytimeSDA) else 1.0
        if step_size is not None and step_size > most * (1 + 1e-6) / self.facts.lambda_max:
            raise InvalidInput(
                f"method.step_size must be at most {most:g}/lambda_max = {most / self.facts.lambda_max:.6g} for these "
                f"edges, or the fleet diverges, got {step_size:.6g}; run `gossamer fleet init` again after changing "
                "edges"
            )

    @cached_property
    def facts(self) -> KnownFacts:
        """The spectrum of the fleet's edges, for what the method's parameters leave open."""
        return KnownFacts.of(np.asarray(np.linalg.eigvalsh(self.gossip()), dtype=np.float64))

    def gossip(self) -> Floats:
        """The gossip matrix L, dense."""
        matrix = np.zeros((len(self.agents), len(self.agents)))
        for i, j, weight in self.edges:
            matrix[i, j] = matrix[j, i] = -weight
        return matrix - np.diag(matrix.sum(axis=1))

    # -- one agent ---------------------------------------------------------------------------------

    def member(self, agent: int | str) -> Member:
        """The agent with this number or name; a text that could be either is a name."""
        named = [member for member in self.agents if member.name == agent]
        found = named or [member for member in self.agents if str(member.id) == str(agent)]
        if found:
            return found[0]
        raise InvalidInput(
            f"this fleet has the agents 0 to {len(self.agents) - 1} "
            f"({self.agents[0].name} to {self.agents[-1].name}), got {agent!r}"
        )

    def some(self, text: str) -> list[Member]:
        """The agents in "0-3,7" or "pump,valve": numbers, ranges of numbers, and names."""
        names = {member.name for member in self.agents}
        found: list[Member] = []
        for part in (part.strip() for part in text.split(",")):
            ends = None if part in names else re.fullmatch(r"(\d+)-(\d+)", part)
            if ends and int(ends[1]) > int(ends[2]):
                raise InvalidInput(
                    f"only must have ranges from the smaller number to the larger, got {part}; "
                    f"write {ends[2]}-{ends[1]}"
                )
            try:
                if ends:
                    self.member(ends[2])  # fails early for a range of millions
                    found += [self.member(str(k)) for k in range(int(ends[1]), int(ends[2]) + 1)]
                else:
                    found.append(self.member(part))
            except InvalidInput as error:
                raise InvalidInput(f"only must name agents such as 0-3,7: {error}") from None
        if len({member.id for member in found}) < len(found):
            raise InvalidInput(f"only must name each agent once, got {text!r}")
        return found

    def settings(
        self,
        agent: int | str,
        directory: Path | None = None,
        *,
        insecure: bool = False,
        every: float | None = None,
        store: Path | None = None,
    ) -> AgentSettings:
        """The settings of one agent; `every` and `insecure` override the file, `directory` is where the file is."""
        me = self.member(agent)
        made = self._settings(me, self.method.build(directory), every=every, store=store)
        return made if insecure else made.with_(tls=self.tls(me.id, directory or Path()))

    def _settings(
        self, me: Member, method: Method, *, every: float | None = None, store: Path | None = None
    ) -> AgentSettings:
        weights = {j if i == me.id else i: w for i, j, w in self.edges if me.id in (i, j)}
        seconds = duration("rounds.every", self.rounds.every) if every is None else every
        other = self.observations
        with _named_as_in_the_file():
            return AgentSettings(
                id=me.id,
                name=me.name,
                endpoint=me.endpoint,
                fleet=self.fleet,
                neighbors=tuple(
                    Neighbor(j, w, self.agents[j].endpoint, self.agents[j].name)
                    for j, w in sorted(weights.items())
                ),
                method=method,
                facts=self.facts,
                dimension=other.dimension,
                weighting=other.weighting,
                variance=other.variance,
                bins=other.bins,
                replicates=other.replicates,
                range=other.range,  # type: ignore[arg-type]  # the settings make pairs of it
                outside=other.outside,
                members=len(self.agents),
                pace=seconds or None,
                timeout=duration("rounds.timeout", self.rounds.timeout),
                silence=self.rounds.silence,
                death=duration("rounds.death", self.rounds.death),
                commit=duration("rounds.commit", self.rounds.commit),
                limits=Limits(self.wire.message_bytes, self.wire.rounds_ahead),
                store=store,
            )

    def tls(self, agent: int | str, directory: Path) -> Tls:
        """The files of an agent's certificate; only its owner may be able to read the key."""
        name = self.member(agent).name
        where = directory / self.certificates
        check_private(where / f"{name}.key")
        found = Tls(where / "ca.pem", where / f"{name}.pem", where / f"{name}.key")
        found.check_files()
        return found


def simulated_sources(agents: int, seed: int = 0) -> list[str]:
    """A simulated sensor per agent: its own mean between 0 and 10, standard deviation 1."""
    means = np.random.default_rng(seed).uniform(0, 10, agents).round(2)
    return [f"sim:{mean},1,{seed}" for mean in means]


@contextmanager
def _named_as_in_the_file() -> Iterator[None]:
    """Let an error about settings begin with the field's place in fleet.toml."""
    try:
        yield
    except InvalidInput as error:
        field, space, rest = str(error).partition(" ")
        raise InvalidInput(_PLACES.get(field, field) + space + rest) from None


def _distinct(what: str, values: list[str]) -> None:
    twice = next((value for k, value in enumerate(values) if value in values[:k]), None)
    if twice is not None:
        raise InvalidInput(f"{what} must be different for every agent, got {twice!r} twice")


def _some(values: list[int]) -> str:
    return ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")


def _plain(problem: str) -> str:
    """Turn msgspec's sentence into ours: what was required, and what it got."""
    rules: list[tuple[str, Callable[[re.Match[str]], str]]] = [
        (r"Expected `(.+)`, got `(.+)`", lambda m: f"a value of type {m[1]} is required, got {m[2]}"),
        (
            r"Object missing required field `(.+)`",
            lambda m: f"the field {m[1]!r} is required; add it",
        ),
        (r"Object contains unknown field `(.+)`", lambda m: f"there is no field {m[1]!r}; remove it"),
    ]
    for pattern, text in rules:
        if match := re.fullmatch(pattern, problem):
            return text(match)
    return problem
