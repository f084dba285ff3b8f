"""Solving (I - gamma P) J = r for several right-hand sides, with a checked residual."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import bicgstab, splu

from gossamer.arrays import Floats

DENSE = 200
"""Largest number of states for which the equations are solved densely."""


def solve(transitions: Any, discount: float, rewards: Floats) -> Floats:
    """Return J of shape (S, K) for rewards (S, K).

    Random transitions fill an LU factorization completely but need few Krylov steps; long chains are the opposite. So
    the Krylov solver goes first, and LU solves the columns that it could not. Both are checked:
    ||J - J*||_inf <= ||residual||_inf/(1 - gamma).
    """
    states = transitions.shape[0]
    system = sp.csr_array(sp.eye_array(states) - discount * sp.csr_array(transitions))
    if states <= DENSE:
        return np.asarray(np.linalg.solve(system.toarray(), rewards), dtype=float)
    values = np.empty_like(rewards)
    left = []
    for k in range(rewards.shape[1]):
        right = rewards[:, k]
        start = right if k == 0 else values[:, k - 1]
        values[:, k] = bicgstab(system, right, x0=start, rtol=1e-13, atol=0.0, maxiter=200)[0]
        off = np.abs(right - system @ values[:, k]).max() / (1 - discount)
        if not off <= 1e-10 * (1 + np.abs(values[:, k]).max()):
            left.append(k)
        if len(left) > 2 and len(left) == k + 1:  # it does not work for this process: leave all columns to LU
            left = list(range(rewards.shape[1]))
            break
    if left:
        values[:, left] = splu(sp.csc_array(system)).solve(np.ascontiguousarray(rewards[:, left]))
    return values
