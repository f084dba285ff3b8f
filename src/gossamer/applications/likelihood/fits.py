"""The result of fitting stored rows: estimates, errors, rounds and bytes of a method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer import checks, plotting
from gossamer.applications.likelihood.design import Design
from gossamer.applications.likelihood.inference import Inference
from gossamer.applications.likelihood.rows import Model
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.errors import Unsupported
from gossamer.fitted import FittedModel, Summary, classes_of
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
        """Return the state without the rows."""
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
        return classes_of(self.model.family) if self.design.classes is None else self.design.classes

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
        >>> summary = rows.fit().summary()
        >>> (summary.p < 0.05).tolist()
        [True, False, False]
        """
        return self.at(agent).summary(level=level, robust=robust)

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
        """Number of rows minus number of parameters."""
        return self.summary().degrees_of_freedom

    @property
    def dispersion(self) -> float:
        """The factor of the variance; for a negative binomial, the factor of the squared mean."""
        return self.summary().dispersion

    # -- predictions -------------------------------------------------------------------------------------------

    def at(self, agent: int = 0) -> FittedModel:
        """Return the model of one agent, with its predictions and its summary."""
        agent = checks.whole_number("agent", agent, least=0, most=self.network.agents - 1)
        scale = None if self.scale is None else float(self.scale[agent])
        return FittedModel(
            family=self.model.family if scale is None else self.model.family.at_scale(scale),
            names=self.names,
            estimates=self.estimates[agent],
            intercept=self.model.intercept,
            classes=self.classes,
            columns=self.design,
            plain=self.design.plain,
            scale=scale,
            summarize=lambda *options: self._inference.summary(agent, self.sites[agent], *options),
        )

    def predictors(self, X: object, *, agent: int = 0, offset: object = 0.0) -> Floats:
        """Return the (m, n) linear predictors of new rows, with columns as in the data, by one agent's parameters."""
        return self.at(agent).predictors(X, offset=offset)

    def predict(self, X: object, *, agent: int = 0, offset: object = 0.0) -> AnyArray:
        """Return (n,) the mean label of each new row, or its most probable class; see `FittedModel.predict`."""
        return self.at(agent).predict(X, offset=offset)

    def predict_proba(self, X: object, *, agent: int = 0, offset: object = 0.0) -> Floats:
        """Return the (n, classes) probabilities of the classes, in the order of `classes`."""
        return self.at(agent).predict_proba(X, offset=offset)

    def score(
        self, X: object, y: object, *, agent: int = 0, offset: object = 0.0, sample_weight: object = None
    ) -> float:
        """Return the share of correct classes in new rows, or of explained deviance; see `FittedModel.score`."""
        return self.at(agent).score(X, y, offset=offset, sample_weight=sample_weight)

    def to_sklearn(self, *, agent: int = 0) -> Any:
        """Return a fitted estimator of scikit-learn with one agent's parameters; see `FittedModel.to_sklearn`."""
        return self.at(agent).to_sklearn()

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
        """Plot the error against rounds."""
        return plotting.draw_errors(ax, [self.curve()], self.title, _ERROR)

    def curve(self, against: str = "rounds") -> plotting.Curve:
        """Return the error against "rounds" or "bytes"."""
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
        """Plot the error against rounds, and against bytes (then `ax` is two axes)."""
        axes = plotting.axes_for(["by rounds", "by bytes"], ax)
        for panel, against, label in zip(
            axes, ("rounds", "bytes"), ("rounds", "bytes, all agents"), strict=True
        ):
            curves = [curve for fit in self.fits if np.size((curve := fit.curve(against)).x)]
            plotting.draw_curves(panel, curves, _ERROR, label)
        plotting.legend(axes)
        return axes
