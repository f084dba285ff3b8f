"""Extreme eigenvalues of gossip matrices too large to decompose: LOBPCG with an algebraic multigrid preconditioner."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh, lobpcg
from threadpoolctl import threadpool_limits

from gossamer.arrays import Floats
from gossamer.errors import Unsupported

P = ParamSpec("P")
R = TypeVar("R")

_SEED = 7  # start vectors; the result does not depend on it beyond the tolerance
_PROBES = 12
_VECTORS = 3  # symmetric graphs have pairs of equal small eigenvalues


def _one_thread(work: Callable[P, R]) -> Callable[P, R]:
    """Run it on one thread: the last bits would depend on how many there are."""

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(1, user_api="blas"):
            return work(*args, **kwargs)

    return run


@_one_thread
def largest_eigenvalue(gossip: sp.csr_matrix) -> float:
    """lambda_max to about three digits, from above: Lanczos' value plus its residual.

    A step size 1/lambda_max must not be too large, so an error must be on this side.
    """
    start = np.random.default_rng(_SEED).standard_normal(gossip.shape[0])
    values, vectors = eigsh(gossip, k=1, which="LA", tol=1e-3, v0=start)
    value, vector = float(values[0]), vectors[:, 0]
    return value + float(np.linalg.norm(gossip @ vector - value * vector))


@_one_thread
def smallest(gossip: sp.csr_matrix) -> tuple[Floats, Floats]:
    """The smallest nonzero eigenvalues, ascending, and their eigenvectors (N, k).

    An eigenvalue's error is of the order of the squared residual, so residuals of a few percent of the eigenvalue
    are enough; the tolerance is tightened until they are reached.
    """
    n = gossip.shape[0]
    vectors = np.random.default_rng(_SEED).standard_normal((n, _VECTORS))
    preconditioner = _multigrid(gossip).aspreconditioner()
    values = np.full(_VECTORS, np.inf)
    residual = np.inf
    for tolerance in (1e-3, 1e-5, 1e-7, 1e-9, 1e-11):
        with warnings.catch_warnings():
            # LOBPCG warns when a tolerance is not met; the residual is checked here.
            warnings.simplefilter("ignore")
            values, vectors = lobpcg(
                gossip,
                vectors,
                M=preconditioner,
                Y=np.ones((n, 1)),
                tol=tolerance,
                maxiter=60,
                largest=False,
            )
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
        vectors /= np.linalg.norm(vectors, axis=0)
        residual = float(np.linalg.norm(gossip @ vectors[:, 0] - values[0] * vectors[:, 0]))
        if residual < 0.02 * values[0]:
            return values, vectors
    raise Unsupported(
        f"the smallest nonzero eigenvalue did not converge (value {values[0]:.3g}, residual {residual:.3g}); "
        "pass step_size and momentum to the method by hand"
    )


@_one_thread
def inverse_square_trace(gossip: sp.csr_matrix, values: Floats, vectors: Floats) -> float:
    """Sum of 1/lambda^2 over nonzero eigenvalues: the known ones exactly, the rest by random probes z: |L^+ z|^2."""
    solver = _multigrid(gossip)
    rng = np.random.default_rng(_SEED)
    total = 0.0
    for _ in range(_PROBES):
        probe = rng.choice([-1.0, 1.0], gossip.shape[0])
        probe -= probe.mean()
        probe -= vectors @ (vectors.T @ probe)
        solution = solver.solve(probe, tol=1e-3, maxiter=100)
        solution -= solution.mean()
        total += float(solution @ solution)
    return float(np.sum(1 / values**2)) + total / _PROBES


def _multigrid(gossip: sp.csr_matrix) -> Any:
    import pyamg  # slow to load, and only large networks need it

    # pyamg draws from NumPy's global generator, and the same network must always give the same bits.
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(_SEED)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyamg warns about the singular coarse matrix of a Laplacian
            return pyamg.smoothed_aggregation_solver(sp.csr_matrix(gossip), B=np.ones((gossip.shape[0], 1)))
    finally:
        np.random.set_state(state)  # noqa: NPY002
