"""Speed on changing networks against loops over dense adjacency matrices (NumPy) and sparse incidence ones (SciPy).

Both baselines run the local form by the rules of `methods/ledger.py`, all trials at once, on edges drawn ahead.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import gossamer as gs
from benchmarks.timing import Row, per_round
from gossamer.methods.ledger import DOWN

LOCAL = gs.AnytimeSDA(acceleration="local")


def _streams(mean, rounds, trials, seed=0):
    """The smoothed running means of the agents, round by round."""
    rng = np.random.default_rng(seed)
    average, smooth = np.zeros((len(mean), trials)), np.zeros((len(mean), trials))
    for t in range(rounds):
        average += (mean[:, None] + rng.standard_normal((len(mean), trials)) - average) / (t + 1)
        smooth += max(1 / (t + 1), min(1.0, 0.5 / np.sqrt(t + 1))) * (average - smooth)
        yield t, min(t / (t + 8), 0.97), smooth


def numpy_dense(adjacency, mean, rounds, trials):
    """Flows of all pairs of agents, (N, N, trials); `adjacency` (rounds, N, N)."""
    agents = len(mean)
    flow, memory = np.zeros((agents, agents, trials)), np.zeros((agents, agents, trials))
    last = np.full((agents, agents), -DOWN - 1)
    for t, momentum, smooth in _streams(mean, rounds, trials):
        there = adjacency[t]
        fresh = there & (t - last > DOWN)
        memory[fresh] = flow[fresh]
        last[there] = t
        degree = (t - last <= DOWN).sum(axis=1)
        weight = there / (1 + np.maximum(degree[:, None], degree))
        theta = smooth + flow.sum(axis=1)
        moved = flow - 0.65 * weight[..., None] * (theta[:, None] - theta)
        flow = np.where(there[..., None], moved + momentum * (moved - memory), flow)
        memory = np.where(there[..., None], moved, memory)
    return smooth + flow.sum(axis=1)


def scipy_sparse(edges, alive, mean, rounds, trials):
    """Flows of all edges that may be there, (E, trials); `alive` (rounds, E)."""
    count, agents = len(edges), len(mean)
    rows, cols = edges.T.ravel(), np.tile(np.arange(count), 2)
    incidence = sp.csc_matrix((np.repeat([1.0, -1.0], count), (rows, cols)), shape=(agents, count))
    flow, memory, x = np.zeros((count, trials)), np.zeros((count, trials)), np.zeros((agents, trials))
    last = np.full(count, -DOWN - 1)
    for t, momentum, smooth in _streams(mean, rounds, trials):
        there = np.flatnonzero(alive[t])
        fresh = there[t - last[there] > DOWN]
        memory[fresh] = flow[fresh]
        last[there] = t
        degree = np.bincount(edges[t - last <= DOWN].ravel(), minlength=agents)
        weight = 1 / (1 + degree[edges[there]].max(axis=1))
        across = incidence[:, there]
        before = flow[there]
        moved = before - 0.65 * weight[:, None] * (across.T @ (smooth + x))
        flow[there] = moved + momentum * (moved - memory[there])
        memory[there] = moved
        x += across @ (flow[there] - before)
    return smooth + x


def _row(name, network, rival, kind, rounds, trials, required=5, scale=1) -> Row:
    mean = np.random.default_rng(0).uniform(0, 10, network.agents)
    ours = per_round(
        lambda t: gs.simulate(LOCAL, network, gs.Gaussian(mean), t, trials, keep="errors", progress=False),
        rounds,
    )
    theirs = per_round(lambda t: rival(mean, t), rounds) * scale
    return Row(
        name, f"{ours * 1e6:.0f} us per round", f"{kind}: {theirs * 1e6:.0f} us", theirs / ours, required
    )


def rows() -> list[Row]:
    mobile = gs.ChangingNetwork.mobile(60, radius=0.2, speed=0.01)
    rounds, trials = 200, 100
    adjacency = np.zeros((rounds, 60, 60), dtype=bool)
    for t in range(rounds):
        i, j = mobile.edges_at(t).T
        adjacency[t, i, j] = adjacency[t, j, i] = True
    grid = gs.Network.grid(100, 100)
    dropout = gs.ChangingNetwork.dropout(grid, 0.2)
    place = {pair: k for k, pair in enumerate(map(tuple, grid.edges.tolist()))}
    alive = np.zeros((60, len(grid.edges)), dtype=bool)
    for t in range(60):
        alive[t, [place[pair] for pair in map(tuple, dropout.edges_at(t).tolist())]] = True
    return [
        _row(
            "mobile, 60 agents x 100 trials",
            mobile,
            lambda mean, t: numpy_dense(adjacency, mean, t, trials),
            "NumPy dense",
            rounds,
            trials,
        ),
        _row(
            "grid 100x100, 20% of the edges in a round, 100 trials",
            dropout,
            lambda mean, t: scipy_sparse(grid.edges, alive, mean, t, 1),
            "SciPy, one trial after another (scaled from one)",
            60,
            trials,
            scale=trials,
        ),
        _row(
            "the same, all trials at once",
            dropout,
            lambda mean, t: scipy_sparse(grid.edges, alive, mean, t, trials),
            "SciPy, (agents, trials)",
            60,
            trials,
            required=None,
        ),
    ]
