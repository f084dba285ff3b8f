"""Covariances between the components of a stream, one matrix per agent."""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Floats
from gossamer.errors import InvalidInput


def checked_covariances(given: Floats, agents: int, size: int) -> Floats:
    """Return (N, n, n) from one covariance matrix for all agents or one for each, or say what is wrong with them."""
    if given.shape not in ((size, size), (agents, size, size)):
        raise InvalidInput(
            f"must have the shape ({size}, {size}), components by components, or ({agents}, {size}, "
            f"{size}) with one matrix per agent, got {given.shape}",
            parameter="covariance",
        )
    scale = float(np.abs(given).max())
    if not scale < 1e290:
        raise InvalidInput(
            parameter="covariance",
            required="finite and not exceed 1e290",
            got=f"{scale:g}",
            hint="use another unit",
        )
    full = np.ascontiguousarray(np.broadcast_to(given, (agents, size, size)))
    gap = float(np.abs(full - np.swapaxes(full, 1, 2)).max())
    if gap > 1e-8 * scale:
        raise InvalidInput(
            f"must be symmetric, but entries across the diagonal differ by {gap:g}; try (C + C.T) / 2",
            parameter="covariance",
        )
    least = float(np.linalg.eigvalsh(full).min())
    if least < -1e-9 * scale:
        raise InvalidInput(
            f"must be positive semi-definite, but it has the eigenvalue {least:g}", parameter="covariance"
        )
    return full


def square_roots(covariances: Floats) -> Floats:
    """Return F of shape (N, n, r) with F F' = covariance, without columns that are zero."""
    values, vectors = np.linalg.eigh(covariances)
    factor = vectors * np.sqrt(np.clip(values, 0, None))[:, None, :]
    used = np.flatnonzero((values > 1e-14 * max(values.max(), 1e-300)).any(axis=0))
    return np.ascontiguousarray(factor[:, :, used])
