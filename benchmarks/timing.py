"""Timing and the shape of a benchmark's result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    what: str
    ours: str
    rival: str
    ratio: float | None
    required: float | None


def best(run: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of the fastest of several runs, after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def per_round(run: Callable[[int], Any], rounds: int) -> float:
    """Seconds per round of `run(rounds)`, fastest of three."""
    return best(lambda: run(rounds)) / rounds


def timed(run: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """What a single run returns, and its seconds."""
    start = time.perf_counter()
    found = run(*arguments)
    return found, time.perf_counter() - start
