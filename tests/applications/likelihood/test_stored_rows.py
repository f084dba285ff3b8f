"""Stored rows: every agent finds scikit-learn's fit of all rows; what it costs; what is said when there is none."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import GammaRegressor, HuberRegressor, LogisticRegression, PoissonRegressor
from sklearn.linear_model._huber import _huber_loss_and_gradient

import gossamer as gs
from gossamer.applications import Alone, Centralized
from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.applications.likelihood.scaled_huber import ScaledHuber
from gossamer.applications.likelihood.stored_rivals import GRID, ExactDiffusion, Extra, GradientTracking
from gossamer.applications.likelihood.stored_rows import RIVALS
from gossamer.errors import InvalidInput, Unsupported
from gossamer.families import Family, Huber, Softmax

NETWORK = gs.Network.grid(2, 4)
SPLITS = ("contiguous", "random", "sorted")


@cache
def rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = {"cancer": load_breast_cancer, "digits": load_digits, "diabetes": load_diabetes}[name](
        return_X_y=True
    )
    if name == "digits":
        return x / 16, y.astype(float)
    return (x - x.mean(axis=0)) / x.std(axis=0), y.astype(float)


@cache
def eights() -> tuple[np.ndarray, np.ndarray]:
    x, y = rows("digits")
    return x[(y == 3) | (y == 8)], (y[(y == 3) | (y == 8)] == 8).astype(float)


def small(seed: int = 0, labels: str = "logistic") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 3))
    eta = x @ [1.0, -0.5, 0.3] + 0.2
    y = rng.poisson(np.exp(eta)) if labels == "poisson" else rng.random(120) < 1 / (1 + np.exp(-eta))
    return x, y.astype(float)


def flat(model) -> np.ndarray:
    """Coefficients and intercept in our order."""
    return np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)]).ravel()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("network", [NETWORK, gs.Network.path(5)], ids=["grid", "path"])
def test_breast_cancer_is_fitted_as_by_scikit_learn(split, network):
    x, y = rows("cancer")
    known = LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(x, y)
    fit = LikelihoodEstimation.from_data(x, y, network, split, ridge=2 / len(y)).fit()
    np.testing.assert_allclose(fit.estimates, np.tile(flat(known), (network.agents, 1)), atol=1e-8)
    assert fit.disagreement < 1e-10
    assert fit.names[-1] == "intercept"


def test_units_do_not_matter():
    """The columns of these data have lengths from 0.004 to 880."""
    x, y = load_breast_cancer(return_X_y=True)
    known = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(x, y)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", ridge=1 / len(y)).fit()
    np.testing.assert_allclose(fit.estimates, np.tile(flat(known), (8, 1)), atol=1e-6)


@pytest.mark.parametrize("family", ["huber", ScaledHuber(), "squares"], ids=str)
@pytest.mark.parametrize("far", [5e3, 1e5])
def test_labels_may_be_as_large_as_prices(family, far):
    """Labels and the intercept are shifted, and nothing else changes."""
    if family == "squares":
        family = Family.own(lambda eta, y: eta - y, lambda eta, y: np.ones_like(eta))
    x, _ = small()
    y = x @ [1.0, -0.5, 0.3] + np.random.default_rng(1).standard_t(2.5, 120)
    near, away = (
        LikelihoodEstimation.from_data(x, y + shift, NETWORK, family=family).fit() for shift in (0.0, far)
    )
    np.testing.assert_allclose(away.estimates - [0, 0, 0, far], near.estimates, atol=1e-6)


@pytest.mark.parametrize("family", ["logistic", "softmax"])
def test_units_do_not_matter_without_a_penalty_either(family):
    x, y = small()
    y = y + (x[:, 2] > np.random.default_rng(1).normal(size=120)) if family == "softmax" else y
    units = np.array([1e5, 1.0, 1e-5])
    plain, odd = (
        LikelihoodEstimation.from_data(x * by, y, NETWORK, family=family).fit() for by in (1.0, units)
    )
    scaled = odd.estimates * np.tile(np.append(units, 1), plain.estimates.shape[1] // 4)
    np.testing.assert_allclose(scaled, plain.estimates, atol=1e-6)


def test_two_digits():
    x, y = eights()
    known = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(x, y)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", ridge=1 / len(y)).fit()
    np.testing.assert_allclose(fit.estimates, np.tile(flat(known), (8, 1)), atol=1e-8)


@pytest.mark.slow
def test_ten_digits_by_softmax():
    """Every other pixel, 330 parameters: scikit-learn's solver comes to 1e-6 only with a tight tolerance."""
    x, y = rows("digits")
    x = x[:, ::2]
    known = LogisticRegression(solver="newton-cg", tol=1e-12, max_iter=1000).fit(x, y)
    problem = LikelihoodEstimation.from_data(x, y, gs.Network.cycle(4), family="softmax", ridge=1 / len(y))
    fit = problem.fit()
    np.testing.assert_allclose(fit.estimates, np.tile(flat(known), (4, 1)), atol=1e-6)


@pytest.mark.parametrize(("family", "known"), [("poisson", PoissonRegressor), ("gamma", GammaRegressor)])
def test_diabetes_by_regression_with_a_log_link(family, known):
    x, y = rows("diabetes")
    model = known(alpha=1e-3, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(x, y)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", family=family, ridge=1e-3).fit()
    np.testing.assert_allclose(fit.estimates, np.tile(flat(model), (8, 1)), atol=1e-8)


@pytest.mark.parametrize(("alpha", "epsilon"), [(1e-4, 1.35), (1.0, 1.8)])
def test_diabetes_by_huber_with_the_scale(alpha, epsilon):
    """scikit-learn's own solver stops about 1e-3 before the minimum, so its objective is minimized to the end here."""
    x, y = rows("diabetes")
    model = HuberRegressor(alpha=alpha, epsilon=epsilon, tol=1e-12, max_iter=10_000).fit(x, y)
    start = np.concatenate([flat(model), [model.scale_]])
    arguments = (x, y, epsilon, alpha, np.ones(len(y)))
    options = {"ftol": 0, "gtol": 1e-9, "maxiter": 10_000}
    for _ in range(3):
        start = minimize(
            _huber_loss_and_gradient, start, arguments, jac=True, method="L-BFGS-B", options=options
        ).x
    problem = LikelihoodEstimation.from_data(
        x, y, NETWORK, "sorted", family=ScaledHuber(epsilon), ridge=alpha / len(y)
    )
    fit = problem.fit(steps=500)
    np.testing.assert_allclose(fit.estimates, np.tile(start[:-1], (8, 1)), atol=1e-5)
    np.testing.assert_allclose(fit.scale, start[-1], atol=1e-5)
    np.testing.assert_allclose(fit.estimates[0], flat(model), atol=0.01)
    ours = np.append(fit.estimates[0], fit.scale[0])
    slope = _huber_loss_and_gradient(ours, *arguments)[1]
    assert np.abs(slope).max() < 1e-5


def test_huber_with_a_given_threshold_has_the_slope_of_its_minimum():
    x, y = rows("diabetes")
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, family=Huber(50.0), ridge=0.1).fit()
    theta = fit.estimates[3]
    residuals = y - x @ theta[:-1] - theta[-1]
    slopes = np.append(x.T @ np.clip(residuals, -50, 50) / len(y) - 0.1 * theta[:-1], 0)
    slopes[-1] = np.clip(residuals, -50, 50).mean()
    np.testing.assert_allclose(slopes, 0, atol=1e-6)


def test_a_family_of_ones_own_and_unequal_agents():
    """Least squares as one's own family: the fit is NumPy's, whoever holds how many rows."""
    x, y = rows("diabetes")
    squares = Family.own(lambda eta, y: eta - y, lambda eta, y: np.ones_like(eta))
    owner = np.random.default_rng(1).choice(4, size=len(y), p=[0.7, 0.2, 0.05, 0.05])
    problem = LikelihoodEstimation.from_data(x, y, gs.Network.star(4), owner, family=squares)
    known = np.linalg.lstsq(np.column_stack([x, np.ones(len(y))]), y, rcond=None)[0]
    np.testing.assert_allclose(problem.fit().estimates, np.tile(known, (4, 1)), atol=1e-7)
    assert problem.samples.tolist() == np.bincount(owner).tolist()


def test_softmax_against_a_first_class():
    x, y = rows("digits")
    x, y = x[y < 3], y[y < 3]
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, family=Softmax(3), ridge=0.01).fit()
    assert fit.estimates.shape == (8, 2 * 65)
    assert fit.error[-1] < 1e-9
    assert fit.names[0] == "x0[1]"


def test_far_from_the_minimum_the_loss_still_falls():
    """Newton's plain step overshoots here: the first one would take counts of 150 to exp(150)."""
    x, y = rows("diabetes")
    fit = LikelihoodEstimation.from_data(x * 3, y, NETWORK, family="poisson", ridge=1e-6).fit()
    assert fit.error[-1] < 1e-9
    assert len(fit.rounds) < 25


def test_covariates_that_are_nearly_collinear_are_fitted_as_far_as_rounding_allows():
    x, y = small(labels="poisson")
    x[:, 2] = x[:, 0] + x[:, 1] + 1e-5 * x[:, 2]
    fit = LikelihoodEstimation.from_data(x, y, gs.Network.path(6), "sorted", family="poisson").fit()
    assert "rounding still moves estimates" in fit.note
    size = np.abs(fit.estimates).max()
    assert fit.error[-1] < 1e-3 * size
    ones = np.column_stack([x, np.ones(len(y))])
    slope = ones.T @ (np.exp(ones @ fit.estimates[2]) - y) / len(y)
    np.testing.assert_allclose(slope, 0, atol=1e-5)


def test_agents_with_fewer_rows_than_parameters():
    x, y = small(labels="poisson")
    wide = np.column_stack([x, np.random.default_rng(5).normal(size=(120, 9))])
    fit = LikelihoodEstimation.from_data(wide, y, gs.Network.path(30), "sorted", family="poisson").fit()
    assert fit.error[-1] < 1e-8


def test_rounds_and_bytes_are_those_of_the_messages():
    x, y = small()
    fit = LikelihoodEstimation.from_data(x, y, gs.Network.complete(4), ridge=0.1).fit()
    first = Consensus(gs.Network.complete(4))
    first.average(np.zeros((4, 9)), 1e-6)  # moments of labels and covariates, over 12 links, in one round
    first.largest(np.zeros((4, 8)))
    first.average(np.zeros((4, 17)), 1e-3)  # 3 + 4 * 5 / 2 + 4 numbers
    first.largest(np.zeros((4, 6)))
    assert fit.bytes[0] >= first.bytes == 8 * 12 * (9 + 8 + 17 + 6)
    assert fit.rounds[0] >= first.rounds == 4
    assert np.all(np.diff(fit.bytes) > 0)
    assert fit.reached(1e-6)[0] <= fit.rounds[-1]
    assert fit.reached(0.0) is None


def test_averaging_is_as_accurate_as_it_says():
    network, values = gs.Network.path(9), np.random.default_rng(0).normal(size=(9, 3))
    exchange = Consensus(network)
    held = exchange.average(values, 1e-3)
    spread = np.linalg.norm(values - values.mean(axis=0), axis=0)
    assert np.all(np.linalg.norm(held - values.mean(axis=0), axis=0) <= 1e-3 * spread)
    np.testing.assert_allclose(exchange.largest(values), values.max(axis=0))


def test_the_center_and_the_agents_alone():
    x, y = small()
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, ridge=0.01)
    center, alone, newton = (problem.fit(who) for who in (Centralized(), Alone(), "newton"))
    assert center.bytes.tolist() == [8 * 120 * 4]
    np.testing.assert_allclose(newton.estimates, center.estimates, atol=1e-8)
    assert alone.error[-1] > 0.1
    lonely = LikelihoodEstimation.from_data(x, np.sort(y), NETWORK).fit(Alone())
    assert "find no estimate in their own rows" in lonely.note


@pytest.mark.parametrize("kind", [Extra, ExactDiffusion, GradientTracking])
def test_rivals_reach_the_same_minimum(kind):
    x, y = small()
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", ridge=0.1)
    fit = problem.fit(kind(0.3), rounds=1500)
    assert fit.error[-1] < 1e-8
    per_round = 8 * 4 * kind.vectors * 2 * len(NETWORK.edges)
    assert fit.bytes[-1] == 1500 * per_round


def test_a_rival_follows_its_formulas():
    """Two rounds of each by hand, on two agents with least squares in one covariate."""
    squares = Family.own(lambda eta, y: eta - y, lambda eta, y: np.ones_like(eta))
    x, y = np.array([[1.0], [2.0]]), np.array([1.0, 3.0])
    network = gs.Network.path(2)
    problem = LikelihoodEstimation.from_data(x, y, network, family=squares, intercept=False)
    a, mix = 0.5 / 4, np.eye(2) - network.gossip.toarray()

    def slope(theta):
        return x[:, 0] * (x[:, 0] * theta - y)

    zero = np.zeros(2)
    first = mix @ zero - a * slope(zero)
    half = (np.eye(2) + mix) / 2
    extra = (np.eye(2) + mix) @ first - half @ zero - a * (slope(first) - slope(zero))
    np.testing.assert_allclose(problem.fit(Extra(0.5), rounds=2).estimates[:, 0], extra)
    psi = zero - a * slope(zero)
    moved = half @ psi
    later = moved - a * slope(moved)
    np.testing.assert_allclose(
        problem.fit(ExactDiffusion(0.5), rounds=2).estimates[:, 0], half @ (later + moved - psi)
    )
    tracked = mix @ slope(zero) + slope(-a * slope(zero)) - slope(zero)
    start = mix @ zero - a * slope(zero)
    np.testing.assert_allclose(
        problem.fit(GradientTracking(0.5), rounds=2).estimates[:, 0], mix @ start - a * tracked
    )


@pytest.mark.slow
def test_all_methods_in_one_table(tmp_path):
    x, y = rows("cancer")
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", ridge=1 / len(y))
    found = problem.compare_fits(rounds=400, target=1e-6)
    table = found.to_frame().set_index("method")
    assert len(table) == len(RIVALS)
    assert table.loc["newton", "rounds_to_target"] < 400
    assert table.drop(index=["newton", "centralized"])["rounds_to_target"].isna().all()
    best, usual = table.loc["EXTRA, best step", "error"], table.loc["EXTRA, step=1", "error"]
    assert best <= usual or np.isnan(usual)
    assert f"the best of {GRID[-1]:g} to {GRID[0]:g}" in " ".join(found.notes)
    axes = found.plot()
    assert len(axes) == 2
    axes[0].figure.savefig(tmp_path / "fits.png")
    assert found["newton"].plot() is not None


def test_divergence_is_said():
    x, y = small(labels="poisson")
    fit = LikelihoodEstimation.from_data(x * 3, y, NETWORK, family="poisson").fit(Extra(8.0), rounds=200)
    assert fit.note == "diverges with this step"
    assert np.isnan(fit.error[-1])
    assert fit.records()[-1]["error"] is None


@pytest.mark.parametrize("exact", [True, False], ids=["separated", "touching"])
def test_separable_labels_are_refused_with_their_direction(exact):
    x, _ = small()
    y = (2 * x[:, 1] - x[:, 2] > 0).astype(float)
    if not exact:  # some rows of both kinds on the border itself
        x = np.vstack([x, np.zeros((6, 3))])
        y = np.append(y, [0, 1, 0, 1, 0, 1])
    problem = LikelihoodEstimation.from_data({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}, y, NETWORK, "random")
    with pytest.raises(
        InvalidInput, match=r"the labels are separable: .* forever along the direction .*1 b.*"
    ):
        problem.fit()
    assert LikelihoodEstimation.from_data(x, y, NETWORK, ridge=1e-3).fit().error[-1] < 1e-8


def test_counts_can_be_separable_too():
    x, y = small(labels="poisson")
    x[:, 2] = np.abs(x[:, 2]) * (y == 0)
    with pytest.raises(InvalidInput, match=r"separable.*- 1 x2|separable.*-1 x2"):
        LikelihoodEstimation.from_data(x, y, NETWORK, family="poisson").fit()


@pytest.mark.parametrize("family", ["least-squares", "huber", "gamma", "poisson"])
def test_labels_that_are_all_the_same_are_fitted_exactly(family):
    """Then steps are rounding, and never become shorter than the residuals."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    for split in ("contiguous", np.zeros(60, dtype=int)):
        fit = LikelihoodEstimation.from_data(
            x, np.full(60, 5.0), gs.Network.cycle(5), split, family=family
        ).fit()
        level = np.log(5) if family in ("gamma", "poisson") else 5
        np.testing.assert_allclose(fit.estimates, np.tile([0, 0, level], (5, 1)), atol=1e-12)


def test_labels_that_are_almost_separable_are_fitted():
    x, _ = small()
    y = (x[:, 0] > 0).astype(float)
    y[np.argmax(x[:, 0])] = 0
    known = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(x, y)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK).fit()
    np.testing.assert_allclose(fit.estimates[0], flat(known), rtol=1e-5)


def test_a_covariate_that_nobody_varies():
    x, y = small()
    columns = {"age": x[:, 0], "site": np.full(120, 3.0)}
    with pytest.raises(InvalidInput, match=r"no agent.s rows vary along the direction .*site.*; drop one"):
        LikelihoodEstimation.from_data(columns, y, NETWORK).fit()
    assert LikelihoodEstimation.from_data(columns, y, NETWORK, ridge=0.1).fit().error[-1] < 1e-8


@pytest.mark.parametrize(("family", "wrong"), [("logistic", 2.0), ("poisson", 0.5), ("gamma", 0.0)])
def test_labels_outside_the_family(family, wrong):
    x, y = small()
    y = y + 1 if family == "gamma" else y
    y[100] = wrong
    with pytest.raises(InvalidInput, match=rf"the labels of agent 6 must be .* for the family {family}"):
        LikelihoodEstimation.from_data(x, y, NETWORK, family=family)


def test_a_class_without_rows():
    x, y = small()
    with pytest.raises(InvalidInput, match=r"rows for each of the classes 0 to 2000, got none of class 1 "):
        LikelihoodEstimation.from_data(x, 2000 * y, NETWORK, family="softmax", ridge=0.1)


def test_what_cannot_be_fitted_says_so():
    x, y = small()
    with pytest.raises(InvalidInput, match=r"fit\(\) is for rows that agents hold"):
        LikelihoodEstimation.random(NETWORK).fit()
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, ridge=0.1)
    with pytest.raises(InvalidInput, match="no minimum was reached after 2 of Newton's steps"):
        problem.fit(steps=2)
    with pytest.raises(InvalidInput, match="method must be 'newton'"):
        problem.fit("extra")
    scaled = LikelihoodEstimation.from_data(x, y, NETWORK, family=ScaledHuber())
    with pytest.raises(Unsupported, match="without a scale"):
        scaled.fit(Extra())
