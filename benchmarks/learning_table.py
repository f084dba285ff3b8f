"""Measure how close models learned from streams come to the maximum likelihood estimate of all samples in one place.

    python -m benchmarks.learning_table --trials 100

30 agents, each with covariates of its own, 5 parameters for every predictor, one sample a round. Multiples of the
centralized estimate's mean squared error on the same samples, with 95% intervals; as Markdown tables.
"""

from __future__ import annotations

import argparse

import gossamer as gs
from gossamer.applications import DSGD, DSGT, Alone
from gossamer.families import FAMILIES
from gossamer.faults import Loss

ROUNDS = [100, 300, 1000, 3000]
NETWORKS = {"cycle": gs.Network.cycle(30), "grid": gs.Network.grid(5, 6), "ER": gs.Network.erdos_renyi(30)}
SOLVERS = [gs.AnytimeSDA(), gs.AnytimeSDA("local"), DSGD(None), DSGT(None), DSGD(), DSGT(), Alone()]


def cells(run):
    pairs = zip(run.over_limit, 1.96 * run.over_limit_stderr, strict=True)
    return [f"{value:.3g} ± {interval:.2g}" if value < 1e4 else "diverges" for value, interval in pairs]


def row(*words):
    print(f"| {' | '.join(words)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--no-rivals", action="store_true", help="only ours")
    options = parser.parse_args()
    trials, solvers = options.trials, SOLVERS[:2] if options.no_rivals else SOLVERS
    problems = {
        name: gs.LikelihoodEstimation.random(NETWORKS["cycle"], name, 5, seed=1, intercept=False)
        for name in FAMILIES
    }
    row("family", "network", "method", *(f"T={t}" for t in ROUNDS))
    row(*["---"] * (3 + len(ROUNDS)))
    for family, problem in problems.items():
        for name, network in NETWORKS.items():
            for solver in solvers:
                run = problem.on(network).simulate(solver, ROUNDS, trials)
                row(family, name, run.label, *cells(run))
    print()
    few = min(trials, 32)
    row("family", "network", "method", "T=1000, 30% of messages lost", "none lost")
    row(*["---"] * 5)
    for family, problem in problems.items():
        for name, network in NETWORKS.items():
            lossy, whole = (
                problem.on(network).simulate("anytime-sda", [1000], few, faults=faults)
                for faults in (Loss(0.3), None)
            )
            row(family, name, whole.label, *cells(lossy), *cells(whole))


if __name__ == "__main__":
    main()
