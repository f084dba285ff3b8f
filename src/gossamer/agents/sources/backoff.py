"""How long to wait before starting again what has failed."""

from __future__ import annotations

FIRST, LONGEST = 1.0, 60.0
"""Seconds. Something that ran for the longest delay or more is well again: the next delay is the first one."""


class Backoff:
    """Delays that grow from failure to failure, 1 s, 2 s, 4 s, ..., 1 min, and start over after a good run."""

    def __init__(self) -> None:
        self._next = FIRST

    def after(self, lasted: float) -> float:
        """Seconds to wait after a failure of something that had run for `lasted` seconds."""
        delay = FIRST if lasted >= LONGEST else self._next
        self._next = min(2 * delay, LONGEST)
        return delay
