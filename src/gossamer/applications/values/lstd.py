"""Least-squares temporal differences: what one step adds to the sums, the solution, and its standard errors.

With features phi and the eligibility trace z_t = gamma lambda w_{t-1} z_{t-1} + phi_t, values phi'theta solve

    A theta = b,   A = mean of z_t (phi_t - gamma w_t phi_{t+1})',   b = mean of z_t w_t r_t

(w_t: importance weights, 1 on policy). phi_{t+1} is 0 where an episode terminates, and z begins anew after every
episode. For the average reward rho, gamma is 1 and r_t - rho takes the place of r_t: rho is one more unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gossamer.arrays import Booleans, Floats
from gossamer.errors import InvalidInput
from gossamer.least_squares import Singular, in_words, solve_square, undetermined

BATCHES = 20
"""Number of batches of consecutive steps whose sums tell the standard errors."""

FREEDOM = 8
"""Degrees of freedom of standard errors: the number of cosines over the batches."""

SHORTEST = 10
"""Least number of steps in a batch."""

RIDGE = 0.01
"""The default ridge, as the number of steps that it weighs as much as."""


class TraceSteps(NamedTuple):
    """A trajectory as numbers; P unknowns. A = mean of traces x differences, b = mean of traces x rewards."""

    traces: Floats  #: (T, P)
    differences: Floats  #: (T, P)
    rewards: Floats  #: (T, n) of the agents that see this trajectory

    def first(self, rounds: int) -> TraceSteps:
        return TraceSteps(*(array[:rounds] for array in self))


class Transitions(NamedTuple):
    """Features before and after each step, and where episodes end."""

    features: Floats  #: (T, p)
    following: Floats  #: (T, p)
    rewards: Floats  #: (T, n)
    terminated: Booleans  #: (T,)
    last: Booleans  #: (T,)
    importance: Floats  #: (T,)


def steps_of(given: Transitions, discount: float, trace: float, average: bool) -> TraceSteps:
    """Return what each step adds to the sums."""
    phi, following, rewards, terminated, last, ratios = given
    kept = (discount * ratios * ~terminated)[:, None]
    differences = phi - kept * following
    weighted = rewards * ratios[:, None]
    traces = traces_of(phi, np.where(last, 0.0, discount * trace * ratios)) if trace else phi
    if average:
        traces = np.column_stack([traces, np.ones(len(phi))])
        differences = np.column_stack([differences, ratios])
    return TraceSteps(traces, differences, weighted)


def traces_of(phi: Floats, decays: Floats) -> Floats:
    """(T, p) z_t = decays_{t-1} z_{t-1} + phi_t."""
    traces = phi.copy()
    for t in range(1, len(phi)):
        if decays[t - 1]:
            traces[t] += decays[t - 1] * traces[t - 1]
    return traces


class Sums(NamedTuple):
    """The shares of batches of consecutive steps in A and b; the shares of all batches add up to the averages."""

    matrices: Floats  #: (K, P, P) common to all agents, or (K, N, P, P)
    rights: Floats  #: (K, N, P)
    scale: Floats  #: (P,) units of the unknowns


def slices(rounds: int, batches: int) -> list[slice]:
    """Return batches of equal lengths, up to one step."""
    bounds = np.linspace(0, rounds, batches + 1).round().astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(bounds)]


def sums_of(steps: TraceSteps, weights: Floats, rewards: Floats, batches: int = 1) -> Sums:
    """Return the sums of a trajectory that all agents see.

    weights  (T,) of the steps, with sum 1
    rewards  (N, T) for each agent, the rewards of all agents as they entered its averages, weighted
    """
    matrices, rights = [], []
    for some in slices(len(weights), batches):
        traces = steps.traces[some]
        matrices.append((traces * weights[some, None]).T @ steps.differences[some])
        rights.append(rewards[:, some] @ traces)
    return Sums(np.stack(matrices), np.stack(rights), scale_of(steps))


def scale_of(steps: TraceSteps) -> Floats:
    """(P,) the root mean square of each trace, the unit of an unknown."""
    return np.asarray(np.sqrt(np.einsum("tp,tp->p", steps.traces, steps.traces) / len(steps.traces)))


def solve(sums: Sums, ridge: float) -> Floats:
    """(N, P) every agent's solution of A theta = b."""
    matrix, right = sums.matrices.sum(axis=0), sums.rights.sum(axis=0)
    try:
        if matrix.ndim == 2:
            return np.asarray(solve_square(matrix, right.T, sums.scale, ridge).T)
        return np.asarray(solve_square(matrix, right[..., None], sums.scale, ridge)[..., 0])
    except Singular as singular:
        names = [f"feature {k}" for k in range(len(sums.scale))]
        raise InvalidInput(
            "the steps so far do not determine values along the direction "
            f"{in_words(singular.direction, names)}: these features are collinear, or were never seen to vary; drop "
            "one of them, or leave out ridge=0"
        ) from None


def slow_parts(batches: Floats) -> Floats:
    """(FREEDOM, ...) parts of a sum over K batches (K, ...); their mean square estimates its variance.

    They are the coefficients of the slowest cosines, whose variances depend less on the correlation of steps than that
    of the batches (Lazarus, Lewis, Stock and Watson: HAR inference: recommendations for practice, 2018).
    """
    count = len(batches)
    waves = np.cos(np.pi / count * np.outer(np.arange(1, FREEDOM + 1), np.arange(count) + 0.5))
    return np.asarray(np.sqrt(2.0) * np.tensordot(waves, batches, axes=1))


def standard_errors(
    sums: Sums, theta: Floats, states: Floats, ridge: float, spreads: Floats | None = None
) -> Floats:
    """(N, M) standard errors of values states'theta, for directions `states` (M, P), from the sums of batches.

    The error of a value is the mean of a_t = phi(s)'A^{-1} z_t (r_t - d_t'theta), up to terms of smaller order; its
    variance is that of its `slow_parts`. NaN for states unlike all that were seen. `spreads`, (N, P, P), are the
    covariances of the means of z_t (r_t - d_t'theta), where they are known.
    """
    matrix = sums.matrices.sum(axis=0)
    directions = solve_square(
        np.swapaxes(matrix, -2, -1),
        np.broadcast_to(states.T, (*matrix.shape[:-2], *states.T.shape)),
        sums.scale,
        ridge,
    )  # (P, M), or (N, P, M)
    if spreads is not None:
        variances = np.einsum("npm,npq,nqm->nm", directions, spreads, directions)
    else:
        residuals = sums.rights - np.einsum("kab,nb->kna", sums.matrices, theta)
        variances = (slow_parts(residuals @ directions) ** 2).mean(axis=0)
    unknown = undetermined(directions, states.T, sums.scale, ridge)
    return np.where(unknown, np.nan, np.sqrt(np.maximum(variances, 0.0)))


def check_varied(phi: Sequence[Floats] | Floats) -> None:
    """Raise an error if the features are the same in all states that were seen."""
    rows = np.asarray(phi).reshape(-1, np.shape(phi)[-1])
    if len(rows) > 1 and np.all(rows == rows[0]):
        raise InvalidInput(
            f"are the same in all {len(rows)} states that were seen, so values cannot differ between states; give "
            "features that depend on the state",
            parameter="features",
        )
