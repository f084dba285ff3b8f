"""What a fleet learns instead of a mean: a model, or values of states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.agents.config.declaration import check, documented
from gossamer.agents.config.tables import FleetFile, in_file
from gossamer.arrays import AnyArray, Floats
from gossamer.errors import InvalidInput
from gossamer.families import FAMILIES, Family, Huber, Softmax, family_of
from gossamer.features import (
    REACH,
    RandomFourier,
    Standardized,
    Standardizer,
    features_of,
    rows_of,
)

if TYPE_CHECKING:
    from gossamer.agents.config.settings import AgentSettings

MOST_FEATURES = 500
"""Largest number of features: without a shared trajectory, a message holds its square."""


def _check_names(name: str, value: tuple[str, ...]) -> None:
    """Raise for covariates that cannot be told apart, or from the intercept."""
    if not value or len({*value, "intercept"}) <= len(value):
        raise InvalidInput(
            parameter=name,
            required="the names of at least one covariate, all different and none of them 'intercept'",
            got=str(list(value)),
        )


@documented
@dataclass(frozen=True)
class FleetModel:
    """The model that a fleet learns from rows of covariates and a label.

    See Also
    --------
    Fleet : The fleet that estimates it.
    gossamer.LikelihoodEstimation : The same models in simulations and on recorded rows.

    Examples
    --------
    >>> model = gs.agents.FleetModel("logistic", covariates=("age", "dose"))
    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1),), model=model, dimension=3)
    >>> str(settings.model)
    'Logistic() of age, dose and a constant'
    """

    family: str = in_file("model.family", "logistic", choices=tuple(FAMILIES))
    covariates: tuple[str, ...] = in_file("model.covariates", ("x",), check=_check_names)
    intercept: bool = in_file("model.intercept")
    ridge: float = in_file("model.ridge")
    classes: int = in_file("model.classes")
    threshold: float = in_file("model.threshold")
    memory: int = in_file("model.memory")
    least: int = in_file("model.least")
    forgetting: float = in_file("model.forgetting")
    keep: bool = in_file("model.keep")

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariates", tuple(str(name) for name in self.covariates))
        check(self, "model.")

    def __str__(self) -> str:
        """What is summed over rows; statistics of different models cannot be added."""
        constant = " and a constant" if self.intercept else ""
        return f"{self.build()} of {', '.join(self.covariates)}{constant}"

    def build(self) -> Family:
        """The family, with its parameters."""
        if self.family == "softmax":
            return Softmax(self.classes)
        return Huber(self.threshold) if self.family == "huber" else family_of(self.family)


def _check_features(name: str, value: str) -> None:
    features_of(value)


@documented
@dataclass(frozen=True)
class FleetValues:
    """The values of states that a fleet learns from transitions of an environment.

    An observation is one transition: the numbers of the state, those of the next state, the reward, and 0 if the
    episode goes on, 1 if it is over, or 2 if it was cut off.

    See Also
    --------
    gossamer.ValueEstimation : The same values from recorded or simulated steps.
    gossamer.agents.FleetModel : A model instead of values.

    Examples
    --------
    >>> values = gs.agents.FleetValues("fourier:20", states=((-1.2, 0.6), (-0.07, 0.07)))
    >>> values.dimension, values.rows([[0.0, 0.0]]).shape
    (6, (1, 20))
    """

    features: str = in_file("values.features", "table:2", check=_check_features)
    states: tuple[tuple[float, float], ...] = in_file("values.states")
    rewards: tuple[float, ...] = in_file("values.rewards")
    discount: float = in_file("values.discount")
    trace: float = in_file("values.trace")
    ridge: float = in_file("values.ridge")
    seed: int = in_file("values.seed")
    shared: bool = in_file("values.shared")

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", tuple((float(low), float(high)) for low, high in self.states))
        object.__setattr__(self, "rewards", tuple(float(end) for end in self.rewards))
        check(self, "values.")
        if bool(self.states) == self.table:
            raise InvalidInput(
                parameter="values.states",
                required="empty for a table of states"
                if self.table
                else "a pair for each component of a state",
                got=str(self.states),
            )
        if self.size > MOST_FEATURES:
            raise InvalidInput(
                parameter="values.features",
                required=f"at most {MOST_FEATURES} features",
                got=f"{self.features} with {self.size} features",
            )

    @property
    def table(self) -> bool:
        """Whether states are whole numbers."""
        return self.features.startswith("table")

    @property
    def components(self) -> int:
        """Number of components of a state."""
        return 1 if self.table else len(self.states)

    @property
    def dimension(self) -> int:
        """Number of components of a transition."""
        return 2 * self.components + 2

    @cached_property
    def _box(self) -> tuple[Floats, Floats]:
        low, high = np.array(self.states).T
        return low, high

    @cached_property
    def _features(self) -> Any:
        made = features_of(self.features)
        if isinstance(made, RandomFourier):
            made = replace(made, seed=self.seed)
        return made.scaled(Standardizer.between(*self._box)) if isinstance(made, Standardized) else made

    @cached_property
    def size(self) -> int:
        """Number of features."""
        return int(self.rows(np.zeros((1, self.components))).shape[1])

    @cached_property
    def largest(self) -> float:
        """The largest size of a feature."""
        return {"fourier": 2**0.5, "linear": REACH}.get(self.features.partition(":")[0], 1.0)

    def rows(self, states: AnyArray) -> Floats:
        """Return (M, p) the features of states (M, d)."""
        if self.table:
            return rows_of(self._features, np.asarray(states).reshape(-1).astype(int))
        return rows_of(self._features, np.clip(states, *self._box))


def learned(file: FleetFile) -> dict[str, Any]:
    """Return what a fleet learns instead of a mean, and the number of components of an observation: with a model, of a
    row, and with values, of a transition."""
    model = FleetModel(**file.values_of(FleetModel)) if file.model.family else None
    values = FleetValues(**file.values_of(FleetValues)) if file.values.features else None
    dimension = file.observations.dimension if model is None else len(model.covariates) + 1
    return {"model": model, "values": values, "dimension": dimension if values is None else values.dimension}


def check_learned(settings: AgentSettings) -> None:
    """Raise unless observations are rows of the model, or transitions between states, and nothing else is averaged."""
    model, values = settings.model, settings.values
    if values is not None:
        _check_dimension(settings, values.dimension, "that of two states, a reward and an end")
        names = ("model", "variance", "covariance", "extremes", "bins", "range")
        extra = [name for name in names if getattr(settings, name)]
        if extra:
            raise InvalidInput(
                f"are all that a fleet with them averages; leave out {', '.join(extra)}", parameter="values"
            )
    if model is not None:
        size = len(model.covariates) + 1
        _check_dimension(settings, size, "the number of covariates of the model, and one for the label")
        extra = [name for name in ("variance", "covariance", "extremes", "bins") if getattr(settings, name)]
        if extra or getattr(settings.method, "gain", None):
            raise InvalidInput(
                "needs all rows, and nothing else, in plain averages; leave out "
                f"{', '.join(extra) or 'the gain or window'}",
                parameter="model",
            )


def _check_dimension(settings: AgentSettings, size: int, what: str) -> None:
    if settings.dimension != size:
        raise InvalidInput(parameter="dimension", required=f"{what}, {size}", got=str(settings.dimension))
