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
    monkeypatch.setattr(selected, "factors_fill", lambda matrix: fills)
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
    assert selected.factors_fill(laplacian(name)) == fills


@pytest.mark.parametrize("row_sum", [0.0, 1e-3, 5.0])
@pytest.mark.parametrize("name", ["expander:900x4", "expander:1200x6"])
def test_the_centered_inverse_of_random_graphs(name, row_sum):
    edges = incidence(gs.Network.of(name))
    size = edges.shape[0]
    matrix = sp.csr_array(9.0 * edges @ edges.T + row_sum * sp.eye_array(size))
    inverse = np.linalg.inv(matrix.toarray() + 1 / size) - 1 / (size * (row_sum + 1))
    diagonal, column = selected.centered_inverse(matrix, row_sum)
    np.testing.assert_allclose(diagonal, inverse.diagonal(), rtol=selected.ACCURACY)
    np.testing.assert_allclose(column(7), inverse[:, 7], atol=selected.ACCURACY * inverse[7, 7])


def test_the_centered_inverse_needs_few_polynomials():
    edges = incidence(gs.Network.of("path:300"))
    assert selected.centered_inverse(sp.csr_array(edges @ edges.T), 0.0) is None
