"""Extreme eigenvalues of gossip matrices too large to decompose.

Lanczos finds them if the network mixes well, LOBPCG with an algebraic multigrid preconditioner if it does not.
Multigrid alone would not suffice, because its coarse matrices are dense on graphs with hubs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh, eigh_tridiagonal
from scipy.sparse import csgraph
from scipy.sparse.linalg import lobpcg
from threadpoolctl import threadpool_limits

from gossamer.arrays import Floats, Integers
from gossamer.errors import Unsupported, require
from gossamer.facts import ExchangeFacts

if TYPE_CHECKING:
    from pyamg.multilevel import MultilevelSolver

P = ParamSpec("P")
R = TypeVar("R")

_SEED = 7  # start vectors; the result does not depend on it beyond the tolerance
_FEW_PROBES, _PROBES = 4, 12
_FEW_STEPS, _MOST_STEPS = 400, 4000  # of Lanczos
_CLOSE = 0.01  # residuals relative to the eigenvalue
_TRACE = 0.05  # relative standard error
_VECTORS = 3  # symmetric graphs have pairs of equal small eigenvalues


def _one_thread(work: Callable[P, R]) -> Callable[P, R]:
    """Run it on one thread, because the last bits depend on the number of threads."""

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(1, user_api="blas"):
            return work(*args, **kwargs)

    return run


@_one_thread
def exchange_facts(agents: int, edges: Integers, dense: bool) -> ExchangeFacts:
    """Return the facts on which the speed of random exchanges depends, from the Laplacian D - A of these edges."""
    low, high = edges.T
    ends = (np.concatenate([low, high]), np.concatenate([high, low]))
    laplacian = csgraph.laplacian(sp.csr_array((np.ones(2 * len(edges)), ends), shape=(agents, agents)))
    if not dense:
        return ExchangeFacts(len(edges), float(smallest(sp.csr_matrix(laplacian))[0][0]), 1.0)
    connectivity = float(eigh(laplacian.toarray(), eigvals_only=True, subset_by_index=[1, 1])[0])
    inverse = np.linalg.inv(laplacian.toarray() + 1.0 / agents)
    resistances = inverse[low, low] + inverse[high, high] - 2 * inverse[low, high]
    return ExchangeFacts(len(edges), connectivity, float(resistances.max()))


@_one_thread
def largest_eigenvalue(gossip: sp.csr_matrix) -> float:
    """Return lambda_max, at most a millionth too large: Lanczos' value plus its residual, or Gershgorin's bound.

    A step size 1/lambda_max must not be too large, so an error must be on this side.
    """
    bound = float(abs(gossip).sum(axis=1).max())
    value = residual = 0.0
    for value, residual in _ritz_values(gossip, _random(gossip.shape[0]), -1, _MOST_STEPS):
        if residual <= 1e-6 * value or bound <= value * (1 + 1e-6):
            break
    return min(value + residual, bound)


@_one_thread
def smallest(gossip: sp.csr_matrix) -> tuple[Floats, Floats]:
    """Return the smallest nonzero eigenvalues, ascending, and their eigenvectors (N, k).

    If the network mixes well, Lanczos quickly gives the first one, without its eigenvector (k = 0). Multigrid serves
    other networks, which resemble paths, trees and lattices.
    """
    n = gossip.shape[0]
    for value, residual in _ritz_values(gossip, _random(n), 0, _FEW_STEPS):
        if residual <= _CLOSE * value:
            return np.array([value]), np.empty((n, 0))
    return _by_multigrid(gossip, _multigrid(gossip))


def _by_multigrid(gossip: sp.csr_matrix, solver: MultilevelSolver) -> tuple[Floats, Floats]:
    """Return some of the smallest nonzero eigenvalues, and their eigenvectors.

    An eigenvalue's error is of the order of the squared residual, so residuals of a percent of the eigenvalue
    are enough; the tolerance is tightened until they are reached.
    """
    n = gossip.shape[0]
    vectors = np.random.default_rng(_SEED).standard_normal((n, _VECTORS))
    preconditioner = solver.aspreconditioner()
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
        if residual < _CLOSE * values[0]:
            return values, vectors
    raise Unsupported(
        f"the smallest nonzero eigenvalue did not converge (value {values[0]:.3g}, residual {residual:.3g}); "
        "pass step_size and momentum to the method by hand"
    )


@_one_thread
def inverse_square_trace(gossip: sp.csr_matrix, values: Floats, vectors: Floats) -> float:
    """Sum of 1/lambda^2 over nonzero eigenvalues: the known ones exactly, the rest by random probes z: |L^+ z|^2.

    A form in random signs has at most the variance 2 trace(L^-4) <= 2 trace(L^-2) / lambda_2^2. Where that is too much,
    the slowest modes are taken out.
    """
    rng = np.random.default_rng(_SEED)
    probes = rng.choice([-1.0, 1.0], (_PROBES, gossip.shape[0]))
    probes -= probes.mean(axis=1, keepdims=True)
    if not vectors.size:
        first = _inverse_square(gossip, probes[0], float(values[0]))
        needed = 2 / (values[0] ** 2 * first * _TRACE**2)
        if needed <= _PROBES:
            some = probes[1 : max(3, int(np.ceil(needed)))]
            return float(
                np.mean([first, *(_inverse_square(gossip, start, float(values[0])) for start in some)])
            )
    solver = _multigrid(gossip)
    if not vectors.size:
        values, vectors = _by_multigrid(gossip, solver)
    known, rest = float(np.sum(1 / values**2)), []
    for probe in probes:
        probe -= vectors @ (vectors.T @ probe)
        solution = solver.solve(probe, tol=1e-2, maxiter=100, accel="cg")
        solution -= solution.mean()
        rest.append(float(solution @ solution))
        total = known + float(np.mean(rest))
        # A few probes show their spread only roughly, so it must be well below the limit.
        if len(rest) >= _FEW_PROBES and np.std(rest, ddof=1) <= _TRACE / 2 * math.sqrt(len(rest)) * total:
            break
    return total


def _inverse_square(gossip: sp.csr_matrix, start: Floats, least: float) -> float:
    """Return |L^+ start|^2 by Lanczos' quadrature; it continues until it has found the eigenvalue `least`."""
    for diagonal, off_diagonal in _lanczos(gossip, start, 2 * _FEW_STEPS):
        nodes, vectors = eigh_tridiagonal(diagonal, off_diagonal[:-1])
        if nodes[0] < 1.02 * least and off_diagonal[-1] * abs(vectors[-1, 0]) < 0.05 * nodes[0]:
            break
    return float(start @ start) * float(np.sum((vectors[0] / nodes) ** 2))


def _ritz_values(
    gossip: sp.csr_matrix, start: Floats, which: int, steps: int
) -> Iterator[tuple[float, float]]:
    """Yield increasingly accurate values of the first (`which` = 0) or last (-1) eigenvalue, with their residuals."""
    for diagonal, off_diagonal in _lanczos(gossip, start, steps):
        index = which % len(diagonal)
        values, vectors = eigh_tridiagonal(
            diagonal, off_diagonal[:-1], select="i", select_range=(index, index)
        )
        yield float(values[0]), float(off_diagonal[-1] * abs(vectors[-1, 0]))


def _lanczos(gossip: sp.csr_matrix, start: Floats, steps: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield Lanczos' tridiagonal matrix after every 50 steps: its diagonal and off-diagonal, including the next entry.

    There is no re-orthogonalization, which extreme eigenvalues and quadrature do not need.
    """
    diagonal, off_diagonal = [], []
    previous = np.zeros_like(start)
    current = (start - start.mean()) / np.linalg.norm(start - start.mean())
    size = 0.0
    for step in range(1, steps + 1):
        following = gossip @ current - size * previous
        diagonal.append(float(following @ current))
        following -= diagonal[-1] * current
        following -= following.mean()  # remove the constant mode, which rounding reintroduces
        size = float(np.linalg.norm(following))
        off_diagonal.append(size)
        done = size < 1e-12 or step == steps
        if done or step % 50 == 0:
            yield np.array(diagonal), np.array(off_diagonal)
        if done:
            return
        previous, current = current, following / size


def _random(agents: int) -> Floats:
    return np.random.default_rng(_SEED).standard_normal(agents)


def _multigrid(gossip: sp.csr_matrix) -> MultilevelSolver:
    pyamg = require("pyamg", "large")  # slow to load, and only large networks need it

    # pyamg draws from NumPy's global generator, and the same network must always give the same bits.
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(_SEED)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyamg warns about the singular coarse matrix of a Laplacian
            return pyamg.smoothed_aggregation_solver(sp.csr_matrix(gossip), B=np.ones((gossip.shape[0], 1)))
    finally:
        np.random.set_state(state)  # noqa: NPY002
