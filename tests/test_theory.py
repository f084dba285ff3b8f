from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gossamer as gs
from gossamer.engines.exact import weights
from gossamer.methods import AnytimeSDA
from tests.conftest import LINEAR, connected_networks


@pytest.mark.parametrize("kappa", [1.0, 1.5, 2.0, 11.0, 76.0, 1013.0, 4052.0, 1e6])
def test_k_star_is_the_definition(kappa):
    root = math.sqrt(kappa)

    def holds(k):
        left = (1 + k / (root + 1)) * (1 - 1 / root) ** k
        return left <= (1 - 1 / (2 * root)) ** k

    k = gs.theory.k_star(kappa)
    assert k >= 1
    assert all(holds(j) for j in range(k, k + 200))
    assert k == 1 or not holds(k - 1)
    if kappa > 50:
        assert 1.5 < k / root < 2.6


@given(connected_networks(weights=("metropolis", "max-degree")), st.integers(0, 999), st.integers(1, 400))
def test_theorem_1_bounds_the_exact_error(net, seed, rounds):
    rng = np.random.default_rng(seed)
    obs = gs.Gaussian(rng.normal(size=(net.agents, 2)) * 5, rng.uniform(0, 2, (net.agents, 2)))
    rounds *= 2  # the theorem's T0 = T/2 is a whole number
    bound = gs.theory.theorem_1(net, obs, rounds)
    assert bound.applies == (rounds / 2 >= gs.theory.k_star(net))
    if bound.applies:
        assert gs.exact("sda", net, obs, rounds).total_error <= bound.total * (1 + 1e-12)


@given(connected_networks(weights=("metropolis", "max-degree")), st.integers(0, 999), st.integers(1, 400))
def test_theorem_2_bounds_the_exact_error(net, seed, rounds):
    rng = np.random.default_rng(seed)
    obs = gs.Gaussian(rng.normal(size=(net.agents, 2)) * 5, rng.uniform(0, 2, (net.agents, 2)))
    bound = gs.theory.theorem_2(net, obs, rounds)
    assert bound.applies
    assert gs.exact("dsg", net, obs, rounds).total_error <= bound.total * (1 + 1e-12)


def test_theorem_1_terms_by_hand():
    net, obs = gs.Network.path(4), gs.Gaussian([0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 2.0])
    k, star = net.condition_number, gs.theory.k_star(net)
    bound = gs.theory.theorem_1(net, obs, 20)
    assert bound.terms["bias"] == pytest.approx(16 * k / 400 * math.exp(-10 / math.sqrt(k)) * 5.0)
    assert bound.terms["mixing noise"] == pytest.approx(24 * (star + math.sqrt(k)) * 7 / 400)
    assert bound.terms["averaging noise"] == pytest.approx(2 * 4 / 20)
    assert bound.total == pytest.approx(sum(bound.terms.values()))


def test_theorem_1_does_not_cover_the_papers_short_runs():
    """T/2 >= k* fails on the path with K = 3 stages and in the whole star experiment."""
    path = gs.Network.path(100)
    rounds = gs.DMASG.rounds_for(path, 3)
    assert not gs.theory.theorem_1(path, gs.Gaussian(np.zeros(100)), rounds).applies
    for n in (148, 665):
        star = gs.Network.star(n)
        assert not gs.theory.theorem_1(star, gs.Gaussian(np.zeros(n)), int(np.sqrt(n))).applies


@given(connected_networks(most=8, weights=("metropolis",)), st.sampled_from(LINEAR), st.integers(1, 40))
def test_no_unbiased_method_beats_the_network_limit(net, name, rounds):
    method = gs.METHODS[name]()
    rng = np.random.default_rng(rounds)
    obs = gs.Gaussian(np.zeros(net.agents), rng.uniform(0.2, 2, net.agents))
    batches = method.batches(net, rounds)
    on_streams = weights(method, net, rounds).sum(axis=0)
    unbiased = np.all(np.abs(on_streams - 1 / net.agents) < 1e-9, axis=1)
    limit = gs.theory.network_limit(net, obs, rounds, batches, per_agent=True)
    error = gs.exact(method, net, obs, rounds).per_agent
    assert np.all(error[unbiased] >= limit[unbiased] * (1 - 1e-6))


def test_the_network_limit_by_hand():
    net, obs = gs.Network.path(3), gs.Gaussian(np.zeros(3), [1.0, 2.0, 3.0])
    limit = gs.theory.network_limit(net, obs, 4, per_agent=True)
    # Neighbors' observations of all 4 rounds arrive, those at distance 2 of the first 3.
    assert limit[0] == pytest.approx((1 / 4 + 4 / 4 + 9 / 3) / 9)
    assert limit[1] == pytest.approx((1 + 4 + 9) / 4 / 9)
    assert gs.theory.network_limit(net, obs, 4) == pytest.approx(limit.sum())
    assert gs.theory.network_limit(gs.Network.path(5), gs.Gaussian(np.zeros(5)), 2) == math.inf


@given(connected_networks(most=10, weights=("metropolis",)))
def test_anytime_sda_approaches_the_centralized_limit(net):
    obs = gs.Gaussian(np.arange(net.agents, dtype=float))
    rounds = int(400 * np.sqrt(net.condition_number)) + 400
    error = gs.exact(AnytimeSDA(), net, obs, rounds).total_error
    limit = gs.theory.centralized_limit(obs, rounds)
    assert limit <= error < 1.5 * limit


def test_corollaries_grow_and_shrink_as_they_should():
    net, rng = gs.Network.cycle(10), np.random.default_rng(0)
    a = rng.normal(size=(10, 4, 3))
    gram = np.einsum("nmd,nme->nde", a, a)
    beta = np.ones(3)
    first = gs.theory.corollary_1(
        net, gram=gram, mean=gram @ beta, variance=np.ones((10, 3)), rounds=200, gram_rounds=100
    )
    later = gs.theory.corollary_1(
        net, gram=gram, mean=gram @ beta, variance=np.ones((10, 3)), rounds=800, gram_rounds=200
    )
    assert later.total < first.total
    assert set(first.terms) == {"matrix (T1)", "vector (T2)"}
    r = rng.normal(size=(10, 5))
    bounds = [
        gs.theory.corollary_2(net, rewards=r, variance=np.ones((10, 5)), discount=g, rounds=400)
        for g in (0.8, 0.99)
    ]
    assert len(bounds[0].terms) == 5
    assert bounds[1].terms["transitions"] / bounds[0].terms["transitions"] == pytest.approx(20**1.5)
