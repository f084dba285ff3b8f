"""The agents of a fleet on this machine: starts, watches, restarts and stops them.

Every agent runs in its own process (`host/process.py`), forked from one that has imported everything
(`fork_server.py`): however this process ends, that one ends and so do the agents. The state of a running agent is read
from its status file, so that `gossamer fleet status` in another terminal sees the same as `gossamer fleet up`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gossamer.agents import files
from gossamer.agents.config.tables import Member, duration
from gossamer.agents.config.urls import Url
from gossamer.agents.fleet.fork_server import ForkServer
from gossamer.agents.host.hosting import claim
from gossamer.agents.host.logs import tail
from gossamer.agents.host.options import Options
from gossamer.agents.host.status import STATUS, AgentStatus, read_status
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.sources.backoff import Backoff
from gossamer.errors import GossamerError, InvalidInput, OutputError

LOGS = "logs"
_PATIENCE = 2.0
"""Seconds beyond `rounds.stop_timeout` in which an agent must stop, and in which it must end when it is killed."""

_WRONG_INPUT = 2
"""Exit code of an agent that would fail in the same way again."""


@dataclass
class _Child:
    """One agent: its process, the last exit code, and when it is restarted."""

    member: Member
    pid: int = 0
    code: int | None = None  # None while it runs
    began: float = 0.0
    due: float | None = None  # when it is restarted
    restarts: int = 0
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def runs(self) -> bool:
        return self.pid > 0 and self.code is None


class LocalFleet:
    """The agents of a fleet that run on this machine, each in a process of its own.

    The agents run inside the `with` statement and are stopped at its end.

    Parameters
    ----------
    path : path
        The file that describes the fleet, fleet.toml.
    only : str, optional
        Which agents to start, such as "0-3,7" or "pump,valve"; by default all.
    restart : bool
        Whether `supervise` restarts an agent that failed, after a growing delay, unless its input is wrong.
    **options
        Options of `gossamer agent`, the same for all agents: source, store (a directory), every (seconds between
        rounds), rounds, insecure, metrics_port (agent i serves its metrics on metrics_port + i) and others.

    Attributes
    ----------
    killed : list of str
        Names of the agents that had to be killed because they did not stop in time.

    See Also
    --------
    Fleet : The file that describes a fleet.
    running : One agent in the background of a program.

    Examples
    --------
    Four agents with simulated sensors, until all have played 100 rounds::

        folder = Path("fleet")
        folder.mkdir()
        path = gs.agents.Fleet.create(gs.Network.cycle(4)).write(folder)
        with gs.agents.LocalFleet(path) as agents:
            while min((agent.rounds for agent in agents.status()), default=0) < 100:
                agents.supervise()
                time.sleep(0.1)
            print([agent.estimate for agent in agents.status()])
    """

    def __init__(
        self, path: str | Path, only: str | None = None, *, restart: bool = True, **options: Any
    ) -> None:
        self.path = path = Path(path)
        self.fleet = Fleet.read(path, load=True)
        self.members = self.fleet.agents if only is None else self.fleet.some(only)
        self.killed: list[str] = []
        self._restart = restart
        self._options = options
        self._claims: dict[int, int] = {}  # locks held for agents that are not started yet
        self._children = {member.id: _Child(member) for member in self.members}
        self._fork_server: ForkServer | None = None
        given = options.get("source")
        if any(Url(given or member.source).kind == "-" for member in self.members):
            raise InvalidInput(
                "must not be - (standard input) if one process starts many agents; give another "
                "source, set one in fleet.toml, or run every agent with `gossamer agent`",
                parameter="source",
            )
        first, last = options.get("metrics_port"), max(member.id for member in self.members)
        if first and not 1 <= first <= 65535 - last:
            raise InvalidInput(
                parameter="metrics_port",
                required=f"from 1 to {65535 - last}, because agent {last}'s port is {last} above it",
                got=str(first),
            )

    def __enter__(self) -> LocalFleet:
        try:
            for child in self._children.values():
                self._claim(child.member)
            logs = self.path.parent / LOGS
            try:
                files.make_folder(logs)
                files.check(
                    logs / f"{member.name}{end}" for member in self.members for end in (".jsonl", ".log")
                )
            except OSError as error:
                raise OutputError(f"cannot write logs into {logs}: {error.strerror}") from error
            for child in self._children.values():
                self._start(child)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # -- starting ------------------------------------------------------------------------------------------

    def _claim(self, member: Member) -> None:
        try:
            self._claims[member.id] = claim(self.path.parent, member.name)
        except OSError as error:
            raise OutputError(f"cannot write into {self.path.parent / STATUS}: {error.strerror}") from error

    def _start(self, child: _Child) -> None:
        member = child.member
        if member.id not in self._claims:
            self._claim(member)
        if self._fork_server is not None and not self._fork_server.alive:
            self._fork_server.close()
            self._fork_server = None
        if self._fork_server is None:
            self._fork_server = ForkServer(self.path.resolve())
        (self.path.parent / STATUS / f"{member.name}.json").unlink(missing_ok=True)
        options = Options(
            fleet=str(self.path.resolve()),
            agent=member.name,
            guarded=True,
            logs=str((self.path.parent / LOGS).resolve()),
            restarts=child.restarts,
            **self._own(member.id),
        )
        held = self._claims.pop(member.id)
        try:
            child.pid = self._fork_server.start(options, held)
        finally:
            os.close(held)  # the agent holds it from now on
        child.code, child.due, child.began = None, None, time.monotonic()

    def _own(self, agent: int) -> dict[str, Any]:
        """Return the options of one agent, with its own metrics port."""
        options = dict(self._options)
        if options.get("metrics_port"):
            options["metrics_port"] += agent
        return options

    # -- watching ------------------------------------------------------------------------------------------

    def supervise(self) -> None:
        """Restart the agents that have ended, when their delay is over. Call this a few times per second."""
        self._look()
        for child in self._children.values():
            if child.due is not None and time.monotonic() >= child.due:
                child.restarts += 1
                try:
                    self._start(child)
                except (GossamerError, OSError):  # it already runs, or no process can be started now
                    child.restarts -= 1
                    child.due = time.monotonic() + child.backoff.after(0.0)

    def _look(self, wait: float = 0.0) -> None:
        if self._fork_server is None:
            return
        running = {child.pid: child for child in self._children.values() if child.runs}
        for pid, code in self._fork_server.ended(wait).items():
            if (child := running.get(pid)) is None:
                continue
            child.code = code
            if self._restart and code not in (0, _WRONG_INPUT):
                now = time.monotonic()
                child.due = now + child.backoff.after(now - child.began)

    @property
    def pids(self) -> dict[int, int]:
        """Process numbers of the agents that were started, by agent."""
        return {agent: child.pid for agent, child in self._children.items() if child.pid}

    @property
    def fork_server(self) -> int:
        """Number of the process that the agents are forked from; 0 before the first start."""
        return self._fork_server.pid if self._fork_server else 0

    def running(self) -> int:
        """Number of agents that are running."""
        self._look()
        return sum(child.runs for child in self._children.values())

    def missing(self) -> int:
        """Number of agents that are not running although they are members of the fleet."""
        self._look()
        members = {member.id for member in Fleet.read(self.path).agents}
        return sum(not child.runs and agent in members for agent, child in self._children.items())

    def active(self) -> int:
        """Number of agents that are running or will be restarted."""
        self._look()
        return sum(child.runs or child.due is not None for child in self._children.values())

    @property
    def restarts(self) -> dict[str, int]:
        """Number of restarts by name, of the agents that were restarted."""
        return {child.member.name: child.restarts for child in self._children.values() if child.restarts}

    def status(self) -> list[AgentStatus]:
        """The states of the agents that were started: rounds, estimate, standard_error, state, problem and more."""
        self._look()
        states = []
        for status in read_status(self.fleet, self.path.parent):
            child = self._children.get(status.member.id)
            if child is None or not child.pid:
                continue
            if child.code is not None and status.state != "stopped":
                status = replace(status, state=_ending(child.code), problem=self._last_error(status.member))
            elif child.runs and status.state == "unknown":
                status = replace(status, state="starting")
            states.append(replace(status, restarts=child.restarts))
        return states

    def _last_error(self, member: Member) -> str:
        """Return the last error in an agent's log."""
        try:
            lines = tail(self.path.parent / LOGS / f"{member.name}.log")
        except (OSError, InvalidInput):
            return ""
        for line in reversed(lines):
            try:
                entry = json.loads(line)
                if entry["level"] in ("error", "critical"):
                    return str(entry["message"])
            except (ValueError, KeyError, TypeError):
                return line
        return ""

    # -- signals and stopping ------------------------------------------------------------------------------

    def reload(self) -> None:
        """Make every agent read fleet.toml again."""
        self._send(signal.SIGHUP)

    def _send(self, number: int) -> None:
        for child in self._children.values():
            if child.runs and self._fork_server is not None:
                self._fork_server.send(child.pid, number)

    def stop(self) -> None:
        """Ask all agents to stop, and kill those that have not stopped in time."""
        self._restart = False
        self._look()
        for child in self._children.values():
            child.due = None
        self._send(signal.SIGTERM)
        self._wait(duration("rounds.stop_timeout", self.fleet.rounds.stop_timeout) + _PATIENCE)
        self.killed += [child.member.name for child in self._children.values() if child.runs]
        self._send(signal.SIGKILL)
        self._wait(_PATIENCE)
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None
        while self._claims:
            os.close(self._claims.popitem()[1])

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.running() and (left := deadline - time.monotonic()) > 0:
            self._look(left)


def _ending(code: int) -> str:
    """Return how a process ended: "exit" and its code, or the signal that killed it."""
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name
