"""One member of the fleet in chaos: its process, what it has been given to observe, and what it owes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gossamer.agents.config.tables import Member
from gossamer.agents.host.options import Options
from gossamer.faults import Loss

RESUMED = re.compile(r"resumed with (\d+) observations")
SET_ASIDE = re.compile(r"is damaged \(.*was set aside as")
WARM = 10.0
"""Seconds after its first round in which a process has loaded all that it will load."""


class ChaosMember:
    """An agent that runs as a process of its own, as `gossamer agent` makes it.

    Every other member follows a file to which this program adds rows: all of them must be used once, whatever happens.
    The others read a command that repeats one number: what was acknowledged must survive.
    """

    def __init__(self, place: Member, folder: Path, data: Path, mean: float, loss: float) -> None:
        self.id, self.name, self.endpoint = place.id, place.name, place.endpoint
        self.folder, self.mean = folder, mean
        self.file = data / f"{self.name}.csv" if self.id % 2 == 0 else None
        self.rows = 0
        self.total = 0.0
        self.owed = 0  # observations that the store must hold
        self.restarts = 0
        self.complaints: list[str] = []
        self.megabytes = 0.0  # of memory that its process had last
        self._warm: float | None = None  # MB that it had when it was warm
        self.growth = 0.0
        self.low, self.high = mean, mean  # of what it has been given
        self.rounds_seen = 0  # in its newest status, across restarts
        self.told: list[float] = []  # its least and its largest estimate
        self.loss = loss
        self.process: subprocess.Popen[bytes] | None = None
        self._read = 0  # bytes of the log that were read
        self._up: float | None = None  # when its process was seen to be up
        if self.file is not None:
            self.file.write_text("")

    @property
    def store(self) -> Path:
        return self.folder / "store" / f"{self.name}.sqlite"

    @property
    def log(self) -> Path:
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def average(self) -> float:
        """The exact mean of what it has been given."""
        return self.total / self.rows if self.file is not None else self.mean

    def feed(self) -> None:
        """A row more for a file that is followed: eighths, so that their sum is exact."""
        if self.file is not None:
            value = self.mean + (self.rows % 9 - 4) / 8
            with self.file.open("a") as file:
                file.write(f"{value}\n")
            self.rows += 1
            self.total += value
            self.low, self.high = min(self.low, value), max(self.high, value)

    def look(self) -> None:
        """Note its rounds, its estimate if it is an extreme one, and when it was seen to be up."""
        status = self.status()
        if self._up is None and self.process is not None and status.get("pid") == self.process.pid:
            self._up = time.monotonic()
        self.rounds_seen = status.get("rounds", self.rounds_seen)
        if (estimate := status.get("estimate")) is not None:
            self.told = [min([*self.told, estimate]), max([*self.told, estimate])]

    # -- the process ------------------------------------------------------------------------------------------

    def start(self) -> None:
        constant = f"cmd:while echo {self.mean}; do sleep 1; done"
        source = constant if self.file is None else f"csv:{self.file},follow"
        options = Options(
            fleet=str(self.folder / "fleet.toml"),
            agent=self.name,
            source=source,
            store=str(self.folder / "store"),
            report=10.0,
            faults=(str(Loss(self.loss)),) if self.loss else (),
        )
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as errors, self.log.with_suffix(".jsonl").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gossamer.agents.host.process", options.text()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
        self.began = time.monotonic()
        self._up = None
        self._warm = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def up(self) -> bool:
        """Whether this process has its store, and plays rounds: on a busy machine that takes a while."""
        return self.running and self.process is not None and self.status().get("pid") == self.process.pid

    def give(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """kill -9, after a note of what it has acknowledged."""
        self.settle()  # with what was owed when it was started
        status = self.status()
        self.weigh()
        assert self.process is not None
        if status.get("pid") == self.process.pid:
            self.owed = max(self.owed, int(status["acknowledged"]))
        self.give(signal.SIGKILL)
        self.process.wait()

    def dismiss(self) -> None:
        """Tell it to stop."""
        if self.running:
            self.give(signal.SIGCONT)
            self.give(signal.SIGTERM)

    def stop(self) -> None:
        """Wait for its end."""
        if self.process is not None:
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def status(self) -> dict[str, Any]:
        """Its status file; empty if it has none, or if a hostile one is in its place."""
        try:
            found = json.loads((self.folder / "status" / f"{self.name}.json").read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) and "pid" in found else {}

    def settle(self) -> None:
        """Read what the log says since the last time: what a restart has kept, and whether a store was damaged."""
        text = self.log.read_bytes()[self._read :]
        self._read += len(text)
        for line in text.decode(errors="replace").splitlines():
            if SET_ASIDE.search(line):
                self.owed = 0
            elif found := RESUMED.search(line):
                self.restarts += 1
                if int(found[1]) < self.owed:
                    self.complaints.append(
                        f"resumed with {found[1]} observations, but {self.owed} were acknowledged"
                    )
            if "Traceback" in line:
                self.complaints.append(f"a traceback in its log: {line[:300]}")

    # -- what it costs -----------------------------------------------------------------------------------------

    def weigh(self) -> None:
        """Note the memory of the process, and how much it has grown since it was warm."""
        if not self.running or self.process is None:
            return
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        if "VmRSS:" not in text:  # it is just ending
            return
        self.megabytes = int(text.partition("VmRSS:")[2].split()[0]) / 1024
        if self._up is not None and time.monotonic() > self._up + WARM:
            self._warm = self.megabytes if self._warm is None else self._warm
            self.growth = max(self.growth, self.megabytes - self._warm)
