from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.networks import LINEAR, connected_networks

import gossamer as gs
from gossamer.engines.exact import weights
from gossamer.methods import AnytimeSDA


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


@pytest.mark.slow
@given(connected_networks(weights=("metropolis", "max-degree")), st.integers(0, 999), st.integers(1, 400))
def test_theorem_1_bounds_the_exact_error(net, seed, rounds):
    rng = np.random.default_rng(seed)
    obs = gs.Gaussian(rng.normal(size=(net.agents, 2)) * 5, rng.uniform(0, 2, (net.agents, 2)))
    rounds *= 2  # the theorem's T0 = T/2 is a whole number
    bound = gs.theory.theorem_1(net, obs, rounds)
    assert bound.applies == (rounds / 2 >= gs.theory.k_star(net))
    if bound.applies:
        assert gs.exact("sda", net, obs, rounds).total_error <= bound.total * (1 + 1e-12)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    first, later = (
        gs.theory.corollary_1(
            net,
            gram=gram,
            mean=gram @ beta,
            variance=np.ones((10, 3)),
            rounds=rounds,
            gram_rounds=gram_rounds,
        )
        for rounds, gram_rounds in ((200, 100), (800, 200))
    )
    assert later.total < first.total
    assert set(first.terms) == set(first.order) == {"matrix (T1)", "vector (T2)"}
    r = rng.normal(size=(10, 5))
    bounds = [
        gs.theory.corollary_2(net, rewards=r, variance=np.ones((10, 5)), discount=g, rounds=400)
        for g in (0.8, 0.99)
    ]
    assert len(bounds[0].order) == 5
    assert bounds[1].order["transitions"] / bounds[0].order["transitions"] == pytest.approx(20**1.5)
    ratio = bounds[1].terms["transitions"] / bounds[0].terms["transitions"]
    assert ratio == pytest.approx(20**2 * 0.99 / 0.8)


def paper_error(sensors, rounds, gram_rounds):
    """The exact error of Corollary 1's estimator: SDA for A_i'Y_i, its last iterate for A_i'A_i."""
    held = np.linalg.inv(sensors.average_grams(gs.SDA(output="last"), gram_rounds))
    obs, total = sensors.moments, 0.0
    parts = weights("sda", sensors.network, rounds)  # (T, N, N)
    mean = np.einsum("tij,jd->id", parts, obs.mean)
    covariance = np.einsum("dkr,ekr->kde", obs.factor.swapaxes(0, 1), obs.factor.swapaxes(0, 1))
    for i, inverse in enumerate(held):
        total += float(((inverse @ mean[i] - sensors.parameter) ** 2).sum())
        noise = np.einsum("tj,jde->de", parts[:, i] ** 2, covariance)
        total += float(np.trace(inverse @ noise @ inverse.T))
    return total


@pytest.mark.slow
@given(
    connected_networks(most=7, weights=("metropolis",)),
    st.integers(0, 1000),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_corollary_1_bounds_the_error_where_it_applies(net, seed, gram_rounds, more):
    """Random problems, identical sensors among them, from as early as its conditions allow."""
    rng = np.random.default_rng(seed)
    same = seed % 4 == 0
    d, rows = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    matrices = [*rng.normal(size=(net.agents, rows, d))]
    matrices = [np.eye(d)] * net.agents if same else [a + np.eye(rows, d) for a in matrices]
    try:
        sensors = gs.LinearEstimation(net, matrices, rng.normal(size=d), rng.uniform(0.01, 2, net.agents))
    except gs.InvalidInput:
        return  # some direction is seen by no sensor
    rounds = 2 * gs.theory.k_star(net) + more
    bound = sensors.bound(rounds, gram_rounds)
    margin = sensors.gram_margin(sensors.average_grams(gs.SDA(output="last"), gram_rounds))
    if bound.applies:
        assert margin <= 0.5
        assert paper_error(sensors, rounds, gram_rounds) <= bound.total


def test_corollary_1_where_the_constant_1_is_too_small():
    """Identical scalar sensors: SDA averages half of the observations, so that its error is twice the paper's term."""
    net = gs.Network.grid(3, 3)
    sensors = gs.LinearEstimation(net, [[[1.0]]] * 9, [1.0])
    bound, error = sensors.bound(1000), sensors.exact("sda", 1000).total_error
    assert sum(bound.order.values()) < error < bound.total
    assert bound.applies


def test_corollary_1_applies_only_under_its_whole_condition():
    sensors = gs.LinearEstimation.random(gs.Network.grid(3, 3), dimension=2, measurements=1)
    early, late = sensors.bound(2000, gram_rounds=1), sensors.bound(2000, gram_rounds=400)
    assert (early.applies, late.applies) == (False, True)
    assert sensors.gram_margin(sensors.average_grams(gs.SDA(output="last"), 1)) > 0.5
    assert "certainly at most 1/2" in early.condition
    long = gs.LinearEstimation.random(gs.Network.path(20), dimension=2, measurements=1)
    assert not long.bound(2, gram_rounds=4000).applies
    assert long.bound(2000, gram_rounds=4000).applies


@pytest.mark.slow
@given(connected_networks(most=6, weights=("metropolis",)), st.integers(0, 1000), st.floats(0.0, 0.95))
def test_corollary_2_bounds_the_error_where_it_applies(net, seed, discount):
    """Rewards of any size. The bound is on an expected value; the mean of eight trials keeps well below it."""
    rng = np.random.default_rng(seed)
    states = int(rng.integers(1, 6))
    transitions = rng.dirichlet(np.full(states, 0.5), size=states)
    rewards = rng.normal(size=(net.agents, states)) * 10.0 ** rng.integers(-2, 4)
    std = rng.uniform(0, 1, (net.agents, states))
    task = gs.PolicyEvaluation(net, transitions, rewards, discount, std)
    rounds = 2 * gs.theory.k_star(net) + int(rng.integers(0, 50))
    bound = task.bound(rounds)
    assert bound.applies
    assert task.simulate("sda", rounds, trials=8).error <= bound.total
