"""A Zenoh router on this machine, in a process of its own, and a client of it that attacks others."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.mosquitto import Mosquitto, needs_mosquitto
from tests.support.small_fleets import free_ports
from tests.support.waiting import PATIENCE

_ROUTER = """
import json, sys, zenoh

config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
with zenoh.open(config):
    print("ready", flush=True)
    sys.stdin.read()
"""


class ZenohRouter:
    """A router that other clients may use as well."""

    def __init__(self, folder: Path) -> None:
        [self.port] = free_ports(1)
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def _config(self, mode: str, key: str) -> dict[str, object]:
        return {
            "mode": mode,
            f"{key}/endpoints": [f"tcp/127.0.0.1:{self.port}"],
            "scouting/multicast/enabled": False,
        }

    def start(self) -> None:
        words = [sys.executable, "-c", _ROUTER, json.dumps(self._config("router", "listen"))]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=PATIENCE)
            self._process = None

    def address(self, rest: str) -> str:
        return f"zenoh://127.0.0.1:{self.port}/{rest}"

    @contextmanager
    def stranger(self, topic: str) -> Iterator[Any]:
        """Another client: all packets below `topic` that it sees, and a function that publishes."""
        import zenoh

        config, seen = zenoh.Config(), []
        for key, value in self._config("client", "connect").items():
            config.insert_json5(key, json.dumps(value))
        with zenoh.open(config) as session:
            session.declare_subscriber(
                f"{topic}/**", lambda sample: seen.append((str(sample.key_expr), bytes(sample.payload)))
            )
            yield seen, session.put


MIDDLES = [
    pytest.param(Mosquitto, marks=needs_mosquitto, id="mqtt"),
    pytest.param(
        ZenohRouter,
        marks=pytest.mark.skipif(find_spec("zenoh") is None, reason="needs the extra zenoh"),
        id="zenoh",
    ),
]
"""What connections between agents that cannot be reached may go through."""
