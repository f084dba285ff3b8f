"""Sums over rows that every fit needs: the curvature, and covariates centered by it."""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Floats


def curvature_of(x: Floats, bends: Floats) -> Floats:
    """(p, p) the sum over rows of l'' x x', from (n, width) and (m, m, n)."""
    m, width = len(bends), x.shape[1]
    blocks = np.empty((m, width, m, width))
    for a in range(m):
        for b in range(a + 1):
            blocks[a, :, b, :] = blocks[b, :, a, :] = (x.T * bends[a, b]) @ x
    return blocks.reshape(m * width, m * width)


def centering(curvature: Floats, outputs: int) -> Floats:
    """(..., p, p) theta for each theta of centered covariates, if the last of each predictor's is an intercept.

    Covariates that are all far from zero look alike beside a constant: what is known of them shows around their mean.
    """
    width = curvature.shape[-1] // outputs
    change = np.zeros(curvature.shape) + np.eye(curvature.shape[-1])
    blocks = curvature.reshape(*curvature.shape[:-2], outputs, width, outputs, width)
    last = np.einsum("...aia->...i", blocks[..., -1])  # the sums of l'' x and of l''
    means = last[..., :-1] / np.where(last[..., -1:] > 0, last[..., -1:], np.inf)
    for k in range(outputs):
        change[..., (k + 1) * width - 1, k * width : (k + 1) * width - 1] = -means
    return change
