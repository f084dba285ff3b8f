"""Measure how close models learned from streams come to the maximum likelihood estimate of all samples in one place.

    python -m benchmarks.learning_table --trials 100

30 agents, each with covariates of its own, 5 parameters for every predictor, one sample a round. Multiples of the
centralized estimate's mean squared error on the same samples, with 95% intervals; as Markdown tables.
"""

from __future__ import annotations

import argparse

import numpy as np

import gossamer as gs
from gossamer.applications import DSGD, DSGT, Alone
from gossamer.families import FAMILIES
from gossamer.faults import Loss

ROUNDS = [100, 300, 1000, 3000]
NETWORKS = {"cycle": gs.Network.cycle(30), "grid": gs.Network.grid(5, 6), "ER": gs.Network.erdos_renyi(30)}
SOLVERS = {
    "anytime": gs.AnytimeSDA(),
    "local": gs.AnytimeSDA("local"),
    "best-dsgd": DSGD(None),
    "best-dsgt": DSGT(None),
    "dsgd": DSGD(),
    "dsgt": DSGT(),
    "alone": Alone(),
}


def cells(run, shown):
    values, intervals = np.atleast_1d(run.over_limit), 1.96 * np.atleast_1d(run.over_limit_stderr)
    pairs = [(values[k], intervals[k]) for k in shown]
    return [f"{value:.3g} ± {interval:.2g}" if value < 1e4 else "diverges" for value, interval in pairs]


def row(*words):
    print(f"| {' | '.join(words)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--families", default=",".join(FAMILIES), help="for example logistic,gamma")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="for example cycle,grid")
    parser.add_argument("--solvers", default=",".join(SOLVERS), help=f"some of {', '.join(SOLVERS)}")
    parser.add_argument("--no-loss", action="store_true", help="without the table of lost messages")
    options = parser.parse_args()
    trials, solvers = options.trials, {name: SOLVERS[name] for name in options.solvers.split(",")}
    networks = {name: NETWORKS[name] for name in options.networks.split(",")}
    problems = {
        name: gs.LikelihoodEstimation.random(NETWORKS["cycle"], name, 5, seed=1, intercept=False)
        for name in options.families.split(",")
    }
    row("family", "method", *(f"{name} T={t}" for name in networks for t in ROUNDS))
    row(*["---"] * (2 + len(ROUNDS) * len(networks)))
    ours = []
    for family, problem in problems.items():
        for name, solver in solvers.items():
            runs = [problem.on(network).simulate(solver, ROUNDS, trials) for network in networks.values()]
            row(family, runs[0].label, *(cell for run in runs for cell in cells(run, range(len(ROUNDS)))))
            ours += [run.over_limit for run in runs] if name == "anytime" else []
    if ours:
        print("\nAnytime SDA, from the best to the worst of the networks and families")
        for t, values in zip(ROUNDS, np.transpose(ours), strict=True):
            print(f"T={t}: {values.min():.3g} to {values.max():.3g}")
    if not options.no_loss:
        lost_messages(problems, networks, min(trials, 32))


def lost_messages(problems, networks, trials) -> None:
    """Print the errors with 30% of all messages lost, as multiples of those without loss."""
    print()
    row("family", "network", "T=1000, 30% of messages lost", "none lost", "quotient of the errors")
    row(*["---"] * 5)
    for family, problem in problems.items():
        for name, network in networks.items():
            lossy, whole = (
                problem.on(network).simulate("anytime-sda", [1000], trials, faults=faults)
                for faults in (Loss(0.3), None)
            )
            quotient = lossy.total_error[0] / whole.total_error[0]
            row(family, name, *cells(lossy, [0]), *cells(whole, [0]), f"{quotient:.3f}")


if __name__ == "__main__":
    main()
