"""The roster: the members and edges of a fleet, numbered by epochs and signed by the fleet's authority.

fleet.toml is the operator's file, with settings and comments. The roster is the part of it that agents exchange: a few
kilobytes that any agent can check, store and forward without trusting the sender. On disk it is the file `fleet.roster`
next to fleet.toml, and it is used if its epoch is newer than that of fleet.toml.

- Epochs only increase. Two different rosters of one epoch are a mistake of the operator: `supersedes` refuses them.
- Ids are stable: a removed agent stays in `left`, and its id is never reused.
- A certificate is identified by its common name: NAME in a new fleet, and NAME@EPOCH for an agent that was added or
  replaced later. The roster lists the valid ones, and access control is based on it, so the certificate of a replaced
  agent, or of a removed one whose name is used again, is no longer accepted.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.agents import files
from gossamer.agents.config.members import Edge, Left, RosterMember
from gossamer.agents.config.settings import check_endpoint
from gossamer.agents.membership.certificates import LONGEST_NAME, Authority, check_name, read_certificate
from gossamer.errors import InvalidInput, InvalidRoster, require

if TYPE_CHECKING:
    import msgspec
    from cryptography import x509
else:
    msgspec = require("msgspec", "agents")

LARGEST = 1_000_000
"""Largest size of a roster in bytes, which fits into a message (`secured.longest_message`): about 10,000 agents with
four neighbors each."""

IDS = 2**32
"""Ids are below this, which is the range of the random streams of simulated sensors."""

_MAGIC = b"gossamer roster 1\n"
"""First bytes of the file and of the signed text: the authority's key also signs certificates, none of which begins
like this."""

_LENGTHS = struct.Struct(">HI")

_COMMON_NAME = re.compile(r"(.+)@\d{1,15}")

_LONGEST_COMMON_NAME = 64


class Roster(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The members of a fleet, their edges, and former members, in one epoch; flows were last set to zero in `reset`."""

    fleet: str
    epoch: int
    members: tuple[RosterMember, ...]
    edges: tuple[Edge, ...]
    left: tuple[Left, ...] = ()
    reset: int = 0

    def canonical(self) -> Roster:
        """Return the same roster in the order in which it is signed and compared."""
        edges = (Edge(*edge.pair, edge.weight) for edge in self.edges)
        return msgspec.structs.replace(
            self,
            members=tuple(sorted(self.members, key=lambda member: member.id)),
            edges=tuple(sorted(edges, key=lambda edge: edge.pair)),
            left=tuple(sorted(self.left, key=lambda gone: gone.id)),
        )

    # -- signing -----------------------------------------------------------------------------------

    def sign(self, authority: Authority) -> bytes:
        """Return the signed roster: lengths, the authority's signature, and the roster itself as JSON."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        self.check()
        body = msgspec.json.encode(self.canonical())
        signature = authority.key.sign(_MAGIC + body, ec.ECDSA(hashes.SHA256()))
        data = _MAGIC + _LENGTHS.pack(len(signature), len(body)) + signature + body
        _check_size(len(data))
        return data

    @classmethod
    def open(cls, data: bytes, authority: x509.Certificate, fleet: str | None = None) -> Roster:
        """Return the roster in `data`, if the authority signed it, it belongs to `fleet`, and it is valid.

        Raises InvalidRoster otherwise. Nothing is decoded before the signature is checked.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        _check_size(len(data))
        start = len(_MAGIC) + _LENGTHS.size
        if len(data) < start and data[: len(_MAGIC)] == _MAGIC[: len(data)]:
            raise InvalidRoster(f"a roster must not be truncated, got only {len(data)} bytes; copy it again")
        if not data.startswith(_MAGIC):
            raise InvalidRoster(
                f"a roster must begin with {_MAGIC.decode().strip()!r}, got something else; it is another file, or "
                "from another version"
            )
        signed, length = _LENGTHS.unpack_from(data, len(_MAGIC))
        if len(data) != start + signed + length:
            raise InvalidRoster(
                f"a roster must have the {start + signed + length} bytes that it announces, got {len(data)}; "
                "copy it again"
            )
        signature, body = data[start : start + signed], data[start + signed :]
        key = authority.public_key()
        try:
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise InvalidSignature
            key.verify(signature, _MAGIC + body, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise InvalidRoster(
                "a roster must be signed by this fleet's authority, got another signature; it was changed on the way, "
                "or belongs to another fleet"
            ) from None
        try:
            roster = _DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRoster(f"a roster must be well-formed: {error}") from None
        if fleet is not None and roster.fleet != fleet:
            raise InvalidRoster(f"a roster must be of this fleet, {fleet!r}, got one of {roster.fleet!r}")
        roster.check()
        return roster

    def supersedes(self, other: Roster) -> bool:
        """Return whether this roster is newer than `other`; raises if they have the same epoch and differ."""
        if self.epoch == other.epoch and self != other:
            raise InvalidRoster(
                f"two rosters of one epoch must be the same, got two different ones of epoch {self.epoch}; neither "
                "counts: sign a newer one with `gossamer fleet sign`"
            )
        return self.epoch > other.epoch

    # -- checking ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise InvalidRoster for the first invalid field."""
        _require(0 <= self.epoch < 2**53, f"must be a whole number from 0 on, got {self.epoch}", "epoch")
        known = 0 <= self.reset <= self.epoch
        _require(known, f"must be an epoch up to {self.epoch}, got {self.reset}", "reset")
        self._check_members()
        self._check_edges()
        parts = self.parts()
        if len(parts) > 1:
            sizes = ", ".join(str(len(part)) for part in parts[:5]) + (", ..." if len(parts) > 5 else "")
            raise InvalidRoster(
                f"averaging needs a connected network, but this graph has {len(parts)} components (sizes {sizes}); "
                "add an edge between them"
            )

    def check_new_names(self) -> None:
        """Raise for a name that is too long for a new agent, whose later certificates are called NAME@EPOCH."""
        for member in self.members:
            check_name(member.name, LONGEST_NAME)

    def _check_members(self) -> None:
        members = self.members
        _require(len(members) >= 2, f": a fleet must have at least 2 agents, got {len(members)}", "agents")
        for k, member in enumerate(members):
            _require(
                0 <= member.id < IDS,
                f"must be a whole number from 0 to {IDS - 1}, got {member.id}",
                f"agents[{k}].id",
            )
            try:
                check_name(member.name)
                if member.reachable or member.endpoint:
                    check_endpoint(f"agents[{k}].endpoint", member.endpoint)
            except InvalidInput as error:
                error = error if error.parameter else error.inside(f"agents[{k}].name")
                raise InvalidRoster(error.text, parameter=error.parameter) from None
            _require(
                member.reachable or not member.endpoint,
                f"must be left out where reachable = false, got {member.endpoint!r}",
                f"agents[{k}].endpoint",
            )
            if member.common_name:
                check_common_name(f"agents[{k}].common_name", member.common_name, member.name)
        _check_distinct("agents: id", [member.id for member in members])
        _check_distinct("agents: name", [member.name for member in members])
        _check_distinct("agents: endpoint", [member.endpoint for member in members if member.reachable])
        current = {member.id for member in members}
        _check_distinct("left: id", [gone.id for gone in self.left])
        for gone in self.left:
            _require(
                gone.id not in current and 0 <= gone.epoch <= self.epoch,
                f"left: an agent that was removed must no longer be a member, since an epoch up to {self.epoch}, "
                f"got id {gone.id}, epoch {gone.epoch}",
            )

    def check_degrees(self, least: int) -> None:
        """Raise unless every member has at least this many neighbors (`[privacy] least_neighbors`)."""
        degrees = Counter(end for edge in self.edges for end in edge.pair)
        few = [member.name for member in self.members if degrees[member.id] < least]
        if few:
            raise InvalidInput(
                parameter="privacy.least_neighbors",
                required="at most the number of neighbors of every agent",
                got=f"{least}, but these have fewer: {', '.join(few[:5])}",
                hint="link them to more agents (`gossamer fleet link`), or use a smaller number",
            )

    def _check_edges(self) -> None:
        members = {member.id for member in self.members}
        seen: set[tuple[int, int]] = set()
        for k, edge in enumerate(self.edges):
            _require(
                edge.a != edge.b and edge.a in members and edge.b in members and edge.pair not in seen,
                f"edges[{k}]: an edge must join two different agents of this fleet, once, got [{edge.a}, {edge.b}]",
            )
            seen.add(edge.pair)
            _require(
                0 <= edge.weight < float("inf"),
                f"edges[{k}]: a weight must be a finite number above 0, or left out, got {edge.weight!r}",
            )

    def parts(self) -> list[list[int]]:
        """Return the connected components of the network, as lists of ids, the largest first."""
        neighbors: dict[int, list[int]] = {member.id: [] for member in self.members}
        for edge in self.edges:
            neighbors[edge.a].append(edge.b)
            neighbors[edge.b].append(edge.a)
        components, seen = [], set[int]()
        for start in neighbors:
            if start in seen:
                continue
            seen.add(start)
            part = [start]
            for agent in part:  # the list grows during the loop
                fresh = [other for other in neighbors[agent] if other not in seen]
                seen.update(fresh)
                part += fresh
            components.append(sorted(part))
        return sorted(components, key=len, reverse=True)


_DECODER = msgspec.json.Decoder(Roster)


def roster_path(fleet: Path) -> Path:
    """Return the path of a fleet's roster, next to its file."""
    return fleet.with_suffix(".roster")


def read_roster(path: Path, authority: Path, fleet: str | None = None) -> Roster | None:
    """Return the roster in a file, checked against the authority's certificate; None if the file does not exist."""
    files.check([path])
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidRoster(f"{path} cannot be read ({error.strerror})") from None
    try:
        return Roster.open(data, read_certificate(authority), fleet)
    except InvalidRoster as error:
        raise InvalidRoster(f"{path}: {error}") from None


def common_name(name: str, epoch: int) -> str:
    """Return the common name of a certificate for the agent `name` issued in this epoch."""
    return check_common_name("name", f"{name}@{epoch}", name)


def check_common_name(what: str, value: str, name: str) -> str:
    """Return `value` if it is valid as the common name of a certificate of the agent `name`."""
    match = _COMMON_NAME.fullmatch(value)
    _require(
        match is not None and match[1] == name,
        f"must be {name!r}, @ and an epoch, or left out, got {value!r}",
        what,
    )
    _require(
        len(value) <= _LONGEST_COMMON_NAME,
        f"must be short enough for a certificate's common name of {_LONGEST_COMMON_NAME} characters, "
        f"got {value!r}",
        what,
    )
    return value


def _require(condition: bool, text: str, parameter: str = "") -> None:
    if not condition:
        raise InvalidRoster(text, parameter=parameter)


def _check_size(size: int) -> None:
    _require(size <= LARGEST, f"a roster must have at most {LARGEST:,} bytes, got {size:,}")


def _check_distinct(what: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for value in values:
        _require(value not in seen, f"{what} must be different for every agent, got {value!r} twice")
        seen.add(value)
