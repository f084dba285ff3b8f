"""The observations of one round, as a batch of the components that `statistics/layout.py` arranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossamer.agents.round.numbers import Features
from gossamer.agents.statistics.layout import Layout
from gossamer.arrays import Floats

_BLOCK = 256


class Batch:
    """The observations of one round: their mean, their number, and the weight of that mean in the running mean."""

    def __init__(self, observation: Floats, samples: int, weight: float) -> None:
        self.observation = observation
        self.samples = samples
        self.weight = weight


class Batcher:
    """Turns an agent's observations into what it averages.

    gain   lower bound of the weight of the newest observation, to follow drifting means; None for plain means
    holds  whether the agent's mean replaces the observation in a round without one: for methods that send the newest
           observation to the network instead of a running mean
    shift  (n,) the noise that is added to every observation, and so to the agent's level; None if there is none

    The only state is the agent's own mean, so a restart loses nothing. `ending` is set before the agent's last batch.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        gain: float | None = None,
        holds: bool = False,
        seed: int | None = None,
        shift: Floats | None = None,
    ) -> None:
        self.layout = layout
        self._shift = shift
        self._gain = gain
        self._by_samples = layout.weighting == "samples"
        self._holds = holds and not self._by_samples
        self._random = np.random.default_rng(seed)
        self._nothing = np.zeros(layout.size)
        noise = np.zeros((_BLOCK, layout.replicates))  # drawn many at a time
        self._interpreted = layout.interpreted
        skipped = sum(statistic.size for statistic, _ in self._interpreted)
        self._features = Features(
            layout.dimension, layout.bins, layout.variance, noise, layout.covariance, skipped
        )
        self._lines = 0  # unused lines of the noise
        self.ending = False

    def takes(self) -> bool:
        """Whether pending observations enter the next batch; otherwise they remain pending."""
        return True

    def batch(self, new: Sequence[Floats], mean: Floats, samples: float, age: int) -> Batch:
        """Return the batch of `new` observations, after `samples` earlier ones whose mean vector is `mean`.

        The array in it is valid until the next batch.
        """
        count = len(new)
        if not count:
            weight = 1.0 / (age + 1) if self._by_samples else 0.0
            return Batch(mean.copy() if self._holds else self._nothing, 0, weight)
        features = self._features
        features.begin(mean if self._shift is None else mean - self._shift)
        seen = samples
        for observation in new:
            if not self._lines:
                self._random.standard_normal(out=features.noise)
                self._lines = _BLOCK
            self._lines -= 1
            seen += 1
            features.add(observation, seen, self._lines)
            for statistic, where in self._interpreted:
                features.row[where] += statistic.components(observation)
        times = 1 if self._by_samples else count
        weight = 1.0 / (age + 1) if self._by_samples else count / seen
        if self._gain is not None:
            weight = max(weight, 1 - (1 - self._gain) ** times)
        row = features.row if times == 1 else features.row / count
        return Batch(row if self._shift is None else row + self._shift, count, weight)
