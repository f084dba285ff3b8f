"""Delays before restarting something that has failed."""

from __future__ import annotations

FIRST, LONGEST = 1.0, 60.0
"""Seconds. After a run of at least the longest delay, the next delay is the first one again."""


class Backoff:
    """Delays that double from failure to failure, 1 s, 2 s, 4 s, ..., 1 min, and start over after a long run."""

    def __init__(self) -> None:
        self._next = FIRST

    def after(self, lasted: float) -> float:
        """Seconds to wait after a failure of something that had run for `lasted` seconds."""
        delay = FIRST if lasted >= LONGEST else self._next
        self._next = min(2 * delay, LONGEST)
        return delay
