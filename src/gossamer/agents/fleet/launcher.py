"""All agents of a fleet on this machine: starting them, watching them, stopping them.

Each agent runs in its own process (`host/process.py`), which reads a pipe from this one: however this process ends,
the pipes close and the agents stop. What is known of a running agent comes from its status file, so that
`gossamer fleet status` in another terminal sees the same as `gossamer fleet up`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from gossamer.agents.fleet.file import Fleet
from gossamer.agents.fleet.tables import Member
from gossamer.agents.host import files
from gossamer.agents.host.process import Options, claim
from gossamer.agents.host.status import STATUS, AgentStatus, read_status
from gossamer.errors import InvalidInput, OutputError

LOGS = "logs"
_PATIENCE = 5.0
"""Seconds an agent has to stop on its own."""


class LocalFleet:
    """The agents of a fleet that run on this machine, as child processes of this one.

        with LocalFleet(path, options) as agents: ...

    Options are those of one agent (see `process.Options`), the same for all except `metrics_port`, which is agent
    0's: agent i gets that port + i. `only` says which agents to start, as in "0-3,7" or "pump,valve". `killed` names
    those that did not stop on their own.
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
                "source must not be - (standard input) where one process starts many agents; give another source, "
                "set one in fleet.toml, or run each agent by itself with `gossamer agent`"
            )
        first, last = options.get("metrics_port", 0), max(member.id for member in self.members)
        if first and not 1 <= first <= 65535 - last:
            raise InvalidInput(
                f"metrics_port must be from 1 to {65535 - last}, because agent {last}'s port is {last} above it, "
                f"got {first}"
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
        fresh = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            files.make_folder(directory)
            (self.path.parent / STATUS / f"{member.name}.json").unlink(missing_ok=True)
            for end in (".jsonl", ".log"):
                descriptor = files.open_private(directory / f"{member.name}{end}", fresh)
                self._files.append(os.fdopen(descriptor, "wb"))
        except OSError as error:
            raise OutputError(f"cannot write logs into {directory}: {error.strerror}") from error
        self._processes[member.id] = subprocess.Popen(
            [sys.executable, "-m", "gossamer.agents.host.process", options.text()],
            stdin=subprocess.PIPE,
            stdout=self._files[-2],
            stderr=self._files[-1],
            # In its own session, so that Ctrl-C reaches this process alone, which then stops them all.
            start_new_session=True,
            pass_fds=(held,),
        )
        os.close(self._claims.pop(member.id))  # from now on the agent holds it

    def _own(self, agent: int) -> dict[str, Any]:
        """The options of one agent: metrics ports are consecutive."""
        options = dict(self._options)
        if options.get("metrics_port"):
            options["metrics_port"] += agent
        return options

    @property
    def pids(self) -> dict[int, int]:
        """The process of each agent that was started."""
        return {agent: process.pid for agent, process in self._processes.items()}

    def running(self) -> int:
        """How many agents are still running."""
        return sum(process.poll() is None for process in self._processes.values())

    def status(self) -> list[AgentStatus]:
        """The state of each agent of this fleet; one that ended on its own says so."""
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
        """The last error in an agent's log."""
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
        """Ask all agents to stop, and kill those that have not stopped after a few seconds."""
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
