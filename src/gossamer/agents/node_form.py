"""A method of the registry run by one agent, exactly as the simulation runs it; pure, no input or output.

An agent in node form keeps the method's registers as they are and needs every message it was promised: it
serves for comparing agents with the simulation and for networks that lose nothing. Agents on real networks
use the ledger form (`ledger.py`), which survives loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gossamer.agents.round.messages import Outgoing
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods.base import Method

Array = NDArray[np.float64]


class Core(Protocol):
    """One agent's part of a method, as the rounds drive it: begin, tell each neighbor, hear them, finish."""

    dimension: int
    edge_registers: int

    def begin(self, observation: Array, samples: float = 1.0, weight: float | None = None) -> None:
        """Start a round with the mean of this round's `samples` observations; see `Ledger.begin`."""

    def tell(self, neighbor: int, holding: int) -> Outgoing:
        """The message for one neighbor; `holding` is the serial of its message already here, or 0."""

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        """Close the round with the messages that came for it."""

    @property
    def estimate(self) -> Array:
        """The agent's answer now, shape (n,)."""

    def drop(self, neighbor: int) -> None:
        """A neighbor is dead: forget what was exchanged with it."""


class Schedule:
    """Coefficients of each round, from a NamedTuple of floats and arrays; the last entry holds for ever."""

    def __init__(self, coefficients: Any) -> None:
        self.rounds = min((len(v) for v in coefficients if np.ndim(v)), default=1)
        self._make = type(coefficients)
        self._columns = [np.broadcast_to(v, self.rounds) for v in coefficients]
        self._last = self._at(self.rounds - 1)

    def __call__(self, t: int) -> Any:
        return self._last if t >= self.rounds - 1 else self._at(t)

    def _at(self, t: int) -> Any:
        return self._make(*(float(column[t]) for column in self._columns))


class Activation(NamedTuple):
    """Who exchanges in a round of random gossip; all agents draw the same from one seed."""

    mixing: str
    edges: NDArray[np.int64]  #: (E, 2) as in network.edges
    agents: int
    seed: int
    trial: int = 0

    def partners(self, me: int, neighbors: tuple[int, ...], t: int) -> tuple[int, ...]:
        """The neighbors whose message moves this agent in round t (each with weight 1/2)."""

        from gossamer.numerics import random  # brings Numba, which deployed agents do without

        key = random.key(self.seed)
        if self.mixing == "pairwise":
            edge = self.edges[random.index(key, random.ACTIVATION, self.trial, t, len(self.edges))]
            i, j = int(edge[0]), int(edge[1])
            return (j,) if me == i else (i,) if me == j else ()
        speaker = int(random.index(key, random.ACTIVATION, self.trial, t, self.agents))
        return (speaker,) if speaker in neighbors else ()


class Node:
    """A method in node form: u_i = sum_j w_ij (m_i - m_j), then the method's own step.

    method        any method of the registry
    coefficients  method.coefficients(network, rounds), the same for all agents
    weights       neighbor -> w_ij = -L_ij
    activation    for random gossip, the shared draw of who exchanges in which round
    """

    edge_registers = 0

    def __init__(
        self,
        method: Method,
        coefficients: Any,
        me: int,
        weights: Mapping[int, float],
        dimension: int = 1,
        activation: Activation | None = None,
    ) -> None:
        if (activation is None) != (method.mixing == "matrix"):
            raise InvalidInput(f"a method with {method.mixing} mixing came with activation={activation!r}")
        self.method = method
        self.me = me
        self.weights = dict(weights)
        self.dimension = dimension
        self.round = 0
        self._schedule = Schedule(coefficients)
        self._activation = activation
        self._state = method.State(*(np.zeros(dimension) for _ in method.State._fields))
        self._observation = np.zeros(dimension)
        self._message = np.zeros(dimension)
        self._c = self._schedule(0)

    def begin(self, observation: Array, samples: float = 1.0, weight: float | None = None) -> None:
        self._c = self._schedule(self.round)
        self._observation = observation
        self._message = np.asarray(self.method.message(self._c, self._state, observation), dtype=float)

    def tell(self, neighbor: int, holding: int = 0) -> Outgoing:
        return Outgoing(self.round + 1, holding, True, self._message.tobytes())

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        if self._activation is None:
            weights: Mapping[int, float] = self.weights
        else:
            partners = self._activation.partners(self.me, tuple(self.weights), self.round)
            weights = dict.fromkeys(partners, 0.5)
        missing = sorted(set(weights) - set(heard))
        if missing:
            raise Unsupported(
                f"agent {self.me} heard nothing from {missing} in round {self.round}, and {self.method.name} "
                "in node form needs every message; use the ledger form where messages may be lost"
            )
        mixed = np.zeros(self.dimension)
        for j, weight in weights.items():
            mixed += weight * (self._message - np.frombuffer(heard[j].told)[: self.dimension])
        self._state = self.method.step(self._c, self._state, self._observation, mixed)
        self.round += 1

    @property
    def estimate(self) -> Array:
        return np.asarray(self.method.estimate(self._c, self._state), dtype=float)

    def drop(self, neighbor: int) -> None:
        raise Unsupported(f"{self.method.name} in node form cannot go on without agent {neighbor}")
