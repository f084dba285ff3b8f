"""How observations reach an agent's rounds: those it is given, and those of its source."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import aclosing

from numpy.typing import ArrayLike

from gossamer.agents.round.loop import RoundLoop
from gossamer.agents.sources.kinds import AnySource, LiveSource
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.statistics.readings import Range
from gossamer.arrays import Floats
from gossamer.errors import GossamerError

log = logging.getLogger("gossamer.agents")

_BACKLOG = 10_000
"""Observations that may wait for the next round before a live source has to wait."""


class Intake:
    """Takes an agent's observations and hands them to its rounds.

    Parameters
    ----------
    loop : RoundLoop
        The agent's rounds.
    layout, range : Layout, Range
        What an observation must look like.
    source : AnySource, optional
        Observations to take besides those given to `observe`.
    position : bytes
        Position of the source after the observations in the store.
    stored : bool
        Whether positions are stored.
    label : str
        The agent's name, for logs and errors.
    """

    def __init__(
        self,
        loop: RoundLoop,
        layout: Layout,
        range: Range,
        source: AnySource | None,
        position: bytes,
        *,
        stored: bool,
        label: str,
    ) -> None:
        self.range = range
        self.source = source
        self.failure: BaseException | None = None
        self._loop = loop
        self._layout = layout
        self._position = position
        self._stored = stored
        self._label = label
        self._offered = 0  # observations of this run
        # Pairs (number of an observation, position of the source after it).
        self._marks: deque[tuple[int, bytes]] = deque()
        self._closed = False
        self._lock = threading.Lock()  # held to offer an observation, and to close
        self._lost = ""
        self._task: asyncio.Task[None] | None = None

    # -- the source -----------------------------------------------------------------------------------------

    def prepare(self, samples: int) -> None:
        """Prepare the source of an agent that has stored `samples` observations; raises if it cannot be read."""
        if self.source is not None:
            self.source.resume(self._position)
            self.source.begin(samples, self._layout.largest)

    def start(self) -> None:
        """Start to read the source; called in the agent's event loop."""
        if isinstance(self.source, LiveSource):
            self._task = asyncio.create_task(self._follow(self.source))
        elif self.source is not None:
            self._loop.paced = self.source.rounds()

    async def stop(self) -> None:
        """Stop reading the source."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, source: LiveSource) -> None:
        try:
            async with aclosing(source.raw()) as items:
                async for item in items:
                    observation, position = source.accept(item), source.position
                    if not self._offer(observation, position) and self._closed:
                        return
                    if position and not self._stored:
                        source.stored(source.keep(position))
                    while len(self._loop.pending) > _BACKLOG and not self._closed:
                        await asyncio.sleep(0.01)
            log.info("%s: the source has ended; the agent continues without it", self._label)
        except (Exception, asyncio.CancelledError) as failure:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the agent is being left
                raise
            self.lose(failure)

    def lose(self, failure: BaseException) -> None:
        """Continue without the source, because it failed."""
        expected = isinstance(failure, GossamerError)
        text = str(failure) if expected else f"{type(failure).__name__}: {failure}"
        self.failure, self._lost = failure, f"the source failed: {text}"
        trace = None if expected else failure
        log.error("%s continues without its source: %s", self._label, text, exc_info=trace)

    @property
    def problem(self) -> str:
        """Why the source delivers nothing; empty if it does, or if there is none."""
        return self._lost or (self.source.failing if self.source else "")

    @property
    def bad(self) -> int:
        """Number of values of the source that were not observations."""
        return 0 if self.source is None else self.source.bad

    # -- observations ---------------------------------------------------------------------------------------

    def observe(self, observation: ArrayLike) -> int:
        """Take one observation for the next round; return its number, from 1 on."""
        number = self._offer(self.range.admit(self._layout.check(observation)))
        if not number:
            raise GossamerError(
                f"{self._label} has stopped and takes no more observations; "
                "observe inside its `async with`, or make a new agent"
            )
        return number

    def _offer(self, observation: Floats | None, position: bytes = b"") -> int:
        """Queue an observation for the next round; return the number of the latest, or 0 if there are no more rounds.

        `position` is that of the source after this observation, or, if there is none, after something else. It is
        noted first, so that no round can take the observation without it.
        """
        with self._lock:
            if self._closed:
                return 0
            self._offered += observation is not None
            if position and self._stored:
                self._marks.append((self._offered, position))
            if observation is not None:
                self._loop.pending.append(observation)
            return self._offered

    def close(self) -> None:
        """Refuse further observations, because there are no more rounds."""
        with self._lock:
            self._closed = True

    def position(self, taken: int) -> bytes:
        """Return what to store of the source's position after the first `taken` observations."""
        passed = b""
        while self._marks and self._marks[0][0] <= taken:
            passed = self._marks.popleft()[1]
        if passed and self.source is not None:
            self._position = self.source.keep(passed)
        return self._position

    def stored(self, kept: bytes) -> None:
        """Tell the source what is in the store."""
        if self.source is not None and kept:
            self.source.stored(kept)
