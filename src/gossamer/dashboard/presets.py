"""Scenes that teach, a sentence each; the tests check that what a sentence says is in the numbers."""

from __future__ import annotations

from typing import Any

PRESETS: list[dict[str, Any]] = [
    {
        "name": "The price of a burn-in",
        "sentence": "SDA throws its first half away: no answer until half time, then more than twice a center's error. "
        "Anytime SDA keeps everything and ends beside the center.",
        "scenario": {
            "network": "erdos-renyi:40x0.3",
            "methods": [["sda", {}], ["anytime-sda", {}]],
            "rounds": 1000,
        },
    },
    {
        "name": "Acceleration on a path",
        "sentence": "News must cross a long path: without momentum it seeps through, with momentum it runs.",
        "scenario": {
            "network": "path:50",
            "methods": [["anytime-sda", {"momentum": 0}], ["anytime-sda", {}]],
            "means": "ramp",
            "rounds": 1000,
        },
    },
    {
        "name": "DSG overtakes SDA",
        "sentence": "Where everybody is near everybody, mixing costs nothing: DSG uses all samples and passes SDA, "
        "which uses half.",
        "scenario": {
            "network": "erdos-renyi:60",
            "methods": [["sda", {}], ["dsg", {}]],
            "rounds": 1000,
        },
    },
    {
        "name": "Half of all messages lost",
        "sentence": "Every second message vanishes, and ledgers on the links still bring all agents to the average; "
        "DSG, which has none, ends far off.",
        "scenario": {
            "network": "geometric:80",
            "methods": [["anytime-sda", {"acceleration": "local"}], ["dsg", {}]],
            "rounds": 1000,
            "events": [{"kind": "loss", "probability": 0.5, "start": 0, "stop": None}],
        },
    },
    {
        "name": "Mobile robots",
        "sentence": "Robots roam and talk only to those nearby; never is everybody connected, and still all agree.",
        "scenario": {
            "network": "mobile:40,radius=0.14,speed=0.01",
            "methods": [["anytime-sda", {"acceleration": "local"}], ["dsg", {}]],
            "rounds": 1000,
        },
    },
    {
        "name": "A crash, and the survivors",
        "sentence": "Agent 0 holds a reading far from all others and dies in round 150: its share returns, and the "
        "survivors settle on their own average.",
        "scenario": {
            "network": "grid:6x6",
            "methods": [["anytime-sda", {"acceleration": "local"}]],
            "means": "one",
            "spread": 36.0,
            "rounds": 600,
            "events": [{"kind": "crash", "agent": 0, "round": 150}],
        },
    },
]
