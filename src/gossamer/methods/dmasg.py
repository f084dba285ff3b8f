"""D-ASG and D-MASG: primal accelerated methods (Fallah, Gurbuzbalaban, Ozdaglar, Simsekli, Zhu; JMLR 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import InvalidInput
from gossamer.methods.base import Method, Number, check_positive, check_whole

if TYPE_CHECKING:
    from gossamer.networks import Network


class Registers(NamedTuple):
    x: Number
    previous: Number


class Coefficients(NamedTuple):
    step_size: float | NDArray[np.float64]
    momentum: float | NDArray[np.float64]


def smallest_shifted_eigenvalue(network: Network) -> float:
    """The smallest eigenvalue of W_1 = (I + W)/2 = I - L/2, which must be positive."""
    value = 1.0 - network.lambda_max / 2
    if value <= 0:
        raise InvalidInput(
            "DSG, D-ASG and D-MASG need W = I - L with eigenvalues above -1, so lambda_max < 2, "
            f"but this network has lambda_max = {network.lambda_max:.4g}; use weights='metropolis'"
        )
    return value


def momentum_of(step_size: Number) -> Number:
    """beta = (1 - sqrt alpha)/(1 + sqrt alpha)."""
    return (1 - np.sqrt(step_size)) / (1 + np.sqrt(step_size))


class _Primal(Method):
    """One iteration, shared: y = (1+beta) x_k - beta x_{k-1};  x_{k+1} = W_1 y - alpha (y - R_k)."""

    State: ClassVar[type[Any]] = Registers

    @staticmethod
    def message(c: Coefficients, s: Registers, y: Number) -> Number:
        return s.x + c.momentum * (s.x - s.previous)

    @staticmethod
    def step(c: Coefficients, s: Registers, y: Number, mixed: Number) -> Registers:
        ahead = s.x + c.momentum * (s.x - s.previous)
        return Registers(x=ahead - mixed / 2 - c.step_size * (ahead - y), previous=s.x)

    @staticmethod
    def estimate(c: Coefficients, s: Registers) -> Number:
        return s.x


@dataclass(frozen=True)
class DASG(_Primal):
    """Distributed accelerated stochastic gradient with a constant step size.

        y = (1+beta) x_k - beta x_{k-1};   x_{k+1} = W_1 y - alpha (y - R_k),   W_1 = I - L/2

    Its error stops falling at a level set by alpha. Default alpha = lambda_N(W_1)/2, the first stage of D-MASG.
    """

    step_size: float | None = None
    momentum: float | None = None

    name: ClassVar[str] = "d-asg"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_positive("momentum", self.momentum, zero=True)

    def coefficients(self, network: Network, rounds: int) -> Coefficients:
        alpha = smallest_shifted_eigenvalue(network) / 2 if self.step_size is None else self.step_size
        beta = float(momentum_of(alpha)) if self.momentum is None else self.momentum
        return Coefficients(alpha, beta)


@dataclass(frozen=True)
class DMASG(_Primal):
    """D-ASG in stages: each stage halves the step size twice and lasts twice as long.

        t_k = 2^k ceil(7 sqrt(kt) ln 2) for k = 2..K,   kt = 2/lambda_N(W_1),   t_1 = the rounds before them
        alpha_1 = lambda_N/2,   alpha_k = lambda_N/2^(2k+1),   beta_k = (1 - sqrt a_k)/(1 + sqrt a_k)

    The momentum restarts with each stage. The paper runs T = 2 (t_2 + ... + t_K) rounds (`rounds_for`); for
    other T, K is the largest number of stages with that sum <= T/2, and stage 1 takes the rounds left over.
    """

    stages: int | None = None

    name: ClassVar[str] = "d-masg"

    def __post_init__(self) -> None:
        check_whole("stages", self.stages, 1)

    @staticmethod
    def stage_unit(network: Network) -> int:
        """ceil(7 sqrt(kt) ln 2)."""
        return math.ceil(7 * math.sqrt(2 / smallest_shifted_eigenvalue(network)) * math.log(2))

    @staticmethod
    def rounds_for(network: Network, stages: int) -> int:
        """The paper's number of rounds T for K stages (K >= 2)."""
        if stages < 2:
            raise InvalidInput(
                f"the paper's number of rounds is defined for 2 or more stages, but {stages!r} came"
            )
        return int(2 * (2 ** (stages + 1) - 4)) * DMASG.stage_unit(network)

    def coefficients(self, network: Network, rounds: int) -> Coefficients:
        smallest, unit = smallest_shifted_eigenvalue(network), self.stage_unit(network)
        stages = self.stages
        if stages is None:
            stages = 1
            while 2 * (2 ** (stages + 2) - 4) * unit <= rounds:
                stages += 1
        lengths = [2**k * unit for k in range(2, stages + 1)]
        first = rounds - sum(lengths)
        if first < 1:
            raise InvalidInput(
                f"{stages} stages of D-MASG need more than {sum(lengths)} rounds on this network, "
                f"but rounds={rounds} came; use fewer stages or leave stages out"
            )
        alphas = [smallest / 2] + [smallest / 2 ** (2 * k + 1) for k in range(2, stages + 1)]
        step_size = np.repeat(alphas, [first, *lengths])
        momentum = momentum_of(step_size)
        momentum[np.cumsum([0, first, *lengths[:-1]] if lengths else [0])] = 0.0
        return Coefficients(step_size, momentum)
