"""The time between an agent's rounds."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gossamer.agents.round.conversation import Conversation

_HURRY = 0.02
"""Fraction by which an agent may run ahead of its pace in the long run, to stay in step with its neighbors."""


class Pacer:
    """Starts rounds at an agent's pace, in step with neighbors of the same pace.

    A neighbor that has begun the next round ends the wait for it. Without this, an agent that started a moment later
    would be late in every round from then on. The time gained in this way is limited, so that an agent among faster
    neighbors keeps its own pace.

    Parameters
    ----------
    pace : float
        Seconds per round at the start; 0 is as fast as the neighbors answer.
    clock : callable
        Gives the time in seconds, from which the deadlines of the transport are read too.
    """

    def __init__(
        self, conversation: Conversation, stop: threading.Event, pace: float, clock: Callable[[], float]
    ) -> None:
        self._conversation = conversation
        self._stop = stop
        self._clock = clock
        self._due = clock()
        self._credit = pace

    def begin(self, pace: float) -> float:
        """Begin a round; return the time until which it stays open for missing neighbors."""
        began = self._clock()
        self._due = max(min(self._due, began) + pace, began) if pace else 0.0
        return self._due

    def wait(self, pace: float) -> None:
        """Wait until the next round is due, or a neighbor has begun it."""
        if pace:
            gained = self._pause(self._due - min(self._credit, pace / 2))
            self._credit = min(self._credit - gained + _HURRY * pace, pace)

    def _pause(self, early: float) -> float:
        """Wait; from `early` on, a neighbor may end the wait. Returns the seconds that were left."""
        due, conversation = self._due, self._conversation
        while (now := self._clock()) < due and not self._stop.is_set():
            if now >= early and conversation.called():
                break
            conversation.listen(early if now < early else due, until_called=now >= early)
        return max(due - now, 0.0)
