"""Averages and maxima over a network, and their cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csgraph

from gossamer.applications.solvers import settled
from gossamer.arrays import Floats
from gossamer.networks import Network


class Consensus:
    """Computes averages and maxima over a network, and counts the rounds and the bytes sent by all agents.

    Without a network averages are exact and cost nothing.
    """

    def __init__(self, network: Network | None, rounds: int = 0, sent: int = 0) -> None:
        self.network = network
        self.rounds = rounds
        self.bytes = sent
        self.agents = 1 if network is None else network.agents
        self._averaging: dict[int, Floats] = {}  # the matrix of a number of rounds
        self._diameter = 0
        if network is not None:
            self._diameter = int(csgraph.shortest_path(network.gossip != 0, unweighted=True).max())
            root = np.sqrt(network.condition_number)
            self._rate = (root - 1) / (root + 1)

    def _spend(self, rounds: int, numbers: int) -> None:
        if self.network is not None:
            self.rounds += rounds
            self.bytes += rounds * 2 * len(self.network.edges) * 8 * numbers

    def average(self, values: Floats, accuracy: float) -> Floats:
        """Return approximate averages of the agents' values (N, n); differences shrink by the factor `accuracy`."""
        if self.network is None:
            return np.broadcast_to(values.mean(axis=0), values.shape)
        rounds = 1 if self._rate < 1e-9 else int(np.ceil(np.log(2 / accuracy) / -np.log(self._rate)))
        self._spend(rounds, values.shape[1])
        if rounds not in self._averaging:
            self._averaging[rounds] = settled("chebyshev", self.network, np.eye(self.agents), rounds)
        return np.asarray(self._averaging[rounds] @ values)

    def largest(self, values: Floats) -> Floats:
        """Return (n,) the largest of the agents' values (N, n), forwarded until every agent has it."""
        self._spend(self._diameter, values.shape[1])
        return np.asarray(values.max(axis=0))

    def first(self, values: Floats) -> Floats:
        """Return (n,) the values of the first agent, forwarded until every agent has them."""
        self._spend(self._diameter, values.shape[1])
        return np.asarray(values[0])

    def union(self, sets: Sequence[set[str]]) -> list[str]:
        """Return the sorted union of the agents' sets; each link carries every entry once in either direction."""
        entries = sorted(set().union(*sets))
        if self.network is not None:
            self.rounds += self._diameter
            self.bytes += 2 * len(self.network.edges) * sum(len(entry.encode()) for entry in entries)
        return entries
