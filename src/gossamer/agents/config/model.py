"""The model that a fleet learns."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.agents.config.declaration import check, documented
from gossamer.agents.config.tables import in_file
from gossamer.errors import InvalidInput
from gossamer.families import FAMILIES, Family, Huber, Softmax, family_of


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
