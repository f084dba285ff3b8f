"""Every horizon from one pass, wherever that is possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.networks import connected_networks

import gossamer as gs
from gossamer.engines.exact import one_pass, trajectory


def assert_same(method, net, obs, horizons, rel=1e-10):
    """One call for all horizons equals a call for each."""
    found = gs.exact(method, net, obs, horizons)
    each = [gs.exact(method, net, obs, int(t)) for t in horizons]
    for name in ("variance", "total_error", "uncertainty"):
        np.testing.assert_allclose(getattr(found, name), [getattr(one, name) for one in each], rtol=rel)
    # A response that dies out, and so the root of the bias, is known up to rounding errors of the means.
    biases, rounding = [one.bias for one in each], 1e-13 * np.sqrt((obs.mean**2).sum())
    np.testing.assert_allclose(np.sqrt(found.bias), np.sqrt(biases), rtol=rel, atol=rounding)
    for name in ("samples", "messages", "centralized_limit"):
        np.testing.assert_array_equal(getattr(found, name), [getattr(one, name) for one in each])
    return found, each


@pytest.mark.slow
@given(
    connected_networks(),
    st.one_of(st.none(), st.integers(0, 8)),
    st.floats(0.05, 1.2),
    st.floats(0, 0.99),
    st.sampled_from([1, 3, tuple(range(1, 60))]),
    st.integers(0, 99),
)
def test_sda_after_every_number_of_rounds(net, burn_in, step, momentum, batch, seed):
    rng = np.random.default_rng(seed)
    obs = gs.Gaussian(rng.normal(size=net.agents), rng.uniform(0.1, 2, net.agents))
    method = gs.SDA(burn_in, step / net.lambda_max, momentum, batch)
    horizons = range((burn_in or 0) + 1, 27)
    assert len(trajectory(method, net, np.asarray(horizons))) == 1
    assert_same(method, net, obs, horizons)


def test_long_runs_drift_and_horizons_in_any_order():
    rng = np.random.default_rng(0)
    net = gs.Network.path(60)
    obs = gs.Drifting(gs.Gaussian(rng.normal(size=(60, 2)), 0.5), rng.normal(size=(60, 2)) / 100)
    horizons = [1500, 1, 700, 701, 3, 2, 1500, 40, 41, 42, 43, 44]
    found, each = assert_same("sda", net, obs, horizons)
    np.testing.assert_allclose(found.per_agent, [one.per_agent for one in each], rtol=1e-9)


def test_agents_with_unequal_noise_have_errors_of_their_own():
    rng = np.random.default_rng(0)
    net, obs = gs.Network.star(9), gs.Gaussian(rng.normal(size=9), rng.uniform(0.5, 2, 9))
    found = gs.exact("sda", net, obs, range(1, 13))
    np.testing.assert_allclose(found.per_agent.sum(axis=1), found.total_error, rtol=1e-9)


@pytest.mark.slow
def test_a_method_of_ones_own_follows_the_contract(small):
    net, obs = small

    class Delayed(gs.SDA):
        """Averages the last ten rounds."""

        def averages_since(self, rounds):
            return max(0, rounds - 10)

        def coefficients(self, network, rounds):
            return gs.SDA(burn_in=max(0, rounds - 10)).coefficients(network, rounds)

    class Lying(Delayed):
        def coefficients(self, network, rounds):
            return gs.SDA(burn_in=rounds // 3).coefficients(network, rounds)

    class Uneven(Delayed):
        """Its rounds are not alike, so every horizon has its own pass."""

        def coefficients(self, network, rounds):
            found = super().coefficients(network, rounds)
            return found._replace(momentum=np.linspace(0, 0.5, 60)[:rounds])

    horizons = np.arange(1, 41)
    assert len(trajectory(Delayed(), net, horizons)) == 1
    assert len(trajectory(Uneven(), net, horizons)) > 10
    for method in (Delayed(), Lying(), Uneven()):
        assert_same(method, net, obs, horizons)
    assert one_pass(gs.SDA(), net)
    assert not one_pass(gs.DMASG(), net)


def test_memory_is_bounded_for_many_horizons_of_a_large_network(monkeypatch):
    from gossamer.engines.exact import measure

    net, obs = gs.Network.path(50), gs.Gaussian(np.arange(50.0))
    expected = gs.exact("anytime-sda", net, obs, range(1, 31))
    monkeypatch.setattr(measure, "IN_FLIGHT", 7 * 30)
    found = gs.exact("anytime-sda", net, obs, range(1, 31))
    np.testing.assert_allclose(found.total_error, expected.total_error, rtol=1e-13)


@pytest.mark.parametrize("rounds", [10**12, 10**30, [5, 10**12]])
def test_too_many_rounds_are_refused(rounds, small):
    for call in (gs.exact, gs.simulate):
        with pytest.raises(
            gs.Unsupported, match=r"at most \d+|would take .* GiB; ask for at most \d+ rounds"
        ):
            call("sda", *small, rounds)
