"""The rounds of an agent: each uses the observations that arrived since the previous one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from gossamer.agents.round.batching import Batch, Batcher
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.statistics.extremes import Extremes
from gossamer.arrays import Floats


class RoundLoop:
    """Runs the rounds of an agent.

    pending  observations for the next round; any thread may append
    paced    a source with one observation per round, or None for a bad line; if it raises, it ends and `failed` is
             called with the error
    taken    number of pending observations that were used
    resting  whether observations are held back, because the agent is handing over its share
             (masks may hold them back as well, see `masking.py`)
    """

    def __init__(
        self,
        batcher: Batcher,
        ledger: Ledger,
        conversation: Conversation,
        failed: Callable[[BaseException], None],
        extremes: Extremes | None = None,
    ) -> None:
        self.pending: deque[Floats] = deque()
        self.paced: Iterator[Floats | None] = iter(())
        self.taken = 0
        self.resting = False
        self._batcher = batcher
        self._ledger = ledger
        self._conversation = conversation
        self._failed = failed
        self._extremes = extremes

    def play(self, due: float) -> None:
        """Run one round, which stays open for missing neighbors at least until `due`."""
        batch = self._batch()
        self._conversation.step(batch.observation, batch.samples, batch.weight, due)

    def last(self) -> None:
        """Run a round without neighbors if observations are pending, so that they reach the store."""
        self.paced = iter(())
        self._batcher.ending = True
        if self.pending and not self.resting:
            batch = self._batch()
            self._ledger.begin(batch.observation, batch.samples, batch.weight)
            self._ledger.finish({})

    def _batch(self) -> Batch:
        if self.resting:
            return Batch(np.zeros(self._ledger.dimension), 0, 0.0)
        new = []
        # After the last batch no value is told before the agent starts again, with other masks.
        fresh = self._ledger.masks is None or self._ledger.masks.fresh or self._batcher.ending
        if fresh and self.pending and self._batcher.takes():
            new = [self.pending.popleft() for _ in range(len(self.pending))]
        self.taken += len(new)
        try:
            observation = next(self.paced, None) if fresh else None
            if observation is not None:
                new.append(observation)
        except Exception as failure:
            self._failed(failure)
        if new and self._extremes is not None:
            self._extremes.observe(new)
        return self._batcher.batch(new, self._ledger.mean, self._ledger.samples, self._ledger.age)
