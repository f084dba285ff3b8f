"""What the tests of `gossamer fleet` share: the commands, in this process and in one of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gossamer.agents.config.tables import RoundsTable
from gossamer.agents.host.status import read_status
from gossamer.agents.membership.fleet import Fleet
from gossamer.networks import Network
from tests.support.small_fleets import free_ports

COMMAND = [
    sys.executable,
    "-c",
    "import typer; from gossamer.cli.fleet import fleet_app; from gossamer.cli.fleet_run import agent; "
    "app = typer.Typer(); app.add_typer(fleet_app, name='fleet'); app.command()(agent); app()",
]


def make(directory: Path, network: Network, rounds: RoundsTable | None = None, **changes: Any) -> Path:
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(network.agents)]
    rounds = RoundsTable(every="20ms") if rounds is None else rounds
    return Fleet.create(network, endpoints=endpoints, rounds=rounds, **changes).write(directory)


@contextmanager
def running(*words: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a process of its own, which is always ended at the end of the block."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


def pids(path: Path) -> dict[str, int]:
    found = [status.details for status in read_status(Fleet.read(path), path.parent)]
    return {status["name"]: status["pid"] for status in found if status}
