"""scikit-learn estimators whose rows are distributed over the agents of a network, each of which finds the fit to all
rows.

They replace `LogisticRegression`, `LinearRegression`, `Ridge`, `ElasticNet`, `PoissonRegressor`, `GammaRegressor` and
`HuberRegressor` in pipelines and grid searches, minimize the same objectives, and report the cost over a network
(`rounds_`, `bytes_`). `partial_fit` gives the agents more rows, and fits all rows that they hold. The estimators need
the extra `data`:

    from gossamer.sklearn import DecentralizedLogisticRegression
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.estimators import DecentralizedEstimator, EstimatorRows
from gossamer.applications.likelihood.scaled_huber import ScaledHuber
from gossamer.arrays import AnyArray, Booleans, Floats
from gossamer.errors import require
from gossamer.families import Family, Gamma, LeastSquares, Logistic, NegativeBinomial, Poisson, Softmax
from gossamer.families.family import Counts

require("sklearn", "data")

from sklearn.base import ClassifierMixin, RegressorMixin  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import (  # noqa: E402
    check_is_fitted,
    validate_data,
)

__all__ = [
    "DecentralizedGammaRegressor",
    "DecentralizedHuberRegressor",
    "DecentralizedLinearRegression",
    "DecentralizedLogisticRegression",
    "DecentralizedNegativeBinomialRegressor",
    "DecentralizedPoissonRegressor",
]


class _NotWhole(Counts):
    """Counts that need not be integers, such as rates."""

    labels: ClassVar[str] = "at least 0"

    def outside(self, y: Floats) -> Booleans:
        return np.asarray(y < 0)


@dataclass(frozen=True)
class _Rates(_NotWhole, Poisson):
    """Poisson family for rates."""


@dataclass(frozen=True)
class _Overdispersed(_NotWhole, NegativeBinomial):
    """Negative binomial family for rates."""


@dataclass(eq=False, repr=False)
class DecentralizedLogisticRegression(ClassifierMixin, DecentralizedEstimator):  # type: ignore[misc]
    """Logistic regression, or softmax for more than two classes, found by every agent of a network.

    It minimizes the same objective as scikit-learn's `LogisticRegression` with the same `C`.

    Parameters
    ----------
    C
        Inverse of the strength of the penalty; infinite for no penalty.
    l1_ratio
        The share of the penalty that is a lasso; the rest is ridge.
    class_weight
        "balanced" (all classes have the same total weight), or a weight for each label.
    agents
        Number of agents on an Erdős–Rényi graph (at most the number of rows), or the network itself.
    split
        How rows are distributed over agents: "contiguous", "random" or "sorted". `fit` also takes the agent of each row
        (`owners`); then an integer for `agents` has no effect.
    fit_intercept
        Whether to add an intercept, which is not penalized.
    tol, max_iter
        Newton's method stops when no estimate moves by more than `tol`, and fails after `max_iter` steps.
    random_state
        Seed of the random split.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_
        As in scikit-learn.
    n_iter_, rounds_, bytes_
        Newton steps, exchanges with the neighbors, and bytes sent by all agents.
    fit_
        The fit, with every agent's parameters.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gossamer.sklearn import DecentralizedLogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DecentralizedLogisticRegression(agents=5).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    C: float = 1.0
    _: KW_ONLY
    l1_ratio: float = 0.0
    class_weight: Any = None

    def fit(self, X: object, y: object, sample_weight: object = None, owners: object = None) -> Self:
        self.__dict__.pop("classes_", None)  # the classes are those of the new rows
        return super().fit(X, y, sample_weight, owners)

    def partial_fit(  # type: ignore[override]
        self,
        X: object,
        y: object,
        classes: object = None,
        sample_weight: object = None,
        owners: object = None,
    ) -> Self:
        """Give the agents more rows, and fit all rows that they hold.

        `classes` lists all labels and is required in the first call, as for scikit-learn's `SGDClassifier`. A class
        without rows so far has probability 0 (an intercept of minus infinity); while there is one class only, it is
        predicted for all rows, and nothing is exchanged: there is no `fit_` yet.
        """
        declared = getattr(self, "classes_", None)
        if classes is not None:
            listed = np.unique(np.asarray(checks.listed("classes", classes)))
            if declared is not None and not np.array_equal(declared, listed):
                raise ValueError(f"classes must be those of the first call, {declared!r}, got {listed!r}")
            declared = listed
        if declared is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit: the list of all labels"
            )
        if len(declared) < 2:
            raise ValueError(f"classes must list at least 2 classes, got {declared!r}")
        self.classes_ = declared
        return super().partial_fit(X, y, sample_weight, owners)

    def _checked(
        self, X: object, y: object, sample_weight: object, owners: object, reset: bool
    ) -> EstimatorRows:
        rows = super()._checked(X, y, sample_weight, owners, reset)
        check_classification_targets(rows.y)
        declared = getattr(self, "classes_", rows.y)
        unknown = np.setdiff1d(rows.y, declared)
        if len(unknown):
            raise ValueError(f"the labels must be among the classes {declared!r}, got {unknown[0]!r}")
        return rows

    def _fit_all(self, rows: EstimatorRows) -> Self:
        counted = rows.weights > 0
        seen, labels = np.unique(rows.y[counted], return_inverse=True)
        classes = getattr(self, "classes_", seen)
        if not len(seen) or len(classes) < 2:
            raise ValueError(f"the labels need at least 2 classes, got {len(seen)} class: {seen.tolist()}")
        self.classes_, count = classes, len(classes)
        with_rows = np.isin(self.classes_, seen)
        outputs = 1 if count == 2 else count
        self.coef_, self.intercept_ = np.zeros((outputs, rows.X.shape[1])), np.zeros(outputs)
        if len(seen) < 2:
            self.n_iter_ = self.rounds_ = self.bytes_ = 0
            if count == 2:
                self.intercept_ += np.inf if with_rows[1] else -np.inf
        else:
            family = Logistic() if count == 2 else Softmax(len(seen), symmetric=True)
            self._fit_classes(rows, counted, seen, labels, family)
            known = with_rows if count > 2 else slice(None)
            self.coef_[known], self.intercept_[known] = self._parameters(family.outputs)
        if count > 2:
            self.intercept_[~with_rows] = -np.inf
        return self

    def _fit_classes(
        self, rows: EstimatorRows, counted: Booleans, seen: AnyArray, labels: AnyArray, family: Family
    ) -> None:
        total = float(rows.weights.sum())
        penalty = 0.0 if np.isposinf(self.C) else 1 / (checks.number("C", self.C, above=0) * total)
        share = checks.number("l1_ratio", self.l1_ratio, least=0, most=1)
        given = self.class_weight
        if given is not None and not isinstance(given, str):
            given = {label: given.get(label, 1.0) for label in seen.tolist()}
        owners = None if rows.owners is None else rows.owners[counted]
        used = EstimatorRows(rows.X[counted], rows.y[counted], rows.weights[counted], owners)
        if isinstance(given, dict):  # "balanced" does not change the sum of all weights
            factors = np.array(list(given.values()))
            penalty *= total / float(used.weights @ factors[labels])
        options = {"lasso": share * penalty, "class_weight": given, "classes": seen}
        self._fit_rows(used, family, (1 - share) * penalty, **options)

    def decision_function(self, X: object) -> Floats:
        """Log odds (n,) of the second of two classes, or one predictor (n, K) for each class."""
        predictors = self._linear(X)
        return predictors[:, 0] if len(self.classes_) == 2 else predictors

    def predict(self, X: object) -> AnyArray:
        """Return the most probable class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: object) -> Floats:
        """Return (n, K) logarithms of the probabilities."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.asarray(-np.logaddexp(0.0, np.column_stack([scores, -scores])))
        scores = scores - scores.max(axis=1, keepdims=True)
        return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: object) -> Floats:
        """Return (n, K) the probability of each class."""
        return np.asarray(np.exp(self.predict_log_proba(X)))


class _DecentralizedRegressor(RegressorMixin, DecentralizedEstimator):  # type: ignore[misc]
    def _fit_numbers(self, rows: EstimatorRows, family: Family, ridge: float, **options: Any) -> Self:
        self._fit_rows(rows, family, ridge, **options)
        coefficients, intercepts = self._parameters(1)
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
        return self

    def predict(self, X: object) -> Floats:
        """Return the mean of each row's label."""
        predictors = self._linear(X).T
        return np.asarray(self.fit_.model.family.mean(predictors)[0])


@dataclass(eq=False, repr=False)
class _LogLink(_DecentralizedRegressor):
    """Regression of positive labels, whose mean is the exponential of the predictor."""

    alpha: float = 1.0

    def _fit_all(self, rows: EstimatorRows) -> Self:
        return self._fit_numbers(rows, self._family(), checks.number("alpha", self.alpha, least=0))

    @abstractmethod
    def _family(self) -> Family: ...

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the share of the deviance that is explained, D^2."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=float, y_numeric=True, reset=False)
        return self.fit_.score(X, y, sample_weight=sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class DecentralizedPoissonRegressor(_LogLink):
    """Poisson regression with the log link, found by every agent of a network.

    It minimizes the same objective as scikit-learn's `PoissonRegressor` with the same `alpha`. The other parameters are
    those of `DecentralizedLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gossamer.sklearn import DecentralizedPoissonRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> DecentralizedPoissonRegressor(alpha=1e-3, agents=5).fit(X, y).coef_.shape
    (10,)
    """

    def _family(self) -> Family:
        return _Rates()


class DecentralizedGammaRegressor(_LogLink):
    """Gamma regression with the log link, found by every agent of a network.

    It minimizes the same objective as scikit-learn's `GammaRegressor` with the same `alpha`. The other parameters are
    those of `DecentralizedLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gossamer.sklearn import DecentralizedGammaRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> DecentralizedGammaRegressor(alpha=1e-3, agents=5).fit(X, y).coef_.shape
    (10,)
    """

    def _family(self) -> Family:
        return Gamma()


@dataclass(eq=False, repr=False)
class DecentralizedNegativeBinomialRegressor(_LogLink):
    """Negative binomial regression with the log link, its dispersion estimated as well, found by every agent.

    Labels of mean m have the variance m + dispersion m^2; `dispersion_` is the dispersion, estimated unless
    `dispersion` is given. `alpha` is the factor of the ridge penalty; the other parameters are those of
    `DecentralizedLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gossamer.sklearn import DecentralizedNegativeBinomialRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(DecentralizedNegativeBinomialRegressor(alpha=0.0, agents=5).fit(X, y).dispersion_ > 0)
    True
    """

    alpha: float = 0.0
    _: KW_ONLY
    dispersion: float | None = None

    def _family(self) -> Family:
        return _Overdispersed(self.dispersion)

    def _fit_all(self, rows: EstimatorRows) -> Self:
        super()._fit_all(rows)
        self.dispersion_ = self.dispersion if self.fit_.scale is None else float(self.fit_.scale[0])
        return self


@dataclass(eq=False, repr=False)
class DecentralizedLinearRegression(_DecentralizedRegressor):
    """Least squares, optionally with a ridge penalty, a lasso or both, found by every agent of a network.

    It minimizes the mean over rows of (y - x'theta)^2 / 2 plus ``alpha (l1_ratio ||theta||_1 + (1 - l1_ratio)/2
    ||theta||^2)``: with `alpha` 0 the objective of scikit-learn's `LinearRegression`, otherwise that of `ElasticNet`.
    The other parameters are those of `DecentralizedLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gossamer.sklearn import DecentralizedLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(DecentralizedLinearRegression(agents=5).fit(X, y).score(X, y) > 0.5)
    True
    """

    alpha: float = 0.0
    _: KW_ONLY
    l1_ratio: float = 0.0

    def _fit_all(self, rows: EstimatorRows) -> Self:
        alpha = checks.number("alpha", self.alpha, least=0)
        share = checks.number("l1_ratio", self.l1_ratio, least=0, most=1)
        return self._fit_numbers(rows, LeastSquares(), (1 - share) * alpha, lasso=share * alpha)


@dataclass(eq=False, repr=False)
class DecentralizedHuberRegressor(_DecentralizedRegressor):
    """Linear regression that is robust to outliers, with an estimated scale, found by every agent of a network.

    It minimizes the same objective as scikit-learn's `HuberRegressor` with the same `epsilon` and `alpha`; `scale_` is
    the scale. The other parameters are those of `DecentralizedLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gossamer.sklearn import DecentralizedHuberRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(DecentralizedHuberRegressor(agents=5).fit(X, y).scale_ > 0)
    True
    """

    epsilon: float = 1.35
    alpha: float = 1e-4
    _: KW_ONLY
    max_iter: int = 500

    def _fit_all(self, rows: EstimatorRows) -> Self:
        family = ScaledHuber(checks.number("epsilon", self.epsilon, above=1))
        self._fit_numbers(
            rows, family, checks.number("alpha", self.alpha, least=0) / float(rows.weights.sum())
        )
        assert self.fit_.scale is not None
        self.scale_ = float(self.fit_.scale[0])
        return self
