"""Families: convex losses of a label and a linear predictor, and the densities that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gossamer import checks
from gossamer.errors import InvalidInput
from gossamer.families.classes import Logistic, Softmax, numbered
from gossamer.families.dispersed import Gamma, LeastSquares, NegativeBinomial
from gossamer.families.family import Family
from gossamer.families.losses import Huber, Poisson

__all__ = [
    "FAMILIES",
    "STORED",
    "Family",
    "Gamma",
    "Huber",
    "LeastSquares",
    "Logistic",
    "NegativeBinomial",
    "Poisson",
    "Softmax",
    "family_of",
    "numbered",
    "with_classes",
]

FAMILIES: dict[str, Callable[[], Family]] = {
    "logistic": Logistic,
    "softmax": lambda: Softmax(3),
    "poisson": Poisson,
    "gamma": Gamma,
    "huber": Huber,
}
"""Families by name, with their usual parameters."""

STORED = FAMILIES | {"least-squares": LeastSquares, "negative-binomial": NegativeBinomial}
"""Families for stored data."""


def family_of(family: Family | str, families: Mapping[str, Callable[[], Family]] = FAMILIES) -> Family:
    """Return a family, or the one of this name."""
    if isinstance(family, Family):
        return family
    return families[checks.choice("family", family, families)]()


def with_classes(
    family: Family | str, classes: object, *, symmetric: bool = False
) -> tuple[Family, tuple[object, ...]]:
    """Return the family whose classes 0, 1, ... have these labels, and the labels."""
    labels = tuple(
        label.item() if isinstance(label, np.generic) else label
        for label in checks.listed("classes", classes)
    )
    if len(set(labels)) < max(len(labels), 2):
        raise InvalidInput(
            parameter="classes", required="at least 2 different labels", got=checks.brief(list(labels))
        )
    known = Softmax(len(labels), symmetric) if family == "softmax" else family_of(family, STORED)
    if known.class_count != len(labels):
        required = f"{known.class_count} labels" if known.categorical else "left out"
        raise InvalidInput(
            parameter="classes",
            required=f"{required} for the family {known.name}, whose labels are {known.labels}",
            got=checks.brief(list(labels)),
        )
    return known, labels
