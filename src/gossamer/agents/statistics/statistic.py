"""The interface of statistics: one object that knows everything about one quantity that a fleet learns.

Averaging is linear and runs on vectors, so anything that is a function of means over the network costs only more
components. A statistic says how many components it needs, what an observation adds to them, between which values they
lie, how an answer is read from their averages, and what status files and metrics show of it. `layout.py` arranges the
statistics that a fleet enables in one vector; nothing outside this package knows them by name.

To add one, write a class in a file of this package, add it to `STATISTICS` in `layout.py`, and declare the setting that
enables it (CONTRIBUTING.md has the recipe).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gossamer.arrays import Floats

if TYPE_CHECKING:
    from gossamer.agents.statistics.layout import Answers, Layout

Box = tuple[Floats, Floats]
"""The smallest and the largest value of each component in one agent's mean."""


class Membership(NamedTuple):
    """The size of a fleet, for answers that depend on it.

    members    number of members; 0 if it is unknown
    inherited  number of agents that have left and handed their data over to those that stay
    """

    members: int = 0
    inherited: int = 0


LabeledValues = Mapping[Any, float]
"""Numbers by tuple of label values. Tuples may have any length, which the type of a mapping cannot express."""


class Metric(NamedTuple):
    """A metric as Prometheus shows it, without the labels that all metrics of an agent share.

    name    without the prefix of this package
    text    what it means
    labels  names of its labels
    values  a number for each tuple of label values
    """

    name: str
    text: str
    labels: tuple[str, ...]
    values: LabeledValues

    @classmethod
    def vector(cls, name: str, text: str, values: Iterable[float]) -> Metric:
        """A metric with one value per component of an observation."""
        return cls(name, text, ("component",), {(str(k),): float(v) for k, v in enumerate(values)})


class Statistic(ABC):
    """One quantity that a fleet learns."""

    size: int = 0
    """Number of components in the averaged vector."""

    compiled: bool = False
    """Whether the compiled pass over the observations (`round/numbers.pyx`) adds the components."""

    squares: bool = False
    """Whether components are products of two numbers of an observation, which halves the range of exponents."""

    @classmethod
    @abstractmethod
    def asked(cls, layout: Layout) -> Self | None:
        """The statistic for this layout, or None if the fleet does not enable it."""

    def components(self, observation: Floats) -> Floats:
        """What one observation, shape (n,), adds to the components; shape (size,)."""
        raise NotImplementedError

    def box(self, low: Floats, high: Floats) -> Box:
        """Between which values the components lie if observations lie between `low` and `high`, both of shape (n,)."""
        raise NotImplementedError

    def masks(self, scale: Floats) -> Floats:
        """Standard deviations of the masks of the components, for masks of `scale`, (n,), on an observation itself."""
        raise NotImplementedError

    def answer(self, means: Floats, mean: Floats) -> Any:
        """Read the answer from the means of the components over all observations; `mean` is that of an observation."""
        return means

    def entries(self, answers: Answers, count: Membership) -> dict[str, object]:
        """What status files and JSON lines show."""
        return {}

    def metrics(self, answers: Answers, count: Membership) -> Iterable[Metric]:
        """The metrics for Prometheus."""
        return ()


def shown(values: Floats | Iterable[float]) -> Any:
    """Numbers as JSON: a single one as itself, several as a list; NaN and infinities become null."""
    numbers = [number(float(value)) for value in values]
    return numbers[0] if len(numbers) == 1 else numbers


def number(value: float) -> float | None:
    """A number as JSON; NaN and infinities become null."""
    return value if math.isfinite(value) else None
