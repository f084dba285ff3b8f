"""The fleet's file: who the agents are, who talks to whom, and the numbers that all of them must share.

`create` makes a fleet from a network, `write` writes fleet.toml with comments, a signed roster and certificates, `read`
checks every field, `settings` gives one agent its part. A newer roster replaces the file's members and edges.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.agents import files
from gossamer.agents.config.members import Edge, RosterMember
from gossamer.agents.config.method import build_method, is_file, method_table
from gossamer.agents.config.model import learned
from gossamer.agents.config.parsing import named_as_in_the_file, parse, table_of
from gossamer.agents.config.settings import OPERATOR, AgentSettings, Limits, Neighbor, Tls
from gossamer.agents.config.tables import ENDS, FORMAT, FleetFile, Member, MethodTable
from gossamer.agents.config.template import fleet_text
from gossamer.agents.config.urls import Place, elsewhere
from gossamer.agents.config.values import duration
from gossamer.agents.membership.certificates import Authority, check_private, common_name_of, write_file
from gossamer.agents.membership.hosts import PORT
from gossamer.agents.membership.roster import Roster, read_roster, roster_path
from gossamer.agents.round.bounds import Bounds, with_loads
from gossamer.agents.round.masking import spread_of
from gossamer.agents.round.wire import Codec
from gossamer.agents.sinks.kinds import SINKS
from gossamer.agents.sinks.publishing import Publisher
from gossamer.agents.sources.kinds import AnySource
from gossamer.agents.sources.opening import SOURCES, open_source
from gossamer.agents.statistics.extremes import Extremes
from gossamer.agents.statistics.models import layout_of, method_of
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, Unsupported, require
from gossamer.facts import KnownFacts, SpectralFacts, UnknownFacts
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.ledger import PIECE, ledger_program
from gossamer.methods.method import Method

if TYPE_CHECKING:
    import msgspec

    from gossamer.networks import Network
else:
    msgspec = require("msgspec", "agents")


class Fleet(FleetFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole fleet, as in fleet.toml: its agents and edges, and the settings that they share.

    Make one with `create` or `read`. Relative paths are relative to its `directory`.

    See Also
    --------
    LocalFleet : Runs all agents of a fleet on this machine.

    Examples
    --------
    >>> gs.agents.Fleet.create(gs.Network.cycle(4), rounds={"every": "10ms"}).settings(0, insecure=True).pace
    0.01
    """

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
        """Make a fleet on `network`; by default all its agents are on this machine.

        They simulate a sensor unless `sources` are given, or read standard input to learn a model or values. An agent
        with an empty endpoint cannot be reached: it connects to its neighbors. The default `method` is the local heavy
        ball of Anytime SDA, which needs no spectrum; the file of a custom method is looked up in `directory`. `parts`
        are tables of fleet.toml (observations, statistics, ...) as dictionaries; what they leave out is the default.
        """
        parts = {name: table_of(name, part, cls) for name, part in parts.items()}
        n = network.agents
        names = [f"agent{i}" for i in range(n)] if names is None else names
        endpoints = [f"127.0.0.1:{PORT + i}" for i in range(n)] if endpoints is None else endpoints
        if sources is None:
            learns = getattr(parts.get("model"), "family", "") or getattr(parts.get("values"), "features", "")
            sources = ["-"] * n if learns else simulated_sources(n)
        if not isinstance(method, MethodTable):
            method = method_table(method or AnytimeSDA("local-heavy-ball"), network)
        weighted = [Edge(i, j, -float(network.gossip[i, j])) for i, j in network.edges.tolist()]
        made = cls(
            fleet=fleet,
            network=network.name,
            method=method,
            agents=[
                Member(id=i, name=name, endpoint=endpoint, reachable=bool(endpoint), source=source)
                for i, (name, endpoint, source) in enumerate(zip(names, endpoints, sources, strict=True))
            ],
            epoch=1,
            edges=[Edge(edge.a, edge.b) for edge in weighted],
            **parts,
        )
        if not _is_local(build_method(method, directory)) or not all(
            math.isclose(edge.weight, made.weights[edge.a][edge.b]) for edge in weighted
        ):
            made = msgspec.structs.replace(made, edges=weighted)
        made.check(directory, load=True)
        made.roster.check_new_names()
        return made

    def with_(self, **changes: object) -> Fleet:
        """This fleet with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def write(self, directory: Path) -> Path:
        """Write fleet.toml, its roster, the authority and a certificate per agent; return the file."""
        path = directory / "fleet.toml"
        for known in (path, roster_path(path)):
            if known.exists():
                raise InvalidInput(
                    f"{known} exists already, and a new fleet would lock its agents out; change it by hand or with "
                    "`gossamer fleet add`, `remove`, `link`, `unlink` and `replace`, or choose another directory"
                )
        self.check_values()
        text = fleet_text(self).encode()
        authority = self.certify(directory)
        write_file(path, text)
        write_file(roster_path(path), self.roster.sign(authority))
        return path

    def certify(self, directory: Path) -> Authority:
        """Give every agent and the operator a new certificate, from the existing authority or a new one; return it."""
        where = directory / self.certificates
        exists = (where / "ca.pem").exists()
        authority = Authority.load(where) if exists else Authority.create(where, self.fleet)
        for agent in self.agents:
            self.issue(authority, agent, sync=False)
        authority.issue(OPERATOR, [OPERATOR])
        os.sync()
        return authority

    def issue(self, authority: Authority, agent: Member, *, sync: bool = True) -> None:
        """Write a new certificate for one agent."""
        authority.issue(agent.name, [agent.certified_host], common_name=agent.certified, sync=sync)

    # -- reading -----------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path, *, load: bool = False) -> Fleet:
        """Read and check a fleet.toml; a mistake is reported with the field it is in.

        If the roster next to it is newer, the members and edges are those of the roster. The file of a custom
        method is imported only with `load`; then neither it nor fleet.toml may belong to another user.
        """
        path = Path(path)
        if load:
            files.check_code(path)
        fleet = parse(path, cls, FORMAT)
        roster = read_roster(roster_path(path), path.parent / fleet.certificates / "ca.pem", fleet.fleet)
        if newer := roster is not None and roster.epoch > fleet.epoch:
            fleet = fleet.with_roster(roster)
        try:
            fleet.check(path.parent, load=load)
        except (InvalidInput, Unsupported) as error:
            agents = f", with the agents of {roster_path(path)}" if newer else ""
            raise InvalidInput(f"{path}{agents}: {error}") from None
        return fleet

    def check(self, directory: Path | None = None, *, load: bool = False) -> None:
        """Raise for the first field that cannot be used; a method's own file is checked only with `load`."""
        self._listed().check()
        self.check_values()
        for k, edge in enumerate(self.edges):
            one, other = self._by_id[edge.a], self._by_id[edge.b]
            if not (one.reachable or other.reachable or self.transport.broker):
                raise InvalidInput(
                    f"edges[{k}]: {one.name} and {other.name} cannot be neighbors, because neither can be reached "
                    "(reachable = false); link both to an agent that can be, or give [transport] a broker"
                )
        known = load or not is_file(self.method)
        method = self.deployed(directory) if known else AnytimeSDA("local-heavy-ball")
        for k, agent in enumerate(self.agents):
            self._settings(agent, method)
            self._check_addresses(k, agent)
        self.roster.check_degrees(self.privacy.least_neighbors if self.privacy.mask else 0)
        if known:
            self._check_method(method)

    def _check_addresses(self, k: int, agent: Member) -> None:
        """Check the source and the sinks of an agent, as far as this machine can judge them."""
        try:
            # A file need not be on this machine, nor a package that opens an address.
            if not agent.source.startswith("csv:") and not elsewhere(agent.source, SOURCES):
                self.source(agent.id)
        except InvalidInput as error:
            parent = f"agents[{k}]" if error.parameter in ("source", "end") else f"agents[{k}].source"
            raise error.inside(parent, ("source", "end")) from None
        try:
            self.publishers(agent.id, [text for text in agent.sinks if not elsewhere(text, SINKS)])
        except InvalidInput as error:
            raise error.inside(f"agents[{k}].sinks") from None

    def _check_method(self, method: Method) -> None:
        """The method must run on edges, with messages of this size, and its step size must suit the edges."""
        settings = self._settings(self.agents[0], method)
        program = ledger_program(method_of(settings), settings.facts, longest=PIECE)
        layout = layout_of(settings)
        masks = spread_of(settings, layout, program)
        Bounds.of(layout, program, len(self.agents), masks)  # raises if registers cannot be bounded
        extremes = Extremes(self.observations.dimension) if self.statistics.extremes else None
        needed = Codec(0, frozenset(), layout.size, len(program.edge), Limits(), b"", extremes, masks).longest
        if 0 < self.wire.message_bytes < needed:
            raise InvalidInput(
                parameter="wire.message_bytes",
                required=f"at least {needed}, the length of this fleet's messages, or 0 for just that",
                got=str(self.wire.message_bytes),
            )
        step_size = getattr(method, "step_size", None)
        most = method.largest_step if isinstance(method, AnytimeSDA) else 1.0
        if step_size is None or step_size * 2 * self._heaviest <= most:  # no eigenvalue exceeds twice that
            return
        if step_size > most * (1 + 1e-6) / self.facts.lambda_max:
            raise InvalidInput(
                parameter="method.step_size",
                required=f"at most {most:g}/lambda_max = {most / self.facts.lambda_max:.6g} for these edges, or "
                "the fleet diverges",
                got=f"{step_size:.6g}",
                hint='leave it out, or use acceleration = "local-heavy-ball", which needs none',
            )

    def deployed(self, directory: Path | None = None) -> Method:
        """The method that the agents run; the file of a custom method is looked up in `directory`."""
        method, window = build_method(self.method, directory), self.statistics.window
        if not window:
            return method
        rounds, every = duration("statistics.window", window), duration("rounds.every", self.rounds.every)
        if not every or rounds < every:
            raise InvalidInput(
                parameter="statistics.window",
                required="a time of at least rounds.every, which must not be 0",
                got=f"{window!r} with rounds every {self.rounds.every!r}",
            )
        if not isinstance(method, AnytimeSDA) or method.gain:
            raise InvalidInput(
                f"needs anytime-sda without a gain of its own, because it sets the gain, got {method}",
                parameter="statistics.window",
            )
        # As many rounds as a moving average.
        return dataclasses.replace(method, gain=2 / (1 + rounds / every))

    # -- the network -------------------------------------------------------------------------------

    @cached_property
    def roster(self) -> Roster:
        """The part of this fleet that the authority signs and agents pass on."""
        return self._listed().canonical()

    def _listed(self) -> Roster:
        """The roster in the order of the file."""
        return Roster(
            fleet=self.fleet,
            epoch=self.epoch,
            members=tuple(
                RosterMember(**{name: getattr(m, name) for name in RosterMember.__struct_fields__})
                for m in self.agents
            ),
            edges=tuple(self.edges),
            left=tuple(self.left),
            reset=self.reset,
        )

    def with_roster(self, roster: Roster) -> Fleet:
        """This fleet with the members, edges and epoch of `roster`; what only an agent's own machine uses stays."""
        members = []
        for member in roster.members:
            said, mine = msgspec.structs.asdict(member), self._by_id.get(member.id)
            members.append(msgspec.structs.replace(mine, **said) if mine else Member(**said))
        return msgspec.structs.replace(
            self,
            epoch=roster.epoch,
            agents=members,
            edges=list(roster.edges),
            left=list(roster.left),
            reset=roster.reset,
        )

    @cached_property
    def weights(self) -> dict[int, dict[int, float]]:
        """The neighbors of each agent with the weights of the edges to them.

        A weight that is not given follows from the degrees of its two ends (Metropolis).
        """
        weights = {agent: dict(edges) for agent, edges in self._given.items()}
        for edge in self.edges:
            weight = edge.weight or 1 / (1 + max(len(weights[edge.a]), len(weights[edge.b])))
            weights[edge.a][edge.b] = weights[edge.b][edge.a] = weight
        return weights

    @cached_property
    def _given(self) -> dict[int, dict[int, float]]:
        """The same with the weights as they are given: one that is 0 follows from the edges that are up."""
        weights: dict[int, dict[int, float]] = {agent.id: {} for agent in self.agents}
        for edge in self.edges:
            weights[edge.a][edge.b] = weights[edge.b][edge.a] = edge.weight
        return weights

    @cached_property
    def _heaviest(self) -> float:
        """The largest sum of an agent's weights; up to 1 they are those of an average."""
        return max(sum(weights.values()) for weights in self.weights.values())

    def _facts(self, method: Method) -> SpectralFacts:
        """The facts of the network that the method needs: none for the local form with weights that average."""
        return UnknownFacts() if _is_local(method) and self._heaviest <= 1 + 1e-9 else self.facts

    @cached_property
    def facts(self) -> KnownFacts:
        """The spectrum of the fleet's edges, for methods whose parameters come from it."""
        return KnownFacts.of(np.asarray(np.linalg.eigvalsh(self.gossip()), dtype=np.float64))

    def gossip(self) -> Floats:
        """The gossip matrix L, dense, with a row per agent in the order of the file."""
        index = {agent.id: k for k, agent in enumerate(self.agents)}
        matrix = np.zeros((len(index), len(index)))
        for i, weights in self.weights.items():
            for j, weight in weights.items():
                matrix[index[i], index[j]] = -weight
        return matrix - np.diag(matrix.sum(axis=1))

    @property
    def dimension(self) -> int:
        """Number of components of an observation."""
        return int(learned(self)["dimension"])

    def place(self, agent: int, directory: Path | None = None) -> Place:
        """Return the facts that an agent's sources and sinks need; `directory` is the folder of fleet.toml."""
        me, covariates = self.member(agent), self.model.covariates if self.model.family else ()
        where = directory or Path()
        return Place(self.dimension, agent, me.name, self.fleet, covariates, me.end or ENDS[0], where)

    def source(
        self, agent: int, text: str | None = None, end: str | None = None, directory: Path | None = None
    ) -> AnySource:
        """Return the source of an agent's observations; `text` and `end` override its row."""
        owner = self.place(agent, directory)
        return open_source(
            text or self.member(agent).source, dataclasses.replace(owner, end=end or owner.end)
        )

    def publishers(
        self, agent: int, texts: Sequence[str] | None = None, directory: Path | None = None
    ) -> list[Publisher]:
        """Return the publishers of an agent's answers; `texts` override the sinks of its row."""
        sinks = self.member(agent).sinks if texts is None else texts
        return [Publisher(text, self.place(agent, directory)) for text in sinks]

    # -- one agent ---------------------------------------------------------------------------------

    @cached_property
    def _by_id(self) -> dict[int, Member]:
        return {member.id: member for member in self.agents}

    @cached_property
    def _certified(self) -> tuple[str, ...]:
        return tuple(member.certified for member in self.agents)

    def member(self, agent: int | str) -> Member:
        """The agent with this number or name; a text that could be either is a name."""
        if isinstance(agent, int):
            match = self._by_id.get(agent)
        else:
            match = next((member for member in self.agents if member.name == agent), None)
            match = match or next((member for member in self.agents if str(member.id) == agent), None)
        if match:
            return match
        for gone in self.left:
            if str(agent) in (gone.name, str(gone.id)):
                raise InvalidInput(
                    f"agent {gone.id} ({gone.name}) was removed from this fleet in epoch {gone.epoch}; it can be added "
                    "as a new one"
                )
        first, last = self.agents[0], self.agents[-1]
        raise InvalidInput(
            f"this fleet has the agents {first.id} to {last.id} ({first.name} to {last.name}), got {agent!r}"
        )

    def some(self, text: str) -> list[Member]:
        """The agents in "0-3,7" or "pump,valve": numbers, ranges of numbers, and names."""
        names = {member.name for member in self.agents}
        known = names | {str(member.id) for member in self.agents}
        chosen: list[Member] = []
        for part in (part.strip() for part in text.split(",")):
            ends = None if part in names else re.fullmatch(r"(\d+)-(\d+)", part)
            if ends and int(ends[1]) > int(ends[2]):
                raise InvalidInput(
                    f"must have ranges from the smaller number to the larger, got {part}; write {ends[2]}-{ends[1]}",
                    parameter="only",
                )
            try:
                if ends:
                    if int(ends[2]) > max(member.id for member in self.agents):
                        self.member(ends[2])  # fails early for a range of millions
                    numbers = [str(k) for k in range(int(ends[1]), int(ends[2]) + 1) if str(k) in known]
                    chosen += [self.member(number) for number in numbers or [ends[1]]]
                else:
                    chosen.append(self.member(part))
            except InvalidInput as error:
                raise InvalidInput(f"must name agents such as 0-3,7: {error}", parameter="only") from None
        if len({member.id for member in chosen}) < len(chosen):
            raise InvalidInput(f"must name each agent once, got {text!r}", parameter="only")
        return chosen

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
        made = self._settings(me, self.deployed(directory), every=every, store=store)
        made = with_loads(made, self.weights)
        return made if insecure else made.with_(tls=self.tls(me.id, directory or Path()))

    def _settings(
        self, me: Member, method: Method, *, every: float | None = None, store: Path | None = None
    ) -> AgentSettings:
        members, weights = self._by_id, self.weights
        given = self._given[me.id]
        with named_as_in_the_file():
            return AgentSettings(
                id=me.id,
                name=me.certified,
                neighbors=tuple(
                    Neighbor(j, given[j], m.endpoint, m.certified, len(weights[j]), m.reachable)
                    for j, m in ((j, members[j]) for j in sorted(weights[me.id]))
                ),
                method=method,
                facts=self._facts(method),
                members=len(self.agents),
                former=len(self.left),
                kept=tuple(gone.id for gone in self.left if gone.kept_by(me.id)),
                inherited=sum(bool(gone.keep and gone.heirs) for gone in self.left),
                bringers=self._certified,
                ids=tuple(members),
                store=store,
                **self.values_of(AgentSettings, me),
                **self._common | ({} if every is None else {"pace": every or None}),
            )

    @cached_property
    def _common(self) -> dict[str, Any]:
        """The settings that the file gives to all agents."""
        settings = self.values_of(AgentSettings)
        changes = {"pace": settings["pace"] or None, "limits": Limits(**self.values_of(Limits))}
        return settings | changes | learned(self)

    def tls(self, agent: int | str, directory: Path) -> Tls:
        """The files of an agent's certificate; only its owner may be able to read the key."""
        member = self.member(agent)
        where, own = directory / self.certificates, member.name
        check_private(where / f"{own}.key")
        tls = Tls(where / "ca.pem", where / f"{own}.pem", where / f"{own}.key")
        tls.check_files()
        if (shown := common_name_of(tls.certificate)) != member.certified:
            raise InvalidInput(
                f"{tls.certificate} must be the certificate of {member.certified!r}, which the roster of epoch "
                f"{self.epoch} expects, got that of {shown!r}; copy the new certificate and key to this machine"
            )
        return tls


# See `Status`: threads may read fleets at once.
msgspec.json.Decoder(Fleet)


def simulated_sources(agents: int, seed: int = 0) -> list[str]:
    """A simulated sensor per agent: its own mean between 0 and 10, standard deviation 1."""
    means = np.random.default_rng(seed).uniform(0, 10, agents).round(2)
    return [f"sim:{mean},1,{seed}" for mean in means]


def _is_local(method: Method) -> bool:
    return isinstance(method, AnytimeSDA) and method.local
