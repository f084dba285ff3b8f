"""A standard stream that is written by a thread of its own, so that a slow reader does not hold up the agent."""

from __future__ import annotations

import io
import os
import threading
from collections import deque

_WAITING = 200
"""Largest number of lines that wait for the reader; then the oldest are dropped."""


class Outlet(io.TextIOBase):
    """A stream whose `write` never blocks.

    Parameters
    ----------
    descriptor : int
        The descriptor to write to, such as 1 or 2.
    strict : bool
        Whether the next `write` raises an error of the stream, such as BrokenPipeError; otherwise the text is lost.
    """

    def __init__(self, descriptor: int, *, strict: bool = True) -> None:
        self._descriptor = os.dup(descriptor)
        self._strict = strict
        self._waiting: deque[bytes] = deque(maxlen=_WAITING)
        self._writing = False
        self._error: OSError | None = None
        self._change = threading.Condition()
        threading.Thread(target=self._run, name="output", daemon=True).start()

    def write(self, text: str) -> int:
        with self._change:
            error, self._error = self._error, None
            if error is not None and self._strict:
                raise error
            self._waiting.append(text.encode())
            self._change.notify_all()
        return len(text)

    def drain(self, seconds: float) -> None:
        """Wait at most `seconds` until everything is written."""
        with self._change:
            self._change.wait_for(lambda: not self._waiting and not self._writing, seconds)

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: bool(self._waiting))
                data = self._waiting.popleft()
                self._writing = True
            error = None
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as failure:
                error = failure
            with self._change:
                self._writing = False
                self._error = error or self._error
                self._change.notify_all()
