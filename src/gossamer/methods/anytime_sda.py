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
    Acceleration,
    LocalRule,
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
        local       Nesterov with eta = 1.3/lambda_bound, zeta_t = min(t/(t + ramp), momentum), w_t = 2 sqrt(t+1)
        output      x_T + S_{T-1}

    S is always a convex combination of the agent's observations, so the bias is that of the noiseless
    accelerated method; only the noise is shaped. Without smoothing each new observation enters unmixed;
    smoothing over w rounds costs about w observations and divides the unmixed part. Balancing the two gives
    w = sqrt(K/2) with K = sum over nonzero eigenvalues of ((1 - zeta)/(eta lambda))^2, and half of that w for
    Chebyshev. All accelerations are one update (see `acceleration.py`).

    Which one to choose: "chebyshev" if the network is known and every message arrives, because it is the fastest and
    because lost messages make it diverge; "nesterov" if the network is known and messages may be lost; "local" if the
    network is unknown, changes, or loses many messages. The local form asks for nothing but the weights of the edges
    (0.65 is a safe step size with Metropolis weights on any network), and its window grows with the square root of
    time. The limit of its momentum has two sides: long chains want more (0.97 serves sqrt(k) up to about 66; a path
    of 300 agents wants 0.99), heavy loss wants less (0.99 diverges on a grid that loses half of its messages).

    Parameters (None: chosen from the network's spectrum, or by the rules above)
        acceleration  "nesterov", "chebyshev" or "local"
        smoothing     w in rounds; 0 switches it off. Local: w_t = smoothing sqrt(t+1), and None means 2
        gain          a constant floor of the running mean's gain, to track drifting means
        step_size     eta (not for Chebyshev)
        momentum      zeta (not for Chebyshev). Local: the limit to which it rises, and None means 0.97
        ramp          rounds until the momentum is one half (local only); None means 8
    """

    acceleration: str = "nesterov"
    smoothing: float | None = None
    gain: float | None = None
    step_size: float | None = None
    momentum: float | None = None
    ramp: float | None = None

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
        checks.choice("acceleration", self.acceleration, ("nesterov", "chebyshev", "local"))
        if self.acceleration == "chebyshev" and (self.step_size is not None or self.momentum is not None):
            raise InvalidInput(
                "Chebyshev acceleration derives its step size and momentum from the network's spectrum; "
                "leave step_size and momentum out, or use acceleration='nesterov'"
            )
        if self.acceleration != "local" and self.ramp is not None:
            raise InvalidInput(
                f"the momentum of acceleration={self.acceleration!r} does not rise; leave ramp out, or use "
                "acceleration='local'"
            )
        check_acceleration(self.step_size, self.momentum)
        if self.ramp is not None:
            checks.number("ramp", self.ramp, above=0)
        if self.smoothing is not None:
            checks.number("smoothing", self.smoothing, least=0)
        if self.gain is not None:
            checks.number("gain", self.gain, above=0, most=1)

    @property
    def anytime(self) -> bool:
        return True

    def tunable(self, network: SpectralFacts, rounds: int) -> Mapping[str, Tunable]:
        smoothing = {"smoothing": Tunable(max(self.window(network), 1.0))}
        if self.acceleration == "chebyshev":
            return smoothing
        if self.acceleration == "nesterov":
            return tunable_acceleration(network) | smoothing
        rule = LocalRule.of(network)
        return {
            "step_size": Tunable(rule.step_size),
            "momentum": Tunable(rule.momentum, most=1.0),
            "ramp": Tunable(rule.ramp),
            **smoothing,
        }

    def chosen(self, network: SpectralFacts) -> dict[str, float]:
        """The parameters by which this method runs on `network`: those set by hand, and its choice of the others."""
        smoothing = {"smoothing": self.window(network)}
        if self.acceleration == "chebyshev":
            return smoothing
        if self.acceleration == "local":
            return self._local(network)._asdict() | smoothing
        c = nesterov(network, self.step_size, self.momentum)
        return {"step_size": c.step_size, "momentum": float(c.momentum)} | smoothing

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        decreasing = 1.0 / np.arange(1, rounds + 1)
        gain = decreasing if self.gain is None else np.maximum(decreasing, self.gain)
        growth = np.sqrt(np.arange(1, rounds + 1)) if self.acceleration == "local" else np.ones(rounds)
        smoothing_gain = np.maximum(decreasing, 1.0 / np.maximum(self.window(network) * growth, 1.0))
        return self.Coefficients(gain, smoothing_gain, *self._acceleration(network, rounds))

    def _acceleration(self, network: SpectralFacts, rounds: int) -> Acceleration:
        if self.acceleration == "chebyshev":
            return chebyshev(network, rounds)
        if self.acceleration == "local":
            return self._local(network).acceleration(rounds)
        return nesterov(network, self.step_size, self.momentum)

    def _local(self, network: SpectralFacts) -> LocalRule:
        return LocalRule.of(network, self.step_size, self.momentum, self.ramp)

    def window(self, network: SpectralFacts) -> float:
        """The smoothing w in rounds that this method uses on `network`; of a local one, that of its first round."""
        if self.smoothing is not None:
            return float(self.smoothing)
        if self.acceleration == "local":
            return 2.0
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
