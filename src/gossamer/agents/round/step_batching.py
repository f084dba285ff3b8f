"""The transitions of an agent that learns values, and what it averages of them (`statistics/values.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gossamer.agents.round.batching import Batch, Batcher
from gossamer.agents.statistics.values import MOST_STEPS, ValueAnswers, ValueLayout
from gossamer.arrays import Floats
from gossamer.features import Succession

BLOCKS = 10
"""A block of transitions, from one set of multipliers to the next, is this fraction of all transitions so far."""


class StepBatcher(Batcher):
    """Turns an agent's transitions into the components that it averages.

    estimate  the agent's estimate of the network's average, (n,)
    fleet     the number of members (0 if unknown), and the values of the neighbors
    own       from an earlier run: the agent's own matrix A, if it is common, and the number of transitions in it
    gain      as in `Batcher`

    The trace is not stored: after a restart it begins anew, as after an episode.
    """

    def __init__(
        self,
        layout: ValueLayout,
        estimate: Callable[[], Floats],
        fleet: Callable[[], tuple[int, tuple[Floats, ...]]],
        own: bytes,
        seed: int | None,
        *,
        gain: float | None,
        holds: bool,
    ) -> None:
        super().__init__(layout.averaged, gain=gain, holds=holds)
        self.layout: ValueLayout = layout
        self._estimate = estimate
        self._fleet = fleet
        size = layout.values.size
        self._least = gain or 0.0
        self._seen, self._matrix = 0.0, np.zeros((size, size))
        if len(own) == 8 * (1 + size**2):
            count, *matrix = np.frombuffer(own).tolist()
            self._seen, self._matrix = count, np.array(matrix).reshape(size, size)
        self._trace, self._decay = np.zeros(size), 0.0
        self._normals = np.random.default_rng(seed)
        self._weights, self._multipliers = (
            np.zeros(size),
            np.zeros((2, layout.noise)),
        )  # of this block and the next
        self._multipliers[1] = self._normals.standard_normal(layout.noise)
        self._offset = np.zeros(size)
        self._length, self._left = 0, 0  # of the block, and how many of its transitions are to come
        self._succession, self._before = Succession(size + 1), np.empty((0, size + 1))
        self._share = np.nan  # what share of the trajectory tells as much as one independent transition

    def own(self) -> bytes:
        """What the store keeps: the number of transitions and the matrix, if it is common."""
        return np.append(self._seen, self._matrix).tobytes() if self.layout.values.shared else b""

    def answers(self) -> ValueAnswers:
        """The agent's answers now."""
        members, others = self._fleet()
        matrix = self._matrix if self.layout.values.shared and self._seen else None
        return ValueAnswers(
            self.layout, self._estimate()[: self.layout.size], members=members, others=others, matrix=matrix
        )

    def batch(self, new: Sequence[Floats], mean: Floats, samples: float, age: int) -> Batch:
        """As in `Batcher`; `new` are transitions."""
        steps = [self._components(step, samples + k, mean) for k, step in enumerate(new, 1)]
        return super().batch(steps, mean, samples, age)

    def _components(self, step: Floats, number: float, mean: Floats) -> Floats:
        """(size - 1,) what the `number`-th transition adds to the averaged vector, after its leading 1.

        `mean` is the agent's own averaged vector before this round.
        """
        layout, values = self.layout, self.layout.values
        end, reward = step[-1], float(step[-2])
        phi, following = values.rows(step[:-2].reshape(2, -1))
        self._trace = self._decay * self._trace + phi
        difference = phi - (0.0 if end == 1 else values.discount) * following
        self._decay = 0.0 if end else values.discount * values.trace
        out = np.empty(layout.size - 1)
        out[0] = min(2.0 * number - 1.0, 2 * MOST_STEPS)
        product = np.outer(self._trace, difference)
        if values.shared:
            self._seen += 1.0
            self._matrix = self._matrix + (product - self._matrix) * max(1.0 / self._seen, self._least)
        else:
            out[1 : layout.rights.start - 1] = product.ravel()
        out[layout.rights.start - 1 : layout.rights.stop - 1] = reward * self._trace
        if layout.noise:
            now = np.append(phi, reward)[None]
            self._succession.add(np.append(self._before, now, axis=0))
            self._before = now
            count = min(number, 1.0 / self._least if self._least else number)
            change = 0.0
            if not self._left:
                change = self._begin_block(count, mean)
            angle = 0.5 * math.pi * (1 - self._left / self._length)
            self._left -= 1
            multipliers = math.cos(angle) * self._multipliers[0] + math.sin(angle) * self._multipliers[1]
            surprise = (reward - float(difference @ self._weights)) * self._trace - self._offset
            out[layout.rights.stop - 1 : -1] = np.outer(multipliers, surprise).ravel()
            out[-1] = self._share + (count - 1) * change  # the mean is the share
        return out

    def _begin_block(self, count: float, mean: Floats) -> float:
        """Draw new multipliers, and take the current values for the residuals of the next transitions.

        Rewards of agents differ, so residuals of one agent have a mean of its own, b - A theta. Returns the change of
        the share.
        """
        self._length = self._left = max(1, int(count) // BLOCKS)
        self._multipliers[0] = self._multipliers[1]
        self._multipliers[1] = self._normals.standard_normal(self.layout.noise)
        decay = self.layout.values.discount * self.layout.values.trace
        slowest = max(self._succession.memory, (1 + decay) / (1 - decay))
        seen = min(
            count, self._succession.count + 1
        )  # since the last restart, before which it was not stored
        before, self._share = self._share, min(1.0, slowest / seen)
        if np.isnan(before):  # the first block, also after a restart
            before = self.layout.read(mean).share if mean[0] else self._share
        answers = self.answers()
        self._weights = np.zeros_like(self._weights) if answers.withheld else answers.weights
        self._offset = np.zeros_like(self._weights)
        if mean[0]:
            own = self.layout.read(mean)
            self._offset = own.right - own.system @ self._weights
        return self._share - before
