"""Anytime SDA: the dual recursion fed with a smoothed running mean, read at its last iterate (ours)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.methods.acceleration import (
    accelerate,
    chebyshev,
    check_acceleration,
    nesterov,
    tunable_acceleration,
)
from gossamer.methods.base import Method, Number, SpectralFacts, Tunable


@dataclass(frozen=True)
class AnytimeSDA(Method):
    """SDA whose estimate is good at any moment: no horizon to choose, no burn-in, constant memory.

        M_t = M_{t-1} + (R_t - M_{t-1})/(t+1)              running mean of the agent's own stream
        S_t = S_{t-1} + a_t (M_t - S_{t-1})                a_t = max(1/(t+1), 1/w)
        theta_t = x_t + S_t                                what neighbors hear
        Nesterov    y_{t+1} = x_t - eta L theta_t,  x_{t+1} = y_{t+1} + zeta (y_{t+1} - y_t)
        Chebyshev   x_{t+1} = om_t (x_t - g L theta_t - x_{t-1}) + x_{t-1}
        output      x_T + S_{T-1}

    S is always a convex combination of the agent's observations, so the bias is that of the noiseless
    accelerated method; only the noise is shaped. Without smoothing each new observation enters unmixed;
    smoothing over w rounds costs about w observations and divides the unmixed part. Balancing the two gives
    w = sqrt(K/2) with K = sum over nonzero eigenvalues of ((1 - zeta)/(eta lambda))^2, and half of that w for
    Chebyshev. Both accelerations are one update (see `acceleration.py`).

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

    class State(NamedTuple):
        mean: Number  #: running mean of the agent's own observations
        smooth: Number  #: that mean, smoothed over about w rounds
        x: Number  #: dual variable
        memory: Number  #: what the acceleration remembers of the previous round

    class Coefficients(NamedTuple):
        gain: Floats
        smoothing_gain: Floats
        step_size: float
        momentum: float | Floats
        carry: float

    def __post_init__(self) -> None:
        checks.choice("acceleration", self.acceleration, ("nesterov", "chebyshev"))
        if self.acceleration == "chebyshev" and (self.step_size is not None or self.momentum is not None):
            raise InvalidInput(
                "Chebyshev acceleration derives its step size and momentum from the network's spectrum; "
                "leave step_size and momentum out, or use acceleration='nesterov'"
            )
        check_acceleration(self.step_size, self.momentum)
        if self.smoothing is not None:
            checks.number("smoothing", self.smoothing, least=0)
        if self.gain is not None:
            checks.number("gain", self.gain, above=0, most=1)

    @property
    def anytime(self) -> bool:
        return True

    def tunable(self, network: SpectralFacts, rounds: int) -> Mapping[str, Tunable]:
        smoothing = {"smoothing": Tunable(max(self.window(network), 1.0))}
        return smoothing if self.acceleration == "chebyshev" else tunable_acceleration(network) | smoothing

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        decreasing = 1.0 / np.arange(1, rounds + 1)
        gain = decreasing if self.gain is None else np.maximum(decreasing, self.gain)
        window = self.window(network)
        smoothing_gain = np.ones(rounds) if window <= 1 else np.maximum(decreasing, 1.0 / window)
        if self.acceleration == "chebyshev":
            return self.Coefficients(gain, smoothing_gain, *chebyshev(network, rounds))
        return self.Coefficients(gain, smoothing_gain, *nesterov(network, self.step_size, self.momentum))

    def window(self, network: SpectralFacts) -> float:
        """The smoothing w in rounds that this method uses on `network`."""
        if self.smoothing is not None:
            return float(self.smoothing)
        eta, zeta, _ = nesterov(network, self.step_size, self.momentum)
        unmixed = ((1 - zeta) / eta) ** 2 * network.inverse_square_trace
        window = float(np.sqrt(unmixed / 2))
        return window if self.acceleration == "nesterov" else window / 2

    @staticmethod
    def message(c: Coefficients, s: State, observation: Number) -> Number:
        mean = s.mean + c.gain * (observation - s.mean)
        return s.x + s.smooth + c.smoothing_gain * (mean - s.smooth)

    @staticmethod
    def step(c: Coefficients, s: State, observation: Number, mixed: Number) -> State:
        mean = s.mean + c.gain * (observation - s.mean)
        smooth = s.smooth + c.smoothing_gain * (mean - s.smooth)
        return AnytimeSDA.State(mean, smooth, *accelerate(c, s.x, s.memory, mixed))

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Number:
        return s.x + s.smooth
