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
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.estimators import DecentralizedEstimator, EstimatorRows
from gossamer.applications.likelihood.scaled_huber import ScaledHuber
from gossamer.arrays import AnyArray, Booleans, Floats
from gossamer.errors import require
from gossamer.families import Family, Gamma, LeastSquares, Logistic, NegativeBinomial, Poisson, Softmax
from gossamer.networks import NetworkLike

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


@dataclass(frozen=True)
class _Rates(Poisson):
    """Poisson family for rates, which need not be integers."""

    labels: ClassVar[str] = "at least 0"

    def outside(self, y: Floats) -> Booleans:
        return np.asarray(y < 0)


@dataclass(frozen=True)
class _Overdispersed(NegativeBinomial):
    """Negative binomial family for labels that need not be integers."""

    labels: ClassVar[str] = "at least 0"

    def outside(self, y: Floats) -> Booleans:
        return np.asarray(y < 0)


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

    def __init__(
        self,
        C: float = 1.0,
        *,
        l1_ratio: float = 0.0,
        class_weight: Any = None,
        agents: int | NetworkLike = 8,
        split: object = "random",
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_iter: int = 200,
        random_state: int | None = None,
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.class_weight = class_weight
        self.agents = agents
        self.split = split
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def partial_fit(  # type: ignore[override]
        self,
        X: object,
        y: object,
        classes: object = None,
        sample_weight: object = None,
        owners: object = None,
    ) -> Self:
        """Give the agents more rows, and fit all rows that they hold.

        `classes` lists all labels and is required in the first call; classes without rows so far are not fitted.
        """
        return super().partial_fit(X, y, sample_weight, owners)

    def _fit_all(self, rows: EstimatorRows) -> Self:
        check_classification_targets(rows.y)
        counted = rows.weights > 0
        self.classes_, labels = np.unique(rows.y[counted], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels need at least 2 classes, got 1 class: {self.classes_[0]!r}")
        two = len(self.classes_) == 2
        family = Logistic() if two else Softmax(len(self.classes_), symmetric=True)
        total = float(rows.weights.sum())
        penalty = 0.0 if np.isposinf(self.C) else 1 / (checks.number("C", self.C, above=0) * total)
        share = checks.number("l1_ratio", self.l1_ratio, least=0, most=1)
        given = self.class_weight
        if given is not None and not isinstance(given, str):
            given = {k: given.get(label, 1.0) for k, label in enumerate(self.classes_.tolist())}
        owners = None if rows.owners is None else rows.owners[counted]
        used = EstimatorRows(rows.X[counted], labels.astype(float), rows.weights[counted], owners)
        if isinstance(given, dict):  # "balanced" does not change the sum of all weights
            factors = np.array(list(given.values()))
            penalty *= total / float(used.weights @ factors[labels])
        self._fit_rows(used, family, (1 - share) * penalty, lasso=share * penalty, class_weight=given)
        self.coef_, self.intercept_ = self._parameters(1 if two else len(self.classes_))
        return self

    def decision_function(self, X: object) -> Floats:
        """Log odds (n,) of the second of two classes, or one predictor (n, K) for each class."""
        predictors = self._linear(X)
        return predictors[:, 0] if len(self.classes_) == 2 else predictors

    def predict(self, X: object) -> AnyArray:
        """The most probable class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: object) -> Floats:
        """(n, K) logarithms of the probabilities."""
        scores = self.decision_function(X)
        scores = np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores
        scores = scores - scores.max(axis=1, keepdims=True)
        return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: object) -> Floats:
        """(n, K) the probability of each class."""
        return np.asarray(np.exp(self.predict_log_proba(X)))


class _DecentralizedRegressor(RegressorMixin, DecentralizedEstimator):  # type: ignore[misc]
    def _fit_numbers(self, rows: EstimatorRows, family: Family, ridge: float, **options: Any) -> Self:
        self._fit_rows(rows, family, ridge, **options)
        coefficients, intercepts = self._parameters(1)
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
        return self

    def predict(self, X: object) -> Floats:
        """The mean of each row's label."""
        predictors = self._linear(X).T
        return np.asarray(self.fit_.model.family.mean(predictors)[0])


class _LogLink(_DecentralizedRegressor):
    """Regression of positive labels, whose mean is the exponential of the predictor."""

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        agents: int | NetworkLike = 8,
        split: object = "random",
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_iter: int = 200,
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.agents = agents
        self.split = split
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit_all(self, rows: EstimatorRows) -> Self:
        return self._fit_numbers(rows, self._family(), checks.number("alpha", self.alpha, least=0))

    @abstractmethod
    def _family(self) -> Family: ...

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """The share of the deviance that is explained, D^2."""
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
    those of
    `DecentralizedLogisticRegression`.

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
    those of
    `DecentralizedLogisticRegression`.

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

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        dispersion: float | None = None,
        agents: int | NetworkLike = 8,
        split: object = "random",
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_iter: int = 200,
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.dispersion = dispersion
        self.agents = agents
        self.split = split
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _family(self) -> Family:
        return _Overdispersed(self.dispersion)

    def _fit_all(self, rows: EstimatorRows) -> Self:
        super()._fit_all(rows)
        self.dispersion_ = self.dispersion if self.fit_.scale is None else float(self.fit_.scale[0])
        return self


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

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        l1_ratio: float = 0.0,
        agents: int | NetworkLike = 8,
        split: object = "random",
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_iter: int = 200,
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.agents = agents
        self.split = split
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit_all(self, rows: EstimatorRows) -> Self:
        alpha = checks.number("alpha", self.alpha, least=0)
        share = checks.number("l1_ratio", self.l1_ratio, least=0, most=1)
        return self._fit_numbers(rows, LeastSquares(), (1 - share) * alpha, lasso=share * alpha)


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

    def __init__(
        self,
        epsilon: float = 1.35,
        alpha: float = 1e-4,
        *,
        agents: int | NetworkLike = 8,
        split: object = "random",
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_iter: int = 500,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.agents = agents
        self.split = split
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit_all(self, rows: EstimatorRows) -> Self:
        family = ScaledHuber(checks.number("epsilon", self.epsilon, above=1))
        self._fit_numbers(
            rows, family, checks.number("alpha", self.alpha, least=0) / float(rows.weights.sum())
        )
        assert self.fit_.scale is not None
        self.scale_ = float(self.fit_.scale[0])
        return self
