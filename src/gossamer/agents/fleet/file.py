"""The fleet's file: who the agents are, who talks to whom, and the numbers that all of them must share.

`Fleet.create` makes a fleet from a network, `write` writes it as a commented fleet.toml with a certificate
for each agent, `Fleet.read` reads it back and checks every field, and `settings` gives one agent its part.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from gossamer.agents.fleet.certificates import Authority, check_name, check_private
from gossamer.agents.fleet.template import fleet_text
from gossamer.agents.host.sources import parse_source
from gossamer.agents.round.ledger import split
from gossamer.agents.round.wire import Codec
from gossamer.agents.settings import AgentSettings, Limits, Neighbor, Tls, check_endpoint
from gossamer.agents.statistics import Layout
from gossamer.errors import InvalidInput, OutputError, require
from gossamer.methods.anytime_sda import AnytimeSDA

if TYPE_CHECKING:
    import msgspec

    from gossamer.networks import Network
else:
    msgspec = require("msgspec", "agents")

FORMAT = 1
PORT = 7447
"""The first port of a fleet, Zenoh's own."""

_PLACES = (
    {
        field: f"{table}.{field}"
        for table, fields in {
            "method": ("step_size", "momentum", "smoothing", "gain"),
            "observations": ("dimension", "weighting", "variance", "bins", "replicates"),
            "rounds": ("timeout", "silence", "death", "commit"),
        }.items()
        for field in fields
    }
    | {"pace": "rounds.every"}
    | {f"limits.{field}": f"wire.{field}" for field in ("message_bytes", "rounds_ahead")}
)
"""Where fleet.toml holds what `AgentSettings` calls so."""

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class Method(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of Anytime SDA, from the network's spectrum."""

    step_size: float
    momentum: float
    smoothing: float
    gain: float = 0.0


class Observations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agents observe and average."""

    dimension: int = 1
    weighting: str = "agents"
    variance: bool = False
    bins: tuple[float, ...] = ()
    replicates: int = 8


class Rounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pace and patience."""

    every: str = "100ms"
    timeout: str = "200ms"
    silence: int = 5
    death: str = "5s"
    commit: str = "200ms"


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a message may look like at most."""

    message_bytes: int = 0
    rounds_ahead: int = 1_000_000


class Member(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent of the fleet."""

    id: int
    name: str
    endpoint: str
    source: str = "-"


class Fleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole fleet, as in fleet.toml.

    Relative paths (the certificates) are relative to `directory`, where the file is.
    """

    format: int = FORMAT
    fleet: str = "gossamer"
    network: str = ""
    certificates: str = "certificates"
    method: Method
    observations: Observations = Observations()
    rounds: Rounds = Rounds()
    wire: Wire = Wire()
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
        **parts: Any,
    ) -> Fleet:
        """Make a fleet on `network`; by default all its agents are on this machine and simulate a sensor.

        `parts` are the tables observations, rounds and wire, where they should differ from the defaults.
        """
        n = network.agents
        names = [f"agent{i}" for i in range(n)] if names is None else names
        endpoints = [f"127.0.0.1:{PORT + i}" for i in range(n)] if endpoints is None else endpoints
        sources = simulated_sources(n) if sources is None else sources
        method = AnytimeSDA()
        coefficients = method.coefficients(network, 1)
        gossip = network.gossip
        made = cls(
            fleet=fleet,
            network=network.name,
            method=Method(
                step_size=coefficients.step_size,
                momentum=float(coefficients.momentum),
                smoothing=method.window(network),
            ),
            agents=[
                Member(id=i, name=name, endpoint=endpoint, source=source)
                for i, (name, endpoint, source) in enumerate(zip(names, endpoints, sources, strict=True))
            ],
            edges=[(i, j, -float(gossip[i, j])) for i, j in network.edges.tolist()],
            **parts,
        )
        made.check()
        return made

    def write(self, directory: Path, *, overwrite: bool = False) -> Path:
        """Write fleet.toml, the authority and a certificate per agent into `directory`; return the file."""
        path = directory / "fleet.toml"
        if path.exists() and not overwrite:
            raise InvalidInput(
                f"{path} exists already; choose another directory, or say --force to write it anew"
            )
        text = fleet_text(self)
        self.certify(directory)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error
        return path

    def certify(self, directory: Path) -> None:
        """Give every agent a fresh certificate, from the authority that is there, or from a new one."""
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
            raise InvalidInput(f"{path} must be a TOML file, but {error}") from None
        if found.get("format") != FORMAT:
            raise InvalidInput(f"{path}: format must be {FORMAT}, got {found.get('format')!r}")
        try:
            fleet = msgspec.convert(found, cls)
        except msgspec.ValidationError as error:
            problem, _, place = str(error).partition(" - at ")
            field = place.strip("`").removeprefix("$").removeprefix(".") or "the file"
            raise InvalidInput(f"{path}: {field}: {_plain(problem)}") from None
        try:
            fleet.check()
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None
        return fleet

    def check(self) -> None:
        """Complain about the first field that cannot be used."""
        ids = [agent.id for agent in self.agents]
        if ids != list(range(len(ids))):
            raise InvalidInput(f"agents: ids must be 0, 1, 2, ... in this order, got {_some(ids)}")
        if len(ids) < 2:
            raise InvalidInput(f"agents: a fleet has at least 2 agents, got {len(ids)}")
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
                    f"edges[{k}]: an edge joins two different agents from 0 to {len(ids) - 1}, once, "
                    f"got [{i}, {j}]"
                )
            seen.add(pair)
            if not 0 < weight < np.inf:
                raise InvalidInput(f"edges[{k}]: a weight must be a finite number above 0, got {weight!r}")
        for agent in self.agents:
            self.settings(agent.id, insecure=True)
            if not agent.source.startswith("csv:"):  # whose file need not be on this machine
                try:
                    parse_source(agent.source, self.observations.dimension, agent.id)
                except InvalidInput as error:
                    raise InvalidInput(f"agents[{agent.id}].source: {error}") from None
        self._check_message_bytes()
        self._check_spectrum()

    def _check_message_bytes(self) -> None:
        method = AnytimeSDA(smoothing=0, step_size=self.method.step_size, momentum=self.method.momentum)
        edge = split(method, method.coefficients(cast(Any, None), 1)).edge
        size = Layout.of(self.settings(0, insecure=True)).size
        needed = Codec(0, frozenset(), size, len(edge), Limits()).longest
        if 0 < self.wire.message_bytes < needed:
            raise InvalidInput(
                f"wire.message_bytes must be at least {needed}, the length of this fleet's messages, or 0 for just "
                f"that, got {self.wire.message_bytes}"
            )

    def _check_spectrum(self) -> None:
        """The step size must fit the edges, or the fleet diverges: an edge added by hand changes both."""
        eigenvalues = np.linalg.eigvalsh(self.gossip())
        if eigenvalues[1] <= 1e-12 * eigenvalues[-1]:
            self.as_network()  # not connected: the network says how
        if self.method.step_size > (1 + 1e-6) / eigenvalues[-1]:
            raise InvalidInput(
                f"method.step_size must be at most 1/lambda_1 = {1 / eigenvalues[-1]:.6g} for these edges, "
                f"got {self.method.step_size:.6g}; run `gossamer fleet init` again after changing edges"
            )

    def gossip(self) -> NDArray[np.float64]:
        """The gossip matrix L, dense."""
        matrix = np.zeros((len(self.agents), len(self.agents)))
        for i, j, weight in self.edges:
            matrix[i, j] = matrix[j, i] = -weight
        return matrix - np.diag(matrix.sum(axis=1))

    def as_network(self) -> Network:
        """The fleet's network, for plans and exact errors."""
        from gossamer.networks import Network  # an agent does without it, and without SciPy's memory

        return Network.from_gossip_matrix(self.gossip())

    # -- one agent ---------------------------------------------------------------------------------

    def member(self, agent: int | str) -> Member:
        """The agent with this number or name; a text that is both is the name."""
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
                    f"--only: a range goes from the smaller number to the larger, got {part}; "
                    f"write {ends[2]}-{ends[1]}"
                )
            try:
                if ends:
                    self.member(ends[2])  # before a range of millions is tried one by one
                    found += [self.member(str(k)) for k in range(int(ends[1]), int(ends[2]) + 1)]
                else:
                    found.append(self.member(part))
            except InvalidInput as error:
                raise InvalidInput(f"--only takes agents such as 0-3,7: {error}") from None
        if len({member.id for member in found}) < len(found):
            raise InvalidInput(f"--only names each agent once, got {text!r}")
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
        """What one agent must know; `every` and `insecure` override the file, `directory` is where it is."""
        me = self.member(agent)
        weights = {j if i == me.id else i: w for i, j, w in self.edges if me.id in (i, j)}
        tls = None if insecure else self.tls(me.id, directory or Path())
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
                step_size=self.method.step_size,
                momentum=self.method.momentum,
                smoothing=self.method.smoothing,
                gain=self.method.gain or None,
                dimension=other.dimension,
                weighting=other.weighting,
                variance=other.variance,
                bins=other.bins,
                replicates=other.replicates,
                pace=seconds or None,
                timeout=duration("rounds.timeout", self.rounds.timeout),
                silence=self.rounds.silence,
                death=duration("rounds.death", self.rounds.death),
                commit=duration("rounds.commit", self.rounds.commit),
                limits=Limits(self.wire.message_bytes, self.wire.rounds_ahead),
                tls=tls,
                store=store,
            )

    def tls(self, agent: int | str, directory: Path) -> Tls:
        """The files of an agent's certificate; its key must be its owner's alone."""
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


def duration(name: str, text: str) -> float:
    """Return seconds from "250ms", "2s", "1m" or "1h"; "0" is none at all."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if not match or (match[2] not in _UNITS and float(match[1]) != 0):
        raise InvalidInput(f'{name} must be a time such as "250ms", "2s" or "1m", got {text!r}')
    return float(match[1]) * _UNITS.get(match[2], 0.0)


def read_hosts(path: Path) -> dict[str, str]:
    """Read "name host:port" lines; the port may be left out."""
    hosts: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as text ({type(error).__name__})") from None
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if words and (len(words) != 2 or words[0] in hosts):
            raise InvalidInput(f"{path}, line {number}: a new name and its host:port were expected: {line!r}")
        if words:
            hosts[words[0]] = with_port(words[1])
    return hosts


def names_and_endpoints(network: Network, hosts: dict[str, str] | None) -> tuple[list[str], list[str]]:
    """Return the names and the endpoints of a network whose agents have names.

    Without `hosts` the names are the addresses themselves, "host:port" or just "host".
    """
    labels = [str(label) for label in network.labels]
    if hosts is None:
        names = [re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-.") for label in labels]
        return names, [with_port(label) for label in labels]
    missing = [label for label in labels if label not in hosts]
    if missing:
        raise InvalidInput(f"every agent needs a line in the file of hosts, but {missing[0]!r} has none")
    return labels, [hosts[label] for label in labels]


def with_port(address: str, port: int = PORT) -> str:
    """Return host:port, with the fleet's usual port where none was given."""
    bare = address.endswith("]") if address.startswith("[") else ":" not in address
    return f"{address}:{port}" if bare else address


@contextmanager
def _named_as_in_the_file() -> Iterator[None]:
    """Let a complaint about settings begin with the field's place in fleet.toml."""
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
    """Turn msgspec's sentence into ours: what was required, what came."""
    rules: list[tuple[str, Callable[[re.Match[str]], str]]] = [
        (r"Expected `(.+)`, got `(.+)`", lambda m: f"a value of type {m[1]} is required, got {m[2]}"),
        (
            r"Object missing required field `(.+)`",
            lambda m: f"the field {m[1]!r} is required, but it is missing",
        ),
        (r"Object contains unknown field `(.+)`", lambda m: f"there is no field {m[1]!r}; remove it"),
    ]
    for pattern, text in rules:
        if match := re.fullmatch(pattern, problem):
            return text(match)
    return problem
