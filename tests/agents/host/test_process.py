"""One agent as a process: when it stops, and how."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.support.small_fleets import free_ports
from tests.support.waiting import PATIENCE, until

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.config.tables import RoundsTable
from gossamer.agents.fleet.survey import ask
from gossamer.agents.host.options import Options
from gossamer.agents.host.reloading import Reloader
from gossamer.agents.host.status import read_status
from gossamer.agents.membership.changes import draft, publish, replace
from gossamer.agents.membership.fleet import Fleet
from gossamer.errors import InvalidInput
from gossamer.faults import Bursts, Delay, Loss, Partition
from gossamer.networks import Network


@pytest.fixture
def path(tmp_path: Path) -> Path:
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(2)]
    rounds = RoundsTable(every="0", timeout="10ms")
    return Fleet.create(Network.path(2), endpoints=endpoints, rounds=rounds).write(tmp_path)


def run(path: Path, *before: str, **options: Any) -> subprocess.CompletedProcess[str]:
    text = Options(fleet=str(path), agent="0", insecure=True, **options).text()
    command = [sys.executable, *(before or ("-m", "gossamer.agents.host.process")), text]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_rounds_are_those_of_this_run(path: Path, tmp_path: Path) -> None:
    """Exactly so many, and with a store as many again."""
    for life in (1, 2):
        done = run(path, rounds=5, store=str(tmp_path / "store"))
        assert done.returncode == 0, done.stderr
        status = json.loads((path.parent / "status" / "agent0.json").read_text())
        assert status["rounds"] == status["samples"] == 5 * life
        assert status["state"] == "stopped"


EARLY = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.{0}])
os.kill(os.getpid(), signal.{0})
os.execv(sys.executable, [sys.executable, "-m", "gossamer.agents.host.process", sys.argv[1]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_before_the_agent_runs_stops_it_cleanly(path: Path, number: signal.Signals) -> None:
    done = run(path, "-c", EARLY.format(number.name))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "stopped"


@pytest.mark.slow
def test_faults_survive_the_way_to_the_process_and_are_announced(path: Path) -> None:
    faults = (
        Loss(1.0, 0, 9),
        Bursts(10, 0.2, both=True),
        Delay(2, 0.1),
        Partition([[0], [1]], 5, 9),
        Partition(edges=[(0, 1)]),
    )
    options = Options(fleet=str(path), agent="0", faults=tuple(map(str, faults)))
    assert msgspec.json.decode(options.text(), type=Options) == options
    assert options.injected.items == faults
    done = run(path, rounds=5, faults=options.faults)
    assert done.returncode == 0, done.stderr
    warning = next(json.loads(line) for line in done.stderr.splitlines() if "faults are injected" in line)
    assert warning["level"] == "warning"
    assert "loss=1@0-9, burst=10,0.2,both, delay=2,0.1" in warning["message"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_agent_survives_a_full_disk_under_its_output(path: Path) -> None:
    text = Options(fleet=str(path), agent="0", insecure=True, report=0.01, rounds=50).text()
    command = [sys.executable, "-m", "gossamer.agents.host.process", text]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert "estimates cannot be written to standard output (No space left on device)" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads((path.parent / "status" / "agent0.json").read_text())["rounds"] == 50
    assert done.returncode == 0, done.stderr


# -- while it runs -----------------------------------------------------------------------------------------


class Running:
    """Agent 0 of a fleet in a process of its own, with its logs in files."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.logs = path.parent / "logs"
        self.logs.mkdir(exist_ok=True)
        given = {"fleet": str(path), "agent": "agent0", "insecure": True, "logs": str(self.logs)} | options
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gossamer.agents.host.process", Options(**given).text()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # without a terminal, as a service
        )

    def entries(self) -> list[dict[str, Any]]:
        log = self.logs / "agent0.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def said(self, text: str, times: int = 1) -> bool:
        return sum(text in entry["message"] for entry in self.entries()) >= times

    def reload(self, text: str, times: int = 1) -> dict[str, Any]:
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.said(text, times), text)
        return [entry for entry in self.entries() if text in entry["message"]][-1]


@contextmanager
def started(path: Path, **options: Any) -> Iterator[Running]:
    agent = Running(path, **options)
    try:
        until(lambda: "started" in [entry["message"] for entry in agent.entries()], "the start")
        yield agent
    finally:
        agent.process.kill()
        agent.process.wait()


@pytest.mark.slow
def test_a_hangup_reloads_what_can_change(path: Path) -> None:
    text = path.read_text().replace('report = "1s"', 'report = "1h"')
    path.write_text(text)
    with started(path) as agent:
        again = "read fleet.toml again"
        assert agent.reload(again)["message"] == f"{again}: no setting changed"
        changed = (
            text.replace('every = "0"', 'every = "30ms"')
            .replace('timeout = "10ms"', 'timeout = "20ms"')
            .replace('report = "1h"', 'report = "50ms"')
            .replace("replicates = 8", "replicates = 4")
            .replace('source = "sim:', 'source = "sim:1')
        )
        path.write_text(changed)
        entry = agent.reload(again, 2)
        assert entry["changed"] == ["timeout", "pace", "report"]
        assert entry["needs_restart"] == ["replicates", "source"]
        report = agent.logs / "agent0.jsonl"
        lines = len(report.read_text().splitlines())
        until(lambda: len(report.read_text().splitlines()) > lines + 5, "estimates every 50 ms")

        path.write_text(changed.replace("format = 1", "format = 9"))
        entry = agent.reload("the new fleet.toml is invalid, so the old settings stay")
        assert entry["level"] == "error"
        assert "format must be 1, got 9" in entry["message"]
        path.write_text(changed.replace('name = "agent0"', 'name = "other"'))
        agent.reload(again, 3)  # it goes by its number, and lives
        path.unlink()
        agent.reload("cannot be read")
        assert agent.process.poll() is None

        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(60) == 0


@pytest.mark.slow
def test_the_log_level_is_the_agents_own_and_can_change(path: Path) -> None:
    text = path.read_text().replace('report = "1s"', 'report = "50ms"')
    quiet = text.replace('level = "info"', 'level = "error"')
    loud = quiet.replace('name = "agent0",', 'name = "agent0", level = "info",')
    path.write_text(loud)
    with started(path) as agent:  # its own level shows the start
        path.write_text(quiet)
        path_log = agent.logs / "agent0.log"
        path_log.rename(agent.logs / "moved")  # as logrotate does
        agent.process.send_signal(signal.SIGHUP)
        until(path_log.exists, "a new log")
        report = agent.logs / "agent0.jsonl"
        lines = len(report.read_text().splitlines())
        # The thread that reloads also reports, so after the next report the new level is in force.
        until(lambda: len(report.read_text().splitlines()) > lines + 1, "two more reports")
        assert not path_log.read_text()  # the fleet's level shows nothing, not even that
        path.write_text(loud)
        entry = agent.reload("read fleet.toml again")
        assert entry["changed"] == ["level"]
    with started(path, level="debug") as agent:  # the options come first
        path.write_text(quiet)
        assert agent.reload("read fleet.toml again", 2)["changed"] == []


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("level", '"loud"', r"agents\[0\].level must be 'debug', 'info', 'warning' or 'error', got 'loud'"),
        ("metrics", '"h"', r"agents\[0\].metrics must be host:port"),
    ],
)
def test_wrong_levels_and_addresses_are_named(path: Path, field: str, value: str, why: str) -> None:
    path.write_text(path.read_text().replace('name = "agent0",', f'name = "agent0", {field} = {value},'))
    with pytest.raises(InvalidInput, match=why):
        Fleet.read(path)


@pytest.mark.slow
def test_metrics_are_served_where_the_file_says(path: Path) -> None:
    port = free_ports(1)[0]
    path.write_text(
        path.read_text().replace('name = "agent0",', f'name = "agent0", metrics = "127.0.0.1:{port}",')
    )
    fleet = Fleet.read(path)
    with started(path) as agent:
        found = ask(fleet.agents[0], timeout=PATIENCE)
        assert found.state == "alone"
        assert found.details["name"] == "agent0"
    with started(path, metrics_port=0) as agent:
        assert ask(fleet.agents[0]).state == "unreachable"
        assert agent.process.poll() is None


@pytest.mark.slow
def test_an_agent_is_degraded_while_its_command_is_down(path: Path, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    command = f"cmd:if [ -e {flag} ]; then while echo 1; do sleep 0.1; done; else exit 7; fi"

    def state() -> tuple[str, str]:
        found = read_status(Fleet.read(path), path.parent)[0]
        return found.details.get("state", ""), found.problem

    with started(path, source=command) as agent:
        until(lambda: state()[0] == "degraded", "the failure")
        assert "ended with code 7" in state()[1]
        flag.touch()
        until(lambda: state() == ("running", ""), "the recovery")
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(60) == 0
    flag.unlink()
    with started(path, source=command) as agent:
        until(lambda: state()[0] == "degraded", "the failure")
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(60) == 1  # it stops without its source


@pytest.mark.slow
def test_a_closed_terminal_stops_an_agent(path: Path) -> None:
    """But only if it had one: SIGHUP from anyone else reloads."""
    options = Options(fleet=str(path), agent="0", insecure=True, logs=str(path.parent)).text()
    program = f"""
import os, pty, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # pytest may run under nohup
pid, master = pty.fork()
if not pid:
    os.execv(sys.executable, [sys.executable, "-m", "gossamer.agents.host.process", {options!r}])
log = {str(path.parent / "0.log")!r}
import time
def wait_for(text):
    while not (os.path.exists(log) and text in open(log).read()):
        time.sleep(0.01)
wait_for("started")
os.kill(pid, 1)
wait_for("read fleet.toml again")
os.close(master)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90)
    assert done.stdout.strip() == "0", done.stderr
    entries = [json.loads(line)["message"] for line in (path.parent / "0.log").read_text().splitlines()]
    assert entries[-1] == "stopped"
    assert sum("read fleet.toml again" in message for message in entries) == 1


def test_a_roster_is_followed_once_its_certificate_is_here(path: Path) -> None:
    """An agent that was replaced gets both, in whatever order and with whatever time between."""
    where = path.parent / "certificates"
    own = [where / "agent0.pem", where / "agent0.key"]
    old = [file.read_bytes() for file in own]
    applied: list[AgentSettings] = []

    async def live() -> None:
        reloader = Reloader(Options(fleet=str(path), agent="agent0"), Fleet.read(path))
        reloader.agent = SimpleNamespace(  # type: ignore[assignment]  # as much of an agent as is followed with
            settings=reloader.settings(),
            snapshot=SimpleNamespace(neighbors=()),
            changes=SimpleNamespace(doubts=[]),
            apply=lambda settings: (applied.append(settings), ([], []))[1],
        )
        publish(path, replace(draft(path), "agent0"))
        new = [file.read_bytes() for file in own]
        for contents in (old, new):
            for file, content in zip(own, contents, strict=True):
                file.write_bytes(content)
            for _ in range(3):
                reloader.look()
                await asyncio.sleep(0)
            assert ("agent0@2" in {settings.name for settings in applied}) == (contents is new)

    asyncio.run(live())
    assert applied[-1].epoch == 2


OFTEN = """
import sys
from gossamer.agents.host import hosting, process
from gossamer.agents.host.options import Options
hosting.LOOK_EVERY = 0.1
sys.exit(process.main(Options.parse(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits another process")
def test_no_error_of_the_file_system_ends_an_agent(path: Path, tmp_path: Path) -> None:
    """Folders that are gone, files in their place, and no descriptor left: it goes on, and stops in order."""
    folder = path.parent
    options = Options(
        fleet=str(path),
        agent="0",
        store=str(tmp_path / "store"),
        logs=str(folder / "logs"),
        metrics_port=free_ports(1)[0],
    )
    (folder / "logs").mkdir()
    agent = subprocess.Popen(
        [sys.executable, "-c", OFTEN, options.text()], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def served() -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{options.metrics_port}/status", timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def rounds() -> int:
        assert agent.poll() is None, "it has ended"
        try:
            return int(served()["rounds"])
        except OSError:
            return 0

    def goes_on() -> None:
        """Some rounds and looks at its files later."""
        since, before = time.monotonic(), rounds()
        until(lambda: rounds() > before and time.monotonic() > since + 0.5, "its looks at the files")

    try:
        until(lambda: rounds() > 5, "it runs")
        for name in ("certificates", "status", "logs"):
            kept = folder / f"{name}-kept"
            (folder / name).rename(kept)
            goes_on()  # ENOENT
            if (folder / name).exists():  # it has made the folder again
                shutil.rmtree(folder / name)
            (folder / name).write_text("")
            goes_on()  # ENOTDIR
            (folder / name).unlink()
            kept.rename(folder / name)
        used = len(os.listdir(f"/proc/{agent.pid}/fd"))
        before = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (used, used + 100))
        time.sleep(2.0)  # nothing can be asked while there is no descriptor
        assert agent.poll() is None
        resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (used + 50, used + 100))
        assert before[0] > used
        goes_on()
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(PATIENCE) == 0
        assert json.loads((folder / "status" / "agent0.json").read_text())["state"] == "stopped"
    finally:
        agent.kill()
        agent.wait()
