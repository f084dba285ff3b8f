"""Measure the coverage of 95% intervals of values, and what averaging costs, where the values are known.

    python -m benchmarks.value_errors --runs 400
    python -m benchmarks.value_errors --speed
    python -m benchmarks.value_errors --rivals

Coverage: the share of intervals of one agent, over all states, that contain the values that temporal differences
converge to. `independent` are intervals that take steps for independent, at a center.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gossamer as gs
from gossamer.applications import DistributedTD, Experience, problems
from gossamer.applications.values.lstd import Transitions, solve, steps_of

NETWORK = gs.Network.cycle(10)


def tasks() -> dict[str, gs.ValueEstimation]:
    rng = np.random.default_rng(0)
    garnet = gs.PolicyEvaluation.from_problem(NETWORK, problems.garnet(50, 3, seed=0), 0.9, seed=1)
    chain = gs.PolicyEvaluation.from_problem(NETWORK, problems.chain(20, 0.5), 0.95, seed=1)
    walk = gs.PolicyEvaluation.from_problem(NETWORK, problems.grid_world(5, 5), 0.9, seed=1)
    phi, x = rng.random((50, 5)), np.linspace(0, 1, 20)
    rows, columns = np.divmod(np.arange(25.0), 5)
    plane = np.column_stack([np.ones(25), rows, columns, rows * columns])
    make = gs.ValueEstimation.from_policy
    return {
        "random process, trace 0": make(garnet, phi),
        "random process, trace 0.8": make(garnet, phi, 0.8),
        "random process, average reward": make(garnet, phi, 0.3, average=True),
        "chain, discount 0.95": make(chain, np.column_stack([x**0, x, x**2])),
        "grid world, episodes, trace 0.5": make(walk, plane, 0.5),
    }


def coverage(problem: gs.ValueEstimation, rounds: int, runs: int) -> tuple[float, float]:
    process = problem.process
    states = np.flatnonzero(~process.terminal)
    held, naive = [], []
    for run in range(runs):
        now, after = process.walk(rounds, 0, range(run, run + 1), 1)
        rewards = process.rewards(now, 0, range(run, run + 1))[:, :, 0]
        now, after = now[:, 0, 0], after[:, 0, 0]
        fit = problem.from_trajectories(Experience.of(now, rewards, after, process.terminal[after]))
        low, high = np.moveaxis(fit.intervals(states)[0], -1, 0)
        truth = process.values[states]
        held.append(np.mean((low <= truth) & (truth <= high)))
        steps = steps_of(
            process.transitions(now, after, rewards), problem.discount, problem.trace, problem.average
        )
        theta = fit.center_theta
        residuals = steps.rewards.mean(axis=1) - steps.differences @ theta
        matrix = steps.traces.T @ steps.differences / rounds
        rows = np.column_stack([fit._rows(states), np.zeros((len(states), len(theta) - problem.size))])
        shares = (steps.traces * residuals[:, None]) @ np.linalg.solve(matrix.T, rows.T)
        reach = 1.96 * np.sqrt((shares**2).mean(axis=0) / rounds)
        naive.append(np.mean(np.abs(fit.centralized_values(states) - truth) <= reach))
    return float(np.mean(held)), float(np.mean(naive))


def rivals(rounds: tuple[int, ...] = (300, 1000, 3000, 10_000), trials: int = 10) -> None:
    """Errors over a center's on a cycle of 30: least squares, and TD(0) with the best of several steps at each horizon.

    A random process of 200 states, with 10 features: positive ones, centered ones, centered ones with a constant, and
    the indicators of 10 groups of states.
    """
    rng = np.random.default_rng(0)
    centered = rng.normal(size=(200, 10))
    kinds = {
        "uniform in [0, 1]": rng.random((200, 10)),
        "standard normal": centered,
        "normal, and a constant": np.column_stack([np.ones(200), centered[:, 1:]]),
        "10 groups of states": np.repeat(np.eye(10), 20, axis=0),
    }
    print("| features | discount | method |" + "".join(f" T = {t} |" for t in rounds))
    for name, phi in kinds.items():
        for discount in (0.8, 0.95):
            process = problems.garnet(200, 5, seed=0)
            task = gs.PolicyEvaluation.from_problem(gs.Network.cycle(30), process, discount, seed=1)
            problem = gs.ValueEstimation.from_policy(task, phi)
            ours = problem.simulate("anytime-sda", list(rounds), trials).over_limit
            steps = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0)
            td = np.array(
                [problem.simulate(DistributedTD(a), list(rounds), trials).over_limit for a in steps]
            )
            best = np.nan_to_num(td, nan=np.inf).min(axis=0)
            for method, row in (
                ("least squares", ours),
                ("TD(0), best step", best),
                ("TD(0), step 2", td[2]),
            ):
                cells = "".join(f" {value:.3g} |" for value in row)
                print(f"| {name} | {discount} | {method} |{cells}", flush=True)


def speed(agents: int = 30, features: int = 50, rounds: int = 10_000, trials: int = 32) -> None:
    """Averaging over a network in proportion to the same sums in NumPy for a center alone; processor time."""
    network = gs.Network.cycle(agents)
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(trials, rounds + 1, features))
    rewards = rng.normal(size=(trials, rounds, agents))
    problem = gs.ValueEstimation(network, lambda s: s, 0.95)
    steps = [Experience.of(phi[k], rewards[k]) for k in range(trials)]
    problem.from_trajectories(steps[0])  # compiles

    def center() -> list[np.ndarray]:
        found = []
        for k in range(trials):
            now, after = phi[k, :-1], phi[k, 1:]
            matrix = now.T @ (now - 0.95 * after) / rounds
            found.append(np.linalg.solve(matrix, now.T @ rewards[k].mean(axis=1) / rounds))
        return found

    def ours() -> list[object]:
        averaging = problem.averaging(gs.AnytimeSDA(), np.array([rounds]), None, None)
        made = (problem.steps(_transitions(phi[k], rewards[k])) for k in range(trials))
        return [solve(averaging.shared([own], 0)[0][0], 1e-6) for own in made]

    def whole() -> list[object]:
        return [problem.from_trajectories(own).theta for own in steps]

    ours()
    best = {}
    for name, work in (("center", center), ("network", ours), ("call", whole)):
        times = []
        for _ in range(5):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        best[name] = min(times)
    ratio, call = best["network"] / best["center"], best["call"] / best["center"]
    print(
        f"{agents} agents, {features} features, {rounds} steps, {trials} trials: {best['network']:.2f} s on the "
        f"network, {best['center']:.2f} s for a center in NumPy, {ratio:.2f} times as much; from_trajectories, with "
        f"checks, a center and the sums of 20 batches: {best['call']:.2f} s, {call:.2f} times"
    )


def _transitions(phi, rewards):
    none = np.zeros(len(rewards), dtype=bool)
    return Transitions(phi[:-1], phi[1:], rewards, none, none, np.ones(len(rewards)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--rivals", action="store_true")
    options = parser.parse_args()
    if options.rivals:
        rivals()
        return
    if options.speed:
        speed()
        speed(features=500, rounds=2000, trials=2)
        return
    print("| process | steps | coverage | steps taken for independent |\n|---|---|---|---|")
    for name, problem in tasks().items():
        for rounds in options.rounds:
            held, naive = coverage(problem, rounds, options.runs)
            print(f"| {name} | {rounds} | {held:.3f} | {naive:.3f} |", flush=True)


if __name__ == "__main__":
    main()
