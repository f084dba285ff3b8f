"""Models learned from simulated streams: as good as a center, beside their rivals, with faults."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.applications import DSGD, DSGT, Alone, Centralized, Family
from gossamer.applications.likelihood import kernels, linearization
from gossamer.applications.likelihood.linearization import MEMORY, KeptSamples, Linearizer, looks
from gossamer.applications.likelihood.rivals import GRID
from gossamer.applications.likelihood.streaming import Draws
from gossamer.families import FAMILIES
from gossamer.faults import Loss
from gossamer.models import FIRST, STEP, Judgement, SumLayout, judge

SQUARES = Family.own(
    lambda eta, y: eta - y, lambda eta, y: np.ones_like(eta), draw=lambda rng, eta: rng.normal(eta)
)


def all_samples(problem, rounds, trials, seed=0):
    parts = [part for _, part in Draws(problem, seed, range(trials)).pieces(range(rounds), set())]
    return tuple(np.concatenate([part[k] for part in parts]) for k in range(3))


def gradients(problem, x, y, weights, theta):
    """(N, p, B): the sums of all samples' gradients at theta (p,)."""
    rows = theta.reshape(problem.family.outputs, -1)
    slopes = problem.family.slopes(np.einsum("ak,sknb->asnb", rows, x), y) * weights[..., None]
    return np.einsum("asnb,sknb->nakb", slopes, x).reshape(x.shape[2], problem.size, -1)


def kept_by(linearizer):
    """All samples that are kept."""
    x, y, weights = (np.concatenate([kept[k] for kept in linearizer._kept]) for k in range(3))
    predictors = np.concatenate([kept.predictors for kept in linearizer._kept], axis=1)
    return KeptSamples(x, y, weights, predictors)


def known(theta, off=9.0):
    """An estimate of which every direction is known, and with such an linearization error."""
    eye, ones = (
        np.broadcast_to(np.eye(theta.shape[-1]), (*theta.shape, theta.shape[-1])),
        np.ones(theta.shape),
    )
    rows = np.full(theta.shape[:-1], 1e3)
    return Judgement(theta, ones > 0, eye, ones, np.full(theta.shape[:-1], off), eye, eye, rows, ones, ones)


# -- linearization ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_observed_adds_up_to_all_samples_linearized_now(family, monkeypatch):
    """However often samples were moved toward other estimates, and in whatever blocks they are kept."""
    monkeypatch.setattr(linearization, "_BLOCK", 30 * 4 * 3)
    problem = gs.LikelihoodEstimation.random(
        gs.Network.cycle(4), family, 2, samples=[1, 2, 0, 1], intercept=False
    )
    linearizer, rng = Linearizer(problem, 3, errors=True), np.random.default_rng(0)
    total = np.zeros((linearizer.layout.components, 4, 3))
    x, y, weights = all_samples(problem, 40, 3)
    nothing = (x[:2], y[:2], 0 * weights[:2], 2)  # a round without samples, which carries the change
    for start in range(0, 80, 20):
        part = slice(start, start + 20)
        total += linearizer.observe(x[part], y[part], weights[part], 2).sum(axis=0)
        linearizer.look(known(rng.normal(size=(4, 3, problem.size)) * 0.3))
        total += linearizer.observe(*nothing)[0]
    kept = kept_by(linearizer)
    assert len(linearizer._kept) > 2
    np.testing.assert_array_equal(kept.y, y)
    slopes = problem.family.slopes(kept.predictors, y) * weights[..., None]
    scores = np.einsum("asnb,sknb->nbak", slopes, x).reshape(4, 3, problem.size)
    np.testing.assert_allclose(linearizer.layout.slopes(np.moveaxis(total, 0, 2)), scores, atol=1e-9)
    whole = linearizer._sums(kept, linearizer._predict(kept.x), 80)[0]
    np.testing.assert_allclose(total, whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "huber"])
def test_a_predictor_moves_by_a_step_at_most(family):
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(3), family, 2)
    linearizer, (x, y, weights) = Linearizer(problem, 2), all_samples(problem, 30, 2)
    linearizer.observe(x, y, weights)
    for _ in range(3):
        before = kept_by(linearizer).predictors.copy()
        linearizer.look(known(np.full((3, 2, problem.size), 20.0)))
        moved = np.abs(kept_by(linearizer).predictors - before)
        assert STEP / 2 < moved.max() <= STEP + 1e-12


def test_samples_are_let_go_once_estimates_are_good():
    """What is observed stays the sum of all, and the linearization error of those that were let go is known."""
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(3), "poisson", 2, intercept=False)
    linearizer, (x, y, weights) = Linearizer(problem, 2, memory=10), all_samples(problem, 60, 2)
    total = linearizer.observe(x[:30], y[:30], weights[:30]).sum(axis=0)
    assert linearizer._count == 30  # there is no estimate yet
    theta = np.broadcast_to(problem.parameter, (3, 2, 2))
    for _ in range(8):
        linearizer.look(known(theta, 0.05))
    total += linearizer.observe(x[30:60], y[30:60], weights[30:60]).sum(axis=0)
    assert linearizer._count == 10
    assert len(kept_by(linearizer).y) == 10

    def off(parameter):
        """The linearization error at theta, by the averages of all agents."""
        found = judge(
            linearizer.layout, total.mean(axis=1).T, np.tile(parameter, (2, 1)), np.full(2, 1e9), 1 / 3, 1.0
        )
        return found.linearization  # with such a penalty theta is about 0

    rows = np.einsum("sknb,k->snb", x, problem.parameter)
    expected = (np.exp(rows) * rows**2).sum(axis=(0, 1)) / 3
    held = total.mean(axis=1).T
    np.testing.assert_allclose(held[:, 2], expected, rtol=1e-9)  # Q at theta = 0
    assert np.all(off(np.zeros(2)) > 0)


def test_sums_over_groups_of_samples_are_what_their_layout_says():
    rng = np.random.default_rng(0)
    x, weights, predictors, slopes = (
        rng.normal(size=shape) for shape in ((6, 3, 4), (6, 4), (2, 6, 4), (2, 6, 4))
    )
    bends = rng.normal(size=(2, 2, 6, 4))
    bends = bends + np.swapaxes(bends, 0, 1)
    layout = SumLayout(6, meat=True)
    out = np.zeros((3, layout.components, 4))
    kernels.add_sums(out, x, weights, predictors, slopes, bends, 2)
    kernels.add_products(out, x, weights, bends, layout.plain + 2, 2)
    held = np.moveaxis(out, 1, 2)

    def summed(formula, *arrays):
        each = np.einsum(formula, weights, *arrays)
        return each.reshape(3, 2, 4, -1).sum(axis=1)

    def agrees(found, expected):
        np.testing.assert_allclose(found.reshape(3, 4, -1), expected, atol=1e-12)

    agrees(layout.counts(held), summed("sb->sb"))
    agrees(held[..., 1], summed("sb,aasb->sb", bends))
    agrees(held[..., 2], summed("sb,acsb,asb,csb->sb", bends, predictors, predictors))
    agrees(layout.shifted(held), summed("sb,acsb,csb,skb->sbak", bends, predictors, x))
    agrees(layout.slopes(held), summed("sb,asb,skb->sbak", slopes, x))
    agrees(layout.curvature(held), summed("sb,acsb,skb,slb->sbakcl", bends, x, x))
    agrees(layout.scores(held), layout.curvature(held).reshape(3, 4, -1))


def test_samples_begin_at_their_labels():
    """With the Huber loss that is least squares."""
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(3), "huber", 1, intercept=False)
    linearizer, (x, y, weights) = Linearizer(problem, 2), all_samples(problem, 8, 2)
    seen = linearizer.observe(x, y, weights)
    np.testing.assert_allclose(seen[:, linearizer.layout.curved], x[:, 0] ** 2)
    np.testing.assert_allclose(seen[:, FIRST] - seen[:, FIRST + 1], x[:, 0] * y)


def test_agents_look_often_at_first_and_then_every_32_rounds():
    assert list(looks(30)) == [*range(1, 17), 18, 20, 22, 24, 27, 30]
    assert np.diff(list(looks(600)))[-5:].tolist() == [32] * 5


def test_unknown_directions_stay_at_the_reference():
    layout = SumLayout(2)
    held = np.zeros(layout.components)
    held[0], held[FIRST : FIRST + 2] = 1.0, (4.0, 1.0)
    held[layout.curved :] = (2.0, 0.0, 0.0)
    found = judge(layout, held, np.array([0.0, 7.0]), np.zeros(2), 1.0, 1.0)
    np.testing.assert_allclose(found.theta, [2.0, 7.0])
    assert not found.ready
    assert found.linearization == np.inf
    # Units do not matter: a covariate in millimeters is known as early as in meters.
    held[FIRST : FIRST + 2], held[layout.curved :] = (4.0, 2e-12), (2.0, 0.0, 2e-12)
    scaled = judge(layout, held, np.zeros(2), np.zeros(2), 1.0, 1.0)
    np.testing.assert_allclose(scaled.theta, [2.0, 1.0])
    assert scaled.ready


@pytest.mark.slow
def test_squares_are_averaged_exactly():
    """The quadratic case is linear estimation: nothing is lost by linearizing, in any round."""
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(6), SQUARES, 2, intercept=False)
    rounds = [3, 20, 70]
    run = problem.simulate("anytime-sda", rounds, trials=2)
    x, y, _ = all_samples(problem, 70, 2)
    for trial in range(2):
        stream = gs.applications.LinearEstimation.random(problem.network, 2, 1).online()._stream
        for t in range(70):
            xs = x[t, :, :, trial].T
            stream.advance(
                np.column_stack(
                    [xs[:, 0] ** 2, xs[:, 0] * xs[:, 1], xs[:, 1] ** 2, xs * y[t, :, trial][:, None]]
                )
            )
            if t + 1 in rounds[1:]:
                a, b, c, *r = stream.values.T
                direct = (
                    np.column_stack([c * r[0] - b * r[1], a * r[1] - b * r[0]]) / (a * c - b * b)[:, None]
                )
                np.testing.assert_allclose(run.estimates[rounds.index(t + 1), trial], direct, rtol=1e-8)


# -- results ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_trials_and_horizons_do_not_depend_on_what_else_runs():
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(5), "poisson", 2, intercept=True)
    many = problem.simulate("anytime-sda", [7, 40, 90], trials=20)
    few = problem.simulate("anytime-sda", 40, trials=9)
    np.testing.assert_allclose(many.estimates[1, :9], few.estimates, rtol=1e-9)
    assert many.estimates.shape == (3, 20, 5, 3)
    backward = problem.simulate("anytime-sda", [90, 7], trials=9)
    np.testing.assert_allclose(backward.estimates, many.estimates[[2, 0]][:, :9], rtol=1e-9)
    assert backward.total_error[1] > backward.total_error[0]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_center_and_those_alone_minimize_the_loss(family):
    problem = gs.LikelihoodEstimation.random(
        gs.Network.cycle(3), family, 2, samples=[1, 3, 2], intercept=True, ridge=0.1
    )
    x, y, weights = all_samples(problem, 60, 4)
    center = problem.simulate(Centralized(), 60, trials=4)
    alone = problem.simulate(Alone(), 60, trials=4)
    counts = 60 * problem.samples
    for trial in range(4):
        one = (x[..., [trial]], y[..., [trial]], weights)
        theta = center.estimates[trial, 0]
        slope = gradients(problem, *one, theta)[..., 0].sum(axis=0) + counts.sum() * problem.penalty * theta
        assert np.abs(slope).max() < 1e-6 * counts.sum()
        for i in range(3):
            theta = alone.estimates[trial, i]
            slope = gradients(problem, *one, theta)[i, :, 0] + counts[i] * problem.penalty * theta
            assert np.abs(slope).max() < 1e-6 * counts[i]
    assert center.over_limit == 1
    assert (center.bytes, alone.bytes) == (8 * 60 * 6 * 3, 0)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_comes_close_to_the_center(family):
    problem = gs.LikelihoodEstimation.random(gs.Network.grid(3, 4), family, 3, seed=2, intercept=False)
    run = problem.simulate("anytime-sda", [300, 1000], trials=16)
    assert np.all(run.over_limit - 4 * run.over_limit_stderr < [1.25, 1.1])
    assert np.all(run.withheld <= [0.1, 0.02])
    assert run.samples.tolist() == [12 * 300, 12 * 1000]
    numbers = SumLayout(problem.size).components
    assert run.bytes.tolist() == [8 * numbers * 2 * len(problem.network.edges) * t for t in (300, 1000)]


@pytest.mark.slow
def test_the_local_form_and_unequal_samples_come_close_as_well():
    problem = gs.LikelihoodEstimation.random(
        gs.Network.cycle(8), "logistic", 2, samples=[0, 1, 1, 4, 1, 1, 2, 1], intercept=True, ridge=0.01
    )
    run = problem.simulate(gs.AnytimeSDA("local"), 600, trials=24)
    assert run.over_limit - 4 * run.over_limit_stderr < 1.1


@pytest.mark.slow
def test_a_list_of_methods_shares_samples_and_a_table():
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(5), "logistic", 2, intercept=False)
    runs = problem.simulate(["anytime-sda", DSGD(), Alone()], [50, 200], trials=8)
    assert [row["method"] for row in runs.records()][::2] == ["anytime-sda", "DSGD, step=1", "alone"]
    assert {"samples", "rounds", "bytes", "over_limit_stderr"} <= set(runs.records()[0])
    assert runs[0].centralized_limit.tolist() == runs[1].centralized_limit.tolist()
    assert len(runs.plot().lines) >= 4
    assert len(runs[0].plot().lines) >= 2
    assert runs[0].curve("bytes").x is runs[0].bytes
    assert "3 methods, logistic on cycle:5" in repr(runs)


@pytest.mark.slow
def test_another_network_sees_the_same_samples_and_the_same_center():
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(6), "logistic", 2, intercept=False)
    other = problem.on("complete:6")
    run, elsewhere = (each.simulate("anytime-sda", 100, trials=3) for each in (problem, other))
    assert run.centralized_limit == elsewhere.centralized_limit
    assert run.total_error != elsewhere.total_error
    assert other.centralized((100,), 2, 0) is not None
    assert len(problem._centralized) == 1
    with pytest.raises(gs.InvalidInput, match="a network of 6 agents is needed, got 5"):
        problem.on("cycle:5")


# -- rivals -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rival", [DSGD(0.5), DSGT(0.5)], ids=str)
def test_rivals_do_what_their_equations_say(rival):
    problem = gs.LikelihoodEstimation.random(
        gs.Network.cycle(4), "logistic", 2, samples=[1, 1, 0, 2], intercept=False
    )
    found = problem.simulate(rival, [3, 20], trials=2).estimates
    x, y, weights = all_samples(problem, 20, 2)
    mixing = np.eye(4) - problem.network.gossip.toarray()
    for trial in range(2):
        theta, average = np.zeros((4, 2)), np.zeros((4, 2))
        tracked = before = None
        for t in range(20):
            slope = np.zeros((4, 2))
            for i in range(4):
                for s in (2 * t, 2 * t + 1):
                    p = 1 / (1 + np.exp(-x[s, :, i, trial] @ theta[i]))
                    slope[i] += weights[s, i] * (p - y[s, i, trial]) * x[s, :, i, trial]
            slope /= problem.samples.mean()
            step = 0.5 / problem.steepness / np.sqrt(t + 1)
            if isinstance(rival, DSGD):
                theta = mixing @ theta - step * slope
            else:
                tracked = slope if tracked is None else mixing @ tracked + slope - before
                theta, before = mixing @ (theta - step * tracked), slope
            average = average + 2 / (t + 2) * (theta - average)
            if t == 2:
                np.testing.assert_allclose(found[0, trial], average, rtol=1e-9)
        np.testing.assert_allclose(found[1, trial], average, rtol=1e-9)


@pytest.mark.slow
def test_the_best_step_of_the_grid_is_the_best_and_divergence_is_said():
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(4), "poisson", 2, seed=3, intercept=False)
    best = problem.simulate(DSGD(None), 100, trials=4)
    others = [problem.simulate(DSGD(step), 100, trials=4) for step in GRID.tolist()]
    assert best.total_error == min(run.total_error for run in others)
    assert best.label == "DSGD, best step"
    assert not np.isfinite(problem.simulate(DSGD(1e4), 100, trials=4).total_error)
    assert "diverges" in problem.simulate(DSGD(1e4), 100, trials=4).records()[0]["note"]


# -- faults and changing networks ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_faults_the_edge_ledger_gives_the_same_estimates():
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(6), "gamma", 2, intercept=False)
    plain = problem.simulate("anytime-sda", [40, 150], trials=3)
    ledger = problem.simulate("anytime-sda", [40, 150], trials=3, faults=gs.faults.Faults())
    np.testing.assert_allclose(plain.estimates, ledger.estimates, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_losing_three_messages_in_ten_costs_at_most_a_tenth():
    problem = gs.LikelihoodEstimation.random(gs.Network.grid(3, 3), "logistic", 3, intercept=False)
    whole = problem.simulate("anytime-sda", 600, trials=24)
    lossy = problem.simulate("anytime-sda", 600, trials=24, faults=Loss(0.3))
    assert lossy.total_error <= 1.1 * whole.total_error


@pytest.mark.slow
def test_the_dead_are_left_out_and_the_others_go_on():
    problem = gs.LikelihoodEstimation.random(gs.Network.complete(6), "logistic", 2, intercept=False)
    run = problem.simulate("anytime-sda", 300, trials=4, faults=gs.faults.Crash(2, 100))
    assert np.all(np.isnan(run.estimates[:, 2]))
    assert np.all(np.isfinite(run.estimates[:, [0, 1, 3, 4, 5]]))
    assert 0 < run.total_error < 10 * run.centralized_limit
    assert run.withheld == pytest.approx(1 / 6)


def test_those_alone_without_an_estimate_are_counted_and_left_out():
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(4), "logistic", 3, intercept=False)
    run = problem.simulate(Alone(), [4, 400], trials=8)
    assert run.withheld[0] > 0.5 > run.withheld[1]
    assert np.isfinite(run.total_error[1])
    assert f"{100 * run.withheld[0]:.2g}% of the estimates would be withheld" in run.records()[0]["note"]


@pytest.mark.slow
def test_changing_networks_learn_by_the_local_form():
    problem = gs.LikelihoodEstimation.random(gs.Network.complete(10), "logistic", 2, intercept=False)
    run = problem.simulate(
        gs.AnytimeSDA("local"), 600, trials=8, network=gs.ChangingNetwork.matchings(10, seed=1)
    )
    assert run.over_limit - 4 * run.over_limit_stderr < 1.25
    assert run.network.name == "matchings:10"
    assert run.bytes == 600 * 10 * 8 * 11  # five pairs a round, in both directions, and p(p+5)/2 + 4 numbers
    with pytest.raises(gs.Unsupported, match="are for AnytimeSDA"):
        problem.simulate(DSGD(), 10, trials=2, faults=Loss(0.1))


# -- refusals -----------------------------------------------------------------------------------------------------


def test_refusals():
    net = gs.Network.cycle(4)
    problem = gs.LikelihoodEstimation.random(net, "logistic", 2, intercept=False)
    with pytest.raises(gs.InvalidInput, match="running means of linearized samples"):
        problem.simulate(gs.AnytimeSDA(gain=0.1), 10)
    with pytest.raises(gs.InvalidInput, match="running means of linearized samples"):
        problem.simulate("sda", 10)
    with pytest.raises(gs.InvalidInput, match="at least one method is needed"):
        problem.simulate([], 10)
    with pytest.raises(gs.InvalidInput, match="needs parameter and covariates"):
        gs.LikelihoodEstimation(net, "logistic", 2, intercept=False).simulate("anytime-sda", 10)
    with pytest.raises(gs.InvalidInput, match="one component per covariate"):
        gs.LikelihoodEstimation(net, "logistic", 2, covariates=gs.Gaussian(np.zeros((4, 3))), intercept=False)
    with pytest.raises(gs.InvalidInput, match="names needs one entry per covariate"):
        gs.LikelihoodEstimation(net, "logistic", 2, names=["a"], intercept=False)
    with pytest.raises(gs.InvalidInput, match="samples must be whole numbers"):
        gs.LikelihoodEstimation(net, "logistic", 2, samples=[1, 2], intercept=False)
    assert MEMORY == 1024
