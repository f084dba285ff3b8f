"""Compare candidates for one local form of Anytime SDA: without a spectrum, with and without message loss.

    python -m benchmarks.local_form [forms | front | polynomials | switch]

Prints the error as a multiple of the centralized limit on the paper's five networks of 100 agents. `forms`: the local
forms and the Jacobi filter fed by the smoothed mean, exactly. `front`: other parameters of the local heavy ball, and
other weights of the edges. `polynomials`: the best that any filter could do that is the same on all five networks.
`switch`: a simulation of the edge ledger in NumPy, where an edge takes the step of the heavy ball, and Nesterov's for
`quiet` rounds after one of its ends has missed a message. Without an argument: all of them.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import scipy.sparse as sp
from numpy.polynomial import chebyshev

import gossamer as gs
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.momentum_rules import RULES, MomentumRule
from gossamer.paper.shared import problem

AGENTS, SEED, ROUNDS, TRIALS = 100, 38, 300, 24
LOSSES = (0.0, 0.01, 0.1, 0.3, 0.5)
NEVER = 2**30
GOAL = np.array([1.3, 1.15, 1.2, 1.05, 1.05])

FRONT = {
    "the best of all five for Metropolis weights": (0.975, 0.952, 5.3, 9.39, 0.222, -0.457),
    "a shorter window, read half a round behind": (0.95, 0.96, 8.0, 1.61, 0.5, -0.551),
    "the best of all five for weights 2/(d_i + d_j)": (0.963, 0.9381, 6.1, 4.85, 0.275, -0.5315),
    "the same with a step size that tolerates loss": (0.8, 0.9472, 7.84, 4.47, 0.309, -0.493),
}
"""Found by differential evolution for the largest of (error - 1)/(goal - 1): step size, limit of the momentum, ramp,
window, its growth, lead."""


class JacobiForm(gs.AnytimeSDA):
    """The local form with the momentum of Jacobi's polynomials, up to a limit."""

    dimension, limit = 2.0, 0.96

    def coefficients(self, network: SpectralFacts, rounds: int) -> gs.AnytimeSDA.Coefficients:
        filter_step, momentum, _ = gs.JacobiGossip(self.dimension).acceleration(network, rounds)
        momentum = np.minimum(momentum, self.limit)
        return super().coefficients(network, rounds)._replace(step_size=filter_step, momentum=momentum)


class RuleForm(gs.AnytimeSDA):
    """The local heavy ball with other numbers."""

    numbers: tuple[float, ...] = ()

    def _rule(self, network: SpectralFacts) -> MomentumRule:
        return MomentumRule(*self.numbers[:5], carry=0.0, lead=self.numbers[5])


class DegreeSums(gs.Network):
    """A network with weights 2/(d_i + d_j). Its eigenvalues are those of W B^T B, with the incidence matrix B, whose
    row of edge ij has the absolute sum w_ij (d_i + d_j) = 2."""

    lambda_bound = 2.0  # type: ignore[assignment]

    @classmethod
    def like(cls, network: gs.Network) -> gs.Network:
        i, j = network.edges.T
        degrees = np.bincount(network.edges.ravel())
        weights = 2.0 / (degrees[i] + degrees[j])
        both = sp.coo_array((np.tile(weights, 2), (np.r_[i, j], np.r_[j, i])))
        return cls.from_gossip_matrix(sp.csr_matrix(sp.diags_array(both.sum(axis=1)) - both))


def families() -> list[Floats]:
    """Return columns (eigenvalue, weight, squared mean) of each of the five kinds of network, of 80 to 121 agents."""
    sizes = (100, 80, 90, 110, 120)
    kinds = [
        [gs.Network.path(n) for n in sizes],
        [gs.Network.cycle(n) for n in sizes],
        [gs.Network.star(n) for n in sizes],
        [gs.Network.grid(a, b) for a, b in ((10, 10), (9, 9), (10, 9), (11, 10), (11, 11))],
        [problem.network("erdos-renyi", AGENTS, seed) for seed in (SEED, 1, 2, 3, 4)],
    ]
    spectra = []
    for kind in kinds:
        rows: dict[float, Floats] = {}
        for network in kind:
            n = network.agents
            means = np.random.default_rng(n).uniform(0, 10, n)
            values, vectors = np.linalg.eigh(network.gossip.toarray())
            squares = (vectors.T @ means) ** 2
            share = AGENTS / n / len(kind)
            for value, square in zip(values[1:].round(9).tolist(), squares[1:], strict=True):
                rows[value] = rows.get(value, 0.0) + share * np.array([1.0, square])
        spectra.append(np.array([[value, *row] for value, row in rows.items()]))
    return spectra


def best_polynomials(importance: Floats, spectra: list[Floats]) -> Floats:
    """Return the errors over the limit after `ROUNDS` rounds with the polynomials that minimize their weighted sum.

    What the estimate takes from the increment of round s (docs/theorem.md) may be any polynomial of degree T - s, one
    and the same on all networks. Increments of early rounds share polynomials.
    """
    values = np.concatenate([spectrum[:, 0] for spectrum in spectra])
    between = np.cos(np.pi * (np.arange(500) + 0.5) / 500) + 1  # a small weight keeps the problem well-posed
    points = np.concatenate([[0.0], values, between])
    ends = np.cumsum([0, *map(len, spectra)])
    errors = np.ones(len(spectra))
    starts = np.unique(np.r_[np.geomspace(1, ROUNDS - 80, 25).astype(int), ROUNDS - 80 : ROUNDS])
    for s, after in zip([0, *starts], [1, *starts[1:], ROUNDS], strict=True):
        share = ROUNDS * (1 / s - 1 / after) if s else 1.0
        costs = [share * row[:, 1] if s else ROUNDS * row[:, 2] + row[:, 1] for row in spectra]
        average = share * importance.sum() if s else 1e8  # the average itself must be preserved
        weighted = [a * cost for a, cost in zip(importance, costs, strict=True)]
        roots = np.sqrt(np.concatenate([[average], *weighted, np.full(500, 1e-6 * share)]))
        basis = chebyshev.chebvander(points - 1, ROUNDS - s)
        target = np.where(points == 0, roots, 0.0)
        response = basis @ np.linalg.lstsq(basis * roots[:, None], target, rcond=1e-13)[0]
        for k, cost in enumerate(costs):
            own = response[1:][ends[k] : ends[k + 1]]
            errors[k] += cost @ own**2 + (share * (response[0] - 1) ** 2 if s else 0.0)
    return errors


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


def show(name: str, errors: Floats | list[float]) -> None:
    print(f"{name}:", " / ".join(f"{error:.4g}" for error in errors), flush=True)


def forms(networks: list[gs.Network], observations: gs.Gaussian) -> None:
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
            show(f"{name}, T = {rounds}", errors)


def front(networks: list[gs.Network], observations: gs.Gaussian) -> None:
    other = [DegreeSums.like(network) for network in networks]
    for name, numbers in {"local-heavy-ball": (), **FRONT}.items():
        kind = type("Form", (RuleForm,), {"numbers": numbers}) if numbers else gs.AnytimeSDA
        method = kind("local-heavy-ball")
        for weights, chosen in {"Metropolis": networks, "2/(d_i + d_j)": other}.items():
            for rounds in (100, ROUNDS, 1000, 2976):
                errors = [gs.exact(method, network, observations, rounds).over_limit for network in chosen]
                show(f"{name}, weights {weights}, T = {rounds}", errors)
            with np.errstate(over="ignore", invalid="ignore"):
                lossy = [
                    gs.simulate(
                        method, network, observations, 100, 10, faults=gs.faults.Loss(0.003)
                    ).over_limit
                    for network in chosen
                ]
            show(f"{name}, weights {weights}, T = 100, 0.3% lost", lossy)


def polynomials() -> None:
    spectra = families()
    importance = 1 / (GOAL - 1)
    for _ in range(8):
        errors = best_polynomials(importance, spectra)
        excess = (errors - 1) / (GOAL - 1)
        importance = importance * excess / np.exp(np.log(excess).mean())
    show(f"any polynomials, T = {ROUNDS}", errors)


def switch(networks: list[gs.Network], observations: gs.Gaussian) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        for loss in LOSSES:
            for name, quiet in {"heavy ball": 0, "switch for 100": 100, "switch for good": NEVER}.items():
                errors = [simulate(network, observations.mean[:, 0], loss, quiet) for network in networks]
                show(f"loss {loss:g}, {name}", errors)


def main() -> None:
    networks = [problem.network(graph, AGENTS, SEED) for graph in problem.GRAPHS]
    observations = problem.observations(AGENTS, 10.0, SEED)
    print("T = 300 unless said otherwise:", " / ".join(problem.GRAPHS))
    chosen = sys.argv[1:] or ["forms", "front", "polynomials", "switch"]
    if "forms" in chosen:
        forms(networks, observations)
    if "front" in chosen:
        front(networks, observations)
    if "polynomials" in chosen:
        polynomials()
    if "switch" in chosen:
        switch(networks, observations)


if __name__ == "__main__":
    main()
