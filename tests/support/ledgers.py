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
    skips: Callable[[int, int], bool] = lambda t, i: False,
) -> None:
    """observations: (rounds, agents, n); one synchronous round after the other, which agents may skip."""
    for t, seen in enumerate(observations, start=first):
        active = [i for i in range(network.agents) if not skips(t, i)]
        for i in active:
            agents[i].begin(seen[i])
        told = {(i, int(j)): agents[i].tell(int(j)) for i in active for j in network.neighbors(i)}
        # An agent may share its arrays with its message, so the messages are copied as a network would.
        for i in active:
            near = [int(j) for j in network.neighbors(i) if (int(j), i) in told and arrives(t, int(j), i)]
            agents[i].finish({j: told[j, i] for j in near})


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
