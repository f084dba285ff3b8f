"""scikit-learn estimators whose rows are dealt to agents of a network, each of which finds the fit of all rows.

They drop into pipelines and grid searches in place of `LogisticRegression`, `PoissonRegressor` and `HuberRegressor`,
minimize what these minimize, and say what finding it over a network took (`rounds_`, `bytes_`). They need the extra
`data`:

    from gossamer.sklearn import DecentralizedLogisticRegression
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.applications.likelihood.fits import Fit
from gossamer.applications.likelihood.newton import ScaledHuber
from gossamer.arrays import AnyArray, Booleans, Floats
from gossamer.errors import require
from gossamer.families import Family, Logistic, Poisson, Softmax
from gossamer.networks import NetworkLike

require("sklearn", "data")

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: E402
from sklearn.metrics import d2_tweedie_score  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

__all__ = [
    "DecentralizedHuberRegressor",
    "DecentralizedLogisticRegression",
    "DecentralizedPoissonRegressor",
]


@dataclass(frozen=True)
class _Rates(Poisson):
    """Poisson with rates, which need not be whole, for labels."""

    labels: ClassVar[str] = "at least 0"

    def outside(self, y: Floats) -> Booleans:
        return np.asarray(y < 0)


class _Decentralized(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: rows dealt to agents, and the model that all of these find."""

    fit_: Fit
    n_features_in_: int

    def _fit_rows(self, X: Floats, y: Floats, family: Family, ridge: float) -> Fit:
        agents: Any = self.agents
        if isinstance(agents, int | np.integer):
            count = checks.whole_number("agents", agents, least=1)
            agents = min(max(count, 2), len(X))  # every agent needs a row, and a neighbor
        problem = LikelihoodEstimation.from_data(
            X,
            y,
            agents,
            self.split,
            family=family,
            intercept=self.fit_intercept,
            ridge=ridge,
            seed=0 if self.random_state is None else self.random_state,
        )
        self.fit_ = problem.fit(tolerance=self.tol, steps=self.max_iter)
        self.n_iter_ = len(self.fit_.rounds)
        self.rounds_ = int(self.fit_.rounds[-1])
        self.bytes_ = int(self.fit_.bytes[-1])
        return self.fit_

    def _parameters(self, outputs: int) -> tuple[Floats, Floats]:
        """(m, d) coefficients and (m,) intercepts, as agent 0 has them; the others' are the same to `tol`."""
        theta = self.fit_.estimates[0].reshape(outputs, -1)
        if self.fit_intercept:
            return theta[:, :-1].copy(), theta[:, -1].copy()
        return theta, np.zeros(outputs)

    def _linear(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.asarray(X @ np.atleast_2d(self.coef_).T + self.intercept_)


class DecentralizedLogisticRegression(ClassifierMixin, _Decentralized):  # type: ignore[misc]
    """Logistic regression, or softmax for more than two classes, found by every agent of a network.

    It minimizes what scikit-learn's `LogisticRegression` with the same `C` does.

    Parameters
    ----------
    C
        Inverse of the strength of the ridge penalty; infinite: none.
    agents
        How many agents, on an Erdos-Renyi graph (never more than there are rows), or the network itself.
    split
        How rows are dealt to agents: "contiguous", "random", "sorted", or an array with the agent of each row.
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
        agents: int | NetworkLike = 8,
        split: Any = "random",
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_iter: int = 200,
        random_state: int | None = None,
    ) -> None:
        self.C = C
        self.agents = agents
        self.split = split
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Deal the rows to the agents, and fit."""
        X, y = validate_data(self, X, y, dtype=float)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels need at least 2 classes, got 1 class: {self.classes_[0]!r}")
        two = len(self.classes_) == 2
        family = Logistic() if two else Softmax(len(self.classes_), symmetric=True)
        ridge = 0.0 if np.isposinf(self.C) else 1 / (checks.number("C", self.C, above=0) * len(X))
        self._fit_rows(X, labels.astype(float), family, ridge)
        self.coef_, self.intercept_ = self._parameters(1 if two else len(self.classes_))
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log odds (n,) of the second of two classes, or one predictor (n, K) for each class."""
        found = self._linear(X)
        return found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> AnyArray:
        """The most probable class of each row."""
        found = self.decision_function(X)
        best = (found > 0).astype(int) if found.ndim == 1 else found.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: Any) -> Floats:
        """(n, K) logarithms of the probabilities."""
        found = self.decision_function(X)
        found = np.column_stack([np.zeros(len(found)), found]) if found.ndim == 1 else found
        found = found - found.max(axis=1, keepdims=True)
        return np.asarray(found - np.log(np.exp(found).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: Any) -> Floats:
        """(n, K) the probability of each class."""
        return np.asarray(np.exp(self.predict_log_proba(X)))


class _DecentralizedRegressor(RegressorMixin, _Decentralized):  # type: ignore[misc]
    def _fit_numbers(self, X: Floats, y: Floats, family: Family, ridge: float) -> Self:
        self._fit_rows(X, y, family, ridge)
        coefficients, intercepts = self._parameters(1)
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
        return self

    def _numbers(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        found: tuple[Floats, Floats] = validate_data(
            self, X, y, dtype=float, y_numeric=True, ensure_min_samples=2
        )
        return found


class DecentralizedPoissonRegressor(_DecentralizedRegressor):
    """Poisson regression with the log link, found by every agent of a network.

    It minimizes what scikit-learn's `PoissonRegressor` with the same `alpha` does. The other parameters are those of
    `DecentralizedLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gossamer.sklearn import DecentralizedPoissonRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> DecentralizedPoissonRegressor(alpha=1e-3, agents=5).fit(X, y).coef_.shape
    (10,)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        agents: int | NetworkLike = 8,
        split: Any = "random",
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

    def fit(self, X: Any, y: Any) -> Self:
        """Deal the rows to the agents, and fit."""
        return self._fit_numbers(*self._numbers(X, y), _Rates(), checks.number("alpha", self.alpha, least=0))

    def predict(self, X: Any) -> Floats:
        """The expected count of each row."""
        return np.asarray(np.exp(self._linear(X)[:, 0]))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the Poisson deviance that is explained, as in scikit-learn."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class DecentralizedHuberRegressor(_DecentralizedRegressor):
    """Linear regression that bears outliers, its scale estimated as well, found by every agent of a network.

    It minimizes what scikit-learn's `HuberRegressor` with the same `epsilon` and `alpha` does; `scale_` is the scale.
    The other parameters are those of `DecentralizedLogisticRegression`.

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
        split: Any = "random",
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

    def fit(self, X: Any, y: Any) -> Self:
        """Deal the rows to the agents, and fit."""
        X, y = self._numbers(X, y)
        family = ScaledHuber(checks.number("epsilon", self.epsilon, above=1))
        self._fit_numbers(X, y, family, checks.number("alpha", self.alpha, least=0) / len(X))
        assert self.fit_.scale is not None
        self.scale_ = float(self.fit_.scale[0])
        return self

    def predict(self, X: Any) -> Floats:
        """The location of each row's label."""
        return self._linear(X)[:, 0]
