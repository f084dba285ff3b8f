"""The commands of the tutorial "Thermometers on a broker", as they stand on the page, on other ports."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.support.mosquitto import needs_mosquitto
from tests.support.small_fleets import free_ports
from tests.support.terminal import ROOT, Terminal
from tests.support.waiting import until


@pytest.mark.slow
@needs_mosquitto
@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="needs mosquitto-clients")
def test_the_tutorial(tmp_path: Path) -> None:
    port, first = free_ports(1)[0], free_ports(8)[0]
    page = (ROOT / "docs" / "tutorials" / "broker.md").read_text()
    blocks = [block.replace("1884", str(port)) for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)]
    _, configure, broker, init, up, measure, subscribe, discovery, status = blocks
    terminal = Terminal(tmp_path)
    run, start, end = terminal.run, terminal.start, terminal.end
    run(configure)
    own = "user root\n" if os.geteuid() == 0 else ""
    (tmp_path / "broker" / "mosquitto.conf").write_text(
        own + (tmp_path / "broker" / "mosquitto.conf").read_text()
    )
    terminals = [start(f"exec {broker}")]
    sensors = None
    try:
        run(init.replace("cycle:8", f"cycle:8 --port {first}"))
        terminals.append(start(f"exec {up}"))
        folder = tmp_path / "house" / "status"

        def states() -> list[dict[str, object]]:
            return [json.loads(file.read_text()) for file in folder.glob("*.json")]

        until(
            lambda: len(states()) == 8 and all(s["state"] == "running" for s in states()), "agents that run"
        )
        sensors = start(measure)

        def close() -> bool:
            estimates = [s["estimate"] for s in states()]
            return all(isinstance(e, float) and abs(e - 21.95) < 0.3 for e in estimates)

        until(close, "the average of the house")
        answer = json.loads(run(subscribe))
        assert (answer["name"], answer["settled"], answer["state"]) == ("agent3", True, "running")
        entity = json.loads(run(discovery))
        assert (entity["unit_of_measurement"], entity["device_class"]) == ("°C", "temperature")
        end(terminals.pop(0))
        until(lambda: all(s["state"] == "degraded" for s in states()), "agents that miss the broker")
        assert f"the broker 127.0.0.1:{port} is away" in run(status, 1)
    finally:
        if sensors is not None:  # bash goes on after Ctrl-C if the command in its loop has handled it
            end(sensors, signal.SIGTERM)
        for terminal in terminals[::-1]:
            if terminal.poll() is None:
                end(terminal)
