"""Any method run by one agent exactly as the simulation runs it, for networks that lose nothing.

In node form an agent keeps the method's registers as they are, and needs a message from every neighbor in every
round. It is how the tests compare agents with the simulation for methods that cannot be deployed; agents on real
networks use the ledger form (`round/ledger.py`), which tolerates loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gossamer.agents.round.closing import Closing
from gossamer.agents.round.messages import Outgoing
from gossamer.arrays import Floats
from gossamer.errors import Unsupported
from gossamer.methods.table import Table

Partners = Callable[[int], tuple[int, ...]]
"""For random gossip: the neighbors whose message moves this agent in a given round, each with weight 1/2."""


class NodeForm:
    """A method in node form: u_i = sum_j w_ij (m_i - m_j), then the method's step.

    table     the method's coefficients, from `tabulate`; the last row holds from then on
    weights   neighbor -> w_ij = -L_ij
    partners  for random gossip, the agents that exchange with this one in each round; all agents must draw the same
    """

    edge_registers = 0

    def __init__(
        self,
        table: Table,
        me: int,
        weights: Mapping[int, float],
        dimension: int = 1,
        partners: Partners | None = None,
    ) -> None:
        self.me = me
        self.weights = dict(weights)
        self.dimension = dimension
        self.round = 0
        self._table = table
        self._partners = partners
        self._state = np.zeros((table.registers, dimension))
        self._observation = np.zeros(dimension)
        self._message = np.zeros(dimension)
        self._row = table.round(0)
        self.closings: dict[int, Closing] = {}

    def begin(self, observation: Floats, samples: float = 1.0, weight: float | None = None) -> None:
        self._row = self._table.round(min(self.round, self._table.rounds - 1))
        self._observation = observation
        self._message = self._row.message(self._state, observation)

    @property
    def serial(self) -> int:
        return self.round + 1

    def tell(self, neighbor: int, holding: int = 0) -> Outgoing:
        return Outgoing(self.serial, holding, True, self._message.tobytes())

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        weights = self.weights
        if self._partners is not None:
            weights = dict.fromkeys(self._partners(self.round), 0.5)
        missing = sorted(set(weights) - set(heard))
        if missing:
            raise Unsupported(
                f"agent {self.me} heard nothing from {missing} in round {self.round}, and node form needs every "
                "message; use the ledger form where messages may be lost"
            )
        mixed = np.zeros(self.dimension)
        for j, weight in weights.items():
            mixed += weight * (self._message - np.frombuffer(heard[j].rows)[: self.dimension])
        self._state = self._row.step(self._state, self._observation, mixed)
        self.round += 1

    @property
    def estimate(self) -> Floats:
        return self._row.estimate(self._state)

    def drop(self, neighbor: int, *, at_once: bool = False) -> None:
        raise Unsupported(f"an agent in node form cannot go on without its neighbor {neighbor}")

    def hear_closing(self, neighbor: int, message: Outgoing) -> None:
        raise Unsupported(f"an agent in node form cannot go on without its neighbor {neighbor}")

    def farewell(self, neighbor: int) -> Outgoing:
        raise Unsupported(f"an agent in node form cannot go on without its neighbor {neighbor}")
