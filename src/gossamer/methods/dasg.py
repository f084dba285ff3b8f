"""D-ASG: the primal accelerated method (Fallah, Gurbuzbalaban, Ozdaglar, Simsekli, Zhu; JMLR 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from gossamer.facts import SpectralFacts
from gossamer.methods.acceleration import check_acceleration, tunable_acceleration
from gossamer.methods.method import Tunable
from gossamer.methods.primal import AcceleratedGradient, momentum_of, smallest_shifted_eigenvalue


@dataclass(frozen=True)
class DASG(AcceleratedGradient):
    r"""Distributed accelerated stochastic gradient with a constant step size.

    .. math::

        y &= (1 + \beta) x_k - \beta x_{k-1} \\
        x_{k+1} &= W_1 y - \alpha (y - R_k), \qquad W_1 = I - L/2

    Its error stops falling at a level that depends on :math:`\alpha`.

    Parameters
    ----------
    step_size : float, optional
        Step size :math:`\alpha`; by default :math:`\lambda_N(W_1)/2`, the first stage of D-MASG.
    momentum : float, optional
        Momentum :math:`\beta`; by default :math:`(1 - \sqrt\alpha)/(1 + \sqrt\alpha)`.

    See Also
    --------
    DMASG : The same in stages with decreasing steps.
    DSG : Without momentum.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.DASG(step_size=0.01), net, obs, rounds=400).mse
    0.10302
    """

    step_size: float | None = None
    momentum: float | None = None

    name: ClassVar[str] = "d-asg"
    anytime = True

    def __post_init__(self) -> None:
        check_acceleration(self.step_size, self.momentum)

    def tunable(self, network: SpectralFacts, rounds: int) -> Mapping[str, Tunable]:
        return tunable_acceleration(network)

    def coefficients(self, network: SpectralFacts, rounds: int) -> AcceleratedGradient.Coefficients:
        alpha = smallest_shifted_eigenvalue(network) / 2 if self.step_size is None else float(self.step_size)
        beta = float(momentum_of(alpha)) if self.momentum is None else self.momentum
        return self.Coefficients(alpha, beta)
