"""Example scenarios with a sentence each; tests check that the numbers agree with the sentences.

In a `lesson` the curves grow as the run plays, and readers predict them first.
"""

from __future__ import annotations

PRESETS: list[dict[str, object]] = [
    {
        "name": "Plain averaging",
        "sentence": "Each dot is a thermometer; its color is its temperature. In every round each moves to a mean of "
        "its own number and its neighbors'. No computer collects the numbers, and still all agree on the average.",
        "lesson": True,
        "scenario": {
            "network": "grid:10x10",
            "methods": [["linear", {}]],
            "spread": 20.0,
            "std": 0.0,
            "rounds": 200,
        },
    },
    {
        "name": "The price of a burn-in",
        "sentence": "SDA discards the first half of the rounds: it has no answer until then, and more than twice a "
        "center's error afterwards. Anytime SDA keeps everything and ends next to the center.",
        "scenario": {
            "network": "erdos-renyi:40x0.3",
            "methods": [["sda", {}], ["anytime-sda", {}]],
            "rounds": 1000,
        },
    },
    {
        "name": "Acceleration on a path",
        "sentence": "Information must cross a long path: without momentum it diffuses slowly, with momentum it travels "
        "like a wave.",
        "scenario": {
            "network": "path:50",
            "methods": [["anytime-sda", {"momentum": 0}], ["anytime-sda", {}]],
            "means": "ramp",
            "rounds": 1000,
        },
    },
    {
        "name": "DSG overtakes SDA",
        "sentence": "On a well-connected network mixing costs nothing: DSG uses all samples and overtakes SDA, "
        "which uses half of them.",
        "scenario": {
            "network": "erdos-renyi:60",
            "methods": [["sda", {}], ["dsg", {}]],
            "rounds": 1000,
        },
    },
    {
        "name": "Half of all messages lost",
        "sentence": "Half of all messages are lost, but the ledgers on the links still bring all agents to the "
        "average; DSG, which has none, ends far from it.",
        "scenario": {
            "network": "geometric:80",
            "methods": [["anytime-sda", {"acceleration": "local-heavy-ball"}], ["dsg", {}]],
            "rounds": 1000,
            "events": [{"kind": "loss", "probability": 0.5, "start": 0, "stop": None}],
        },
    },
    {
        "name": "Mobile robots",
        "sentence": "Robots move around and talk only to robots nearby. They are never all connected at once, and "
        "still they agree.",
        "scenario": {
            "network": "mobile:40,radius=0.14,speed=0.01",
            "methods": [["anytime-sda", {"acceleration": "local-heavy-ball"}], ["dsg", {}]],
            "rounds": 1000,
        },
    },
    {
        "name": "A crash, and the survivors",
        "sentence": "Agent 0 has a value far from all others and dies in round 150: its share returns, and the "
        "survivors converge to their own average.",
        "scenario": {
            "network": "grid:6x6",
            "methods": [["anytime-sda", {"acceleration": "local-heavy-ball"}]],
            "means": "one",
            "spread": 36.0,
            "rounds": 600,
            "events": [{"kind": "crash", "agent": 0, "round": 150}],
        },
    },
]
