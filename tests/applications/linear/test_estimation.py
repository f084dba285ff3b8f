"""Distributed linear estimation against closed forms, direct least squares and slow, obvious references."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.applications import Alone, Centralized, KarMoura, LinearEstimation, XiaoBoydLall
from gossamer.applications.linear.dealing import deal

NETWORK = gs.Network.grid(3, 4)


@pytest.fixture(scope="module")
def problem() -> LinearEstimation:
    return LinearEstimation.random(NETWORK, 3, 2, seed=2)


def unlike_sensors(weighting: str = "plain", noise: bool = True) -> LinearEstimation:
    """Sensors of different shapes with full covariances."""
    rng = np.random.default_rng(5)
    matrices = [rng.normal(size=(1 + i % 3, 3)) for i in range(12)]
    roots = [rng.normal(size=(len(a), len(a))) for a in matrices]
    covariances = [r @ r.T + 0.1 * np.eye(len(r)) if noise else np.zeros((len(r), len(r))) for r in roots]
    return LinearEstimation(NETWORK, matrices, [1.0, -2.0, 0.5], covariances, weighting=weighting)


@pytest.mark.slow
@pytest.mark.parametrize("method", [gs.SDA(), gs.AnytimeSDA(), gs.DSG()])
def test_the_exact_error_is_the_mean_of_simulated_errors(method):
    problem = unlike_sensors()
    exact = problem.exact(method, [40, 120])
    run = problem.simulate(method, [40, 120], trials=600, gram="exact")
    assert np.all(np.abs(run.total_error - exact.total_error) < 4 * run.stderr)
    spread = run.estimates - problem.parameter
    each = (spread**2).sum(axis=3)
    stderr = each.std(axis=1) / np.sqrt(600)
    assert np.all(np.abs(run.per_agent - exact.per_agent) < 5 * stderr)


def test_the_simulated_noise_has_the_covariance_of_the_measurements():
    problem = unlike_sensors()
    drawn = problem.moments.sample(3, range(1, 6), range(4000))
    for i, a in enumerate(problem.matrices):
        samples = np.moveaxis(drawn[:, i], 1, 0).reshape(3, -1)
        wanted = a.T @ problem.covariances[i] @ a
        assert np.cov(samples) == pytest.approx(wanted, abs=0.06 * np.abs(wanted).max())
        assert samples.mean(axis=1) == pytest.approx(
            a.T @ a @ problem.parameter, abs=5 * np.sqrt(wanted.max() / 20000)
        )


def test_precision_weighting_is_generalized_least_squares():
    problem = unlike_sensors("precision")
    rng = np.random.default_rng(1)
    online = problem.online()
    rounds = 5
    total = [np.zeros(len(a)) for a in problem.matrices]
    for _ in range(rounds):
        measured = [a @ problem.parameter + rng.normal(size=len(a)) for a in problem.matrices]
        total = [s + y for s, y in zip(total, measured, strict=True)]
        online.observe(measured)
    for _ in range(400):
        online.observe()
    stacked = np.vstack(problem.matrices)
    precision = np.zeros((len(stacked), len(stacked)))
    start = 0
    for s in problem.covariances:
        precision[start : start + len(s), start : start + len(s)] = np.linalg.inv(s)
        start += len(s)
    mean = np.concatenate(total) / rounds
    direct = np.linalg.solve(stacked.T @ precision @ stacked, stacked.T @ precision @ mean)
    assert np.abs(online.estimate() - direct).max() < 1e-9
    # Its error is the smallest that any linear unbiased estimate has.
    best = 12 * np.trace(np.linalg.inv(stacked.T @ precision @ stacked)) / 50
    assert problem.centralized_error(50) == pytest.approx(best)
    assert best < problem.weighted("plain").centralized_error(50)
    assert problem.exact("anytime-sda", 20000).total_error == pytest.approx(
        problem.centralized_error(20000), rel=1e-3
    )


def test_feeding_the_stream_by_hand_is_the_simulation(problem):
    online = problem.online()
    samples = problem.moments.sample(7, range(60), range(1))[..., 0]
    for t in range(60):
        # A measurement whose image under A_i' is the sampled moment.
        online.observe(
            [
                np.linalg.lstsq(a.T, m, rcond=None)[0]
                for a, m in zip(problem.matrices, samples[t], strict=True)
            ]
        )
    run = problem.simulate("anytime-sda", 60, trials=1, seed=7)
    assert online.estimate() == pytest.approx(run.estimates[0], abs=1e-9)


def test_agents_may_measure_at_different_rates():
    problem = unlike_sensors(noise=False)
    online = problem.online()
    for t in range(300):
        online.observe(
            [a @ problem.parameter if t % (1 + i) == 0 else None for i, a in enumerate(problem.matrices)]
        )
    assert np.abs(online.estimate() - problem.parameter).max() < 1e-9


def test_matrices_may_change_every_round():
    problem = unlike_sensors(noise=False)
    rng = np.random.default_rng(0)
    online = problem.online()
    for _ in range(200):
        matrices = [rng.normal(size=(1, 3)) for _ in range(12)]
        online.observe([a @ problem.parameter for a in matrices], matrices)
    assert online.ready
    assert np.abs(online.estimate() - problem.parameter).max() < 1e-9


def test_averaging_the_matrices_alike_leaves_no_bias():
    problem = unlike_sensors(noise=False)
    alike = problem.simulate("dsg", 40, trials=1).total_error
    apart = problem.simulate("dsg", 40, trials=1, gram="exact").total_error
    assert alike < 1e-20 < 1e-3 < apart


@pytest.mark.slow
def test_rounds_needed_before_inverting_are_the_fewest(problem):
    for method in ("chebyshev", gs.SDA(output="last"), "anytime-sda"):
        enough = problem.gram_rounds_needed(method)
        assert problem.gram_margin(problem.average_grams(method, enough)) <= 0.5
        assert problem.gram_margin(problem.average_grams(method, enough - 1)) > 0.5
    with pytest.raises(
        gs.InvalidInput, match=r"too early to invert: .* after 3 rounds of sda, .* takes \d+ rounds"
    ):
        problem.simulate("sda", 3)
    online = problem.online()
    online.observe([a @ problem.parameter for a in problem.matrices])
    assert not online.ready
    with pytest.raises(
        gs.InvalidInput, match=r"too early to invert: .* after 1 rounds, .* \d+ rounds are enough"
    ):
        online.estimate()


def test_horizons_that_are_too_early_have_a_note_and_the_others_their_errors(problem):
    needed = problem.gram_rounds_needed("sda")
    run = problem.simulate("sda", [2, needed + 5], trials=4)
    assert np.isnan(run.total_error[0])
    assert run.total_error[1] == problem.simulate("sda", needed + 5, trials=4).total_error
    early, late = (row["note"] for row in run.records())
    assert "too early to invert" in early
    assert f"takes {needed} rounds" in early
    assert late == ""


def test_corollary_1_has_two_terms_and_holds(problem):
    method = gs.SDA()
    for rounds in (100, 1000):
        bound = problem.bound(rounds, gram_rounds=rounds)
        assert list(bound.terms) == ["matrix (T1)", "vector (T2)"]
        assert bound.applies
        run = problem.simulate(method, rounds, trials=50, gram=gs.SDA(output="last"))
        assert run.total_error < bound.total


# -- rivals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["LU", "mixed"])
@pytest.mark.parametrize("gain", ["efficient", "identity"])
def test_consensus_and_innovations_against_a_plain_loop(form, gain):
    problem = unlike_sensors()
    rounds, trials, seed = 9, 3, 4
    weighted = problem.weighted("precision")
    average = weighted.grams.mean(axis=0)
    k = np.linalg.inv(average) if gain == "efficient" else np.eye(3)
    strongest = max(np.linalg.norm(k @ g, 2) for g in weighted.grams)
    a = (2 if form == "mixed" else 4) if gain == "efficient" else 1.5 / np.linalg.eigvalsh(average)[0]
    delay = (0.5 if form == "mixed" else 1) * a * strongest - 1
    rival = KarMoura(form, gain, a=None if gain == "efficient" else a)
    run = problem.simulate(rival, [rounds, 5], trials=trials, seed=seed)
    gossip = NETWORK.gossip.toarray()
    drawn = weighted.moments.sample(seed, range(rounds), range(trials))
    for trial in range(trials):
        x = np.zeros((12, 3))
        for t in range(rounds):
            a_t = a / (t + 1 + delay)
            if form == "mixed":
                b_t = 1 / NETWORK.lambda_max / (t + 1) ** 0.1
            else:
                b_t = a_t / (a / (1 + delay)) / NETWORK.lambda_max
            mixed = gossip @ x
            x = np.stack(
                [
                    x[i] - b_t * mixed[i] + a_t * k @ (drawn[t, i, :, trial] - weighted.grams[i] @ x[i])
                    for i in range(12)
                ]
            )
            if t == 4:
                assert run.estimates[1, trial] == pytest.approx(x, abs=1e-10)
        assert run.estimates[0, trial] == pytest.approx(x, abs=1e-10)


def test_xiao_boyd_lall_against_a_plain_loop():
    problem = unlike_sensors()
    run = problem.simulate(XiaoBoydLall(samples=4), 25, trials=2, seed=3)
    weighted = problem.weighted("precision")
    mixing = np.linalg.matrix_power(np.eye(12) - NETWORK.gossip.toarray(), 25)
    first = weighted.moments.sample(3, range(1), range(2), batches=np.array([4.0]))[0]
    p = np.einsum("ij,jab->iab", mixing, weighted.grams)
    q = np.einsum("ij,jat->tia", mixing, first)
    expected = np.stack([[np.linalg.solve(p[i], q[t, i]) for i in range(12)] for t in range(2)])
    assert run.estimates == pytest.approx(expected, abs=1e-9)


def test_waiting_for_all_samples_makes_xiao_boyd_lall_good(problem):
    once = problem.simulate(XiaoBoydLall(), 200, trials=100).total_error
    waited = problem.simulate(XiaoBoydLall(samples=None), 200, trials=100)
    limit = problem.weighted("precision").centralized_error(200)
    assert abs(waited.total_error - limit) < 4 * waited.stderr + 0.01 * limit
    assert once > 100 * waited.total_error


def test_yardsticks_have_their_closed_forms():
    problem = unlike_sensors()
    central = problem.simulate(Centralized(), 30, trials=800)
    assert abs(central.total_error - problem.centralized_error(30)) < 4 * central.stderr
    alone = problem.simulate(Alone(), 30, trials=800)
    expected = 0.0
    for a, s in zip(problem.matrices, problem.covariances, strict=True):
        inverse = np.linalg.pinv(a)
        expected += np.sum((problem.parameter - inverse @ a @ problem.parameter) ** 2)
        expected += np.trace(inverse @ s @ inverse.T) / 30
    assert abs(alone.total_error - expected) < 4 * alone.stderr


# -- from data --------------------------------------------------------------------------------------------------


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(90, 4)) * [1, 2, 3, 0.5]
    return x, x @ [1, -1, 2, 3] + 5 + rng.normal(size=90)


@pytest.mark.parametrize("split", ["contiguous", "random", np.arange(90) % 6])
@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_every_agent_reaches_the_pooled_fit(split, kind):
    x, y = table()
    names = ["a", "b", "c", "d"]
    frame = {"numpy": x, "pandas": pd.DataFrame(x, columns=names), "polars": pl.DataFrame(x, schema=names)}[
        kind
    ]
    problem = LinearEstimation.from_data(frame, y, agents=6, split=split, intercept=True)
    pooled = np.linalg.lstsq(np.column_stack([x, np.ones(90)]), y, rcond=None)[0]
    assert np.abs(problem.estimate(rounds=60) - pooled).max() < 1e-8
    assert problem.names == (
        [*names, "intercept"] if kind != "numpy" else ["x0", "x1", "x2", "x3", "intercept"]
    )


def test_the_pooled_fit_does_not_depend_on_units():
    x, y = table()
    units = np.array([1e9, 1.0, 1e-9, 1.0])
    plain, scaled = (LinearEstimation.from_data(x * u, y, agents=6).parameter for u in (1.0, units))
    np.testing.assert_allclose(scaled[:4] * units, plain[:4], rtol=1e-9)


def test_one_agent_per_value_of_a_column():
    x, y = table()
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d"])
    frame["town"] = np.array(["ely", "york", "bath"])[np.arange(90) % 3]
    frame["price"] = y
    problem = LinearEstimation.from_data(frame, "price", agents=gs.Network.path(3), split="by:town")
    assert problem.labels == ["bath", "ely", "york"]
    assert problem.names == ["a", "b", "c", "d", "intercept"]
    known = np.linalg.lstsq(np.column_stack([x, np.ones(90)]), y, rcond=None)[0]
    assert np.abs(problem.estimate(rounds=40) - known).max() < 1e-8


@given(st.integers(2, 9), st.integers(10, 40), st.sampled_from(["contiguous", "random"]))
@settings(max_examples=25, deadline=None)
def test_every_row_is_dealt_exactly_once(agents, rows, split):
    dealt = deal(np.arange(rows), np.arange(rows), agents, split, False, 1)
    assert len(dealt.features) == agents
    assert sorted(np.concatenate(dealt.targets)) == list(range(rows))
    for x, y in zip(dealt.features, dealt.targets, strict=True):
        assert np.array_equal(x[:, 0], y)


# -- bad input --------------------------------------------------------------------------------------------------


def test_the_direction_nobody_observes_is_named():
    frame = pd.DataFrame({"height": [1.0, 2, 3, 4], "meters": [2.0, 4, 6, 8], "age": [3.0, 1, 2, 2]})
    with pytest.raises(
        gs.InvalidInput, match=r"no sensor observes the direction 1 height - 0\.5 meters: the sum of"
    ):
        LinearEstimation.from_data(frame, [1.0, 2, 3, 4], agents=2)
    blind = [[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]]
    with pytest.raises(
        gs.InvalidInput, match=r"direction 1 beta2: .* let some sensor measure that direction"
    ):
        LinearEstimation(gs.Network.path(2), blind, [1, 2, 3])


def test_very_different_units_are_no_reason_to_complain():
    LinearEstimation(gs.Network.path(2), [[[1e-9, 0.0]], [[0.0, 1e9]]], [1, 2])


X, Y = np.eye(4), np.arange(4.0)
EYES = [np.eye(2)] * 2


def two(*arguments, **options):
    return LinearEstimation(gs.Network.path(2), *arguments, **options)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: two([np.eye(2)], [1, 2]), "one matrix A_i per sensor .* 2 agents, got 1 matrices"),
        (lambda: two([np.eye(2), np.eye(3)], [1, 2]), "same number of columns.*A_0 has 2, but A_1 has 3"),
        (lambda: two([np.eye(2), np.eye(2) * np.nan], [1, 2]), "A_1 must be finite"),
        (lambda: two(EYES, [1, 2, 3]), r"parameter must be an array of shape \(2,\), got shape \(3,\)"),
        (lambda: two(EYES, [1, 2], [1.0]), "got 1 for 2 sensors"),
        (lambda: two(EYES, [1, 2], [1.0, np.eye(3)]), r"shape \(2, 2\), got \(3, 3\)"),
        (lambda: two(EYES, [1, 2], -1.0), "positive semi-definite, but it has the eigenvalue -1"),
        (lambda: two(EYES, [1, 2], weighting="best"), "'plain' or 'precision', got 'best'"),
        (lambda: two(EYES, [1, 2], 0.0, weighting="precision").grams, "sensor 0 is singular"),
        (lambda: two(EYES, [1, 2]).estimate(), "for recorded data"),
        (lambda: two(EYES, [1, 2]).online("sda"), "need the method AnytimeSDA"),
        (lambda: two(EYES, [1, 2]).online().observe([[1, 2]]), "one measurement .* 2, got 1"),
        (lambda: two(EYES, [1, 2]).online().observe([[1], [2]]), "agent 0 measures 2 finite numbers"),
        (lambda: two(EYES, [1, 2]).simulate("pairwise", 9), "pairwise mixes at random"),
        (lambda: two(EYES, [1, 2]).simulate("sda", 9, trials=0), "trials must be a whole number of at least 1, got 0"),
        (lambda: LinearEstimation.from_data(X, Y), "needs the number of agents"),
        (lambda: LinearEstimation.from_data(X, Y, 5), "between 2 and 4 agents can share 4 rows, got agents=5"),
        (lambda: LinearEstimation.from_data(X, Y[:3], 2), r"one value per row of X \(4\), got shape \(3,\)"),
        (lambda: LinearEstimation.from_data(X, "price", 2), "'price', which the data do not have"),
        (lambda: LinearEstimation.from_data(X, Y, 2, "by:town"), "names a column that the data do not have"),
        (lambda: LinearEstimation.from_data(X, Y, 2, "randon"), r"got 'randon' \(did you mean 'random'\?\)"),
        (lambda: LinearEstimation.from_data(X, Y, 2, [1, 2]), r"one label per row \(4\)"),
        (lambda: LinearEstimation.from_data(X, Y, 2, [1, 2, 3, 3]), "3 different labels, one per agent, got agents=2"),
        (lambda: LinearEstimation.from_data(X, Y, None, [1, 1, 1, 1]), "at least 2 different labels"),
        (lambda: LinearEstimation.from_data(X * np.nan, Y, 2), "column 'x0' must be finite, but 4 of 4 values"),
        (lambda: LinearEstimation.from_data(pd.DataFrame({"t": list("abcd")}), Y, 2), "column 't' must hold numbers"),
        (lambda: KarMoura("NLU"), "'LU' or 'mixed', got 'NLU'"),
        (lambda: KarMoura(gain="best"), "'efficient' or 'identity'"),
        (lambda: KarMoura(tau=0.7), "tau must be a finite number above 0 and below 0.5, got 0.7"),
    ],
)  # fmt: skip
def test_bad_input_is_explained(call, text):
    with pytest.raises(gs.InvalidInput, match=text):
        call()


def test_exact_errors_of_rivals_are_refused(problem):
    with pytest.raises(gs.Unsupported, match="use simulate"):
        problem.exact(KarMoura(), 10)


def test_samples_do_not_depend_on_how_they_are_asked_for(problem):
    whole = problem.moments.sample(1, range(10), range(6))
    part = problem.moments.sample(1, range(3, 9), range(2, 5), agents=range(4, 7))
    assert np.array_equal(part, whole[3:9, 4:7, :, 2:5])
