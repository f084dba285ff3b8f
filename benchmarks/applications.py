"""The applications against plain NumPy loops over agents, as ratios within one run.

The loops are what the equations say, one agent after another, one trial at a time, with NumPy vectors per
agent. Trials are independent, so the loops are timed for 100 rounds of one trial and given per
agent, round and trial.
"""

from __future__ import annotations

import numpy as np

import gossamer as gs
from benchmarks.timing import Row, best
from gossamer.applications import (
    KarMoura,
    LikelihoodEstimation,
    LinearEstimation,
    PolicyEvaluation,
    TemporalDifference,
)
from gossamer.applications.policy import problems


def _neighbors(net):
    gossip = net.gossip
    return [[(int(j), float(w)) for j, w in zip(*_row(gossip, i), strict=True)] for i in range(net.agents)]


def _row(gossip, i):
    part = slice(gossip.indptr[i], gossip.indptr[i + 1])
    return gossip.indices[part], gossip.data[part]


def loop_estimation(problem, rounds, eta, zeta, seed=0):
    """SDA on A_i'Y_i, one agent after another; then every agent solves."""
    rng = np.random.default_rng(seed)
    links = _neighbors(problem.network)
    n, d = problem.network.agents, problem.dimension
    roots = [np.linalg.cholesky(s) for s in problem.covariances]
    x, y, average = ([np.zeros(d) for _ in range(n)] for _ in range(3))
    burn_in = rounds // 2
    for t in range(rounds):
        theta = []
        for i, a in enumerate(problem.matrices):
            measured = a @ problem.parameter + roots[i] @ rng.standard_normal(len(a))
            theta.append(x[i] + a.T @ measured)
        for i in range(n):
            mixed = sum(w * theta[j] for j, w in links[i])
            following = x[i] - eta * mixed
            x[i] = following + zeta * (following - y[i])
            y[i] = following
            if t >= burn_in:
                average[i] = average[i] + (theta[i] - average[i]) / (t - burn_in + 1)
    gram = sum(a.T @ a for a in problem.matrices) / n
    return [np.linalg.solve(gram, m) for m in average]


def loop_innovations(problem, rounds, seed=0):
    """Kar-Moura, one agent after another."""
    rng = np.random.default_rng(seed)
    links = _neighbors(problem.network)
    roots = [np.linalg.cholesky(s) for s in problem.covariances]
    gain = np.linalg.inv(problem.grams.mean(axis=0))
    x = [np.zeros(problem.dimension) for _ in problem.matrices]
    for t in range(rounds):
        fresh = []
        for i, a in enumerate(problem.matrices):
            measured = a @ problem.parameter + roots[i] @ rng.standard_normal(len(a))
            mixed = sum(w * x[j] for j, w in links[i])
            fresh.append(x[i] - mixed / (t + 1) ** 0.1 + gain @ (a.T @ (measured - a @ x[i])) / (t + 100))
        x = fresh
    return x


def loop_temporal_differences(problem, rounds, seed=0):
    """Generative distributed TD(0), one agent after another, all states of an agent in one vector."""
    rng = np.random.default_rng(seed)
    links = _neighbors(problem.network)
    cumulative = np.cumsum(problem.transitions.toarray(), axis=1)
    theta = [np.zeros(problem.states) for _ in range(problem.network.agents)]
    for t in range(rounds):
        following = (cumulative < rng.random((problem.states, 1))).sum(axis=1)
        step = 2 / ((1 - problem.discount) * (t + 1) + 2)
        fresh = []
        for i, own in enumerate(theta):
            reward = problem.rewards[i] + problem.reward_std[i] * rng.standard_normal(problem.states)
            mixed = sum(w * theta[j] for j, w in links[i])
            fresh.append(own - mixed + step * (reward + problem.discount * own[following] - own))
        theta = fresh
    return theta


def loop_plug_in(problem, rounds, eta, zeta, seed=0):
    """SDA on reward vectors, one agent after another, and one solution per agent."""
    rng = np.random.default_rng(seed)
    links = _neighbors(problem.network)
    n, states = problem.network.agents, problem.states
    cumulative = np.cumsum(problem.transitions.toarray(), axis=1)
    counts = np.zeros((states, states))
    x, y, average = ([np.zeros(states) for _ in range(n)] for _ in range(3))
    burn_in = rounds // 2
    for t in range(rounds):
        counts[np.arange(states), (cumulative < rng.random((states, 1))).sum(axis=1)] += 1
        theta = [
            x[i] + problem.rewards[i] + problem.reward_std[i] * rng.standard_normal(states) for i in range(n)
        ]
        for i in range(n):
            following = x[i] - eta * sum(w * theta[j] for j, w in links[i])
            x[i] = following + zeta * (following - y[i])
            y[i] = following
            if t >= burn_in:
                average[i] = average[i] + (theta[i] - average[i]) / (t - burn_in + 1)
    system = np.eye(states) - problem.discount * counts / rounds
    return [np.linalg.solve(system, r) for r in average]


def loop_learning(problem, rounds, seed=0):
    """Logistic regression by linearized samples and Anytime SDA, one agent after another; references as they double."""
    rng = np.random.default_rng(seed)
    links = _neighbors(problem.network)
    n, d = problem.network.agents, problem.dimension
    c = gs.AnytimeSDA().coefficients(problem.network, rounds)
    mean, smooth, x, memory = ([np.zeros((d, d + 1)) for _ in range(n)] for _ in range(4))
    reference, kept = [np.zeros(d) for _ in range(n)], [[] for _ in range(n)]
    covariates, change = problem.covariates, [np.zeros((d, d + 1)) for _ in range(n)]

    def linearized(sample, theta):
        z, y = sample
        p = 1 / (1 + np.exp(-z @ theta))
        w = p * (1 - p)
        return np.column_stack([w * np.outer(z, z), (w * (z @ theta) - p + y) * z])

    for t in range(rounds):
        theta = []
        for i in range(n):
            z = covariates.mean[i] + covariates.std[i] * rng.standard_normal(d)
            sample = z, float(rng.random() < 1 / (1 + np.exp(-z @ problem.parameter)))
            kept[i].append(sample)
            seen = linearized(sample, reference[i]) + change[i]
            change[i] = np.zeros((d, d + 1))
            mean[i] = mean[i] + (seen - mean[i]) / (t + 1)
            smooth[i] = smooth[i] + c.smoothing_gain[t] * (mean[i] - smooth[i])
            theta.append(x[i] + smooth[i])
        for i in range(n):
            following = x[i] - c.step_size * sum(w * theta[j] for j, w in links[i])
            x[i], memory[i] = following + c.momentum * (following - memory[i]), following
        if t & (t + 1) == 0 and t > d:
            for i in range(n):
                held, before = x[i] + smooth[i], reference[i]
                reference[i] = np.linalg.solve(held[:, :d], held[:, d])
                change[i] = sum(
                    linearized(sample, reference[i]) - linearized(sample, before) for sample in kept[i]
                )
    return [np.linalg.solve(x[i][:, :d] + smooth[i][:, :d], x[i][:, d] + smooth[i][:, d]) for i in range(n)]


def _compare(what, ours, trials, rounds, loop, loop_rounds, agents) -> Row:
    """Both per agent, round and trial."""
    fast = best(ours) / (trials * rounds * agents)
    slow = best(lambda: loop(loop_rounds)) / (loop_rounds * agents)
    return Row(
        what,
        f"{fast * 1e9:.3g} ns per agent and round",
        f"NumPy loop over agents: {slow * 1e9:.4g} ns",
        slow / fast,
        10,
    )


def rows() -> list[Row]:
    net = gs.Network.grid(5, 6)
    root = np.sqrt(net.condition_number)
    eta, zeta = 1 / net.lambda_max, (root - 1) / (root + 1)
    sensors = LinearEstimation.random(net, 5, 2)
    process = PolicyEvaluation.from_problem(net, problems.garnet(20, 3), 0.9)
    streams = LikelihoodEstimation.random(net, "logistic", 5, intercept=False)
    streams.centralized((500,), 128, 0)  # the yardstick is not part of the method
    return [
        _compare(
            "linear estimation, SDA, 30 sensors, 5 parameters, 128 trials x 500 rounds",
            lambda: sensors.simulate("sda", 500, 128),
            128, 500, lambda t: loop_estimation(sensors, t, eta, zeta), 100, 30,
        ),
        _compare(
            "linear estimation, Kar-Moura, 30 sensors, 5 parameters, 128 trials x 500 rounds",
            lambda: sensors.simulate(KarMoura(), 500, 128),
            128, 500, lambda t: loop_innovations(sensors, t), 100, 30,
        ),
        _compare(
            "policy evaluation, plug-in SDA, 30 agents, 20 states, 32 trials x 500 rounds",
            lambda: process.simulate("sda", 500, 32),
            32, 500, lambda t: loop_plug_in(process, t, eta, zeta), 100, 30,
        ),
        _compare(
            "policy evaluation, TD(0), 30 agents, 20 states, 32 trials x 500 rounds",
            lambda: process.simulate(TemporalDifference(), 500, 32),
            32, 500, lambda t: loop_temporal_differences(process, t), 100, 30,
        ),
        _compare(
            "maximum likelihood, logistic, 30 agents, 5 parameters, 128 trials x 500 rounds",
            lambda: streams.simulate("anytime-sda", 500, 128),
            128, 500, lambda t: loop_learning(streams, t), 100, 30,
        ),
    ]  # fmt: skip
