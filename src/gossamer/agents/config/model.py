"""The model that a fleet learns."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer import checks
from gossamer.errors import InvalidInput
from gossamer.families import FAMILIES, Family, Huber, Softmax, family_of


@dataclass(frozen=True)
class FleetModel:
    """The model that a fleet learns from rows of covariates and a label.

    Parameters
    ----------
    family : str
        "logistic", "softmax", "poisson", "gamma" or "huber".
    covariates : tuple of str
        Names of the covariates, in the order of a row.
    intercept : bool
        Whether the model has a constant.
    ridge : float
        Factor of the penalty ridge/2 theta^2 per row; the intercept is not penalized.
    classes : int
        Number of classes of softmax, labeled 0, 1, ...
    threshold : float
        Threshold of the Huber loss.
    memory : int
        Rows of a stream that an agent keeps in memory to linearize them again; of tables it keeps all.
    least : int
        Smallest number of rows whose sums an agent publishes; until then, new rows wait.
    forgetting : float
        Rounds after which a row counts half; 0 disables forgetting.

    Examples
    --------
    >>> model = gs.agents.FleetModel("logistic", covariates=("age", "dose"))
    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1),), model=model, dimension=3)
    >>> str(settings.model)
    'Logistic() of age, dose and a constant'
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
