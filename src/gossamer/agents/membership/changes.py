"""Changes of a fleet's members and edges.

`draft` gives the fleet of the next epoch from fleet.toml, including manual edits; the other functions change such a
draft, and `publish` checks it, issues certificates, updates fleet.toml, and signs the roster. `change` does all of
this, one change at a time. Ids are stable: no agent is renumbered, and the id of an agent that has left is not reused.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence, Set
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.agents.config.members import Edge, Left
from gossamer.agents.config.settings import OPERATOR, Neighbor, Tls, check_endpoint
from gossamer.agents.config.tables import Member, duration
from gossamer.agents.config.template import edited_text
from gossamer.agents.membership.certificates import LONGEST_NAME, Authority, check_name, expires, write_file
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.roster import Roster, common_name, read_roster, roster_path
from gossamer.agents.rewiring import HAND_OVER, TAKE_BACK
from gossamer.agents.text import printable
from gossamer.agents.transports.calling import ask
from gossamer.errors import InvalidInput, InvalidRoster, OutputError, require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

_PATIENCE, _POLL = 10.0, 0.2
"""Seconds in which an agent must hand its data over once its neighbors are heard, and seconds between two polls."""


def signed_roster(path: Path, fleet: Fleet) -> Roster | None:
    """Return the signed roster of a fleet, if there is one."""
    return read_roster(roster_path(path), path.parent / fleet.certificates / "ca.pem", fleet.fleet)


def draft(path: Path) -> Fleet:
    """Return the fleet of the next epoch: that of the file, in which agents missing since the last roster have left."""
    fleet = Fleet.read(path)
    roster = signed_roster(path, fleet) or fleet.roster
    epoch = 1 + max(fleet.epoch, roster.epoch)
    known, past = {m.id: m for m in roster.members}, {gone.id: gone for gone in (*roster.left, *fleet.left)}
    agents = []
    for member in fleet.agents:
        before = known.get(member.id)
        owner = past[member.id].name if member.id in past else member.name if before is None else before.name
        if member.id in past or owner != member.name:
            raise InvalidInput(
                f"{path}: agents: the id {member.id} must stay that of {owner}, got {member.name}; a new "
                f"agent needs a new id, such as {_next_id(fleet, roster)}"
            )
        named = member.common_name or (before.common_name if before else common_name(member.name, epoch))
        agents.append(msgspec.structs.replace(member, common_name=named))
    current = {member.id for member in agents}
    missing = [m for m in roster.members if m.id not in current]
    gone = [Left(id=m.id, name=m.name, keep=False, epoch=epoch) for m in missing]
    reset = max(fleet.reset, roster.reset)
    return msgspec.structs.replace(
        fleet, epoch=epoch, agents=agents, left=[*past.values(), *gone], reset=reset
    )


def change(path: Path, step: Callable[[Fleet], Fleet]) -> tuple[Fleet, list[Path]]:
    """Apply `step` to a draft and publish the result; also return the new certificates and keys.

    Waits while another process makes a change, because one of two drafts of the same epoch would be lost.
    """
    if not path.is_file():
        Fleet.read(path)  # raises with the reason
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        made = step(draft(path))
        return made, publish(path, made)
    finally:
        os.close(folder)


def add(
    fleet: Fleet,
    name: str,
    endpoint: str,
    neighbors: Sequence[str],
    *,
    listen: str = "",
    source: str = "-",
    metrics: str = "",
) -> Fleet:
    """Return the draft with a new agent that is linked to `neighbors`; without an endpoint, it cannot be reached."""
    if any(member.name == name for member in fleet.agents):
        raise InvalidInput(
            f"must be a new one, but this fleet has an agent {name!r}; choose another, or give that "
            "agent a new certificate with `gossamer fleet replace`",
            parameter="name",
        )
    check_name(name, LONGEST_NAME)
    ids = [fleet.member(neighbor).id for neighbor in neighbors]
    if not ids or len(set(ids)) < len(ids):
        raise InvalidInput(
            f"must name one or more different agents, got {', '.join(neighbors) or 'none'}",
            parameter="neighbors",
        )
    if endpoint:
        check_endpoint("endpoint", endpoint)
    new = Member(
        id=_next_id(fleet),
        name=name,
        endpoint=endpoint,
        reachable=bool(endpoint),
        common_name=common_name(name, fleet.epoch),
        listen=listen,
        source=source,
        metrics=metrics,
    )
    edges = [*fleet.edges, *(Edge(neighbor, new.id) for neighbor in ids)]
    return msgspec.structs.replace(fleet, agents=[*fleet.agents, new], edges=edges)


def remove(fleet: Fleet, agent: str, *, heirs: Sequence[int] = ()) -> Fleet:
    """Return the draft without one agent; its observations leave the average, unless it handed them over to `heirs`."""
    gone, keep = fleet.member(agent), bool(heirs)
    after = msgspec.structs.replace(
        fleet,
        agents=[member for member in fleet.agents if member.id != gone.id],
        edges=[edge for edge in fleet.edges if gone.id not in edge.pair],
        left=[
            *fleet.left,
            Left(id=gone.id, name=gone.name, keep=keep, epoch=fleet.epoch, heirs=tuple(heirs)),
        ],
    )
    return _connected(after, f"removing {gone.name}")


def hand_over(path: Path, fleet: Fleet, agent: str) -> tuple[int, ...]:
    """Make a running agent hand its data over to its neighbors; return the heirs, for the roster without it.

    The agent waits for silent neighbors until they are heard or count as dead. Raises OutputError if the data cannot be
    handed over; the agent then takes them back.
    """
    member = fleet.member(agent)
    death, every = duration("rounds.death", fleet.rounds.death), duration("rounds.every", fleet.rounds.every)
    deadline = time.monotonic() + 2 * max(death, fleet.rounds.silence * every) + _PATIENCE
    while True:
        answer = tell(path, fleet, member.name, HAND_OVER)
        try:
            said = json.loads(answer)
        except ValueError:
            raise OutputError(
                f"{member.name} must be able to hand its data over, but it answers {answer.decode()!r}; update it, or "
                "remove it without keeping its data"
            ) from None
        if said["done"]:
            return tuple(said["heirs"])
        if time.monotonic() >= deadline:
            tell(path, fleet, member.name, TAKE_BACK)
            raise OutputError(
                f"{member.name} cannot hand its data over: {printable(str(said['problem']))}; it continues as "
                "before. Fix that, or remove it without keeping its data"
            )
        time.sleep(_POLL)


def tell(path: Path, fleet: Fleet, agent: str, question: bytes) -> bytes:
    """Ask a running agent a question as the operator."""
    member = fleet.member(agent)
    contact = Neighbor(member.id, endpoint=member.endpoint, name=member.certified)
    try:
        return ask(operator_files(path, fleet), fleet.fleet, contact, question)
    except OSError as error:
        raise OutputError(
            f"{member.name} must be running and reachable to hand its data over, but {error}; start it, or remove it "
            "without keeping its data"
        ) from None


def reset_flows(fleet: Fleet) -> Fleet:
    """The draft in which all agents set their flows to zero and start over from the observations of the members."""
    left = [msgspec.structs.replace(gone, keep=False, heirs=()) for gone in fleet.left]
    return msgspec.structs.replace(fleet, reset=fleet.epoch, left=left)


def link(fleet: Fleet, a: str, b: str) -> Fleet:
    """Return the draft with an edge between two agents."""
    one, other = _two(fleet, a, b)
    if other.id in fleet.weights[one.id]:
        raise InvalidInput(f"{one.name} and {other.name} must not be linked yet, but they are")
    return msgspec.structs.replace(fleet, edges=[*fleet.edges, Edge(one.id, other.id)])


def unlink(fleet: Fleet, a: str, b: str) -> Fleet:
    """Return the draft without the edge between two agents."""
    one, other = _two(fleet, a, b)
    if other.id not in fleet.weights[one.id]:
        near = ", ".join(fleet.member(j).name for j in sorted(fleet.weights[one.id]))
        raise InvalidInput(f"{one.name} must be linked to {other.name}, but its neighbors are {near}")
    edges = [edge for edge in fleet.edges if {*edge.pair} != {one.id, other.id}]
    after = msgspec.structs.replace(fleet, edges=edges)
    return _connected(after, f"unlinking {one.name} and {other.name}", {one.name, other.name})


def replace(fleet: Fleet, agent: str) -> Fleet:
    """Return the draft with a new certificate for one agent; the old one is no longer accepted."""
    old = fleet.member(agent)
    new = msgspec.structs.replace(old, common_name=common_name(old.name, fleet.epoch))
    return msgspec.structs.replace(fleet, agents=[new if m.id == old.id else m for m in fleet.agents])


def publish(path: Path, fleet: Fleet) -> list[Path]:
    """Publish a draft: issue missing certificates, update fleet.toml, and finally sign the roster.

    Returns the new certificates and keys. Needs the authority's key.
    """
    where = path.parent / fleet.certificates
    authority = Authority.load(where)
    roster = signed_roster(path, fleet) or Fleet.read(path).roster
    fleet.check(path.parent)
    signed = fleet.roster.sign(authority)
    text = edited_text(path.read_text(encoding="utf-8"), fleet)
    certified = {(m.id, m.certified, m.host) for m in roster.members}
    new = [member for member in fleet.agents if (member.id, member.certified, member.host) not in certified]
    for member in new:
        fleet.issue(authority, member)
    write_file(path, text.encode())
    write_file(roster_path(path), signed)
    names = {member.name for member in fleet.agents}
    for gone in fleet.left:
        if gone.epoch == fleet.epoch and gone.name not in names:
            _delete(where / f"{gone.name}.key")
            _delete(where / f"{gone.name}.pem")
    return [where / f"{member.name}.{kind}" for member in new for kind in ("pem", "key")]


def operator_files(path: Path, fleet: Fleet) -> Tls:
    """Return the operator's certificate; it is issued if needed and if the authority's key is on this machine."""
    where = path.parent / fleet.certificates
    tls = Tls(where / "ca.pem", where / f"{OPERATOR}.pem", where / f"{OPERATOR}.key")
    if not tls.certificate.exists() or expires(tls.certificate) < datetime.now(UTC) + timedelta(days=1):
        Authority.load(where).issue(OPERATOR, [OPERATOR])
    return tls


def _next_id(*lists: Fleet | Roster) -> int:
    """Return an id that no agent has or had."""
    members = [m.id for one in lists for m in (one.agents if isinstance(one, Fleet) else one.members)]
    return 1 + max([*members, *(gone.id for one in lists for gone in one.left)])


def _two(fleet: Fleet, a: str, b: str) -> tuple[Member, Member]:
    one, other = fleet.member(a), fleet.member(b)
    if one.id == other.id:
        raise InvalidInput(f"an edge must join two different agents, got {one.name} twice")
    return one, other


def _connected(fleet: Fleet, what: str, apart: Set[str] = frozenset()) -> Fleet:
    """Return the draft if its network is connected; otherwise name a link that would help, other than `apart`."""
    parts = [[fleet.member(agent).name for agent in part] for part in fleet.roster.parts()]
    if len(parts) > 1:
        listed = "; ".join(", ".join(part[:5]) + (", ..." if len(part) > 5 else "") for part in parts[:5])
        pairs = itertools.product(parts[0], parts[1])
        a, b = next((pair for pair in pairs if {*pair} != apart), (parts[0][0], parts[1][0]))
        raise InvalidRoster(
            f"{what} would cut the network into {len(parts)} parts ({listed}); link them first, for example with "
            f"`gossamer fleet link {a} {b}`"
        )
    return fleet


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot remove {path}: {error.strerror}") from error
