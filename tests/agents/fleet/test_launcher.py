"""A fleet on this machine: no agent runs twice, whoever starts it, and none is kept from starting."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.agents.small_fleets import free_ports

from gossamer.agents.fleet.file import Fleet
from gossamer.agents.fleet.launcher import LocalFleet
from gossamer.agents.host.process import claim
from gossamer.errors import InvalidInput
from gossamer.networks import Network


@pytest.fixture
def path(tmp_path: Path) -> Path:
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(4)]
    names = ["3", "2", "1", "0"]
    return Fleet.create(Network.path(4), endpoints=endpoints, names=names).write(tmp_path)


def test_a_running_agent_is_not_started_again_and_keeps_its_files(path: Path) -> None:
    for name in ("logs/2.log", "logs/3.log", "status/2.json", "status/3.json"):
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).write_text("{}")
    held = claim(path.parent, "2")
    try:
        with pytest.raises(InvalidInput, match=r"2 is already running .*fleet status"), LocalFleet(path):
            pass
        assert all((path.parent / f"logs/{name}.log").read_text() == "{}" for name in "23")
        assert all((path.parent / f"status/{name}.json").exists() for name in "23")
    finally:
        os.close(held)
    os.close(claim(path.parent, "3"))  # the refused start holds nothing


def test_each_agent_is_held_by_its_process_alone(path: Path) -> None:
    """Others of the fleet can be started beside it; when it is killed it can be started again."""
    with LocalFleet(path, only="3") as first:
        with LocalFleet(path, only="1,2") as second:
            assert set(second.pids) == {1, 2}
            with pytest.raises(InvalidInput, match="1 is already running"):
                claim(path.parent, "1")
        with pytest.raises(InvalidInput, match="3 is already running"):
            claim(path.parent, "3")
        os.kill(first.pids[0], signal.SIGKILL)
        first._processes[0].wait()
        os.close(claim(path.parent, "3"))


def test_an_old_status_file_keeps_no_agent_from_starting(path: Path) -> None:
    """After a power cut its process number may be another's."""
    (path.parent / "status").mkdir()
    facts = {"at": time.time() - 1, "pid": os.getpid(), "state": "running"}
    (path.parent / "status" / "3.json").write_text(json.dumps(facts))
    with LocalFleet(path, only="3") as agents:
        assert agents.running() == 1
    assert agents.killed == []


def test_who_had_to_be_killed_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.agents.fleet.launcher._PATIENCE", 0.05)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); input()"
    agents = LocalFleet(path, only="1")
    process = subprocess.Popen([sys.executable, "-c", deaf], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    agents._processes[2] = process
    assert process.stdout is not None
    process.stdout.readline()
    agents.stop()
    process.stdout.close()
    assert agents.killed == ["1"]
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("port", [-1, 65534, 70000])
def test_every_agent_needs_a_port_for_its_metrics(path: Path, port: int) -> None:
    with pytest.raises(InvalidInput, match=f"metrics_port must be from 1 to 65532, .*got {port}"):
        LocalFleet(path, metrics_port=port)
    LocalFleet(path, only="0", metrics_port=65532)
