"""The two kinds of sources: read once per round, or delivering at their own times."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, ClassVar

from gossamer.agents.sources.formats import ReadingFormat
from gossamer.agents.statistics.readings import LARGEST_OBSERVATION, BadObservation, Range, Vector, often

log = logging.getLogger("gossamer.agents.sources.opening")


class Source:
    """A source of observations, with counts of good and bad items and the last problem.

    `failing` says why the source delivers nothing at the moment, although it is trying to; its agent is then degraded.
    `format` is how its items are written, if they are text.

    A source that knows its place in a stream says so by `position`. What the store keeps of a position is up to it
    (`keep`); it learns what is in the store (`stored`), and gets that back after a restart (`resume`).
    """

    replays: ClassVar[bool] = False
    """Whether the source starts over when its agent is restarted; then the observations that are already stored
    are skipped, so that none counts twice."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.largest = LARGEST_OBSERVATION
        self.range = Range()
        self.skip = 0
        self.good = 0
        self.bad = 0
        self.last_problem = ""
        self.failing = ""
        self.format = ReadingFormat()

    def begin(self, stored: int, largest: float) -> None:
        """Prepare for an agent that has stored `stored` observations and accepts numbers up to `largest` in size.

        Raises InvalidInput if the source cannot be read at all.
        """
        self.skip = stored if self.replays else 0
        self.largest = largest

    @property
    def position(self) -> bytes:
        """Position of the source after its latest item; empty if it has none."""
        return b""

    def keep(self, position: bytes) -> bytes:
        """Return what the store is to keep of a position; any thread may call this."""
        return position

    def stored(self, kept: bytes) -> None:
        """Learn that all items up to a position are in the store, or were used if there is none; any thread may call
        this."""

    def resume(self, kept: bytes) -> None:
        """Continue after what an earlier run kept (empty if nothing was); called before `begin`."""

    def repeats(self, stored: int) -> bool:
        """Return whether all of the `stored` observations can be read again; called before `resume`."""
        return False

    def understand(self, item: Any) -> Vector | None:
        """Return the observation in `item`, or None if it is a comment."""
        reading = self.format.read(item, self.dimension, self.largest)
        return None if reading is None else reading.value

    def accept(self, item: object) -> Vector | None:
        """Return the observation in `item`, or None if it is invalid or to be skipped; count it in any case."""
        try:
            value = self.understand(item)
            value = None if value is None else self.range.admit(value)
        except BadObservation as problem:
            self.complain(str(problem))
            return None
        if value is None:
            return None
        self.good += 1
        return value if self.good > self.skip else None

    def complain(self, problem: str) -> None:
        """Count and log something that is not an observation."""
        self.bad += 1
        self.last_problem = problem
        if often(self.bad):
            log.warning("observation skipped: %s", problem, extra={"skipped": self.bad})


class PacedSource(Source, ABC):
    """A source that its agent asks for one observation per round.

    See Also
    --------
    LiveSource : A source that delivers at its own pace.
    check_source : Checks a source against the contract.

    Examples
    --------
    >>> class Ramp(gs.agents.PacedSource):
    ...     def raw(self):
    ...         yield from ("1", "2", "not a number", "3")
    >>> [value.tolist() for value in Ramp(1)]
    [[1.0], [2.0], [3.0]]
    """

    replays = True

    def repeats(self, stored: int) -> bool:
        return True

    @abstractmethod
    def raw(self) -> Iterator[object]:
        """Yield the items: rows of text, or values."""

    def rounds(self) -> Iterator[Vector | None]:
        """Yield one item per round: an observation, or None for an invalid line."""
        for item in self.raw():
            bad = self.bad
            value = self.accept(item)
            if value is not None or self.bad > bad:
                yield value

    def __iter__(self) -> Iterator[Vector]:
        return (value for value in self.rounds() if value is not None)


class LiveSource(Source, ABC):
    """A source that delivers at its own times, any number of observations per round.

    See Also
    --------
    PacedSource : A source that is read once per round.
    check_source : Checks a source against the contract.

    Examples
    --------
    docs/plugins.md has a whole one.

    >>> class Door(gs.agents.LiveSource):
    ...     async def raw(self):
    ...         yield '{"value": 21.5}'
    >>> Door(1).accept('{"value": 21.5}')
    array([21.5])
    """

    @abstractmethod
    def raw(self) -> AsyncGenerator[object]:
        """Yield items as they arrive: lines of text, or values."""

    def __aiter__(self) -> AsyncIterator[Vector]:
        return self.observations()

    async def observations(self) -> AsyncGenerator[Vector]:
        """Yield the observations as they arrive."""
        async with contextlib.aclosing(self.raw()) as items:
            async for item in items:
                value = self.accept(item)
                if value is not None:
                    yield value


AnySource = PacedSource | LiveSource
