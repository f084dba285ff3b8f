"""The scikit-learn estimators obey scikit-learn's rules, and find what its own find."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import gossamer as gs
from gossamer.errors import Unsupported
from gossamer.sklearn import (
    DecentralizedGammaRegressor,
    DecentralizedHuberRegressor,
    DecentralizedLinearRegression,
    DecentralizedLogisticRegression,
    DecentralizedNegativeBinomialRegressor,
    DecentralizedPoissonRegressor,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        DecentralizedLogisticRegression(agents=2),
        DecentralizedPoissonRegressor(agents=2),
        DecentralizedGammaRegressor(agents=2),
        DecentralizedHuberRegressor(agents=2),
        DecentralizedLinearRegression(agents=2),
        DecentralizedLinearRegression(1e-3, agents=2),
        DecentralizedNegativeBinomialRegressor(1e-3, agents=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_rules_of_scikit_learn(estimator):
    excused = {}
    if isinstance(estimator, DecentralizedHuberRegressor) or getattr(estimator, "alpha", 1.0) == 0:
        why = "30 columns of 15 rows have no unique fit without a penalty, which is refused"
        excused = {"check_sample_weight_equivalence_on_dense_data": why}
    results = check_estimator(estimator, on_skip=None, expected_failed_checks=excused, on_fail="raise")
    assert len(results) > 40
    assert {result["status"] for result in results} <= {"passed", "skipped", "xfail"}
    assert sum(result["status"] == "xfail" for result in results) == len(excused)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_owners_of_rows_in_cross_validation():
    """Folds take the owners of their rows along; agents without rows in a fold are not part of its network."""
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x[:, :4])
    sites = np.where(np.arange(len(y)) < 100, "a", np.where(np.arange(len(y)) < 300, "b", "c"))
    model = DecentralizedLogisticRegression()
    known = cross_validate(LogisticRegression(tol=1e-10, max_iter=1000), x, y, cv=3)
    ours = cross_validate(model, x, y, cv=3, params={"owners": sites}, return_estimator=True)
    np.testing.assert_allclose(ours["test_score"], known["test_score"])
    assert {len(fold.fit_.estimates) for fold in ours["estimator"]} == {2, 3}
    with pytest.raises(ValueError, match=r"pass the agent of each row to fit\(X, y, owners=...\)"):
        DecentralizedLogisticRegression(split=sites).fit(x, y)


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


def test_least_squares_and_elastic_net():
    x, y = load_diabetes(return_X_y=True)
    np.testing.assert_allclose(
        DecentralizedLinearRegression().fit(x, y).coef_, LinearRegression().fit(x, y).coef_, rtol=1e-6
    )
    known = ElasticNet(alpha=0.01, l1_ratio=0.5, tol=1e-12, max_iter=100_000).fit(x, y)
    ours = DecentralizedLinearRegression(alpha=0.01, l1_ratio=0.5).fit(x, y)
    np.testing.assert_allclose(ours.coef_, known.coef_, atol=1e-6)
    assert ours.score(x, y) == pytest.approx(known.score(x, y))


def test_gamma_with_weights_is_scikit_learns():
    x, y = load_diabetes(return_X_y=True)
    weights = np.random.default_rng(0).uniform(0, 2, len(y))
    known = GammaRegressor(alpha=1e-3, solver="newton-cholesky", tol=1e-12).fit(x, y, weights)
    ours = DecentralizedGammaRegressor(alpha=1e-3).fit(x, y, weights)
    np.testing.assert_allclose(ours.predict(x), known.predict(x), rtol=1e-7)
    assert ours.score(x, y, weights) == pytest.approx(known.score(x, y, weights))


def test_the_dispersion_of_counts_is_estimated():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(800, 2))
    y = rng.negative_binomial(2, 2 / (2 + np.exp(x[:, 0] / 2 + 1)))
    ours = DecentralizedNegativeBinomialRegressor().fit(x, y)
    error = ours.fit_.summary().standard_errors[-1]
    assert abs(ours.dispersion_ - 0.5) < 4 * error
    assert DecentralizedNegativeBinomialRegressor(dispersion=0.7).fit(x, y).dispersion_ == 0.7


@pytest.mark.parametrize("weight", [None, "balanced", {0: 2.0}], ids=str)
def test_weights_of_rows_and_classes(weight):
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)[:, :6]
    rows = np.random.default_rng(2).integers(0, 3, len(y)).astype(float)
    known = LogisticRegression(C=0.3, class_weight=weight, solver="newton-cholesky", tol=1e-12).fit(
        x, y, rows
    )
    ours = DecentralizedLogisticRegression(0.3, class_weight=weight).fit(x, y, rows)
    np.testing.assert_allclose(ours.coef_, known.coef_, atol=1e-7)


@pytest.mark.slow
def test_more_rows_by_and_by():
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    whole = DecentralizedLogisticRegression().fit(x, y)
    parts = DecentralizedLogisticRegression()
    for part in np.array_split(np.random.default_rng(3).permutation(len(y)), 3):
        parts.partial_fit(x[part], y[part], classes=[0, 1])
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-7)
    with pytest.raises(ValueError, match="owners must be given for all rows or for none"):
        parts.partial_fit(x[:4], y[:4], owners=[0, 1, 0, 1])
    stored = pickle.loads(pickle.dumps(parts))
    np.testing.assert_array_equal(stored.predict(x), parts.predict(x))
    with pytest.raises(Unsupported, match="rows of this estimator were not stored"):
        stored.partial_fit(x, y)


def test_classes_without_rows_so_far():
    """As with `SGDClassifier`: all classes have probabilities from the first batch on, whatever it holds."""
    x, y = load_iris(return_X_y=True)
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    ours = DecentralizedLogisticRegression(agents=4)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        ours.partial_fit(x[:50], words[:50])
    ours.partial_fit(x[:50], words[:50], classes=np.unique(words))  # one class
    assert set(ours.predict(x)) == {"setosa"}
    assert ours.predict_proba(x).tolist() == [[1.0, 0.0, 0.0]] * len(x)
    assert ours.rounds_ == 0
    ours.partial_fit(x[50:100], words[50:100])  # two: the limit of softmax with a class that no row has
    known = LogisticRegression(C=2, solver="newton-cholesky", tol=1e-12).fit(x[:100], words[:100])
    np.testing.assert_allclose(ours.predict_proba(x)[:, :2], known.predict_proba(x), atol=1e-7)
    assert ours.coef_.shape == (3, 4)
    assert ours.fit_.names[0] == "x0[setosa]"
    ours.partial_fit(x[100:], words[100:])
    known = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(x, words)
    np.testing.assert_allclose(ours.predict_proba(x), known.predict_proba(x), atol=1e-6)
    assert ours.fit_.predict(x).tolist() == known.predict(x).tolist()
    with pytest.raises(ValueError, match="the labels must be among the classes"):
        ours.partial_fit(x[:2], ["setosa", "rosa"])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        ours.partial_fit(x[:2], words[:2], classes=["setosa", "rosa"])


@pytest.mark.parametrize("label", [-1, 1])
def test_one_of_two_classes_so_far(label):
    x = np.random.default_rng(0).normal(size=(30, 2))
    ours = DecentralizedLogisticRegression(agents=3).partial_fit(x, np.full(30, label), classes=[-1, 1])
    assert set(ours.predict(x)) == {label}
    assert ours.predict_proba(x)[0].tolist() == [float(label == -1), float(label == 1)]
    y = np.where(x[:, 0] > 0, 1, -1)
    known = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(
        np.vstack([x, x]), np.append(np.full(30, label), y)
    )
    np.testing.assert_allclose(ours.partial_fit(x, y).coef_, known.coef_, atol=1e-7)
