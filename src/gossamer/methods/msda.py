"""MSDA: dual acceleration that gossips several times per step (Scaman, Bach, Bubeck, Lee, Massoulie 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.acceleration import chebyshev
from gossamer.methods.method import Register, StaticMethod, first_round


@dataclass(frozen=True)
class MSDA(StaticMethod):
    r"""Multi-step dual acceleration: steps gossip with polynomials of degree :math:`K = \lfloor\sqrt\kappa\rfloor`.

    .. math::

        u_0 &= v, \qquad u_1 = (I - g L) v \\
        u_{j+1} &= \omega_j (u_j - g L u_j - u_{j-1}) + u_{j-1}, \qquad P_K(L) v = v - u_K

    with g and :math:`\omega_j` of Chebyshev's acceleration (`acceleration.py`). The outer recursion is SSDA's with
    :math:`P_K(L)` in place of L. One outer step takes K rounds.

    Parameters
    ----------
    samples : int
        Number of observations that each agent averages in round 0.

    See Also
    --------
    SSDA : One exchange per round.
    ChebyshevAveraging : The polynomials that it uses.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0), std=0.0)
    >>> gs.exact(gs.MSDA(), net, obs, rounds=60).total_error < 1e-3
    True
    """

    samples: int = 1

    name: ClassVar[str] = "msda"

    class State(NamedTuple):
        value: Register
        x: Register
        y: Register
        inner: Register  #: u_j
        previous: Register  #: u_{j-1}

    class Coefficients(NamedTuple):
        load: Floats
        first: Floats  #: 1 in the first gossip round of an outer step
        last: Floats  #: 1 in the last one
        inner_step: float
        inner_momentum: Floats
        step_size: float
        momentum: float

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        gamma = 1.0 / network.condition_number
        inner_rounds = max(1, math.floor(math.sqrt(network.condition_number) + 1e-9))
        inner = chebyshev(network, inner_rounds)
        inner_round = np.arange(rounds) % inner_rounds
        # The eigenvalues of P_K(L) lie in 1 +- deviation, so the outer problem is well conditioned.
        c1 = (1 - math.sqrt(gamma)) / (1 + math.sqrt(gamma))
        deviation = 2 * c1**inner_rounds / (1 + c1 ** (2 * inner_rounds))
        root = math.sqrt((1 + deviation) / (1 - deviation))
        return self.Coefficients(
            load=first_round(rounds),
            first=(inner_round == 0).astype(float),
            last=(inner_round == inner_rounds - 1).astype(float),
            inner_step=inner.step_size,
            inner_momentum=np.asarray(inner.momentum)[inner_round],
            step_size=1 / (1 + deviation),
            momentum=(root - 1) / (root + 1),
        )

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        theta = s.x + s.value + c.load * observation
        return s.inner + c.first * (theta - s.inner)

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        value = s.value + c.load * observation
        current = s.inner + c.first * (s.x + value - s.inner)
        moved = current - c.inner_step * mixed
        inner = moved + c.inner_momentum * (moved - s.previous)
        y = s.x - c.step_size * (s.x + value - inner)
        ahead = y + c.momentum * (y - s.y)
        return MSDA.State(
            value=value,
            x=s.x + c.last * (ahead - s.x),
            y=s.y + c.last * (y - s.y),
            inner=inner,
            previous=current,
        )

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.x + s.value
