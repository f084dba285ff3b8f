"""DSG: the distributed stochastic gradient method (the paper's Appendix A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.methods.base import Method, Number
from gossamer.methods.dmasg import smallest_shifted_eigenvalue

if TYPE_CHECKING:
    from gossamer.networks import Network


class Registers(NamedTuple):
    theta: Number


class Coefficients(NamedTuple):
    gain: NDArray[np.float64]


@dataclass(frozen=True)
class DSG(Method):
    """A gradient step with size 1/(t+1), then one average with the neighbours.

    theta_{t+1} = W [theta_t + (R_t - theta_t)/(t+1)],   W = I - L

    Not accelerated, but its noise is the least possible once the network has mixed: sigma^2/T.
    """

    name: ClassVar[str] = "dsg"
    State: ClassVar[type[Any]] = Registers

    def coefficients(self, network: Network, rounds: int) -> Coefficients:
        smallest_shifted_eigenvalue(network)  # complains where W = I - L would diverge
        return Coefficients(1.0 / np.arange(1, rounds + 1))

    @staticmethod
    def message(c: Coefficients, s: Registers, y: Number) -> Number:
        return s.theta + c.gain * (y - s.theta)

    @staticmethod
    def step(c: Coefficients, s: Registers, y: Number, mixed: Number) -> Registers:
        return Registers(DSG.message(c, s, y) - mixed)

    @staticmethod
    def estimate(c: Coefficients, s: Registers) -> Number:
        return s.theta
