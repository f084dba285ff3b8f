"""The scikit-learn estimators obey scikit-learn's rules, and find what its own find."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import gossamer as gs
from gossamer.sklearn import (
    DecentralizedHuberRegressor,
    DecentralizedLogisticRegression,
    DecentralizedPoissonRegressor,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        DecentralizedLogisticRegression(agents=2),
        DecentralizedPoissonRegressor(agents=2),
        DecentralizedHuberRegressor(agents=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_rules_of_scikit_learn(estimator):
    results = check_estimator(estimator, on_skip=None)
    assert len(results) > 40
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def test_it_finds_what_scikit_learn_finds():
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    known = LogisticRegression(C=0.2, solver="newton-cholesky", tol=1e-12).fit(x, y)
    ours = DecentralizedLogisticRegression(0.2, agents=gs.Network.cycle(6), split="sorted").fit(x, y)
    np.testing.assert_allclose(ours.coef_, known.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, known.intercept_, atol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(x), known.predict_proba(x), atol=1e-8)
    assert ours.rounds_ == ours.fit_.rounds[-1] > ours.n_iter_ > 1
    assert ours.bytes_ > 0
    assert ours.fit_.estimates.shape == (6, 31)


def test_several_classes_with_words_for_labels():
    x, y = load_iris(return_X_y=True)
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    known = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(x, words)
    ours = DecentralizedLogisticRegression(agents=5).fit(x, words)
    np.testing.assert_allclose(ours.coef_, known.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, known.intercept_, atol=1e-6)
    assert ours.predict(x).tolist() == known.predict(x).tolist()
    np.testing.assert_allclose(ours.predict_proba(x).sum(axis=1), 1)


def test_regressors_find_what_scikit_learn_finds():
    x, y = load_diabetes(return_X_y=True)
    known = PoissonRegressor(alpha=1e-4, solver="newton-cholesky", tol=1e-12).fit(x, y + 0.5)
    ours = DecentralizedPoissonRegressor(alpha=1e-4).fit(x, y + 0.5)
    np.testing.assert_allclose(ours.predict(x), known.predict(x), rtol=1e-8)
    known = HuberRegressor(tol=1e-10, max_iter=10_000).fit(x * 20, y)
    ours = DecentralizedHuberRegressor().fit(x * 20, y)
    np.testing.assert_allclose(
        ours.predict(x * 20), known.predict(x * 20), atol=0.05
    )  # its solver stops early
    assert ours.scale_ == pytest.approx(known.scale_, abs=0.01)


def test_labels_that_are_fitted_exactly_have_no_scale():
    x = np.random.default_rng(0).normal(size=(10, 4))
    ours = DecentralizedHuberRegressor().fit(x, x[:, 0])
    np.testing.assert_allclose(ours.predict(x), x[:, 0], atol=1e-4)
    assert ours.scale_ < 1e-4


def test_counts_are_scored_as_by_scikit_learn():
    x, y = load_diabetes(return_X_y=True)
    known = PoissonRegressor(alpha=1e-4, solver="newton-cholesky", tol=1e-12).fit(x, y)
    assert DecentralizedPoissonRegressor(alpha=1e-4).fit(x, y).score(x, y) == pytest.approx(known.score(x, y))


def test_without_an_intercept():
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    known = LogisticRegression(solver="newton-cholesky", tol=1e-12, fit_intercept=False).fit(x, y)
    ours = DecentralizedLogisticRegression(fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(ours.coef_, known.coef_, atol=1e-8)
    assert ours.intercept_.tolist() == [0.0]


@pytest.mark.slow
def test_in_a_pipeline_and_a_grid_search():
    x, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), DecentralizedLogisticRegression(agents=4))
    search = GridSearchCV(model, {"decentralizedlogisticregression__C": [0.01, 1.0]}, cv=3).fit(x, y)
    assert search.best_score_ > 0.95
    assert search.predict(x).shape == y.shape


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class"):
        DecentralizedLogisticRegression().fit(np.ones((5, 2)), np.zeros(5))


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (DecentralizedLogisticRegression(C=0), "C must be a finite number above 0, got 0"),
        (DecentralizedLogisticRegression(agents=0), "agents must be a whole number of at least 1, got 0"),
        (DecentralizedPoissonRegressor(alpha=-1), "alpha must be a finite number of at least 0, got -1"),
        (DecentralizedHuberRegressor(epsilon=1), "epsilon must be a finite number above 1, got 1"),
    ],
)
def test_wrong_parameters_are_named_as_they_were_given(estimator, words):
    with pytest.raises(ValueError, match=words):
        estimator.fit(np.arange(8.0).reshape(4, 2), [0, 1, 1, 0])
