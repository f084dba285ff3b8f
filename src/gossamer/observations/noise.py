"""Kinds of noise around constant means."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.numerics import random
from gossamer.numerics.covariances import checked_covariances, square_roots
from gossamer.observations.shapes import as_means, as_numbers, check_finite, like_means, squared
from gossamer.observations.stream import BatchSizes, Observations, UniformDriven, batch_scale


class Gaussian(Observations):
    """Normal samples.

    Parameters
    ----------
    mean : array_like
        Mean of each agent, shape (N,), or of each agent and component, shape (N, n).
    std : array_like, optional
        Standard deviation: a number, or one per agent and component; 0 means no noise. 1 by default.
    covariance : array_like, optional
        Instead of std, if the components of a stream are correlated: (n, n), or (N, n, n) with one matrix per
        agent.

    See Also
    --------
    StudentT : Heavy tails.
    Empirical : Recorded samples.
    Drifting : Means that move.
    UniformDriven : Base class of custom streams.

    Examples
    --------
    >>> gs.Gaussian([1.0, 2.0, 3.0], std=0.5)
    Gaussian(3 agents, means 1 to 3, std 0.5)
    """

    normal: ClassVar[bool] = True

    def __init__(
        self, mean: ArrayLike, std: ArrayLike | None = None, covariance: ArrayLike | None = None
    ) -> None:
        self.mean = as_means(mean)
        self._factor: Floats | None = None
        self._last: tuple[object, Floats] | None = None
        if covariance is None:
            self.std = like_means(self.mean, 1.0 if std is None else std, "std", np.ndim(mean))
            if self.std.min() < 0:
                raise InvalidInput(f"must not be negative, got {self.std.min():g}", parameter="std")
            self.variance = squared(self.std, "std")
        else:
            if std is not None:
                raise InvalidInput(
                    "the noise is given by std or by covariance, got both; leave std out, a covariance contains it"
                )
            full = checked_covariances(as_numbers(covariance, "covariance"), *self.mean.shape)
            self._factor = square_roots(full)
            self.variance = np.ascontiguousarray(np.einsum("ijj->ij", full))
            self.std = np.sqrt(np.maximum(self.variance, 0.0))

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_last": None}

    @property
    def factor(self) -> Floats:
        """(N, n, r): a square root F of the covariances; noise is F times r independent standard normals."""
        return self.std[:, :, None] * np.eye(self.components) if self._factor is None else self._factor

    @property
    def normal_std(self) -> Floats | None:
        return self.std if self.normal and self._factor is None else None

    def sample(
        self, seed: int, rounds: range, trials: range, agents: range | None = None, batches: BatchSizes = None
    ) -> Floats:
        """Draw once per round for any batch, because batch means of Gaussian samples are Gaussian."""
        agents = range(self.agents) if agents is None else agents
        if self._factor is not None:
            return self._correlated(self._factor, seed, rounds, trials, agents, batches)
        noise = random.normals(seed, random.OBSERVATION, trials, agents, self.components, rounds)
        if batches is not None:
            noise *= batch_scale(batches[rounds.start : rounds.stop])[:, None, None, None]
        where = slice(agents.start, agents.stop, agents.step)
        noise *= self.std[where, :, None]
        noise += self.mean[where, :, None]
        return noise

    def _correlated(
        self, factor: Floats, seed: int, rounds: range, trials: range, agents: range, batches: Floats | None
    ) -> Floats:
        """Return mean + scale factor z with r independent standard normals z per agent and round.

        The engines take one component at a time and ask for the same samples for each, so the last draw is kept.
        """
        sizes = None if batches is None else batches[rounds.start : rounds.stop]
        request = (seed, rounds, trials, agents, None if sizes is None else sizes.tobytes())
        last = self._last
        if last is not None and last[0] == request:
            return last[1]
        scale = np.ones(len(rounds)) if sizes is None else batch_scale(sizes)
        where = slice(agents.start, agents.stop, agents.step)
        shape = (len(rounds), len(agents), self.components, len(trials))
        drawn = np.broadcast_to(self.mean[where, :, None], shape).copy()
        if factor.shape[2]:
            noise = random.normals(seed, random.OBSERVATION, trials, agents, factor.shape[2], rounds)
            # One column after the other, so that a sample has the same bits in any block.
            for column in range(factor.shape[2]):
                weight = scale[:, None, None] * factor[where, :, column]
                drawn += weight[..., None] * noise[:, :, column, None]
        self._last = (request, drawn)
        return drawn


class Bernoulli(UniformDriven):
    """1 with probability p, otherwise 0.

    Parameters
    ----------
    p : array_like
        Probability of a one for each agent, shape (N,), or for each agent and component, shape (N, n).

    See Also
    --------
    Gaussian : Normal noise.
    Uniform : Noise in an interval.
    Observations : The base class of streams.

    Examples
    --------
    >>> gs.Bernoulli([0.1, 0.9]).variance.ravel()
    array([0.09, 0.09])
    """

    def __init__(self, p: ArrayLike) -> None:
        self.mean = as_means(p)
        if self.mean.min() < 0 or self.mean.max() > 1:
            raise InvalidInput(
                f"must lie between 0 and 1, got {self.mean.min():g} to {self.mean.max():g}", parameter="p"
            )
        self.variance = self.mean * (1 - self.mean)

    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        return (uniforms[0] < self.mean[agents, :, None]).astype(float)


class Uniform(UniformDriven):
    """Uniform between low and high.

    Parameters
    ----------
    low, high : array_like
        Each (N,) or (N, n), or a scalar for one of them.

    See Also
    --------
    Gaussian : Normal noise.
    Bernoulli : Zeros and ones.
    Observations : The base class of streams.

    Examples
    --------
    >>> gs.Uniform(0.0, [1.0, 3.0]).mean.ravel()
    array([0.5, 1.5])
    """

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        low, high = as_numbers(low, "low"), as_numbers(high, "high")
        larger = low if low.ndim else high
        whole = as_means(larger)
        self.low, self.high = (
            like_means(whole, low, "low", larger.ndim),
            like_means(whole, high, "high", larger.ndim),
        )
        if np.any(self.low > self.high):
            raise InvalidInput(
                "must not exceed high, but it does somewhere; swap them there", parameter="low"
            )
        self.mean = (self.low + self.high) / 2
        self.variance = (self.high - self.low) ** 2 / 12

    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        low, high = self.low[agents, :, None], self.high[agents, :, None]
        return np.asarray(low + (high - low) * uniforms[0])


class StudentT(UniformDriven):
    """Heavy tails: Student's t with `df` degrees of freedom, scaled to the given mean and standard deviation.

    Parameters
    ----------
    mean : array_like
        Mean of each agent, shape (N,), or of each agent and component, shape (N, n).
    std : array_like
        A number, or one per agent and component.
    df : float
        Degrees of freedom, above 2. Up to 4 the fourth moment is infinite, and standard errors are unreliable.

    See Also
    --------
    Gaussian : Normal noise.
    Observations : The base class of streams.

    Examples
    --------
    >>> gs.StudentT([0.0, 1.0], std=2.0, df=5).variance.ravel()
    array([4., 4.])
    """

    uniforms: ClassVar[tuple[int, ...]] = (random.OBSERVATION, random.SECOND)

    def __init__(self, mean: ArrayLike, std: ArrayLike = 1.0, df: float = 5.0) -> None:
        self.df = checks.number("df", df, above=2)  # there is no variance otherwise
        self._like = Gaussian(mean, std)
        self.mean, self.variance = self._like.mean, self._like.variance

    @property
    def heavy_tailed(self) -> bool:
        return self.df <= 4

    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        # Bailey (1994): a polar method that needs just two uniforms and no rejection.
        u, v = uniforms
        t = np.sqrt(self.df * (u ** (-2 / self.df) - 1)) * np.cos(2 * np.pi * v)
        scale = self._like.std * np.sqrt((self.df - 2) / self.df)
        return np.asarray(self.mean[agents, :, None] + scale[agents, :, None] * t)


class Empirical(UniformDriven):
    """Recorded samples, resampled at random. Means and variances are those of the recordings.

    Parameters
    ----------
    samples : array_like
        K recordings per agent, shape (N, K) or (N, K, n).

    See Also
    --------
    Gaussian : Normal noise.
    Moving : Means that change with the round.
    Observations : The base class of streams.

    Examples
    --------
    >>> gs.Empirical([[1.0, 3.0], [2.0, 6.0]]).mean.ravel()
    array([2., 4.])
    """

    def __init__(self, samples: ArrayLike) -> None:
        try:
            array = np.asarray(samples)
        except ValueError as error:
            raise InvalidInput(f"every agent needs equally many recorded samples: {error}") from None
        array = as_numbers(array, "recorded samples")
        if array.ndim == 2:
            array = array[:, :, None]
        if array.ndim != 3 or 0 in array.shape:
            raise InvalidInput(
                f"recorded samples must have the shape (agents, samples) or (agents, samples, components), "
                f"got {np.shape(samples)}"
            )
        check_finite(array, "recorded samples")
        squared(array, "recorded samples")
        self.samples = array
        self.mean = array.mean(axis=1)
        self.variance = array.var(axis=1)

    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        # A recording is drawn as a whole, so that its components stay together.
        pick = (uniforms[0][:, :, 0, :] * self.samples.shape[1]).astype(int)
        recorded = self.samples[agents]
        chosen = recorded[np.arange(recorded.shape[0])[None, :, None], pick]
        return np.ascontiguousarray(np.moveaxis(chosen, 3, 2))
