"""SSDA: dual accelerated averaging of fixed values (Scaman, Bach, Bubeck, Lee, Massoulie 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.acceleration import accelerate, check_acceleration, nesterov
from gossamer.methods.method import Register, StaticMethod, first_round


@dataclass(frozen=True)
class SSDA(StaticMethod):
    r"""Single-step dual acceleration: SDA's recursion on a value that does not change.

    .. math::

        y_{t+1} &= x_t - \eta L (x_t + v) \\
        x_{t+1} &= y_{t+1} + \zeta (y_{t+1} - y_t)

    The estimate is :math:`x_T + v`, where v is the mean of `samples` observations, all taken in round 0.

    Parameters
    ----------
    samples : int
        Number of observations that each agent averages in round 0.
    step_size, momentum : float, optional
        Step size :math:`\eta` and momentum :math:`\zeta`; by default from the spectrum, as for SDA.

    See Also
    --------
    SDA : The same recursion on streams.
    MSDA : Several exchanges per round.
    LinearIteration : Without momentum.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0), std=0.0)
    >>> gs.exact(gs.SSDA(), net, obs, rounds=60).total_error < 1e-6
    True
    """

    samples: int = 1
    step_size: float | None = None
    momentum: float | None = None

    name: ClassVar[str] = "ssda"

    class State(NamedTuple):
        value: Register
        x: Register
        memory: Register

    class Coefficients(NamedTuple):
        load: Floats
        step_size: float
        momentum: float | Floats
        carry: float

    def __post_init__(self) -> None:
        check_acceleration(self.step_size, self.momentum)

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        return self.Coefficients(first_round(rounds), *nesterov(network, self.step_size, self.momentum))

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return s.x + s.value + c.load * observation

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        return SSDA.State(s.value + c.load * observation, *accelerate(c, s.x, s.memory, mixed))

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.x + s.value
