"""Chebyshev averaging: the fastest average of fixed values that a known spectrum allows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.acceleration import Acceleration, accelerate, chebyshev
from gossamer.methods.method import Register, StaticMethod, first_round


class PolynomialAveraging(StaticMethod):
    """Averages of fixed values by polynomials of L that a recursion of three terms builds up."""

    class State(NamedTuple):
        current: Register
        previous: Register

    class Coefficients(NamedTuple):
        load: Floats
        step_size: float | Floats
        momentum: float | Floats
        carry: float

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        return self.Coefficients(first_round(rounds), *self.acceleration(network, rounds))

    @abstractmethod
    def acceleration(
        self, network: SpectralFacts, rounds: int
    ) -> tuple[float | Floats, float | Floats, float]:
        """Return the step size, momentum and carry of all rounds (see `Acceleration`)."""

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return s.current + c.load * observation

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        current = s.current + c.load * observation
        return PolynomialAveraging.State(*accelerate(c, current, s.previous, mixed))

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.current


@dataclass(frozen=True)
class ChebyshevAveraging(PolynomialAveraging):
    r"""The best polynomial of L for averaging fixed values in T rounds.

    .. math::

        p_{t+1} = \omega_t (p_t - \gamma L p_t - p_{t-1}) + p_{t-1},
        \qquad \gamma = \frac{2}{\lambda_{\max} + \lambda_2}

    with :math:`\omega_t` of Chebyshev's acceleration (`acceleration.py`), so that after any T rounds the worst
    eigenmode is damped as much as possible in T rounds.

    Parameters
    ----------
    samples : int
        Number of observations that each agent averages in round 0.

    See Also
    --------
    MSDA : The same polynomials inside a dual method.
    JacobiGossip : Needs a dimension instead of the spectrum.
    LinearIteration : Without acceleration.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0), std=0.0)
    >>> gs.exact(gs.ChebyshevAveraging(), net, obs, rounds=30).total_error < 1e-5
    True
    """

    samples: int = 1

    name: ClassVar[str] = "chebyshev"

    def acceleration(self, network: SpectralFacts, rounds: int) -> Acceleration:
        return chebyshev(network, rounds)
