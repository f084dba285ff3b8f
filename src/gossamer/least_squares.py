"""Least squares from sums over rows: accumulate, center, solve. NumPy alone, because agents load no SciPy.

Linear estimation, models of stored rows, of streams and of fleets hold averages of a curvature A = sum of l'' x x' and
of a right side b over the rows of a network, and solve A theta = b. Covariates have units, which must not matter: every
matrix is brought to a diagonal of ones before it is inverted or judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gossamer.arrays import Booleans, Floats

_BLOCK = 1 << 16
"""Numbers of a block of rows that stay in the processor's cache while a curvature is summed."""

_SMALLEST_PIVOT = 1e-7
"""A matrix with a smaller pivot, its diagonal being ones, is singular up to rounding."""


def curvature_of(x: Floats, bends: Floats, *, intercept: bool = False) -> Floats:
    """(p, p) the sum over rows of l'' x x', from x (n, d) and l'' (m, m, n); with an intercept, x has a 1 behind it."""
    m, width = len(bends), x.shape[1] + intercept
    total = np.zeros((m, width, m, width))
    length = max(256, _BLOCK // max(width, 1))
    block = np.ones((min(length, len(x)), width))
    scaled = np.empty_like(block)
    for first in range(0, len(x), length):
        rows = x[first : first + length]
        some, weighted = block[: len(rows)], scaled[: len(rows)]
        some[:, : x.shape[1]] = rows
        for a in range(m):
            for b in range(a + 1):
                weights = bends[a, b, first : first + length]
                if a == b:  # not negative, since the loss is convex; half of the products are enough
                    np.multiply(some, np.sqrt(np.maximum(weights, 0.0))[:, None], out=weighted)
                    total[a, :, a, :] += weighted.T @ weighted
                else:
                    np.multiply(some, weights[:, None], out=weighted)
                    total[a, :, b, :] += some.T @ weighted
    for a in range(m):
        for b in range(a):
            total[b, :, a, :] = total[a, :, b, :].T
    return total.reshape(m * width, m * width)


def pack(matrices: Floats) -> Floats:
    """(..., p, p) symmetric -> (..., p(p+1)/2): the upper triangle."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return matrices[..., rows, columns]


def unpack(vectors: Floats, size: int) -> Floats:
    """Return the inverse of `pack`."""
    rows, columns = np.triu_indices(size)
    matrices = np.empty((*vectors.shape[:-1], size, size))
    matrices[..., rows, columns] = vectors
    matrices[..., columns, rows] = vectors
    return matrices


def shift(means: Floats, outputs: int, size: int) -> Floats:
    """(..., size, size) the matrix that turns parameters of covariates less their `means` (..., d) into those of the
    covariates themselves, if the last parameter of each of `outputs` predictors is an intercept."""
    width = means.shape[-1] + 1
    change = np.zeros((*means.shape[:-1], size, size)) + np.eye(size)
    for k in range(outputs):
        change[..., (k + 1) * width - 1, k * width : (k + 1) * width - 1] = -means
    return change


def centering(curvature: Floats, outputs: int) -> Floats:
    """Return (..., p, p) the `shift` by the means that a curvature (..., p, p) with intercepts contains.

    Covariates that are all far from zero look like a constant; their information is in the deviations from their mean.
    """
    size = curvature.shape[-1]
    blocks = curvature.reshape(*curvature.shape[:-2], outputs, size // outputs, outputs, size // outputs)
    last = np.einsum("...aia->...i", blocks[..., -1])  # the sums of l'' x and of l''
    means = last[..., :-1] / np.where(last[..., -1:] > 0, last[..., -1:], np.inf)
    return shift(means, outputs, size)


def units(matrix: Floats) -> Floats:
    """Return (..., p) the roots of the diagonal; 1 where it is not positive."""
    diagonal = np.einsum("...ii->...i", matrix)
    return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


class Inverse(NamedTuple):
    """A symmetric matrix inverted along the directions that it determines.

    matrix      (..., p, p) the inverse; nothing along the other directions
    directions  (..., p, p) in columns, from the least determined one on: orthogonal in units of the diagonal
    known       (..., p) which directions are determined
    """

    matrix: Floats
    directions: Floats
    known: Booleans


def invert(matrix: Floats, least: Floats | float = 0.0, change: Floats | None = None) -> Inverse:
    """Invert (..., p, p) along directions whose eigenvalues, the diagonal being ones, are above `least`.

    `change`, a `shift`, lets directions be those of centered covariates.
    """
    centered = matrix if change is None else np.swapaxes(change, -2, -1) @ matrix @ change
    scale = units(centered)
    values, vectors = np.linalg.eigh(centered / scale[..., :, None] / scale[..., None, :])
    directions = vectors / scale[..., :, None]
    if change is not None:
        directions = change @ directions
    known = values > least
    weights = known / np.where(known, values, 1.0)
    return Inverse(
        (directions * weights[..., None, :]) @ np.swapaxes(directions, -2, -1), directions, np.asarray(known)
    )


def unknown_direction(matrix: Floats) -> Floats:
    """Return (p,) the direction that a singular matrix says least of: columns of zeros, or the smallest eigenvector."""
    unseen = np.diag(matrix) <= 0
    direction = unseen.astype(float) if unseen.any() else invert(matrix).directions[:, 0]
    return np.asarray(direction * np.sign(direction[np.argmax(np.abs(direction))]))


class Singular(Exception):
    """A matrix cannot be inverted: it does not determine a direction."""

    def __init__(self, direction: Floats) -> None:
        super().__init__()
        self.direction = direction


def solve(matrix: Floats, right: Floats) -> Floats:
    """Return (p,) theta with matrix theta = right, for a positive definite matrix (p, p); raises `Singular`."""
    size = units(matrix)
    scaled = matrix / np.outer(size, size)
    try:
        pivots = np.diag(np.linalg.cholesky(scaled))
    except np.linalg.LinAlgError:
        raise Singular(unknown_direction(matrix)) from None
    if pivots.min() < _SMALLEST_PIVOT:
        raise Singular(unknown_direction(matrix))
    return np.asarray(np.linalg.solve(scaled, right / size) / size)


def in_words(direction: Floats, names: Sequence[str]) -> str:
    """Return a direction as its largest components: "1 height - 0.5 weight"."""
    direction = direction / np.abs(direction).max()
    largest = np.flatnonzero(np.abs(direction) > 1e-6)
    largest = largest[np.argsort(-np.abs(direction[largest]), kind="stable")][:6]
    return " ".join(
        f"{'+' if direction[k] > 0 else '-'} {abs(direction[k]):.3g} {names[k]}" for k in largest.tolist()
    ).removeprefix("+ ")


def solve_square(matrix: Floats, right: Floats, scale: Floats, ridge: float = 0.0) -> Floats:
    """(..., p, k) x with (matrix + ridge diag(scale^2)) x = right, for a matrix (..., p, p) that need not be symmetric.

    `scale` (p,) are the units of the unknowns, which must not matter. Without a ridge, raises `Singular` if some
    direction is not determined.
    """
    size = np.where(scale > 0, scale, 1.0)
    scaled = matrix / np.multiply.outer(size, size) + ridge * np.eye(len(size))
    if ridge == 0:
        _, values, directions = np.linalg.svd(scaled)
        if np.any(values[..., -1] <= 1e-10 * values[..., 0]):
            worst = np.unravel_index(np.argmin(values[..., -1] / values[..., 0]), values.shape[:-1])
            raise Singular(directions[worst][-1] / size)
    return np.asarray(np.linalg.solve(scaled, right / size[:, None]) / size[:, None])


def undetermined(solution: Floats, right: Floats, scale: Floats, ridge: float) -> Booleans:
    """(..., k) whether a solution (..., p, k) of `solve_square` for `right` (p, k) is due to the ridge, by a tenth."""
    unseen = scale <= 0
    size = np.where(unseen, 1.0, scale)[:, None]
    due = np.linalg.norm(ridge * solution * size, axis=-2) > 0.1 * np.linalg.norm(right / size, axis=-2)
    return np.asarray(due | (right[unseen] != 0).any(axis=0))
