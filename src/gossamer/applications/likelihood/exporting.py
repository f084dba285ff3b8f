"""A fitted model as an estimator of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.applications.likelihood.design import Design
from gossamer.applications.likelihood.rows import Model
from gossamer.applications.linear.dealing import DataTable
from gossamer.arrays import Floats
from gossamer.errors import Unsupported, require

_ESTIMATORS = {
    "logistic": "LogisticRegression",
    "softmax": "LogisticRegression",
    "poisson": "PoissonRegressor",
    "gamma": "GammaRegressor",
    "least-squares": "LinearRegression",
    "huber": "HuberRegressor",
    "huber with scale": "HuberRegressor",
}


class Covariates:
    """A function from the user's columns to covariates that can be pickled."""

    def __init__(self, design: Design) -> None:
        self.design = design

    def __call__(self, X: object) -> Floats:
        return self.design.complete(DataTable(X))


def as_estimator(
    model: Model, design: Design, theta: Floats, classes: Sequence[object], scale: Floats | None
) -> Any:
    """Return a fitted estimator of scikit-learn with the same predictions as the model."""
    require("sklearn", "data")
    from sklearn import linear_model, pipeline, preprocessing

    name = _ESTIMATORS.get(model.family.name)
    if name is None:
        raise Unsupported(
            f"scikit-learn has no estimator for the family {model.family.name}; use predict(), or gossamer.sklearn"
        )
    estimator = getattr(linear_model, name)(fit_intercept=model.intercept)
    by_output = theta.reshape(model.family.outputs, -1)
    constants = by_output[:, -1] if model.intercept else np.zeros(len(by_output))
    slopes = by_output[:, : by_output.shape[1] - model.intercept]
    if model.family.categorical:
        if len(by_output) == len(classes) - 1 > 1:  # against the first class, whose predictor is 0
            slopes, constants = np.vstack([0 * slopes[:1], slopes]), np.append(0.0, constants)
        estimator.classes_ = np.array(classes)
        estimator.coef_, estimator.intercept_ = slopes.copy(), constants.copy()
    else:
        estimator.coef_, estimator.intercept_ = slopes[0].copy(), float(constants[0])
    estimator.n_features_in_ = slopes.shape[1]
    if scale is not None:
        estimator.scale_ = float(scale[0])
    if name in ("PoissonRegressor", "GammaRegressor"):
        estimator._base_loss = estimator._get_loss()
    if design.plain:
        return estimator
    first = preprocessing.FunctionTransformer(Covariates(design))
    return pipeline.Pipeline([("covariates", first), ("model", estimator)])
