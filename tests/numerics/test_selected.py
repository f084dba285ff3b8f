"""The diagonal and a column of an inverse, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gossamer as gs
from gossamer.numerics import selected
from gossamer.observations import incidence


def laplacian(name: str) -> sp.csc_array:
    net = gs.Network.of(name)
    edges = incidence(net)
    return sp.csc_array(edges @ edges.T + sp.diags_array(np.linspace(0.1, 2, net.agents)))


@pytest.mark.slow
@pytest.mark.parametrize("fills", [False, True])
@pytest.mark.parametrize("name", ["grid:7x9", "erdos-renyi:40", "star:12", "path:2", "complete:9"])
def test_the_inverse(name, fills, monkeypatch):
    monkeypatch.setattr(selected, "_factors_fill", lambda matrix: fills)
    matrix = laplacian(name)
    inverse = np.linalg.inv(matrix.toarray())
    diagonal, column = selected.factored_inverse(matrix)
    np.testing.assert_allclose(diagonal, inverse.diagonal(), rtol=1e-10)
    for k in (0, len(inverse) // 2, len(inverse) - 1):
        np.testing.assert_allclose(column(k), inverse[:, k], rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "fills"),
    [
        ("grid:30x30", False),
        ("star:900", False),
        ("path:900", False),
        ("erdos-renyi:900", True),
        ("expander:900x4", True),
    ],
)
def test_the_factors_of_random_graphs_are_full(name, fills):
    assert selected._factors_fill(laplacian(name)) == fills
