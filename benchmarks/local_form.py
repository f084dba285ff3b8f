"""Compare candidates for one local form of Anytime SDA: without a spectrum, with and without message loss.

    python -m benchmarks.local_form

Prints the error after 300 rounds as a multiple of the centralized limit on the paper's five networks of 100 agents.
The Jacobi filter fed by the smoothed mean is exact. The switch is a simulation of the edge ledger in NumPy: an edge
takes the step of the heavy ball, and Nesterov's for `quiet` rounds after one of its ends has missed a message.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

import gossamer as gs
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.momentum_rules import RULES, MomentumRule
from gossamer.paper.shared import problem

AGENTS, SEED, ROUNDS, TRIALS = 100, 38, 300, 24
LOSSES = (0.0, 0.01, 0.1, 0.3, 0.5)
NEVER = 2**30


class JacobiForm(gs.AnytimeSDA):
    """The local form with the momentum of Jacobi's polynomials, up to a limit."""

    dimension, limit = 2.0, 0.96

    def coefficients(self, network: SpectralFacts, rounds: int) -> gs.AnytimeSDA.Coefficients:
        filter_step, momentum, _ = gs.JacobiGossip(self.dimension).acceleration(network, rounds)
        momentum = np.minimum(momentum, self.limit)
        return super().coefficients(network, rounds)._replace(step_size=filter_step, momentum=momentum)


def _steps(rule: MomentumRule, t: int) -> tuple[float, float, float]:
    return rule.step_size, min(t / (t + rule.ramp), rule.momentum), rule.carry


def simulate(network: gs.Network, means: Floats, loss: float, quiet: int) -> float:
    """Return the error over the limit. `quiet` 0 is the heavy ball throughout, `NEVER` Nesterov after a miss."""
    rng = np.random.default_rng(0)
    low, high = network.edges.T
    edges, weights = len(low), -np.asarray(network.gossip[low, high]).ravel()
    places = np.concatenate([low, high]), np.arange(2 * edges)
    ends = sp.csr_array((np.ones(2 * edges), places), shape=(AGENTS, 2 * edges))
    calm, rough = RULES["local-heavy-ball"](network), RULES["local"](network)
    flow, memory = np.zeros((2, 2, TRIALS, edges))  # of both ends, each in its own sign
    since = np.full((2, TRIALS, edges), NEVER)
    missed = np.zeros((2, TRIALS, edges), dtype=bool)
    mean, smooth = np.zeros((2, TRIALS, AGENTS))
    for t in range(ROUNDS):
        mean += (means + rng.normal(size=mean.shape) - mean) / (t + 1)
        smooth += max(1 / (t + 1), 1 / calm.window(t + 1)[-1]) * (mean - smooth)
        told = (ends @ np.concatenate([flow[0], flow[1]], axis=1).T).T + smooth
        heard = rng.random(missed.shape) >= loss
        for state in (flow, memory):  # the end with the smaller number is right
            state[1] = np.where(heard[1], -state[0], state[1])
        since = np.where(
            heard & ~missed[::-1], since + 1, 0
        )  # a message says whether the one before was heard
        missed = ~heard
        apart = weights * (told[:, low] - told[:, high])
        for end, sign in enumerate((1.0, -1.0)):
            both = zip(_steps(rough, t), _steps(calm, t), strict=True)
            step_size, momentum, carry = (np.where(since[end] < quiet, *pair) for pair in both)
            moved = flow[end] - step_size * sign * apart
            later = moved + momentum * (moved - memory[end])
            remembered = flow[end] - carry * step_size * sign * apart
            memory[end] = np.where(heard[end], remembered, memory[end])
            flow[end] = np.where(heard[end], later, flow[end])
    answers = (ends @ np.concatenate([flow[0], flow[1]], axis=1).T).T + smooth
    return float(((answers - means.mean()) ** 2).sum(axis=1).mean() * ROUNDS)


def main() -> None:
    networks = [problem.network(graph, AGENTS, SEED) for graph in problem.GRAPHS]
    observations = problem.observations(AGENTS, 10.0, SEED)
    print("T = 300:", " / ".join(problem.GRAPHS))
    exactly: dict[str, gs.AnytimeSDA] = {
        "local": gs.AnytimeSDA("local"),
        "local-heavy-ball": gs.AnytimeSDA("local-heavy-ball"),
    }
    for dimension in (1.0, 2.0, 4.0):
        for limit in (math.inf, 0.96):
            form = type("Form", (JacobiForm,), {"dimension": dimension, "limit": limit})("local-heavy-ball")
            exactly[f"Jacobi, d = {dimension:g}, momentum up to {limit:g}"] = form
    for name, method in exactly.items():
        for rounds in (100, ROUNDS):
            errors = [gs.exact(method, network, observations, rounds).over_limit for network in networks]
            print(f"{name}, T = {rounds}:", " / ".join(f"{error:.3g}" for error in errors), flush=True)
    with np.errstate(over="ignore", invalid="ignore"):
        for loss in LOSSES:
            for name, quiet in {"heavy ball": 0, "switch for 100": 100, "switch for good": NEVER}.items():
                errors = [simulate(network, observations.mean[:, 0], loss, quiet) for network in networks]
                print(f"loss {loss:g}, {name}:", " / ".join(f"{error:.3g}" for error in errors), flush=True)


if __name__ == "__main__":
    main()
