"""Stochastic gradients over a network, the established way to fit a model to streams, for comparison.

In round t agent i takes a step along the gradient g_i of its newest samples, averaged over them; W = I - L.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.linearization import predictors_of
from gossamer.applications.likelihood.streaming import CHUNK, Draws, Learned, in_blocks
from gossamer.arrays import Booleans, Floats, Integers

if TYPE_CHECKING:
    from gossamer.applications.likelihood.estimation import LikelihoodEstimation

GRID = 2.0 ** np.arange(4, -7, -1)
"""The step sizes that tuning tries, as multiples of 1/(the largest mean curvature of any agent at the start)."""

LANES = 64
"""Number of trials side by side. Rounds are computed one by one, so it is efficient to run many trials at a time."""

Mix = Callable[[Floats], Floats]


@dataclass(frozen=True)
class StochasticGradient(ABC):
    """Steps a_t = a/sqrt(t+1); the estimate is the mean of all iterates, weighted by their rounds."""

    step: float | tuple[float, ...] | None = 1.0

    name: ClassVar[str]
    vectors: ClassVar[int] = 1
    r"""Number of vectors in a message that are as long as :math:`\theta`."""

    def __post_init__(self) -> None:
        for step in self.steps.tolist():
            checks.number("step", step, above=0)

    @property
    def steps(self) -> Floats:
        """The step sizes to try."""
        return np.atleast_1d(GRID if self.step is None else checks.array("step", self.step))

    @property
    def label(self) -> str:
        return f"{self.name}, {'best step' if len(self.steps) > 1 else f'step={self.steps[0]:g}'}"

    @abstractmethod
    def advance(self, state: tuple[Floats, ...], slope: Floats, step: Floats, mix: Mix) -> tuple[Floats, ...]:
        r"""Return the registers after a round with the gradient `slope`, :math:`\theta` first."""

    def learned(self, problem: LikelihoodEstimation, horizons: Integers, trials: int, seed: int) -> Learned:
        """Return every agent's estimates after each of the ascending horizons; all step sizes run side by side."""
        steps = self.steps
        learned = in_blocks(
            problem, trials, seed, lambda draws: self._learn(problem, draws, horizons, steps), CHUNK, LANES
        )
        estimates = learned.estimates.reshape(len(steps), len(horizons), *learned.estimates.shape[1:])
        assert problem.parameter is not None
        with np.errstate(over="ignore", invalid="ignore"):
            errors = ((estimates[:, -1] - problem.parameter) ** 2).mean(axis=(1, 2, 3))
        best = estimates[int(np.argmin(np.nan_to_num(errors, nan=np.inf)))]
        return Learned(np.where(np.isnan(best), np.inf, best), learned.withheld[: len(horizons)])

    def _learn(
        self, problem: LikelihoodEstimation, draws: Draws, horizons: Integers, steps: Floats
    ) -> tuple[Floats, Booleans]:
        """Return estimates (steps x H, N, p, B)."""
        agents, trials, count = problem.network.agents, len(draws.trials), len(steps)
        shape = (problem.size, agents, count * trials)
        gossip, sizes = problem.network.gossip, np.repeat(steps / problem.steepness, trials)
        state: tuple[Floats, ...] = (np.zeros(shape),)
        average, averages = np.zeros(shape), []

        def mix(values: Floats) -> Floats:
            flows = gossip @ np.swapaxes(values, 0, 1).reshape(agents, -1)
            return np.asarray(values - np.swapaxes(flows.reshape(agents, len(values), -1), 0, 1))

        with np.errstate(over="ignore", invalid="ignore"):
            for piece, (x, y, weights, group) in draws.pieces(range(int(horizons[-1])), set()):
                covariates, labels = np.tile(x, count), np.tile(y, count)
                for t in piece:
                    new = slice((t - piece.start) * group, (t - piece.start + 1) * group)
                    predictors = predictors_of(problem.family, covariates[new], state[0])
                    slopes = problem.family.slopes(predictors, labels[new]) * weights[new][:, :, None]
                    slope = (slopes[:, :, None] * covariates[new]).sum(axis=1).reshape(shape)
                    slope = slope / problem.per_round + problem.penalty[:, None, None] * state[0]
                    state = self.advance(state, slope, sizes / np.sqrt(t + 1), mix)
                    average += 2.0 / (t + 2) * (state[0] - average)  # weights 1, 2, 3, ...
                    if t + 1 in horizons:
                        averages.append(average.reshape(*shape[:2], count, trials).swapaxes(0, 1).copy())
        estimates = np.moveaxis(np.stack(averages), 3, 0).reshape(-1, agents, problem.size, trials)
        return estimates, np.zeros((len(estimates), agents, trials), dtype=bool)


@dataclass(frozen=True)
class DSGD(StochasticGradient):
    r"""Distributed stochastic gradients (Nedic, Ozdaglar 2009; Lian and others 2017), averaged (Polyak, Juditsky 1992).

    .. math:: \theta_i \leftarrow \sum_j W_{ij} \theta_j - a_t g_i(\theta_i)

    Parameters
    ----------
    step : float, tuple of float or None
        The a of the step sizes :math:`a_t = a/\sqrt{t+1}`, as a multiple of 1/(the largest mean curvature of any agent
        at the start). Of several, or of a grid for None, the one with the smallest error after the last round is
        chosen, which requires knowing the answer.

    See Also
    --------
    DSGT : With gradient tracking.
    ExactDiffusion : For rows that are all in memory.
    gossamer.LikelihoodEstimation : The estimator that it is compared with.

    Examples
    --------
    >>> team = gs.LikelihoodEstimation.random(gs.Network.cycle(6), "logistic", dimension=2)
    >>> team.simulate(gs.applications.DSGD(), 200, trials=2).over_limit > 1
    True
    """

    name: ClassVar[str] = "DSGD"

    def advance(self, state: tuple[Floats, ...], slope: Floats, step: Floats, mix: Mix) -> tuple[Floats, ...]:
        return (mix(state[0]) - step * slope,)


@dataclass(frozen=True)
class DSGT(StochasticGradient):
    r"""Distributed stochastic gradient tracking (Pu, Nedic 2021), averaged like `DSGD`.

    .. math::

        s_i \leftarrow \sum_j W_{ij} s_j + g_i(\theta_i) - g_i', \qquad
        \theta_i \leftarrow \sum_j W_{ij} (\theta_j - a_t s_j)

    where :math:`g_i'` is the gradient of the round before. Agents send :math:`\theta` and s, so messages are twice as
    long.

    Parameters
    ----------
    step : float, tuple of float or None
        The a of the step sizes :math:`a_t = a/\sqrt{t+1}`, as a multiple of 1/(the largest mean curvature of any agent
        at the start). Of several, or of a grid for None, the one with the smallest error after the last round is
        chosen, which requires knowing the answer.

    See Also
    --------
    DSGD : Without tracking.
    GradientTracking : For rows that are all in memory.
    gossamer.LikelihoodEstimation : The estimator that it is compared with.

    Examples
    --------
    >>> team = gs.LikelihoodEstimation.random(gs.Network.cycle(6), "logistic", dimension=2)
    >>> team.simulate(gs.applications.DSGT(), 200, trials=2).over_limit > 1
    True
    """

    name: ClassVar[str] = "DSGT"
    vectors: ClassVar[int] = 2

    def advance(self, state: tuple[Floats, ...], slope: Floats, step: Floats, mix: Mix) -> tuple[Floats, ...]:
        theta = state[0]
        tracked = slope if len(state) == 1 else mix(state[1]) + slope - state[2]
        return mix(theta - step * tracked), tracked, slope
