"""The common base of the estimators of `gossamer.sklearn`: rows held by agents, and the fit of all rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.applications.likelihood.fits import Fit
from gossamer.arrays import AnyArray, Floats
from gossamer.errors import InvalidInput, Unsupported, require
from gossamer.families import Family
from gossamer.networks import NetworkLike

require("sklearn", "data")

from sklearn.base import BaseEstimator, RegressorMixin  # noqa: E402
from sklearn.utils.validation import (  # noqa: E402
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)


class EstimatorRows(NamedTuple):
    """The rows of the agents."""

    X: Floats
    y: AnyArray
    weights: Floats
    owners: AnyArray | None

    def joined(self, more: EstimatorRows) -> EstimatorRows:
        if (self.owners is None) != (more.owners is None):
            raise InvalidInput("must be given for all rows or for none of them", parameter="owners")
        parts: Any = zip(self, more, strict=True)
        joined: list[Any] = [None if a is None else np.concatenate([a, b]) for a, b in parts]
        return EstimatorRows(*joined)


@dataclass(eq=False, repr=False)  # its __init__ is what scikit-learn reads the parameters from
class DecentralizedEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class: rows distributed over agents, and the model that all agents find."""

    _: KW_ONLY
    agents: int | NetworkLike = 8
    split: object = "random"
    fit_intercept: bool = True
    tol: float = 1e-9
    max_iter: int = 200
    random_state: int | None = None

    fit_: Fit = field(init=False)
    n_features_in_: int = field(init=False)

    @abstractmethod
    def _fit_all(self, rows: EstimatorRows) -> Self:
        """Fit these rows."""

    def _checked(
        self, X: object, y: object, sample_weight: object, owners: object, reset: bool
    ) -> EstimatorRows:
        numeric = {"y_numeric": True, "ensure_min_samples": 2} if isinstance(self, RegressorMixin) else {}
        x, labels = validate_data(self, X, y, dtype=float, reset=reset, **numeric)
        weights = _check_sample_weight(sample_weight, x, dtype=float, ensure_non_negative=True)
        held = None if owners is None else np.asarray(checks.listed("owners", owners))
        return EstimatorRows(x, labels, weights, held)

    def fit(self, X: object, y: object, sample_weight: object = None, owners: object = None) -> Self:
        """Distribute the rows over the agents, or by `owners` (one label per row), and fit.

        A row of weight 2 counts as two rows.
        """
        rows = self._checked(X, y, sample_weight, owners, True)
        self._fit_all(rows)
        self._held = rows
        return self

    def partial_fit(self, X: object, y: object, sample_weight: object = None, owners: object = None) -> Self:
        """Give the agents more rows, and fit all rows so far.

        Agents keep their rows, so memory and time grow with them; use `LikelihoodEstimation.online` for streams that
        are too long for this.
        """
        first = not hasattr(self, "_held")
        if not first and self._held is None:
            raise Unsupported("the rows of this estimator were not stored with it; fit all rows again")
        more = self._checked(X, y, sample_weight, owners, first)
        self._held = more if first else self._held.joined(more)
        return self._fit_all(self._held)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the rows."""
        state: dict[str, object] = super().__getstate__()
        return {**state, "_held": None} if "_held" in state else state

    def _fit_rows(self, rows: EstimatorRows, family: Family, ridge: float, **options: Any) -> Fit:
        X, y, weights, owners = rows
        agents: Any = self.agents
        split = self.split if owners is None else owners
        if not isinstance(self.split, str):
            raise InvalidInput(
                parameter="split",
                required="'contiguous', 'random' or 'sorted', since the parameters of an estimator are the same "
                "for all rows",
                got=checks.brief(self.split),
                hint="pass the agent of each row to fit(X, y, owners=...), which cross_validate(..., "
                'params={"owners": ...}) deals out with the rows',
            )
        if isinstance(agents, int | np.integer) and owners is not None:
            agents = None  # as many as there are owners
        elif isinstance(agents, int | np.integer):
            count = checks.whole_number("agents", agents, least=1)
            agents = min(max(count, 2), len(X))  # every agent needs a row, and a neighbor
        problem = LikelihoodEstimation.from_data(
            X,
            y,
            agents,
            split,
            family=family,
            intercept=self.fit_intercept,
            ridge=ridge,
            sample_weight=None if np.all(weights == 1) else weights,
            **options,
            seed=0 if self.random_state is None else self.random_state,
        )
        self.fit_ = problem.fit(tolerance=self.tol, steps=self.max_iter)
        self.n_iter_ = len(self.fit_.rounds)
        self.rounds_ = int(self.fit_.rounds[-1])
        self.bytes_ = int(self.fit_.bytes[-1])
        return self.fit_

    def _parameters(self, outputs: int) -> tuple[Floats, Floats]:
        """Return (m, d) coefficients and (m,) intercepts of agent 0; those of other agents are equal up to `tol`."""
        theta = self.fit_.estimates[0].reshape(outputs, -1)
        if self.fit_intercept:
            return theta[:, :-1].copy(), theta[:, -1].copy()
        return theta, np.zeros(outputs)

    def _linear(self, X: object) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.asarray(X @ np.atleast_2d(self.coef_).T + self.intercept_)
