"""Random gossip: in each round one random edge or agent is active. Expected errors follow
from second moments (`engines/exact/drawn.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gossamer.facts import SpectralFacts
from gossamer.methods.base import first_round
from gossamer.methods.linear_iteration import Iteration


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
        How many observations each agent averages in round 0.

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
        How many observations each agent averages in round 0.

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
