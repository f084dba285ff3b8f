"""The rounds walked forward and backward."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import LINEAR

import gossamer as gs
from gossamer.engines.exact import propagate
from gossamer.methods import tabulate


@pytest.mark.parametrize("name", LINEAR)
def test_forward_equals_backward(name, small):
    net, _ = small
    table = tabulate(gs.METHODS[name](), net, 30)
    lam = np.linspace(0, net.lambda_max, 300)
    back_response, back_noise = propagate(table, lam, np.array([30]))
    response, noise = propagate(table, lam, np.array([29, 30]))
    np.testing.assert_allclose(response[1], back_response[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(noise[1], back_noise[0], rtol=1e-9, atol=1e-12)
