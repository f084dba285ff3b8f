"""Streams on which models went wrong, for every family: what is published must be the fit of all rows, or be withheld.

A stream is rows in the order in which they come, N a round, agent by agent; `pooled` is the fit of all of them.
"""

from __future__ import annotations

import numpy as np

from gossamer.families import FAMILIES, Family, Huber, family_of

ROSTER = ("plain", "few", "correlated", "ordered", "outbreak", "flip", "growth", "late")

AGENTS, ROUNDS = 4, 70

Arrivals = list[list[np.ndarray]]
"""The rows (k, 3) of every agent in every round: two covariates and a label."""


def stream(name: str, family: str, seed: int, rounds: int = ROUNDS, agents: int = AGENTS) -> Arrivals:
    """The rows of one of the streams of the roster."""
    rng, count = np.random.default_rng([seed, *name.encode()]), rounds * agents
    x, late = rng.normal(size=(count, 2)), np.arange(count) >= count // 2
    shift, sign = np.full(count, 0.2), np.ones(count)
    if name == "outbreak":
        shift = np.where(late, 1.0, -2.5)
    elif name == "flip":
        sign = np.where(late, -1.0, 1.0)
    elif name == "growth":
        shift = np.linspace(-1.5, 2.0, count)
    eta = sign * (x @ [0.8, -0.5]) + shift
    if name == "correlated":  # in raw units, far from zero, and nearly alike
        common = rng.normal(size=count)
        x = np.column_stack([50 + 10 * common, 500 + 100 * common + 8 * rng.normal(size=count)])
        eta = (x[:, 0] - 50) / 10 - (x[:, 1] - 500) / 250
    y = labels(family, rng, eta)
    if name == "ordered":
        order = np.argsort(y, kind="stable")
        x, y = x[order], y[order]
    rows = np.column_stack([x, y]).reshape(rounds, agents, 3)
    found = [[rows[t, i : i + 1] for i in range(agents)] for t in range(rounds)]
    nothing = np.zeros((0, 3))
    if name == "few":  # all from one agent, in one round of three
        found = [[nothing] * agents for _ in range(rounds)]
        for t in range(0, rounds, 3):
            found[t] = [rows[t : t + 3].reshape(-1, 3), *[nothing] * (agents - 1)]
    elif name == "late":  # half of the agents come with all that they have, after half of the rounds
        for i in range(agents // 2, agents):
            found[rounds // 2][i] = rows[: rounds // 2 + 1, i]
            for t in range(rounds // 2):
                found[t][i] = nothing
    return found


def labels(family: str, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    if family == "softmax":
        odds = np.column_stack([0 * eta, eta, 0.3 - eta / 2])
        return np.argmax(odds + rng.gumbel(size=odds.shape), axis=1).astype(float)
    return family_of(family).draw(rng, eta[None])


def pooled(family: Family, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The fit of rows in one place, with an intercept, and its standard errors (HC3): slow and obvious."""
    means, spreads = rows[:, :-1].mean(axis=0), rows[:, :-1].std(axis=0)
    x, y = np.column_stack([(rows[:, :-1] - means) / spreads, np.ones(len(rows))]), rows[:, -1]
    outputs, width = family.outputs, x.shape[1]
    eta = family.start(y, y)
    theta = np.zeros(outputs * width)
    for _ in range(400):
        bends = family.curvatures(eta, y)
        if isinstance(family, Huber):
            bends = family.threshold / np.maximum(np.abs(eta - y), family.threshold)[None]
        right = np.einsum("an,nk->ak", (bends * eta).sum(axis=1) - family.slopes(eta, y), x).ravel()
        theta = np.linalg.solve(_curvature(bends, x), right)
        target = theta.reshape(outputs, -1) @ x.T
        step = target if isinstance(family, Huber) else eta + np.clip(target - eta, -1, 1)
        eta, far = step, np.abs(step - eta).max()
        if far < 1e-10:
            break
    bends, slopes = family.curvatures(eta, y), family.slopes(eta, y)
    inverse = np.linalg.inv(_curvature(bends, x))
    blocks = inverse.reshape(outputs, width, outputs, width)
    shares = np.einsum("can,nk,akcl,nl->an", bends, x, blocks, x, optimize=True)
    slopes = slopes / (1 - np.clip(shares, 0, 0.9))
    scores = np.einsum("an,nk->nak", slopes, x).reshape(len(y), -1)
    back = np.vstack([np.diag(1 / spreads), -means / spreads])
    change = np.kron(np.eye(outputs), np.column_stack([back, np.eye(width)[:, -1]]))
    covariance = change @ inverse @ scores.T @ scores @ inverse @ change.T
    return change @ theta, np.sqrt(np.diag(covariance))


def _curvature(bends: np.ndarray, x: np.ndarray) -> np.ndarray:
    size = len(bends) * x.shape[1]
    return np.einsum("acn,nk,nl->akcl", bends, x, x).reshape(size, size)


CASES = [(family, name) for family in FAMILIES for name in ROSTER]
