"""Gives an agent's answers to a sink, in a thread of its own, so that a sink that blocks holds up nothing."""

from __future__ import annotations

import logging
import math
import threading

from gossamer.agents.config.urls import Place, Url, opener
from gossamer.agents.sinks.kinds import SINKS, Answer, Sink
from gossamer.errors import InvalidInput

log = logging.getLogger("gossamer.agents.sinks")

_SOON = 1.0
"""Longest time in seconds between two looks at whether an agent has settled."""


class Publisher:
    """Publishes an agent's answers at one sink: at most one per `interval`, and only settled ones unless asked.

    The newest answer waits while the sink is busy, and replaces the one before: a sink that is away costs no memory.

    failing  why the last attempt failed; empty if it did not
    """

    def __init__(self, text: str, owner: Place) -> None:
        url = Url(owner.fill(text))
        self.interval = url.seconds("interval", "10s", above=0)
        self.unsettled = url.flag("unsettled")
        self.failing = ""
        self.due = -math.inf  # when the next answer may be given, on the clock of the caller
        self._sink: Sink = opener("sink", SINKS, url)(url, owner)
        url.finish()
        if not isinstance(self._sink, Sink):
            raise InvalidInput(f"{url.kind}: must open a Sink, got {type(self._sink).__name__}")
        self.text = url.text.partition("?")[0]  # for messages
        self._answer: Answer | None = None
        self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def offer(self, answer: Answer, now: float) -> None:
        """Publish an answer if it is time; never blocks."""
        if now < self.due:
            return
        if not (self.unsettled or answer["settled"]):
            self.due = now + min(self.interval, _SOON)
            return
        self.due = now + self.interval
        with self._change:
            self._answer = answer
            self._change.notify()

    def close(self, seconds: float) -> None:
        """Publish what waits and end; wait at most `seconds` for that."""
        with self._change:
            self._closed = True
            self._change.notify()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            if self._attempt(self._sink.open):
                while (answer := self._next()) is not None:
                    self._attempt(self._sink.write, answer)
        finally:
            self._attempt(self._sink.close)

    def _next(self) -> Answer | None:
        """Return the newest answer, as soon as there is one; None at the end."""
        with self._change:
            self._change.wait_for(lambda: self._answer is not None or self._closed)
            answer, self._answer = self._answer, None
            return answer

    def _attempt(self, action: object, *arguments: Answer) -> bool:
        """Call a method of the sink; log when it begins to fail, and when it no longer does."""
        before = self.failing
        try:
            action(*arguments)  # type: ignore[operator]
            if action != self._sink.close:  # that it closes says nothing about what failed before
                self.failing = ""
        except Exception as error:  # whatever a sink raises, the agent goes on
            self.failing = f"the sink {self.text} fails: {error or type(error).__name__}"
        if bool(before) != bool(self.failing):
            log.warning("%s", self.failing or f"the sink {self.text} works again")
        return not self.failing
