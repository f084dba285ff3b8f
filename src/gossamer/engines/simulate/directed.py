"""Trials on one-way links: mixed = m - A m with column-stochastic A, and answers that are quotients."""

from __future__ import annotations

import numpy as np

from gossamer.arrays import AnyArray
from gossamer.engines.simulate.layouts import GIVEN, IN_FLIGHT, Run
from gossamer.engines.trials import Advance
from gossamer.methods import Table
from gossamer.networks import DirectedNetwork, Graph, Network, NetworkLike


def directed(network: NetworkLike | DirectedNetwork) -> DirectedNetwork:
    """Return the network itself, a NetworkX graph's, or that of an undirected network with every edge both ways."""
    if isinstance(network, DirectedNetwork):
        return network
    if isinstance(network, Graph):
        return DirectedNetwork.from_networkx(network)
    known = Network.of(network)
    links = np.concatenate([known.edges, known.edges[:, ::-1]])
    return DirectedNetwork.equal_shares(known.agents, links, name=known.name, labels=known.labels)


class DirectedRun(Run):
    """Blocks of trials side by side, one sparse product per round.

    In addition to the trials there is one in which every agent observes 1: the weights by which the answers are
    divided.
    """

    def go(self, advance: Advance) -> None:
        agents, components = self.observations.mean.shape
        registers = max(table.registers for table, _ in self.passes)
        width = max(1, IN_FLIGHT // (agents * components * (registers + 6)))
        for first in range(0, self.trials, width):
            trials = range(first, min(first + width, self.trials))
            for table, which in self.passes:
                self._play(table, which, trials, advance)
                self.finished[which, trials.start : trials.stop] = True

    def _play(self, table: Table, which: list[int], trials: range, advance: Advance) -> None:
        agents, components = self.observations.mean.shape
        lanes = components * len(trials)
        shares = self.network.weights.astype(self.dtype)
        given = np.ones((agents, lanes + 1), self.dtype)
        state = np.zeros((table.registers, *given.shape), self.dtype)
        drawn = range(self.first_trial + trials.start, self.first_trial + trials.stop)
        length = max(1, GIVEN // given.size)
        batches = None if np.all(table.batches == 1) else table.batches
        by_round = {int(self.horizons[h]): h for h in which}
        records = len(self.iterates) > 0 and table.rounds == self.horizons[-1]
        for start in range(0, table.rounds, length):
            block = range(start, min(start + length, table.rounds))
            samples = self.observations.sample(self.seed, block, drawn, batches=batches)
            for t, sample in zip(block, samples, strict=True):
                given[:, :-1] = sample.reshape(agents, lanes)
                row = table.round(t)
                message = row.message(state, given)
                state = row.step(state, given, message - shares @ message)
                if not (records or t + 1 in by_round):
                    continue
                answers = row.estimate(state)
                with np.errstate(divide="ignore", invalid="ignore"):  # weights may underflow, which gives NaN
                    estimates = (answers[:, :-1] / answers[:, -1:]).reshape(sample.shape)
                if records:
                    now = (*(register[:, :-1] for register in state), estimates)
                    for kept, values in zip(self.iterates, now, strict=True):
                        kept[trials.start : trials.stop, t] = np.moveaxis(values.reshape(sample.shape), 2, 0)
                if t + 1 in by_round:
                    self._collect(by_round[t + 1], trials, estimates)
            advance(len(block) * agents * lanes)

    def _collect(self, which: int, trials: range, estimates: AnyArray) -> None:
        """Store the estimates (N, n, trials) at a horizon."""
        target = self.observations.target(int(self.horizons[which]))
        squares = (estimates - target[:, None]) ** 2
        self.errors[which, trials.start : trials.stop] = squares.sum(axis=(0, 1))
        self.per_agent[which] += squares.sum(axis=(1, 2))
        if self.keep:
            self.estimates[which, trials.start : trials.stop] = np.moveaxis(estimates, 2, 0)
