"""Snapshots of an agent that does not run."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from gossamer.agents.snapshot import NeighborView, Snapshot
from gossamer.agents.statistics.layout import Layout

LAYOUT = Layout(1)


def view(state: str) -> NeighborView:
    return NeighborView(1, state, True, 0.0, 0.1, 3, 1, 0, 0.01, name="valve")


def some_snapshot(**changes: Any) -> Snapshot:
    vector = np.array([1.0, 5.0])
    now = Snapshot(
        agent=0,
        time=time.time(),
        round=7,
        age=6,
        samples=5,
        acknowledged=4,
        estimate=vector[1:],
        standard_error=np.array([0.1]),
        variance=None,
        answers=LAYOUT.read(vector),
        state="running",
        problem="",
        sent=3,
        received=2,
        rejected={},
        neighbors=(view("alive"),),
    )
    return replace(now, **changes)
