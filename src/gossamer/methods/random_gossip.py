"""Random gossip: in each round one random edge or agent is active. Expected errors follow
from second moments (`engines/exact/drawn.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.linear_iteration import Iteration
from gossamer.methods.method import Register, StaticMethod, first_round


class RandomGossip(Iteration):
    """The linear iteration with a random matrix in each round; `mixing` says which."""

    def coefficients(self, network: SpectralFacts, rounds: int) -> Iteration.Coefficients:
        return self.Coefficients(first_round(rounds), 1.0)


@dataclass(frozen=True)
class PairwiseGossip(RandomGossip):
    r"""In each round the two ends of one random edge take their mean (Boyd, Ghosh, Prabhakar, Shah 2006).

    `mixed` is :math:`L_t m` with :math:`L_t = (e_i - e_j)(e_i - e_j)^\top/2` for the edge ij drawn in round t.

    Parameters
    ----------
    samples : int
        Number of observations that each agent averages in round 0.

    See Also
    --------
    AcceleratedGossip : With acceleration.
    BroadcastGossip : One agent tells all its neighbors.

    Examples
    --------
    >>> obs = gs.Gaussian(np.arange(5.0), std=0.0)
    >>> run = gs.simulate(gs.PairwiseGossip(), gs.Network.cycle(5), obs, rounds=200, trials=3)
    >>> np.allclose(run.estimates, 2.0, atol=0.01)
    True
    """

    samples: int = 1

    name: ClassVar[str] = "pairwise"
    mixing: ClassVar[str] = "pairwise"


@dataclass(frozen=True)
class BroadcastGossip(RandomGossip):
    r"""In each round one random agent sends, and its neighbors move halfway (Aysal, Yildiz, Sarwate, Scaglione 2009).

    Agents reach consensus on a random value whose expectation is :math:`\bar\mu`, but which differs from it.

    Parameters
    ----------
    samples : int
        Number of observations that each agent averages in round 0.

    See Also
    --------
    PairwiseGossip : One pair averages at a time.
    AcceleratedGossip : Pairs, with acceleration.

    Examples
    --------
    >>> obs = gs.Gaussian(np.arange(5.0), std=0.0)
    >>> run = gs.simulate(gs.BroadcastGossip(), gs.Network.cycle(5), obs, rounds=200, trials=3)
    >>> np.ptp(run.estimates, axis=1).max() < 0.01
    True
    """

    samples: int = 1

    name: ClassVar[str] = "broadcast"
    mixing: ClassVar[str] = "broadcast"


@dataclass(frozen=True)
class AcceleratedGossip(StaticMethod):
    r"""Pairwise gossip with momentum: the continuized acceleration of Even, Berthier, Bach et al. (2021).

    Each agent has a second value z, to which x is drawn, and the reverse, at a rate :math:`\theta` by the agent's own
    clock, whether or not it takes part in an exchange. When an edge ij is drawn, its ends exchange x:

    .. math::

        x_i &\leftarrow (x_i + x_j)/2, \qquad z_i \leftarrow z_i - \gamma (x_i - x_j) \\
        \theta &= \frac{1}{|E|} \sqrt{\frac{\lambda}{2 r}}, \qquad \gamma = \frac{1}{\sqrt{2 r \lambda}}

    :math:`\lambda` is the smallest nonzero eigenvalue of the graph's Laplacian D - A, and r the largest effective
    resistance of an edge if all edges have resistance 1. A round is one exchange, and the time between two exchanges is
    1. With exponentially distributed times, :math:`\lVert z \rVert^2_{\Lambda^+} + \lVert x \rVert^2 / \mu` falls in
    expectation as :math:`e^{-\theta t}`, where :math:`\Lambda = (D - A)/|E|` and :math:`\mu = \lambda/|E|`, all about
    the average; plain pairwise gossip falls as :math:`e^{-\mu t/2}`. On a path of N agents :math:`1/\theta` grows as
    :math:`N^2` and :math:`1/\mu` as :math:`N^3`.

    Parameters
    ----------
    samples : int
        Number of observations that each agent averages in round 0.
    rate : float, optional
        Mixing rate :math:`\theta` of the two registers, per round.
    pull : float, optional
        Factor :math:`\gamma` by which an exchange changes z.

    See Also
    --------
    PairwiseGossip : Without acceleration.
    BroadcastGossip : One agent tells all its neighbors.

    Examples
    --------
    >>> net, obs = gs.Network.path(50), gs.Gaussian(np.arange(50.0), std=0.0)
    >>> methods = [gs.PairwiseGossip(), gs.AcceleratedGossip()]
    >>> [round(gs.exact(method, net, obs, rounds=5_000).mse, 4) for method in methods]
    [137.548, 0.6676]
    """

    samples: int = 1
    rate: float | None = None
    pull: float | None = None

    name: ClassVar[str] = "accelerated-gossip"
    mixing: ClassVar[str] = "pairwise"

    class State(NamedTuple):
        value: Register  #: x, the estimate
        ahead: Register  #: z

    class Coefficients(NamedTuple):
        load: Floats
        pull: float
        share: float

    def __post_init__(self) -> None:
        for name in ("rate", "pull"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), above=0)

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        rate, pull = self.rate, self.pull
        if rate is None or pull is None:
            edges, connectivity, resistance = network.exchanges
            rate = rate or math.sqrt(connectivity / (2 * resistance)) / edges
            pull = pull or 1 / math.sqrt(2 * resistance * connectivity)
        return self.Coefficients(first_round(rounds), 2 * pull, -math.expm1(-2 * rate) / 2)

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return s.value + c.load * observation

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        value = s.value + c.load * observation - mixed
        ahead = s.ahead + c.load * observation - c.pull * mixed
        return AcceleratedGossip.State(value + c.share * (ahead - value), ahead + c.share * (value - ahead))

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.value
