"""Lasso and elastic net, the choice of a ridge penalty, and parameters that agents have for themselves."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge

import gossamer as gs
from gossamer.applications import Centralized, Extra, Huber
from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.applications.likelihood.lasso import quadratic_lasso
from gossamer.errors import InvalidInput, Unsupported

NETWORK = gs.Network.grid(2, 4)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_diabetes(return_X_y=True)
    return x * 20, y


@pytest.mark.parametrize(("alpha", "ratio"), [(1.0, 0.5), (5.0, 1.0), (0.1, 0.1)])
def test_elastic_net_is_scikit_learns(alpha, ratio):
    x, y = diabetes()
    known = ElasticNet(alpha=alpha, l1_ratio=ratio, tol=1e-14, max_iter=10**6).fit(x, y)
    problem = LikelihoodEstimation.from_data(
        x, y, NETWORK, "sorted", family="least-squares", ridge=alpha * (1 - ratio), lasso=alpha * ratio
    )
    fit = problem.fit()
    np.testing.assert_allclose(
        fit.estimates, np.tile(np.append(known.coef_, known.intercept_), (8, 1)), atol=1e-7
    )
    np.testing.assert_array_equal(fit.estimates[5, :-1] == 0, known.coef_ == 0)


@pytest.mark.slow
def test_sparse_logistic_regression_is_scikit_learns():
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    known = LogisticRegression(C=0.02, l1_ratio=1, solver="saga", tol=1e-8, max_iter=10_000).fit(x, y)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", lasso=50 / len(y)).fit()
    np.testing.assert_allclose(fit.estimates[3], np.append(known.coef_, known.intercept_), atol=1e-5)
    summary = fit.summary()
    assert summary.parameters == 1 + np.sum(known.coef_ != 0)
    assert np.isnan(summary.standard_errors).all()
    assert "no standard errors" in summary.note


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_more_parameters_than_rows(family):
    """The conditions of a minimum: slopes at most the penalty, and equal to it where parameters are not zero."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 90))
    mean = np.exp(x[:, 0] / 2 - x[:, 1] / 3)
    y = rng.poisson(mean) if family == "poisson" else rng.gamma(2, mean / 2)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, "random", family=family, lasso=0.15).fit()
    theta = fit.estimates[2]
    eta = x @ theta[:-1] + theta[-1]
    slopes = np.exp(eta) - y if family == "poisson" else 1 - y * np.exp(-eta)
    pull, there = x.T @ slopes / 60, theta[:-1] != 0
    assert 1 < there.sum() < 40
    np.testing.assert_allclose(pull[there], -0.15 * np.sign(theta[:-1][there]), atol=1e-9)
    assert np.all(np.abs(pull[~there]) <= 0.15 + 1e-9)
    assert abs(slopes.mean()) < 1e-9


def test_a_quadratic_with_a_lasso():
    """Among 3^4 choices of signs the minimum is the one whose conditions hold."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        root = rng.normal(size=(6, 4))
        curvature = root.T @ root
        size = np.sqrt(np.diag(curvature))
        curvature /= np.outer(size, size)
        response, lasso = rng.normal(size=4), np.array([0.3, 0.3, 0.3, 0.0])
        theta = quadratic_lasso(curvature, response, lasso, np.zeros(4))
        pull = response - curvature @ theta
        np.testing.assert_allclose(pull[theta != 0], (lasso * np.sign(theta))[theta != 0], atol=1e-12)
        assert np.all(np.abs(pull) <= lasso + 1e-12)
    assert quadratic_lasso(np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones(2), np.ones(2), np.zeros(2)) is None


def test_gradient_methods_need_a_smooth_penalty():
    x, y = diabetes()
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, family="least-squares", lasso=1.0)
    with pytest.raises(Unsupported, match="leave out the lasso"):
        problem.fit(Extra())


# -- the choice of a ridge penalty ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_generalized_cross_validation_by_its_formula():
    x, y = diabetes()
    path = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", family="least-squares").ridge_path("gcv")
    n, centered, known = len(y), x - x.mean(axis=0), []
    for ridge in path.ridges:
        gram = centered.T @ centered
        size = 1 + np.trace(np.linalg.solve(gram + n * ridge * np.eye(10), gram))
        residuals = y - Ridge(alpha=n * ridge).fit(x, y).predict(x)
        known.append(residuals @ residuals / n / (1 - size / n) ** 2)
    np.testing.assert_allclose(path.scores, known, rtol=1e-9)
    assert path.best == path.ridges[np.argmin(known)]
    assert path.fit.model.penalty[0] == path.best
    assert path.rounds > 0
    assert path.to_frame()["score"].min() == path.scores.min()


def test_cross_validation_deals_every_agents_rows_to_folds():
    x, y = diabetes()
    problem = LikelihoodEstimation.from_data(x, y, gs.Network.cycle(3), family="least-squares")
    path = problem.ridge_path("cv", [0.1, 0.001], folds=3, seed=4)
    folds = [
        np.random.default_rng([4, i]).permutation(len(part)) % 3
        for i, part in enumerate(np.array_split(y, 3))
    ]
    fold, known = np.concatenate(folds), []
    for ridge in (0.1, 0.001):
        losses = np.empty(len(y))
        for k in range(3):
            model = Ridge(alpha=ridge * np.sum(fold != k)).fit(x[fold != k], y[fold != k])
            losses[fold == k] = (y - model.predict(x))[fold == k] ** 2
        known.append(losses.mean())
    np.testing.assert_allclose(path.scores, known, rtol=1e-9)
    assert np.all(path.stderr > 0)


def test_penalties_that_cannot_be_scored():
    x, y = diabetes()
    with pytest.raises(Unsupported, match="scores are deviances, which the family huber does not have"):
        LikelihoodEstimation.from_data(x, y, NETWORK, family=Huber()).ridge_path()
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, family="least-squares")
    with pytest.raises(InvalidInput, match="by must be 'cv' or 'gcv', got 'aic'"):
        problem.ridge_path("aic")


# -- local parameters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "known"),
    [("logistic", sm.families.Binomial()), ("gamma", sm.families.Gamma(sm.families.links.Log()))],
)
def test_own_intercepts_and_slopes_are_indicators_of_the_agents(family, known):
    rng = np.random.default_rng(2)
    x, owner = rng.normal(size=(500, 3)), rng.integers(0, 7, 500)
    eta = x @ [0.5, -0.3, 0.2] + np.linspace(-1, 1, 7)[owner] + 0.1 * owner * x[:, 0]
    y = rng.random(500) < 1 / (1 + np.exp(-eta)) if family == "logistic" else rng.gamma(2, np.exp(eta) / 2)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, owner, family=family, local=["intercept", "x0"]).fit()
    of = [owner == k for k in range(7)]
    design = np.column_stack([x[:, 1:], *(mine * x[:, 0] for mine in of), *of]).astype(float)
    plain, robust = (sm.GLM(y, design, known).fit(tol=1e-14, cov_type=kind) for kind in ("nonrobust", "HC0"))
    for agent in (0, 4):
        summary, places = fit.summary(agent=agent), [2 + agent, 0, 1, 9 + agent]
        np.testing.assert_allclose(summary.estimates, plain.params[places], rtol=1e-6)
        np.testing.assert_allclose(summary.standard_errors, plain.bse[places], rtol=1e-6)
        np.testing.assert_allclose(summary.robust_errors, robust.bse[places], rtol=1e-6)
        assert (summary.deviance, summary.parameters) == (pytest.approx(plain.deviance), 16)
    assert np.isnan(fit.estimates[7, [0, 3]]).all()
    np.testing.assert_allclose(fit.estimates[7, 1:3], plain.params[:2], atol=1e-8)
    assert fit.disagreement < 1e-8
    assert fit.error[-1] < 1e-8


def test_only_shared_parameters_travel():
    x, y = diabetes()
    sent = []
    for local in ([], ["intercept", *(f"x{k}" for k in range(8))]):
        fit = LikelihoodEstimation.from_data(
            x, y, gs.Network.complete(4), family="least-squares", local=local
        ).fit()
        sent.append(fit.bytes[-1] / fit.rounds[-1])
    assert sent[1] < 0.4 * sent[0]


def test_rows_that_do_not_determine_own_parameters():
    x, y = diabetes()
    owner = np.arange(len(y)) % 4
    network = gs.Network.path(4)
    x[owner == 2, 0] = 1.0
    with pytest.raises(
        InvalidInput, match=r"the rows of agent 2 must determine its own parameters \(x0, intercept\)"
    ):
        LikelihoodEstimation.from_data(
            x, y, network, owner, family="least-squares", local=["x0", "intercept"]
        ).fit()
    sick = (y > 140) | (owner == 1)
    with pytest.raises(InvalidInput, match="the labels of agent 1 are separable by its own parameters"):
        LikelihoodEstimation.from_data(x[:, 1:4], sick, network, owner, local=["intercept"]).fit()
    with pytest.raises(InvalidInput, match=r"local must name parameters .* got 'x00'"):
        LikelihoodEstimation.from_data(x, y, network, family="least-squares", local=["x00"])
    with pytest.raises(InvalidInput, match="local must leave at least one parameter"):
        LikelihoodEstimation.from_data(
            x[:, :1], y, network, family="least-squares", local=["x0", "intercept"]
        )
    problem = LikelihoodEstimation.from_data(x, y, network, family="least-squares", local=["intercept"])
    with pytest.raises(Unsupported, match="a center cannot fit local parameters"):
        problem.fit(Centralized())
