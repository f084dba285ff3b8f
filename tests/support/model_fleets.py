"""A fleet that learns a model, in lockstep: the real sums, ledgers and answers, no transport, no waiting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gossamer.agents.config.model import FleetModel
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.ledger_state import LedgerState
from gossamer.agents.round.row_batching import Clock, batcher_of
from gossamer.agents.statistics.models import ModelAnswers, layout_of, method_of
from gossamer.methods.ledger import ledger_program
from gossamer.networks import Network
from tests.support.small_fleets import fleet


class ModelFleet:
    """Agents of one thread, each with a ledger and a batcher."""

    def __init__(
        self, network: Network, family: str, covariates=("age", "dose"), *, replicates: int = 8, **changes
    ):
        model = FleetModel(family, tuple(covariates), **{"least": 1} | changes)
        size = len(model.covariates) + 1
        self.settings = [
            replace(
                s,
                model=model,
                dimension=size,
                weighting="samples",
                replicates=replicates,
                members=network.agents,
            )
            for s in fleet(network, dimension=size)
        ]
        self.layout = layout_of(self.settings[0])
        self.rounds, self.members = 0, network.agents
        self.ledgers: list[Ledger] = []
        self.batchers = []
        self.restart([None] * network.agents)

    def restart(self, states: list[LedgerState | None]) -> None:
        """Start all agents, from what they have stored."""
        self.ledgers = [
            Ledger(
                ledger_program(method_of(s), s.facts),
                s.id,
                {n.id: n.weight for n in s.neighbors},
                self.layout.size,
                serial=1 + 1000 * self.rounds,
                restored=state,
            )
            for s, state in zip(self.settings, states, strict=True)
        ]
        self.batchers = [
            batcher_of(
                s, self.layout, ledger, s.id, Clock(lambda: self.rounds, lambda: self.members, self._heard(s))
            )
            for s, ledger in zip(self.settings, self.ledgers, strict=True)
        ]

    def play(self, observations: list[list[np.ndarray]] | None = None, rounds: int = 1) -> None:
        """Rounds in the first of which the agents have these observations."""
        for _ in range(rounds):
            for i, (ledger, batcher) in enumerate(zip(self.ledgers, self.batchers, strict=True)):
                new = [] if observations is None else observations[i]
                batch = batcher.batch(new, ledger.mean, ledger.samples, ledger.age)
                ledger.begin(batch.observation, batch.samples, batch.weight)
            told = [{n.id: ledger.tell(n.id) for n in s.neighbors} for s, ledger in self._pairs()]
            for s, ledger in self._pairs():
                ledger.finish({n.id: told[n.id][s.id] for n in s.neighbors})
            observations = None
            self.rounds += 1

    def _pairs(self):
        return zip(self.settings, self.ledgers, strict=True)

    def _heard(self, settings):
        return lambda: tuple(self.ledgers[n.id].estimate for n in settings.neighbors)

    def answers(self) -> list[ModelAnswers]:
        return [batcher.answers() for batcher in self.batchers]
