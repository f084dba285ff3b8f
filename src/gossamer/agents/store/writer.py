"""The thread that commits an agent's state, so that a slow disk does not delay its rounds."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from gossamer.agents.store.agent_store import AgentStore, Saved
from gossamer.errors import GossamerError

log = logging.getLogger("gossamer.agents")


class StoreWriter:
    """Commits the newest state it was given, in a thread, and wakes the callers whose observations are then stored."""

    def __init__(
        self,
        store: AgentStore,
        acknowledge: Callable[[Saved], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._store = store
        self._acknowledge = acknowledge
        self._given: tuple[Saved, int] | None = None
        self._waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._last = -math.inf
        self._safe = 0  # observations of this run that are in the store
        self._closed = self._gave_up = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    def wants(self, every: float) -> bool:
        """Return whether a commit is due: a caller is waiting, or the last one was `every` seconds ago."""
        return self._given is None and (bool(self._waiting) or self._clock() - self._last >= every)

    def give(self, saved: Saved, taken: int) -> None:
        with self._change:
            self._given = (saved, taken)
            self._change.notify()

    def wait_for(self, ticket: int, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        with self._change:
            self._waiting.append((ticket, loop, done))
            self._answer()

    def _run(self) -> None:
        while True:
            with self._change:
                while self._given is None and not self._closed:
                    self._change.wait()
                if self._given is None:
                    return
                saved, taken = self._given
            was_well = self._store.failure is None
            safe = self._store.save(saved)
            self._last = self._clock()
            if safe:
                self._acknowledge(saved)
            if safe != was_well:
                log.warning(
                    "the store %s %s",
                    self._store.path,
                    "is written again" if safe else f"cannot be written: {self._store.failure}",
                )
            with self._change:
                if self._given is not None and self._given[0] is saved:
                    self._given = None
                self._safe = taken if safe else self._safe
                self._answer()

    def _answer(self) -> None:
        """Wake the callers whose observation is stored; all of them, once nothing more will be committed."""
        ready = [w for w in self._waiting if self._gave_up or w[0] <= self._safe]
        self._waiting = [w for w in self._waiting if w not in ready]
        for number, loop, done in ready:
            with suppress(RuntimeError):  # its event loop has ended
                loop.call_soon_threadsafe(_resolve, done, number <= self._safe)

    def give_up(self) -> None:
        """Wake all callers, because the agent has failed or ended."""
        with self._change:
            self._gave_up = True
            self._answer()

    def close(self, seconds: float | None = None) -> None:
        """Commit the last state and end; wait at most `seconds` for that."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join(seconds)
        self.give_up()


def _resolve(done: asyncio.Future[None], safe: bool) -> None:
    if done.done():
        return
    if safe:
        done.set_result(None)
    else:
        done.set_exception(GossamerError("the agent stopped before the observation was in the store"))
