"""The runs of policy evaluation in Figures 9 and 10: every estimator, discount and network."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossamer.applications import Centralized, PolicyEvaluation, TemporalDifference, problems
from gossamer.applications.solvers import averages
from gossamer.arrays import Floats, Integers
from gossamer.methods import SDA, AnytimeSDA
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import problem
from gossamer.paper.shared.problem import around, slope

GRAPHS = ("path", "grid", "erdos-renyi")
DISCOUNTS = (0.8, 0.9, 0.95, 0.99)
STATES, BRANCHING = 20, 3
MOST_AGENTS = 36
MOST_TRIALS, FEW_TRIALS = 50, 20  # few for temporal differences, which are the slowest to simulate
FITTED = 8
"""Rates are fitted to the rounds from one eighth of the last on, after the network has mixed."""
PLUG_IN: dict[str, Any] = {"sda": SDA(), "anytime-sda": AnytimeSDA(), "centralized": Centralized()}
LEARNING = {
    "td, last": TemporalDifference(),
    "td, averaged": TemporalDifference(step="sqrt", output="average"),
}


def _task(graph: str, agents: int, discount: float, seed: int) -> PolicyEvaluation:
    process = problems.garnet(STATES, BRANCHING, seed=seed)
    return PolicyEvaluation.from_problem(problem.network(graph, agents, seed), process, discount, seed=seed)


def quantity_at(discount: float) -> str:
    return f"error at {discount:g}"


def evaluation(graph: str, agents: int, solver: str, rounds: list[int], trials: int, seed: int) -> list[Row]:
    """Return the largest error of any agent in any state by discount and rounds, and the rate fitted to it."""
    horizons = np.array(rounds)
    base = {
        "experiment": "policy evaluation",
        "graph": graph,
        "method": solver,
        "agents": agents,
        "seed": seed,
    }
    tasks = {discount: _task(graph, agents, discount, seed) for discount in DISCOUNTS}
    if solver in PLUG_IN:
        # Rewards and transitions do not depend on the discount: one simulation serves all of them.
        first = tasks[DISCOUNTS[0]]
        rewards = averages(PLUG_IN[solver], first.network, first.streams, horizons, trials, seed)
        moves = first.sample_transitions(rounds, trials, seed)
    rows: list[Row] = []
    for discount, task in tasks.items():
        if solver in PLUG_IN:
            trial_errors = np.abs(task.plug_in(rewards, moves) - task.values).max(axis=(2, 3))
        else:
            trial_errors = task.simulate(LEARNING[solver], rounds, trials, seed, keep=False).errors
        common = {**base, "source": "simulation", "quantity": quantity_at(discount), "trials": trials}
        for t, errors in zip(rounds, trial_errors, strict=True):
            rows.append(
                {**common, "rounds": t, **around(errors.mean(), errors.std(ddof=1) / np.sqrt(trials), trials)}
            )
        rows.append({**common, "quantity": f"rate at {discount:g}", **_rate(horizons, trial_errors)})
        if solver == "sda":
            for t in rounds:
                bound = task.bound(t)
                if bound.applies:
                    rows.append({**common, "rounds": t, "source": "corollary 2", "value": bound.total})
                    order = sum(bound.order.values())
                    rows.append({**common, "rounds": t, "source": "corollary 2, order", "value": order})
    return rows


def _rate(horizons: Integers, errors: Floats) -> dict[str, float]:
    """Return the fitted exponent of T with a 95% interval from a bootstrap over trials."""
    late = horizons >= horizons.max() / FITTED
    rng = np.random.default_rng(0)
    trials = errors.shape[1]
    fits = [
        slope(horizons[late], errors[late][:, rng.integers(trials, size=trials)].mean(axis=1))
        for _ in range(200)
    ]
    low, high = np.quantile(fits, [0.025, 0.975])
    return {"value": slope(horizons[late], errors[late].mean(axis=1)), "low": float(low), "high": float(high)}


def pieces(settings: Settings) -> list[Piece]:
    s = settings
    rounds = [100, 200, 400, 800, 1600, 3200] if s.agents > MOST_AGENTS else [100, 200, 400, 800]
    agents = min(s.agents, MOST_AGENTS)
    parts = []
    for graph in GRAPHS:
        for solver in (*PLUG_IN, *LEARNING):
            trials = min(s.trials, FEW_TRIALS if solver in LEARNING else MOST_TRIALS)
            work = {
                "graph": graph, "agents": agents, "solver": solver, "rounds": rounds, "trials": trials, "seed": s.seed,
            }  # fmt: skip
            weight = agents * trials * max(rounds) / 5e6 * (4 if solver in LEARNING else 1)
            parts.append(
                Piece(f"policy-evaluation-{graph}-{solver.replace(', ', '-')}", evaluation, work, weight)
            )
    return parts
