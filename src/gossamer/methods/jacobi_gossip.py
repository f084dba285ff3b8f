"""Jacobi gossip: a fast average of fixed values that needs the dimension of the network instead of its spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.chebyshev_averaging import PolynomialAveraging


@dataclass(frozen=True)
class JacobiGossip(PolynomialAveraging):
    r"""Averages of fixed values by Jacobi polynomials (Berthier, Bach, Gaillard 2020).

    .. math::

        x_{t+1} = a_t (x_t - s L x_t) + b_t x_t - c_t x_{t-1}, \qquad s = \frac{2}{\lambda_{\text{bound}}}

    .. math::

        a_t = \frac{(2t + \tfrac d2 + 1)(2t + \tfrac d2 + 2)}{2 (t + 1 + \tfrac d2)^2}, \quad
        c_t = \frac{t^2 (2t + \tfrac d2 + 2)}{(t + 1 + \tfrac d2)^2 (2t + \tfrac d2)}, \quad
        b_t = 1 + c_t - a_t

    Where the eigenvalues of L near 0 are as dense as those of a grid of dimension d, these are the best polynomials for
    values that vary independently from agent to agent. They use no knowledge of :math:`\lambda_2`, and are ahead of
    Chebyshev's, which damp the slowest mode, as long as there are fewer rounds than the network is wide.

    Parameters
    ----------
    dimension : float
        Dimension d of the network: 1 for paths and cycles, 2 for grids and geometric networks, more for networks
        that mix faster.
    samples : int
        Number of observations that each agent averages in round 0.

    See Also
    --------
    ChebyshevAveraging : Needs the spectrum instead of a dimension.
    LinearIteration : Without acceleration.

    Examples
    --------
    >>> net, obs = gs.Network.path(300), gs.Gaussian(np.zeros(300))
    >>> methods = [gs.JacobiGossip(dimension=1), gs.ChebyshevAveraging(), gs.LinearIteration()]
    >>> [round(gs.exact(method, net, obs, rounds=100).mse ** 0.5, 3) for method in methods]
    [0.088, 0.446, 0.19]
    """

    dimension: float = 2.0
    samples: int = 1

    name: ClassVar[str] = "jacobi"

    def __post_init__(self) -> None:
        checks.number("dimension", self.dimension, above=0)

    def acceleration(self, network: SpectralFacts, rounds: int) -> tuple[Floats, Floats, float]:
        t, half = np.arange(rounds, dtype=float), self.dimension / 2
        a = (2 * t + half + 1) * (2 * t + half + 2) / (2 * (t + 1 + half) ** 2)
        c = t**2 * (2 * t + half + 2) / ((t + 1 + half) ** 2 * (2 * t + half))
        return 2.0 / network.lambda_bound * a / (1 + c), c, 0.0
