"""The status of an agent: the file status/NAME.json beside fleet.toml, written by the agent and read by anyone.

The agent writes it as often as it plays rounds, but at most twice a second and at least every 5 seconds, and the file
says how often. `gossamer fleet up` reads nothing else; `gossamer fleet status` also asks agents of other hosts for
their metrics, which say the same.
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
from typing import Any

from gossamer.agents import files
from gossamer.agents.config.tables import Member
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.snapshot import Snapshot
from gossamer.agents.sources.kinds import AnySource
from gossamer.agents.statistics.base import Membership, number, shown
from gossamer.errors import InvalidInput
from gossamer.fingerprint import full_version

log = logging.getLogger("gossamer.agents.host.status")

STATUS = "status"
"""The folder of the status files, beside fleet.toml."""

STALE = 2.0
"""Seconds after which a status is old, beyond twice the time between two of them."""

_OFTEN, _SELDOM = 0.5, 5.0

_HARMLESS = ("late", "stale")
"""Reasons for which an honest neighbor's message may be dropped; any other is worth a look."""

_CALM = ("alone", "degraded", "starting", "stopped", "unknown", "running")
"""States from bad to good. All others are worse, and say themselves what happened."""


# -- writing -----------------------------------------------------------------------------------------------


class StatusFile:
    """Writes the latest snapshot to a small file, replaced as a whole, so that a reader never sees half of one."""

    def __init__(
        self,
        path: Path,
        name: str,
        source: AnySource,
        pace: float | None = None,
        restarts: int = 0,
        certificate_end: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self.every = cadence(pace)
        self._path = path
        self._name = name
        self._source = source
        self._certificate_end = certificate_end
        self._process = {"pid": os.getpid(), "restarts": restarts, "version": full_version()}
        self._failed = False

    def pause(self, age: float) -> float:
        """Seconds until the next status of an agent that has run for so long: shorter at first, when there is news."""
        return min(self.every, max(age, _OFTEN))

    def write(self, snapshot: Snapshot) -> None:
        line = status_line(snapshot, self._name, self._source, self._certificate_end())
        content = json.dumps({**line, **self._process, "every": self.every})
        try:
            files.make_folder(self._path.parent)
            files.replace(self._path, content)
        except (OSError, InvalidInput) as error:
            if not self._failed:
                log.warning(
                    "%s cannot be written (%s), so `gossamer fleet status` cannot see this agent",
                    self._path,
                    getattr(error, "strerror", None) or error,
                )
            self._failed = True


def cadence(pace: float | None) -> float:
    """Seconds between two statuses of an agent with this pace."""
    return min(max(pace or 0.0, _OFTEN), _SELDOM)


def estimate_line(snapshot: Snapshot, name: str, source: AnySource) -> dict[str, Any]:
    """What an agent prints on standard output: its answer, and how good it is."""
    line: dict[str, Any] = {
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
) -> dict[str, Any]:
    """What an agent writes to its status file: the estimate, and everything an operator asks for."""
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
    """The largest of the numbers that are known, if any is."""
    known = [value for value in values if math.isfinite(value)]
    return max(known) if known else None


# -- reading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AgentStatus:
    """The state of one agent, as far as this machine knows.

    state   "running", "degraded" (see `Snapshot.state`; `problem` says why), "alone" (it hears no neighbor),
            "stopped", "silent" (its status is old), "gone" (its process has ended), "unreachable" (its metrics cannot
            be read) or "unknown" (never seen here); an agent that this process started can also be "starting",
            "exit 2" or "SIGKILL"
    epoch   of the roster that it follows; 0: unknown
    certificate_expires   when its certificate does, in seconds since 1970; None: it has none, or unknown
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


def worst_first(status: Iterable[AgentStatus]) -> list[AgentStatus]:
    """Agents in trouble first, the worst trouble before the others; then by rejected messages, then by distance."""

    def badness(agent: AgentStatus) -> tuple[Any, ...]:
        calm = _CALM.index(agent.state) if agent.state in _CALM else -1
        return calm, -agent.rejected, -(agent.distance or 0.0), agent.member.id

    return sorted(status, key=badness)


def interpret(member: Member, found: dict[str, Any]) -> AgentStatus:
    """The state of an agent from what its status file holds, or from the same read from its metrics."""
    alone = found["state"] == "running" and not found["neighbors_alive"]
    return AgentStatus(
        member,
        "alone" if alone else found["state"],
        rounds=found["rounds"],
        samples=found["samples"],
        estimate=_tuple(found["estimate"]),
        standard_error=_tuple(found["standard_error"]),
        distance=found["distance"],
        sent=found["sent"],
        received=found["received"],
        lost=found["lost"],
        rejected=sum(n for reason, n in found["rejected"].items() if reason not in _HARMLESS),
        restarts=found.get("restarts", 0),
        problem=found["problem"],
        epoch=found.get("epoch", 0),
        certificate_expires=found.get("certificate_expires"),
        details=found,
    )


def read_status(fleet: Fleet, directory: Path, now: float | None = None) -> list[AgentStatus]:
    """Read every agent's status file; the state of agents on other machines is unknown here."""
    return [_read(member, directory / STATUS / f"{member.name}.json", now) for member in fleet.agents]


def _read(member: Member, path: Path, now: float | None) -> AgentStatus:
    try:
        found = json.loads(path.read_text())
        status = interpret(member, found)
        age = (time.time() if now is None else now) - found["at"]
        if status.state != "stopped" and not _exists(found["pid"]):
            return replace(status, state="gone")
        return (
            replace(status, state="silent")
            if status.state != "stopped" and age > STALE + 2 * found.get("every", _OFTEN)
            else status
        )
    except FileNotFoundError:
        return AgentStatus(member, "unknown")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return AgentStatus(member, "unknown", problem=f"{path} cannot be read ({type(error).__name__})")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _tuple(value: Any) -> tuple[float | None, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
