"""Bounded waits, the only ones in the tests: for a condition that must come true, however busy the machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

PATIENCE = 120.0
"""Seconds after which a wait fails. It bounds a test that hangs; no result depends on it."""


def looks(what: str, seconds: float) -> Iterator[float]:
    """Seconds to sleep before the next check, from 1 ms to 20 ms; fail when the time is over."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while time.monotonic() < deadline:
        yield pause
        pause = min(1.5 * pause, 0.02)
    raise AssertionError(f"{what} did not happen within {seconds:g} s")


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until `condition` is true; `what` describes it if it never is."""
    pauses = looks(what, seconds)
    while not condition():
        time.sleep(next(pauses))


async def until_true(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Like `until`, but without blocking the event loop."""
    pauses = looks(what, seconds)
    while not condition():
        await asyncio.sleep(next(pauses))
