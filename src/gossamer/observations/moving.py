"""Streams whose means move: steadily, or as any function of the round."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.observations.shapes import as_numbers, check_finite, like_means
from gossamer.observations.stream import BatchSizes, Observations


class Shifted(Observations):
    """The noise of `base` around means that move."""

    base: Observations

    def __init__(self, base: Observations) -> None:
        if not isinstance(base, Observations):
            raise InvalidInput(
                parameter="base", required="observations such as gs.Gaussian(...)", got=repr(base)
            )
        self.base = base
        self.variance = base.variance

    @abstractmethod
    def _moved(self, rounds: range) -> Floats:
        """Return (rounds, N, n) how far the means of those rounds are from those of `base`."""

    def sample(
        self, seed: int, rounds: range, trials: range, agents: range | None = None, batches: BatchSizes = None
    ) -> Floats:
        agents = range(self.agents) if agents is None else agents
        still = self.base.sample(seed, rounds, trials, agents, batches)
        where = slice(agents.start, agents.stop, agents.step)
        return still + self._moved(rounds)[:, where, :, None]


class Drifting(Shifted):
    """Streams whose means move by `rate` per round; the noise is that of `base`.

    Parameters
    ----------
    base : Observations
        The streams as they are in round 0, before their means move.
    rate : array_like
        Change of the means per round, in units of the observations: a number for all agents, shape (N,) for one per
        agent, or (N, n) for one per agent and component.

    See Also
    --------
    Moving : Means that are any function of the round.
    Gaussian : Means that do not move.

    Examples
    --------
    >>> obs = gs.Drifting(gs.Gaussian(np.zeros(4)), rate=0.01)
    >>> gs.exact(gs.AnytimeSDA(gain=0.1), gs.Network.cycle(4), obs, rounds=400).mse
    0.021914
    """

    normal: ClassVar[bool] = True  # as for its base

    def __init__(self, base: Observations, rate: ArrayLike) -> None:
        super().__init__(base.base if isinstance(base, Drifting) else base)
        self._rate = base.drift + like_means(base.mean, rate, "rate", 1 if base.components == 1 else 2)
        self.mean = base.mean

    @property
    def drift(self) -> Floats:
        return self._rate

    @property
    def normal_std(self) -> Floats | None:
        return self.base.normal_std if self.normal else None

    def _moved(self, rounds: range) -> Floats:
        return np.asarray(rounds)[:, None, None] * self._rate


class Moving(Shifted):
    """Streams whose means are any function of the round; the noise is that of `base`.

    Parameters
    ----------
    base : Observations
        The streams whose noise is added to the means; their own means are not used.
    mean_at : callable or array_like
        Function of the round t = 0, 1, ... that returns the means, shape (N,) or (N, n); or an array of shape (T,
        N) or (T, N, n).

    See Also
    --------
    Drifting : Means that move by the same amount in every round.
    Gaussian : Means that do not move.

    Examples
    --------
    >>> obs = gs.Moving(gs.Gaussian(np.zeros(4)), lambda t: np.full(4, np.sin(t / 50)))
    >>> gs.exact(gs.AnytimeSDA(gain=0.1), gs.Network.cycle(4), obs, rounds=100).mse < 0.1
    True
    """

    def __init__(self, base: Observations, mean_at: Callable[[int], ArrayLike] | ArrayLike) -> None:
        super().__init__(base)
        self.mean_at = mean_at if callable(mean_at) else as_numbers(mean_at, "mean_at")
        if not callable(self.mean_at) and not (self.mean_at.ndim in (2, 3) and len(self.mean_at)):
            raise InvalidInput(
                parameter="mean_at",
                required="a function of the round, or an array with the means of every round, (T, N) or (T, N, n)",
                got=checks.brief(mean_at),
            )
        self.mean = self.means(range(1))[0]

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
                f"has the means of {len(self.mean_at)} rounds, but round {rounds.stop - 1} was asked for; "
                "give more, or a function of the round",
                parameter="mean_at",
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

    def _moved(self, rounds: range) -> Floats:
        return self.means(rounds) - self.base.means(rounds)
