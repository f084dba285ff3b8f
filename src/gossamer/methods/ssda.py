"""SSDA and MSDA: dual accelerated averaging of fixed values (Scaman, Bach, Bubeck, Lee, Massoulie 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.methods.base import Method, Number, check_positive, first_round_only, load, nesterov

if TYPE_CHECKING:
    from gossamer.networks import Network


class Registers(NamedTuple):
    value: Number
    x: Number
    y: Number


class Coefficients(NamedTuple):
    load: NDArray[np.float64]
    step_size: float
    momentum: float


@dataclass(frozen=True)
class SSDA(Method):
    """Single-step dual acceleration: SDA's recursion on a value that does not change.

        y_{t+1} = x_t - eta L (x_t + v);   x_{t+1} = y_{t+1} + zeta (y_{t+1} - y_t);   output x_T + v

    v is the mean of `samples` observations, all taken in round 0.
    """

    samples: int = 1
    step_size: float | None = None
    momentum: float | None = None

    name: ClassVar[str] = "ssda"
    State: ClassVar[type[Any]] = Registers

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_positive("momentum", self.momentum, zero=True)

    def coefficients(self, network: Network, rounds: int) -> Coefficients:
        return Coefficients(load(rounds), *nesterov(network, self.step_size, self.momentum))

    def batches(self, network: Network, rounds: int) -> NDArray[np.float64]:
        return first_round_only(rounds, self.samples)

    @staticmethod
    def message(c: Coefficients, s: Registers, y: Number) -> Number:
        return s.x + s.value + c.load * y

    @staticmethod
    def step(c: Coefficients, s: Registers, y: Number, mixed: Number) -> Registers:
        moved = s.x - c.step_size * mixed
        return Registers(value=s.value + c.load * y, x=moved + c.momentum * (moved - s.y), y=moved)

    @staticmethod
    def estimate(c: Coefficients, s: Registers) -> Number:
        return s.x + s.value


class MultiRegisters(NamedTuple):
    value: Number
    x: Number
    y: Number
    inner: Number  #: Chebyshev iterate u_k / a_k
    previous: Number  #: the one before


class MultiCoefficients(NamedTuple):
    load: NDArray[np.float64]
    first: NDArray[np.float64]  #: 1 in the first gossip round of an outer step
    last: NDArray[np.float64]  #: 1 in the last one
    forward: NDArray[np.float64]
    back: NDArray[np.float64]
    inner_step: float
    step_size: float
    momentum: float


@dataclass(frozen=True)
class MSDA(Method):
    """Multi-step dual acceleration: each outer step gossips with the polynomial P_K(L), K = floor(sqrt k).

        c2 = (1+g)/(1-g), c3 = 2/((1+g) lambda_1), g = 1/k;   a_0 = 1, a_1 = c2, a_{j+1} = 2 c2 a_j - a_{j-1}
        u_0 = v, u_1 = c2 (I - c3 L) v, u_{j+1} = 2 c2 (I - c3 L) u_j - u_{j-1};   P_K(L) v = v - u_K/a_K

    The outer recursion is SSDA's with P_K(L) in place of L; k here is the condition number. One outer step
    takes K rounds.
    """

    samples: int = 1

    name: ClassVar[str] = "msda"
    State: ClassVar[type[Any]] = MultiRegisters

    def coefficients(self, network: Network, rounds: int) -> MultiCoefficients:
        gamma = 1.0 / network.condition_number
        inner_rounds = max(1, math.floor(math.sqrt(network.condition_number) + 1e-9))
        forward, back = chebyshev_ratios(gamma, inner_rounds)
        place = np.arange(rounds) % inner_rounds
        # The eigenvalues of P_K(L) lie in 1 +- deviation, so the outer problem is well conditioned.
        c1 = (1 - math.sqrt(gamma)) / (1 + math.sqrt(gamma))
        deviation = 2 * c1**inner_rounds / (1 + c1 ** (2 * inner_rounds))
        root = math.sqrt((1 + deviation) / (1 - deviation))
        return MultiCoefficients(
            load=load(rounds),
            first=(place == 0).astype(float),
            last=(place == inner_rounds - 1).astype(float),
            forward=forward[place],
            back=back[place],
            inner_step=2 / ((1 + gamma) * network.lambda_max),
            step_size=1 / (1 + deviation),
            momentum=(root - 1) / (root + 1),
        )

    def batches(self, network: Network, rounds: int) -> NDArray[np.float64]:
        return first_round_only(rounds, self.samples)

    @staticmethod
    def message(c: MultiCoefficients, s: MultiRegisters, y: Number) -> Number:
        theta = s.x + s.value + c.load * y
        return s.inner + c.first * (theta - s.inner)

    @staticmethod
    def step(c: MultiCoefficients, s: MultiRegisters, y: Number, mixed: Number) -> MultiRegisters:
        value = s.value + c.load * y
        current = s.inner + c.first * (s.x + value - s.inner)
        inner = c.forward * (current - c.inner_step * mixed) - c.back * s.previous
        moved = s.x - c.step_size * (s.x + value - inner)
        ahead = moved + c.momentum * (moved - s.y)
        return MultiRegisters(
            value=value,
            x=s.x + c.last * (ahead - s.x),
            y=s.y + c.last * (moved - s.y),
            inner=inner,
            previous=current,
        )

    @staticmethod
    def estimate(c: MultiCoefficients, s: MultiRegisters) -> Number:
        return s.x + s.value


def chebyshev_ratios(gamma: float, rounds: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients of p_{j+1} = forward_j (I - c3 L) p_j - back_j p_{j-1} for p_j = u_j/a_j, safe from overflow.

    With q_j = a_{j-1}/a_j: forward_0 = 1, forward_j = 2 c2 q_{j+1} and back_j = q_j q_{j+1}.
    """
    if gamma >= 1 - 1e-12:  # one eigenvalue: a single product averages exactly, and then stays there
        forward, back = np.ones(rounds), np.zeros(rounds)
        return forward, back
    c2 = (1 + gamma) / (1 - gamma)
    forward, back = np.ones(rounds), np.zeros(rounds)
    ratio = 1 / c2
    for j in range(1, rounds):
        following = 1 / (2 * c2 - ratio)
        forward[j], back[j] = 2 * c2 * following, ratio * following
        ratio = following
    return forward, back
