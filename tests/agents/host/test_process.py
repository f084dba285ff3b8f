"""One agent as a process: when it stops, and how."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.agents.small_fleets import free_ports

from gossamer.agents.fleet.file import Fleet
from gossamer.agents.fleet.tables import RoundsTable
from gossamer.agents.host.process import Options
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_before_the_agent_runs_stops_it_cleanly(path: Path, number: signal.Signals) -> None:
    done = run(path, "-c", EARLY.format(number.name))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "stopped"


def test_faults_survive_the_way_to_the_process_and_are_announced(path: Path) -> None:
    faults: dict[str, Any] = {
        "loss": Loss(1.0),
        "burst": Bursts(10, 0.2, both=True),
        "delay": Delay(2, 0.1),
        "partition": (Partition([[0], [1]], 5, 9), Partition(edges=[(0, 1)])),
    }
    options = Options(fleet=str(path), agent="0", **faults)
    assert msgspec.json.decode(options.text(), type=Options) == options
    done = run(path, rounds=5, **faults)
    assert done.returncode == 0, done.stderr
    warning = next(json.loads(line) for line in done.stderr.splitlines() if "faults are injected" in line)
    assert warning["level"] == "warning"
    assert "Loss(probability=1.0), Bursts(mean_length=10.0, fraction=0.2, both=True)" in warning["message"]


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
