"""The cost of masks: simulation, a direct computation, and no cost after mixing."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import gossamer as gs
from gossamer.observations import incidence

METHODS = ("anytime-sda", gs.AnytimeSDA("local"), "sda")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("refresh", [False, True])
def test_the_cost_equals_that_of_a_simulation(small, method, refresh):
    net, obs = small
    masks = gs.Masks(5.0, refresh=refresh)
    expected = gs.exact(method, net, obs, [8, 30], masks=masks)
    run = gs.simulate(method, net, obs, [8, 30], trials=1500, seed=1, masks=masks)
    assert np.all(np.abs(run.total_error - expected.total_error) < 4 * run.stderr)
    plain = gs.exact(method, net, obs, [8, 30])
    assert np.all(expected.variance > plain.variance)
    np.testing.assert_array_equal(expected.bias, plain.bias)


@pytest.mark.slow
@pytest.mark.parametrize("refresh", [False, True])
def test_the_added_error_is_within_one_percent_of_the_simulated_one(refresh):
    net, obs, masks = gs.Network.grid(3, 4), gs.Gaussian(np.arange(12.0)), gs.Masks(100.0, refresh=refresh)
    method, rounds, trials = gs.AnytimeSDA("local"), [4, 10], 60_000
    expected, simulated = (
        run(masks=masks).total_error - run().total_error
        for run in (
            partial(gs.exact, method, net, obs, rounds),
            partial(gs.simulate, method, net, obs, rounds, trials=trials, seed=2),
        )
    )
    np.testing.assert_allclose(simulated, expected, rtol=0.01)  # the standard error is about half of that


@pytest.mark.parametrize("name", ["erdos-renyi:12", "grid:3x4", "cycle:7", "star:6", "path:5"])
@pytest.mark.parametrize("refresh", [False, True])
def test_the_cost_follows_from_the_weights_of_single_observations(name, refresh):
    net = gs.Network.of(name)
    obs, rounds, scale = gs.Gaussian(np.zeros(net.agents)), 9, 3.0
    weights = gs.weights("anytime-sda", net, rounds)  # (T, N, N)
    later = weights[::-1].cumsum(axis=0)[::-1]  # of all observations from round t on
    edges = incidence(net).toarray()
    if refresh:
        responses = [(later[t] - weights[t] + (t + 1) * weights[t]) / (t + 1) for t in range(rounds)]
    else:
        responses = [later[0]]
    direct = scale**2 * sum(np.sum((response @ edges) ** 2) for response in responses)
    masked, plain = (
        gs.exact("anytime-sda", net, obs, rounds, masks=m).variance for m in (gs.Masks(scale, refresh), None)
    )
    np.testing.assert_allclose(masked - plain, direct, rtol=1e-9)


def test_large_masks_cost_nothing_after_mixing():
    net, obs = gs.Network.grid(10, 10), gs.Gaussian(np.linspace(0, 10, 100))
    plain, masked = (gs.exact(gs.AnytimeSDA("local"), net, obs, 1000, masks=m) for m in (None, 1e6))
    np.testing.assert_allclose(masked.total_error, plain.total_error, rtol=1e-7)
    runs = [
        gs.simulate(gs.AnytimeSDA("local"), net, obs, 1000, trials=3, masks=m).estimates for m in (None, 1e6)
    ]
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-6)


def test_masks_and_lost_messages():
    net, obs = gs.Network.cycle(8), gs.Gaussian(np.arange(8.0))
    runs = [
        gs.simulate(gs.AnytimeSDA("local"), net, obs, 600, trials=4, masks=m, faults=gs.faults.Loss(0.3))
        for m in (None, 1000.0)
    ]
    np.testing.assert_allclose(runs[0].estimates, runs[1].estimates, atol=1e-5)


@pytest.mark.parametrize("fault", [gs.faults.Crash(3, 100), gs.faults.Join(3, 100)], ids=repr)
def test_masks_of_an_absent_agent_are_refused(fault):
    """They would not cancel in the average of the others."""
    net, obs = gs.Network.cycle(8), gs.Gaussian(np.arange(8.0))
    with pytest.raises(gs.Unsupported, match="masks are simulated while all agents take part"):
        gs.simulate("anytime-sda", net, obs, 600, trials=4, masks=1000.0, faults=fault)
    gs.simulate("anytime-sda", net, obs, 200, trials=1, masks=gs.Masks(0, noise=1), faults=fault)


def test_masks_and_an_agent_that_comes_back_in_time():
    net, obs = gs.Network.cycle(8), gs.Gaussian(np.arange(8.0))
    away = gs.faults.Faults(gs.faults.Crash(3, 100, notice=50), gs.faults.Restart(3, 120))
    runs = [
        gs.simulate(gs.AnytimeSDA("local"), net, obs, 900, trials=4, masks=m, faults=away)
        for m in (None, 1000.0)
    ]
    np.testing.assert_allclose(runs[0].estimates, runs[1].estimates, atol=1e-5)


def test_masks_are_for_fixed_networks_with_a_spectrum():
    changing = gs.ChangingNetwork.dropout("cycle:6", alive=0.5)
    with pytest.raises(gs.Unsupported, match="masks"):
        gs.exact("anytime-sda", changing, gs.Gaussian(np.zeros(6)), 5, masks=1.0)
    with pytest.raises(gs.Unsupported, match="masks"):
        gs.simulate("anytime-sda", changing, gs.Gaussian(np.zeros(6)), 5, masks=1.0)


@pytest.mark.parametrize("masks", [gs.Masks(0.0, noise=2.0), gs.Masks(5.0, refresh=True, noise=2.0)])
def test_noise_stays_in_the_average(small, masks):
    net, obs = small
    rounds = [8, 300]
    expected = gs.exact("anytime-sda", net, obs, rounds, masks=masks)
    run = gs.simulate("anytime-sda", net, obs, rounds, trials=1500, seed=1, masks=masks)
    assert np.all(np.abs(run.total_error - expected.total_error) < 4 * run.stderr)
    quiet = gs.Masks(5.0, refresh=True) if masks.refresh else None
    added = expected.total_error - gs.exact("anytime-sda", net, obs, rounds, masks=quiet).total_error
    # After mixing, every agent has the variance noise^2 / N in each component; before, more.
    assert added[1] == pytest.approx(obs.components * 4.0, rel=1e-6)
    assert added[0] > added[1]
