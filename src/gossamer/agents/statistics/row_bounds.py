"""Bounds on the sums of a model whose rows have a range, which limit what a lying member can claim.

A row adds products of its covariates with l', l'', l'' eta and l'' eta^2, at a predictor eta that is kept within
`Family.reach_of`. Each of these factors has a smallest and a largest value over the labels in the range. The sums of
standard errors and summaries (J, d, q, figures, replicates) depend on the rows of other agents and are not bounded
here: a member that lies about them can change standard errors, and so what is withheld, but no coefficient.
"""

from __future__ import annotations

import math

import numpy as np

from gossamer.agents.statistics.statistic import Box
from gossamer.arrays import Floats
from gossamer.families import Family
from gossamer.least_squares import pack
from gossamer.models import FIRST, SumLayout

_GRID = 801
"""Number of points at which the factors are evaluated; between two of them, factors change by less than the margin."""

_MARGIN = 0.02


def box_of(sums: SumLayout, family: Family, low: Floats, high: Floats, size: int) -> Box | None:
    """Return the smallest and the largest value of `size` components in the mean over rows whose covariates (including
    a constant) and label (the last entry) lie between `low` and `high`; None if a factor is unbounded."""
    reach = family.reach_of(float(low[-1]), float(high[-1]))
    if not np.isfinite(reach).all():
        return None
    slope, bend, cross, shifted, moved = _factors(family, float(low[-1]), float(high[-1]), reach)
    x = np.column_stack([low[:-1], high[:-1]])
    least, most = np.full(size, -np.inf), np.full(size, np.inf)
    m = family.outputs
    flat = (
        (0, np.array([[0.0, 1.0]])),
        (1, m * bend[None]),
        (2, moved[None]),
        (3, np.array([[0.0, m * np.ptp(slope) * np.ptp(reach)]])),
        (FIRST, np.tile(_products(shifted, x), (m, 1))),
        (FIRST + sums.size, np.tile(_products(slope, x), (m, 1))),
        (sums.curved, _curvatures(bend, cross, x, m)),
    )
    for start, intervals in flat:
        least[start : start + len(intervals)], most[start : start + len(intervals)] = intervals.T
    if sums.meat:
        least[sums.plain : sums.plain + 2], most[sums.plain : sums.plain + 2] = 0.0, 1.0
    return np.minimum(least, 0.0), np.maximum(most, 0.0)


def _factors(family: Family, low: float, high: float, reach: tuple[float, float]) -> tuple[Floats, ...]:
    """Return intervals that contain l', the diagonal and the off-diagonal entries of l'', l'' eta, and eta'l'' eta."""
    if family.outputs > 1:
        # With d = largest predictor - eta: p <= exp(-d), d exp(-d) <= 1/e and d^2 exp(-d) <= 4/e^2.
        k = family.outputs + 1
        pair = np.array([-1.0, 1.0])
        return (
            pair,
            np.array([0.0, 0.25]),
            np.array([-0.25, 0.0]),
            k / math.e * pair,
            np.array([0.0, 4 * k / math.e**2]),
        )
    eta, y = np.meshgrid(
        np.linspace(*reach, _GRID), np.linspace(low, high, _GRID if not family.categorical else 2)
    )
    y = np.clip(y, 0.0, 1.0) if family.categorical else y
    if family.categorical or family.outside(np.array([low])).any():
        y = np.where(family.outside(y), np.ceil(y), y)
    at = eta[None]
    bends = np.stack([family.curvatures(at, y)[0, 0], family.newton_curvatures(at, y)[0, 0]])
    values = (family.slopes(at, y)[0], bends, np.zeros(1), bends * eta, bends * eta**2)
    return tuple(_widened(np.array([part.min(), part.max()])) for part in values)


def _widened(interval: Floats) -> Floats:
    return interval + _MARGIN * np.ptp(interval) * np.array([-1.0, 1.0])


def _products(factor: Floats, x: Floats) -> Floats:
    """(d, 2) the intervals of a factor times each covariate, from (2,) and (d, 2)."""
    ends = np.stack([a * b for a in factor for b in x.T])
    return np.column_stack([ends.min(axis=0), ends.max(axis=0)])


def _curvatures(bend: Floats, cross: Floats, x: Floats, outputs: int) -> Floats:
    """The intervals of l'' x x', packed."""
    pairs = np.stack([np.outer(a, b) for a in x.T for b in x.T])
    squares = np.stack([pairs.min(axis=0), pairs.max(axis=0)])
    whole = []
    for end in (np.min, np.max):
        same, other = (
            end(np.stack([f * s for f in factor for s in squares]), axis=0) for factor in (bend, cross)
        )
        whole.append(np.kron(np.eye(outputs), same) + np.kron(1 - np.eye(outputs), other))
    return np.column_stack([pack(matrix) for matrix in whole])
