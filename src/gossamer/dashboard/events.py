"""What goes wrong in a playground: faults as a page writes them, as objects, and as Python.

    {"kind": "crash", "agent": 3, "round": 40}
    {"kind": "cut", "edges": [[3, 4]], "start": 40, "stop": null}

The place of a random fault among the others decides its random numbers, so the order is always the same (`in_order`):
the first loss, bursts, delay, then later losses, which so change nothing in the rounds before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gossamer as gs
from gossamer import checks
from gossamer.errors import InvalidInput

FIELDS: dict[str, tuple[str, ...]] = {
    "loss": ("probability", "start", "stop"),
    "bursts": ("mean_length", "fraction"),
    "delay": ("rounds", "probability"),
    "crash": ("agent", "round"),
    "restart": ("agent", "round"),
    "join": ("agent", "round"),
    "partition": ("agents", "start", "stop"),
    "cut": ("edges", "start", "stop"),
}
"""The entries of each kind of event, in the order of the fault's arguments."""

CLASSES = {
    "loss": gs.faults.Loss,
    "bursts": gs.faults.Bursts,
    "delay": gs.faults.Delay,
    "crash": gs.faults.Crash,
    "restart": gs.faults.Restart,
    "join": gs.faults.Join,
}


def made(event: Any) -> gs.faults.Fault:
    """The fault that a page describes."""
    values = values_of(event)
    if event["kind"] == "partition":
        agents, start, stop = values
        return gs.faults.Partition(checks.listed("agents", agents), start, stop)
    if event["kind"] == "cut":
        edges, start, stop = values
        return gs.faults.Partition((), start, stop, edges=checks.listed("edges", edges))
    return CLASSES[event["kind"]](*values)  # type: ignore[no-any-return]


def in_order(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events in the order in which they are drawn, on the command line, too."""
    losses = [event for event in events if event["kind"] == "loss"]
    ordered = [[event for event in events if event["kind"] == kind] for kind in FIELDS if kind != "loss"]
    bursts, delay, *others = ordered
    return [*losses[:1], *bursts, *delay, *losses[1:], *(event for some in others for event in some)]


def as_python(event: Mapping[str, Any]) -> str:
    """The fault as an expression."""
    values = values_of(event)
    if event["kind"] == "partition":
        return f"gs.faults.Partition({values[0]!r}, {values[1]}, {values[2]})"
    if event["kind"] == "cut":
        pairs = [tuple(pair) for pair in values[0]]
        return f"gs.faults.Partition((), {values[1]}, {values[2]}, edges={pairs!r})"
    while values[-1] is None or (event["kind"] == "loss" and len(values) == 2 and values[1] == 0):
        values = values[:-1]
    return f"gs.faults.{CLASSES[event['kind']].__name__}({', '.join(map(repr, values))})"


def values_of(event: Any) -> list[Any]:
    """The entries of an event in the order of its fault's arguments; what is left out is None, or 0 for a start."""
    if not isinstance(event, dict) or event.get("kind") not in FIELDS:
        raise InvalidInput(f"an event must be one of {', '.join(FIELDS)}, got {checks.brief(event)}")
    names = FIELDS[event["kind"]]
    if unknown := sorted(set(event) - {"kind", *names}):
        raise InvalidInput(f"{event['kind']} takes {', '.join(names)}, got {checks.brief(unknown[0])}")
    missing = [name for name in names if name not in event and name not in ("start", "stop")]
    if missing:
        raise InvalidInput(f"{event['kind']} needs {', '.join(names)}, but {missing[0]} is missing")
    return [event.get(name, 0 if name == "start" else None) for name in names]
