"""Readings from an MQTT broker at QoS 1 through kills of the agent and restarts of the broker.

    python -m benchmarks.mqtt_exactly_once [READINGS KILLS RESTARTS]

prints how many were counted, and their sum next to the expected one. It needs Mosquitto.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.support.exactly_once import run
from tests.support.mosquitto import Mosquitto


def main(readings: int = 10_000, kills: int = 20, restarts: int = 5) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = Mosquitto(Path(folder), "allow_anonymous true\nmax_inflight_messages 200")
        try:
            print(json.dumps(run(broker, Path(folder), readings, kills, restarts)))
        finally:
            broker.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
