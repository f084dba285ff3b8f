"""Every engine against every other, for every method."""

from __future__ import annotations

import threading

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import LINEAR, connected_networks
from tests.reference import full_covariance, round_by_round

import gossamer as gs
from gossamer.engines.exact import every_round, lanczos, propagate, weights
from gossamer.engines.simulate import layouts, simulate
from gossamer.methods import tabulate
from gossamer.numerics import threads as pools
from gossamer.numerics.threads import spread

VARIANTS = [
    *(cls() for cls in gs.METHODS.values() if cls.mixing == "matrix"),
    gs.SDA(burn_in=3, batch=4),
    gs.SDA(output="last", step_size=0.3, momentum=0.2),
    gs.SDA(batch=list(range(1, 60))),
    gs.AnytimeSDA("chebyshev"),
    gs.AnytimeSDA(smoothing=0),
    gs.AnytimeSDA(smoothing=7, gain=0.05),
    gs.DMASG(stages=1),
    gs.SSTM(counting="iterations"),
    gs.SSTM(batch=3),
    gs.RRMA(batch=2, effort=1.0),
    gs.SSDA(samples=5),
]


@pytest.mark.parametrize("method", VARIANTS, ids=repr)
@pytest.mark.parametrize("rounds", [1, 2, 23])
def test_exact_equals_the_full_covariance_recursion(method, rounds, small):
    if getattr(method, "burn_in", None) and method.burn_in >= rounds:
        pytest.skip("burn-in longer than the run")
    net, obs = small
    mean, cov = full_covariance(method, net, obs.mean[:, 0], obs.variance[:, 0], rounds)
    result = gs.exact(method, net, obs, rounds)
    target = obs.mean.mean()
    assert result.bias == pytest.approx(((mean - target) ** 2).sum(), rel=1e-9, abs=1e-20)
    assert result.variance == pytest.approx(np.trace(cov), rel=1e-9)
    assert result.total_error == result.bias + result.variance
    np.testing.assert_allclose(result.per_agent, (mean - target) ** 2 + np.diag(cov), rtol=1e-9)


@pytest.mark.parametrize("name", LINEAR)
def test_forward_equals_backward(name, small):
    net, _ = small
    table = tabulate(gs.METHODS[name](), net, 30)
    lam = np.linspace(0, net.lambda_max, 300)
    back_response, back_noise = propagate(table, lam, np.array([30]))
    response, noise = propagate(table, lam, np.array([29, 30]))
    np.testing.assert_allclose(response[1], back_response[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(noise[1], back_noise[0], rtol=1e-9, atol=1e-12)


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


@pytest.mark.parametrize("method", VARIANTS, ids=repr)
def test_simulation_agrees_with_exact_within_four_standard_errors(method, small):
    net, obs = small
    horizons = [24, 47]
    run = gs.simulate(method, net, obs, horizons, trials=2000, seed=2, keep_estimates=False)
    expected = gs.exact(method, net, obs, horizons)
    assert np.all(
        np.abs(run.total_error - expected.total_error) < 4 * run.stderr + 1e-12 * expected.total_error
    )


OBSERVATIONS = {
    "vector": lambda rng: gs.Gaussian(rng.normal(size=(12, 3)), rng.uniform(0, 2, size=(12, 3))),
    "bernoulli": lambda rng: gs.Bernoulli(rng.uniform(size=12)),
    "uniform": lambda rng: gs.Uniform(np.zeros(12), rng.uniform(1, 4, size=12)),
    "student": lambda rng: gs.StudentT(rng.normal(size=12), 2.0, df=8),
    "empirical": lambda rng: gs.Empirical(rng.normal(size=(12, 9, 2))),
    "drifting": lambda rng: gs.Drifting(gs.Gaussian(rng.normal(size=12)), rng.normal(size=12) * 0.05),
    "drifting uniform": lambda rng: gs.Drifting(gs.Uniform(0.0, np.ones(12)), 0.03),
    "noiseless": lambda rng: gs.Gaussian(rng.normal(size=12), 0.0),
}


@pytest.mark.parametrize("kind", OBSERVATIONS)
@pytest.mark.parametrize("method", [gs.AnytimeSDA(gain=0.1), gs.SDA(batch=3), gs.DSG()], ids=lambda m: m.name)
def test_all_observations_agree_with_exact(kind, method, small):
    net, _ = small
    obs = OBSERVATIONS[kind](np.random.default_rng(1))
    run = gs.simulate(method, net, obs, 40, trials=2000, seed=4)
    expected = gs.exact(method, net, obs, 40)
    assert abs(run.total_error - expected.total_error) < 4 * run.stderr + 1e-9 * expected.total_error
    assert run.estimates.shape == (2000, 12, obs.components)
    assert expected.per_agent.sum() == pytest.approx(expected.total_error, rel=1e-9)


def test_drifts_add_up(small):
    net, obs = small
    twice = gs.Drifting(gs.Drifting(obs, 0.1), 0.2)
    once = gs.Drifting(obs, 0.3)
    method = gs.AnytimeSDA(gain=0.3)
    assert gs.exact(method, net, twice, 30).total_error == pytest.approx(
        gs.exact(method, net, once, 30).total_error
    )
    a, b = (gs.simulate(method, net, o, 30, trials=3).estimates for o in (twice, once))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_single_fault_will_do(small):
    net, obs = small
    a = gs.simulate("anytime-sda", net, obs, 30, trials=4, faults=gs.faults.Loss(0.2))
    b = gs.simulate("anytime-sda", net, obs, 30, trials=4, faults=gs.faults.Faults(gs.faults.Loss(0.2)))
    np.testing.assert_array_equal(a.estimates, b.estimates)


def test_restarts_without_number_do_not_overflow():
    obs = gs.Gaussian(np.arange(5.0))
    assert np.isfinite(gs.exact("r-rrma-ac-sa2", gs.Network.complete(5), obs, 6000).total_error)


def test_drift_equals_the_full_recursion(small):
    net, obs = small
    rate = np.random.default_rng(0).normal(size=12)
    mean, cov = full_covariance(gs.AnytimeSDA(gain=0.2), net, obs.mean[:, 0], obs.variance[:, 0], 30, rate)
    drifting = gs.Drifting(obs, rate)
    result = gs.exact(gs.AnytimeSDA(gain=0.2), net, drifting, [30])
    target = (obs.mean[:, 0] + 29 * rate).mean()
    assert result.bias[0] == pytest.approx(((mean - target) ** 2).sum(), rel=1e-9)
    assert result.variance[0] == pytest.approx(np.trace(cov), rel=1e-9)
    np.testing.assert_allclose(result.per_agent[0], (mean - target) ** 2 + np.diag(cov), rtol=1e-9)


def test_a_constant_gain_tracks_a_drift_better():
    net = gs.Network.grid(4, 4)
    obs = gs.Drifting(gs.Gaussian(np.zeros(16)), 0.02)
    fixed, tracking = (gs.exact(gs.AnytimeSDA(gain=g), net, obs, 2000).total_error for g in (None, 0.05))
    assert tracking < fixed / 10


@pytest.mark.parametrize("name", ["sda", "anytime-sda", "dsg"])
def test_several_horizons_equal_one_at_a_time(name, small):
    net, obs = small
    horizons = [40, 7, 19, 19]
    together = gs.exact(name, net, obs, horizons)
    alone = [gs.exact(name, net, obs, t) for t in horizons]
    np.testing.assert_allclose(together.total_error, [r.total_error for r in alone], rtol=1e-10)
    np.testing.assert_allclose(together.per_agent, [r.per_agent for r in alone], rtol=1e-10)
    run = gs.simulate(name, net, obs, horizons, trials=3, seed=1)
    for k, t in enumerate(horizons):
        np.testing.assert_allclose(
            run.estimates[k], gs.simulate(name, net, obs, t, 3, 1).estimates, rtol=1e-12
        )


def test_every_round_is_exact_at_every_round(small):
    net, obs = small
    bias, variance = every_round("anytime-sda", net, obs, 50)
    expected = gs.exact("anytime-sda", net, obs, list(range(1, 51)))
    np.testing.assert_allclose(bias + variance, expected.total_error, rtol=1e-12)
    with pytest.raises(gs.Unsupported, match="depend on how many there are"):
        every_round("sda", net, obs, 50)


@given(
    connected_networks(),
    st.sampled_from(["sda", "anytime-sda", "dsg", "msda", "chebyshev"]),
    st.integers(0, 99),
)
def test_exact_equals_the_full_recursion_on_any_network(net, name, seed):
    if name == "dsg" and net.lambda_max > 2:
        return
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=net.agents), rng.uniform(0, 2, net.agents)
    method = gs.METHODS[name]()
    expected_mean, cov = full_covariance(method, net, mean, std**2, 9)
    result = gs.exact(method, net, gs.Gaussian(mean, std), 9)
    bias = ((expected_mean - mean.mean()) ** 2).sum()
    assert result.bias == pytest.approx(bias, rel=1e-9, abs=1e-12)
    assert result.variance == pytest.approx(np.trace(cov), rel=1e-9, abs=1e-12)


def test_weights_give_the_estimate(small):
    net, obs = small
    w = weights("anytime-sda", net, 15)
    seen = obs.sample(3, range(15), range(1))[:, :, 0, 0]
    expected = round_by_round(gs.AnytimeSDA(), net, seen[:, :, None])[:, 0]
    np.testing.assert_allclose(np.einsum("tij,tj->i", w, seen), expected, rtol=1e-10)


def test_lanczos_quadrature_agrees_with_the_full_spectrum(monkeypatch):
    rng = np.random.default_rng(0)
    net = gs.Network.random_geometric(600, seed=2)
    obs = gs.Gaussian(rng.uniform(0, 10, 600), rng.uniform(0.5, 1.5, 600))
    expected = gs.exact("anytime-sda", net, obs, [50, 400])
    other = gs.Network.random_geometric(600, seed=2)
    other.__dict__.update(lambda_max=net.lambda_max, lambda_2=net.lambda_2)
    other.__dict__.update(inverse_square_trace=net.inverse_square_trace, spectrum=None)
    found = gs.exact("anytime-sda", other, obs, [50, 400])
    assert np.all(found.uncertainty > 0)
    assert np.all(np.abs(found.total_error - expected.total_error) < 4 * found.uncertainty)
    assert np.all(found.uncertainty < 0.1 * expected.total_error)
    assert lanczos.PROBES > 4


def test_lanczos_says_what_it_cannot_give():
    net = gs.Network.path(20)
    net.__dict__["spectrum"] = None
    net.__dict__.update(lambda_max=1.3, lambda_2=0.01, inverse_square_trace=100.0)
    obs = gs.Gaussian(np.zeros(20))
    with pytest.raises(gs.Unsupported, match=r"errors per agent need a full spectrum.*gs.simulate"):
        _ = gs.exact("sda", net, obs, 10).per_agent
    with pytest.raises(gs.Unsupported, match=r"drifting means.*simulate it"):
        gs.exact("sda", net, gs.Drifting(obs, 0.1), 10)


@pytest.mark.slow
def test_a_million_agents_exactly():
    rng = np.random.default_rng(0)
    net = gs.Network.torus(1000, 1000)
    obs = gs.Gaussian(rng.uniform(0, 1, 10**6))
    result = gs.exact(gs.AnytimeSDA(), net, obs, 300)
    assert result.variance > gs.theory.centralized_limit(obs, 300)
    assert np.isfinite(result.total_error)


# -- simulation's own promises -------------------------------------------------------------------------------


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


def test_work_is_spread_over_as_many_threads_as_numba_takes(monkeypatch):
    threads = numba.get_num_threads()
    everyone = threading.Barrier(threads, timeout=60)
    done = []

    def meet(k):
        everyone.wait()
        done.append((k, threading.get_ident()))

    spread(meet, threads)
    assert sorted(k for k, _ in done) == list(range(threads))
    assert len({thread for _, thread in done}) == threads
    done.clear()
    monkeypatch.setattr(pools, "_pool", None)  # of one thread, the caller's own, nobody else is asked
    numba.set_num_threads(1)
    try:
        spread(done.append, 3)
    finally:
        numba.set_num_threads(threads)
    assert done == [0, 1, 2]


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS == 1, reason="needs a second thread")
def test_what_fails_in_another_thread_reaches_the_caller():
    caller, both = threading.get_ident(), threading.Barrier(2, timeout=60)

    def fail_elsewhere(k):
        both.wait()
        if threading.get_ident() != caller:
            raise LookupError("elsewhere")

    with pytest.raises(LookupError, match="elsewhere"):
        spread(fail_elsewhere, 2)


@pytest.mark.slow
def test_threads_over_agents_equal_threads_over_trials(monkeypatch):
    """Agents side by side or trials side by side: the same estimates to the last digit."""
    net = gs.Network.grid(50, 50)
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


def test_a_users_own_gaussian_is_asked_for_its_samples(small):
    class Loud(gs.Gaussian):
        def sample(self, *args, **options):
            return super().sample(*args, **options) + 1

    net, obs = small
    plain = simulate("sda", net, gs.Gaussian(obs.mean, obs.std), 9, 3, 3)
    loud = simulate("sda", net, Loud(obs.mean, obs.std), 9, 3, 3)
    np.testing.assert_allclose(loud.estimates, plain.estimates + 1, rtol=1e-12)


def test_trials_have_numbers(small):
    net, obs = small
    last = simulate("sda", net, obs, 5, 1, first_trial=2**32 - 1).estimates
    assert np.any(last != simulate("sda", net, obs, 5, 1).estimates)
    with pytest.raises(gs.InvalidInput, match=r"trials are numbered below 2\^32, got 4294967295 \+ 2"):
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


def test_random_exchanges_have_no_exact_error(small):
    for name in ("pairwise", "broadcast"):
        with pytest.raises(gs.Unsupported, match=r"random exchange each round; simulate it"):
            gs.exact(name, *small, 10)


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


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda n, o: gs.exact("sda", n, o, 0), "rounds must be at least 1, got 0"),
        (lambda n, o: gs.exact("sda", n, o, 2.5), "whole number"),
        (lambda n, o: gs.exact("sda", n, o, []), "whole number or a list"),
        (lambda n, o: gs.exact(gs.SDA(burn_in=10), n, o, 10), "got burn_in=10 and rounds=10"),
        (lambda n, o: gs.exact("sdaa", n, o, 10), "did you mean 'sda'"),
        (lambda n, o: gs.exact(gs.SDA, n, o, 10), "write its parentheses"),
        (
            lambda n, o: gs.exact("sda", gs.Network.path(5), o, 10),
            "network has 5 agents.*observations have 12",
        ),
        (lambda n, o: gs.exact("sda", n, o.mean, 10), "gs.Gaussian"),
        (lambda n, o: gs.simulate("sda", n, o, 10, trials=0), "trials must be"),
        (lambda n, o: gs.simulate("sda", n, o, 10, seed=-1), "seed"),
        (lambda n, o: gs.simulate("sda", n, o, 10, dtype=int), "float64 or numpy.float32"),
        (lambda n, o: gs.simulate("sda", n, o, 10, keep_estimates=False).estimates, "keep_estimates=True"),
        (lambda n, o: gs.exact(gs.SDA(batch=[1, 2]), n, o, 10), r"one number per round \(10\)"),
        (lambda n, o: gs.exact(gs.SDA(batch=0), n, o, 10), "at least 1, got 0"),
        (lambda n, o: gs.exact(gs.DMASG(stages=5), n, o, 10), "use fewer stages"),
        (lambda n, o: gs.SDA(step_size=-1.0), "step_size must be a finite number above 0, got -1.0"),
        (lambda n, o: gs.SDA(output="first"), "'average' or 'last'"),
        (lambda n, o: gs.AnytimeSDA("fast"), "'nesterov' or 'chebyshev'"),
        (lambda n, o: gs.AnytimeSDA(gain=2), "at most 1"),
        (lambda n, o: gs.Gaussian([1.0, np.nan]), "finite, got 1 NaN"),
        (
            lambda n, o: gs.Gaussian("abc"),
            "the means must be numbers, as many for each agent, got 'abc'",
        ),
        (lambda n, o: gs.Drifting([1, 2], 1), "the streams that drift are observations"),
        (lambda n, o: gs.StudentT([0.0], df="a"), "df must be a finite number above 2, got 'a'"),
        (lambda n, o: gs.plan(n, o, target=None), "target must be a number or several, got None"),
        (lambda n, o: gs.Gaussian([1.0, 2.0], -1.0), "std must not be negative"),
        (lambda n, o: gs.Gaussian(np.zeros((2, 3)), np.ones(2)), r"write std\[:, None\]"),
        (lambda n, o: gs.Gaussian(np.zeros((2, 2, 2))), r"got shape \(2, 2, 2\)"),
        (lambda n, o: gs.Bernoulli([0.5, 1.5]), "between 0 and 1"),
        (lambda n, o: gs.StudentT([0.0], df=2), "df must be a finite number above 2, got 2"),
        (lambda n, o: gs.Uniform([1.0], [0.0]), "low must not exceed high"),
        (lambda n, o: gs.Empirical(np.zeros(3)), r"\(agents, samples\)"),
        (lambda n, o: gs.Empirical([[1, 2], [1]]), "equally many recorded samples"),
        (lambda n, o: gs.Gaussian(np.zeros((2, 2)), [1, 2]), "per agent or per component"),
        (lambda n, o: gs.StudentT([0.0], df=np.inf), "finite"),
        (lambda n, o: gs.SDA(burn_in=2.5), "burn_in must be a whole number"),
        (lambda n, o: gs.exact(gs.SSDA(samples=2.5), n, o, 10), "samples must be a whole number"),
        (lambda n, o: gs.exact("sda", "grid:3x4", o, 10), "network such as gs.Network"),
        (lambda n, o: gs.simulate("sda", n, o, 10, first_trial=-3), "first_trial must be a whole number"),
        (lambda n, o: gs.exact("dsg", gs.Network.star(12, weights="laplacian"), o, 10), "lambda_max < 2"),
        (lambda n, o: gs.exact("sda", n, o, float("inf")), "finite"),
        (lambda n, o: gs.theory.theorem_1(gs.Network.path(5), o, 10), "network has 5 agents"),
        (lambda n, o: gs.plan(n, o, "1e-3"), "target must be a number"),
        (lambda n, o: gs.theory.k_star(float("inf")), "finite"),
    ],
)
def test_bad_input_says_what_was_wrong(call, text, small):
    with pytest.raises(gs.GossamerError, match=text):
        call(*small)
