"""Random gossip: each round one edge wakes, or one agent speaks. Simulated, not analyzed: the exchange is random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gossamer.methods.base import SpectralFacts, first_round
from gossamer.methods.linear_iteration import Iteration


class RandomGossip(Iteration):
    """The linear iteration with a random matrix in each round; `mixing` says which."""

    def coefficients(self, network: SpectralFacts, rounds: int) -> Iteration.Coefficients:
        return self.Coefficients(first_round(rounds), 1.0)


@dataclass(frozen=True)
class PairwiseGossip(RandomGossip):
    """Each round one random edge wakes and its two ends take their mean (Boyd, Ghosh, Prabhakar, Shah 2006).

    `mixed` is L_t m with L_t = (e_i - e_j)(e_i - e_j)'/2 for the edge ij drawn in round t.
    """

    samples: int = 1

    name: ClassVar[str] = "pairwise"
    mixing: ClassVar[str] = "pairwise"


@dataclass(frozen=True)
class BroadcastGossip(RandomGossip):
    """Each round one random agent speaks and its neighbors move halfway (Aysal, Yildiz, Sarwate, Scaglione 2009).

    Agents reach consensus on a random value whose mean is mubar; it is not mubar itself.
    """

    samples: int = 1

    name: ClassVar[str] = "broadcast"
    mixing: ClassVar[str] = "broadcast"
