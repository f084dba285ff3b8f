"""The model that a fleet learns."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer import checks
from gossamer.errors import InvalidInput
from gossamer.families import FAMILIES, Family, Huber, Softmax, family_of


@dataclass(frozen=True)
class FleetModel:
    """The model that a fleet learns from rows, each of covariates and a label.

    family      "logistic", "softmax", "poisson", "gamma" or "huber"
    covariates  what the covariates are called, in the order in which a row has them
    intercept   whether there is a constant beside them
    ridge       factor of the penalty ridge/2 theta^2, per row; the intercept has none
    classes     how many classes softmax has, labeled 0, 1, ...
    threshold   of the Huber loss
    memory      how many rows of a stream an agent keeps in memory, to linearize them again; of tables it keeps all
    forgetting  after how many rounds a row counts half; 0: rows count the same for ever
    keep        whether the rows of members that vanish stay, until they come back or the roster removes them
    least       an agent tells sums of so many rows or more; until then, new rows wait
    """

    family: str = "logistic"
    covariates: tuple[str, ...] = ("x",)
    intercept: bool = True
    ridge: float = 0.0
    classes: int = 3
    threshold: float = Huber.threshold
    memory: int = 10_000
    least: int = 20
    forgetting: float = 0.0
    keep: bool = False

    def __post_init__(self) -> None:
        checks.choice("model.family", self.family, FAMILIES)
        object.__setattr__(self, "covariates", tuple(str(name) for name in self.covariates))
        if not self.covariates or len({*self.covariates, "intercept"}) <= len(self.covariates):
            raise InvalidInput(
                parameter="model.covariates",
                required="the names of at least one covariate, all different and none of them 'intercept'",
                got=str(list(self.covariates)),
            )
        checks.number("model.ridge", self.ridge, least=0)
        checks.whole_number("model.classes", self.classes, least=2)
        checks.number("model.threshold", self.threshold, above=0)
        checks.whole_number("model.memory", self.memory, least=0)
        checks.whole_number("model.least", self.least, least=1)
        checks.number("model.forgetting", self.forgetting, least=0)

    def __str__(self) -> str:
        """What is summed over rows: sums of different models are no sums."""
        constant = " and a constant" if self.intercept else ""
        return f"{self.build()} of {', '.join(self.covariates)}{constant}"

    def build(self) -> Family:
        """The family, with its parameters."""
        if self.family == "softmax":
            return Softmax(self.classes)
        return Huber(self.threshold) if self.family == "huber" else family_of(self.family)
