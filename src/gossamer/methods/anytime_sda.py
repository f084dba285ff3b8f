"""Anytime SDA: the dual recursion fed with a smoothed running mean, read at its last iterate (ours)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts
from gossamer.methods.acceleration import (
    accelerate,
    chebyshev,
    check_acceleration,
    nesterov,
    tunable_acceleration,
)
from gossamer.methods.method import Method, Register, Tunable
from gossamer.methods.momentum_rules import FIRST_ROUNDS, LOCAL_LIMIT, RULES, MomentumRule


@dataclass(frozen=True)
class AnytimeSDA(Method):
    r"""SDA whose estimate is good at any moment: no horizon to choose, no burn-in, constant memory.

    Agents send their neighbors :math:`\theta_t = x_t + S_t`, where S is a smoothed running mean M of their own streams:

    .. math::

        M_t &= M_{t-1} + (R_t - M_{t-1})/(t+1) \\
        S_t &= S_{t-1} + a_t (M_t - S_{t-1}), \qquad a_t = \max(1/(t+1), 1/w)

    and update x by Nesterov's, Chebyshev's or the heavy ball's acceleration:

    .. math::

        y_{t+1} &= x_t - \eta L \theta_t, \quad x_{t+1} = y_{t+1} + \zeta (y_{t+1} - y_t) \\
        x_{t+1} &= \omega_t (x_t - \gamma L \theta_t - x_{t-1}) + x_{t-1} \\
        x_{t+1} &= x_t - (1 + \zeta) \eta L \theta_t + \zeta (x_t - x_{t-1})

    The estimate is :math:`x_T + S_{T-1}`. S is always a convex combination of the agent's observations, so the bias is
    that of the noiseless accelerated method; only the noise is shaped. Without smoothing, each new observation enters
    unmixed; smoothing over w rounds costs about w observations and divides the unmixed part. Balancing the two gives

    .. math:: w = \sqrt{K/2}, \qquad K = \sum_{\lambda \ne 0} \Big(\frac{1 - \zeta}{\eta\lambda}\Big)^2

    and half of that w for Chebyshev. All accelerations are one update (see `acceleration.py`).

    Which one to choose depends on two questions: is the network known, and does every message arrive?

    ===================  ==========================  ====================
    network              every message arrives       messages may be lost
    ===================  ==========================  ====================
    known                "heavy-ball", "chebyshev"   "nesterov"
    unknown or changing  "local-heavy-ball"          "local-heavy-ball"
    ===================  ==========================  ====================

    The forms for reliable networks are faster, but diverge if messages are lost; edges of "local-heavy-ball" take the
    step of "local" in their first 20 rounds, and in the 100 after each message that they miss. The local forms need
    only the weights of the edges: their momentum rises as :math:`\min(t/(t + 8), \text{limit})`, their window grows as
    :math:`2 \sqrt{t+1}` up to 128, and their step size is safe on any network (0.65 and 0.95 with Metropolis weights).
    "local" is Nesterov's update with these numbers. The limit of its momentum, 0.97, is a compromise: long chains need
    more (0.97 suffices for :math:`\sqrt\kappa` up to about 66; a path of 300 agents needs 0.99), heavy loss requires
    less (0.99 diverges on a grid that loses half of its messages). `momentum_rules.py` states the rules; "heavy-ball"
    also reads its answer slightly ahead of or behind x.

    Parameters that are None are chosen from the network's spectrum, or by the rules above.

    Parameters
    ----------
    acceleration : str
        One of "nesterov", "chebyshev", "heavy-ball", "local" and "local-heavy-ball".
    smoothing : float, optional
        The window w in rounds; 0 disables smoothing. In the local forms, :math:`w_t` is this times :math:`\sqrt{t+1}`.
    gain : float, optional
        Lower bound on the gain of the running mean, to track drifting means; for example 0.01 averages over about 100
        rounds.
    step_size : float, optional
        Step size :math:`\eta` of the dual step (not for Chebyshev).
    momentum : float, optional
        Momentum :math:`\zeta` (not for Chebyshev); except for Nesterov, the limit to which it rises.
    ramp : float, optional
        Number of rounds until a rising momentum reaches one half (not for Nesterov or Chebyshev).

    See Also
    --------
    SDA : The paper's method, with a burn-in.
    DSG : A primal method without momentum.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.AnytimeSDA(), net, obs, rounds=200).over_limit
    1.0204
    >>> gs.exact(gs.AnytimeSDA("local"), net, obs, rounds=200).over_limit
    1.0764
    """

    acceleration: str = "nesterov"
    smoothing: float | None = None
    gain: float | None = None
    step_size: float | None = None
    momentum: float | None = None
    ramp: float | None = None

    name: ClassVar[str] = "anytime-sda"
    anytime = True

    class State(NamedTuple):
        mean: Register  #: running mean of the agent's own observations
        smooth: Register  #: that mean, smoothed over about w rounds
        x: Register  #: dual variable
        memory: Register  #: what the acceleration remembers of the previous round

    class Coefficients(NamedTuple):
        gain: Floats
        smoothing_gain: Floats
        step_size: float | Floats
        momentum: float | Floats
        carry: float | Floats
        lead: float

    def __post_init__(self) -> None:
        checks.choice("acceleration", self.acceleration, ("nesterov", "chebyshev", *RULES))
        if self.acceleration == "chebyshev" and (self.step_size is not None or self.momentum is not None):
            raise InvalidInput(
                "Chebyshev acceleration derives its step size and momentum from the network's spectrum; "
                "leave step_size and momentum out, or use acceleration='nesterov'"
            )
        if self.acceleration not in RULES and self.ramp is not None:
            raise InvalidInput(
                f"the momentum of acceleration={self.acceleration!r} does not rise; leave ramp out, or use "
                "acceleration='local-heavy-ball'"
            )
        check_acceleration(self.step_size, self.momentum)
        if self.ramp is not None:
            checks.number("ramp", self.ramp, above=0)
        if self.smoothing is not None:
            checks.number("smoothing", self.smoothing, least=0)
        if self.gain is not None:
            checks.number("gain", self.gain, above=0, most=1)

    @property
    def bears_loss(self) -> bool:
        return self.acceleration in ("nesterov", "local", "local-heavy-ball")

    @property
    def after_loss(self) -> AnytimeSDA | None:
        """The local form, whose update tolerates loss, for the edges of the local heavy ball.

        Parameters set by hand count for it as well: the step size by what is safe for each of the two, and a momentum
        only if it is below the local form's own limit, because a larger one diverges under heavy loss.
        """
        if self.acceleration != "local-heavy-ball":
            return None
        safe = AnytimeSDA("local", ramp=self.ramp)
        if self.step_size is not None:
            safe = replace(safe, step_size=self.step_size * safe.largest_step / self.largest_step)
        if self.momentum is not None:
            safe = replace(safe, momentum=min(self.momentum, LOCAL_LIMIT))
        return safe

    def tunable(self, network: SpectralFacts, rounds: int) -> Mapping[str, Tunable]:
        smoothing = {"smoothing": Tunable(max(self.window(network), 1.0))}
        if self.acceleration == "chebyshev":
            return smoothing
        if self.acceleration == "nesterov":
            return tunable_acceleration(network) | smoothing
        rule = RULES[self.acceleration](network)
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
        if self.acceleration == "nesterov":
            c = nesterov(network, self.step_size, self.momentum)
            return {"step_size": c.step_size, "momentum": float(c.momentum)} | smoothing
        rule = self._rule(network)
        return {"step_size": rule.step_size, "momentum": rule.momentum, "ramp": rule.ramp} | smoothing

    @property
    def local(self) -> bool:
        """Whether this form asks for nothing but the weights of the edges."""
        return self.acceleration.startswith("local")

    @property
    def largest_step(self) -> float:
        """A step size of at most this, divided by the largest eigenvalue, is safe."""
        return {"local": 1.3, "local-heavy-ball": 1.98, "heavy-ball": 1.98}.get(self.acceleration, 1.0)

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        decreasing = 1.0 / np.arange(1, rounds + 1)
        gain = decreasing if self.gain is None else np.maximum(decreasing, self.gain)
        if self.acceleration in RULES:
            rule = self._rule(network)
            acceleration, window, lead = rule.acceleration(rounds), rule.window(rounds), rule.lead
        else:
            nesterovs = self.acceleration == "nesterov"
            acceleration = (
                nesterov(network, self.step_size, self.momentum) if nesterovs else chebyshev(network, rounds)
            )
            window, lead = np.full(rounds, self.window(network)), 0.0
        smoothing_gain = np.maximum(decreasing, 1.0 / np.maximum(window, 1.0))
        c = self.Coefficients(gain, smoothing_gain, *acceleration, lead)
        if self.after_loss is None:
            return c
        first, early = self.after_loss.coefficients(network, rounds), np.arange(rounds) < FIRST_ROUNDS
        return c._replace(
            step_size=np.where(early, first.step_size, c.step_size),
            momentum=np.where(early, first.momentum, c.momentum),
            carry=np.where(early, first.carry, c.carry),
        )

    def _rule(self, network: SpectralFacts) -> MomentumRule:
        """The rule of this acceleration, with parameters set by hand replaced."""
        by_hand = {
            "step_size": self.step_size,
            "momentum": self.momentum,
            "ramp": self.ramp,
            "smoothing": self.smoothing,
        }
        given = {name: float(value) for name, value in by_hand.items() if value is not None}
        return RULES[self.acceleration](network)._replace(**given)

    def window(self, network: SpectralFacts) -> float:
        """The smoothing w in rounds that this method uses on `network`; where it grows, that of the first round."""
        if self.smoothing is not None:
            return float(self.smoothing)
        if self.acceleration in RULES:
            return self._rule(network).smoothing
        eta, zeta, _ = nesterov(network, self.step_size, self.momentum)
        unmixed = ((1 - zeta) / eta) ** 2 * network.inverse_square_trace
        window = float(np.sqrt(unmixed / 2))
        return window if self.acceleration == "nesterov" else window / 2

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        mean = s.mean + c.gain * (observation - s.mean)
        return s.x + s.smooth + c.smoothing_gain * (mean - s.smooth)

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        mean = s.mean + c.gain * (observation - s.mean)
        smooth = s.smooth + c.smoothing_gain * (mean - s.smooth)
        return AnytimeSDA.State(mean, smooth, *accelerate(c, s.x, s.memory, mixed))

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.x + c.lead * (s.x - s.memory) + s.smooth
