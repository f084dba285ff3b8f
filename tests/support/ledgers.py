"""Ledgers without transport: a driver with any pattern of loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

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


def constant(network: Network, rounds: int) -> np.ndarray:
    return np.tile(np.arange(float(network.agents))[:, None], (rounds, 1, 1))


def edge_masks(agents: list[Ledger], network: Network) -> list[tuple[np.ndarray | None, np.ndarray | None]]:
    return [(agents[i].masks.kept.get(j), agents[j].masks.kept.get(i)) for i, j in network.edges.tolist()]


def agreed(agents: list[Ledger], network: Network) -> bool:
    return all(
        mine is not None and theirs is not None and np.array_equal(mine, -theirs)
        for mine, theirs in edge_masks(agents, network)
    )


def estimates(agents: list[Ledger]) -> np.ndarray:
    return np.array([float(agent.estimate[0]) for agent in agents])
