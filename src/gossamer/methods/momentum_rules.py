"""Momentum that rises as t/(t + ramp) to a limit: it needs no spectrum, and is best with one.

The rules differ in what an update remembers (`carry` of `acceleration.py`). Nesterov's rule remembers y, damps fast
modes more than slow ones, and so tolerates message loss. The heavy ball remembers x, moves slow modes twice as far, but
damps all modes equally, and on its own diverges if messages are lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.arrays import Floats
from gossamer.facts import AVERAGING_BOUND, SpectralFacts
from gossamer.methods.acceleration import Acceleration

GROWING = 4096
"""Rounds for which a window grows. Later growth costs more than it brings (local form, T = 65536, over the limit: grid
10 x 10 1.0010 instead of 1.0039, path of 100 1.0017 instead of 1.0042, path of 300 1.0133 instead of 1.0125), and an
agent would have to keep the coefficients of every round."""

FIRST_ROUNDS = 20
"""Number of first rounds in which the local heavy ball takes the step of the local form, so that an edge has heard
all messages for a while before it relies on them. Without these rounds, answers overshoot at the start if
messages are lost (docs/decisions/local-form.md)."""

LOCAL_LIMIT = 0.97
"""Limit of the local form's momentum, which gives full speed on networks with sqrt(k) up to about 2/(1 - 0.97)."""


class MomentumRule(NamedTuple):
    """The numbers of a rule.

    step_size   eta
    momentum    the limit of the momentum, zeta_t = min(t/(t + ramp), momentum)
    ramp        rounds until the momentum is one half
    smoothing   the window, w_t = smoothing min(t+1, GROWING)^growth rounds
    growth      exponent of the window's growth; 0 for a constant window
    carry       1 to remember y, as Nesterov; 0 to remember x, as the heavy ball
    lead        number of rounds that the answer is read ahead, along the last move of x
    """

    step_size: float
    momentum: float
    ramp: float
    smoothing: float
    growth: float
    carry: float
    lead: float = 0.0

    def acceleration(self, rounds: int) -> Acceleration:
        t = np.arange(rounds)
        return Acceleration(self.step_size, np.minimum(t / (t + self.ramp), self.momentum), self.carry)

    def window(self, rounds: int) -> Floats:
        return np.asarray(self.smoothing * np.minimum(np.arange(1.0, rounds + 1), GROWING) ** self.growth)


def local(network: SpectralFacts) -> MomentumRule:
    """Return the rule without a spectrum, for networks that lose messages.

    With a momentum near 1 Nesterov's update is stable while eta lambda < 4/3, so 1.3/lambda_bound is nearly the largest
    safe step.
    """
    return MomentumRule(1.3 / network.lambda_bound, LOCAL_LIMIT, 8.0, 2.0, growth=0.5, carry=1.0)


def local_heavy_ball(network: SpectralFacts) -> MomentumRule:
    """Return the rule without a spectrum: the heavy ball, and after a loss the step of `local` (see `ledger.py`).

    It is stable while eta lambda < 2. Where some edges take one step and some the other, fast modes near that bound are
    amplified at first, on a cycle with weights of 1 by 1e21 at a loss of 0.3%; with 1.6 they are not. Weights that
    average keep a distance from their bound.
    """
    largest = 1.9 if network.lambda_bound <= AVERAGING_BOUND else 1.6
    return MomentumRule(largest / network.lambda_bound, 0.96, 8.0, 2.0, growth=0.5, carry=0.0)


def heavy_ball(network: SpectralFacts) -> MomentumRule:
    """Return the rule with a spectrum, for networks without loss.

    Mode k is an oscillator of squared frequency Omega_k^2 = 2 eta lambda_k and damping q = 1 - zeta. It follows what
    agents tell each other q/Omega_k^2 rounds late, and rings for about 1/q rounds. In units of sigma^2/T^2 a window w
    then costs w/2 for observations that are held back, C q^2/(2w) for the lateness, with C = sum Omega_k^-4, and
    B/(2 w^2 q) for the ringing, with B = sum Omega_k^-2. The window below minimizes the sum of the three, and so does q
    but for the fitted factor of 1.6; more damping than Chebyshev's would only slow the mixing down.

    B and C follow from how many modes are as slow as the slowest. Where these are most of all modes, as on a star, they
    are equally late, and the answer is read ahead by that much. Elsewhere it is read half a round behind, between the
    last two iterates, where the fastest modes cancel.
    """
    modes, low, high = network.agents - 1, network.lambda_2, network.lambda_max
    frequency = 4 * low / (high + low)  # Omega^2 of the slowest mode
    slow = low**2 * network.inverse_square_trace
    share = min(slow / modes, 1.0)
    # Share of the lateness; there is little to gain where mixing is fast.
    ahead = max(0.0, 1 - 2 * np.sqrt(low / high))
    lateness = max(slow / frequency**2 * (1 - share * ahead * (2 - ahead)), 1e-12)
    ringing = slow / frequency + modes / 2
    window = max(1.54 * (ringing**2 * lateness) ** 0.125, 1.0)
    critical = 2 - 2 / (1 + 2 * np.sqrt(low * high) / (low + high))  # Chebyshev's
    damping = min(1.6 * (ringing / (2 * window * lateness)) ** (1 / 3), critical)
    step_size = 1.96 / (high + low)
    late = damping / ((2 - damping) * step_size * low)
    lead = ahead * share * late - (1 - share) / 2
    return MomentumRule(step_size, 1 - damping, 6.0, window, growth=0.0, carry=0.0, lead=lead)


RULES = {"heavy-ball": heavy_ball, "local": local, "local-heavy-ball": local_heavy_ball}
