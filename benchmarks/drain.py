"""Measure whether a drain by potentials is worth its message now that flows of dead neighbors return slowly.

    python -m benchmarks.drain

Every agent keeps a potential p, sends it along, and solves L p = -x by accelerated steps, x being the sum of its flows
and the p_j those that it heard last; an edge that moves is pulled toward the potential flow -w_ij (p_i - p_j) by a
factor of eps, at both ends alike. Bridges carry no circular flow, so they are not drained. This is a simulation of the
ledger in NumPy, all trials and edges at once. It prints how far answers leave the range of the data over 80 outages
(as `outages` of `loss_table.py` does), and the network's share of the error on a cycle of 100 that loses messages.
"""

from __future__ import annotations

import sys

import networkx as nx
import numpy as np
import scipy.sparse as sp

import gossamer as gs
from gossamer.arrays import Floats
from gossamer.methods.ledger import RETURN_RATE, SILENCE

STEP, MOMENTUM = 0.65, 0.9
"""Step size and momentum with which potentials follow the flows; on the long cycle the momentum is 0.97."""

OUTAGES, EVERY, AWAY, BEGIN = 80, 170, 50, 300
RATES = (0.0, 0.003, 0.01, 0.03)


class Drained:
    """The ledger of all edges in several trials; both ends keep an edge's flow in their own sign."""

    def __init__(
        self, method: gs.AnytimeSDA, network: gs.Network, rounds: int, trials: int, eps: float
    ) -> None:
        self.c = method.coefficients(network, rounds)
        self.low, self.high = network.edges.T
        agents, edges = network.agents, len(self.low)
        self.weights = -np.asarray(network.gossip[self.low, self.high]).ravel()
        places = np.concatenate([self.low, self.high]), np.arange(2 * edges)
        self.ends = sp.csr_array((np.ones(2 * edges), places), shape=(agents, 2 * edges))
        bridges = {frozenset(pair) for pair in nx.bridges(network.to_networkx())}
        cyclic = [frozenset(pair) not in bridges for pair in network.edges.tolist()]
        self.eps = eps * np.array(cyclic, float)
        self.flow, self.memory = np.zeros((2, 2, trials, edges))
        self.silent = np.zeros((2, trials, edges), int)  # rounds since an end heard the other
        self.heard_p = np.zeros((2, trials, edges))
        self.mean, self.smooth, self.returning, self.p, self.q = np.zeros((5, trials, agents))
        self.largest = 0.0

    def _sums(self, values: Floats) -> Floats:
        return np.asarray((self.ends @ np.concatenate([values[0], values[1]], axis=1).T).T)

    @property
    def answers(self) -> Floats:
        return self._sums(self.flow) + self.smooth + self.returning

    def lose(self, agent: int) -> None:
        """An agent crashes: its own end of every edge is gone."""
        for end, who in enumerate((self.low, self.high)):
            for state in (self.flow, self.memory, self.heard_p):
                state[end][:, who == agent] = 0.0
        for register in (self.returning, self.p, self.q):
            register[:, agent] = 0.0

    def drop(self, agent: int) -> None:
        """Its neighbors declare it dead: their flows leave the edge and return slowly."""
        for end, (who, other) in enumerate(((self.low, self.high), (self.high, self.low))):
            edges = np.flatnonzero(other == agent)
            np.add.at(self.returning, (slice(None), who[edges]), self.flow[end][:, edges])
            for state in (self.flow, self.memory, self.heard_p):
                state[end][:, edges] = 0.0

    def round(self, t: int, observed: Floats, heard: np.ndarray, alive: np.ndarray, momentum: float) -> None:
        c = self.c
        self.mean += c.gain[t] * (observed - self.mean)
        self.smooth += c.smoothing_gain[t] * (self.mean - self.smooth)
        told, potential = self.answers, self.p.copy()
        heard = heard & (alive[self.low] & alive[self.high])
        self.flow[1] = np.where(
            heard[1], -self.flow[0], self.flow[1]
        )  # the end with the smaller number is right
        self.memory[1] = np.where(heard[1], -self.memory[0], self.memory[1])
        moves = heard & (self.silent[::-1] <= SILENCE)
        self.silent = np.where(heard, 0, self.silent + 1)
        speed = c.momentum[t] if np.ndim(c.momentum) else c.momentum
        for end, (who, other) in enumerate(((self.low, self.high), (self.high, self.low))):
            mixed = self.weights * (told[:, who] - told[:, other])
            flow, memory = self.flow[end], self.memory[end]
            moved = flow - c.step_size * mixed
            new_flow = moved + speed * (moved - memory)
            new_memory = flow - c.carry * c.step_size * mixed
            if self.eps.any():
                self.heard_p[end] = np.where(heard[end], potential[:, other], self.heard_p[end])
                wanted = -self.weights * (potential[:, who] - potential[:, other])
                new_flow, new_memory = (
                    value - self.eps * (flow - wanted) for value in (new_flow, new_memory)
                )
            self.flow[end] = np.where(moves[end], new_flow, flow)
            self.memory[end] = np.where(moves[end], new_memory, memory)
        self.returning *= RETURN_RATE
        if self.eps.any():
            up = np.stack([alive[self.high], alive[self.low]])[:, None] * self.weights
            own = np.stack([potential[:, self.low], potential[:, self.high]])
            q = potential - STEP * (self._sums(self.flow) + self._sums(up * (own - self.heard_p)))
            self.p, self.q = q + momentum * (q - self.q), q
        self.largest = max(self.largest, float(np.abs(self.flow).max()))


def worst(network: gs.Network, loss: float, eps: float, trials: int = 8) -> tuple[float, float]:
    """How far answers leave the range over all outages, as a multiple of its width, and the largest flow."""
    rng = np.random.default_rng(5)
    means = np.where(rng.random(network.agents) < 0.5, 10.0, 30.0)
    who = np.random.default_rng(0).integers(network.agents, size=OUTAGES)
    rounds = BEGIN + EVERY * OUTAGES
    run = Drained(gs.AnytimeSDA("local"), network, rounds, trials, eps)
    draws, alive = np.random.default_rng(1), np.ones(network.agents, bool)
    beyond = 0.0
    for t in range(rounds):
        k, since = divmod(t - BEGIN, EVERY)
        if t >= BEGIN and since == 0:
            alive[who[k]] = False
            run.lose(int(who[k]))
        elif t >= BEGIN and since == SILENCE:
            run.drop(int(who[k]))
        elif t >= BEGIN and since == AWAY:
            alive[who[k]] = True
        heard = draws.random(run.silent.shape) >= loss
        run.round(t, np.broadcast_to(means, run.mean.shape), heard, alive, MOMENTUM)
        told = run.answers[:, alive]
        beyond = max(beyond, 10.0 - float(told.min()), float(told.max()) - 30.0)
    return beyond / 20.0, run.largest


def share(
    loss: float, eps: float, rounds: int = 2976, draws: int = 4, trials: int = 16
) -> tuple[float, float]:
    """The network's share of the error on a cycle of 100, in sigma^2/T, and its standard error over draws of means."""
    network, shares = gs.Network.cycle(100), []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        means = rng.uniform(0, 10, 100)
        run, alive = Drained(gs.AnytimeSDA(), network, rounds, trials, eps), np.ones(100, bool)
        for t in range(rounds):
            observed = means + rng.normal(size=run.mean.shape)
            run.round(t, observed, rng.random(run.silent.shape) >= loss, alive, 0.97)
        gaps = run.answers - run.mean.mean(axis=1, keepdims=True)
        shares.append(rounds * float((gaps**2).sum(axis=1).mean()))
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(draws))


def main() -> None:
    networks = {
        "12 agents, geometric": gs.Network.named("geometric:12", "metropolis", 0),
        "grid 6x6": gs.Network.grid(6, 6),
        "cycle of 20": gs.Network.cycle(20),
    }
    with np.errstate(over="ignore", invalid="ignore"):
        for loss in (0.0, 0.3, 0.5):
            cells = [share(loss, eps) for eps in RATES]
            print(
                f"cycle of 100, {loss:.0%}:", " | ".join(f"{a:.3g} ± {b:.1g}" for a, b in cells), flush=True
            )
        for name, network in networks.items():
            for loss in (0.05, 0.2, 0.4):
                cells = [worst(network, loss, eps) for eps in RATES]
                print(
                    f"{name}, {loss:.0%}:",
                    " | ".join(f"{a:.2g} (flow {b:.3g})" for a, b in cells),
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
