"""Gradient methods for stored rows, for comparison: they send theta instead of curvature, but more often.

Each minimizes the mean over agents of f_i, agent i's share of the loss, with W = I - L and full gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats

Mix = Callable[[Floats], Floats]
Gradient = Callable[[Floats], Floats]
State = tuple[Floats, ...]

GRID = 2.0 ** np.arange(5, -9, -1)
"""The step sizes that tuning tries, as multiples of 1/(the largest curvature of any agent at the start)."""


@dataclass(frozen=True)
class GradientMethod(ABC):
    """A gradient method with a constant step."""

    step: float | None = 1.0

    name: ClassVar[str]
    vectors: ClassVar[int] = 1
    r"""Number of vectors in a message that are as long as :math:`\theta`."""

    def __post_init__(self) -> None:
        if self.step is not None:
            checks.number("step", self.step, above=0)

    @property
    def label(self) -> str:
        return f"{self.name}, {'best step' if self.step is None else f'step={self.step:g}'}"

    @abstractmethod
    def start(self, theta: Floats, mix: Mix, gradient: Gradient, size: float) -> State:
        r"""Return the registers after the first round, :math:`\theta` first."""

    @abstractmethod
    def advance(self, state: State, mix: Mix, gradient: Gradient, size: float) -> State:
        """Return the registers after one more round."""


@dataclass(frozen=True)
class Extra(GradientMethod):
    r"""EXTRA, an exact first-order algorithm for decentralized consensus optimization (Shi, Ling, Wu, Yin 2015).

    .. math::

        x_1 &= W x_0 - a \nabla f(x_0) \\
        x_{k+2} &= (I + W) x_{k+1} - \frac{I + W}{2} x_k - a \big(\nabla f(x_{k+1}) - \nabla f(x_k)\big)

    Parameters
    ----------
    step : float or None
        Step size a, as a multiple of 1/(the largest eigenvalue of any agent's curvature at the start). With None, the
        one of a grid with the smallest error after the last round, which requires knowing the answer.

    See Also
    --------
    ExactDiffusion : Another correction of the same gradient steps.
    GradientTracking : Tracks the average gradient instead.
    DSGD : For rows that arrive one after another.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> rows = gs.LikelihoodEstimation.from_data(x, x[:, 0] > x[:, 1] / 2, gs.Network.cycle(5), ridge=0.1)
    >>> rows.fit(gs.applications.Extra(), 300).disagreement < 0.1
    True
    """

    name: ClassVar[str] = "EXTRA"

    def start(self, theta: Floats, mix: Mix, gradient: Gradient, size: float) -> State:
        slope, mixed = gradient(theta), mix(theta)
        return mixed - size * slope, theta, mixed, slope

    def advance(self, state: State, mix: Mix, gradient: Gradient, size: float) -> State:
        x, before, mixed_before, slope_before = state
        slope, mixed = gradient(x), mix(x)
        new = x + mixed - (before + mixed_before) / 2 - size * (slope - slope_before)
        return new, x, mixed, slope


@dataclass(frozen=True)
class ExactDiffusion(GradientMethod):
    r"""Exact diffusion (Yuan, Ying, Zhao, Sayed: Exact diffusion for distributed optimization and learning, 2018).

    .. math::

        \psi_k = x_k - a \nabla f(x_k), \qquad x_{k+1} = \frac{I + W}{2} (\psi_k + x_k - \psi_{k-1}), \qquad
        \psi_{-1} = x_0

    Parameters
    ----------
    step : float or None
        Step size a, as a multiple of 1/(the largest eigenvalue of any agent's curvature at the start). With None, the
        one of a grid with the smallest error after the last round, which requires knowing the answer.

    See Also
    --------
    Extra : Another correction of the same gradient steps.
    GradientTracking : Tracks the average gradient instead.
    DSGD : For rows that arrive one after another.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> rows = gs.LikelihoodEstimation.from_data(x, x[:, 0] > x[:, 1] / 2, gs.Network.cycle(5), ridge=0.1)
    >>> rows.fit(gs.applications.ExactDiffusion(), 300).disagreement < 0.1
    True
    """

    name: ClassVar[str] = "exact diffusion"

    def start(self, theta: Floats, mix: Mix, gradient: Gradient, size: float) -> State:
        return self.advance((theta, theta), mix, gradient, size)

    def advance(self, state: State, mix: Mix, gradient: Gradient, size: float) -> State:
        x, before = state
        psi = x - size * gradient(x)
        corrected = psi + x - before
        return (corrected + mix(corrected)) / 2, psi


@dataclass(frozen=True)
class GradientTracking(GradientMethod):
    r"""Gradient tracking, DIGing (Nedic, Olshevsky, Shi: Achieving geometric convergence for distributed optimization
    over time-varying graphs, 2017); with one sample per gradient it is DSGT (Pu, Nedic 2021).

    .. math::

        x_{k+1} = W x_k - a s_k, \qquad s_{k+1} = W s_k + \nabla f(x_{k+1}) - \nabla f(x_k), \qquad
        s_0 = \nabla f(x_0)

    Parameters
    ----------
    step : float or None
        Step size a, as a multiple of 1/(the largest eigenvalue of any agent's curvature at the start). With None, the
        one of a grid with the smallest error after the last round, which requires knowing the answer.

    See Also
    --------
    Extra : Corrects gradient steps without tracking.
    ExactDiffusion : Corrects gradient steps without tracking.
    DSGT : For rows that arrive one after another.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> rows = gs.LikelihoodEstimation.from_data(x, x[:, 0] > x[:, 1] / 2, gs.Network.cycle(5), ridge=0.1)
    >>> rows.fit(gs.applications.GradientTracking(step=None), 300).disagreement < 0.1
    True
    """

    name: ClassVar[str] = "gradient tracking"
    vectors: ClassVar[int] = 2

    def start(self, theta: Floats, mix: Mix, gradient: Gradient, size: float) -> State:
        slope = gradient(theta)
        return self.advance((theta, slope, slope), mix, gradient, size)

    def advance(self, state: State, mix: Mix, gradient: Gradient, size: float) -> State:
        x, tracked, slope = state
        new = mix(x) - size * tracked
        fresh = gradient(new)
        return new, mix(tracked) + fresh - slope, fresh
