"""Models refined sample by sample: every agent ends at the estimate of all samples, and knows how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.applications.likelihood import kernels
from gossamer.applications.likelihood.linearization import Linearizer, looks
from gossamer.applications.likelihood.streaming import Draws
from gossamer.errors import InvalidInput
from gossamer.families import FAMILIES
from gossamer.methods import tabulate
from gossamer.numerics.sparse import rows_of


def newton(problem, x, y, steps=60):
    """The minimum of the penalized loss of rows (n, width), the slow and obvious way."""
    family, outputs = problem.family, problem.family.outputs
    eta = family.start(y, y)
    for _ in range(steps):
        bends = family.curvatures(eta, y)
        pseudo = (bends * eta).sum(axis=1) - family.slopes(eta, y)
        matrix = np.einsum("acn,nk,nl->akcl", bends, x, x).reshape(problem.size, -1) / len(y)
        right = np.einsum("an,nk->ak", pseudo, x).ravel() / len(y)
        theta = np.linalg.solve(matrix + np.diag(problem.penalty), right)
        eta = theta.reshape(outputs, -1) @ x.T
    return theta


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_agent_ends_at_the_estimate_of_all_samples(family):
    """Unequal numbers of samples, an intercept and a penalty; then silence, while the agents go on talking."""
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(5), family, 2, intercept=True, ridge=0.05)
    rng, online, rows = np.random.default_rng(1), problem.online(), []
    rows_of_theta = problem.parameter.reshape(problem.family.outputs, -1)
    for _ in range(40):
        news = []
        for i in range(5):
            count = rng.integers(0, 3) if i else 0  # the first agent never sees anything
            x = rng.normal(size=(count, 2)) + i / 3
            y = problem.family.draw(rng, rows_of_theta @ np.column_stack([x, np.ones(count)]).T)
            news.append((x, y) if count else None)
            rows.append((x, y))
        online.observe(news)
    while online.rounds < 300:
        online.observe()
    x, y = (np.concatenate([row[k] for row in rows]) for k in range(2))
    best = newton(problem, np.column_stack([x, np.ones(len(x))]), y)
    np.testing.assert_allclose(online.estimates(), np.tile(best, (5, 1)), rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "huber"])
def test_intervals_cover_as_often_as_they_say(family):
    """95% intervals of every agent and parameter, in many trials at once, early and late."""
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(10), family, 2, seed=4, intercept=False)
    method, trials, horizons = gs.AnytimeSDA(), 160, (60, 250)
    linearizer, draws = Linearizer(problem, trials, errors=True), Draws(problem, 0, range(trials))
    table = tabulate(method, problem.network, 250)
    registers = np.zeros((linearizer.layout.components, 10, table.registers, trials))
    stops = {*horizons, *looks(250)}
    for piece, samples in draws.pieces(range(250), stops):
        observations = linearizer.observe(*samples)
        kernels.play(registers, observations, piece.start, table, rows_of(problem.network.gossip))
        if piece.stop not in stops:
            continue
        held = np.tensordot(registers, table.estimate_state[piece.stop - 1], axes=([2], [0]))
        spread = gs.exact(method, problem.network, gs.Gaussian(np.zeros(10)), piece.stop).per_agent
        found = linearizer.judge(held, spread[:, None])
        if piece.stop in horizons:
            covered = np.abs(found.theta - problem.parameter) < 1.96 * found.errors
            # Agents and parameters of a trial hang together, so a trial is the unit: about 160 x 2 outcomes.
            assert abs(covered[found.published].mean() - 0.95) < 4 * np.sqrt(0.05 * 0.95 / (2 * trials))
            assert found.published.mean() > 0.9
        if piece.stop in set(looks(250)):
            linearizer.look(found)


def feed(online, rounds, label, seed=0, scale=(1.0, 1.0)):
    rng, agents = np.random.default_rng(seed), online._problem.network.agents
    for _ in range(rounds):
        x = rng.normal(size=(agents, 1, 2)) * scale
        online.observe([(x_i, label(rng, x_i)) for x_i in x])


def noisy(rng, x):
    return (rng.random(len(x)) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)


def test_standard_errors_are_those_of_the_samples_so_far():
    problem = gs.LikelihoodEstimation(
        gs.Network.cycle(4), "logistic", 2, names=["age", "dose"], intercept=False
    )
    online = problem.online()
    feed(online, 150, noisy)
    errors = online.standard_errors()
    assert errors.shape == (4, 2)
    assert np.all((errors > 1.5 / np.sqrt(600)) & (errors < 4 / np.sqrt(600)))
    assert np.all(np.abs(online.estimates() - [1, 0]) < 4.5 * errors)
    assert np.all(online.ready)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("empty", "rounds", "each"), [(0, 1, 300), (0, 10, 300), (300, 300, 2)], ids=["batch", "batches", "late"]
)
def test_it_does_not_matter_how_samples_are_spread_over_rounds(empty, rounds, each):
    """All at once, many a round, or after a long silence; and first linearized far from the parameters."""
    problem = gs.LikelihoodEstimation(gs.Network.complete(4), "logistic", 2, intercept=False)
    online, rng, seen = problem.online(), np.random.default_rng(0), []
    for _ in range(empty):
        online.observe()
    for _ in range(rounds):
        x = rng.normal(size=(4, each, 2))
        y = (rng.random((4, each)) < 1 / (1 + np.exp(-x @ [2.0, -2.0]))).astype(float)
        online.observe(list(zip(x, y, strict=True)))
        seen.append((x.reshape(-1, 2), y.ravel()))
    for _ in range(200 + empty):
        online.observe()
    x, y = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    best = newton(problem, x, y)
    rates = 1 / (1 + np.exp(-x @ best))
    inverse, scores = np.linalg.inv((x.T * rates * (1 - rates)) @ x), x * (rates - y)[:, None]
    errors = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    np.testing.assert_allclose(online.estimates(), np.tile(best, (4, 1)), atol=0.05 * errors.min())
    np.testing.assert_allclose(online.standard_errors(), np.tile(errors, (4, 1)), rtol=0.02)


@pytest.mark.slow
def test_how_far_from_zero_covariates_are_does_not_matter():
    """Such as years, whose share of the curvature is small beside that of an intercept."""
    found = []
    for shift in (0.0, 2000.0):
        problem = gs.LikelihoodEstimation(gs.Network.cycle(4), "logistic", 2, intercept=True)
        online = problem.online()
        rng = np.random.default_rng(0)
        for _ in range(150):
            x = rng.normal(size=(4, 1, 2))
            online.observe([(x_i + np.array([shift, 0]), noisy(rng, x_i)) for x_i in x])
        theta = online.estimates()
        found.append(theta + np.outer(theta[:, 0], [0, 0, shift]))
        errors = online.standard_errors()[:, :2]
        assert np.all((errors > 1.5 / np.sqrt(600)) & (errors < 4 / np.sqrt(600)))
    np.testing.assert_allclose(*found, atol=1e-4)


def test_hubers_loss_bears_gross_outliers():
    problem = gs.LikelihoodEstimation(gs.Network.cycle(4), "huber", 2, intercept=False)
    online, rng = problem.online(), np.random.default_rng(0)
    for _ in range(150):
        x = rng.normal(size=(4, 1, 2))
        y = x @ [1.0, -1.0] + rng.normal(size=(4, 1))
        online.observe([(x_i, np.where(rng.random() < 0.1, 1e4, y_i)) for x_i, y_i in zip(x, y, strict=True)])
    errors = online.standard_errors()
    assert np.all((errors > 0.5 / np.sqrt(600)) & (errors < 4 / np.sqrt(600)))
    assert np.all(np.abs(online.estimates() - [1, -1]) < 4.5 * errors)


def test_too_few_samples_so_far():
    problem = gs.LikelihoodEstimation(
        gs.Network.cycle(4), "logistic", 2, names=["age", "dose"], intercept=False
    )
    online = problem.online()
    assert np.isnan(online.estimates()).all()
    assert "too few samples so far: those of 0 rounds" in online.withheld[0]
    x = np.array([[1.0, 2.0]])
    online.observe([(x, [1.0]), (2 * x, [0.0]), None, None])
    while online.rounds < 16:
        online.observe()
    assert online.included == 1
    assert np.isnan(online.standard_errors()).all()
    assert "too few samples so far: those of 1 rounds" in online.withheld[3]
    assert not online.ready.any()


def test_agents_that_are_not_ready_are_masked():
    """The far end of a chain has not heard of the samples yet."""
    problem = gs.LikelihoodEstimation(gs.Network.path(12), "poisson", 1, intercept=True)
    online, rng = problem.online(), np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    online.observe([(x, rng.poisson(np.exp(x[:, 0]))), *[None] * 11])
    for _ in range(5):
        online.observe()
    assert np.isnan(online.estimates()[-1]).all()
    assert online.withheld[-1]
    while not online.ready.all():
        assert online.rounds < 500
        for _ in range(40):
            online.observe()
    assert np.isfinite(online.estimates()).all()
    assert not any(online.withheld)


def test_a_covariate_that_nobody_varies_is_named():
    problem = gs.LikelihoodEstimation(
        gs.Network.cycle(4), "logistic", 2, names=["age", "dose"], intercept=False
    )
    online = problem.online()
    feed(online, 60, noisy, scale=(1.0, 0.0))
    assert "do not determine the direction 1 dose" in online.withheld[0]
    assert "no covariates vary along it" in online.withheld[0]


@pytest.mark.parametrize("case", ["zero column", "exact labels"])
def test_standard_errors_that_vanish_are_named(case):
    rng, zero = np.random.default_rng(2), case == "zero column"
    problem = gs.LikelihoodEstimation(
        gs.Network.cycle(4), "logistic" if zero else "gamma", 2, ridge=0.1 if zero else 0.0
    )
    online = problem.online()
    for _ in range(64):
        x = rng.normal(size=(4, 1, 2)) * [1, not zero]
        online.observe([(row, rng.integers(0, 2, 1) if zero else [1.0]) for row in x])
    assert not online.ready.any()
    assert "vanishes: no samples vary along it, or the model fits all labels exactly" in online.withheld[0]
    assert ("of x1 vanishes" in online.withheld[0]) or not zero


def test_samples_are_scored_before_they_are_used():
    problem = gs.LikelihoodEstimation(gs.Network.cycle(4), "logistic", 2, intercept=True)
    online, rng, expected = problem.online(), np.random.default_rng(0), []
    for _ in range(80):
        x = rng.normal(size=(4, 1, 2))
        y = np.array([noisy(rng, x_i) for x_i in x])
        eta = np.einsum("nk,nk->n", online.estimates(), np.column_stack([x[:, 0], np.ones(4)]))
        expected.append(-np.mean(np.log(1 / (1 + np.exp(np.where(y[:, 0] > 0, -eta, eta))))))
        online.observe(list(zip(x, y, strict=True)))
    assert np.isnan(expected[:16]).all()
    assert np.isfinite(expected[48:]).all()
    np.testing.assert_allclose(online.prequential_losses, expected)


@pytest.mark.slow
def test_separable_labels_have_no_estimate_and_the_direction_is_named():
    problem = gs.LikelihoodEstimation(
        gs.Network.cycle(4), "logistic", 2, names=["age", "dose"], intercept=False
    )
    online = problem.online()
    feed(online, 100, lambda rng, x: (x[:, 0] > 0).astype(float))
    assert np.isnan(online.estimates()).all()
    assert "the labels are separable so far" in online.withheld[0]
    assert "direction 1 age" in online.withheld[0]
    penalized = gs.LikelihoodEstimation(
        gs.Network.cycle(4), "logistic", 2, ridge=0.1, intercept=False
    ).online()
    feed(penalized, 100, lambda rng, x: (x[:, 0] > 0).astype(float))
    assert np.all(np.isfinite(penalized.estimates()))


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([None], "for each of 3 agents, got 1"),
        ([None, 7, None], "agent 1 must be a pair"),
        ([None, None, ([[1.0, 2.0, 3.0]], [1])], "covariates of agent 2 must be an array of shape"),
        ([([[1.0, 2.0]], [2]), None, None], "labels of agent 0 must be 0 or 1"),
        ([([[1.0, 2.0]], [1, 0]), None, None], "agent 0 needs one label per row"),
    ],
)
def test_wrong_samples_are_refused(samples, words):
    online = gs.LikelihoodEstimation(gs.Network.cycle(3), "logistic", 2, intercept=False).online()
    with pytest.raises(gs.InvalidInput, match=words):
        online.observe(samples)
    assert online.rounds == 0


def test_only_running_means_can_be_averaged_online():
    problem = gs.LikelihoodEstimation(gs.Network.cycle(3), "logistic", 2, intercept=False)
    with pytest.raises(gs.InvalidInput, match="running means"):
        problem.online(gs.SDA())


@pytest.mark.slow
def test_a_model_that_forgets_follows_effects_that_flip():
    problem, rng = (
        gs.LikelihoodEstimation(gs.Network.cycle(4), "poisson", 1, intercept=False),
        np.random.default_rng(0),
    )
    plain, forgetting = problem.online(), problem.online(forgetting=30)
    for age in range(300):
        x = rng.normal(size=(4, 1, 1))
        y = rng.poisson(np.exp((0.7 if age < 150 else -0.7) * x[..., 0]))
        for online in (plain, forgetting):
            online.observe(list(zip(x, y, strict=True)))
    assert np.all(np.abs(forgetting.estimates() + 0.7) < 4 * forgetting.standard_errors())
    assert np.all(np.abs(plain.estimates()) < 0.3)


def test_labels_that_are_text_or_signs():
    network, rng = gs.Network.cycle(3), np.random.default_rng(4)
    x = rng.normal(size=(40, 3, 5, 2))
    y = (rng.random((40, 3, 5)) < 1 / (1 + np.exp(-x[..., 0]))).astype(int)
    labels = {"numbers": y, "signs": 2 * y - 1, "words": np.array(["no", "yes"])[y]}
    answers = []
    for name, given in labels.items():
        classes = ["no", "yes"] if name == "words" else None
        online = gs.LikelihoodEstimation(network, "logistic", 2, classes=classes).online()
        for t in range(40):
            online.observe([(x[t, i], given[t, i]) for i in range(3)])
        answers.append(online.estimates())
    assert np.isfinite(answers[0]).all()
    np.testing.assert_array_equal(answers[1], answers[0])
    np.testing.assert_array_equal(answers[2], answers[0])


def test_labels_that_no_class_has():
    network, row = gs.Network.path(2), [[0.0]]
    plain = gs.LikelihoodEstimation(network, "logistic", 1).online()
    with pytest.raises(InvalidInput, match=r"agent 0 must be 0 or 1 .* got text: 'yes'; name the classes in"):
        plain.observe([(row, ["yes"]), None])
    plain.observe([(row, [-1]), (row, [1])])
    with pytest.raises(InvalidInput, match="got both 0 and -1"):
        plain.observe([None, (row, [0])])
    named = gs.LikelihoodEstimation(network, "softmax", 1, classes=["a", "b", "c", "d"])
    assert named.parameter_names[0] == "x0[b]"
    with pytest.raises(InvalidInput, match=r"labels of agent 1 must be among the classes 'a', .* got 'e'"):
        named.online().observe([None, (row, ["e"])])
