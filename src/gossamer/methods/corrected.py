"""Gradient methods that correct the bias of averaging with neighbors: EXTRA, exact diffusion, gradient tracking.

With f_i(x) = |x - mu_i|^2/2 agent i's stochastic gradient in round t is x_i - R_i,t. The differences between agents'
gradients drive DSG away from the average in every round; these methods remember what they did before and cancel it,
so that with a constant step their bias vanishes, and with falling steps it falls faster. They are not accelerated and
need on the order of kappa rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Fields, Method, Register, Tunable
from gossamer.methods.primal import check_averaging


@dataclass(frozen=True)
class CorrectedGradient(Method):
    """The common part of the three: steps that are constant, or such that the average estimate is that of all
    samples."""

    step_size: float | None = None

    anytime = True

    class Coefficients(NamedTuple):
        step_size: Floats

    def __post_init__(self) -> None:
        if self.step_size is not None:
            checks.number("step_size", self.step_size, above=0)

    def tunable(self, network: SpectralFacts, rounds: int) -> Mapping[str, Tunable]:
        return {"step_size": Tunable(1.0 / max(rounds, 2), most=1.0)}

    def coefficients(self, network: SpectralFacts, rounds: int) -> Fields:
        return self.Coefficients(self._steps(network, 1.0 / np.arange(1, rounds + 1)))

    def _steps(self, network: SpectralFacts, falling: Floats) -> Floats:
        check_averaging(network)
        return falling if self.step_size is None else np.full(len(falling), float(self.step_size))

    @staticmethod
    def estimate(c: Fields, s: Fields) -> Register:
        return s.x


@dataclass(frozen=True)
class StochasticEXTRA(CorrectedGradient):
    r"""EXTRA with stochastic gradients (Shi, Ling, Wu, Yin 2015).

    .. math::

        x_{t+1} = (I + W) x_t - \tfrac12 (I + W) x_{t-1} - a_t (x_t - R_t) + a_{t-1} (x_{t-1} - R_{t-1}),
        \qquad W = I - L

    from :math:`x_0 = x_{-1} = 0`, where the terms of round -1 are zero.

    Parameters
    ----------
    step_size : float, optional
        The same a in all rounds; by default :math:`a_t = 1/(t+1)`.

    See Also
    --------
    StochasticExactDiffusion : Another correction of DSG.
    StochasticGradientTracking : Tracks the average gradient.
    DSG : Without correction.

    Notes
    -----
    Shi, Ling, Wu, Yin, "EXTRA: an exact first-order algorithm for decentralized consensus optimization", SIAM Journal
    on Optimization 25, 2015. For stored data, see `gs.applications.Extra`.

    Examples
    --------
    >>> net, obs = gs.Network.complete(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.StochasticEXTRA(), net, obs, rounds=200).over_limit < 1.3
    True
    """

    name: ClassVar[str] = "extra"

    class State(NamedTuple):
        x: Register
        correction: Register  #: (I + W)/2 x_{t-1} - a_{t-1} (x_{t-1} - R_{t-1})

    @staticmethod
    def message(c: CorrectedGradient.Coefficients, s: State, observation: Register) -> Register:
        return s.x

    @staticmethod
    def step(c: CorrectedGradient.Coefficients, s: State, observation: Register, mixed: Register) -> State:
        push = c.step_size * (s.x - observation)
        return StochasticEXTRA.State(2 * s.x - mixed - push - s.correction, s.x - mixed / 2 - push)


@dataclass(frozen=True)
class StochasticExactDiffusion(CorrectedGradient):
    r"""Exact diffusion with stochastic gradients (Yuan, Ying, Zhao, Sayed 2018), also known as D² and NIDS.

    .. math::

        \psi_t &= x_t - a_t (x_t - R_t) \\
        x_{t+1} &= \tfrac12 (I + W) (\psi_t + x_t - \psi_{t-1}), \qquad W = I - L

    from :math:`x_0 = \psi_{-1} = 0`.

    Parameters
    ----------
    step_size : float, optional
        The same a in all rounds; by default :math:`a_t = 1/(t+1)`.

    See Also
    --------
    StochasticEXTRA : Another correction of DSG.
    StochasticGradientTracking : Tracks the average gradient.
    DSG : Without correction.

    Notes
    -----
    Yuan, Ying, Zhao, Sayed, "Exact diffusion for distributed optimization and learning", IEEE Transactions on Signal
    Processing 67, 2019. For stored data, see `gs.applications.ExactDiffusion`.

    Examples
    --------
    >>> net, obs = gs.Network.complete(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.StochasticExactDiffusion(), net, obs, rounds=200).over_limit < 1.1
    True
    """

    name: ClassVar[str] = "exact-diffusion"

    class State(NamedTuple):
        x: Register
        moved: Register  #: psi_{t-1}

    @staticmethod
    def message(c: CorrectedGradient.Coefficients, s: State, observation: Register) -> Register:
        return 2 * s.x - c.step_size * (s.x - observation) - s.moved

    @staticmethod
    def step(c: CorrectedGradient.Coefficients, s: State, observation: Register, mixed: Register) -> State:
        moved = s.x - c.step_size * (s.x - observation)
        return StochasticExactDiffusion.State(moved + s.x - s.moved - mixed / 2, moved)


@dataclass(frozen=True)
class StochasticGradientTracking(CorrectedGradient):
    r"""Gradient tracking with stochastic gradients: DSGT (Pu, Nedic 2021).

    .. math::

        x_{k+1} &= W_1 x_k - a_k s_k, \qquad W_1 = I - L/2 \\
        s_{k+1} &= W_1 s_k + g_{k+1} - g_k, \qquad s_0 = g_0, \quad g_k = x_k - R_k

    An iteration exchanges two vectors and so takes two rounds: :math:`s_k` is formed in round 2k, from the mean
    :math:`R_k` of the samples of two rounds (one in round 0), and :math:`x_{k+1}` in round 2k + 1. With :math:`W_1` in
    place of W every :math:`a < 1/2` is stable.

    Parameters
    ----------
    step_size : float, optional
        The same a in all iterations; by default the share of the newest samples among all, 1 and
        then :math:`2/(2k+1)`.

    See Also
    --------
    StochasticEXTRA : A correction without tracking.
    StochasticExactDiffusion : A correction without tracking.
    DSG : Without tracking.

    Notes
    -----
    Pu, Nedic, "Distributed stochastic gradient tracking methods", Mathematical Programming 187, 2021; Nedic,
    Olshevsky, Shi, "Achieving geometric convergence for distributed optimization over time-varying graphs", SIAM
    Journal on Optimization 27, 2017. For stored data, see `gs.applications.GradientTracking`.

    Examples
    --------
    >>> net, obs = gs.Network.complete(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.StochasticGradientTracking(), net, obs, rounds=201).over_limit < 1.3
    True
    """

    name: ClassVar[str] = "gradient-tracking"

    class State(NamedTuple):
        x: Register
        tracked: Register  #: s
        gradient: Register  #: g of the last iteration

    class Coefficients(NamedTuple):
        step_size: Floats
        tracks: Floats  #: 1 in the rounds that exchange s, 0 in those that exchange x
        moves: Floats  #: the opposite

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        t = np.arange(rounds)
        tracks = (t % 2 == 0).astype(float)
        falling = 2.0 / np.maximum(2 * (t // 2) + 1, 2)
        return self.Coefficients(self._steps(network, falling), tracks, 1.0 - tracks)

    def batches(self, network: SpectralFacts, rounds: int) -> Floats:
        sizes = np.where(np.arange(rounds) % 2 == 0, 2.0, 0.0)
        sizes[0] = 1.0
        return sizes

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return c.tracks * s.tracked + c.moves * s.x

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        gradient = c.tracks * (s.x - observation) + c.moves * s.gradient
        tracked = s.tracked - c.tracks * mixed / 2 + gradient - s.gradient
        x = s.x - c.moves * (mixed / 2 + c.step_size * s.tracked)
        return StochasticGradientTracking.State(x, tracked, gradient)
