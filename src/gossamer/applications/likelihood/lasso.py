"""The minimum of a quadratic with a lasso penalty: the step of Newton's method if parameters may be exactly zero."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from gossamer.arrays import Floats, Integers

_SWEEPS = 10_000


def quadratic_lasso(curvature: Floats, response: Floats, lasso: Floats, start: Floats) -> Floats | None:
    """Return the theta that minimizes 1/2 theta'A theta - b'theta + sum_k lasso_k |theta_k|; None if A is not positive.

    A has ones on its diagonal. A sweep of coordinate descent decides which parameters may differ from zero. With the
    others at zero, these are solved for, stopping when one of them becomes zero. The optimality conditions decide
    whether another sweep is needed.
    """
    if np.linalg.eigvalsh(curvature)[0] < -1e-7:  # an average that has not mixed
        return None
    theta = start.copy()
    size = max(float(np.abs(response).max()), float(lasso.max()), 1e-300)
    known = np.diag(curvature) > 0
    for _ in range(_SWEEPS):
        before = theta.copy()
        _sweep(curvature, response, lasso, theta)
        for _ in range(len(theta)):
            support = np.flatnonzero(((theta != 0) | (lasso == 0)) & known)
            solved = _solved(curvature, response, lasso * np.sign(theta), support)
            if solved is None:
                break
            crosses = (np.sign(solved) != np.sign(theta)) & (lasso > 0) & (theta != 0)
            if not crosses.any():
                rest = np.abs(response - curvature @ solved) - lasso
                if np.all(np.delete(rest, support) <= 1e-12 * size):
                    return solved
                theta = solved
                break
            lengths = np.where(crosses, theta / np.where(crosses, theta - solved, 1.0), np.inf)
            first = int(np.argmin(lengths))  # the loss falls on the way there, where a parameter becomes zero
            theta = theta + lengths[first] * (solved - theta)
            theta[first] = 0.0
        if np.abs(theta - before).max() <= 1e-15 * np.abs(theta).max(initial=0.0):
            return theta
    return theta


def _sweep(curvature: Floats, response: Floats, lasso: Floats, theta: Floats) -> None:
    """Minimize over one parameter after another, in place."""
    gradient = response - curvature @ theta
    diagonal = np.diag(curvature)
    for k in np.flatnonzero(diagonal > 0):
        pull = gradient[k] + diagonal[k] * theta[k]
        moved = np.sign(pull) * max(abs(pull) - lasso[k], 0.0) / diagonal[k]
        if moved != theta[k]:
            gradient -= curvature[:, k] * (moved - theta[k])
            theta[k] = moved


def _solved(curvature: Floats, response: Floats, pull: Floats, support: Integers) -> Floats | None:
    """Return theta with zeros outside of `support`, for known signs of the lasso term."""
    theta = np.zeros(len(response))
    try:
        factor = linalg.cho_factor(curvature[np.ix_(support, support)])
    except linalg.LinAlgError:
        return None
    theta[support] = linalg.cho_solve(factor, (response - pull)[support])
    return theta
