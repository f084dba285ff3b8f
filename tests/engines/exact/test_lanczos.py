"""Quadrature on graphs too large to decompose."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.exact import lanczos


@pytest.mark.slow
def test_lanczos_quadrature_agrees_with_the_full_spectrum(monkeypatch):
    rng = np.random.default_rng(0)
    net = gs.Network.random_geometric(600, seed=2)
    obs = gs.Gaussian(rng.uniform(0, 10, 600), rng.uniform(0.5, 1.5, 600))
    expected = gs.exact("anytime-sda", net, obs, [50, 400])
    other = gs.Network.random_geometric(600, seed=2)
    other.__dict__.update(lambda_max=net.lambda_max, lambda_2=net.lambda_2)
    other.__dict__.update(inverse_square_trace=net.inverse_square_trace, spectrum=None)
    found = gs.exact("anytime-sda", other, obs, [50, 400])
    assert np.all(found.uncertainty > 0)
    assert np.all(np.abs(found.total_error - expected.total_error) < 4 * found.uncertainty)
    assert np.all(found.uncertainty < 0.1 * expected.total_error)
    assert lanczos.PROBES > 4


def test_lanczos_says_what_it_cannot_give():
    net = gs.Network.path(20)
    net.__dict__["spectrum"] = None
    net.__dict__.update(lambda_max=1.3, lambda_2=0.01, inverse_square_trace=100.0)
    obs = gs.Gaussian(np.zeros(20))
    with pytest.raises(gs.Unsupported, match=r"errors per agent need a full spectrum.*gs.simulate"):
        _ = gs.exact("sda", net, obs, 10).per_agent
    with pytest.raises(gs.Unsupported, match=r"drifting means.*use gs.simulate"):
        gs.exact("sda", net, gs.Drifting(obs, 0.1), 10)
