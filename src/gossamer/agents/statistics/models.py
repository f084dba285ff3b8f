"""Agents that learn a model: an observation is a row, covariates and then a label, and never leaves its agent.

An agent averages sums over its rows (`models.py`), each linearized at its own predictor. It solves for theta from the
averages, and moves its rows toward x'theta while the linearization error exceeds `CLOSE` standard errors, so that
finally every agent has the fit of all rows, as if they were in one place. A row starts at the predictor that its label
suggests, or at x'theta if there is a good estimate.

Standard errors are those of the sandwich, A^{-1} J A^{-1}. For up to `MOST_MEAT` parameters J is an average as well.
Beyond that it comes from replicates (`replicates.py`) of the score: with a standard normal number e_k that each row
keeps, A^{-1} sum of e_k l' x varies as theta does. Together with J, there are replicates of the rows' weights only,
sums of e_k, which tell in how many agents' sums the rows are if this is unknown or some agents are away.

Rows enter the sums only at common times, when the round is a multiple of `spread_of`, and spread until the next such
time; shortly before it, the agent reads its averages. So an estimate is the fit of all rows that had arrived when this
turn began, or the previous one, and of no others, however many arrive in the meantime.

An estimate is withheld, with the reason in `ModelAnswers.withheld`, while a direction is undetermined, labels are
separable, the linearization error is large, or the averages of neighbors contradict it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self, cast

import numpy as np

from gossamer import checks
from gossamer.agents.config.model import FleetModel
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.statistics.layout import Answers, Layout
from gossamer.agents.statistics.readings import BadObservation, Range, short
from gossamer.agents.statistics.row_bounds import box_of
from gossamer.agents.statistics.statistic import Box, Membership, Statistic, number, shown
from gossamer.agents.statistics.values import StepRange, ValueLayout
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, Unsupported
from gossamer.families import Family
from gossamer.fitted import FittedModel, Summary, Totals, classes_of
from gossamer.least_squares import invert
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.method import Method
from gossamer.models import (
    FINE,
    PUBLISHED,
    ROWS,
    Judgement,
    SumLayout,
    agreement,
    judge,
    student_95,
)

MOST_MEAT = 15
"""Largest number of parameters for which the squared scores are averaged."""

LEAST_REPLICATES = 32
"""Smallest number of replicates if standard errors are computed from them alone."""

_LARGEST_ROW = 1e20
"""Largest number in a row, because sums of products of two are sent."""

_ACCURACY = 1e-7
"""Largest difference between neighbors' sums of a summary, relative to the largest sum."""

_MANY = 32
"""Assumed number of agents if neither members nor replicates tell it; there are no standard errors then."""


class Coefficients(Statistic):
    """The entries of a model in addition to its estimate and standard errors."""

    @classmethod
    def asked(cls, layout: Layout) -> Self | None:
        return cls() if isinstance(layout, ModelLayout) else None

    def entries(self, answers: Answers, count: Membership) -> dict[str, object]:
        if not isinstance(answers, ModelAnswers):
            return {}
        known = {"coefficients": answers.layout.names, "quantile_95": shown(answers.quantile_95)}
        if answers.withheld:
            return known | {"withheld": answers.withheld}
        summary = answers.fitted().summary()
        known["model_standard_error"] = shown(summary.standard_errors)
        return known | {"fit": {name: number(value) for name, value in summary.figures.items()}}


@dataclass(frozen=True)
class ModelLayout(Layout):
    """The components of the averaged vector of an agent that learns a model."""

    model: FleetModel = field(default_factory=FleetModel)

    @cached_property
    def family(self) -> Family:
        return self.model.build()

    @cached_property
    def width(self) -> int:
        """Numbers of theta for one predictor."""
        return self.dimension - 1 + self.model.intercept

    @cached_property
    def parameters(self) -> int:
        return self.width * self.family.outputs

    @cached_property
    def sums(self) -> SumLayout:
        intercepts = self.family.outputs if self.model.intercept else 0
        return SumLayout(
            self.parameters,
            intercepts,
            meat=self.parameters <= MOST_MEAT,
            figures=5 + self.family.outputs,
            expected=not self.family.canonical,
        )

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        return (Coefficients(),)

    @cached_property
    def noise(self) -> int:
        """Number of replicates."""
        return (
            self.replicates
            if self.sums.meat or not self.replicates
            else max(self.replicates, LEAST_REPLICATES)
        )

    @cached_property
    def size(self) -> int:
        return self.sums.components + self.noise * (1 if self.sums.meat else self.parameters)

    @cached_property
    def squared(self) -> Floats:
        """(size,) the power of a row's weight in each component."""
        return np.append(self.sums.powers, np.ones(self.size - self.sums.components))

    @cached_property
    def largest(self) -> float:
        return _LARGEST_ROW

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(self.family.parameter_names((*self.model.covariates, "intercept")[: self.width]))

    @cached_property
    def penalty(self) -> Floats:
        penalty = np.full((self.family.outputs, self.width), self.model.ridge)
        penalty[:, self.dimension - 1 :] = 0.0
        return penalty.ravel()

    @cached_property
    def reach(self) -> tuple[float, float]:
        """The interval of predictors at which rows are linearized. With a range and agents of equal weight, it belongs
        to labels that are not far outside the range, so that the sums are bounded (`row_bounds.py`)."""
        if not self.range or self.weighting == "samples":
            return -np.inf, np.inf
        return self.family.reach_of(*self.range[-1])

    @cached_property
    def box(self) -> Box | None:
        if not self.range or self.weighting == "samples":
            return None
        low, high = np.array(self.range).T
        constant = [1.0] * self.model.intercept
        low, high = (np.concatenate([ends[:-1], constant, ends[-1:]]) for ends in (low, high))
        return box_of(self.sums, self.family, low, high, self.size)

    def read(self, vector: Floats) -> ModelAnswers:
        return ModelAnswers(self, vector[: self.size])  # a message also carries registers

    def judge(self, vector: Floats, members: int = 0) -> Judgement:
        """Return the estimate from averages, in a fleet of this many members (0 if unknown)."""
        sums, noise = vector[: self.sums.components], vector[self.sums.components : self.size]
        judgement = judge(
            self.sums,
            sums,
            np.zeros(self.parameters),
            self.penalty,
            self._share(sums, noise, members),
            self.family.sharpness,
        )
        if self.sums.meat:
            return judgement
        if not self.noise:
            return judgement
        replicates = (
            noise.reshape(self.noise, self.parameters) @ judgement.inverse / max(float(sums[0]), 1e-300)
        )
        errors = np.sqrt(np.mean(replicates**2, axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = np.max(judgement.errors / errors)
        return judgement._replace(errors=errors, linearization=judgement.linearization * scaled)

    def _share(self, sums: Floats, noise: Floats, members: int) -> float:
        """The sum of the squared weights of the rows in the averages, over that in the agents' sums: 1/N."""
        if not (self.sums.meat and self.noise):
            return 1.0 / (members or _MANY)
        squares = max(float(self.sums.squared_weights(sums)), 1e-300)
        seen = float(np.mean(noise**2)) / squares
        if not members or seen * members > 1 + 3 * np.sqrt(2 / self.noise):
            return seen  # members are away, or the newest rows have not spread
        return 1.0 / members


def method_of(settings: AgentSettings) -> Method:
    """The averaging method; that of a model averages the current sums, without smoothing."""
    method = settings.method
    if settings.model is not None and isinstance(method, AnytimeSDA):
        return replace(method, smoothing=0.0)
    return method


def layout_of(settings: AgentSettings) -> Layout:
    """What an agent with these settings averages."""
    if settings.values is not None:
        return ValueLayout(
            settings.dimension,
            weighting=settings.weighting,
            replicates=settings.replicates,
            values=settings.values,
        )
    if settings.model is None:
        return Layout.of(settings)
    return ModelLayout(
        settings.dimension,
        weighting=settings.weighting,
        replicates=settings.replicates,
        range=settings.range,
        model=settings.model,
    )


def range_of(settings: AgentSettings, layout: Layout) -> Range:
    """The check of observations, which refuses those that such an agent cannot use."""
    if isinstance(layout, ModelLayout):
        return Labels(settings, layout.family)
    if isinstance(layout, ValueLayout):
        return StepRange(layout.values, clips=settings.outside == "clip")
    return Range(settings.range, clips=settings.outside == "clip")


@dataclass(frozen=True)
class ModelAnswers(Answers):
    """The answers of a model in an averaged vector; nan while they are withheld.

    members    number of agents in the fleet; 0 if unknown
    others     the averages that neighbors hold
    reference  (p,) the theta at which the agent last linearized its rows, or None
    """

    mixed: ClassVar[bool] = True
    layout: ModelLayout
    members: int = 0
    others: tuple[Floats, ...] = ()
    reference: Floats | None = None

    @cached_property
    def judgement(self) -> Judgement:
        return self.layout.judge(self.vector, self.members)

    @cached_property
    def apart(self) -> float:
        """The largest distance, in standard errors, between the estimate and that of a neighbor."""
        sums, penalty = self.layout.sums, self.layout.penalty
        rest = [vector[: sums.components] for vector in self.others]
        return max((float(self.judgement.apart(sums, other, penalty)) for other in rest), default=0.0)

    @cached_property
    def withheld(self) -> str:
        """Why there is no estimate; empty if there is one."""
        layout, judgement = self.layout, self.judgement
        if not self.presence > 0:
            return "no rows have spread yet"
        if not judgement.ready:
            return f"the rows of all agents do not determine {in_words(judgement, layout.names)}"
        family = layout.family
        if layout.weighting == "samples" and self.members and not judgement.enough(layout.penalty):
            return (
                f"{judgement.rows:.0f} rows are fewer than {ROWS} for each of {layout.parameters} parameters"
            )
        if family.separates and layout.sums.meat and layout.model.ridge == 0 and self.members:
            contradicted = layout.sums.contradictions(self.vector) * self.members
            if contradicted < layout.parameters - 0.5:
                return f"the labels are separable, or nearly: {max(contradicted, 0):.0f} contradict the model"
        if not judgement.linearization <= PUBLISHED:
            return judgement.exact(layout.names, "rows") or (
                f"rows are linearized up to {judgement.linearization:.2g} standard errors from the estimate: either "
                "it is still being improved, or it has moved away from rows that are no longer at hand"
            )
        step = 0.0 if self.reference is None else judgement.unsettled(family, self.reference)
        if step:
            return f"the estimate has moved by {step:.2g} standard errors since rows were linearized: not settled"
        most = agreement(self.members)
        if not self.apart <= most:
            return (
                f"neighbors are {self.apart:.2g} standard errors apart, more than {most:.2g}: not mixed yet"
            )
        return judgement.unfounded(layout.names, layout.penalty, "rows") if self.members else ""

    def fitted(self, agent: int = 0, site: str = "") -> FittedModel:
        """The model: predictions, and a summary; raises `Unsupported` while the estimate is withheld."""
        if self.withheld:
            raise Unsupported(f"there is no estimate yet: {self.withheld}; see Snapshot.withheld")
        layout = self.layout
        return FittedModel(
            family=layout.family,
            names=layout.names,
            estimates=self.mean,
            intercept=layout.model.intercept,
            classes=classes_of(layout.family),
            columns=Columns(layout.model.covariates),
            summarize=lambda level, robust: self._summary(agent, site, level, robust is not False),
        )

    @cached_property
    def unsummarized(self) -> str:
        """Why there are no model-based errors, no deviance and no likelihood; empty if there are."""
        layout, sums = self.layout, self.layout.sums
        if not layout.family.density:
            return f"the family {layout.family.name} has no density"
        if layout.weighting != "samples" or not self.members:
            return "they need rows that count the same, in a fleet whose number of members is known"
        if layout.model.forgetting:
            return "rows count by their age, and they need rows that count the same"
        own = sums.summary(self.vector)
        if abs(own[0]) > _ACCURACY * self.presence:
            return (
                "they need another pass over rows that are no longer at hand: those of a stream longer than its "
                "memory, or from before a restart"
            )
        apart = max(
            (float(np.abs(sums.summary(other)[1:] - own[1:]).max()) for other in self.others), default=0.0
        )
        step = np.inf if self.reference is None else self.judgement.step(self.reference)
        if apart > _ACCURACY * float(np.abs(own[1:]).max()) or step > 10 * FINE:
            return "they are still mixing"
        return ""

    def _summary(self, agent: int, site: str, level: float, robust: bool) -> Summary:
        layout, judgement, family = self.layout, self.judgement, self.layout.family
        count = float(self.vector[0])
        figures = layout.sums.summary(self.vector) / count
        curvature = layout.sums.information(self.vector) / count
        inverse = invert(curvature + np.diag(layout.penalty)).matrix
        parameters = float(np.trace(inverse @ curvature)) if layout.model.ridge else float(layout.parameters)
        known = not self.unsummarized
        rows = float(judgement.rows)
        totals = Totals(rows, *(rows * figures[1:5] if known else np.full(4, np.nan)).tolist())
        dispersion = totals.dispersion(family, parameters) if known else np.nan
        covariance = dispersion * inverse @ curvature @ inverse / rows
        notes = [f"robust errors and coefficients only: {self.unsummarized}"] if self.unsummarized else []
        if layout.model.ridge:
            notes.append("the penalty biases estimates, which standard errors do not show")
        meat = layout.sums.meat and bool(self.members)
        return Summary(
            agent=agent,
            site=site,
            family=family.name,
            names=layout.names,
            estimates=self.mean,
            standard_errors=np.sqrt(np.diag(covariance)),
            robust_errors=self.standard_error,
            robust=robust,
            level=level,
            covariance=covariance,
            robust_covariance=judgement.covariance if meat else np.full_like(covariance, np.nan),
            rows=rows if layout.weighting == "samples" and self.members else np.nan,
            parameters=parameters,
            estimated_scales=0,
            intercepts=int(layout.model.intercept),
            student=family.student,
            dispersion=dispersion,
            deviance=totals.deviance,
            null_deviance=totals.null_deviance(family, figures[5:]) if known else np.nan,
            pearson=totals.pearson,
            log_likelihood=totals.log_likelihood(family, dispersion) if known else np.nan,
            kind="HC3",
            freedom=judgement.freedom if meat else np.full(layout.parameters, float(max(layout.noise, 1))),
            note="; ".join(notes),
        )

    @property
    def held(self) -> Floats:
        return self.mean

    @property
    def mean(self) -> Floats:
        """The estimated parameters, in the order of `ModelLayout.names`."""
        return np.full(self.layout.parameters, np.nan) if self.withheld else self.judgement.theta

    @property
    def standard_error(self) -> Floats:
        known = self.layout.noise or (self.layout.sums.meat and self.members)
        return (
            self.judgement.errors if known and not self.withheld else np.full(self.layout.parameters, np.nan)
        )

    def distance(self, vector: Floats) -> float:
        other = self.layout.judge(vector, self.members)
        if not (other.ready and self.judgement.ready):
            return np.nan
        return float(np.abs(other.theta - self.judgement.theta).max())

    @property
    def quantile_95(self) -> Floats:
        """(p,) the half-width of a 95% interval in standard errors, by Student's t; nan while withheld."""
        known = self.layout.sums.meat and self.members
        freedom = (
            self.judgement.freedom if known else np.full(self.layout.parameters, max(self.layout.noise, 1))
        )
        return np.full(self.layout.parameters, np.nan) if self.withheld else student_95(freedom)

    @property
    def variance(self) -> None:
        return None

    @property
    def covariance(self) -> None:
        return None

    def observing(self, members: int, inherited: int = 0) -> float:
        """Unknown: an average of curvatures does not tell how many agents contribute to it, and there is no total."""
        return np.nan


def in_words(judgement: Judgement, names: Sequence[str]) -> str:
    """Describe an undetermined direction by the covariates with the largest part in it."""
    way = np.abs(judgement.directions[:, int(np.argmin(judgement.known))])
    return " and ".join(names[k] for k in np.flatnonzero(way > 0.1 * way.max())[:4])


@dataclass(frozen=True)
class Columns:
    """Converts a table with columns of these names, or an array with a column for each, to covariates (n, d)."""

    names: tuple[str, ...]

    def __call__(self, X: object) -> Floats:
        if isinstance(X, Mapping) or hasattr(X, "columns"):
            table = cast("Mapping[str, object]", X)
            missing = [name for name in self.names if name not in table]
            if missing:
                raise InvalidInput(
                    parameter="X", required=f"the columns {list(self.names)}", got=f"none of {missing}"
                )
            return np.column_stack([np.asarray(table[name], dtype=float) for name in self.names])
        return checks.array("X", X, (None, len(self.names)))


class Labels(Range):
    """The rows that a model accepts: within the range, if there is one, and with a label of its family."""

    def __init__(self, settings: AgentSettings, family: Family) -> None:
        super().__init__(settings.range, clips=settings.outside == "clip")
        self._family = family

    def admit(self, observation: Floats) -> Floats:
        if self._family.outside(observation[-1:]).any():
            raise BadObservation(
                f"the label of a row must be {self._family.labels} for the family {self._family.name}, "
                f"got {short(float(observation[-1]))}"
            )
        return super().admit(observation)

    def doubt(self, estimate: Floats, *, observed: bool) -> str:
        return ""  # coefficients have no range, and are withheld while unknown
