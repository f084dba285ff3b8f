"""The diagonal of an inverse, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import splu

import gossamer as gs
from gossamer.numerics.selected import inverse_diagonal
from gossamer.observations import incidence


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grid:7x9", "erdos-renyi:40", "star:12", "path:2", "complete:9"])
def test_the_diagonal_of_the_inverse(name):
    net = gs.Network.of(name)
    edges = incidence(net)
    matrix = sp.csc_array(edges @ edges.T + sp.diags_array(np.linspace(0.1, 2, net.agents)))
    factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    np.testing.assert_allclose(
        inverse_diagonal(factors), np.linalg.inv(matrix.toarray()).diagonal(), rtol=1e-10
    )
