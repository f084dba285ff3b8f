"""The status of an agent as JSON: in the file status/NAME.json next to fleet.toml, and served as /status (`web.py`).

The agent writes the file as often as it plays rounds, but at most twice a second and at least every 5 seconds, and the
file says how often. `gossamer fleet up` reads only these files; `gossamer fleet status` also asks agents of other hosts
for their /status, which has the same content.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gossamer.agents import files
from gossamer.agents.config.settings import LARGEST_COUNT
from gossamer.agents.config.tables import Member
from gossamer.agents.host.hangup import process_exists
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.round.wire import Reason
from gossamer.agents.snapshot import Snapshot
from gossamer.agents.sources.kinds import AnySource
from gossamer.agents.statistics.statistic import Membership, number, shown
from gossamer.agents.text import all_printable
from gossamer.errors import InvalidInput, require
from gossamer.fingerprint import full_version

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

log = logging.getLogger("gossamer.agents.host.status")

STATUS = "status"
"""The folder of the status files, next to fleet.toml."""

STALE = 2.0
"""Seconds beyond twice its period after which a status file is old."""

_SKEW = 3600.0
"""Seconds by which a status file may be ahead of the clock, which may have been set back."""

_OFTEN, _SELDOM = 0.5, 5.0

LONGEST = 4_000_000
"""Largest status in bytes; an agent with a thousand neighbors writes a tenth of it."""

_HARMLESS = ("late", "stale")
"""Reasons for which an honest neighbor's message may be dropped; any other deserves attention."""

_CALM = ("alone", "degraded", "starting", "stopped", "unknown", "running")
"""States from bad to good. All others are worse and say themselves what happened."""


# -- writing -----------------------------------------------------------------------------------------------


class StatusReport:
    """Makes the status of a running agent, for its status file and for /status.

    every  seconds between two statuses
    """

    def __init__(
        self,
        name: str,
        source: AnySource,
        pace: float | None = None,
        restarts: int = 0,
        certificate_end: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self.every = cadence(pace)
        self._name = name
        self._source = source
        self._certificate_end = certificate_end
        self._process = {"pid": os.getpid(), "restarts": restarts, "version": full_version()}

    def content(self, snapshot: Snapshot) -> str:
        """Return the status as JSON."""
        line = status_line(snapshot, self._name, self._source, self._certificate_end())
        return json.dumps({**line, **self._process, "every": self.every})

    def pause(self, age: float) -> float:
        """Seconds until the next status of an agent that has run for `age` seconds: shorter at first."""
        return min(self.every, max(age, _OFTEN))


class StatusFile:
    """Writes the status to a file, replaced as a whole, so that a reader never sees half of one."""

    def __init__(self, path: Path, report: StatusReport) -> None:
        self.report = report
        self._path = path
        self._failed = False

    def write(self, snapshot: Snapshot) -> None:
        try:
            files.make_folder(self._path.parent)
            files.replace(self._path, self.report.content(snapshot))
        except (OSError, InvalidInput) as error:
            if not self._failed:
                log.warning(
                    "%s cannot be written (%s), so `gossamer fleet status` cannot see this agent",
                    self._path,
                    getattr(error, "strerror", None) or error,
                )
            self._failed = True


def cadence(pace: float | None) -> float:
    """Seconds between two statuses of an agent with this pace (seconds per round)."""
    return min(max(pace or 0.0, _OFTEN), _SELDOM)


def estimate_line(snapshot: Snapshot, name: str, source: AnySource) -> dict[str, object]:
    """Return the line that an agent prints on standard output: its answer and accuracy."""
    line: dict[str, object] = {
        "time": datetime.fromtimestamp(snapshot.time, UTC).isoformat(timespec="milliseconds"),
        "agent": snapshot.agent,
        "name": name,
        "round": snapshot.round,
        "samples": snapshot.samples,
        "estimate": shown(snapshot.estimate),
        "standard_error": shown(snapshot.standard_error),
    }
    line |= snapshot.answers.entries(Membership(snapshot.members, snapshot.inherited))
    line["distance"] = largest([n.distance for n in snapshot.neighbors if n.state == "alive"])
    line["neighbors_alive"] = sum(n.state == "alive" for n in snapshot.neighbors)
    line["state"] = snapshot.state
    line["settled"] = snapshot.settled
    line["participating"] = snapshot.participating
    if source.bad:
        line["bad_observations"] = source.bad
    if snapshot.clipped:
        line["clipped_observations"] = snapshot.clipped
    return line


def status_line(
    snapshot: Snapshot, name: str, source: AnySource, certificate_end: datetime | None = None
) -> dict[str, object]:
    """Return the status of an agent: its estimate, and the facts that an operator needs."""
    return {
        **estimate_line(snapshot, name, source),
        "at": snapshot.time,
        "epoch": snapshot.epoch,
        "members": snapshot.members,
        "certificate_expires": None if certificate_end is None else certificate_end.timestamp(),
        "rounds": snapshot.age,
        "acknowledged": snapshot.acknowledged,
        "presence": number(snapshot.answers.presence),
        "problem": snapshot.problem or source.last_problem,
        "sent": snapshot.sent,
        "received": snapshot.received,
        "rejected": dict(snapshot.rejected),
        "lost": sum(n.lost for n in snapshot.neighbors),
        "neighbors": {
            n.name: {
                "state": n.state,
                "distance": number(n.distance),
                "round_trip": number(n.round_trip),
                "lost": n.lost,
                "late": n.late,
                "last_heard": number(n.last_heard),
                "epoch": n.epoch,
            }
            for n in snapshot.neighbors
        },
    }


def largest(values: list[float]) -> float | None:
    """Return the largest of the finite numbers; None if there is none."""
    known = [value for value in values if math.isfinite(value)]
    return max(known) if known else None


# -- reading -----------------------------------------------------------------------------------------------

Number = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
ProcessNumber = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Period = Annotated[float, msgspec.Meta(gt=0, le=60)]
Names = Annotated[list[str], msgspec.Meta(max_length=1000)]
Component = Number | None
"""None: not known yet."""


class NeighborStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's report on a neighbor (see `NeighborView`)."""

    state: str = ""
    distance: Number | None = None
    round_trip: Number | None = None
    lost: Count = 0
    late: Count = 0
    last_heard: Number | None = None
    epoch: Count = 0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an agent, as its file and /status give it (`docs/reference/status.md`).

    The statistics of a fleet add keys of their own, of which only the texts are checked.
    """

    at: Number
    state: Literal["running", "degraded", "stopped"]
    rounds: Count
    samples: Count
    estimate: Component | list[Component]
    standard_error: Component | list[Component]
    distance: Number | None
    neighbors_alive: Count
    sent: Count
    received: Count
    lost: Count
    rejected: dict[Reason, Count]
    problem: str
    neighbors: dict[str, NeighborStatus] = msgspec.field(default_factory=dict)
    coefficients: Names = msgspec.field(default_factory=list)
    name: str = ""
    settled: bool = True
    epoch: Count = 0
    restarts: Count = 0
    certificate_expires: Number | None = None
    pid: ProcessNumber = 0
    every: Period = _OFTEN

    @classmethod
    def parse(cls, content: bytes) -> tuple[Status, dict[str, Any]]:
        """The status in JSON text, and everything that the text says; raises InvalidInput for any other content."""
        try:
            details = all_printable(msgspec.json.decode(content))  # which refuses NaN and infinities
            return msgspec.convert(details, cls), details
        except (ValueError, RecursionError) as error:  # of which msgspec's errors are a kind
            raise InvalidInput(f"not the status of an agent ({error})") from None


# msgspec examines a class at its first use, which crashes if two threads do it at once: do it while importing.
msgspec.json.Decoder(Status)


@dataclass(frozen=True)
class AgentStatus:
    """The state of one agent, as far as this machine knows.

    state   "running", "degraded" (see `Snapshot.state`; `problem` says why), "alone" (it hears no neighbor),
            "stopped", "silent" (its status is old), "gone" (its process has ended), "unreachable" (its status cannot
            be read) or "unknown" (never seen on this machine); an agent that this process started can also be
            "starting", "exit 2" or "SIGKILL"
    epoch   of the roster that it follows; 0 if unknown
    certificate_expires   in seconds since 1970; None if it has no certificate, or if unknown
    details   its status, with all keys; empty if unknown
    """

    member: Member
    state: str
    rounds: int = 0
    samples: int = 0
    estimate: tuple[float | None, ...] = ()
    standard_error: tuple[float | None, ...] = ()
    distance: float | None = None
    sent: int = 0
    received: int = 0
    lost: int = 0
    rejected: int = 0
    restarts: int = 0
    problem: str = ""
    epoch: int = 0
    certificate_expires: float | None = None
    details: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, member: Member, status: Status, details: dict[str, Any]) -> AgentStatus:
        """Return the state of a member whose status is known and fresh."""
        alone = status.state == "running" and not status.neighbors_alive
        return cls(
            member,
            "alone" if alone else status.state,
            rounds=status.rounds,
            samples=status.samples,
            estimate=_tuple(status.estimate),
            standard_error=_tuple(status.standard_error),
            distance=status.distance,
            sent=status.sent,
            received=status.received,
            lost=status.lost,
            rejected=sum(n for reason, n in status.rejected.items() if reason not in _HARMLESS),
            restarts=status.restarts,
            problem=status.problem,
            epoch=status.epoch,
            certificate_expires=status.certificate_expires,
            details=details,
        )


def worst_first(status: Iterable[AgentStatus]) -> list[AgentStatus]:
    """Sort by state, the worst first, then by rejected messages, then by distance."""

    def badness(agent: AgentStatus) -> tuple[int, int, float, int]:
        calm = _CALM.index(agent.state) if agent.state in _CALM else -1
        return calm, -agent.rejected, -(agent.distance or 0.0), agent.member.id

    return sorted(status, key=badness)


def read_status(fleet: Fleet, directory: Path, now: float | None = None) -> list[AgentStatus]:
    """Read the status file of every agent; agents of other machines are "unknown"."""
    return [_read(member, directory / STATUS / f"{member.name}.json", now) for member in fleet.agents]


def _read(member: Member, path: Path, now: float | None) -> AgentStatus:
    try:
        with files.open_regular(path) as file:
            status, details = Status.parse(file.read(LONGEST + 1))
    except FileNotFoundError:
        return AgentStatus(member, "unknown")
    except (OSError, InvalidInput) as error:
        reason = getattr(error, "strerror", None) or error
        return AgentStatus(member, "unknown", problem=f"{path} cannot be read: {reason}")
    agent = AgentStatus.of(member, status, details)
    if agent.state == "stopped":
        return agent
    if not process_exists(status.pid):
        return replace(agent, state="gone")
    age = (time.time() if now is None else now) - status.at
    fresh = -_SKEW <= age <= STALE + 2 * status.every
    return agent if fresh else replace(agent, state="silent")


def _tuple(value: Component | list[Component]) -> tuple[float | None, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
