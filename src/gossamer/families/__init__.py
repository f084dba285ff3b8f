"""Families: convex losses of a label and a linear predictor, and the densities that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gossamer import checks
from gossamer.families.base import Family
from gossamer.families.classes import Logistic, Softmax
from gossamer.families.dispersed import Gamma, LeastSquares, NegativeBinomial
from gossamer.families.losses import Huber, Poisson

__all__ = [
    "AT_REST",
    "FAMILIES",
    "Family",
    "Gamma",
    "Huber",
    "LeastSquares",
    "Logistic",
    "NegativeBinomial",
    "Poisson",
    "Softmax",
    "family_of",
]

FAMILIES: dict[str, Callable[[], Family]] = {
    "logistic": Logistic,
    "softmax": lambda: Softmax(3),
    "poisson": Poisson,
    "gamma": Gamma,
    "huber": Huber,
}
"""Families by name, with their usual parameters."""

AT_REST = FAMILIES | {"least-squares": LeastSquares, "negative-binomial": NegativeBinomial}
"""Those of data at rest."""


def family_of(family: Family | str, families: Mapping[str, Callable[[], Family]] = FAMILIES) -> Family:
    """A family, or the one of this name."""
    if isinstance(family, Family):
        return family
    return families[checks.choice("family", family, families)]()
