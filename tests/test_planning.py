"""Plans are the smallest number of rounds, and tuning never makes it worse."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.methods import SDA


@pytest.mark.parametrize("method", [gs.AnytimeSDA(), gs.AnytimeSDA("chebyshev"), gs.SDA(), gs.DSG()])
def test_plans_are_the_smallest_number_of_rounds(method):
    net, obs = gs.Network.grid(4, 4), gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 16))
    plan = gs.plan(net, obs, target=0.02, method=method)
    errors = gs.exact(method, net, obs, list(range(1, plan.rounds + 1))).total_error
    assert errors[-1] <= 0.02
    assert np.all(errors[:-1] > 0.02)
    assert plan.total_error == pytest.approx(errors[-1])
    assert plan.samples == plan.rounds
    assert plan.messages == plan.rounds * 2 * 24
    assert plan.bytes == plan.messages * 8


@pytest.mark.slow
def test_a_plan_is_patient_with_slow_networks():
    n = 600
    net = gs.Network.path(n)
    obs = gs.Gaussian(np.cos(np.pi * (np.arange(n) + 0.5) / n), 0.01)  # the slowest mode alone
    late = gs.exact("dsg", net, obs, [4096, 30000]).total_error
    assert late[1] < 0.98 * late[0]
    plan = gs.plan(net, obs, float(late[1]), "dsg", most_rounds=40_000)
    assert 29000 < plan.rounds <= 30000


def test_plan_and_exact_agree_at_the_boundary():
    net, obs = gs.Network.grid(3, 3), gs.Gaussian(np.arange(9.0))
    assert gs.plan(net, obs, gs.exact("anytime-sda", net, obs, 100).total_error).rounds == 100


@pytest.mark.slow
def test_plans_compare_methods_targets_and_networks():
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 36))
    networks = [gs.Network.path(36), gs.Network.grid(6, 6)]
    plans = gs.plan(networks, obs, [0.1, 0.01], ["sda", "anytime-sda", "ssda"])
    assert len(plans) == 12
    best = plans.cheapest(by="messages")
    assert best.method.name == "anytime-sda"
    hopeless = [p for p in plans if p.method.name == "ssda"]
    assert all(not p.reached and "does not reach" in p.note for p in hopeless)
    with pytest.raises(gs.InvalidInput, match=r"ssda does not reach an error of 0.01"):
        gs.plan(networks[0], obs, 0.01, "ssda")
    with pytest.raises(gs.InvalidInput, match="target must be a finite number above 0"):
        gs.plan(networks[0], obs, 0.0)


def test_sample_complexity_slopes():
    """Exact SDA on the path: 549 -> 995 samples for eps .015 -> .0055, slope -.59; -.88 for small eps."""
    net = gs.Network.path(100)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 1, 100))
    large = [0.015, 0.0122, 0.01, 0.0082, 0.0067, 0.0055]
    rounds = [gs.plan(net, obs, e, SDA()).rounds for e in large]
    assert rounds[0] == pytest.approx(549, rel=0.02)
    assert rounds[-1] == pytest.approx(995, rel=0.02)
    assert np.polyfit(np.log(large), np.log(rounds), 1)[0] == pytest.approx(-0.59, abs=0.01)


def test_tuning_never_makes_it_worse_and_helps_the_paper():
    net, obs = gs.Network.path(30), gs.Gaussian(np.random.default_rng(0).uniform(0, 1, 30))
    tuned = gs.tune(gs.SDA(), net, obs, 300)
    assert tuned.total_error < 0.75 * tuned.before
    assert gs.exact(tuned.method, net, obs, 300).total_error == pytest.approx(tuned.total_error)
    only = gs.tune("sda", net, obs, 300, ["burn_in"])
    assert only.method.step_size is None
    assert only.total_error <= only.before
    everything = gs.exact("sda", net, obs, 300).total_error
    for burn_in in range(0, 300, 7):
        assert only.total_error <= gs.exact(gs.SDA(burn_in=burn_in), net, obs, 300).total_error * (1 + 1e-3)
    assert only.before == pytest.approx(everything)
    with pytest.raises(gs.Unsupported, match="dsg has no parameters to tune"):
        gs.tune("dsg", net, obs, 300)
    with pytest.raises(gs.Unsupported, match="no parameter 'smoothing'"):
        gs.tune("sda", net, obs, 300, ["smoothing"])
