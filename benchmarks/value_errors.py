"""Measure the coverage of 95% intervals of values, and what averaging costs, where the values are known.

    python -m benchmarks.value_errors --runs 400
    python -m benchmarks.value_errors --fleets --runs 400
    python -m benchmarks.value_errors --speed
    python -m benchmarks.value_errors --rivals

Coverage: the share of published intervals of one agent, over all states, that contain the values that temporal
differences converge to, and the share of runs in which they are published. `independent` are intervals that take steps
for independent, at a center, in all runs. The values of CartPole are those of a trajectory of a million steps.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gossamer as gs
from gossamer.agents import FleetValues
from gossamer.agents.round.step_batching import StepBatcher
from gossamer.agents.statistics.values import ValueLayout
from gossamer.applications import DistributedTD, Experience, problems
from gossamer.applications.values.lstd import Transitions, solve, steps_of

NETWORK = gs.Network.cycle(10)


def tasks() -> dict[str, gs.ValueEstimation]:
    rng = np.random.default_rng(0)
    garnet = gs.PolicyEvaluation.from_problem(NETWORK, problems.garnet(50, 3, seed=0), 0.9, seed=1)
    chain = gs.PolicyEvaluation.from_problem(NETWORK, problems.chain(20, 0.5), 0.95, seed=1)
    short = gs.PolicyEvaluation.from_problem(NETWORK, problems.chain(10, 0.5), 0.5, seed=1)
    walk = gs.PolicyEvaluation.from_problem(NETWORK, problems.grid_world(5, 5), 0.9, seed=1)
    phi, x = rng.random((50, 5)), np.linspace(0, 1, 20)
    rows, columns = np.divmod(np.arange(25.0), 5)
    plane = np.column_stack([np.ones(25), rows, columns, rows * columns])
    make = gs.ValueEstimation.from_policy
    return {
        "random process, trace 0": make(garnet, phi),
        "random process, trace 0.8": make(garnet, phi, 0.8),
        "random process, average reward": make(garnet, phi, 0.3, average=True),
        "random walk over 20 states, discount 0.95": make(chain, np.column_stack([x**0, x, x**2])),
        "random walk over 10 states, discount 0.5": make(short, np.column_stack([x**0, x, x**2])[::2]),
        "grid world, episodes, trace 0.5": make(walk, plane, 0.5),
    }


def coverage(problem: gs.ValueEstimation, rounds: int, runs: int) -> tuple[float, float, float]:
    """Return the coverage of published intervals, the share of runs that have them, and that of independent ones."""
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
        if not fit.withheld:
            known = np.isfinite(low)
            held.append(np.mean(((low <= truth) & (truth <= high))[known]))
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
    return _mean(held), len(held) / runs, float(np.mean(naive))


def _mean(held: list[float]) -> float:
    return float(np.mean(held)) if held else np.nan


def cartpole(horizons: list[int], runs: int) -> None:
    """The same for CartPole, whose pole is pushed to the side to which it leans."""
    record = lambda steps, seed: Experience.from_gymnasium(  # noqa: E731
        "cartpole", lambda x: int(x[2] > 0), steps, NETWORK.agents, seed=seed
    )
    problem = gs.ValueEstimation(NETWORK, "fourier:20", 0.95)
    problem.rows(record(10_000, 1).states)
    states = record(300, 2).states
    truth = problem.from_trajectories(record(1_000_000, 3)).centralized_values(states)
    held: dict[int, list[float]] = {rounds: [] for rounds in horizons}
    for run in range(runs):
        steps = record(max(horizons), 10 + run)
        for rounds in horizons:
            fit = problem.from_trajectories(steps.first(rounds))
            if not fit.withheld:
                low, high = np.moveaxis(fit.intervals(states)[0], -1, 0)
                known = np.isfinite(low)
                held[rounds].append(np.mean(((low <= truth) & (truth <= high))[known]))
    for rounds in horizons:
        print(
            f"| CartPole, fourier:20 | {rounds} | {_mean(held[rounds]):.3f} | {len(held[rounds]) / runs:.2f} | |"
        )


def fleets(runs: int, horizons: tuple[int, ...] = (300, 1200, 2400), agents: int = 6) -> None:
    """Intervals of an agent of a fleet, each with a trajectory of its own, averages being exact; states of a table."""
    walk = np.zeros((10, 10))
    for state in range(10):
        for neighbor in (state - 1, state + 1):
            walk[state, min(max(neighbor, 0), 9)] += 0.5
    garnet = np.random.default_rng(0).dirichlet(np.full(8, 0.5), size=8)
    print("| process | transitions per agent | coverage | published |\n|---|---|---|---|")
    for name, chances in (("random process of 8 states", garnet), ("random walk over 10 states", walk)):
        means = np.random.default_rng(5).normal(size=(agents, len(chances)))
        truth = np.linalg.solve(np.eye(len(chances)) - 0.9 * chances, means.mean(axis=0))
        held: dict[int, list[float]] = {rounds: [] for rounds in horizons}
        for run in range(runs):
            for rounds, value, error in _fleet(chances, means, horizons, run):
                if np.isfinite(error).all():
                    held[rounds].append(np.mean(np.abs(value - truth) <= 2.306 * error))
        for rounds in horizons:
            print(
                f"| {name} | {rounds} | {_mean(held[rounds]):.3f} | {len(held[rounds]) / runs:.2f} |",
                flush=True,
            )


def _fleet(chances, means, horizons, seed):
    rng, (agents, states) = np.random.default_rng(seed), means.shape
    layout = ValueLayout(4, replicates=8, values=FleetValues(f"table:{states}", discount=0.9))
    own, average, ladder = np.zeros((agents, layout.size)), [np.zeros(layout.size)], chances.cumsum(axis=1)
    batchers = [
        StepBatcher(
            layout, lambda: average[0], lambda: (agents, ()), b"", 100 * seed + i, gain=None, holds=False
        )
        for i in range(agents)
    ]
    now = rng.integers(states, size=agents)
    for t in range(max(horizons)):
        for i, batcher in enumerate(batchers):
            following = min(int(np.searchsorted(ladder[now[i]], rng.random())), states - 1)
            step = np.array([now[i], following, means[i, now[i]] + rng.normal(), 0.0])
            batch = batcher.batch([step], own[i], float(t), t)
            own[i] += (batch.observation - own[i]) * batch.weight
            now[i] = following
        average[0] = own.mean(axis=0)
        if t + 1 in horizons:
            yield t + 1, *batchers[0].answers().values(np.arange(states))


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
    parser.add_argument("--rounds", type=int, nargs="+", default=[1000, 4000, 8000])
    parser.add_argument("--fleets", action="store_true")
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
    if options.fleets:
        fleets(options.runs)
        return
    print("| process | steps | coverage | published | steps taken for independent |\n|---|---|---|---|---|")
    for name, problem in tasks().items():
        for rounds in options.rounds:
            held, published, naive = coverage(problem, rounds, options.runs)
            print(f"| {name} | {rounds} | {held:.3f} | {published:.2f} | {naive:.3f} |", flush=True)
    cartpole(options.rounds, options.runs)


if __name__ == "__main__":
    main()
