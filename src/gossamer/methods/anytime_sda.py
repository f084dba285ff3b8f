"""Anytime SDA: the dual recursion fed with a smoothed running mean, read at its last iterate (ours)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import InvalidInput
from gossamer.methods.base import Method, Number, check_positive, nesterov

if TYPE_CHECKING:
    from gossamer.networks import Network


class Registers(NamedTuple):
    mean: Number  #: running mean of the agent's own observations
    smooth: Number  #: that mean, smoothed over about w rounds
    x: Number  #: dual variable
    memory: Number  #: what the acceleration remembers of the previous round


class Coefficients(NamedTuple):
    gain: NDArray[np.float64]
    smoothing_gain: NDArray[np.float64]
    step_size: float
    momentum: float | NDArray[np.float64]
    carry: float


@dataclass(frozen=True)
class AnytimeSDA(Method):
    """SDA whose estimate is good at any moment: no horizon to choose, no burn-in, constant memory.

        M_t = M_{t-1} + (R_t - M_{t-1})/(t+1)              running mean of the agent's own stream
        S_t = S_{t-1} + a_t (M_t - S_{t-1})                a_t = max(1/(t+1), 1/w)
        theta_t = x_t + S_t                                what neighbours hear
        Nesterov    y_{t+1} = x_t - eta L theta_t,  x_{t+1} = y_{t+1} + zeta (y_{t+1} - y_t)
        Chebyshev   x_{t+1} = om_t (x_t - g L theta_t - x_{t-1}) + x_{t-1}
        output      x_T + S_{T-1}

    S is always a convex combination of the agent's observations, so the bias is that of the noiseless
    accelerated method; only the noise is shaped. Without smoothing each new observation enters unmixed;
    smoothing over w rounds costs about w observations and divides the unmixed part. Balancing the two gives
    w = sqrt(K/2) with K = sum over nonzero eigenvalues of ((1 - zeta)/(eta lambda))^2, and half of that w for
    Chebyshev. Both accelerations are one update here, with om_t = 1 + momentum: y = x - eta L theta,
    x' = y + momentum (y - memory), where Nesterov remembers y and Chebyshev remembers x (`carry` 1 or 0).

    Parameters (None: chosen from the network's spectrum)
        acceleration  "nesterov", or "chebyshev": faster, for reliable rounds only
        smoothing     w in rounds; 0 switches it off
        gain          a constant floor of the running mean's gain, to track drifting means
        step_size, momentum   eta and zeta (Nesterov only)
    """

    acceleration: str = "nesterov"
    smoothing: float | None = None
    gain: float | None = None
    step_size: float | None = None
    momentum: float | None = None

    name: ClassVar[str] = "anytime-sda"
    State: ClassVar[type[Any]] = Registers

    def __post_init__(self) -> None:
        if self.acceleration not in ("nesterov", "chebyshev"):
            raise InvalidInput(
                f"acceleration must be 'nesterov' or 'chebyshev', but {self.acceleration!r} came"
            )
        if self.acceleration == "chebyshev" and (self.step_size is not None or self.momentum is not None):
            raise InvalidInput(
                "Chebyshev acceleration derives its step size and momentum from the network's spectrum; "
                "leave step_size and momentum out, or use acceleration='nesterov'"
            )
        check_positive("smoothing", self.smoothing, zero=True)
        check_positive("step_size", self.step_size)
        check_positive("momentum", self.momentum, zero=True)
        check_positive("gain", self.gain)
        if self.gain is not None and self.gain > 1:
            raise InvalidInput(f"gain must be above 0 and at most 1, but {self.gain!r} came")

    def coefficients(self, network: Network, rounds: int) -> Coefficients:
        decreasing = 1.0 / np.arange(1, rounds + 1)
        gain = decreasing if self.gain is None else np.maximum(decreasing, self.gain)
        window = self.window(network)
        smoothing_gain = np.ones(rounds) if window <= 1 else np.maximum(decreasing, 1.0 / window)
        if self.acceleration == "nesterov":
            eta, zeta = nesterov(network, self.step_size, self.momentum)
            return Coefficients(gain, smoothing_gain, eta, zeta, carry=1.0)
        low, high = network.lambda_2, network.lambda_max
        omega = chebyshev_weights((high - low) / (high + low), rounds)
        return Coefficients(gain, smoothing_gain, 2.0 / (high + low), omega - 1.0, carry=0.0)

    def window(self, network: Network) -> float:
        """The smoothing w in rounds that this method uses on `network`."""
        if self.smoothing is not None:
            return float(self.smoothing)
        eta, zeta = nesterov(network, self.step_size, self.momentum)
        unmixed = ((1 - zeta) / eta) ** 2 * network.inverse_square_trace
        window = float(np.sqrt(unmixed / 2))
        return window if self.acceleration == "nesterov" else window / 2

    @staticmethod
    def message(c: Coefficients, s: Registers, y: Number) -> Number:
        mean = s.mean + c.gain * (y - s.mean)
        return s.x + s.smooth + c.smoothing_gain * (mean - s.smooth)

    @staticmethod
    def step(c: Coefficients, s: Registers, y: Number, mixed: Number) -> Registers:
        mean = s.mean + c.gain * (y - s.mean)
        moved = s.x - c.step_size * mixed
        return Registers(
            mean=mean,
            smooth=s.smooth + c.smoothing_gain * (mean - s.smooth),
            x=moved + c.momentum * (moved - s.memory),
            memory=s.x - c.carry * c.step_size * mixed,
        )

    @staticmethod
    def estimate(c: Coefficients, s: Registers) -> Number:
        return s.x + s.smooth


def chebyshev_weights(rho: float, rounds: int) -> NDArray[np.float64]:
    """om_0 = 1, om_1 = 1/(1 - rho^2/2), om_{t+1} = 1/(1 - rho^2 om_t/4)."""
    omega = np.ones(rounds)
    for t in range(1, rounds):
        omega[t] = 1.0 / (1.0 - rho**2 * (omega[t - 1] / 4 if t > 1 else 0.5))
    return omega
