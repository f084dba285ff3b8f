"""One turn of an agent: what it has observed goes into a round, and what it takes from its source with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from gossamer.agents.round.batching import Batch, Feed
from gossamer.agents.round.conversation import Rounds
from gossamer.agents.round.ledger import Ledger

Array = NDArray[np.float64]


class Turn:
    """Plays an agent's rounds, one by one.

    pending  observations that wait for the next round; any thread may append
    paced    a source that gives one observation a round, or None where something else came; one that fails ends,
             and `failed` is told why
    taken    how many of the pending ones were used
    """

    def __init__(
        self, feed: Feed, ledger: Ledger, rounds: Rounds, failed: Callable[[BaseException], None]
    ) -> None:
        self.pending: deque[Array] = deque()
        self.paced: Iterator[Array | None] = iter(())
        self.taken = 0
        self._feed = feed
        self._ledger = ledger
        self._rounds = rounds
        self._failed = failed
        self._mean = ledger.local("mean")  # a view: it shows the mean of the moment

    def play(self, due: float) -> None:
        """One round, which stays open for the missing at least until `due`."""
        batch = self._batch()
        self._rounds.step(batch.observation, batch.samples, batch.weight, due)

    def last(self) -> None:
        """A round without neighbors, for what is pending: it must reach the store."""
        self.paced = iter(())
        if self.pending:
            batch = self._batch()
            self._ledger.begin(batch.observation, batch.samples, batch.weight)
            self._ledger.finish({})

    def _batch(self) -> Batch:
        new = [self.pending.popleft() for _ in range(len(self.pending))] if self.pending else []
        self.taken += len(new)
        try:
            observation = next(self.paced, None)
            if observation is not None:
                new.append(observation)
        except Exception as failure:
            self._failed(failure)
        return self._feed.batch(new, self._mean, self._ledger.samples, self._ledger.age)
