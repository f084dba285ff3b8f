"""DSG: the distributed stochastic gradient method (the paper's Appendix A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Method, Register
from gossamer.methods.primal import check_averaging


@dataclass(frozen=True)
class DSG(Method):
    r"""A gradient step with size :math:`1/(t+1)`, then one average with the neighbors.

    .. math:: \theta_{t+1} = W \Big[\theta_t + \frac{R_t - \theta_t}{t+1}\Big], \qquad W = I - L

    The method is not accelerated, but its noise is the least possible once the network has mixed:
    :math:`\sigma^2/T`.

    See Also
    --------
    AnytimeSDA : A dual method, faster where mixing is slow.
    DASG : With momentum.
    LinearIteration : The same gossip on values that do not change.

    Examples
    --------
    >>> net, obs = gs.Network.complete(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.DSG(), net, obs, rounds=200).over_limit
    1.0
    """

    name: ClassVar[str] = "dsg"
    anytime = True

    class State(NamedTuple):
        theta: Register

    class Coefficients(NamedTuple):
        gain: Floats

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        check_averaging(network)
        return self.Coefficients(1.0 / np.arange(1, rounds + 1))

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return s.theta + c.gain * (observation - s.theta)

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        return DSG.State(DSG.message(c, s, observation) - mixed)

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.theta
