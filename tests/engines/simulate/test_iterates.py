"""What a simulation keeps of every trial: errors, estimates, or all registers after every round."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.support.reference import coefficients_at

import gossamer as gs
from gossamer.engines import trials as shared
from gossamer.engines.simulate import layouts, simulate


def registers_round_by_round(method, network, observations):
    """{name: (T, N, n)} by the method's own functions on given observations (T, N, n), with a dense gossip matrix."""
    rounds = len(observations)
    c, gossip = method.coefficients(network, rounds), network.gossip.toarray()
    state = method.State(*(np.zeros(observations.shape[1:]) for _ in method.State._fields))
    kept = {name: [] for name in (*method.State._fields, "estimate")}
    for t, y in enumerate(observations):
        now = coefficients_at(c, t)
        state = method.step(now, state, y, gossip @ method.message(now, state, y))
        for name, value in zip(kept, (*state, method.estimate(now, state)), strict=True):
            kept[name].append(np.broadcast_to(value, y.shape))
    return {name: np.array(values) for name, values in kept.items()}


@pytest.mark.slow
@pytest.mark.parametrize("trials", [3, 19], ids=["agents side by side", "trials side by side"])
@pytest.mark.parametrize("method", [gs.METHODS[n]() for n in gs.METHODS], ids=lambda m: m.name)
def test_iterates_are_the_registers_after_every_round(method, trials, small):
    net, _ = small
    obs = gs.Gaussian(np.random.default_rng(1).normal(size=(12, 2)), 0.5)
    run = simulate(method, net, obs, 21, trials, 11, keep="iterates")
    assert set(run.iterates) == {"estimate", *method.State._fields}
    assert {values.shape for values in run.iterates.values()} == {(trials, 21, 12, 2)}
    np.testing.assert_array_equal(run.iterates["estimate"][:, -1], run.estimates)
    plain = simulate(method, net, obs, 21, trials, 11)
    for name in ("estimates", "errors", "per_agent"):
        np.testing.assert_array_equal(getattr(run, name), getattr(plain, name))
    if method.mixing != "matrix":
        return
    seen = obs.sample(11, range(21), range(trials), batches=method.batches(net, 21))
    for r in range(trials):
        for name, expected in registers_round_by_round(method, net, seen[..., r]).items():
            np.testing.assert_allclose(run.iterates[name][r], expected, rtol=1e-10, atol=1e-10)


def test_iterates_of_several_horizons_are_those_of_the_largest(small):
    net, obs = small
    for name in ("sda", "anytime-sda"):
        several = simulate(name, net, obs, [7, 20, 13], 4, 1, keep="iterates")
        one = simulate(name, net, obs, 20, 4, 1, keep="iterates")
        assert several.estimates.shape == (3, 4, 12, 1)
        for register, values in one.iterates.items():
            np.testing.assert_array_equal(several.iterates[register], values)
    # An anytime method's estimate after round t is the one of a run of t rounds.
    np.testing.assert_array_equal(several.iterates["estimate"][:, 12], several.estimates[2])


def test_iterates_of_streams_that_are_drawn_beforehand_and_of_single_precision(small):
    net, _ = small
    coins = gs.Bernoulli(np.linspace(0.1, 0.9, 12))
    whole = simulate("dsg", net, coins, 15, 20, 3, keep="iterates")
    few = simulate("dsg", net, coins, 15, 2, 3, first_trial=7, keep="iterates")
    np.testing.assert_array_equal(whole.iterates["theta"][7:9], few.iterates["theta"])
    single = simulate("dsg", net, coins, 15, 2, 3, keep="iterates", dtype=np.float32)
    assert single.iterates["theta"].dtype == np.float32
    np.testing.assert_array_equal(single.iterates["estimate"][:, -1], single.estimates)


def test_what_is_kept_can_be_read_and_not_replaced(small):
    net, obs = small
    run = simulate("sda", net, obs, 5, 2, keep="iterates")
    with pytest.raises(TypeError):
        run.iterates["x"] = 0
    again = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(again.iterates["estimate"], run.iterates["estimate"])
    errors = simulate("sda", net, obs, 5, 2, keep="errors")
    np.testing.assert_array_equal(errors.errors, run.errors)
    np.testing.assert_array_equal(errors.per_agent, run.per_agent)
    for thing in ("estimates", "iterates"):
        with pytest.raises(gs.InvalidInput, match=f"kept no {thing}; call simulate.*keep='{thing}'"):
            getattr(errors, thing)


@pytest.mark.parametrize("faults", [None, gs.faults.Loss(0.1)])
def test_too_many_iterates_are_refused_before_they_fill_the_memory(faults, small):
    net, obs = small
    with pytest.raises(
        gs.InvalidInput, match=r"must fit into 4 GiB, but 5 numbers .* 44\.7 GiB; .*first_trial"
    ):
        simulate("anytime-sda", net, obs, 1000, 100_000, faults=faults, keep="iterates")


def test_interrupted_runs_keep_the_iterates_of_finished_trials(small, monkeypatch):
    net, obs = small
    monkeypatch.setattr(layouts, "get_num_threads", lambda: 1)
    whole = simulate("sda", net, obs, 10, 300, keep="iterates")
    original, calls = layouts.trial_lanes.play_blocks, 0

    def interrupted(*args):
        nonlocal calls
        calls += 1
        if calls == 15:  # in the second block of trials
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(layouts.trial_lanes, "play_blocks", interrupted)
    run = simulate("sda", net, obs, 10, 300, keep="iterates")
    assert run.partial
    assert 0 < run.trials < 300
    np.testing.assert_array_equal(run.iterates["x"], whole.iterates["x"][: run.trials])


@pytest.mark.parametrize("faults", [None, gs.faults.Loss(0.1)])
def test_progress_counts_all_the_work(faults, small, monkeypatch):
    from contextlib import contextmanager

    net, obs = small
    found = []

    @contextmanager
    def bar(wanted, what, work, **options):
        found.extend([wanted, work])
        yield found.append

    monkeypatch.setattr(shared, "progress_bar", bar)
    simulate("sda", net, obs, [20, 10], 30, faults=faults, progress=True)
    wanted, work, *done = found
    assert wanted is True
    assert sum(done) == work
