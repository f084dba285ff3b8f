"""The result of fitting data at rest: estimates, errors, rounds and bytes of a method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer import checks, plotting
from gossamer.applications.likelihood.design import Design
from gossamer.applications.likelihood.exporting import as_estimator
from gossamer.applications.likelihood.inference import Inference, Summary
from gossamer.applications.likelihood.rows import Model
from gossamer.applications.linear.dealing import DataTable
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.errors import Unsupported
from gossamer.families import Family, LeastSquares
from gossamer.networks import Network
from gossamer.results import Record, Result

if TYPE_CHECKING:
    from gossamer.plotting import Panels

_ERROR = r"$\max_i\|\hat\theta_i-\theta^*\|_\infty$"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(Result):
    """A fitted model, and the progress of the method: one entry per step, or per recorded round.

    method     the name of the method
    model      the loss, the penalties and the names of the parameters
    design     how columns of data become covariates
    sites      the names of the agents: sites[i] holds the rows of agent i
    estimates  (N, p) every agent's final parameters, in the order of `names`
    rounds     exchanges with the neighbors so far
    bytes      sent so far by all agents together, at 8 bytes per number
    scale      (N,) the scale of a `ScaledHuber`, or the dispersion of a `NegativeBinomial`, if it was estimated
    note       a remark for the user
    """

    method: str
    network: Network
    model: Model = field(compare=False)
    design: Design = field(compare=False)
    sites: Sequence[object]
    estimates: Floats
    rounds: Integers
    bytes: Integers
    measure_error: Callable[[], Sequence[float]] | None = field(compare=False)
    infer: Callable[[], Inference] | None = field(default=None, compare=False)
    scale: Floats | None = None
    note: str = ""

    shown = ("method", "rounds", "bytes", "error", "note")

    @property
    def title(self) -> str:
        return f"{self.method} on {self.network.name}"

    @cached_property
    def error(self) -> Floats:
        """The largest difference, over agents and parameters, from the fit of all rows in one place.

        That fit is computed on first access.
        """
        assert self.measure_error is not None
        return np.array(self.measure_error(), dtype=float)

    def __getstate__(self) -> dict[str, object]:
        """Without the rows."""
        state = {**self.__dict__, "error": self.error, "measure_error": None, "infer": None}
        state.pop("_inference", None)
        return state

    @property
    def names(self) -> Sequence[str]:
        """The names of the parameters."""
        return self.model.names

    @property
    def classes(self) -> tuple[object, ...]:
        """The labels of the classes; empty if labels are numbers."""
        if self.design.classes is not None:
            return self.design.classes
        zeros = np.zeros((self.model.family.outputs, 1))
        return (
            tuple(range(len(self.model.family.probabilities(zeros)))) if self.model.family.categorical else ()
        )

    @property
    def disagreement(self) -> float:
        """The largest difference between the parameters of two agents, local parameters excluded."""
        return float(np.ptp(self.estimates[:, self.model.shared], axis=0).max())

    # -- inference ---------------------------------------------------------------------------------------------

    @cached_property
    def _inference(self) -> Inference:
        if self.infer is None:
            raise Unsupported(
                "standard errors are those of a minimum, and need the rows; use fit('newton'), and ask before the fit "
                "is stored or sent"
            )
        return self.infer()

    def summary(self, *, agent: int = 0, level: float = 0.95, robust: bool | None = None) -> Summary:
        """Return coefficients with standard errors, z and p values and intervals, and the goodness of fit.

        The first call computes averages over the network; no row leaves its agent.

        Parameters
        ----------
        agent
            The agent whose parameters are shown. Those of all agents agree up to the accuracy of averaging, except for
            local parameters.
        level
            Confidence level of the intervals.
        robust
            Whether z and p values and intervals use robust standard errors (HC0) instead of model-based ones. By
            default only if there are no model-based ones (the Huber losses, and your own families).

        Examples
        --------
        >>> x = np.random.default_rng(0).normal(size=(200, 2))
        >>> y = x[:, 0] + np.random.default_rng(1).normal(size=200)
        >>> rows = gs.LikelihoodEstimation.from_data(x, y, gs.Network.cycle(5), family="least-squares")
        >>> found = rows.fit().summary()
        >>> (found.p < 0.05).tolist()
        [True, False, False]
        """
        agent = checks.whole_number("agent", agent, least=0, most=self.network.agents - 1)
        return self._inference.summary(agent, self.sites[agent], level, robust)

    @property
    def deviance(self) -> float:
        """Twice the difference in log-likelihood from a model that fits every label; computed on first access."""
        return self.summary().deviance

    @property
    def null_deviance(self) -> float:
        """The deviance of an intercept alone."""
        return self.summary().null_deviance

    @property
    def aic(self) -> float:
        """Akaike's information criterion."""
        return self.summary().aic

    @property
    def bic(self) -> float:
        """The Bayesian information criterion."""
        return self.summary().bic

    @property
    def degrees_of_freedom(self) -> float:
        """Rows less parameters."""
        return self.summary().degrees_of_freedom

    @property
    def dispersion(self) -> float:
        """The factor of the variance; for a negative binomial, the factor of the squared mean."""
        return self.summary().dispersion

    # -- predictions -------------------------------------------------------------------------------------------

    def predictors(self, X: object, *, agent: int = 0, offset: object = 0.0) -> Floats:
        """Return the (m, n) linear predictors of new rows, with columns as in the data, by one agent's parameters."""
        agent = checks.whole_number("agent", agent, least=0, most=self.network.agents - 1)
        x = self.design.complete(DataTable(X))
        return np.asarray(self.model.predictors(self.estimates[agent], x) + np.asarray(offset, dtype=float))

    def predict(self, X: object, *, agent: int = 0, offset: object = 0.0) -> AnyArray:
        """Return (n,) the mean label of each new row, or its most probable class.

        Parameters
        ----------
        X
            Rows with columns as in the data.
        agent
            The agent whose parameters are used.
        offset
            Added to the predictors, one number or one per row.
        """
        at = self.predictors(X, agent=agent, offset=offset)
        if self.model.family.categorical:
            return np.asarray(np.array(self.classes)[self.model.family.probabilities(at).argmax(axis=0)])
        return np.asarray(self.model.family.mean(at)[0])

    def predict_proba(self, X: object, *, agent: int = 0, offset: object = 0.0) -> Floats:
        """Return the (n, classes) probabilities of the classes, in the order of `classes`."""
        return self.model.family.probabilities(self.predictors(X, agent=agent, offset=offset)).T

    def score(
        self, X: object, y: object, *, agent: int = 0, offset: object = 0.0, sample_weight: object = None
    ) -> float:
        """Return the accuracy on new rows: the share of correct classes, or of explained deviance (D^2).

        For least squares this is R^2, which is also reported for Huber's losses.
        """
        y = np.asarray(y)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if self.model.family.categorical:
            right = self.predict(X, agent=agent, offset=offset) == y
            return float(np.average(right, weights=weights))
        family: Family = self.model.family if self.model.family.density else LeastSquares()
        if self.scale is not None:
            family = family.at_scale(float(self.scale[agent]))
        y = y.astype(float)
        flat = np.repeat(family.constant(float(np.average(y, weights=weights)))[:, None], len(y), axis=1)
        losses = [family.losses(at, y) for at in (self.predictors(X, agent=agent, offset=offset), flat)]
        ours, null = (float(weights @ (loss - family.least_losses(y))) for loss in losses)
        return 1 - ours / null

    def to_sklearn(self, *, agent: int = 0) -> Any:
        """Return a fitted estimator of scikit-learn with one agent's parameters.

        Columns that are not numbers, formulas and means for missing values become the first step of a pipeline.
        """
        return as_estimator(self.model, self.design, self.estimates[agent], self.classes, self.scale)

    def reached(self, error: float) -> tuple[int, int] | None:
        """Return the rounds and bytes after which the error stays at or below `error`, or None."""
        later = np.flatnonzero(~(self.error <= error))
        first = int(later[-1]) + 1 if len(later) else 0
        return None if first == len(self.error) else (int(self.rounds[first]), int(self.bytes[first]))

    def records(self) -> list[Record]:
        rows = zip(self.rounds.tolist(), self.bytes.tolist(), self.error.tolist(), strict=True)
        return [
            {
                "network": self.network.name,
                "method": self.method,
                "rounds": rounds,
                "bytes": sent,
                "error": error if np.isfinite(error) else None,
                "note": self.note,
            }
            for rounds, sent, error in rows
        ]

    def plot(self, ax: Panels | None = None) -> Panels:
        """The error against rounds."""
        return plotting.draw_errors(ax, [self.curve()], self.title, _ERROR)

    def curve(self, against: str = "rounds") -> plotting.Curve:
        """The error against "rounds" or "bytes"."""
        used = getattr(self, against)
        drawn = (used > 0) & (self.error > 0) & np.isfinite(self.error)
        return plotting.Curve(self.method, used[drawn], self.error[drawn])


@dataclass(frozen=True, eq=False, repr=False)
class Fits(Result):
    """Several methods on the same rows: the error of each, and its rounds and bytes until the error was `target`."""

    fits: tuple[Fit, ...]
    target: float = 1e-6

    shown = ("method", "error", "rounds", "rounds_to_target", "bytes_to_target", "note")

    @property
    def title(self) -> str:
        return f"{len(self.fits)} methods on {self.fits[0].network.name}"

    def __getitem__(self, method: str) -> Fit:
        return {fit.method: fit for fit in self.fits}[method]

    def records(self) -> list[Record]:
        rows = []
        for fit in self.fits:
            last, reached = fit.records()[-1], fit.reached(self.target)
            costs = dict(zip(("rounds_to_target", "bytes_to_target"), reached or (None, None), strict=True))
            rows.append(last | costs | {"note": last.pop("note")})
        return rows

    def plot(self, ax: Panels | None = None) -> Panels:
        """The error against rounds, and against bytes (then `ax` is two axes)."""
        axes = plotting.axes_for(["by rounds", "by bytes"], ax)
        for panel, against, label in zip(
            axes, ("rounds", "bytes"), ("rounds", "bytes, all agents"), strict=True
        ):
            curves = [curve for fit in self.fits if np.size((curve := fit.curve(against)).x)]
            plotting.draw_curves(panel, curves, _ERROR, label)
        plotting.legend(axes)
        return axes
