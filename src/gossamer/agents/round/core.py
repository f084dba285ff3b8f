"""The interface of one agent's part of a method, which a conversation drives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gossamer.agents.round.closing import Closing
from gossamer.agents.round.messages import Outgoing
from gossamer.arrays import Floats


class Core(Protocol):
    """One agent's part of a method; in each round it begins, tells each neighbor, hears them and finishes."""

    dimension: int
    edge_registers: int
    closings: dict[int, Closing]  #: the edges that this agent, or its neighbor, has closed

    @property
    def serial(self) -> int:
        """Number of the round's message: no neighbor has heard a later one."""

    def begin(self, observation: Floats, samples: float = 1.0, weight: float | None = None) -> None:
        """Start a round with the mean of this round's `samples` observations; see `Ledger.begin`."""

    def tell(self, neighbor: int, holding: int) -> Outgoing:
        """The message for one neighbor; `holding` is the serial of its message already here, or 0."""

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        """Close the round with the messages that arrived for it."""

    @property
    def estimate(self) -> Floats:
        """The agent's answer now, shape (n,)."""

    def drop(self, neighbor: int, *, at_once: bool = False) -> None:
        """The neighbor is dead: what was exchanged with it returns, slowly unless `at_once`."""

    def hear_closing(self, neighbor: int, message: Outgoing) -> None:
        """Take a message that ends an edge, or one on an edge that this agent has ended."""

    def farewell(self, neighbor: int) -> Outgoing:
        """A message between two rounds on an edge that is closed."""
