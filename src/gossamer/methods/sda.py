"""SDA: the stochastic dual accelerated method (Zhang, Pananjady, Romberg, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import InvalidInput
from gossamer.methods.base import Method, Number, batch_sizes, check_positive, check_whole, nesterov

if TYPE_CHECKING:
    from gossamer.networks import Network


class Registers(NamedTuple):
    x: Number  #: dual variable after the momentum step
    y: Number  #: dual variable before it
    average: Number  #: mean of theta since the burn-in


class Coefficients(NamedTuple):
    step_size: float
    momentum: float
    average_gain: NDArray[np.float64]


@dataclass(frozen=True)
class SDA(Method):
    """Dual gossip with Nesterov momentum, then the mean of the iterates after a burn-in.

        theta_t = x_t + R_t
        y_{t+1} = x_t - eta L theta_t
        x_{t+1} = y_{t+1} + zeta (y_{t+1} - y_t)
        output    mean of theta_t over t = T0 .. T-1

    Parameters (None: the paper's choice for the network and the number of rounds)
        burn_in     T0, default floor(T/2)
        step_size   eta, default 1/lambda_1(L)
        momentum    zeta, default (sqrt k - 1)/(sqrt k + 1), k the condition number
        batch       m_t samples are averaged into R_t: a number, or one per round
        output      "average", or "last" for deterministic observations (the final theta)
    """

    burn_in: int | None = None
    step_size: float | None = None
    momentum: float | None = None
    batch: float | Sequence[float] = 1
    output: str = "average"

    name: ClassVar[str] = "sda"
    State: ClassVar[type[Any]] = Registers

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_positive("momentum", self.momentum, zero=True)
        check_whole("burn_in", self.burn_in, 0)
        if self.output not in ("average", "last"):
            raise InvalidInput(f"output must be 'average' or 'last', but {self.output!r} came")

    def coefficients(self, network: Network, rounds: int) -> Coefficients:
        burn_in = rounds // 2 if self.burn_in is None else self.burn_in
        if burn_in >= rounds:
            raise InvalidInput(
                f"burn_in must be below the number of rounds, but burn_in={burn_in} and rounds={rounds} came; "
                "run longer or average more"
            )
        if self.output == "last":
            gain = np.ones(rounds)
        else:
            since = np.arange(rounds) - burn_in
            gain = np.where(since >= 0, 1.0 / np.maximum(since + 1, 1), 0.0)
        return Coefficients(*nesterov(network, self.step_size, self.momentum), gain)

    def batches(self, network: Network, rounds: int) -> NDArray[np.float64]:
        return batch_sizes(self.batch, rounds)

    @staticmethod
    def message(c: Coefficients, s: Registers, y: Number) -> Number:
        return s.x + y

    @staticmethod
    def step(c: Coefficients, s: Registers, y: Number, mixed: Number) -> Registers:
        theta = s.x + y
        moved = s.x - c.step_size * mixed
        return Registers(
            x=moved + c.momentum * (moved - s.y),
            y=moved,
            average=s.average + c.average_gain * (theta - s.average),
        )

    @staticmethod
    def estimate(c: Coefficients, s: Registers) -> Number:
        return s.average
