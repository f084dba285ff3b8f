"""The interface of all streams: means, variances, and samples that are a pure function of (seed, trial, agent,
number)."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias

import numpy as np

from gossamer.arrays import Floats, extent, same
from gossamer.errors import InvalidInput, Unsupported
from gossamer.networks import DirectedNetwork, Network, NetworkLike
from gossamer.numerics import random
from gossamer.numerics.blocks import average

LARGEST_BATCH = 100_000
"""Beyond this many samples per round, only Gaussian batch means are drawn (in one draw, exactly)."""

BatchSizes: TypeAlias = Floats | None
"""The batch size of every round from round 0 on; None means one sample per round."""

SKETCHED = 100
"""Largest number of agents in a notebook's picture."""


class Observations(ABC):
    """Streams of N agents with n components: means, variances, and how to draw them.

    Attributes
    ----------
    mean : ndarray
        Expected value of every stream, in round 0 if it drifts, shape (N, n).
    variance : ndarray
        Variance of a single sample, shape (N, n).
    drift : ndarray
        Change of the mean per round, shape (N, n); zero unless `Drifting`.

    See Also
    --------
    Gaussian : Normal noise.
    Empirical : Recorded samples.
    UniformDriven : Base class of custom streams.

    Examples
    --------
    >>> obs: gs.Observations = gs.Bernoulli([0.2, 0.5])
    >>> obs.agents, obs.components, obs.variance.ravel().tolist()
    (2, 1, [0.16, 0.25])
    """

    mean: Floats
    variance: Floats
    normal: ClassVar[bool] = False
    """Whether `sample` draws mean + std times the standard normals of `numerics.random`, which compiled loops can draw
    on the fly. This is a property of one `sample`: a class that overrides it does not inherit the claim."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        owner = next(parent for parent in cls.__mro__ if "sample" in vars(parent))
        cls.normal = vars(cls).get("normal", vars(owner).get("normal", False))

    def __repr__(self) -> str:
        std = np.sqrt(self.variance)
        size = f"{self.agents} agents" + (f" x {self.components} components" if self.components > 1 else "")
        return f"{type(self).__name__}({size}, means {extent(self.mean)}, std {extent(std)})"

    def _repr_html_(self) -> str:
        """Show the mean and the standard deviation of each agent's first component as a picture above the text."""
        shown = min(self.agents, SKETCHED)
        mean, std = self.mean[:shown, 0], np.sqrt(self.variance[:shown, 0])
        low, high = float((mean - std).min()), float((mean + std).max())
        x = 8 + (np.arange(shown) + 0.5) * (304 / shown)
        center, top, bottom = (
            (72 - 64 * (values - low) / ((high - low) or 1.0)).round(1)
            for values in (mean, mean + std, mean - std)
        )
        bars = "".join(f"M{at:.1f} {a:g}V{b:g}" for at, a, b in zip(x, bottom, top, strict=True))
        dots = "".join(f'<circle cx="{at:.1f}" cy="{y:g}" r="1.8"/>' for at, y in zip(x, center, strict=True))
        words = html.escape(repr(self) + (f", the first {shown} shown" if shown < self.agents else ""))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="320" height="80" role="img" aria-label="{words}">'
            f'<path d="{bars}" stroke="currentColor" stroke-opacity="0.4"/><g fill="#0072b2">{dots}</g></svg>'
            f"<br><code>{words}</code>"
        )

    def __eq__(self, other: object) -> bool:
        """Return whether both are streams of the same kind with the same parameters."""
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
        """Whether the means are an arbitrary function of the round, neither constant nor linear (`drift`)."""
        return False

    @property
    def known_rounds(self) -> float:
        """Number of rounds that have means; infinite unless they were given for some rounds only."""
        return np.inf

    def means(self, rounds: range) -> Floats:
        """Return (rounds, N, n) the expected values of those rounds."""
        return np.asarray(self.mean + np.asarray(rounds)[:, None, None] * self.drift)

    def target(self, rounds: int) -> Floats:
        """Return (n,) the average of the means in the last of `rounds` rounds, which the agents estimate."""
        return average(self.means(range(rounds - 1, rounds))[0])

    @property
    def normal_std(self) -> Floats | None:
        """(N, n) standard deviations if the samples are `normal`; None if only `sample` can draw them."""
        return None

    @property
    def heavy_tailed(self) -> bool:
        """Whether the fourth moments are infinite, so that standard errors over trials are unreliable."""
        base = vars(self).get("base")  # streams built from others have the same tails
        return isinstance(base, Observations) and base.heavy_tailed

    @abstractmethod
    def sample(
        self, seed: int, rounds: range, trials: range, agents: range | None = None, batches: BatchSizes = None
    ) -> Floats:
        """Return (rounds, agents, n, trials): the mean of each round's batch of samples.

        `batches` holds the batch size of every round from 0 up to rounds.stop; None means one sample each.
        """

    def receive_estimates(self, rounds: int, trials: range, estimates: Floats) -> None:  # noqa: B027 - optional
        """Receive the agents' estimates after `rounds` rounds, shape (trials, N, n): later samples may depend on them.

        The engine with faults calls this at every horizon, before it asks for the samples of the next round.
        """


class UniformDriven(Observations):
    """Streams that turn uniform random numbers into samples; a new kind only has to define `from_uniforms`.

    Your own kind sets `mean` and `variance` (N, n) and transforms uniform numbers, for example ::

        class Laplace(gs.UniformDriven):
            def __init__(self, mean, scale):
                self.mean = np.asarray(mean, dtype=float).reshape(len(mean), -1)
                self.scale = scale
                self.variance = np.full_like(self.mean, 2 * scale**2)

            def from_uniforms(self, agents, *uniforms):
                u = uniforms[0] - 0.5
                noise = -self.scale * np.sign(u) * np.log1p(-2 * np.abs(u))
                return self.mean[agents, :, None] + noise

    and runs in every engine. Means and variances must be those of the samples, because exact errors rely on them.

    See Also
    --------
    Observations : The interface of all streams.
    Uniform : An example.

    Examples
    --------
    >>> class Coins(gs.UniformDriven):
    ...     mean, variance = np.zeros((4, 1)), np.ones((4, 1))
    ...
    ...     def from_uniforms(self, agents, *uniforms):
    ...         return np.where(uniforms[0] < 0.5, -1.0, 1.0)
    >>> gs.exact("anytime-sda", gs.Network.cycle(4), Coins(), rounds=100).over_limit
    1.0047
    """

    uniforms: ClassVar[tuple[int, ...]] = (random.OBSERVATION,)
    """The uniform streams that `from_uniforms` consumes."""

    @abstractmethod
    def from_uniforms(self, agents: slice, *uniforms: Floats) -> Floats:
        """Turn independent uniforms of shape (samples, agents, n, trials) into samples for those agents."""

    def sample(
        self, seed: int, rounds: range, trials: range, agents: range | None = None, batches: BatchSizes = None
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


def batch_scale(sizes: Floats) -> Floats:
    """Return the standard deviation of each batch's mean, for samples of standard deviation 1; 0 if it is empty."""
    return np.where(sizes > 0, 1 / np.sqrt(np.maximum(sizes, 1)), 0.0)


def fourth_moment_note(observations: Observations) -> str:
    """Return a caveat for comparing trials of these streams with exact errors; empty if there is none."""
    if not observations.heavy_tailed:
        return ""
    return (
        "the observations' variance is finite but their fourth moment is not, so squared errors vary without limit: "
        "standard errors over trials are too small, and trials may seem to disagree with the exact error"
    )


def check_match(network: NetworkLike | DirectedNetwork, observations: Observations) -> Network:
    """Return the network (see `Network.of`); raise an error unless there is one stream for each of its agents."""
    network = Network.of(network)
    check_streams(network.agents, observations)
    return network


def check_streams(agents: int, observations: Observations) -> None:
    """Raise an error unless there is one stream for each agent."""
    if not isinstance(observations, Observations):
        raise InvalidInput(
            parameter="observations",
            required="streams such as gs.Gaussian(mean, std)",
            got=str(type(observations).__name__),
        )
    if agents != observations.agents:
        raise InvalidInput(
            f"one stream per agent is needed: the network has {agents} agents, "
            f"but the observations have {observations.agents}"
        )
