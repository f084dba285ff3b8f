"""Every stop ends in time and is committed, whoever does not answer, read or end."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.small_fleets import free_ports
from tests.support.waiting import until

from gossamer.agents.config.tables import RoundsTable
from gossamer.agents.host.options import Options
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.store import maintenance
from gossamer.networks import Network

IN_TIME = 30.0
"""Seconds that a test waits for the end: far more than the 5 of `stop_timeout`, as the machine may be busy."""


def fleet_in(directory: Path, **rounds: Any) -> Path:
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(2)]
    table = RoundsTable(every="20ms", timeout="20ms", **rounds)
    return Fleet.create(Network.path(2), endpoints=endpoints, rounds=table).write(directory)


def command(path: Path, *before: str, **options: Any) -> list[str]:
    text = Options(
        fleet=str(path), agent="agent0", insecure=True, store=str(path.parent / "store"), **options
    ).text()
    return [sys.executable, *(before or ("-m", "gossamer.agents.host.process")), text]


def status(path: Path) -> dict[str, Any]:
    file = path.parent / "status" / "agent0.json"
    return json.loads(file.read_text()) if file.exists() else {"state": "", "rounds": 0}


@contextmanager
def started(*words: Any, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that is gone at the end, whatever happens."""
    process = subprocess.Popen(*words, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def check_committed(path: Path) -> None:
    last = status(path)
    record = maintenance.check(path.parent / "store" / "agent0.sqlite")
    assert record.samples == last["samples"] > 0


RENUMBERED = """
import os, signal, subprocess, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
def ip(words):
    subprocess.run(["ip", *words.split()], check=True)
ip("link set lo up")
ip("address add 10.9.8.7/32 dev lo")
agent = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
while not (folder / "status" / "agent0.json").exists():
    time.sleep(0.02)
ip("address del 10.9.8.7/32 dev lo")
agent.send_signal(signal.SIGTERM)
began = time.monotonic()
print(agent.wait(IN_TIME), time.monotonic() - began)
"""


@pytest.mark.slow
def test_an_agent_whose_metrics_cannot_be_reached_stops(tmp_path: Path) -> None:
    """In a network namespace of its own, from which the address of the metrics is taken away."""
    space = ["unshare", "--map-root-user", "--net"]
    if (
        not all(map(shutil.which, ("unshare", "ip")))
        or subprocess.run([*space, "true"], check=False).returncode
    ):
        pytest.skip("this machine allows no network namespaces, or has no ip")
    path = fleet_in(tmp_path)
    program = RENUMBERED.replace("IN_TIME", str(IN_TIME))
    done = subprocess.run(
        [
            *space,
            sys.executable,
            "-c",
            program,
            str(tmp_path),
            *command(path, metrics_port=9464, metrics_host="10.9.8.7"),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.stdout.split()[:1] == ["0"], done.stdout + done.stderr
    assert status(path)["state"] == "stopped"
    check_committed(path)


@pytest.mark.slow
@pytest.mark.parametrize("streams", [("stdout",), ("stdout", "stderr")], ids="+".join)
def test_an_agent_whose_output_is_not_read_goes_on_and_stops(
    tmp_path: Path, streams: tuple[str, ...]
) -> None:
    path = fleet_in(tmp_path)
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    given: dict[str, Any] = dict.fromkeys(streams, write)
    with started(
        command(path, report=0.01, level="debug"), **{"stderr": subprocess.DEVNULL, **given}
    ) as agent:
        os.close(write)
        until(lambda: status(path)["rounds"] > 100, "a hundred rounds, and a line of output for each")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(IN_TIME) == 0
    assert status(path)["state"] == "stopped"
    check_committed(path)
    os.close(read)


HANGS = """
import asyncio, sys
from gossamer.agents.host import hosting, process
from gossamer.agents.host.options import Options
async def hang(self, *error):
    await asyncio.sleep(3600)
hosting.Hosted.__aexit__ = hang
sys.exit(process.main(Options.parse(sys.argv[1])))
"""


@pytest.mark.slow
def test_a_stop_that_hangs_is_ended_and_committed(tmp_path: Path) -> None:
    path = fleet_in(tmp_path, stop_timeout="3s", commit="1h")
    with started(command(path, "-c", HANGS), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as agent:
        until(lambda: status(path)["rounds"] > 20, "some rounds")
        agent.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert agent.wait(IN_TIME) == 1
        assert time.monotonic() - began > 0.5
        assert agent.stderr is not None
        assert "did not stop within 3 s, so the process ends now" in agent.stderr.read()
    record = maintenance.check(path.parent / "store" / "agent0.sqlite")
    assert record.samples > 20  # although the last regular commit was the first
