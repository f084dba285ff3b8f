"""The numbers of an agent and the sums of a round, in NumPy.

If a C compiler was available when gossamer was installed, `numbers.pyx` replaces this module: the same classes, ten
times faster on the short vectors that most agents average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gossamer.arrays import Floats, Integers

COMPILED = False


class Numbers:
    """The registers of an agent in one block of rows, and the linear maps that a round applies to them.

    The maps are `LedgerMaps`. The rows are the agent's own L registers, the observation and, for each neighbor, the
    rows of its message: the agent's value (which no map reads), then the E registers of their edge. These are clipped
    to `most`, (d, n), which may be changed later.
    """

    def __init__(
        self,
        tell: Floats,
        slope: Floats,
        step: Floats,
        estimate: Floats,
        columns: Integers,
        weights: Floats,
        dimension: int,
        *,
        most: Floats | None = None,
    ) -> None:
        own, registers = tell.shape[1] - 1, step.shape[1]
        self.rows = np.zeros((len(columns), dimension))
        self.own, self._observation = self.rows[:own], self.rows[own]
        self.tells = self.rows[own + 1 :].reshape(len(weights), 1 + registers, dimension)
        self._tell, self._slope, self._step, self._estimate = tell, slope, step, estimate
        self._columns = columns
        self._scales = np.ones((len(weights), 1, 1 + registers))  # differences are weighted by the edge
        self._scales[:, 0, 0] = weights
        self._after = np.zeros((1 + own, dimension))
        self._answer: Floats = np.zeros(dimension)
        self._most = most

    def weigh(self, k: int, weight: float) -> None:
        """Give the k-th edge this weight from now on."""
        self._scales[k, 0, 0] = weight

    def begin(self, t: int, observation: Floats, weight: float) -> None:
        """Set the observation, and compute the message of this round."""
        self._observation[:] = observation
        self._after = (self._slope[t] * weight + self._tell[t])[:, self._columns].dot(self.rows)
        self.tells[:, 0] = self._after[0]

    def told(self, k: int) -> bytes:
        """Return the rows of the message to the k-th neighbor."""
        edge: Floats = self.tells[k]
        return edge.tobytes()

    def adopt(self, k: int, rows: bytes) -> None:
        """Replace the registers of the k-th edge by the negated ones of the neighbor, clipped."""
        edge = self.tells[k]
        np.negative(np.frombuffer(rows).reshape(edge.shape)[1:], out=edge[1:])
        if self._most is not None:
            np.clip(edge[1:], -self._most[k], self._most[k], out=edge[1:])

    def move(self, k: int, t: int, rows: bytes) -> None:
        """Apply the method's step to the k-th edge, with the values that were sent and received."""
        edge = self.tells[k]
        np.subtract(self._after[0], np.frombuffer(rows, count=edge.shape[1]), out=edge[0])
        edge[1:] = (self._step[t] * self._scales[k]).dot(edge)
        if self._most is not None:
            np.clip(edge[1:], -self._most[k], self._most[k], out=edge[1:])

    def finish(self, t: int) -> None:
        """Move on to the registers of the next round."""
        self.own[:] = self._after[1:]
        self.conclude(t)

    def conclude(self, t: int) -> None:
        """Compute the agent's answer from all rows."""
        self._answer = self._estimate[t][self._columns].dot(self.rows)

    @property
    def answer(self) -> Floats:
        """The answer of the last `conclude`, shape (n,): a copy, safe for any thread."""
        return self._answer.copy()


class Features:
    """The components that an agent averages for its observations (`statistics/layout.py`).

    row      their sum over the observations of one round, shape (components,)
    pairs    whether products of two components of the observation are among them
    noise    (any, K): standard normal numbers, one line per observation
    skipped  number of components, before the replicates, that are added to `row` elsewhere
    """

    def __init__(
        self,
        dimension: int,
        bins: Sequence[float],
        variance: bool,
        noise: Floats,
        pairs: bool = False,
        skipped: int = 0,
    ) -> None:
        n = dimension
        replicates = noise.shape[1]
        self._one, self._other = np.triu_indices(n if pairs else 0, 1)
        self.noise = noise
        self.row = np.zeros(1 + n * (1 + variance + len(bins) + replicates) + len(self._one) + skipped)
        self._bins = np.array(bins)[:, None]
        self._own = np.zeros(n)  # the agent's own mean
        self._seen = self.row[1 : 1 + n]
        self._squares = self.row[1 + n :][: n * variance].reshape(-1, n)
        self._below = self.row[1 + n * (1 + variance) :][: n * len(bins)].reshape(-1, n)
        self._products = self.row[1 + n * (1 + variance + len(bins)) :][: len(self._one)]
        self._replicates = self.row[len(self.row) - n * replicates :].reshape(replicates, n)

    def begin(self, mean: Floats) -> None:
        """Start a round of an agent whose mean vector so far is `mean`."""
        self.row[:] = 0.0
        self._own[:] = mean[1 : 1 + len(self._own)]
        if mean[0] not in (0.0, 1.0):
            self._own /= mean[0]

    def add(self, observation: Floats, seen: float, line: int) -> None:
        """Add an observation, the agent's `seen`-th so far, with a line of the noise."""
        surprise = observation - self._own
        self.row[0] += 1.0
        self._seen += observation
        self._squares += observation**2
        self._below += observation <= self._bins
        self._products += observation[self._one] * observation[self._other]
        self._replicates += self.noise[line][:, None] * (surprise * math.sqrt((seen - 1) / seen))
        self._own += surprise / seen


def square(numbers: bytes) -> float:
    """The sum of the squares of float64 numbers."""
    vector = np.frombuffer(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(vector.dot(vector))


def beyond(numbers: bytes, most: Floats) -> int:
    """Index of the first of these float64 numbers whose size is not at most that of `most`; -1 if there is none."""
    wrong = ~(np.abs(np.frombuffer(numbers)) <= most)
    return int(wrong.argmax()) if wrong.any() else -1
