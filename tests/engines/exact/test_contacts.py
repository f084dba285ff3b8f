"""Exact errors where the contacts of every round are given."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs

NET = gs.ChangingNetwork.mobile(6, radius=0.5, seed=1)
OBS = gs.Gaussian(np.arange(6.0), std=np.linspace(0.5, 2.0, 6))


def metropolis(edges, agents):
    degree = np.bincount(edges.ravel(), minlength=agents)
    gossip = np.zeros((agents, agents))
    for i, j in edges:
        weight = 1 / (1 + max(degree[i], degree[j]))
        gossip[[i, j], [i, j]] += weight
        gossip[[i, j], [j, i]] -= weight
    return gossip


def test_dsg_is_a_product_of_the_matrices_of_the_rounds():
    """Means, and the covariance of all agents, propagated round by round with dense matrices."""
    mean, covariance = np.zeros(6), np.zeros((6, 6))
    for t in range(30):
        w, gain = np.eye(6) - metropolis(NET.edges_at(t), 6), 1 / (t + 1)
        mean = w @ ((1 - gain) * mean + gain * OBS.mean[:, 0])
        covariance = w @ ((1 - gain) ** 2 * covariance + gain**2 * np.diag(OBS.variance[:, 0])) @ w.T
        if t + 1 in (12, 30):
            found = gs.exact("dsg", NET, OBS, t + 1)
            assert found.bias == pytest.approx(((mean - 2.5) ** 2).sum(), rel=1e-9)
            assert found.variance == pytest.approx(np.trace(covariance), rel=1e-9)
            np.testing.assert_allclose(found.per_agent, (mean - 2.5) ** 2 + np.diag(covariance), rtol=1e-9)
    assert found.messages == 2 * len(NET.edges_in(range(30))[1])
    assert found.samples == 30


@pytest.mark.parametrize(
    "method", [gs.AnytimeSDA("local"), gs.StochasticGradientTracking()], ids=lambda m: m.name
)
def test_the_ledger_and_batches_agree_with_trials(method):
    found = gs.exact(method, NET, OBS, [40, 15])
    trials = gs.simulate(method, NET, OBS, [40, 15], trials=1500)
    assert np.all(np.abs(found.total_error - trials.total_error) < 4 * trials.stderr)
    np.testing.assert_allclose(found.per_agent.sum(axis=1), found.total_error, rtol=1e-12)


def test_on_a_network_that_does_not_change_it_is_the_exact_error():
    fixed, still = gs.Network.grid(2, 3), gs.ChangingNetwork.switching([gs.Network.grid(2, 3)])
    two = gs.Gaussian(np.arange(12.0).reshape(6, 2), std=[[1.0, 2.0]] * 6)
    for method in (gs.DSG(), gs.AnytimeSDA("local")):
        for obs in (two, gs.Drifting(two, 0.1)):
            one, other = gs.exact(method, still, obs, [10, 25]), gs.exact(method, fixed, obs, [10, 25])
            np.testing.assert_allclose(one.bias, other.bias, rtol=1e-8)
            np.testing.assert_allclose(one.variance, other.variance, rtol=1e-8)
            np.testing.assert_array_equal(one.messages, other.messages)


def test_what_takes_too_long_is_refused_with_the_size_that_does_not():
    with pytest.raises(gs.Unsupported, match=r"a run for each observation, .* about \d+ rounds on Changing"):
        gs.exact("dsg", gs.ChangingNetwork.matchings(100), gs.Gaussian(np.zeros(100)), 2000)
    with pytest.raises(gs.Unsupported, match="asks for the network's"):
        gs.exact("sda", NET, OBS, 10)
