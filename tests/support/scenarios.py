"""Scenarios of the playground."""

from __future__ import annotations

import base64
from typing import Any

from gossamer.dashboard.jobs import frames_of
from tests.support.frames import unpacked

EDGES = base64.b64encode(b"rome oslo\noslo bonn\nbonn rome\nbonn wien\n").decode()

EVENTS = [
    {"kind": "loss", "probability": 0.0, "start": 0, "stop": 20},
    {"kind": "burst", "mean_length": 4, "fraction": 0.2},
    {"kind": "delay", "rounds": 2, "probability": 0.1},
    {"kind": "loss", "probability": 0.4, "start": 20, "stop": None},
    {"kind": "crash", "agent": 3, "round": 25},
    {"kind": "partition", "edges": [[0, 1]], "start": 30, "stop": 45},
    {"kind": "partition", "groups": [[0, 4, 8, 12]], "start": 35, "stop": None},
    {"kind": "restart", "agent": 3, "round": 40},
]


def frames(**state: Any) -> dict[str, list[Any]]:
    """What a scenario gives, by the type of frame."""
    found: dict[str, list[Any]] = {}
    for frame in frames_of({"id": 7, "scenario": state}):
        header, arrays = unpacked(frame)
        assert header.pop("id") == 7
        found.setdefault(header.pop("type"), []).append((header, arrays))
    return found
