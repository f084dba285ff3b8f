"""The commands of the tutorial "A fleet, from zero to monitoring", as they stand on the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.small_fleets import free_ports
from tests.support.terminal import ROOT, Terminal
from tests.support.waiting import PATIENCE, until


class Terminals(Terminal):
    """A folder to follow the tutorial in: commands run one after the other, agents in terminals of their own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.agents: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, block: str, code: int = 0) -> str:
        """What a block prints. Where an agent is slow to answer (exit code 1) it is tried again."""

        def tried() -> bool:
            nonlocal done
            done = self.ended(block)
            return done.returncode != 1

        done: subprocess.CompletedProcess[str]
        until(tried, f"the end of {block}")
        assert done.returncode == code, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout

    def open(self, block: str) -> None:
        """Start an agent in a terminal of its own."""
        name = re.findall(r"--id (\w+)", block)[0]
        # What it printed before a restart does not count.
        (self.folder / f"{name}.log").unlink(missing_ok=True)
        self.agents[name] = self.start(f"exec {block}", f"{name}.log")

    def kill(self, name: str) -> None:
        agent = self.agents.pop(name)
        agent.send_signal(signal.SIGKILL)
        agent.wait()

    def estimate(self, name: str) -> float | None:
        """The newest one that an agent has printed."""
        lines = (self.folder / f"{name}.log").read_text().rpartition("\n")[0].splitlines()
        found = [json.loads(line).get("estimate") for line in lines if line.startswith("{")]
        return next((value for value in reversed(found) if value is not None), None)

    def all_say(self, value: float) -> None:
        def agreed() -> bool:
            seen = [self.estimate(name) for name in self.agents]
            return all(v is not None and abs(v - value) < 0.1 for v in seen)

        self.wait(agreed, f"all of {list(self.agents)} saying {value}")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        def checked() -> bool:
            for name, agent in self.agents.items():
                assert agent.poll() is None, (self.folder / f"{name}.log").read_text()
            return condition()

        until(checked, what)

    def stop(self) -> None:
        for agent in self.agents.values():
            agent.terminate()
        for agent in self.agents.values():
            try:
                agent.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(agent.pid, signal.SIGKILL)
                agent.wait()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Terminals]:
    terminals = Terminals(tmp_path)
    yield terminals
    terminals.stop()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 without being told")
@pytest.mark.skipif(not shutil.which("bash"), reason="the tutorial is written for bash")
def test_the_tutorial_does_what_it_says(here):
    page = (ROOT / "docs" / "tutorials" / "fleet.md").read_text(encoding="utf-8")
    for fixed, free in zip(("7447", "9464"), free_ports(2), strict=True):
        page = page.replace(fixed, str(free))
    install, init, folders, pump, valve, tank, watch, grow = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert install.startswith("pip install ")

    here.run(init)
    here.run(folders)
    for agent in (tank, pump, valve):  # "in any order"
        here.open(agent)
    here.all_say(3.0)

    if not shutil.which("curl"):
        watch = re.sub("(?m)^curl .*", "", watch)
    seen = here.run(watch)
    assert "3 running" in seen
    assert not shutil.which("curl") or ('gossamer_estimate{agent="pump"' in seen and seen.endswith("ok\n"))

    here.kill("tank")
    here.all_say(1.5)
    here.open(tank)
    here.all_say(3.0)
    assert "resumed" in (here.folder / "tank.log").read_text()

    for command in re.split(r"\n(?=gossamer )", grow):
        here.run(command)
    here.run(folders.replace("pump valve tank", "press"))
    here.open(pump.replace("pump", "press").replace("echo 1", "echo 7"))
    here.all_say(4.0)
