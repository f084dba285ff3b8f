"""Simulation: against the plain loop, trial by trial, and its promises."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.reference import round_by_round

import gossamer as gs
from gossamer.engines.simulate import layouts, simulate
from gossamer.observations import UniformDriven


@pytest.mark.parametrize("method", [gs.METHODS[n]() for n in gs.METHODS], ids=lambda m: m.name)
def test_compiled_simulation_equals_the_plain_loop(method, small):
    net, obs = small
    rounds, trials, seed = 21, 5, 11
    run = gs.simulate(method, net, obs, rounds, trials=trials, seed=seed)
    if method.mixing != "matrix":
        return  # random exchanges: tested below
    batches = method.batches(net, rounds)
    seen = obs.sample(seed, range(rounds), range(trials), batches=batches)
    for r in range(trials):
        expected = round_by_round(method, net, seen[:, :, :, r])
        np.testing.assert_allclose(run.estimates[r], expected, rtol=1e-10, atol=1e-10)
    assert run.total_error == pytest.approx(((run.estimates - obs.mean.mean()) ** 2).sum(axis=(1, 2)).mean())
    np.testing.assert_allclose(
        run.per_agent, ((run.estimates - obs.mean.mean()) ** 2).sum(axis=2).mean(axis=0), rtol=1e-10
    )


def test_trials_have_numbers(small):
    net, obs = small
    last = simulate("sda", net, obs, 5, 1, first_trial=2**32 - 1).estimates
    assert np.any(last != simulate("sda", net, obs, 5, 1).estimates)
    with pytest.raises(gs.InvalidInput, match=r"trials must be numbered below 2\^32, got 4294967295 \+ 2"):
        simulate("sda", net, obs, 5, 2, first_trial=2**32 - 1)
    with pytest.raises(gs.InvalidInput, match="trials must be a whole number of at least 1, got None"):
        simulate("sda", net, obs, 5, None)


def test_single_precision_is_close(small):
    net, obs = small
    double = gs.simulate("sda", net, obs, 50, trials=10, seed=1)
    single = gs.simulate("sda", net, obs, 50, trials=10, seed=1, dtype=np.float32)
    assert single.estimates.dtype == np.float32
    np.testing.assert_allclose(single.estimates, double.estimates, rtol=1e-4, atol=1e-4)


def test_pairwise_gossip_keeps_the_average_and_broadcast_does_not():
    net = gs.Network.cycle(10)
    obs = gs.Gaussian(np.arange(10.0), 0.0)
    pairwise = gs.simulate("pairwise", net, obs, 2000, trials=20, seed=0)
    np.testing.assert_allclose(pairwise.estimates.mean(axis=1), 4.5, atol=1e-12)
    assert pairwise.total_error < 1e-6
    broadcast = gs.simulate("broadcast", net, obs, 2000, trials=400, seed=0)
    assert np.ptp(broadcast.estimates, axis=1).max() < 1e-3  # consensus, on a random value ...
    values = broadcast.estimates[:, 0, 0]
    assert values.std() > 0.3
    assert abs(values.mean() - 4.5) < 4 * values.std() / np.sqrt(400)  # ... whose mean is the average


def test_one_pairwise_exchange_by_hand():
    net = gs.Network.path(5)
    obs = gs.Gaussian(np.arange(5.0) ** 2, 0.0)
    run = gs.simulate("pairwise", net, obs, 1, trials=50, seed=0)
    start = np.arange(5.0) ** 2
    for estimate in run.estimates[:, :, 0]:
        moved = np.flatnonzero(estimate != start)
        assert moved.tolist() in [[k, k + 1] for k in range(4)]
        assert np.all(estimate[moved] == start[moved].mean())


def test_interrupted_runs_return_what_is_finished(small, monkeypatch):
    net, obs = small
    monkeypatch.setattr(layouts, "get_num_threads", lambda: 1)
    whole = gs.simulate("sda", net, obs, 20, trials=600, seed=1)
    calls = 0
    original = layouts.trial_lanes.play_blocks

    def interrupted(*args):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(layouts.trial_lanes, "play_blocks", interrupted)
    run = gs.simulate("sda", net, obs, 20, trials=600, seed=1)
    assert run.partial
    assert 0 < run.trials < 600
    np.testing.assert_array_equal(run.estimates, whole.estimates[: run.trials])
    assert run.total_error == pytest.approx(whole.errors[: run.trials].mean())
    calls = 1
    with pytest.raises(KeyboardInterrupt):
        gs.simulate("sda", net, obs, 20, trials=600, seed=1)
    calls = -2  # every horizon of SDA is a pass of its own: the first block of trials has gone through both
    run = gs.simulate("sda", net, obs, [20, 10], trials=600, seed=1)
    assert (run.partial, run.trials) == (True, 128)
    np.testing.assert_array_equal(run.estimates[0], whole.estimates[:128])
    calls = 0
    with pytest.raises(KeyboardInterrupt):
        gs.simulate("sda", net, obs, [20, 10], trials=600, seed=1)


def test_a_users_own_gaussian_is_asked_for_its_samples(small):
    class Loud(gs.Gaussian):
        def sample(self, *args, **options):
            return super().sample(*args, **options) + 1

    net, obs = small
    plain = simulate("sda", net, gs.Gaussian(obs.mean, obs.std), 9, 3, 3)
    loud = simulate("sda", net, Loud(obs.mean, obs.std), 9, 3, 3)
    np.testing.assert_allclose(loud.estimates, plain.estimates + 1, rtol=1e-12)


def test_a_mixin_and_a_drift_of_a_users_own_are_asked_too(small):
    class Louder:
        def sample(self, *args, **options):
            return super().sample(*args, **options) + 1

    class LoudGaussian(Louder, gs.Gaussian):
        pass

    class LoudDrift(Louder, gs.Drifting):
        pass

    class Quiet(gs.Gaussian):
        """Another constructor, the same samples."""

    net, obs = small
    plain = gs.Gaussian(obs.mean, obs.std)
    expected = simulate("sda", net, plain, 9, 3, 3).estimates + 1
    for loud in (LoudGaussian(obs.mean, obs.std), LoudDrift(plain, 0.0)):
        assert loud.normal_std is None
        np.testing.assert_allclose(simulate("sda", net, loud, 9, 3, 3).estimates, expected, rtol=1e-12)
    assert Quiet(obs.mean, obs.std).normal_std is not None
    assert gs.Drifting(plain, 0.1).normal_std is not None


def test_a_users_own_streams_need_only_say_what_uniforms_become(small):
    class Coin(UniformDriven):
        def __init__(self, agents):
            self.mean, self.variance = np.full((agents, 1), 0.5), np.full((agents, 1), 0.25)

        def from_uniforms(self, agents, *uniforms):
            return (uniforms[0] < 0.5).astype(float)

    net, _ = small
    own = simulate("sda", net, Coin(net.agents), 9, 3, 3).estimates
    np.testing.assert_array_equal(
        own, simulate("sda", net, gs.Bernoulli(np.full(net.agents, 0.5)), 9, 3, 3).estimates
    )
