"""Streams whose means move: steadily, or as any function of the round."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.observations.base import Observations
from gossamer.observations.shapes import as_numbers, check_finite, like_means


class Drifting(Observations):
    """Streams whose means move by `rate` per round (a scalar, (N,) or (N, n)); the noise is that of `base`."""

    normal: ClassVar[bool] = True  # as far as its base is

    def __init__(self, base: Observations, rate: ArrayLike) -> None:
        if not isinstance(base, Observations):
            raise InvalidInput(f"base must be observations such as gs.Gaussian(...), got {base!r}")
        self._rate = base.drift + like_means(base.mean, rate, "rate", 1 if base.components == 1 else 2)
        self.base: Observations = base.base if isinstance(base, Drifting) else base
        self.mean, self.variance = base.mean, base.variance

    @property
    def drift(self) -> Floats:
        return self._rate

    @property
    def normal_std(self) -> Floats | None:
        return self.base.normal_std if self.normal else None

    def sample(
        self,
        seed: int,
        rounds: range,
        trials: range,
        agents: range | None = None,
        batches: Floats | None = None,
    ) -> Floats:
        agents = range(self.agents) if agents is None else agents
        still = self.base.sample(seed, rounds, trials, agents, batches)
        where = slice(agents.start, agents.stop, agents.step)
        return still + np.asarray(rounds)[:, None, None, None] * self._rate[where, :, None]


class Moving(Observations):
    """Streams whose means are any function of the round; the noise is that of `base`.

    mean_at   mean_at(t) gives the means of round t = 0, 1, ... as (N,) or (N, n); or an array (T, N) or (T, N, n)
    """

    def __init__(self, base: Observations, mean_at: Callable[[int], ArrayLike] | ArrayLike) -> None:
        if not isinstance(base, Observations):
            raise InvalidInput(f"base must be observations such as gs.Gaussian(...), got {base!r}")
        self.base: Observations = base
        self.mean_at = mean_at if callable(mean_at) else as_numbers(mean_at, "mean_at")
        if not callable(self.mean_at) and not (self.mean_at.ndim in (2, 3) and len(self.mean_at)):
            raise InvalidInput(
                f"mean_at must be a function of the round, or an array with the means of every round, (T, N) or "
                f"(T, N, n), got {checks.brief(mean_at)}"
            )
        self.mean = self.means(range(1))[0]
        self.variance = base.variance

    @property
    def moving(self) -> bool:
        return True

    @property
    def known_rounds(self) -> float:
        return np.inf if callable(self.mean_at) else len(self.mean_at)

    def means(self, rounds: range) -> Floats:
        if callable(self.mean_at):
            return np.stack([self._mean_of(t, self.mean_at(t)) for t in rounds])
        if rounds.stop > len(self.mean_at):
            raise InvalidInput(
                f"mean_at has the means of {len(self.mean_at)} rounds, but round {rounds.stop - 1} was asked for; "
                "give more, or a function of the round"
            )
        return np.stack([self._mean_of(t, self.mean_at[t]) for t in rounds])

    def _mean_of(self, t: int, value: ArrayLike) -> Floats:
        mean = as_numbers(value, f"mean_at({t})")
        if mean.shape == self.base.mean.shape[:1] and self.base.components == 1:
            mean = mean[:, None]
        if mean.shape != self.base.mean.shape:
            raise InvalidInput(
                f"mean_at({t}) must have the shape of the means of base, {self.base.mean.shape}, got {mean.shape}"
            )
        check_finite(mean, f"mean_at({t})")
        return mean

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moving) or self.base != other.base:
            return False
        if callable(self.mean_at) or callable(other.mean_at):
            return self.mean_at is other.mean_at
        return np.array_equal(self.mean_at, other.mean_at)

    __hash__ = None

    def sample(
        self,
        seed: int,
        rounds: range,
        trials: range,
        agents: range | None = None,
        batches: Floats | None = None,
    ) -> Floats:
        agents = range(self.agents) if agents is None else agents
        still = self.base.sample(seed, rounds, trials, agents, batches)
        where = slice(agents.start, agents.stop, agents.step)
        moved = self.means(rounds) - self.base.means(rounds)
        return still + moved[:, where, :, None]
