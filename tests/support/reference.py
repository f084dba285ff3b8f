"""Slow, obvious versions of what the engines do fast, to compare with."""

from __future__ import annotations

import numpy as np


def round_by_round(method, network, observations):
    """Run a method on given observations (T, N, n) with its own four functions and a dense gossip matrix."""
    rounds = len(observations)
    c = method.coefficients(network, rounds)
    gossip = network.gossip.toarray()
    state = method.State(*(np.zeros(observations.shape[1:]) for _ in method.State._fields))
    for t, y in enumerate(observations):
        now = coefficients_at(c, t)
        mixed = gossip @ method.message(now, state, y)
        state = method.step(now, state, y, mixed)
    return method.estimate(coefficients_at(c, rounds - 1), state)


def coefficients_at(c, t):
    return type(c)(*(value if np.ndim(value) == 0 else value[t] for value in c))


def full_covariance(method, network, mean, variance, rounds, drift=None):
    """Exact bias and covariance by the full (R N) x (R N) recursion: E estimate (N,) and its covariance (N, N)."""
    n = network.agents
    c = method.coefficients(network, rounds)
    batches = method.batches(network, rounds)
    gossip, size = network.gossip.toarray(), len(method.State._fields)
    m, cov = np.zeros(size * n), np.zeros((size * n, size * n))
    drift = np.zeros(n) if drift is None else drift
    for t in range(rounds):
        now = coefficients_at(c, t)
        a, b = np.zeros((size * n, size * n)), np.zeros((size * n, n))

        def advance(state, y, now=now):
            s = method.State(*state)
            mixed = gossip @ np.broadcast_to(method.message(now, s, y), n)
            return np.concatenate([np.broadcast_to(r, n) for r in method.step(now, s, y, mixed)])

        for k in range(size * n):
            unit = np.zeros(size * n)
            unit[k] = 1.0
            a[:, k] = advance(unit.reshape(size, n), np.zeros(n))
        for i in range(n):
            b[:, i] = advance(np.zeros((size, n)), np.eye(n)[i])
        m = a @ m + b @ (mean + t * drift)
        share = variance / batches[t] if batches[t] > 0 else np.zeros(n)
        cov = a @ cov @ a.T + (b * share) @ b.T
    last = coefficients_at(c, rounds - 1)
    read = np.zeros((n, size * n))
    for k in range(size * n):
        unit = np.zeros(size * n)
        unit[k] = 1.0
        read[:, k] = method.estimate(last, method.State(*unit.reshape(size, n)))
    return read @ m, read @ cov @ read.T
