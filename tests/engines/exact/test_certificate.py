from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.networks import connected_networks

import gossamer as gs
from gossamer.engines.exact import propagate
from gossamer.methods import UnknownFacts, tabulate


@pytest.mark.slow
@given(
    connected_networks(weights=("metropolis",)),
    st.integers(1, 120),
    st.integers(0, 99),
    st.sampled_from(["local", "local-heavy-ball"]),
)
def test_it_bounds_the_error_on_every_network_with_that_eigenvalue(net, rounds, seed, form):
    rng = np.random.default_rng(seed)
    obs = gs.Gaussian(5 * rng.normal(size=(net.agents, 2)), rng.uniform(0, 2, (net.agents, 2)))
    method = gs.AnytimeSDA(form)
    bound = gs.certificate(net.lambda_2, rounds, method).bound(obs)
    assert bound.applies
    assert gs.exact(method, net, obs, rounds).total_error <= bound.total * (1 + 1e-9)


@pytest.mark.parametrize("rounds", [1, 2, 7, 60])
def test_the_maxima_over_the_interval_are_not_exceeded_between_the_nodes(rounds):
    found = gs.certificate(0.02, rounds)
    assert (found.low, found.high) == (0.02, 2.0)
    fine = np.linspace(0.02, 2, 20_001)
    responses, gains = propagate(
        tabulate(gs.AnytimeSDA("local-heavy-ball"), UnknownFacts(), rounds), fine, np.array([rounds])
    )
    response, gain = (responses[0, :, 0] ** 2).max(), gains.max()
    assert response <= found.response <= response / math.cos(math.pi / 16) ** 2 * (1 + 1e-6)
    assert gain <= found.gain <= gain / math.cos(math.pi / 8) * (1 + 1e-6)


def test_it_is_close_where_every_mode_is_the_slowest():
    net, obs = gs.Network.star(50), gs.Gaussian(np.linspace(0, 10, 50))
    error = gs.exact(gs.AnytimeSDA("local-heavy-ball"), net, obs, 1000).total_error
    found = gs.certificate(net, 1000)
    assert error <= found.bound(obs).total <= 1.02 * error
    assert found.average * 1000 == pytest.approx(1.0324, abs=1e-4)


def test_what_it_cannot_certify():
    obs = gs.Gaussian(np.zeros(6))
    moving = gs.certificate("cycle:6", 50).bound(gs.Drifting(obs, 0.1))
    assert not moving.applies
    assert moving.condition.endswith("and means that do not move, but these drift")
    with pytest.raises(gs.InvalidInput, match="lambda_2 must be a finite number above 0"):
        gs.certificate(0.0, 50)
    with pytest.raises(gs.Unsupported, match="the method asks for the network's lambda_max"):
        gs.certificate(0.1, 50, "sda")
    with pytest.raises(gs.InvalidInput, match=r"preserves the average, but after 20 rounds d-asg"):
        gs.certificate("cycle:6", 20, gs.DASG())
    assert (
        gs.certificate("cycle:6", 50, "sda").bound(obs).total
        >= gs.exact("sda", "cycle:6", obs, 50).total_error
    )
