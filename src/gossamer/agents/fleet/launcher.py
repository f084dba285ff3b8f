"""All agents of a fleet on this machine: starting them, reading how they are, stopping them.

Each agent is a process of its own (see run.py) that reads a pipe from this one: when this process ends, however
it ends, the pipes close and the agents stop.  What is known of a running agent comes from its status file, so
`gossamer fleet status` sees the same as `gossamer fleet up`, from another terminal too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from gossamer.agents.fleet.file import Fleet, Member
from gossamer.agents.host.process import STATUS, Options, claim
from gossamer.errors import InvalidInput, OutputError

LOGS = "logs"
STALE = 3.0
"""Seconds after which a status is old: a running agent writes it twice a second."""

_HARMLESS = ("late", "stale")
"""Reasons for which an honest neighbor's message may be dropped; any other is worth a look."""

_PATIENCE = 5.0
"""Seconds an agent gets to stop by itself."""


@dataclass(frozen=True)
class AgentStatus:
    """How one agent is, as far as this machine knows.

    state   "running", "degraded" (its store cannot be written, or its source failed), "alone" (it hears no neighbor),
            "stopped", "silent" (its status is old), "gone" (its process is not there) or "unknown" (never seen
            here); of an agent that this process started also "starting", "exit 2" or "SIGKILL"
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
    problem: str = ""
    details: dict[str, Any] = field(default_factory=dict, repr=False)


def read_status(fleet: Fleet, directory: Path, now: float | None = None) -> list[AgentStatus]:
    """Read every agent's status file; agents that run on other machines are unknown here."""
    return [_status(member, directory / STATUS / f"{member.name}.json", now) for member in fleet.agents]


def _status(member: Member, path: Path, now: float | None) -> AgentStatus:
    try:
        found = json.loads(path.read_text())
        age = (time.time() if now is None else now) - found["at"]
        state = found["state"]
        if state != "stopped" and not _exists(found["pid"]):
            state = "gone"
        elif state != "stopped" and age > STALE:
            state = "silent"
        elif state == "running" and not found["neighbors_alive"]:
            state = "alone"
        return AgentStatus(
            member,
            state,
            rounds=found["rounds"],
            samples=found["samples"],
            estimate=_tuple(found["estimate"]),
            standard_error=_tuple(found["standard_error"]),
            distance=found["distance"],
            sent=found["sent"],
            received=found["received"],
            lost=found["lost"],
            rejected=sum(n for reason, n in found["rejected"].items() if reason not in _HARMLESS),
            problem=found["problem"],
            details=found,
        )
    except FileNotFoundError:
        return AgentStatus(member, "unknown")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return AgentStatus(member, "unknown", problem=f"{path} cannot be understood ({type(error).__name__})")


class LocalFleet:
    """The agents of a fleet that run on this machine, as processes of this one.

        with LocalFleet(path, options) as agents: ...

    Options are those of one agent (see `run.Options`), the same for all; `only` says which agents to start,
    as in "0-3,7" or "pump,valve". `killed` names those that did not stop by themselves.
    """

    def __init__(self, path: Path, only: str | None = None, **options: Any) -> None:
        self.path = path
        self.fleet = Fleet.read(path)
        self.members = self.fleet.agents if only is None else self.fleet.some(only)
        self.killed: list[str] = []
        self._options = options
        self._claims: dict[int, int] = {}  # locks taken for agents that are not started yet
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._files: list[IO[bytes]] = []
        if options.get("source") == "-" or (
            options.get("source") is None and any(member.source == "-" for member in self.members)
        ):
            raise InvalidInput(
                "`fleet up` cannot feed standard input to many agents; set `source` in fleet.toml, "
                "give --source, or run each agent by itself with `gossamer agent`"
            )
        first, last = options.get("metrics_port", 0), max(member.id for member in self.members)
        if first and not 1 <= first <= 65535 - last:
            raise InvalidInput(
                f"--metrics-port is the port of agent 0, and agent {last}'s is {last} above it, so it must be "
                f"from 1 to {65535 - last}, got {first}"
            )

    def __enter__(self) -> LocalFleet:
        try:
            for member in self.members:
                self._claim(member)
            for member in self.members:
                self._start(member)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _claim(self, member: Member) -> None:
        try:
            self._claims[member.id] = claim(self.path.parent, member.name)
        except OSError as error:
            raise OutputError(f"cannot write into {self.path.parent / STATUS}: {error.strerror}") from error

    def _start(self, member: Member) -> None:
        directory = self.path.parent / LOGS
        held = self._claims[member.id]
        options = Options(
            fleet=str(self.path.resolve()),
            agent=member.name,
            guarded=True,
            claim=held,
            **self._own(member.id),
        )
        try:
            directory.mkdir(exist_ok=True)
            (self.path.parent / STATUS / f"{member.name}.json").unlink(missing_ok=True)
            output = (directory / f"{member.name}.jsonl").open("wb")
            self._files.append(output)
            errors = (directory / f"{member.name}.log").open("wb")
            self._files.append(errors)
        except OSError as error:
            raise OutputError(f"cannot write logs into {directory}: {error.strerror}") from error
        self._processes[member.id] = subprocess.Popen(
            [sys.executable, "-m", "gossamer.agents.host.process", options.text()],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            # In a session of its own, so that Ctrl-C reaches this process alone, which then stops them all.
            start_new_session=True,
            pass_fds=(held,),
        )
        os.close(self._claims.pop(member.id))  # from now on it is the agent's

    def _own(self, agent: int) -> dict[str, Any]:
        """The options of one agent: ports for metrics follow each other."""
        options = dict(self._options)
        if options.get("metrics_port"):
            options["metrics_port"] += agent
        return options

    @property
    def pids(self) -> dict[int, int]:
        """The process of each agent that was started."""
        return {agent: process.pid for agent, process in self._processes.items()}

    def running(self) -> int:
        """How many agents still run."""
        return sum(process.poll() is None for process in self._processes.values())

    def status(self) -> list[AgentStatus]:
        """How the agents of this fleet are; one that ended by itself says so."""
        found = []
        for status in read_status(self.fleet, self.path.parent):
            process = self._processes.get(status.member.id)
            if process is None and self._processes:
                continue
            code = None if process is None else process.poll()
            if code is not None and status.state != "stopped":
                status = replace(status, state=_ending(code), problem=self._last_error(status.member))
            elif status.state == "unknown" and process is not None:
                status = replace(status, state="starting")
            found.append(status)
        return found

    def _last_error(self, member: Member) -> str:
        """The last thing an agent complained about in its log."""
        log = self.path.parent / LOGS / f"{member.name}.log"
        try:
            lines = log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        for line in reversed(lines):
            try:
                entry = json.loads(line)
                if entry["level"] in ("error", "critical"):
                    return str(entry["message"])
            except (ValueError, KeyError, TypeError):
                return line
        return ""

    def stop(self) -> None:
        """Stop all agents: politely, then, after a few seconds, by force."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE
        for agent, process in self._processes.items():
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.killed.append(self.fleet.agents[agent].name)
            if process.stdin is not None:
                process.stdin.close()
        for file in self._files:
            file.close()
        while self._claims:
            os.close(self._claims.popitem()[1])


def _ending(code: int) -> str:
    """How a process ended: its exit code, or the signal that killed it."""
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name


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
