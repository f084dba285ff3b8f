"""Policy evaluation against direct solutions, plain loops, rates and the corollary's bound."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gossamer as gs
from gossamer.applications import Alone, Centralized, PolicyEvaluation, TemporalDifference
from gossamer.applications.policy import bellman, problems, rivals
from gossamer.applications.policy.temporal_differences import TRANSITION
from gossamer.applications.solvers import averages
from gossamer.numerics import random

NETWORK = gs.Network.erdos_renyi(8, seed=3)


def small(discount: float = 0.8, states: int = 6) -> PolicyEvaluation:
    return PolicyEvaluation.from_problem(NETWORK, problems.garnet(states, 3, seed=1), discount, seed=2)


def next_states(problem: PolicyEvaluation, seed: int, trial: int, rounds: int) -> np.ndarray:
    """(rounds, S) by searching the cumulative distribution with the documented uniforms."""
    uniforms = random.uniforms(
        seed, TRANSITION, range(trial, trial + 1), range(problem.states), 1, range(rounds)
    )
    dense = np.cumsum(problem.transitions.toarray(), axis=1)
    dense[:, -1] = 2
    return np.stack(
        [
            [np.searchsorted(dense[j], u, side="right") for j, u in enumerate(row)]
            for row in uniforms[:, :, 0, 0]
        ]
    )


def test_the_values_solve_the_bellman_equation():
    problem = small()
    mean = problem.rewards.mean(axis=0)
    assert problem.values == pytest.approx(mean + 0.8 * problem.transitions @ problem.values)


@pytest.mark.parametrize("method", ["sda", "anytime-sda"])
def test_the_plug_in_estimate_against_a_plain_loop(method):
    problem = small()
    horizons = [40, 15]
    run = problem.simulate(method, horizons, trials=2, seed=5)
    rewards = gs.simulate(method, NETWORK, problem.streams, horizons, trials=2, seed=5).estimates
    for h, horizon in enumerate(horizons):
        for trial in range(2):
            counts = np.zeros((6, 6))
            for row in next_states(problem, 5, trial, horizon):
                counts[np.arange(6), row] += 1
            for i in range(8):
                value = np.linalg.solve(np.eye(6) - 0.8 * counts / horizon, rewards[h, trial, i])
                assert run.values[h, trial, i] == pytest.approx(value)
            worst = np.abs(run.values[h, trial] - problem.values).max()
            assert run.errors[h, trial] == pytest.approx(worst)
    assert run.error == pytest.approx(run.errors.mean(axis=1))


@pytest.mark.parametrize("output", ["last", "average"])
@pytest.mark.parametrize("radius", [None, 2.0])
def test_generative_temporal_differences_against_a_plain_loop(output, radius):
    problem = small()
    rival = TemporalDifference(output=output, radius=radius, step="sqrt", step_size=0.5)
    rounds = 11
    run = problem.simulate(rival, [rounds, 6], trials=2, seed=9)
    steps = rival.steps(problem, rounds)
    weights = np.eye(8) - NETWORK.gossip.toarray()
    for trial in range(2):
        rewards = problem.streams.sample(9, range(rounds), range(trial, trial + 1))[..., 0]
        following = next_states(problem, 9, trial, rounds)
        theta, total, weight = np.zeros((8, 6)), np.zeros((8, 6)), 0.0
        for t in range(rounds):
            total, weight = total + steps[t] * theta, weight + steps[t]
            target = rewards[t] + 0.8 * theta[:, following[t]]
            theta = weights @ theta + steps[t] * (target - theta)
            if radius:
                theta = theta * np.minimum(1, radius / np.linalg.norm(theta, axis=1, keepdims=True))
            if t == 5:
                answer = theta if output == "last" else total / weight
                assert run.values[1, trial] == pytest.approx(answer)
        answer = theta if output == "last" else total / weight
        assert run.values[0, trial] == pytest.approx(answer)


def test_independent_temporal_differences_against_a_plain_loop():
    problem = small()
    features = np.random.default_rng(1).normal(size=(6, 4))
    rival = TemporalDifference("iid", step="constant", step_size=0.3, features=features, radius=5.0)
    rounds = 30
    run = problem.simulate(rival, rounds, trials=1, seed=2)
    steps = rival.steps(problem, rounds)
    weights = np.eye(8) - NETWORK.gossip.toarray()
    start = np.cumsum(problem.stationary_distribution())
    dense = np.cumsum(problem.transitions.toarray(), axis=1)
    visited = random.uniforms(2, TRANSITION, range(1), range(1), 2, range(rounds))[:, 0, 1, 0]
    moved = random.uniforms(2, TRANSITION, range(1), range(1), 3, range(4 * rounds))[::4, 0, 2, 0]
    noise = random.normals(2, random.OBSERVATION, range(1), range(8), 1, range(rounds))[:, :, 0, 0]
    theta = np.zeros((8, 4))
    for t in range(rounds):
        s = min(int(np.searchsorted(start, visited[t], side="right")), 5)
        after = min(int(np.searchsorted(dense[s], moved[t], side="right")), 5)
        reward = problem.rewards[:, s] + problem.reward_std[:, s] * noise[t]
        change = reward + 0.8 * theta @ features[after] - theta @ features[s]
        theta = weights @ theta + steps[t] * change[:, None] * features[s]
        theta = theta * np.minimum(1, 5.0 / np.maximum(np.linalg.norm(theta, axis=1, keepdims=True), 1e-300))
    assert run.values[0] == pytest.approx(theta @ features.T)


@pytest.mark.slow
def test_temporal_differences_converge():
    problem = small()
    for rival in (
        TemporalDifference(),
        TemporalDifference(step="sqrt", output="average"),
        TemporalDifference("iid"),
    ):
        run = problem.simulate(rival, [200, 20000], trials=4)
        assert run.error[1] < 0.45 * run.error[0]
        assert run.error[1] < 0.5


def test_every_solver_sees_the_same_samples():
    problem = small()
    alone = problem.simulate(Alone(), 50, trials=3)
    central = problem.simulate(Centralized(), 50, trials=3)
    assert central.values == pytest.approx(
        np.broadcast_to(alone.values.mean(axis=1, keepdims=True), (3, 8, 6))
    )


def test_feeding_samples_by_hand_is_the_simulation():
    problem = small()
    online = problem.online()
    rewards = problem.streams.sample(4, range(30), range(1))[..., 0]
    for t, row in enumerate(next_states(problem, 4, 0, 30)):
        online.observe(row, rewards[t])
    assert online.rounds == 30
    assert online.values() == pytest.approx(problem.simulate("anytime-sda", 30, trials=1, seed=4).values[0])


def test_forgetting_the_values_changes_nothing_else():
    problem = small()
    kept, forgotten = (problem.simulate("sda", [20, 60], trials=5, keep=keep) for keep in (True, False))
    assert forgotten.values is None
    assert np.array_equal(kept.errors, forgotten.errors)


@pytest.mark.parametrize(
    "method", [gs.SDA(), gs.SDA(batch=3), gs.AnytimeSDA("chebyshev"), gs.DMASG(), gs.SSTM()]
)
def test_many_streams_of_few_trials_are_the_engines(method):
    streams = gs.Gaussian(
        np.random.default_rng(0).normal(size=(8, 20)), np.linspace(0, 2, 160).reshape(8, 20)
    )
    found = averages(method, NETWORK, streams, np.array([50, 20]), 3, 1)
    assert found == pytest.approx(
        gs.simulate(method, NETWORK, streams, [50, 20], trials=3, seed=1).estimates, abs=1e-12
    )


# -- many states ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "process",
    [problems.garnet(400, 3), problems.chain(400, 0.6), problems.grid_world(20, 20)],
    ids=lambda p: p.name,
)
@pytest.mark.parametrize("discount", [0.5, 0.999])
def test_sparse_solutions_are_the_dense_ones(process, discount):
    rewards = np.random.default_rng(0).normal(size=(process.states, 5))
    dense = np.linalg.solve(np.eye(process.states) - discount * process.transitions.toarray(), rewards)
    assert bellman.solve(process.transitions, discount, rewards) == pytest.approx(dense, rel=1e-7, abs=1e-7)


@pytest.mark.slow
def test_several_thousand_states():
    problem = PolicyEvaluation.from_problem(NETWORK, problems.garnet(4000, 4, seed=1), 0.9)
    run = problem.simulate("anytime-sda", [50, 200], trials=1)
    assert 0.3 < run.error[1] / run.error[0] < 0.7  # (50/200)^(1/2) = 0.5


# -- what the paper says ----------------------------------------------------------------------------------------


def test_corollary_2_has_four_terms_and_holds():
    problem = small(0.9)
    for rounds in (100, 1000):
        bound = problem.bound(rounds)
        assert (len(bound.terms), len(bound.order)) == (4, 5)
        assert bound.applies
        assert problem.simulate("sda", rounds, trials=20).error < bound.total


@pytest.mark.slow
def test_the_error_falls_with_the_square_root_of_the_rounds():
    """The fitted slope of log error against log T is -1/2 for the plug-in estimator on any network."""
    rounds = np.array([400, 800, 1600, 3200, 6400])
    for network in (gs.Network.path(8), NETWORK):
        problem = PolicyEvaluation.from_problem(network, problems.garnet(10, 3, seed=1), 0.9)
        for method in ("anytime-sda", "sda"):
            run = problem.simulate(method, rounds, trials=48, keep=False)
            noise = np.log1p(run.stderr / run.error)
            slope = np.polyfit(np.log(rounds), np.log(run.error), 1)[0]
            # Horizons of one trial share samples, so the standard errors are those of the two ends.
            allowed = 4 * np.hypot(noise[0], noise[-1]) / np.log(rounds[-1] / rounds[0])
            assert abs(slope + 0.5) < allowed + (0.03 if method == "anytime-sda" else 0.12)


@pytest.mark.slow
def test_the_error_grows_more_slowly_than_the_corollary_allows():
    """Against 1/(1 - gamma) the corollary's leading term has slope 3/2."""
    discounts = np.array([0.8, 0.9, 0.95, 0.99])
    errors = [small(g, 10).simulate("anytime-sda", 2000, trials=40, keep=False).error for g in discounts]
    slope = np.polyfit(np.log(1 / (1 - discounts)), np.log(errors), 1)[0]
    assert 0.8 < slope < 1.5


# -- bad input --------------------------------------------------------------------------------------------------

HALVES = np.full((2, 2), 0.5)
ONES = np.ones((2, 2))


def pair(*arguments):
    return PolicyEvaluation(gs.Network.path(2), *arguments)


def iid(**options):
    return small().simulate(TemporalDifference("iid", **options), 5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: pair([[0.5, 0.4], [0, 1]], ONES, 0.9), "row 0 sums to 0.9; a row holds"),
        (lambda: pair([[1.5, -0.5], [0, 1]], ONES, 0.9), "finite and not negative"),
        (lambda: pair(np.full((2, 3), 1 / 3), ONES, 0.9), r"square, got shape \(2, 3\)"),
        (lambda: pair(HALVES, ONES, 1.0), "at least 0 and below 1, got 1.0"),
        (lambda: pair(HALVES, ONES, -0.1), "at least 0 and below 1, got -0.1"),
        (lambda: pair(HALVES, ONES, float("nan")), "at least 0 and below 1, got nan"),
        (lambda: pair(HALVES, np.ones((3, 2)), 0.9), r"shape \(2, 2\), got shape \(3, 2\)"),
        (lambda: pair(HALVES, ONES * np.inf, 0.9), "rewards must be finite, got 4 NaN or infinite"),
        (lambda: pair(HALVES, ONES, 0.9, -1.0), "std must not be negative"),
        (lambda: small().simulate("sdaa", 5), "no method is called 'sdaa'"),
        (lambda: small().simulate(TemporalDifference(), 5, trials=0), "trials must be a whole number"),
        (lambda: small().simulate("sda", 0), "rounds must be at least 1, got 0"),
        (lambda: small().online().values(), "no values before the first round"),
        (lambda: small().online().observe([0], np.ones((8, 6))), r"next_states must be .* of shape \(6,\)"),
        (lambda: small().online().observe([6] * 6, np.ones((8, 6))), "numbers from 0 to 5"),
        (lambda: TemporalDifference("online"), "'generative' or 'iid', got 'online'"),
        (lambda: TemporalDifference(step="harmonc"), r"got 'harmonc' \(did you mean 'harmonic'\?\)"),
        (lambda: TemporalDifference(output="mean"), "'last' or 'average', got 'mean'"),
        (lambda: TemporalDifference(radius=0), "radius must be a finite number above 0"),
        (lambda: TemporalDifference(features=np.eye(2)), "belong to form='iid'"),
        (lambda: iid(features=np.eye(2)), r"\(6, p\), got shape \(2, 2\)"),
        (lambda: iid(distribution=[1, 1]), r"one probability per state \(6\)"),
    ],
)  # fmt: skip
def test_bad_input_is_explained(call, text):
    with pytest.raises(gs.InvalidInput, match=text):
        call()


def test_temporal_differences_refuse_weights_that_do_not_mix():
    problem = PolicyEvaluation(gs.Network.star(6, "laplacian"), sp.eye(2), np.ones((6, 2)), 0.5)
    with pytest.raises(gs.InvalidInput, match=r"lambda_max\(L\) < 2, but it is 6 here"):
        problem.simulate(TemporalDifference(), 5)


# -- rewards of other kinds, and other norms ---------------------------------------------------------------------


def test_rewards_may_be_streams_of_any_kind():
    rng = np.random.default_rng(4)
    chances, transitions = rng.uniform(size=(6, 3)), rng.dirichlet(np.ones(3), size=3)
    coins = PolicyEvaluation(gs.Network.cycle(6), transitions, gs.Bernoulli(chances), 0.5)
    plain = PolicyEvaluation(gs.Network.cycle(6), transitions, chances, 0.5, np.sqrt(chances * (1 - chances)))
    np.testing.assert_allclose(coins.values, plain.values)
    for solver in ("anytime-sda", "sda", Centralized(), TemporalDifference(), TemporalDifference("iid")):
        one, other = (task.simulate(solver, 400, trials=40) for task in (coins, plain))
        assert abs(one.error - other.error) < 4 * np.hypot(one.stderr, other.stderr)
    assert coins.bound(400).total == pytest.approx(plain.bound(400).total)
    with pytest.raises(gs.InvalidInput, match=r"a component for each state, \(6, 3\), got \(6, 1\)"):
        PolicyEvaluation(gs.Network.cycle(6), transitions, gs.Bernoulli(chances[:, :1]), 0.5)
    with pytest.raises(gs.InvalidInput, match="leave it out"):
        PolicyEvaluation(gs.Network.cycle(6), transitions, gs.Bernoulli(chances), 0.5, 1.0)
    with pytest.raises(gs.InvalidInput, match="do not move"):
        PolicyEvaluation(gs.Network.cycle(6), transitions, gs.Drifting(gs.Gaussian(chances), 0.1), 0.5)


class Given(gs.Observations):
    """Gaussian rewards as streams of an unknown kind; with `shared`, all states have the noise of the first."""

    def __init__(self, plain, shared):
        self.plain, self.shared = plain, shared
        self.mean, self.variance = plain.mean, plain.variance

    def sample(self, seed, rounds, trials, agents=None, batches=None):
        drawn = self.plain.sample(seed, rounds, trials, agents, batches)
        noise = drawn - self.mean[:, :, None]
        return self.mean[:, :, None] + noise[:, :, :1] if self.shared else drawn


@pytest.mark.parametrize("form", ["generative", "iid"])
@pytest.mark.parametrize("output", ["last", "average"])
def test_temporal_differences_of_any_stream_are_those_of_gaussian_rewards(form, output, monkeypatch):
    """Bit for bit: the rewards and the transitions are the same numbers, in pieces or in one go."""
    monkeypatch.setattr(rivals, "IN_FLIGHT", 8 * 5 * 3 * 2)
    rng = np.random.default_rng(4)
    transitions = rng.dirichlet(np.ones(3), size=3)
    plain = gs.Gaussian(np.zeros((5, 3)) if form == "iid" else rng.normal(size=(5, 3)), 2.0)
    task, other = (
        PolicyEvaluation(gs.Network.path(5), transitions, each, 0.5)
        for each in (plain, Given(plain, form == "iid"))
    )
    rival = TemporalDifference(form, output=output)
    one, same = (each.simulate(rival, [7, 8, 30], trials=2, seed=3) for each in (task, other))
    np.testing.assert_array_equal(one.values, same.values)


def test_l2_errors_stand_next_to_those_of_the_sup_norm():
    run = small(0.9).simulate("anytime-sda", [50, 100], trials=5)
    away = np.linalg.norm(run.values - run.problem.values, axis=3).max(axis=2)
    np.testing.assert_allclose(run.l2_error, away.mean(axis=1))
    np.testing.assert_allclose(run.l2_stderr, away.std(axis=1, ddof=1) / np.sqrt(5))
    assert [row["l2_error"] for row in run.records()] == run.l2_error.tolist()
    assert np.all(run.l2_error >= run.error)
