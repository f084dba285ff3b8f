"""What the agents see: independent noisy samples, one stream per agent.

Sample k of agent i in trial r is a pure function of (seed, r, i, k), see `numerics/random.py`: it does not depend on
threads, blocks or engines, and a deployed agent with a simulated sensor draws the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats, extent, same
from gossamer.errors import InvalidInput, Unsupported
from gossamer.networks import Network, NetworkLike
from gossamer.numerics import random
from gossamer.numerics.covariances import checked_covariances, square_roots

LARGEST_BATCH = 100_000
"""Beyond this many samples per round, only Gaussian batch means are drawn (in one draw, exactly)."""

LARGEST = 1e145
"""Squares of larger numbers, and sums of many of them, leave no room in a float."""


class Observations(ABC):
    """Streams of N agents with n components: means, variances, and how to draw them.

    mean      (N, n) expected value of every stream (at round 0, where it drifts)
    variance  (N, n)
    drift     (N, n) change of the mean per round; zero unless `Drifting`
    """

    mean: Floats
    variance: Floats
    normal: ClassVar[bool] = False
    """Whether `sample` draws mean + std times the standard normals of `numerics.random`, which compiled loops can draw
    by themselves as they go. The claim is about one `sample`: a class with another one does not inherit it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        owner = next(parent for parent in cls.__mro__ if "sample" in vars(parent))
        cls.normal = vars(cls).get("normal", vars(owner).get("normal", False))

    def __repr__(self) -> str:
        std = np.sqrt(self.variance)
        size = f"{self.agents} agents" + (f" x {self.components} components" if self.components > 1 else "")
        return f"{type(self).__name__}({size}, means {extent(self.mean)}, std {extent(std)})"

    def __eq__(self, other: object) -> bool:
        """Whether both are streams of the same kind with the same parameters."""
        if not isinstance(other, Observations):
            return NotImplemented
        return type(self) is type(other) and same(self.__getstate__(), other.__getstate__())

    __hash__ = None  # type: ignore[assignment]

    @property
    def agents(self) -> int:
        return int(self.mean.shape[0])

    @property
    def components(self) -> int:
        return int(self.mean.shape[1])

    @property
    def drift(self) -> Floats:
        return np.zeros_like(self.mean)

    @property
    def moving(self) -> bool:
        """Whether the means are a function of the round of their own, neither constant nor `drift` times the round."""
        return False

    def means(self, rounds: range) -> Floats:
        """(rounds, N, n) the expected values of those rounds."""
        return np.asarray(self.mean + np.asarray(rounds)[:, None, None] * self.drift)

    def target(self, rounds: int) -> Floats:
        """(n,) the average of the means in the last of `rounds` rounds: what every agent wants to know."""
        average: Floats = self.means(range(rounds - 1, rounds))[0].mean(axis=0)
        return average

    @property
    def normal_std(self) -> Floats | None:
        """(N, n) standard deviations if the samples are `normal`; None: only `sample` knows how to draw them."""
        return None

    @property
    def heavy_tailed(self) -> bool:
        """Whether the fourth moments are infinite, so that standard errors over trials cannot be trusted."""
        base = vars(self).get("base")  # streams that are made from others have their tails
        return isinstance(base, Observations) and base.heavy_tailed

    @abstractmethod
    def sample(
        self,
        seed: int,
        rounds: range,
        trials: range,
        agents: range | None = None,
        batches: Floats | None = None,
    ) -> Floats:
        """Return (rounds, agents, n, trials): the mean of each round's batch of samples.

        `batches` holds the batch size of every round from 0 up to rounds.stop; None means one sample each.
        """


class UniformDriven(Observations):
    """Streams that turn uniform random numbers into samples: `from_uniforms` is all that a new kind needs.

    A kind of your own sets `mean` and `variance` (N, n) and says what becomes of uniform numbers, such as

        class Laplace(gs.UniformDriven):
            def __init__(self, mean, scale):
                self.mean = np.asarray(mean, dtype=float).reshape(len(mean), -1)
                self.scale = scale
                self.variance = np.full_like(self.mean, 2 * scale**2)

            def from_uniforms(self, agents, *uniforms):
                u = uniforms[0] - 0.5
                noise = -self.scale * np.sign(u) * np.log1p(-2 * np.abs(u))
                return self.mean[agents, :, None] + noise

    and runs in every engine. Means and variances must be those of the samples: the exact errors rely on them.
    """

    uniforms: ClassVar[tuple[int, ...]] = (random.OBSERVATION,)
    """The uniform streams that `from_uniforms` consumes."""

    @abstractmethod
    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        """Turn independent uniforms of shape (samples, agents, n, trials) into samples for those agents."""

    def sample(
        self,
        seed: int,
        rounds: range,
        trials: range,
        agents: range | None = None,
        batches: Floats | None = None,
    ) -> Floats:
        """Draw every sample of every batch, one by one."""
        agents = range(self.agents) if agents is None else agents
        if batches is None:
            return self._samples(seed, rounds, trials, agents)
        sizes = batches[rounds.start : rounds.stop]
        if sizes.size and sizes.max() > LARGEST_BATCH:
            raise Unsupported(
                f"batches of {sizes.max():.3g} samples cannot be drawn one by one from {type(self).__name__}; "
                f"use Gaussian observations or batches of at most {LARGEST_BATCH}"
            )
        # A round takes the next samples of the agent's stream, as many as its batch.
        ends = np.cumsum(batches[: rounds.stop]).astype(int)
        parts = []
        for end, size in zip(ends[rounds.start :], sizes.astype(int), strict=True):
            if size == 0:
                parts.append(np.zeros((len(agents), self.components, len(trials))))
            else:
                parts.append(self._samples(seed, range(end - size, end), trials, agents).mean(axis=0))
        return np.stack(parts)

    def _samples(self, seed: int, numbers: range, trials: range, agents: range) -> Floats:
        streams = [
            random.uniforms(seed, purpose, trials, agents, self.components, numbers)
            for purpose in self.uniforms
        ]
        where = slice(agents.start, agents.stop, agents.step)
        return self.from_uniforms(where, *streams)


class Gaussian(Observations):
    """Normal samples.

    mean        (N,) or (N, n)
    std         a number, or one per agent and component (0: no noise); 1 by default
    covariance  instead of std, where the components of a stream depend on each other: (n, n), or (N, n, n)
                with one matrix per agent
    """

    normal: ClassVar[bool] = True

    def __init__(
        self, mean: ArrayLike, std: ArrayLike | None = None, covariance: ArrayLike | None = None
    ) -> None:
        self.mean = _means(mean)
        self._factor: Floats | None = None
        self._last: tuple[Any, Floats] | None = None
        if covariance is None:
            self.std = _like(self.mean, 1.0 if std is None else std, "std", np.ndim(mean))
            if self.std.min() < 0:
                raise InvalidInput(f"std must not be negative, got {self.std.min():g}")
            self.variance = _squares(self.std, "std")
        else:
            if std is not None:
                raise InvalidInput(
                    "the noise is given by std or by covariance, got both; leave std out, a covariance contains it"
                )
            full = checked_covariances(_array(covariance, "covariance"), *self.mean.shape)
            self._factor = square_roots(full)
            self.variance = np.ascontiguousarray(np.einsum("ijj->ij", full))
            self.std = np.sqrt(np.maximum(self.variance, 0.0))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": None}

    @property
    def factor(self) -> Floats:
        """(N, n, r): a square root F of the covariances; noise is F times r independent standard normals."""
        return self.std[:, :, None] * np.eye(self.components) if self._factor is None else self._factor

    @property
    def normal_std(self) -> Floats | None:
        return self.std if self.normal and self._factor is None else None

    def sample(
        self,
        seed: int,
        rounds: range,
        trials: range,
        agents: range | None = None,
        batches: Floats | None = None,
    ) -> Floats:
        """Batch means of Gaussian samples are Gaussian: one draw per round, whatever the batch."""
        agents = range(self.agents) if agents is None else agents
        if self._factor is not None:
            return self._correlated(self._factor, seed, rounds, trials, agents, batches)
        noise = random.normals(seed, random.OBSERVATION, trials, agents, self.components, rounds)
        if batches is not None:
            noise *= batch_scale(batches[rounds.start : rounds.stop])[:, None, None, None]
        where = slice(agents.start, agents.stop, agents.step)
        return self.mean[where, :, None] + self.std[where, :, None] * noise

    def _correlated(
        self, factor: Floats, seed: int, rounds: range, trials: range, agents: range, batches: Floats | None
    ) -> Floats:
        """mean + scale factor z with r independent standard normals z per agent and round.

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
            # One column after the other, so that a sample has the same bits in whatever block it is drawn.
            for column in range(factor.shape[2]):
                weight = scale[:, None, None] * factor[where, :, column]
                drawn += weight[..., None] * noise[:, :, column, None]
        self._last = (request, drawn)
        return drawn


class Bernoulli(UniformDriven):
    """1 with probability p, otherwise 0. p (N,) or (N, n)."""

    def __init__(self, p: ArrayLike) -> None:
        self.mean = _means(p)
        if self.mean.min() < 0 or self.mean.max() > 1:
            raise InvalidInput(f"p must lie between 0 and 1, got {self.mean.min():g} to {self.mean.max():g}")
        self.variance = self.mean * (1 - self.mean)

    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        return (uniforms[0] < self.mean[agents, :, None]).astype(float)


class Uniform(UniformDriven):
    """Uniform between low and high, each (N,) or (N, n) or a scalar for one of them."""

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        low, high = _array(low, "low"), _array(high, "high")
        larger = low if low.ndim else high
        whole = _means(larger)
        self.low, self.high = _like(whole, low, "low", larger.ndim), _like(whole, high, "high", larger.ndim)
        if np.any(self.low > self.high):
            raise InvalidInput("low must not exceed high, but it does somewhere; swap them there")
        self.mean = (self.low + self.high) / 2
        self.variance = (self.high - self.low) ** 2 / 12

    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        low, high = self.low[agents, :, None], self.high[agents, :, None]
        return np.asarray(low + (high - low) * uniforms[0])


class StudentT(UniformDriven):
    """Heavy tails: Student's t with `df` degrees of freedom, scaled to the given mean and standard deviation."""

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
    """Recorded samples, drawn again at random: an array (N, K) or (N, K, n), K recordings per agent.

    Means and variances are those of the recordings.
    """

    def __init__(self, samples: ArrayLike) -> None:
        try:
            array = np.asarray(samples)
        except ValueError as error:
            raise InvalidInput(f"every agent needs equally many recorded samples: {error}") from None
        array = _array(array, "recorded samples")
        if array.ndim == 2:
            array = array[:, :, None]
        if array.ndim != 3 or 0 in array.shape:
            raise InvalidInput(
                f"recorded samples must have the shape (agents, samples) or (agents, samples, components), "
                f"got {np.shape(samples)}"
            )
        _finite(array, "recorded samples")
        _squares(array, "recorded samples")
        self.samples = array
        self.mean = array.mean(axis=1)
        self.variance = array.var(axis=1)

    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        # One recording is drawn whole: its components stay together.
        pick = (uniforms[0][:, :, 0, :] * self.samples.shape[1]).astype(int)
        recorded = self.samples[agents]
        chosen = recorded[np.arange(recorded.shape[0])[None, :, None], pick]
        return np.ascontiguousarray(np.moveaxis(chosen, 3, 2))


class Drifting(Observations):
    """Streams whose means move by `rate` per round (a scalar, (N,) or (N, n)); the noise is that of `base`."""

    normal: ClassVar[bool] = True  # as far as its base is

    def __init__(self, base: Observations, rate: ArrayLike) -> None:
        if not isinstance(base, Observations):
            raise InvalidInput(f"base must be observations such as gs.Gaussian(...), got {base!r}")
        self._rate = base.drift + _like(base.mean, rate, "rate", 1 if base.components == 1 else 2)
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
        self.mean_at = mean_at if callable(mean_at) else _array(mean_at, "mean_at")
        self.mean = self.means(range(1))[0]
        self.variance = base.variance

    @property
    def moving(self) -> bool:
        return True

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
        mean = _array(value, f"mean_at({t})")
        if mean.shape == self.base.mean.shape[:1] and self.base.components == 1:
            mean = mean[:, None]
        if mean.shape != self.base.mean.shape:
            raise InvalidInput(
                f"mean_at({t}) must have the shape of the means of base, {self.base.mean.shape}, got {mean.shape}"
            )
        _finite(mean, f"mean_at({t})")
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


def batch_scale(sizes: Floats) -> Floats:
    """The standard deviation of the mean of each batch, for samples of standard deviation 1; 0 for an empty batch."""
    return np.where(sizes > 0, 1 / np.sqrt(np.maximum(sizes, 1)), 0.0)


def fourth_moment_note(observations: Observations) -> str:
    """What to say where trials of these streams are compared with exact errors; nothing if all is well."""
    if not observations.heavy_tailed:
        return ""
    return (
        "the observations' variance is finite but their fourth moment is not, so squared errors vary without limit: "
        "standard errors over trials are too small, and trials may seem to disagree with the exact error"
    )


def check_match(network: NetworkLike, observations: Observations) -> Network:
    """Return the network (see `Network.of`), or complain unless there is one stream for each of its agents."""
    network = Network.of(network)
    if not isinstance(observations, Observations):
        raise InvalidInput(
            f"observations must be streams such as gs.Gaussian(mean, std), got {type(observations).__name__}"
        )
    if network.agents != observations.agents:
        raise InvalidInput(
            f"one stream per agent is needed: the network has {network.agents} agents, "
            f"but the observations have {observations.agents}"
        )
    return network


def _array(value: ArrayLike, name: str) -> Floats:
    try:
        array = np.asarray(value)
        if array.dtype.kind != "c":
            return array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            f"{name} must be numbers, equally many for each agent, got {checks.brief(value)}"
        ) from None
    raise InvalidInput(
        f"{name} must be real, got complex numbers; give real and imaginary parts as two components"
    )


def _means(mean: ArrayLike) -> Floats:
    array = _array(mean, "the means")
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidInput(
            f"one value per agent, (N,), or per agent and component, (N, n), is needed, got shape {array.shape}"
        )
    _finite(array, "the means")
    _squares(array, "the means")
    return array[:, None].copy() if array.ndim == 1 else array.copy()


def _like(mean: Floats, value: ArrayLike, name: str, ndim: int) -> Floats:
    array = _array(value, name)
    _finite(array, name)
    if array.ndim == 1 and (ndim == 1 or mean.shape[1] == 1):
        array = array[:, None]
    elif array.ndim == 1 and mean.shape[0] == mean.shape[1] > 1:
        raise InvalidInput(
            f"{name} of shape {array.shape} could be per agent or per component here; "
            f"write {name}[:, None] or {name}[None, :]"
        )
    try:
        return np.broadcast_to(array, mean.shape).copy()
    except ValueError:
        hint = f"; for one {name} per agent write {name}[:, None]" if array.shape == mean.shape[:1] else ""
        raise InvalidInput(
            f"{name} must be a scalar or broadcast to the shape {mean.shape} of the means, "
            f"got shape {np.shape(value)}{hint}"
        ) from None


def _finite(array: Floats, what: str) -> None:
    if not np.all(np.isfinite(array)):
        raise InvalidInput(f"{what} must be finite, got {int(np.sum(~np.isfinite(array)))} NaN or infinite")


def _squares(array: Floats, what: str) -> Floats:
    """The squares, or a complaint if they overflow: errors are squares."""
    largest = float(np.abs(array).max())
    if largest > LARGEST:
        raise InvalidInput(
            f"{what} must not exceed {LARGEST:g}, because errors are squared, got {largest:g}; use another unit"
        )
    return array**2
