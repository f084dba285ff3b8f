"""What a fit says of its accuracy is what statsmodels says of all rows in one place."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from tests.support.glm import FAMILIES, assert_same, pooled

import gossamer as gs
from gossamer.applications import Huber, LikelihoodEstimation, NegativeBinomial, ScaledHuber
from gossamer.errors import InvalidInput, Unsupported
from gossamer.families import Family

NETWORK = gs.Network.grid(3, 3)


def generated(family: str, seed: int, rows: int = 240) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4)) * [1.0, 0.3, 2.0, 1.0] + [0.0, 2.0, 0.0, 0.0]
    eta = x @ [0.5, -0.4, 0.1, 0.0] + 0.6
    draws = {
        "logistic": lambda: rng.random(rows) < 1 / (1 + np.exp(-eta)),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2),
        "least-squares": lambda: eta + rng.standard_t(4, rows),
        "negative-binomial": lambda: rng.negative_binomial(2, 2 / (2 + np.exp(eta))),
    }
    return x, draws[family]().astype(float)


def owners(rows: int, seed: int) -> np.ndarray:
    """Agents 7 and 8 have no rows."""
    return np.random.default_rng(seed).integers(0, 7, rows)


@pytest.mark.slow
@pytest.mark.parametrize("given", ["plain", "weights", "offset"])
@pytest.mark.parametrize("family", FAMILIES)
def test_generated_rows(family, given):
    x, y = generated(family, seed=len(given))
    rng = np.random.default_rng(5)
    weights, offset = rng.integers(1, 4, len(y)).astype(float), 0.3 * rng.normal(size=len(y))
    mine = {"plain": {}, "weights": {"sample_weight": weights}, "offset": {"offset": offset}}[given]
    theirs = {"plain": {}, "weights": {"freq_weights": weights}, "offset": {"offset": offset}}[given]
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, owners(len(y), 1), family=family, **mine)
    summary = problem.fit().summary(agent=8)
    assert_same(summary, *pooled(family, x, y, **theirs))
    assert summary.rounds > 0


@pytest.mark.parametrize(
    ("family", "data"), [("logistic", "cancer"), ("gamma", "diabetes"), ("poisson", "diabetes")]
)
@pytest.mark.parametrize("split", ["sorted", "random"])
def test_bundled_rows(family, data, split):
    """Where fitted probabilities come close to 0, statsmodels' own HC0 is good to 1e-5 only: not with these columns."""
    x, y = {"cancer": load_breast_cancer, "diabetes": load_diabetes}[data](return_X_y=True)
    x = x[:, [1, 4, 8, 9]]
    summary = LikelihoodEstimation.from_data(x, y, NETWORK, split, family=family).fit().summary(agent=4)
    assert_same(summary, *pooled(family, x, y))


def test_least_squares_is_statsmodels_ols():
    x, y = load_diabetes(return_X_y=True)
    known = sm.OLS(y, sm.add_constant(x, prepend=False)).fit()
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", family="least-squares").fit()
    summary = fit.summary()
    np.testing.assert_allclose(summary.standard_errors, known.bse, rtol=1e-8)
    np.testing.assert_allclose(summary.p, known.pvalues, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(summary.intervals, known.conf_int(), rtol=1e-8)
    np.testing.assert_allclose(summary.robust_errors, known.HC0_se, rtol=1e-8)
    assert (fit.aic, fit.bic) == pytest.approx((known.aic, known.bic), rel=1e-10)
    assert fit.score(x, y) == pytest.approx(known.rsquared, rel=1e-10)
    assert summary.explained == pytest.approx(known.rsquared, rel=1e-10)


@pytest.mark.slow
def test_negative_binomial_with_its_dispersion():
    x, y = generated("negative-binomial", 3, 500)
    design = sm.add_constant(x, prepend=False)
    known, robust = (
        sm.NegativeBinomial(y, design).fit(disp=0, method="newton", maxiter=300, tol=1e-12, cov_type=kind)
        for kind in ("nonrobust", "HC0")
    )
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, owners(500, 2), family="negative-binomial").fit()
    summary = fit.summary(agent=7)
    assert summary.names[-1] == "dispersion"
    for mine, theirs in (
        (summary.estimates, known.params),
        (summary.standard_errors, known.bse),
        (summary.robust_errors, robust.bse),
        (summary.aic, known.aic),
        (summary.bic, known.bic),
        (fit.scale, known.params[-1]),
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_negative_binomial_with_a_known_dispersion():
    x, y = generated("negative-binomial", 4)
    family = sm.families.NegativeBinomial(alpha=0.7)
    design = sm.add_constant(x, prepend=False)
    known, robust = (sm.GLM(y, design, family).fit(tol=1e-14, cov_type=kind) for kind in ("nonrobust", "HC0"))
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, family=NegativeBinomial(0.7))
    assert_same(problem.fit().summary(), known, robust)


def test_counts_without_overdispersion_say_so():
    x, _ = generated("poisson", 5)
    y = np.round(np.exp(x @ [0.5, -0.4, 0.1, 0.0] + 2))
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, family="negative-binomial").fit()
    assert "no more than those of a Poisson distribution" in fit.note
    poisson = LikelihoodEstimation.from_data(x, y, NETWORK, family="poisson").fit()
    np.testing.assert_allclose(fit.estimates, poisson.estimates, atol=1e-4)
    np.testing.assert_allclose(fit.summary().standard_errors, poisson.summary().standard_errors, rtol=1e-3)


def test_softmax_against_its_first_class_is_statsmodels_mnlogit():
    x, y = load_wine(return_X_y=True)
    x = x[:, [1, 2, 4]]
    known = sm.MNLogit(y, sm.add_constant(x, prepend=False)).fit(disp=0, method="newton", maxiter=50)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, family="softmax").fit()
    summary = fit.summary(agent=2)
    differences = np.kron([[-1, 1, 0], [-1, 0, 1]], np.eye(4))
    np.testing.assert_allclose(differences @ summary.estimates, known.params.T.ravel(), rtol=1e-6)
    errors = np.sqrt(np.diag(differences @ summary.covariance @ differences.T))
    np.testing.assert_allclose(errors, known.bse.T.ravel(), rtol=1e-6)
    assert (summary.parameters, summary.aic) == (8, pytest.approx(known.aic, rel=1e-8))
    np.testing.assert_allclose(fit.predict_proba(x), known.predict(), atol=1e-7)


def test_robust_intervals_and_levels():
    x, y = generated("gamma", 6)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, family="gamma").fit()
    _, robust = pooled("gamma", x, y)
    summary = fit.summary(robust=True, level=0.9)
    np.testing.assert_allclose(summary.intervals, robust.conf_int(alpha=0.1), rtol=1e-6)
    np.testing.assert_allclose(summary.p, robust.pvalues, rtol=1e-6)
    with pytest.raises(InvalidInput, match="level must be a finite number above 0 and below 1, got 1"):
        fit.summary(level=1)
    with pytest.raises(InvalidInput, match="agent must be a whole number"):
        fit.summary(agent=9)


def test_a_ridge_penalty_shrinks_the_number_of_parameters():
    """With the normal equations at hand: k = tr (A + P)^-1 A, and the covariance with the penalty."""
    x, y = generated("least-squares", 7)
    ridge, ones = 0.2, np.column_stack([x, np.ones(len(y))])
    summary = (
        LikelihoodEstimation.from_data(x, y, NETWORK, family="least-squares", ridge=ridge).fit().summary()
    )
    gram, penalty = ones.T @ ones, len(y) * ridge * np.diag([1.0, 1, 1, 1, 0])
    inverse = np.linalg.inv(gram + penalty)
    assert summary.parameters == pytest.approx(np.trace(inverse @ gram))
    residuals = y - ones @ inverse @ ones.T @ y
    dispersion = residuals @ residuals / (len(y) - summary.parameters)
    np.testing.assert_allclose(summary.covariance, dispersion * inverse @ gram @ inverse, rtol=1e-8)
    assert "the penalty biases estimates" in summary.note


@pytest.mark.parametrize("family", [Huber(1.0), ScaledHuber()], ids=["huber", "scaled"])
def test_huber_has_robust_errors_only(family):
    x, y = generated("least-squares", 8)
    summary = LikelihoodEstimation.from_data(x, y, NETWORK, family=family).fit().summary()
    assert np.isnan(summary.standard_errors).all()
    assert summary.robust
    assert np.isnan(summary.aic)
    known = sm.RLM(y, sm.add_constant(x, prepend=False)).fit()
    np.testing.assert_allclose(
        summary.robust_errors, known.bse, rtol=0.25
    )  # another estimate of the same thing


def test_what_cannot_be_summarized_says_so():
    x, y = generated("logistic", 9)
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, ridge=0.1)
    with pytest.raises(Unsupported, match=r"use fit\('newton'\)"):
        problem.fit(gs.applications.Extra(), 50).summary()
    fit = problem.fit()
    stored = pickle.loads(pickle.dumps(fit))
    assert stored == fit
    with pytest.raises(Unsupported, match="before the fit is stored"):
        stored.summary()
    np.testing.assert_array_equal(stored.predict(x), fit.predict(x))
    squares = Family.own(lambda eta, y: eta - y, lambda eta, y: np.ones_like(eta))
    own = LikelihoodEstimation.from_data(x, y, NETWORK, family=squares).fit().summary()
    assert np.isnan(own.deviance)
    assert np.isfinite(own.robust_errors).all()


def test_one_class_has_no_null_deviance():
    x, y = generated("logistic", 10)
    columns = {"dose": x[:, 0], "age": x[:, 2]}
    fit = LikelihoodEstimation.from_data(columns, np.ones_like(y), NETWORK, intercept=False, ridge=0.1).fit()
    assert np.isnan(fit.null_deviance)
    assert fit.deviance > 0
    assert "no null deviance" in fit.summary().note


@pytest.mark.slow
def test_a_summary_can_be_read_and_drawn(tmp_path):
    x, y = generated("poisson", 11)
    columns = {"dose": x[:, 0], "age": x[:, 2]}
    problem = LikelihoodEstimation.from_data(columns, y, NETWORK, family="poisson")
    summary = problem.fit().summary()
    text = str(summary)
    assert "dose" in text
    assert "null deviance:" in text
    frame = summary.to_frame().set_index("parameter")
    assert frame.loc["age", "standard_error"] == summary.standard_errors[1]
    summary.plot()[0].figure.savefig(tmp_path / "intervals.png")
    assert problem.ridge_path("gcv", [0.1, 0.01]).plot()[0].get_xlabel() == "ridge"


# -- predictions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [*FAMILIES, "softmax", ScaledHuber()], ids=str)
def test_predictions_are_scikit_learns(family):
    x, y = generated(
        "logistic" if family == "softmax" else "least-squares" if not isinstance(family, str) else family, 12
    )
    if family == "softmax":
        y = y + (x[:, 2] > np.random.default_rng(0).normal(size=len(y)))
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, family=family).fit()
    exported = pickle.loads(pickle.dumps(fit.to_sklearn(agent=3)))
    np.testing.assert_allclose(fit.predict(x), exported.predict(x))
    assert fit.score(x, y) == pytest.approx(exported.score(x, y))
    if hasattr(exported, "predict_proba"):
        np.testing.assert_allclose(fit.predict_proba(x), exported.predict_proba(x), atol=1e-12)
    else:
        with pytest.raises(Unsupported, match="which have no classes"):
            fit.predict_proba(x)


@pytest.mark.parametrize("family", ["least-squares", "gamma"])
def test_as_many_parameters_as_rows_leave_no_dispersion(family):
    x, y = generated(family, seed=2, rows=5)
    summary = LikelihoodEstimation.from_data(x, np.exp(y), NETWORK, family=family).fit().summary()
    assert np.isnan(summary.standard_errors).all()
    assert np.isnan([summary.dispersion, *summary.p, *summary.intervals.ravel()]).all()
    assert "not more rows than parameters" in summary.note


def test_labels_that_are_all_the_same():
    x, y = generated("gamma", seed=1)
    fit = LikelihoodEstimation.from_data(x, np.full(len(y), 2.0), NETWORK, family="gamma").fit()
    np.testing.assert_allclose(fit.estimates, np.tile([0, 0, 0, 0, np.log(2)], (9, 1)), atol=1e-12)
    assert np.isnan(fit.summary().log_likelihood)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, family="gamma").fit()
    assert fit.score(x, np.ones(len(y))) == 0  # as R^2 of scikit-learn


def test_scikit_learn_has_no_negative_binomial():
    x, y = generated("negative-binomial", 13)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, family="negative-binomial").fit()
    assert 0 < fit.score(x, y) < 1
    with pytest.raises(Unsupported, match="no estimator for the family negative-binomial"):
        fit.to_sklearn()
