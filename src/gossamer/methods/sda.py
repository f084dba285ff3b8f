"""SDA: the stochastic dual accelerated method (Zhang, Pananjady, Romberg, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts
from gossamer.methods.acceleration import accelerate, check_acceleration, nesterov, tunable_acceleration
from gossamer.methods.method import Method, Register, Tunable, batch_sizes


@dataclass(frozen=True)
class SDA(Method):
    r"""Dual gossip with Nesterov momentum, then the mean of the iterates after a burn-in.

    .. math::

        \theta_t &= x_t + R_t \\
        y_{t+1} &= x_t - \eta L \theta_t \\
        x_{t+1} &= y_{t+1} + \zeta (y_{t+1} - y_t)

    The estimate is the mean of :math:`\theta_t` over :math:`t = T_0, \dots, T-1`. Parameters that are None take the
    paper's values for the network and the number of rounds.

    Parameters
    ----------
    burn_in : int, optional
        Number of rounds :math:`T_0` before the mean, by default :math:`\lfloor T/2\rfloor`.
    step_size : float, optional
        Step size :math:`\eta` of the dual step, by default :math:`1/\lambda_\max`.
    momentum : float, optional
        Momentum :math:`\zeta`, by default :math:`(\sqrt\kappa - 1)/(\sqrt\kappa + 1)` with the condition number
        :math:`\kappa`.
    batch : float or sequence of float
        Number of samples that are averaged into :math:`R_t`: one number, or one per round.
    output : str
        What an agent answers: "average", or "last" for deterministic observations (the final :math:`\theta`).

    See Also
    --------
    AnytimeSDA : The same recursion without a burn-in.
    SSDA : The same recursion on values that do not change.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.SDA(), net, obs, rounds=200).over_limit
    2.569
    >>> gs.exact(gs.SDA(burn_in=50), net, obs, rounds=200).over_limit
    1.586
    """

    burn_in: int | None = None
    step_size: float | None = None
    momentum: float | None = None
    batch: float | Sequence[float] = 1
    output: str = "average"

    name: ClassVar[str] = "sda"

    class State(NamedTuple):
        x: Register  #: dual variable after the momentum step
        memory: Register  #: dual variable before it: y
        average: Register  #: mean of theta since the burn-in

    class Coefficients(NamedTuple):
        step_size: float
        momentum: float | Floats
        carry: float
        average_gain: Floats

    def __post_init__(self) -> None:
        check_acceleration(self.step_size, self.momentum)
        if self.burn_in is not None:
            checks.whole_number("burn_in", self.burn_in, least=0)
        checks.choice("output", self.output, ("average", "last"))

    @property
    def anytime(self) -> bool:
        return self.output == "last" or self.burn_in == 0

    def averages_since(self, rounds: int) -> int | None:
        return None if self.output == "last" else self._since(rounds)

    def tunable(self, network: SpectralFacts, rounds: int) -> Mapping[str, Tunable]:
        burn_in = Tunable(rounds // 2, 0, rounds - 1, whole=True)
        return {"burn_in": burn_in, **tunable_acceleration(network)}

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        burn_in = self._since(rounds)
        if burn_in >= rounds and self.output == "average":
            raise InvalidInput(
                parameter="burn_in",
                required="below the number of rounds",
                got=f"burn_in={burn_in} and rounds={rounds}",
                hint="run longer or average more",
            )
        if self.output == "last":
            gain = np.ones(rounds)
        else:
            since = np.arange(rounds) - burn_in
            gain = np.where(since >= 0, 1.0 / np.maximum(since + 1, 1), 0.0)
        return self.Coefficients(*nesterov(network, self.step_size, self.momentum), gain)

    def _since(self, rounds: int) -> int:
        return rounds // 2 if self.burn_in is None else self.burn_in

    def batches(self, network: SpectralFacts, rounds: int) -> Floats:
        return batch_sizes(self.batch, rounds)

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return s.x + observation

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        theta = s.x + observation
        x, memory = accelerate(c, s.x, s.memory, mixed)
        return SDA.State(x, memory, average=s.average + c.average_gain * (theta - s.average))

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.average
