from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import eval_chebyt, eval_chebyu
from tests.support.networks import connected_networks

import gossamer as gs

ROSTER = [
    "path:30",
    "cycle:21",
    "star:25",
    "complete:12",
    "grid:5x6",
    "torus:4x5",
    "hypercube:4",
    "erdos-renyi:40",
]


def streams(agents, seed=0, components=2):
    rng = np.random.default_rng(seed)
    means = 5 * rng.normal(size=(agents, components))
    return gs.Gaussian(means, rng.uniform(0, 2, (agents, components)))


def responses(kappa, rounds, x):
    """g_0 ... g_{rounds-1} by the recursion, at the eigenvalues x times the largest."""
    zeta, q = (math.sqrt(kappa) - 1) / (math.sqrt(kappa) + 1), 1 - x
    before, now, found = np.zeros_like(q), np.ones_like(q), [np.ones_like(q)]
    for _ in range(1, rounds):
        before, now = now, (1 + zeta) * q * now - zeta * q * before
        found.append(now - zeta * before)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [1.0, 1.01, 2.0, 11.0, 100.0, 4052.0, 1e6])
def test_the_lemma_holds_with_equality_at_the_smallest_eigenvalue(kappa):
    """|g_k| <= (1 + k/(sqrt(kappa) + 1)) rho^k in every mode."""
    root, k = math.sqrt(kappa), np.arange(400)
    g = responses(kappa, len(k), np.linspace(1 / kappa, 1, 2001))
    envelope = (1 + k / (root + 1)) * (1 - 1 / root) ** k
    assert np.all(np.abs(g) <= envelope[:, None] * (1 + 1e-9) + 1e-15)
    np.testing.assert_allclose(g[:, 0], envelope, rtol=1e-7, atol=1e-14)


@pytest.mark.parametrize("name", ROSTER)
@pytest.mark.parametrize("smoothing", [0, 7.3])
def test_the_closed_form_is_the_exact_error_on_the_roster(name, smoothing):
    net = gs.Network.of(name)
    obs, rounds = streams(net.agents), np.array([1, 2, 3, 17, 150])
    exact = gs.exact(gs.AnytimeSDA(smoothing=smoothing), net, obs, rounds).total_error
    np.testing.assert_allclose(gs.theory.anytime_error(net, obs, rounds, smoothing), exact, rtol=1e-10)
    assert gs.theory.anytime_error(net, obs, 150, smoothing) == pytest.approx(exact[-1], rel=1e-10)


@pytest.mark.slow
@given(connected_networks(), st.integers(0, 999), st.integers(1, 300), st.sampled_from([0, 1, 2.5, 40, 1000]))
def test_the_closed_form_is_the_exact_error(net, seed, rounds, smoothing):
    obs = streams(net.agents, seed)
    exact = gs.exact(gs.AnytimeSDA(smoothing=smoothing), net, obs, rounds).total_error
    assert gs.theory.anytime_error(net, obs, rounds, smoothing) == pytest.approx(exact, rel=1e-10)


@pytest.mark.slow
def test_theorem_3_bounds_the_error_in_a_thousand_cases():
    rng, covered = np.random.default_rng(0), 0
    nets = [gs.Network.of(name) for name in ROSTER]
    nets += [gs.Network.erdos_renyi(8, p=0.4, seed=seed) for seed in range(12)]
    for case in range(1000):
        net = nets[case % len(nets)]
        obs = streams(net.agents, case, components=1)
        window = rng.choice([0.0, gs.AnytimeSDA().window(net), rng.uniform(0, 30)])
        rounds = int(rng.geometric(1 / 60))
        bound = gs.theory.theorem_3(net, obs, rounds, window)
        assert bound.applies == np.isfinite(bound.total)
        assert all(term >= 0 for term in bound.terms.values())
        if bound.applies:
            covered += 1
            assert gs.theory.anytime_error(net, obs, rounds, window) <= bound.total * (1 + 1e-12)
    assert covered > 600


@pytest.mark.slow
def test_theorem_3_is_close_to_the_error(five_networks):
    """Within 2x from T = 10 sqrt(kappa) on, and within 1% once T is a hundred times that."""
    for net in five_networks.values():
        root, obs = math.sqrt(net.condition_number), gs.Gaussian(np.linspace(0, 10, net.agents))
        for share, most in ((10, 2), (20, 1.2), (1000, 1.01)):
            rounds = math.ceil(share * root)
            if rounds > 20_000:
                continue
            bound, error = gs.theory.theorem_3(net, obs, rounds), gs.theory.anytime_error(net, obs, rounds)
            assert bound.applies
            assert error <= bound.total <= most * error
        window = gs.AnytimeSDA().window(net)
        rounds = math.ceil(10 * (root + window))
        bound = gs.theory.theorem_3(net, obs, rounds, window)
        assert bound.total <= 2 * gs.theory.anytime_error(net, obs, rounds, window)


def test_theorem_3_terms_by_hand():
    """Two agents that average at once: kappa is 1, so that nothing but the newest sample is unmixed."""
    net, obs = gs.Network.complete(2, weights="max-degree"), gs.Gaussian([0.0, 6.0], [1.0, 2.0])
    assert net.condition_number == pytest.approx(1)
    bound = gs.theory.theorem_3(net, obs, 50)
    assert bound.terms["averaging noise"] == pytest.approx(5 / 2 / 50)
    assert bound.total == pytest.approx(bound.terms["averaging noise"], rel=1e-9)


def test_theorem_3_without_a_spectrum_looks_at_the_slowest_mode(monkeypatch):
    """It is larger, and equal where all modes are the slowest, up to the one that is not."""
    obs = streams(30, components=1)
    for name in ("path:30", "star:30"):
        net = gs.Network.of(name)
        known = gs.theory.theorem_3(net, obs, 400)
        with monkeypatch.context() as patch:
            patch.setattr("gossamer.theory.anytime.MODES", 10)
            unknown = gs.theory.theorem_3(net, obs, 400)
        ratio = unknown.terms["mixing noise"] / known.terms["mixing noise"]
        assert ratio == pytest.approx(1, abs=0.06) if name == "star:30" else ratio > 2
        assert unknown.terms["averaging noise"] == known.terms["averaging noise"]
        simple = 5 / 4 * (math.sqrt(net.condition_number) - 1) * obs.variance.sum() / 1e12
        far = gs.theory.theorem_3(net, obs, 10**6)
        assert far.terms["mixing noise"] <= simple * 1.001


def test_theorem_3_has_the_centralized_constant_and_theorem_1_twice_as_much():
    net, obs = gs.Network.cycle(30), gs.Gaussian(np.zeros(30))
    limit = gs.theory.centralized_limit(obs, 10**7)
    assert gs.theory.theorem_3(net, obs, 10**7).total == pytest.approx(limit, rel=1e-4)
    assert gs.theory.theorem_1(net, obs, 10**7).total == pytest.approx(2 * limit, rel=1e-2)


def test_theorem_3_says_when_it_does_not_apply():
    net, obs = gs.Network.path(30), gs.Gaussian(np.zeros(30))
    early = gs.theory.theorem_3(net, obs, 20)
    assert not early.applies
    assert early.total == math.inf
    assert "gamma max(rho, 1 - 1/w)^2 < 1 (it is 1.1" in early.condition
    drifting = gs.theory.theorem_3(net, gs.Drifting(obs, 0.1), 500)
    assert not drifting.applies
    assert drifting.condition.endswith("and means that do not move, but these drift")
    assert not gs.theory.theorem_3(net, obs, 500, smoothing=1000).applies


@pytest.mark.slow
@given(
    connected_networks(most=9, weights=("metropolis", "laplacian")),
    st.integers(0, 999),
    st.floats(0.05, 1),
    st.sampled_from([0, 3.5, 20]),
)
def test_the_tracking_error_is_where_the_exact_error_settles(net, seed, gain, smoothing):
    obs = gs.Drifting(streams(net.agents, seed), np.random.default_rng(seed).normal(size=(net.agents, 2)))
    method = gs.AnytimeSDA(gain=gain, smoothing=smoothing)
    late = gs.exact(
        method, net, obs, int(40 * (math.sqrt(net.condition_number) + smoothing + 1 / gain)) + 100
    )
    assert gs.theory.tracking_error(net, obs, gain, smoothing) == pytest.approx(late.total_error, rel=1e-7)


def test_the_error_of_chebyshevs_form_has_the_same_shape(small):
    """The closed form with Chebyshev's impulse response in place of Nesterov's, as the page of the theorem has it."""
    net, obs, rounds = *small, 40
    spectrum, ratio = net.spectrum, (net.condition_number - 1) / (net.condition_number + 1)
    xi = (1 - 2 / (net.lambda_max + net.lambda_2) * spectrum.eigenvalues[1:]) / ratio
    tau = eval_chebyt(np.arange(rounds + 1), 1 / ratio)
    s = np.arange(1, rounds)[:, None]
    g = tau[1:-1, None] * eval_chebyu(rounds - s, xi) - tau[:-2, None] * eval_chebyu(rounds - s - 1, xi)
    first = eval_chebyt(rounds, xi) / tau[-1]
    square = (spectrum.analyze(obs.mean)[1:] ** 2).sum(axis=1)
    variance = spectrum.energy(obs.variance).sum(axis=1)
    noise = ((g / tau[-1] - first) ** 2 / (s * (s + 1))).sum(axis=0)
    error = variance[0] / rounds + (first**2 * (square + variance[1:] / rounds) + variance[1:] * noise).sum()
    found = gs.exact(gs.AnytimeSDA("chebyshev", smoothing=0), net, obs, rounds).total_error
    assert found == pytest.approx(error, rel=1e-10)


def test_closed_forms_refuse_what_they_do_not_cover():
    net, obs = gs.Network.cycle(6), gs.Gaussian(np.zeros(6))
    with pytest.raises(
        gs.Unsupported, match=r"means that do not move; use gs\.exact, or gs\.theory\.tracking"
    ):
        gs.theory.anytime_error(net, gs.Drifting(obs, 1.0), 10)
    with pytest.raises(
        gs.Unsupported, match="sums over all rounds: at most 10000000, but these are 100000000"
    ):
        gs.theory.anytime_error(net, obs, 10**8)
    with pytest.raises(gs.InvalidInput, match="smoothing must be"):
        gs.theory.anytime_error(net, obs, 10, smoothing=-1)
    with pytest.raises(gs.InvalidInput, match="gain must be"):
        gs.theory.tracking_error(net, obs, gain=0)
    moving = gs.Moving(obs, lambda t: np.full((6, 1), np.sin(t)))
    with pytest.raises(gs.Unsupported, match=r"stay or drift linearly; use gs\.exact"):
        gs.theory.tracking_error(net, moving, gain=0.1)
