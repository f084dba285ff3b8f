"""Averaging of fixed values: the linear iteration, direct Chebyshev averaging, and random gossip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.methods.base import Method, Number, check_positive, first_round_only, load
from gossamer.methods.ssda import chebyshev_ratios

if TYPE_CHECKING:
    from gossamer.networks import Network


class Registers(NamedTuple):
    value: Number


class Coefficients(NamedTuple):
    load: NDArray[np.float64]
    step_size: float


class _Iteration(Method):
    """x <- x - step_size * mixed, from the mean of `samples` observations taken in round 0."""

    samples: int
    State: ClassVar[type[Any]] = Registers

    def batches(self, network: Network, rounds: int) -> NDArray[np.float64]:
        return first_round_only(rounds, self.samples)

    @staticmethod
    def message(c: Coefficients, s: Registers, y: Number) -> Number:
        return s.value + c.load * y

    @staticmethod
    def step(c: Coefficients, s: Registers, y: Number, mixed: Number) -> Registers:
        return Registers(s.value + c.load * y - c.step_size * mixed)

    @staticmethod
    def estimate(c: Coefficients, s: Registers) -> Number:
        return s.value


@dataclass(frozen=True)
class LinearIteration(_Iteration):
    """x_{t+1} = (I - a L) x_t: each agent moves to a weighted mean of its neighbourhood (Xiao, Boyd 2004).

    The weights are the network's: metropolis, max-degree, best-constant or laplacian. a = 1 by default where
    that converges (lambda_max < 2), otherwise 2/(lambda_1 + lambda_{N-1}), the best constant.
    """

    samples: int = 1
    step_size: float | None = None

    name: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def coefficients(self, network: Network, rounds: int) -> Coefficients:
        step_size = self.step_size
        if step_size is None:
            best = 2.0 / (network.lambda_max + network.lambda_2)
            step_size = 1.0 if network.lambda_max < 2 else best
        return Coefficients(load(rounds), step_size)


class ChebyshevRegisters(NamedTuple):
    current: Number
    previous: Number


class ChebyshevCoefficients(NamedTuple):
    load: NDArray[np.float64]
    forward: NDArray[np.float64]
    back: NDArray[np.float64]
    step_size: float


@dataclass(frozen=True)
class ChebyshevAveraging(Method):
    """The best polynomial of L for averaging fixed values in T rounds.

        p_{t+1} = f_t (I - c3 L) p_t - b_t p_{t-1},   c3 = 2/(lambda_1 + lambda_{N-1})

    with f_t, b_t from Chebyshev polynomials (see `chebyshev_ratios`), so that after any T rounds the worst
    eigenmode is damped as much as T rounds can.
    """

    samples: int = 1

    name: ClassVar[str] = "chebyshev"
    State: ClassVar[type[Any]] = ChebyshevRegisters

    def coefficients(self, network: Network, rounds: int) -> ChebyshevCoefficients:
        forward, back = chebyshev_ratios(1.0 / network.condition_number, rounds)
        step_size = 2.0 / (network.lambda_max + network.lambda_2)
        return ChebyshevCoefficients(load(rounds), forward, back, step_size)

    def batches(self, network: Network, rounds: int) -> NDArray[np.float64]:
        return first_round_only(rounds, self.samples)

    @staticmethod
    def message(c: ChebyshevCoefficients, s: ChebyshevRegisters, y: Number) -> Number:
        return s.current + c.load * y

    @staticmethod
    def step(c: ChebyshevCoefficients, s: ChebyshevRegisters, y: Number, mixed: Number) -> ChebyshevRegisters:
        current = s.current + c.load * y
        return ChebyshevRegisters(
            current=c.forward * (current - c.step_size * mixed) - c.back * s.previous,
            previous=current,
        )

    @staticmethod
    def estimate(c: ChebyshevCoefficients, s: ChebyshevRegisters) -> Number:
        return s.current


class _RandomGossip(_Iteration):
    def coefficients(self, network: Network, rounds: int) -> Coefficients:
        return Coefficients(load(rounds), 1.0)


@dataclass(frozen=True)
class PairwiseGossip(_RandomGossip):
    """Each round one random edge wakes and its two ends take their mean (Boyd, Ghosh, Prabhakar, Shah 2006).

    The exchange is random, so the method is simulated, not analysed: `mixed` is L_t m with
    L_t = (e_i - e_j)(e_i - e_j)'/2 for the edge ij drawn in round t.
    """

    samples: int = 1

    name: ClassVar[str] = "pairwise"
    mixing: ClassVar[str] = "pairwise"


@dataclass(frozen=True)
class BroadcastGossip(_RandomGossip):
    """Each round one random agent speaks and its neighbours move half way (Aysal, Yildiz, Sarwate, Scaglione 2009).

    Agents reach consensus on a random value whose mean is mubar; it is not mubar itself.
    """

    samples: int = 1

    name: ClassVar[str] = "broadcast"
    mixing: ClassVar[str] = "broadcast"
