"""Simulated trajectories of a process with a table: every solver on the same steps, next to a center."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.applications.solvers import Alone, Centralized
from gossamer.applications.values.averaging import Averaging
from gossamer.applications.values.lstd import Sums, TraceSteps, solve, sums_of
from gossamer.applications.values.results import ValueRun
from gossamer.applications.values.rivals import DistributedTD, OneShot
from gossamer.arrays import Floats, Integers
from gossamer.engines.horizons import horizons_of
from gossamer.engines.results import OneOrMore, OverLimit, standard_error
from gossamer.errors import Unsupported
from gossamer.faults import FaultsLike
from gossamer.methods import Method, resolve
from gossamer.networks import ChangingNetwork

if TYPE_CHECKING:
    from gossamer.applications.values.estimation import ValueEstimation

Solver = Any
"""A method or its name (least squares with it), or DistributedTD, OneShot, Alone, Centralized."""

_ROOM = 2**25
"""Number of numbers of the trials that are drawn at a time."""


def run(
    problem: ValueEstimation,
    solver: Solver,
    rounds: int | Sequence[int] | Integers,
    trials: int,
    seed: int,
    faults: FaultsLike,
    network: ChangingNetwork | None,
) -> ValueRun[OneOrMore, OneOrMore]:
    horizons, one = horizons_of(rounds)
    ordered, order = np.unique(horizons, return_inverse=True)
    solver = resolve(solver) if isinstance(solver, str) else solver
    if (faults is not None or network is not None) and not isinstance(solver, Method):
        raise Unsupported(
            "faults and changing networks are for methods that average; temporal differences are simulated on "
            "reliable networks only"
        )
    values = _values(problem, solver, ordered, trials, seed, faults, network)
    asked = (ordered.tobytes(), trials, seed)
    if asked not in problem.limits:
        problem.limits[asked] = _values(problem, Centralized(), ordered, trials, seed, None, None)
    visited, truth = problem.process.visited, problem.process.values
    squares, limits = (((learned - truth) ** 2 @ visited) for learned in (values, problem.limits[asked]))
    squares = _without_missing(squares)  # (H, trials, N)
    errors, limits = squares.sum(axis=2), limits.sum(axis=2)
    worst = np.nanmax(np.abs(values - truth), axis=(2, 3))
    over = OverLimit.of(errors, limits)
    with np.errstate(invalid="ignore", over="ignore"):
        worst_stderr = standard_error(worst)
    which = order[0] if one else order
    return ValueRun(
        problem=problem,
        method=solver,
        network=problem.network if network is None else network,
        agents=problem.network.agents,
        rounds=int(horizons[0]) if one else horizons,
        trials=trials,
        seed=seed,
        total_error=over.total_error[which],
        stderr=over.stderr[which],
        centralized_limit=over.centralized_limit[which],
        over_limit_stderr=over.over_limit_stderr[which],
        worst=worst.mean(axis=1)[which],
        worst_stderr=worst_stderr[which],
        errors=errors[which],
        per_agent=squares.mean(axis=1)[which],
        values=values[which],
    )


def _values(
    problem: ValueEstimation,
    solver: Solver,
    horizons: Integers,
    trials: int,
    seed: int,
    faults: FaultsLike,
    network: ChangingNetwork | None,
) -> Floats:
    """(H, trials, N, S) every agent's values of all states after ascending numbers of steps."""
    rounds, agents, process = int(horizons[-1]), problem.network.agents, problem.process
    walkers = 1 if problem.shared else agents
    averaging = None
    if not isinstance(solver, DistributedTD | OneShot | Alone | Centralized):
        averaging = problem.averaging(resolve(solver), horizons, faults, network)
    width = 2 * walkers * (problem.size + 1) + agents
    block = int(np.clip(_ROOM // (rounds * width), 1, trials))
    parts = []
    for first in range(0, trials, block):
        some = range(first, min(first + block, trials))
        states, following = process.walk(rounds, seed, some, walkers)
        rewards = process.rewards(states, seed, some)
        drawn = [
            [
                problem.steps(
                    process.transitions(
                        states[:, i, b],
                        following[:, i, b],
                        rewards[:, :, b] if problem.shared else rewards[:, i : i + 1, b],
                    )
                )
                for i in range(walkers)
            ]
            for b in range(len(some))
        ]
        theta = _learned(problem, solver, averaging, drawn, horizons, seed)  # (H, trials, N, P)
        values = theta[..., : problem.size] @ process.features.T
        if problem.average:
            values = values - values @ process.visited[:, None]
        parts.append(np.where(process.terminal, 0.0, values))
    return np.concatenate(parts, axis=1)


def _learned(
    problem: ValueEstimation,
    solver: Solver,
    averaging: Averaging | None,
    trials: list[list[TraceSteps]],
    horizons: Integers,
    seed: int,
) -> Floats:
    """(H, trials, N, P) from the steps of each trial: one trajectory, or one for each agent."""
    agents = problem.network.agents
    if isinstance(solver, DistributedTD):
        stacked = [
            np.stack([np.stack([getattr(own, name) for own in one], axis=1) for one in trials], axis=1)
            for name in ("traces", "differences", "rewards")
        ]
        rewards = stacked[2].reshape(len(stacked[2]), len(trials), agents)
        return solver.weights(problem.network, stacked[0], stacked[1], rewards, horizons)
    if averaging is not None:
        sums = (
            averaging.shared([one[0] for one in trials], seed)
            if problem.shared
            else averaging.separate(trials, seed)
        )
    else:
        sums = [[alone(problem, [own.first(t) for own in one]) for t in horizons.tolist()] for one in trials]
        if isinstance(solver, Centralized):
            sums = [[together(own, agents) for own in row] for row in sums]
    walkers = len(trials[0])
    solved = np.stack(
        [
            [
                solve(own, problem.ridge_for(t * walkers))
                for own, t in zip(row, horizons.tolist(), strict=True)
            ]
            for row in sums
        ],
        axis=1,
    )
    if isinstance(solver, OneShot):
        solved = np.broadcast_to(solved.mean(axis=2, keepdims=True), solved.shape)
    return solved


def alone(problem: ValueEstimation, steps: Sequence[TraceSteps]) -> Sums:
    """Return the sums of each agent's own rewards; A is common if there is one trajectory."""
    rounds = len(steps[0].rewards)
    sums = [sums_of(own, np.full(rounds, 1 / rounds), own.rewards.T / rounds) for own in steps]
    if problem.shared:
        return sums[0]
    matrices, rights = (
        np.stack([getattr(s, name)[0] for s in sums])[None] for name in ("matrices", "rights")
    )
    scale = np.sqrt(np.mean([s.scale**2 for s in sums], axis=0))
    return Sums(matrices, rights[:, :, 0], scale)


def together(sums: Sums, agents: int) -> Sums:
    """Return the sums of a center that holds everything, for this many agents."""
    rights = np.repeat(sums.rights.mean(axis=1, keepdims=True), agents, axis=1)
    matrices = sums.matrices if sums.matrices.ndim == 3 else sums.matrices.mean(axis=1)
    return Sums(matrices, rights, sums.scale)


def _without_missing(squares: Floats) -> Floats:
    """Return squared errors in which those of dead agents (NaN) count as the mean of the others."""
    missing = np.isnan(squares)
    if not missing.any():
        return squares
    mean = np.where(missing, 0.0, squares).sum(axis=2, keepdims=True) / (~missing).sum(axis=2, keepdims=True)
    return np.asarray(np.where(missing, mean, squares))
