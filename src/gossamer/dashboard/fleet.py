"""A fleet as its agents describe it: their current states and their history.

One reader serves all pages: it reads what agents publish (`agents/fleet/survey.py`) at its own pace, whether one page
is open or twenty. It contacts an agent only to read its status.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossamer.agents.config.settings import check_endpoint
from gossamer.agents.fleet.survey import SPEAKING, notes, summary, survey
from gossamer.agents.host.status import AgentStatus
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.roster import roster_path
from gossamer.arrays import Floats
from gossamer.dashboard.history import History
from gossamer.errors import GossamerError

WINDOW = 5.0
"""Seconds over which rates are computed; longer if agents publish less often."""

CROWD = 5
"""If the same thing happens to more agents than this at once, it is reported as one event."""

_LEFT, _JOINED = "left the fleet", "joined the fleet"
_CALM = ("running", "stopped", "unknown", _LEFT, _JOINED)

EVENTS = 200
"""Number of recent changes that are kept."""

TIMEOUT = 1.0
"""Timeout in seconds for an agent on another host."""

SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
"""Quantiles over the agents: the whole range, the middle 80%, and the median."""

FACTS = (
    "time",
    "spread",
    *(f"{what}{share:g}" for what in ("estimate", "error", "rate") for share in SHARES),
)
"""Columns of the history of the whole fleet; refused messages by reason follow them."""

LINKS = ("unknown", "alive", "joining", "silent", "stopped", "dead", "quarantined")
"""States that agents report for a neighbor, from good to bad."""


class Reading(NamedTuple):
    """Counters that an agent published at one time."""

    at: float
    rounds: int
    lost: Mapping[str, int]
    refused: Mapping[str, int]

    @classmethod
    def of(cls, agent: AgentStatus) -> Reading:
        details = agent.details
        lost = {name: neighbor.get("lost", 0) for name, neighbor in details.get("neighbors", {}).items()}
        return cls(details["at"], agent.rounds, lost, details["rejected"])


class Recent:
    """The counters of one agent over the last seconds, for rates."""

    def __init__(self) -> None:
        self._readings: deque[Reading] = deque()

    def add(self, reading: Reading) -> None:
        readings = self._readings
        if readings and reading.rounds < readings[-1].rounds:  # the agent restarted
            readings.clear()
        if not readings or reading.at > readings[-1].at:
            readings.append(reading)
        while len(readings) > 2 and readings[1].at <= reading.at - WINDOW:
            readings.popleft()

    @property
    def rate(self) -> float:
        """Rounds per second."""
        return self._change(lambda reading: reading.rounds)

    def refused(self) -> dict[str, float]:
        """Refused messages per second, by reason."""
        reasons = self._readings[-1].refused if self._readings else {}
        return {why: self._change(lambda reading, why=why: reading.refused.get(why, 0)) for why in reasons}

    def loss(self, neighbor: str) -> float:
        """The share of the rounds in which nothing usable came from a neighbor."""
        if not self._readings or self.rate <= 0 or math.isnan(self.rate):
            return math.nan
        lost = self._change(lambda reading: reading.lost.get(neighbor, 0))
        return min(max(lost / self.rate, 0.0), 1.0)

    def _change(self, count: Callable[..., float]) -> float:
        """Return how much a counter grows per second; nan while that is unknown."""
        if len(self._readings) < 2:
            return math.nan
        first, last = self._readings[0], self._readings[-1]
        return max(float(count(last) - count(first)), 0.0) / (last.at - first.at)


class Change(NamedTuple):
    """An observed change: when it happened, to which agent, what it was, and whether it is bad."""

    time: float
    agent: str
    text: str
    bad: bool


@dataclass(frozen=True)
class FleetView:
    """The fleet at one moment.

    number     grows with every update
    agents     their states, in the order of the roster
    rates      rounds per second of each agent; nan if unknown or not running
    losses     share of rounds in which an agent missed a neighbor's message, by agent, then neighbor
    facts      the history of the whole fleet, (rows, columns); columns are FACTS, then `reasons`
    agents_over_time   (rows, 3, agents): estimate, standard error and rate of each
    problem    why the fleet's file cannot be used; empty if it can
    """

    number: int
    time: float
    fleet: Fleet
    agents: Sequence[AgentStatus]
    rates: Floats
    losses: Mapping[str, Mapping[str, float]]
    facts: Floats
    reasons: Sequence[str]
    agents_over_time: Floats
    events: Sequence[Change]
    notes: Sequence[str]
    summary: Mapping[str, Any]
    problem: str = ""


@dataclass
class FleetReader:
    """Observes a fleet repeatedly: `look` returns the newest view and updates the history.

    path       the fleet's file; it is read again when it or its roster changes
    addresses  addresses to query instead of those of the metrics in the file
    """

    path: Path
    addresses: Sequence[str] | None = None
    fleet: Fleet = field(init=False)
    _problem: str = ""
    _number: int = 0
    _stamp: tuple[object, ...] = ()
    _recent: dict[str, Recent] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)
    _reasons: list[str] = field(default_factory=list)
    _facts: History = field(default_factory=History)
    _by_agent: History = field(default_factory=History)
    _events: deque[Change] = field(default_factory=lambda: deque(maxlen=EVENTS))
    _order: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for address in self.addresses or ():
            check_endpoint("metrics", address)
        self._stamp = self._stamps()
        self.fleet = Fleet.read(self.path)

    def look(self) -> FleetView:
        """Return the current view of the fleet."""
        self._follow()
        agents = survey(self.fleet, self.path.parent, self.addresses, timeout=TIMEOUT)
        now = time.time()
        self._number += 1
        self._rearrange([agent.member.name for agent in agents])
        for agent in agents:
            if agent.state in SPEAKING:
                self._recent[agent.member.name].add(Reading.of(agent))
        self._tell(agents, now)
        rates = np.array([self._rate(agent) for agent in agents])
        said = summary(agents)
        self._remember(agents, rates, said["spread"], now)
        return FleetView(
            number=self._number,
            time=now,
            fleet=self.fleet,
            agents=agents,
            rates=rates,
            losses={agent.member.name: self._losses(agent) for agent in agents},
            facts=self._facts.rows(),
            reasons=tuple(self._reasons),
            agents_over_time=self._by_agent.rows(),
            events=tuple(self._events),
            notes=notes(agents),
            summary=said,
            problem=self._problem,
        )

    # -- the roster --------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Read the fleet's file again if it or its roster has changed; an invalid one is ignored."""
        if (stamp := self._stamps()) == self._stamp:
            return
        try:
            self.fleet, self._problem = Fleet.read(self.path), ""
        except (GossamerError, OSError) as error:
            self._problem = f"still showing epoch {self.fleet.epoch}: {error}"
        self._stamp = stamp

    def _stamps(self) -> tuple[object, ...]:
        return tuple(_stamp(path) for path in (self.path, roster_path(self.path)))

    def _rearrange(self, names: list[str]) -> None:
        """Make the history follow the current members, and forget former ones."""
        if names == self._order:
            return
        before = {name: k for k, name in enumerate(self._order)}
        self._by_agent.rearrange(np.array([before.get(name, -1) for name in names], dtype=np.int64))
        self._order = names
        self._recent = {name: self._recent.get(name) or Recent() for name in names}

    # -- what agents say ---------------------------------------------------------------------------

    def _rate(self, agent: AgentStatus) -> float:
        return self._recent[agent.member.name].rate if agent.state in SPEAKING else math.nan

    def _losses(self, agent: AgentStatus) -> dict[str, float]:
        if agent.state not in SPEAKING:
            return {}
        recent = self._recent[agent.member.name]
        return {name: recent.loss(name) for name in agent.details.get("neighbors", {})}

    def _tell(self, agents: Sequence[AgentStatus], now: float) -> None:
        """Record which agents joined, left or changed their state."""
        states = {agent.member.name: agent.state for agent in agents}
        events: dict[str, dict[str, str]] = {}  # what happened, to whom, and why
        if self._number > 1:
            events[_LEFT] = {name: "" for name in self._states if name not in states}
            events[_JOINED] = {name: "" for name in states if name not in self._states}
        for agent in agents:
            name, before = agent.member.name, self._states.get(agent.member.name)
            if agent.state != before and (before is not None or agent.state not in _CALM):
                events.setdefault(agent.state, {})[name] = agent.problem
        for what, whom in events.items():
            if len(whom) > CROWD:
                reasons = set(whom.values())
                whom = {f"{len(whom)} agents": reasons.pop() if len(reasons) == 1 else ""}
            for who, why in whom.items():
                self._events.append(Change(now, who, f"{what}: {why}" if why else what, what not in _CALM))
        self._states = states

    def _remember(
        self, agents: Sequence[AgentStatus], rates: Floats, spread: float | None, now: float
    ) -> None:
        """Add this moment to the history, without agents that publish nothing."""
        speaking = np.array([agent.state in SPEAKING for agent in agents])
        estimates, errors = (
            np.where(speaking, [_first(value) for value in values], np.nan)
            for values in ([a.estimate for a in agents], [a.standard_error for a in agents])
        )
        refused: dict[str, float] = {}
        for agent in agents:
            for why, rate in (
                self._recent[agent.member.name].refused().items() if agent.state in SPEAKING else ()
            ):
                refused[why] = refused.get(why, 0.0) + (0.0 if math.isnan(rate) else rate)
        if fresh := [why for why in refused if why not in self._reasons]:
            known = len(FACTS) + len(self._reasons)
            self._facts.rearrange(np.array([*range(known), *[-1] * len(fresh)]))
            self._reasons += fresh
        row = [now, math.nan if spread is None else spread]
        for values in (estimates, errors, rates):
            row += quantiles(values)
        self._facts.add(np.array(row + [refused.get(why, 0.0) for why in self._reasons]))
        self._by_agent.add(np.array([estimates, errors, rates]))


def quantiles(values: Floats) -> list[float]:
    """Return the quantiles SHARES of the known values; nan if there are none."""
    known = values[~np.isnan(values)]
    return np.quantile(known, SHARES).tolist() if len(known) else [math.nan] * len(SHARES)


def _first(values: tuple[float | None, ...]) -> float:
    return math.nan if not values or values[0] is None else values[0]


def _stamp(path: Path) -> object:
    try:
        about = path.stat()
    except OSError as error:
        return error.errno
    return about.st_mtime_ns, about.st_size, about.st_ino
