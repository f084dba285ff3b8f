"""Ledgers without transport: a driver with any pattern of loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gossamer.agents.round.ledger import Ledger
from gossamer.methods.ledger import ledger_program
from gossamer.methods.method import Method
from gossamer.networks import Network
from tests.support.small_fleets import weights_of

Arrives = Callable[[int, int, int], bool]
"""Whether the message of (round, sender, receiver) arrives."""


def ledgers(
    network: Network, method: Method, rounds: int, dimension: int = 1, silence: int = 5
) -> list[Ledger]:
    program = ledger_program(method, network, rounds)
    return [
        Ledger(program, i, weights_of(network, i), dimension, silence=silence) for i in range(network.agents)
    ]


def drive(
    agents: Sequence[Any],
    network: Network,
    observations: Any,
    arrives: Arrives = lambda t, i, j: True,
    first: int = 0,
) -> None:
    """observations: (rounds, agents, n); one synchronous round after the other."""
    for t, seen in enumerate(observations, start=first):
        for agent, y in zip(agents, seen, strict=True):
            agent.begin(y)
        told = {
            (i, int(j)): agents[i].tell(int(j)) for i in range(network.agents) for j in network.neighbors(i)
        }
        # An agent may share its arrays with its message, so the messages are copied as a network would.
        for i, agent in enumerate(agents):
            heard = {int(j): told[int(j), i] for j in network.neighbors(i) if arrives(t, int(j), i)}
            agent.finish(heard)
