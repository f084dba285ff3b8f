"""Extreme eigenvalues of gossip matrices too large to decompose: LOBPCG with an algebraic multigrid preconditioner."""

from __future__ import annotations

import warnings

import numpy as np
import pyamg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh, lobpcg

Array = NDArray[np.float64]

_SEED = 7  # start vectors; the result does not depend on it beyond the tolerance
_PROBES = 24


def largest_eigenvalue(gossip: sp.csr_matrix) -> float:
    """lambda_1 to about six digits."""
    start = np.random.default_rng(_SEED).standard_normal(gossip.shape[0])
    value = eigsh(gossip, k=1, which="LA", tol=1e-6, v0=start, return_eigenvectors=False)
    return float(value[0])


def fiedler(gossip: sp.csr_matrix) -> tuple[float, Array]:
    """lambda_{N-1}, the smallest nonzero eigenvalue, and its eigenvector."""
    n = gossip.shape[0]
    start = np.random.default_rng(_SEED).standard_normal((n, 3))
    with (
        warnings.catch_warnings()
    ):  # LOBPCG warns when the last digits do not come; the residual is checked below
        warnings.simplefilter("ignore")
        values, vectors = lobpcg(
            gossip,
            start,
            M=_multigrid(gossip).aspreconditioner(),
            Y=np.ones((n, 1)),
            tol=1e-10,
            maxiter=200,
            largest=False,
        )
    k = int(np.argmin(values))
    value, vector = float(values[k]), vectors[:, k] / np.linalg.norm(vectors[:, k])
    residual = float(np.linalg.norm(gossip @ vector - value * vector))
    if residual > 1e-3 * value:
        raise ArithmeticError(
            f"the smallest nonzero eigenvalue did not converge (value {value:.3g}, residual {residual:.3g}); "
            "pass step_size and momentum to the method by hand"
        )
    return value, vector


def inverse_square_trace(gossip: sp.csr_matrix, value: float, vector: Array) -> float:
    """Sum of 1/lambda^2 over nonzero eigenvalues: the smallest exactly, the rest by random probes z: |L^+ z|^2."""
    solver = _multigrid(gossip)
    rng = np.random.default_rng(_SEED)
    total = 0.0
    for _ in range(_PROBES):
        probe = rng.choice([-1.0, 1.0], gossip.shape[0])
        probe -= probe.mean()
        probe -= (probe @ vector) * vector
        solution = solver.solve(probe, tol=1e-6, maxiter=200)
        solution -= solution.mean()
        total += float(solution @ solution)
    return 1 / value**2 + total / _PROBES


def _multigrid(gossip: sp.csr_matrix) -> pyamg.multilevel.MultilevelSolver:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyamg warns about the singular coarse matrix of a Laplacian
        return pyamg.smoothed_aggregation_solver(sp.csr_matrix(gossip), B=np.ones((gossip.shape[0], 1)))
