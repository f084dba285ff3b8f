"""Least squares from sums: curvatures, directions that are not known, and units that do not matter."""

from __future__ import annotations

import numpy as np
import pytest

from gossamer import least_squares
from gossamer.least_squares import centering, curvature_of, in_words, invert, pack, shift, unpack

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 3))
UNITS = np.array([1e-6, 1.0, 1e8])


def test_a_curvature_is_the_sum_of_kronecker_products():
    bends = RNG.random((2, 2, 700))
    bends[0, 1] = bends[1, 0]
    full = np.column_stack([X, np.ones(700)])
    expected = sum(np.kron(bends[:, :, k], np.outer(full[k], full[k])) for k in range(700))
    np.testing.assert_allclose(curvature_of(X, bends, intercept=True), expected, rtol=1e-12)
    np.testing.assert_allclose(curvature_of(full, bends), expected, rtol=1e-12)
    np.testing.assert_array_equal(unpack(pack(expected), 8), (expected + expected.T) / 2)


def test_units_do_not_matter():
    matrix, right = X.T @ X, RNG.normal(size=3)
    scaled = matrix * np.outer(UNITS, UNITS)
    np.testing.assert_allclose(
        least_squares.solve(scaled, right * UNITS) * UNITS, np.linalg.solve(matrix, right)
    )
    np.testing.assert_allclose(
        invert(scaled).matrix * np.outer(UNITS, UNITS), np.linalg.inv(matrix), rtol=1e-9
    )


def test_what_is_not_known_is_left_out_and_named():
    rows = np.column_stack([X[:, 0], X[:, 1], X[:, 0] - 2 * X[:, 1]])
    found = invert(rows.T @ rows, 1e-10)
    assert found.known.tolist() == [False, True, True]
    matrix = rows.T @ rows
    np.testing.assert_allclose(matrix @ found.matrix @ matrix, matrix, rtol=1e-9)
    with pytest.raises(least_squares.Singular) as error:
        least_squares.solve(rows.T @ rows, np.ones(3))
    direction = error.value.direction
    np.testing.assert_allclose(direction / direction[1], [-0.5, 1.0, 0.5], atol=1e-6)
    assert in_words(np.array([0.0, 1.0, -0.5]), ["age", "height", "weight"]) == "1 height - 0.5 weight"
    rows[:, 1] = 0.0
    assert least_squares.unknown_direction(rows.T @ rows).tolist() == [0.0, 1.0, 0.0]


def test_centering_undoes_a_shift_of_covariates():
    far = np.array([1e6, -3e5, 40.0])
    bends = np.ones((1, 1, 700))
    means = (X + far).mean(axis=0)
    change = centering(curvature_of(X + far, bends, intercept=True), 1)
    np.testing.assert_allclose(change, shift(means, 1, 4), rtol=1e-12)
    theta = np.array([1.0, -2.0, 0.5, 3.0])
    away, centered = (
        np.column_stack([X + far, np.ones(700)]),
        np.column_stack([X + far - means, np.ones(700)]),
    )
    np.testing.assert_allclose(away @ (change @ theta), centered @ theta, atol=1e-8)
