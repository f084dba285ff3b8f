"""Sensors as arrays: checks of matrices and covariances, and of directions that no sensor observes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.least_squares import in_words, invert, unknown_direction


def check_matrices(matrices: Sequence[ArrayLike], agents: int) -> list[Floats]:
    """Return the matrices A_i as float arrays with one number of columns, or say which one is wrong."""
    matrices = checks.listed("matrices", matrices)
    if len(matrices) != agents:
        raise InvalidInput(
            f"one matrix A_i per sensor is needed: the network has {agents} agents, got {len(matrices)} matrices"
        )
    checked: list[Floats] = []
    for i, matrix in enumerate(matrices):
        array = checks.array(f"A_{i}", matrix)
        array = array[None, :] if array.ndim == 1 else array
        if array.ndim != 2 or array.size == 0:
            raise InvalidInput(
                parameter=f"A_{i}", required="a matrix of shape (m_i, d)", got=f"one of shape {array.shape}"
            )
        if checked and array.shape[1] != checked[0].shape[1]:
            raise InvalidInput(
                f"every A_i needs the same number of columns, one per parameter: A_0 has {checked[0].shape[1]}, "
                f"but A_{i} has {array.shape[1]}"
            )
        checked.append(array)
    return checked


def check_covariances(covariance: Any, matrices: list[Floats]) -> list[Floats]:
    """Return one (m_i, m_i) covariance per sensor from a variance, one per sensor, or full matrices."""
    sizes = [len(a) for a in matrices]
    if np.isscalar(covariance):
        given = [checks.number("covariance", covariance)] * len(sizes)
    else:
        given = checks.listed("covariance", covariance)
    if len(given) != len(sizes):
        raise InvalidInput(
            f"the noise covariance must be a number, one per sensor, or one (m_i, m_i) matrix per sensor, "
            f"got {len(given)} for {len(sizes)} sensors"
        )
    checked = []
    for i, (value, size) in enumerate(zip(given, sizes, strict=True)):
        array = checks.array(f"the noise covariance of sensor {i}", value)
        array = array * np.eye(size) if array.ndim == 0 else array
        if array.shape != (size, size):
            raise InvalidInput(
                f"the noise covariance of sensor {i} must be a number or have the shape ({size}, {size}), "
                f"got {array.shape}"
            )
        if not np.allclose(array, array.T, rtol=1e-8, atol=1e-12):
            raise InvalidInput(f"the noise covariance of sensor {i} must be symmetric")
        least = np.linalg.eigvalsh(array)[0]
        if least < -1e-9 * max(1.0, np.abs(array).max()):
            raise InvalidInput(
                f"the noise covariance of sensor {i} must be positive semi-definite, "
                f"but it has the eigenvalue {least:g}"
            )
        checked.append(array)
    return checked


def check_observable(total: Floats, names: Sequence[str]) -> None:
    """Raise an error if sum_i A_i'A_i is singular, and name the direction that no sensor observes."""
    if invert(total, 1e-10 * len(total)).known.all():
        return
    direction = in_words(unknown_direction(total), names)
    raise InvalidInput(
        f"no sensor observes the direction {direction}: the sum of A_i'A_i must be invertible, but it "
        "is singular along it; let some sensor measure that direction, or drop one of these parameters"
    )
