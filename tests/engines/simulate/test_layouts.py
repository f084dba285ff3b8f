"""Trials side by side or agents side by side, on any number of threads: the same results."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from tests.support.networks import LINEAR

import gossamer as gs
from gossamer.engines.simulate import layouts, simulate


def test_results_do_not_depend_on_threads_blocks_or_order(small):
    net, obs = small
    whole = gs.simulate("anytime-sda", net, obs, 33, trials=300, seed=9)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        single = gs.simulate("anytime-sda", net, obs, 33, trials=300, seed=9)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(whole.estimates, single.estimates)
    np.testing.assert_array_equal(whole.errors, single.errors)
    np.testing.assert_array_equal(whole.per_agent, single.per_agent)
    part = gs.simulate("anytime-sda", net, obs, 33, trials=7, seed=9, first_trial=100)
    np.testing.assert_array_equal(whole.estimates[100:107], part.estimates)


@pytest.mark.slow
def test_threads_over_agents_equal_threads_over_trials(monkeypatch):
    """Agents side by side or trials side by side: the same estimates to the last digit."""
    net = gs.Network.grid(30, 30)
    obs = gs.Gaussian(np.random.default_rng(0).normal(size=(net.agents, 2)), 1.0)
    uniform = gs.Uniform(np.zeros(net.agents), 1.0)
    monkeypatch.setattr(layouts, "FEW", 1)
    by_trials = simulate("sda", net, obs, 20, 3, 3), simulate("dsg", net, uniform, [5, 20], 3, 3)
    monkeypatch.setattr(layouts, "LARGE", 1)
    by_agents = simulate("sda", net, obs, 20, 3, 3), simulate("dsg", net, uniform, [5, 20], 3, 3)
    for a, b in zip(by_trials, by_agents, strict=True):
        np.testing.assert_array_equal(a.estimates, b.estimates)
        np.testing.assert_allclose(a.total_error, b.total_error, rtol=1e-12)
        np.testing.assert_allclose(a.per_agent, b.per_agent, rtol=1e-12)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        np.testing.assert_array_equal(
            simulate("dsg", net, uniform, [5, 20], 3, 3).errors, by_agents[1].errors
        )
    finally:
        numba.set_num_threads(threads)


@pytest.mark.parametrize("name", sorted(LINEAR))
@pytest.mark.parametrize("network", ["path", "star", "erdos_renyi"])
def test_the_layout_does_not_show(name, network, monkeypatch):
    """Runs of agents, lone agents and rows of trials, with drift and unequal noise: the same bits."""
    net = getattr(gs.Network, network)(41)
    rng = np.random.default_rng(5)
    obs = gs.Drifting(gs.Gaussian(rng.normal(size=(41, 2)), rng.uniform(0.1, 2, (41, 2))), 0.01)
    found = []
    for few in (0, 10**9):
        monkeypatch.setattr(layouts, "FEW", few)
        found.append(simulate(name, net, obs, [3, 26], trials=17, seed=4))
    np.testing.assert_array_equal(found[0].estimates, found[1].estimates)
