"""The expected error against the full covariance recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.networks import connected_networks
from tests.support.reference import full_covariance, round_by_round
from tests.support.variants import VARIANTS

import gossamer as gs
from gossamer.engines.exact import weights


@pytest.mark.slow
@pytest.mark.parametrize("method", VARIANTS, ids=repr)
@pytest.mark.parametrize("rounds", [1, 2, 23])
def test_exact_equals_the_full_covariance_recursion(method, rounds, small):
    if getattr(method, "burn_in", None) and method.burn_in >= rounds:
        pytest.skip("burn-in longer than the run")
    net, obs = small
    mean, cov = full_covariance(method, net, obs.mean[:, 0], obs.variance[:, 0], rounds)
    result = gs.exact(method, net, obs, rounds)
    target = obs.mean.mean()
    assert result.bias == pytest.approx(((mean - target) ** 2).sum(), rel=1e-9, abs=1e-20)
    assert result.variance == pytest.approx(np.trace(cov), rel=1e-9)
    assert result.total_error == result.bias + result.variance
    np.testing.assert_allclose(result.per_agent, (mean - target) ** 2 + np.diag(cov), rtol=1e-9)


def test_restarts_without_number_do_not_overflow():
    obs = gs.Gaussian(np.arange(5.0))
    assert np.isfinite(gs.exact("r-rrma-ac-sa2", gs.Network.complete(5), obs, 6000).total_error)


def test_drift_equals_the_full_recursion(small):
    net, obs = small
    rate = np.random.default_rng(0).normal(size=12)
    mean, cov = full_covariance(gs.AnytimeSDA(gain=0.2), net, obs.mean[:, 0], obs.variance[:, 0], 30, rate)
    drifting = gs.Drifting(obs, rate)
    result = gs.exact(gs.AnytimeSDA(gain=0.2), net, drifting, [30])
    target = (obs.mean[:, 0] + 29 * rate).mean()
    assert result.bias[0] == pytest.approx(((mean - target) ** 2).sum(), rel=1e-9)
    assert result.variance[0] == pytest.approx(np.trace(cov), rel=1e-9)
    np.testing.assert_allclose(result.per_agent[0], (mean - target) ** 2 + np.diag(cov), rtol=1e-9)


def test_a_constant_gain_tracks_a_drift_better():
    net = gs.Network.grid(4, 4)
    obs = gs.Drifting(gs.Gaussian(np.zeros(16)), 0.02)
    fixed, tracking = (gs.exact(gs.AnytimeSDA(gain=g), net, obs, 2000).total_error for g in (None, 0.05))
    assert tracking < fixed / 10


@pytest.mark.slow
@given(
    connected_networks(),
    st.sampled_from(["sda", "anytime-sda", "dsg", "msda", "chebyshev"]),
    st.integers(0, 99),
)
def test_exact_equals_the_full_recursion_on_any_network(net, name, seed):
    if name == "dsg" and net.lambda_max > 2:
        return
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=net.agents), rng.uniform(0, 2, net.agents)
    method = gs.METHODS[name]()
    expected_mean, cov = full_covariance(method, net, mean, std**2, 9)
    result = gs.exact(method, net, gs.Gaussian(mean, std), 9)
    bias = ((expected_mean - mean.mean()) ** 2).sum()
    assert result.bias == pytest.approx(bias, rel=1e-9, abs=1e-12)
    assert result.variance == pytest.approx(np.trace(cov), rel=1e-9, abs=1e-12)


def test_weights_give_the_estimate(small):
    net, obs = small
    w = weights("anytime-sda", net, 15)
    seen = obs.sample(3, range(15), range(1))[:, :, 0, 0]
    expected = round_by_round(gs.AnytimeSDA(), net, seen[:, :, None])[:, 0]
    np.testing.assert_allclose(np.einsum("tij,tj->i", w, seen), expected, rtol=1e-10)


def test_push_sum_has_no_exact_error(small):
    with pytest.raises(gs.Unsupported, match=r"but push-sum divides what one-way links push; simulate it"):
        gs.exact("push-sum", *small, 10)


@pytest.mark.slow
def test_a_million_agents_exactly():
    rng = np.random.default_rng(0)
    net = gs.Network.torus(1000, 1000)
    obs = gs.Gaussian(rng.uniform(0, 1, 10**6))
    result = gs.exact(gs.AnytimeSDA(), net, obs, 300)
    assert result.variance > gs.theory.centralized_limit(obs, 300)
    assert np.isfinite(result.total_error)
