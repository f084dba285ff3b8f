"""Values from experience against plain loops, known values, and each other."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.applications import (
    Alone,
    Centralized,
    DistributedTD,
    Experience,
    OneShot,
    RandomFourier,
    TileCoding,
    ValueEstimation,
    problems,
)
from gossamer.applications.values.averaging import Averaging
from gossamer.applications.values.lstd import Transitions, steps_of

TASK = gs.PolicyEvaluation.from_problem("cycle:6", problems.garnet(30, 3, seed=0), 0.9, seed=1)
PHI = np.random.default_rng(0).random((30, 4))
STATES = np.arange(30)


def recorded(problem: ValueEstimation, rounds: int, trial: int = 0) -> Experience:
    """A trajectory of the process as a user would record it."""
    process, shared = problem.process, problem.shared
    some = range(trial, trial + 1)
    states, following = process.walk(rounds, 0, some, 1 if shared else problem.network.agents)
    rewards = process.rewards(states, 0, some)[:, :, 0]
    states, following = (array[:, 0, 0] if shared else array[..., 0] for array in (states, following))
    return Experience.of(states, rewards, following, process.terminal[following], shared=shared)


def test_least_squares_temporal_differences_against_a_plain_loop():
    rng = np.random.default_rng(3)
    phi, following, rewards = rng.random((40, 3)), rng.random((40, 3)), rng.normal(size=(40, 6))
    over, cut = np.arange(40) % 9 == 8, np.arange(40) % 13 == 12
    ratios = rng.uniform(0.5, 1.5, 40)
    steps = steps_of(Transitions(phi, following, rewards, over, over | cut, ratios), 0.9, 0.7, False)
    matrix, right, trace = np.zeros((3, 3)), np.zeros((3, 6)), np.zeros(3)
    for t in range(40):
        trace = trace + phi[t]
        after = 0.0 if over[t] else 0.9 * ratios[t]  # nothing follows an end; a cut is bootstrapped
        matrix += np.outer(trace, phi[t] - after * following[t])
        right += np.outer(trace, ratios[t] * rewards[t])
        trace = 0.0 * trace if over[t] or cut[t] else 0.9 * 0.7 * ratios[t] * trace
    assert steps.traces.T @ steps.differences == pytest.approx(matrix)
    assert steps.traces.T @ steps.rewards == pytest.approx(right)


@pytest.mark.parametrize("trace", [0.0, 0.6])
def test_every_agent_solves_with_the_weights_of_the_method(trace):
    problem = ValueEstimation.from_policy(TASK, PHI, trace, ridge=0)
    rounds = 60
    run = problem.simulate("anytime-sda", rounds, trials=2, seed=0)
    weights = gs.weights("anytime-sda", TASK.network, rounds)
    for trial in range(2):
        steps = recorded(problem, rounds, trial)
        phi, following = PHI[steps.states], PHI[steps.next_states]
        traces = phi.copy()
        for t in range(1, rounds):
            traces[t] += 0.9 * trace * traces[t - 1]
        common = weights.sum(axis=2)[:, 0]
        matrix = sum(common[t] * np.outer(traces[t], phi[t] - 0.9 * following[t]) for t in range(rounds))
        for i in range(6):
            right = sum(weights[t, i] @ steps.rewards[t] * traces[t] for t in range(rounds))
            assert run.values[trial, i] == pytest.approx(PHI @ np.linalg.solve(matrix, right))
        fit = problem.from_trajectories(steps)
        assert fit.values(STATES) == pytest.approx(run.values[trial])
        center = problem.simulate(Centralized(), rounds, trials=2, seed=0).values[trial, 0]
        assert fit.centralized_values(STATES) == pytest.approx(center)


def test_the_engine_averages_as_the_weights_do():
    problem = ValueEstimation.from_policy(TASK, PHI, 0.5)
    steps = recorded(problem, 80)
    given = [problem.steps(problem.process.transitions(steps.states, steps.next_states, steps.rewards))]
    averaging = Averaging(gs.AnytimeSDA(), TASK.network, TASK.network, np.array([40, 80]))
    direct = averaging.shared(given, 0, batches=4)
    through = Averaging(
        gs.AnytimeSDA(), TASK.network, TASK.network, np.array([40, 80]), faults=gs.faults.Loss(0.0)
    )
    assert averaging.direct
    assert not through.direct
    for a, b in zip(direct[0], through.shared(given, 0, batches=4)[0], strict=True):
        assert b.rights == pytest.approx(a.rights)
        assert b.matrices == pytest.approx(a.matrices)


@pytest.mark.parametrize("options", [{}, {"trace": 0.7}, {"shared": False}, {"average": True, "trace": 0.4}])
def test_online_values_are_those_of_the_recorded_steps(options):
    problem = ValueEstimation.from_policy(TASK, PHI, **options)
    steps = recorded(problem, 90)
    online = problem.online()
    for t in range(90):
        online.observe(steps.states[t], steps.rewards[t], steps.next_states[t])
    fit = problem.from_trajectories(steps)
    assert online.values(STATES) == pytest.approx(fit.values(STATES), rel=1e-9, abs=1e-9)
    assert online.rounds == fit.rounds == 90


def test_online_with_episodes_weights_and_missed_rewards():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(7, 3))
    states, following = rng.integers(7, size=(2, 120))
    rewards, ratios = rng.normal(size=(120, 6)), rng.uniform(0, 2, 120)
    over, cut = rng.random((2, 120)) < 0.1
    problem = ValueEstimation("cycle:6", features, 0.8, 0.5)
    online = problem.online()
    steps = zip(states, rewards, following, over, cut, ratios, strict=True)
    for state, reward, after, end, stop, ratio in steps:
        online.observe(state, reward, after, end, stop, importance=ratio)
    fit = problem.from_trajectories(Experience.of(states, rewards, following, over, cut, importance=ratios))
    assert online.values(range(7)) == pytest.approx(fit.values(range(7)), rel=1e-9)
    missing = problem.online()
    for state, reward, after in zip(states, rewards, following, strict=True):
        missing.observe(state, np.where(rng.random(6) < 0.3, np.nan, reward), after)
    assert np.isfinite(missing.values(range(7))).all()


@pytest.mark.parametrize("trace", [0.0, 0.5, 1.0])
def test_a_feature_for_every_state_has_the_true_values(trace):
    problem = ValueEstimation.from_policy(TASK, np.eye(30), trace)
    assert problem.process.values == pytest.approx(TASK.values)
    assert problem.approximation_error == pytest.approx(0, abs=1e-12)


def test_episodes_end_in_absorbing_states_and_begin_anew():
    task = gs.PolicyEvaluation.from_problem(
        "cycle:4", problems.grid_world(3, 3), 0.9, rule="split", reward_std=0.1
    )
    problem = ValueEstimation.from_policy(task, np.eye(9))
    assert problem.process.terminal.tolist() == [False] * 8 + [True]
    assert problem.process.values == pytest.approx(task.values, abs=1e-9)
    steps = recorded(problem, 4000)
    assert steps.terminated.sum() > 100
    assert not np.any(steps.states == 8)
    share = np.bincount(steps.states, minlength=9) / 4000
    assert share == pytest.approx(problem.process.visited, abs=0.05)
    # identity features leave the absorbing state unseen, which the ridge allows
    assert problem.simulate("anytime-sda", 4000, trials=2).worst < 0.3


@pytest.mark.slow
def test_relative_values_of_the_average_reward():
    problem = ValueEstimation.from_policy(TASK, np.eye(30)[:, 1:], 0.3, average=True)
    stationary = TASK.stationary_distribution()
    reward = TASK.rewards.mean(axis=0)
    relative = reward - stationary @ reward + TASK.transitions @ problem.process.values
    assert problem.process.values == pytest.approx(relative)
    assert problem.approximation_error == pytest.approx(0, abs=1e-12)
    fit = problem.from_trajectories(recorded(problem, 3000))
    assert fit.average_rewards == pytest.approx(stationary @ reward, abs=0.1)
    assert problem.simulate(Centralized(), 3000, trials=4).total_error / 6 < 0.1


@pytest.mark.slow
def test_importance_weights_evaluate_another_policy():
    """Two actions, which pay 0 and 1 and lead to states 0 and 1; one acts at random, the other prefers action 1."""
    rng = np.random.default_rng(0)
    action = (rng.random(20_000) < 0.5).astype(int)
    states = np.concatenate([[0], action])
    rewards = action[:, None] * np.array([[2.0, 0.0, 1.0]])
    ratios = np.where(action == 1, 0.9, 0.1) / 0.5
    steps = Experience.of(states, rewards, importance=ratios)
    fit = ValueEstimation("cycle:3", np.eye(2), 0.5, 0.3).from_trajectories(steps)
    truth = 0.9 / (1 - 0.5)  # the next action does not depend on the state
    assert np.all(np.abs(fit.values([0, 1]) - truth) < 4 * fit.standard_errors([0, 1]))
    assert fit.effective_share == pytest.approx(1 / 1.64, rel=0.02)
    assert fit.notes == []
    rare = Experience.of(states, rewards, importance=np.where(rng.random(20_000) < 0.1, 10.0, 0.0))
    note = ValueEstimation("cycle:3", np.eye(2), 0.5).from_trajectories(rare).notes[0]
    assert "off policy: by the variance of the importance weights, 20000 steps are worth 20" in note


# -- standard errors --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"trace": 0.5}, {"shared": False}])
def test_intervals_contain_the_values(options):
    problem = ValueEstimation.from_policy(TASK, PHI[:, :3], **options)
    truth, ratios, held = problem.process.values, [], []
    for trial in range(30):
        fit = problem.from_trajectories(recorded(problem, 600, trial))
        ratios.append((fit.values(STATES) - truth)[2] / fit.standard_errors(STATES)[2])
        low, high = np.moveaxis(fit.intervals(STATES)[2], -1, 0)
        held.append((low <= truth) & (truth <= high))
    assert 0.85 <= np.mean(held) <= 1.0
    assert 0.75 <= np.std(ratios) <= 1.4


@pytest.mark.slow
def test_online_standard_errors():
    problem = ValueEstimation.from_policy(TASK, PHI)
    steps, online = recorded(problem, 1000), problem.online(errors=True)
    for t in range(1000):
        online.observe(steps.states[t], steps.rewards[t], steps.next_states[t])
        if t == 100:
            assert np.isnan(online.standard_errors(STATES)).all()
    fit = problem.from_trajectories(steps)
    assert online.values(STATES) == pytest.approx(fit.values(STATES))
    ratio = online.standard_errors(STATES) / fit.standard_errors(STATES)
    assert 0.6 < ratio.min() <= ratio.max() < 1.7  # different batches of the same steps
    width = np.diff(online.intervals(STATES))[..., 0] / online.standard_errors(STATES)
    assert width == pytest.approx(2 * 2.306, rel=1e-3)  # Student's t with 8 degrees of freedom


def test_intervals_are_withheld_while_a_slow_walk_was_hardly_seen():
    x = np.linspace(0, 1, 20)
    walk = gs.PolicyEvaluation.from_problem("cycle:6", problems.chain(20, 0.5), 0.95, seed=1)
    problem = ValueEstimation.from_policy(walk, np.column_stack([x**0, x, x**2]))
    steps = recorded(problem, 12_000)
    early, late = (problem.from_trajectories(steps.first(t)) for t in (1000, 12_000))
    assert "so slowly that these are worth" in early.withheld
    assert early.notes == [early.withheld]
    assert np.isnan(early.intervals(range(20))).all()
    # 2 / (1 - cos(pi / 20)) steps are worth one independent one
    assert late.rounds / late.parts == pytest.approx(2 / (1 - np.cos(np.pi / 20)), rel=0.25)
    assert np.isfinite(late.intervals(range(20))).all()
    online = problem.online(errors=True)
    for t in range(400):
        online.observe(steps.states[t], steps.rewards[t], steps.next_states[t])
    assert "so slowly" in online.withheld
    assert np.isnan(online.standard_errors(range(20))).all()


@pytest.mark.parametrize("shared", [True, False])
def test_a_state_that_was_never_seen_has_no_standard_error(shared):
    rng = np.random.default_rng(0)
    states, rewards = rng.integers(3, size=(401, 2)), rng.normal(size=(400, 2))
    own = states[:, 0] if shared else states
    steps = Experience.of(own[:-1], rewards, own[1:], shared=shared)
    errors = (
        ValueEstimation("path:2", np.eye(4), 0.5, shared=shared)
        .from_trajectories(steps)
        .standard_errors(range(4))
    )
    assert np.isfinite(errors[:, :3]).all()
    assert np.isnan(errors[:, 3]).all()


# -- rivals and faults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixing", ["rounds", "tracking", "once"])
@pytest.mark.parametrize("shared", [True, False])
def test_temporal_differences_against_a_plain_loop(mixing, shared):
    problem = ValueEstimation.from_policy(TASK, PHI, 0.5, shared=shared)
    rival = DistributedTD(0.8, mixing=mixing)
    run = problem.simulate(rival, [7, 20], trials=2)
    steps = recorded(problem, 20)
    states, following = (
        np.broadcast_to(s.reshape(20, -1), (20, 6)) for s in (steps.states, steps.next_states)
    )
    mix = np.eye(6) - TASK.network.gossip.toarray() if mixing != "once" else np.eye(6)
    phi, after = PHI[states], PHI[following]
    traces = phi.copy()
    for t in range(1, 20):
        traces[t] += 0.45 * traces[t - 1]
    both = [traces, recorded_traces(problem, 1)]
    largest = max(float((z**2).sum(axis=-1).max()) for z in both)
    theta, tracked, old = np.zeros((3, 6, 4))
    for t in range(20):
        error = steps.rewards[t] + (theta * (0.9 * after[t] - phi[t])).sum(axis=1)
        new = traces[t] * error[:, None]
        tracked = mix @ tracked + new - old
        old = new
        theta = mix @ theta + 0.8 / np.sqrt(t + 1) / largest * (tracked if mixing == "tracking" else new)
    expected = np.tile(theta.mean(axis=0), (6, 1)) if mixing == "once" else theta
    assert run.values[1, 0] == pytest.approx(expected @ PHI.T)


def recorded_traces(problem: ValueEstimation, trial: int) -> np.ndarray:
    states = recorded(problem, 20, trial).states
    traces = PHI[states].copy()
    for t in range(1, 20):
        traces[t] += 0.45 * traces[t - 1]
    return traces


def test_a_common_matrix_makes_one_average_enough():
    problem = ValueEstimation.from_policy(TASK, PHI)
    once, center, alone = problem.simulate([OneShot(), Centralized(), Alone()], 200, trials=2)
    assert once.values == pytest.approx(center.values)
    assert center.over_limit == pytest.approx(1.0)
    assert alone.over_limit > 2
    apart = ValueEstimation.from_policy(TASK, PHI, shared=False)
    once, center = apart.simulate([OneShot(), Centralized()], 200, trials=2)
    assert np.abs(once.values - center.values).max() > 1e-3


def test_comparison_with_temporal_differences():
    problem = ValueEstimation.from_policy(TASK, PHI)
    runs = problem.compare([100, 300], trials=3, steps=[0.01, 2.0])
    labels = [run.label for run in runs]
    assert labels[:2] == ["anytime-sda", "td, step=2"]  # the better of the two steps
    assert labels[2:] == ["td, tracking, step=2", "td, averaged once, step=2", "one-shot", "alone"]
    assert len(runs.to_frame()) == 12
    assert runs[0].over_limit[1] < 1.2
    notes = runs.to_frame().groupby("method")["note"].first()
    assert notes["td, step=2"] == "the best of 2 steps, chosen by knowing the values"
    assert not notes["anytime-sda"]


@pytest.mark.parametrize("shared", [True, False])
def test_lost_messages_crashes_and_changing_networks(shared):
    problem = ValueEstimation.from_policy(TASK, PHI[:, :2], shared=shared)
    lost = problem.simulate("anytime-sda", 400, trials=2, faults=gs.faults.Loss(0.3))
    assert lost.over_limit < 1.5
    crash = problem.simulate("anytime-sda", 300, trials=2, faults=gs.faults.Crash(3, 100))
    assert np.isnan(crash.values[:, 3]).all()
    assert np.isfinite(crash.total_error)
    moving = gs.ChangingNetwork.matchings(6)
    assert problem.simulate(gs.AnytimeSDA("local"), 400, trials=2, network=moving).over_limit < 1.5
    fit = problem.from_trajectories(recorded(problem, 300), faults=gs.faults.Loss(0.2))
    assert np.isfinite(fit.standard_errors(STATES)).all()


# -- features and files -------------------------------------------------------------------------------------------


def test_features_by_name_and_of_scikit_learn():
    from sklearn.preprocessing import PolynomialFeatures

    rng = np.random.default_rng(0)
    states = rng.normal(3.0, 5.0, size=(301, 2))
    rewards = np.tile(np.abs(states[1:, :1]), (1, 3))
    steps = Experience.of(states, rewards)
    for features, size in (("fourier:20", 20), ("tiles:2x3", 32), (PolynomialFeatures(2), 6)):
        fit = ValueEstimation("cycle:3", features, 0.0).from_trajectories(steps)
        assert fit.weights.shape == (3, size)
        error = fit.centralized_values(steps.states) - rewards[:, 0]
        assert np.isfinite(error).all()
    tiles = TileCoding(4, 5).fit(states)(states)
    assert np.all(tiles.sum(axis=1) == 4)
    fourier = RandomFourier(500, seed=1).fit(states)
    scaled = (states - states.mean(axis=0)) / states.std(axis=0)
    products = fourier(states[:5])[:, :-1] @ fourier(states[:5])[:, :-1].T / 499
    kernel = np.exp(-0.25 * ((scaled[:5, None] - scaled[None, :5]) ** 2).sum(axis=2))
    assert products == pytest.approx(kernel, abs=0.15)


def test_a_file_of_steps(tmp_path):
    problem = ValueEstimation.from_policy(TASK, PHI)
    steps = recorded(problem, 50)
    steps.save(tmp_path / "steps.parquet")
    again = problem.from_trajectories(tmp_path / "steps.parquet")
    assert again == problem.from_trajectories(steps)
    with pytest.raises(gs.InvalidInput, match="cannot be read as Parquet"):
        problem.from_trajectories(tmp_path / "none.parquet")


def test_a_fit_says_what_it_is():
    problem = ValueEstimation.from_policy(TASK, PHI)
    fit = problem.from_trajectories(recorded(problem, 100))
    assert fit.notes == ["standard errors need 200 steps, got 100"]
    assert list(fit.to_frame()["agent"]) == list(range(6))
    assert (
        repr(problem)
        == "ValueEstimation(Network(cycle:6, 6 agents, 6 edges), 4 features, discount 0.9, trace 0)"
    )
    ax = problem.from_trajectories(recorded(problem, 300)).plot()
    assert ax.get_xlabel() == "value by a center with all rewards"
    assert ax.has_data()


# -- wrong input ----------------------------------------------------------------------------------------------------

STEPS = Experience.of(range(11), np.ones((10, 6)))


def fitted(features: object, **options: object) -> object:
    return ValueEstimation("cycle:6", features, 0.9, **options).from_trajectories(STEPS)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ValueEstimation("cycle:6", PHI, 1.0), "discount of 1 has no finite values .* average=True"),
        (
            lambda: ValueEstimation("cycle:6", PHI, 0.9, average=True),
            "discount must be 1 with average=True, got 0.9",
        ),
        (
            lambda: ValueEstimation("cycle:6", PHI, 0.9, 1.5),
            "trace must be a finite number of at least 0 and at most 1",
        ),
        (lambda: ValueEstimation("cycle:6", "furier:5", 0.9), "features must be fourier:NUMBER"),
        (
            lambda: fitted(lambda s: np.ones((len(s), 2))),
            "features are the same in all 10 states that were seen",
        ),
        (
            lambda: fitted(lambda s: np.column_stack([s, s]), ridge=0),
            "direction .*feature 0 .*feature 1: .*collinear",
        ),
        (
            lambda: fitted(lambda s: np.where(s < 3, np.nan, s)[:, None]),
            "features must be finite, got NaN .* 3 of 10",
        ),
        (lambda: fitted(lambda s: s), r"one row for each of 10 states, \(10, p\), got shape \(10,\)"),
        (
            lambda: fitted(lambda s: s @ s @ s),
            "features must be a function from states of shape .* but it failed",
        ),
        (
            lambda: fitted(lambda s: np.ones((10, 1 + s[0])) * s[:, None]),
            "same length: 1 numbers before, 2 now",
        ),
        (lambda: fitted(np.ones((5, 2))), "states must be whole numbers from 0 to 4"),
        (
            lambda: ValueEstimation("cycle:5", PHI, 0.9).from_trajectories(STEPS),
            "one for each of 5 agents .* got 6",
        ),
        (lambda: fitted(PHI, shared=False), "shared=False needs a trajectory for each agent"),
        (lambda: Experience.of(range(10), np.ones((10, 6))), r"one more row than rewards \(11\)"),
        (lambda: Experience.of(range(9), np.ones((10, 6)), range(9)), "one row for each step"),
        (
            lambda: Experience.of(range(11), np.ones((10, 6)), terminated=[True] * 10),
            "next_states are needed",
        ),
        (
            lambda: Experience.of(range(10), np.ones((10, 6)), range(10), [2] * 10),
            "True or False for each step",
        ),
        (
            lambda: Experience.of(range(11), np.ones((10, 6)), importance=-np.ones(10)),
            "importance must be ratios",
        ),
        (lambda: Experience.of(range(11), np.ones((10, 6)) * np.nan), "rewards must be finite, got 60 NaN"),
        (
            lambda: ValueEstimation("cycle:6", PHI, 0.9).online().observe(0, [1.0], 1),
            "rewards must be one finite",
        ),
        (
            lambda: ValueEstimation("cycle:6", PHI, 0.9).online().values([0]),
            "no values before the first step",
        ),
        (
            lambda: ValueEstimation("cycle:6", "fourier", 0.9).online().observe([0.0], [1.0] * 6, [1.0]),
            "need a scale",
        ),
        (lambda: ValueEstimation("cycle:6", PHI, 0.9).simulate("sda", 10), "a simulation needs a process"),
        (
            lambda: ValueEstimation.from_policy(TASK, PHI).simulate("msda", 100),
            "one step of the environment per round",
        ),
        (
            lambda: ValueEstimation.from_policy(TASK, PHI).simulate(
                OneShot(), 10, faults=gs.faults.Loss(0.1)
            ),
            "faults and changing networks are for methods that average",
        ),
        (lambda: DistributedTD(mixing="often"), "mixing must be 'rounds', 'tracking' or 'once'"),
        (lambda: TileCoding(8, 8).fit(np.ones((5, 6))), "4251528 features, more than 20000; use fewer tiles"),
    ],
)
def test_wrong_input_in_words(call, text):
    with pytest.raises(gs.GossamerError, match=text):
        call()
