"""SSTM_sc: the stochastic similar triangles method on the dual (Gorbunov, Dvinskikh, Gasnikov 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Method, Register, batch_sizes


@dataclass(frozen=True)
class SSTM(Method):
    r"""Similar triangles for a strongly convex dual, with large batches of samples.

    .. math::

        \alpha_k &= \frac{c_k + \sqrt{c_k^2 + 4 H A_k c_k}}{2 H}, \qquad
        c_k = 1 + \lambda_2 A_k, \qquad A_{k+1} = A_k + \alpha_k, \qquad A_0 = 0 \\
        \tilde x_k &= \frac{A_k x_k + \alpha_k z_k}{A_{k+1}}, \qquad g_k = L (\tilde x_k + R_k) \\
        z_{k+1} &= \frac{c_k z_k + \alpha_k (\lambda_2 \tilde x_k - g_k)}{c_{k+1}}, \qquad
        x_{k+1} = \frac{A_k x_k + \alpha_k z_{k+1}}{A_{k+1}}

    with :math:`H = \lambda_\max`. The answer is the last x plus the mean of a fresh last batch. The last of `rounds`
    rounds draws that batch and needs no exchange, so T rounds make :math:`T - 1` dual steps.

    Batches are the paper's, from Corollary 5.14 of the source, with :math:`q = \kappa^{-3/2}`,
    :math:`s = \lambda_\max N`, :math:`G = (1 + \sqrt{3 \ln n})^2` and :math:`R = \lVert\mu - \bar\mu\rVert`:

    .. math::

        r_t &= \max\Big(1, \frac{q n^2 s G}{\varepsilon}\Big) \\
        r_T &= \max\Big(1, \frac{q n s G}{\varepsilon^2}, \frac{q n^2 s G R^2}{\varepsilon^2},
        \frac{s G R^2}{\varepsilon^2}\Big)

    Parameters
    ----------
    accuracy : float
        The total error :math:`\varepsilon` that the batches are designed for, for example 0.01.
    spread : float, optional
        The distance R of the means from their average, in units of the observations; by default
        :math:`\sqrt{N/12}`, the value for means uniform on [0, 1] (the paper's experiment).
    counting : str
        The meaning of n: "agents" (as in the paper) or "iterations" (as in its source).
    batch : float or tuple of float, optional
        Batch sizes set by hand: a number, or one per round (the last for the output).

    See Also
    --------
    RRMA : Restarts with growing batches.
    SDA : A dual method with one observation per round.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.linspace(0, 1, 10))
    >>> gs.exact(gs.SSTM(accuracy=0.1), net, obs, rounds=40).total_error < 0.1
    True
    """

    accuracy: float = 0.01
    spread: float | None = None
    counting: str = "agents"
    batch: float | tuple[float, ...] | None = None

    name: ClassVar[str] = "sstm_sc"

    class State(NamedTuple):
        x: Register
        z: Register
        theta: Register

    class Coefficients(NamedTuple):
        pull: Floats  #: alpha / A+
        decay: Floats  #: c / c+
        weight: Floats  #: alpha / c+
        convexity: float

    def __post_init__(self) -> None:
        checks.number("accuracy", self.accuracy, least=1e-100, most=1e100)  # its square divides
        if self.spread is not None:
            checks.number("spread", self.spread, least=0, most=1e100)
        checks.choice("counting", self.counting, ("agents", "iterations"))

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        mu, smooth = network.lambda_2, network.lambda_max
        pull, decay, weight = np.zeros(rounds), np.ones(rounds), np.zeros(rounds)
        total = 0.0
        for k in range(rounds - 1):
            c = 1 + total * mu
            alpha = (c + math.sqrt(c * c + 4 * smooth * total * c)) / (2 * smooth)
            if total > 1e120:  # the ratios have long converged; stop before the totals overflow
                pull[k:-1], decay[k:-1], weight[k:-1] = pull[k - 1], decay[k - 1], weight[k - 1]
                break
            following = 1 + (total + alpha) * mu
            pull[k], decay[k], weight[k] = alpha / (total + alpha), c / following, alpha / following
            total += alpha
        return self.Coefficients(pull, decay, weight, mu)

    def batches(self, network: SpectralFacts, rounds: int) -> Floats:
        if self.batch is not None:
            return batch_sizes(self.batch, rounds)
        n = network.agents if self.counting == "agents" else max(rounds - 1, 1)
        eps = self.accuracy
        spread = math.sqrt(network.agents / 12) if self.spread is None else self.spread
        q = network.condition_number**-1.5
        noise = network.lambda_max * network.agents * (1 + math.sqrt(3 * math.log(n))) ** 2
        size = max(1.0, q * n**2 * noise / eps)
        last = max(
            1.0,
            q * n * noise / eps**2,
            q * n**2 * noise * spread**2 / eps**2,
            noise * spread**2 / eps**2,
        )
        sizes: Floats = np.ceil(np.append(np.full(rounds - 1, size), last))
        return sizes

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return s.x + c.pull * (s.z - s.x) + observation

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        middle = s.x + c.pull * (s.z - s.x)
        z = c.decay * s.z + c.weight * (c.convexity * middle - mixed)
        x = s.x + c.pull * (z - s.x)
        return SSTM.State(x=x, z=z, theta=x + observation)

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.theta
