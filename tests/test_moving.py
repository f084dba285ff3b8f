"""Means that are a function of the round."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gossamer as gs
from tests.support.reference import round_by_round
from tests.support.variants import VARIANTS

NOISE = gs.Gaussian(np.zeros(12), np.linspace(0.5, 1.5, 12))


def swinging(t):
    return np.sin(np.arange(12) + 0.3 * t) + 0.1 * t


def bias_by_hand(method, net, obs, rounds):
    """A dense recursion on the means themselves."""
    mean = round_by_round(method, net, obs.means(range(rounds)))
    return ((mean - obs.target(rounds)) ** 2).sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", VARIANTS, ids=repr)
def test_the_exact_bias_is_that_of_a_dense_recursion(method, small):
    net, _ = small
    obs = gs.Moving(NOISE, swinging)
    expected = bias_by_hand(method, net, obs, 23)
    found = gs.exact(method, net, obs, 23)
    assert found.bias == pytest.approx(expected.sum(), rel=1e-9)
    assert found.variance == pytest.approx(gs.exact(method, net, NOISE, 23).variance, rel=1e-12)
    still = gs.exact(method, net, gs.Gaussian(np.zeros(12), NOISE.std), 23).per_agent
    np.testing.assert_allclose(found.per_agent, expected + still, rtol=1e-9)


@pytest.mark.parametrize("net", [gs.Network.cycle(12), gs.Network.torus(3, 4), gs.Network.star(12)], ids=repr)
@pytest.mark.parametrize("method", ["sda", "anytime-sda"])
def test_every_horizon_and_kind_of_spectrum(net, method):
    obs = gs.Moving(NOISE, swinging)
    found = gs.exact(method, net, obs, range(1, 21))
    for rounds in (1, 2, 7, 20):
        expected = bias_by_hand(gs.METHODS[method](), net, obs, rounds)
        assert found.bias[rounds - 1] == pytest.approx(expected.sum(), rel=1e-9)


def test_components_and_arrays(small):
    net, _ = small
    means = np.random.default_rng(0).normal(size=(30, 12, 2))
    obs = gs.Moving(gs.Gaussian(np.zeros((12, 2)), 0.3), means)
    found = gs.exact("anytime-sda", net, obs, [15, 30])
    for k, rounds in enumerate((15, 30)):
        expected = bias_by_hand(gs.AnytimeSDA(), net, obs, rounds)
        assert found.bias[k] == pytest.approx(expected.sum(), rel=1e-9)
    with pytest.raises(gs.InvalidInput, match=r"means of 30 rounds, but round 30 was asked for"):
        gs.exact("sda", net, obs, 31)


def test_simulation_agrees_with_the_exact_error(small):
    net, _ = small
    for base in (NOISE, gs.Uniform(np.zeros(12), np.ones(12))):
        obs = gs.Moving(base, swinging)
        exact = gs.exact("anytime-sda", net, obs, [10, 40])
        runs = gs.simulate("anytime-sda", net, obs, [10, 40], trials=400, seed=3, progress=False)
        assert np.all(np.abs(runs.total_error - exact.total_error) < 4 * runs.stderr)


def test_a_line_is_drift(small):
    net, obs = small
    rate = np.linspace(-0.1, 0.2, 12)
    moving = gs.Moving(obs, lambda t: obs.mean[:, 0] + t * rate)
    drifting = gs.Drifting(obs, rate)
    found, expected = (gs.exact("sda", net, o, [5, 20]) for o in (moving, drifting))
    np.testing.assert_allclose(found.total_error, expected.total_error, rtol=1e-10)
    np.testing.assert_allclose(moving.target(9), drifting.target(9))
    np.testing.assert_allclose(moving.means(range(3, 6)), drifting.means(range(3, 6)))
    draw = [o.sample(1, range(4), range(3)) for o in (moving, drifting)]
    np.testing.assert_allclose(*draw)
    late = gs.Moving(drifting, lambda t: np.zeros(12))
    assert np.abs(late.sample(1, range(9), range(2000)).mean(axis=3)).max() < 5 * obs.std.max() / np.sqrt(
        2000
    )


def test_faulty_runs_are_measured_against_the_last_means():
    net = gs.Network.cycle(12)
    obs = gs.Moving(gs.Gaussian(np.zeros(12), 0.1), swinging)
    run = gs.simulate("anytime-sda", net, obs, 30, trials=4, faults=gs.faults.Faults(), progress=False)
    np.testing.assert_allclose(run.target, swinging(29).mean())


def test_pickling_and_equality():
    array = np.stack([swinging(t) for t in range(5)])
    one, other = gs.Moving(NOISE, array), gs.Moving(NOISE, array.copy())
    assert one == other
    assert one != gs.Moving(NOISE, array + 1)
    assert gs.Moving(NOISE, swinging) == gs.Moving(NOISE, swinging)
    assert one != gs.Moving(NOISE, swinging)
    back = pickle.loads(pickle.dumps(gs.Moving(NOISE, swinging)))
    np.testing.assert_array_equal(back.means(range(4)), gs.Moving(NOISE, swinging).means(range(4)))


def test_bounds_promise_nothing_for_moving_means(small):
    net, obs = small
    assert gs.theory.theorem_1(net, obs, 500).applies
    assert not gs.theory.theorem_1(net, gs.Moving(obs, swinging), 500).applies
    assert not gs.theory.theorem_2(net, gs.Moving(obs, swinging), 500).applies


def test_errors_say_what_is_needed():
    with pytest.raises(gs.InvalidInput, match="base must be observations"):
        gs.Moving(3, swinging)
    with pytest.raises(
        gs.InvalidInput, match=r"mean_at\(0\) must have the shape of the means of base, \(12, 1\)"
    ):
        gs.Moving(NOISE, lambda t: np.zeros(3))
    with pytest.raises(gs.InvalidInput, match=r"mean_at\(4\) must be finite"):
        gs.Moving(NOISE, lambda t: np.full(12, np.nan if t == 4 else 0.0)).target(5)
    with pytest.raises(gs.InvalidInput, match=r"mean_at must be numbers"):
        gs.Moving(NOISE, "often")
    net = gs.Network.path(12)
    net.__dict__.update(spectrum=None, lambda_max=1.3, lambda_2=0.01, inverse_square_trace=100.0)
    with pytest.raises(gs.Unsupported, match=r"moving means need a full spectrum.*use gs.simulate instead"):
        gs.exact("sda", net, gs.Moving(NOISE, swinging), 10)


def test_a_plan_looks_no_further_than_the_means_are_known():
    net, base = gs.Network.cycle(6), gs.Gaussian(np.arange(6.0))
    known = gs.Moving(base, np.tile(np.arange(6.0), (50, 1)))
    near, far = gs.plan([net], known, [0.5, 1e-9])
    assert near.rounds == gs.plan(net, base, 0.5).rounds
    assert "within 50 rounds" in far.note
