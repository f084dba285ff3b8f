"""A fitted model, wherever it was fitted: its predictions, and what is known of its accuracy.

`Fit` (stored rows) and the snapshot of an agent (`agents/statistics/models.py`) both give a `FittedModel`. It holds
one agent's parameters and how columns become covariates; its `Summary` is made of averages over the network, never of
rows.
SciPy and scikit-learn are loaded when they are needed, because agents do without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gossamer import checks, plotting
from gossamer.arrays import AnyArray, Floats
from gossamer.errors import Unsupported, require
from gossamer.families import Family, LeastSquares
from gossamer.results import Record, Result


class Totals(NamedTuple):
    """Sums over the rows of all agents at the estimate: how many rows there are, and `Family.figures`."""

    rows: float
    deviance: float
    pearson: float
    loss: float
    base: float

    def dispersion(self, family: Family, parameters: float) -> float:
        """Return the factor of the variance: 1, or Pearson's statistic per degree of freedom; NaN if there are none."""
        if not family.dispersed:
            return 1.0
        freedom = self.rows - parameters
        return float(self.pearson / freedom) if freedom > 1e-6 else np.nan  # rows are averages, and round

    def log_likelihood(self, family: Family, dispersion: float) -> float:
        """Return the logarithm of the density of all labels; NaN without a density, or if labels are fitted exactly."""
        if not family.density:
            return np.nan
        at = family.likelihood_dispersion(dispersion, float(self.deviance / self.rows))
        if not at > 0:
            return np.nan
        return float(family.log_likelihood(self.rows, self.loss, self.base, at))

    def null_deviance(self, family: Family, means: Floats) -> float:
        """The deviance of an intercept alone, from the means (m,) of `Family.indicators`; NaN without a density."""
        if not family.density:
            return np.nan
        return 2 * (self.rows * family.null_loss(means) - self.loss) + self.deviance


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Summary(Result):
    """The coefficients of one agent with their accuracy, and how well the model fits.

    agent, site        the agent and its name
    family             the family's name
    names, estimates   (p,) the parameters, in the end the dispersion of a negative binomial if it was estimated
    standard_errors    (p,) model-based; NaN where they do not exist
    robust_errors      (p,) from squared scores, which do not rely on the family's variance
    kind               which robust errors these are: "HC0", or "HC3", in which rows count by their leverage
    freedom            (p,) degrees of freedom of the robust errors, or None: then intervals are normal
    robust             whether z, p values and intervals are those of the robust errors
    level              of the intervals
    covariance, robust_covariance   (p, p) of the parameters
    rows               number of rows in the network, by weight
    parameters         number of parameters; with a ridge penalty the effective number, which is smaller
    dispersion         factor of the variance: 1, or Pearson's statistic per degree of freedom
    deviance, null_deviance, pearson, log_likelihood   of all rows; NaN where they do not exist
    rounds, bytes      the cost of computing this, in addition to the fit
    note               a remark for the user
    """

    agent: int
    site: Any
    family: str
    names: Sequence[str]
    estimates: Floats
    standard_errors: Floats
    robust_errors: Floats
    robust: bool
    level: float
    covariance: Floats
    robust_covariance: Floats
    rows: float
    parameters: float
    estimated_scales: int
    intercepts: int
    student: bool
    dispersion: float
    deviance: float
    null_deviance: float
    pearson: float
    log_likelihood: float
    rounds: int = 0
    bytes: int = 0
    kind: str = "HC0"
    freedom: Floats | None = None
    note: str = ""

    shown = ("parameter", "estimate", "standard_error", "robust_error", "z", "p", "low", "high")

    @property
    def title(self) -> str:
        return f"{self.family} at agent {self.agent}"

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the residuals: rows minus parameters."""
        return self.rows - self.parameters

    @property
    def model_degrees_of_freedom(self) -> float:
        """Parameters without intercepts."""
        return self.parameters - self.intercepts

    @property
    def aic(self) -> float:
        """Akaike's information criterion."""
        return -2 * self.log_likelihood + 2 * (self.parameters + self.estimated_scales)

    @property
    def bic(self) -> float:
        """The Bayesian information criterion, with the logarithm of the number of rows."""
        return float(-2 * self.log_likelihood + np.log(self.rows) * (self.parameters + self.estimated_scales))

    @property
    def explained(self) -> float:
        """The share of the null deviance that the model explains, D^2."""
        return 1 - self.deviance / self.null_deviance

    @property
    def errors(self) -> Floats:
        """(p,) the standard errors used for z, p values and intervals."""
        return self.robust_errors if self.robust else self.standard_errors

    @property
    def z(self) -> Floats:
        """(p,) estimates in units of their standard errors (t values in least squares)."""
        with np.errstate(all="ignore"):
            return np.asarray(self.estimates / self.errors)

    @property
    def _law(self) -> Any:
        from scipy import stats

        if self.robust:
            return stats.norm if self.freedom is None else stats.t(self.freedom)
        return stats.t(self.degrees_of_freedom) if self.student else stats.norm

    @property
    def p(self) -> Floats:
        """(p,) two-sided p values of the hypothesis that a parameter is zero."""
        return np.asarray(2 * self._law.sf(np.abs(self.z)))

    @property
    def intervals(self) -> Floats:
        """(p, 2) confidence intervals."""
        reach = self._law.ppf((1 + self.level) / 2) * self.errors
        return np.column_stack([self.estimates - reach, self.estimates + reach])

    @property
    def figures(self) -> dict[str, float]:
        """The statistics of the whole model, by name."""
        names = "rows parameters degrees_of_freedom dispersion deviance null_deviance pearson log_likelihood aic bic"
        return {name: float(getattr(self, name)) for name in names.split()}

    def records(self) -> list[Record]:
        columns = (
            self.estimates,
            self.standard_errors,
            self.robust_errors,
            self.z,
            self.p,
            *self.intervals.T,
        )
        keys = ("estimate", "standard_error", "robust_error", "z", "p", "low", "high")
        return [
            {
                "parameter": name,
                **{k: float(v) if np.isfinite(v) else None for k, v in zip(keys, row, strict=True)},
                "note": self.note,
            }
            for name, *row in zip(self.names, *columns, strict=True)
        ]

    def __str__(self) -> str:
        width = max(len(name) for name in self.names) + 2
        heads = ["estimate", "std error", "robust", "z", "p", *(f"{100 * q:g}%" for q in _ends(self.level))]
        lines = [self.title, "".join([" " * width, *(f"{head:>12}" for head in heads)])]
        for row in self.records():
            values = [row[k] for k in self.shown[1:]]
            cells = ["-" if v is None else f"{v:.5g}" for v in values]
            lines.append("".join([f"{row['parameter']:<{width}}", *(f"{cell:>12}" for cell in cells)]))
        lines += [f"{name.replace('_', ' ')}: {value:.8g}" for name, value in self.figures.items()]
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def plot(self, ax: plotting.Panels | None = None) -> plotting.Panels:
        """Plot the intervals."""
        axes = plotting.axes_for([self.title], ax)
        panel = axes[0]
        places = np.arange(len(self.names))
        panel.errorbar(self.estimates, places, xerr=self.intervals[:, 1] - self.estimates, fmt="o", capsize=3)
        panel.axvline(0.0, color="0.6", linewidth=0.8)
        panel.set_yticks(places, self.names)
        panel.invert_yaxis()
        panel.set_xlabel(f"estimate, {self.level:.0%} interval")
        return axes


def _ends(level: float) -> tuple[float, float]:
    return (1 - level) / 2, (1 + level) / 2


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FittedModel:
    """The model of one agent: its parameters, and how columns become covariates.

    family      the loss, at its scale if that was estimated
    names       (p,) the names of the parameters
    estimates   (p,) the parameters
    intercept   whether the last parameter of each predictor is an intercept
    classes     the labels of the classes; empty if labels are numbers
    columns     a function from rows of the user's columns to (n, d) covariates, which can be pickled
    plain       whether the covariates are the columns themselves
    summarize   computes the summary from a level and whether it is robust

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> rows = gs.LikelihoodEstimation.from_data(x, np.exp(x[:, 0]), gs.Network.cycle(5), family="gamma")
    >>> rows.fit().at(3).predict([[1.0, 0.0]]).round(6).tolist()
    [2.718282]
    """

    family: Family
    names: Sequence[str]
    estimates: Floats
    intercept: bool
    classes: tuple[object, ...]
    columns: Callable[[object], Floats]
    plain: bool = True
    scale: float | None = None
    summarize: Callable[[float, bool | None], Summary] = field(compare=False)

    def __repr__(self) -> str:
        known = ", ".join(f"{n}={v:.4g}" for n, v in zip(self.names, self.estimates, strict=True))
        return f"<FittedModel {self.family.name}: {known}>"

    def summary(self, *, level: float = 0.95, robust: bool | None = None) -> Summary:
        """Return coefficients with standard errors, z and p values and intervals, and the goodness of fit.

        Parameters
        ----------
        level
            Confidence level of the intervals.
        robust
            Whether z and p values and intervals use robust standard errors instead of model-based ones. By default a
            `Fit` uses model-based ones where they exist, and an agent of a fleet robust ones.
        """
        return self.summarize(checks.number("level", level, above=0, below=1), robust)

    def predictors(self, X: object, *, offset: object = 0.0) -> Floats:
        """Return the (m, n) linear predictors of new rows, with columns as in the data."""
        x, by_output = self.columns(X), self.estimates.reshape(self.family.outputs, -1)
        constants = by_output[:, -1:] if self.intercept else 0.0
        return np.asarray(by_output[:, : x.shape[1]] @ x.T + constants + np.asarray(offset, dtype=float))

    def predict(self, X: object, *, offset: object = 0.0) -> AnyArray:
        """Return (n,) the mean label of each new row, or its most probable class.

        `offset` is added to the predictors, one number or one per row.
        """
        at = self.predictors(X, offset=offset)
        if self.family.categorical:
            return np.asarray(np.array(self.classes)[self.family.probabilities(at).argmax(axis=0)])
        return np.asarray(self.family.mean(at)[0])

    def predict_proba(self, X: object, *, offset: object = 0.0) -> Floats:
        """Return the (n, classes) probabilities of the classes, in the order of `classes`."""
        return self.family.probabilities(self.predictors(X, offset=offset)).T

    def score(self, X: object, y: object, *, offset: object = 0.0, sample_weight: object = None) -> float:
        """Return the accuracy on new rows: the share of correct classes, or of explained deviance (D^2).

        For least squares this is R^2, which is also reported for Huber's losses. As in scikit-learn, labels that are
        all the same give 1 if they are predicted exactly, and 0 if not.
        """
        y = np.asarray(y)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if self.family.categorical:
            return float(np.average(self.predict(X, offset=offset) == y, weights=weights))
        family: Family = self.family if self.family.density else LeastSquares()
        y = y.astype(float)
        flat = np.repeat(family.constant(float(np.average(y, weights=weights)))[:, None], len(y), axis=1)
        losses = [family.losses(at, y) for at in (self.predictors(X, offset=offset), flat)]
        ours, null = (float(weights @ (loss - family.least_losses(y))) for loss in losses)
        return 1 - ours / null if null else float(ours == 0)

    def to_sklearn(self) -> Any:
        """Return a fitted estimator of scikit-learn with the same predictions.

        Columns that are not numbers, formulas and means for missing values become the first step of a pipeline.
        """
        require("sklearn", "data")
        from sklearn import linear_model, pipeline, preprocessing

        name = _ESTIMATORS.get(self.family.name)
        if name is None:
            raise Unsupported(
                f"scikit-learn has no estimator for the family {self.family.name}; use predict(), or gossamer.sklearn"
            )
        estimator = getattr(linear_model, name)(fit_intercept=self.intercept)
        by_output = self.estimates.reshape(self.family.outputs, -1)
        constants = by_output[:, -1] if self.intercept else np.zeros(len(by_output))
        slopes = by_output[:, : by_output.shape[1] - self.intercept]
        if self.family.categorical:
            if len(by_output) == len(self.classes) - 1 > 1:  # against the first class, whose predictor is 0
                slopes, constants = np.vstack([0 * slopes[:1], slopes]), np.append(0.0, constants)
            estimator.classes_ = np.array(self.classes)
            estimator.coef_, estimator.intercept_ = slopes.copy(), constants.copy()
        else:
            estimator.coef_, estimator.intercept_ = slopes[0].copy(), float(constants[0])
        estimator.n_features_in_ = slopes.shape[1]
        if self.scale is not None:
            estimator.scale_ = self.scale
        if name in ("PoissonRegressor", "GammaRegressor"):
            estimator._base_loss = estimator._get_loss()
        if self.plain:
            return estimator
        return pipeline.Pipeline(
            [("covariates", preprocessing.FunctionTransformer(self.columns)), ("model", estimator)]
        )


_ESTIMATORS = {
    "logistic": "LogisticRegression",
    "softmax": "LogisticRegression",
    "poisson": "PoissonRegressor",
    "gamma": "GammaRegressor",
    "least-squares": "LinearRegression",
    "huber": "HuberRegressor",
    "huber with scale": "HuberRegressor",
}


def classes_of(family: Family) -> tuple[int, ...]:
    """Return the labels of the classes as the family numbers them; empty if labels are numbers."""
    return tuple(range(family.class_count))
