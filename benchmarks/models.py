"""Models of data at rest next to scikit-learn on the pooled rows, and what large ones send.

Times are those of one run on the same rows; ours include dealing the rows to the agents.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import gossamer as gs
from benchmarks.timing import Row, best, timed
from gossamer.applications import LikelihoodEstimation


def large_rows() -> Row:
    """Logistic regression of 3 million rows, 20 covariates."""
    agents, each, columns = 30, 100_000, 20
    rng = np.random.default_rng(0)
    x = rng.normal(size=(agents * each, columns))
    odds = x @ (0.3 * rng.normal(size=columns)) + 0.3
    y = (rng.random(len(x)) < 1 / (1 + np.exp(-odds))).astype(float)
    network = gs.Network.erdos_renyi(agents)
    ridge = 1 / len(y)

    def ours():
        return LikelihoodEstimation.from_data(x, y, network, ridge=ridge).fit()

    def pooled():
        return LogisticRegression(solver="newton-cholesky", tol=1e-9, max_iter=100).fit(x, y)

    difference = np.abs(ours().estimates[:, :columns] - pooled().coef_).max()
    assert difference < 1e-7, difference
    fast, slow = best(ours, 3), best(pooled, 3)
    return Row(
        f"logistic regression, {agents} agents x {each} rows x {columns} columns, dealt and fitted",
        f"{fast:.2f} s",
        f"scikit-learn, newton-cholesky, pooled rows: {slow:.2f} s",
        slow / fast,
        0.5,
    )


def images() -> tuple[np.ndarray, np.ndarray]:
    """The 1797 digits of scikit-learn at the size of MNIST's, 28 x 28, with a little noise."""
    x, y = load_digits(return_X_y=True)
    large = np.stack([zoom(image.reshape(8, 8) / 16, 3.5, order=1) for image in x]).reshape(len(x), -1)
    return large + 0.05 * np.random.default_rng(0).normal(size=large.shape), y.astype(float)


def large_model() -> Row:
    """Softmax with 7,850 parameters."""
    x, y = images()
    ridge = 1 / len(y)
    network = gs.Network.erdos_renyi(10)
    problem = LikelihoodEstimation.from_data(x, y, network, "sorted", family="softmax", ridge=ridge)
    fit, ours = timed(problem.fit)
    known, theirs = timed(lambda: LogisticRegression(solver="newton-cg", tol=1e-9, max_iter=1000).fit(x, y))
    flat = np.column_stack([known.coef_, known.intercept_]).ravel()
    difference = np.abs(fit.estimates - flat).max()
    assert difference < 1e-5, difference
    averaged = problem.size * (problem.size + 3) // 2 * 8
    return Row(
        f"softmax, {problem.size} parameters, 10 agents, 28 x 28 digits sorted by label",
        f"{ours:.1f} s, {fit.rounds[-1]} rounds of {8 * problem.size / 1e3:.0f} kB, {fit.bytes[-1] / 1e9:.2f} GB by "
        f"all agents (averaged curvatures: {averaged / 1e6:.0f} MB per message)",
        f"scikit-learn, newton-cg, pooled rows: {theirs:.1f} s; largest difference {difference:.0e}",
        theirs / ours,
        None,
    )


def crossing() -> list[Row]:
    """From which size on conjugate gradients send less, and take less time."""
    x, y = load_digits(return_X_y=True)
    x, network, rows = x / 16, gs.Network.erdos_renyi(10), []
    for classes, every in ((2, 1), (4, 2), (6, 2), (10, 2), (10, 1)):
        some, labels = x[y < classes][:, ::every], y[y < classes].astype(float)
        family = "logistic" if classes == 2 else "softmax"
        problem = LikelihoodEstimation.from_data(
            some, labels, network, "sorted", family=family, ridge=1 / len(labels)
        )
        by_cg, by_cholesky = (timed(problem.fit, solver) for solver in ("newton-cg", "newton-cholesky"))
        cg, cholesky = (
            f"{fit.bytes[-1] / 1e6:.1f} MB, {fit.rounds[-1]} rounds, {seconds:.2f} s"
            for fit, seconds in (by_cg, by_cholesky)
        )
        ratio = by_cholesky[0].bytes[-1] / by_cg[0].bytes[-1]
        rows.append(
            Row(
                f"conjugate gradients, {problem.size} parameters",
                cg,
                f"averaged curvatures: {cholesky}",
                ratio,
                None,
            )
        )
    return rows


def rows() -> list[Row]:
    return [large_rows(), large_model(), *crossing()]
