"""Families whose labels are classes: two of them (logistic), or several (softmax)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossamer import checks
from gossamer.arrays import Booleans, Floats
from gossamer.errors import InvalidInput
from gossamer.families.family import CERTAIN, Family, Limits, OnePredictor


def numbered(y: object, classes: Sequence[object], whose: str = "") -> Floats:
    """Return the number of each label in a list of classes; NaN if it is missing (None, NaN or empty text)."""
    number = {None: np.nan, "": np.nan} | {label: float(k) for k, label in enumerate(classes)}
    labels = np.atleast_1d(np.asarray(y))
    kinds, which = (
        (labels, np.arange(labels.size)) if labels.dtype == object else np.unique(labels, return_inverse=True)
    )
    numbers = np.array([number.get(label, np.nan if label != label else -1.0) for label in kinds.tolist()])
    if np.any(numbers < 0):
        raise InvalidInput(
            f"the labels{whose} must be among the classes {', '.join(map(repr, classes))}, got "
            f"{kinds[numbers < 0].tolist()[0]!r}"
        )
    return numbers[which].reshape(labels.shape)


def _odds(samples: int) -> tuple[float, float]:
    """Return the log odds that this many samples can distinguish from certainty."""
    most = 2 + float(np.log(samples))
    return -most, most


@dataclass(frozen=True)
class Logistic(OnePredictor):
    r"""Labels 0 and 1 with log odds :math:`\eta`.

    See Also
    --------
    Softmax : More than two classes.
    gossamer.LikelihoodEstimation : Fits a model with this loss.

    Examples
    --------
    >>> team = gs.LikelihoodEstimation.random(gs.Network.cycle(6), gs.applications.Logistic(), dimension=2)
    >>> team.simulate("anytime-sda", 300, trials=2).over_limit < 10
    True
    """

    name: ClassVar[str] = "logistic"
    reach: ClassVar[float] = 1.0
    separates: ClassVar[bool] = True
    density: ClassVar[bool] = True
    labels: ClassVar[str] = "0 or 1"

    @property
    def class_count(self) -> int:
        return 2

    def recoded(self, y: Floats) -> tuple[Floats, tuple[int, ...] | None]:
        """Turn -1 into 0 if labels are -1 and 1, which needs no agreement between agents."""
        if np.any(y == -1) and not np.any(y == 0):
            return np.where(y == -1, 0.0, y), (-1, 1)
        return y, None

    def mean(self, predictors: Floats) -> Floats:
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * predictors))

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return self.mean(eta) - y

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        return self.variance(self.mean(eta))

    def losses(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(np.logaddexp(0.0, predictors[0]) - y * predictors[0])

    def pearson(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(np.exp((1 - 2 * y) * predictors[0]))  # without dividing zero by zero

    def variance(self, mean: Floats) -> Floats:
        return mean * (1 - mean)

    def probabilities(self, predictors: Floats) -> Floats:
        return self.mean(np.concatenate([-predictors, predictors]))

    def constant(self, mean: float) -> Floats:
        return np.array([np.log(mean / (1 - mean)) if 0 < mean < 1 else 0.0])

    def outside(self, y: Floats) -> Booleans:
        return np.asarray((y != 0) & (y != 1))

    def plausible(self, y: Floats, samples: int) -> Limits:
        return _odds(samples)

    def reach_of(self, low: float, high: float) -> tuple[float, float]:
        return -CERTAIN, CERTAIN

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return (rng.random(predictors.shape[1:]) < self.mean(predictors[0])).astype(float)


@dataclass(frozen=True)
class Softmax(Family):
    """Several classes, of which class 0 is what the others are compared with.

    Labels are 0 to `classes` - 1, and there are `classes` - 1 predictors; with `symmetric` every class has one, and
    only their differences matter (then a ridge penalty is needed).

    Parameters
    ----------
    classes : int
        Number of classes, at least 2; labels are 0, 1, ...
    symmetric : bool
        Whether class 0 has a predictor as well.

    See Also
    --------
    Logistic : Two classes.
    gossamer.LikelihoodEstimation : Fits a model with this loss.

    Examples
    --------
    >>> gs.applications.Softmax(3).outputs
    2
    """

    classes: int
    symmetric: bool = False

    name: ClassVar[str] = "softmax"
    reach: ClassVar[float] = 1.0
    separates: ClassVar[bool] = True
    density: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.whole_number("classes", self.classes, least=2)

    @property
    def labels(self) -> str:  # type: ignore[override]
        return f"whole numbers from 0 to {self.classes - 1}"

    @property
    def class_count(self) -> int:
        return self.classes

    @property
    def outputs(self) -> int:
        return self.classes if self.symmetric else self.classes - 1

    @property
    def symmetric_predictors(self) -> bool:
        return self.symmetric

    def against_first(self) -> Softmax:
        return Softmax(self.classes)

    def parameter_names(
        self, covariates: Sequence[str], classes: Sequence[object] | None = None
    ) -> list[str]:
        labels = range(self.classes) if classes is None else classes
        return [f"{name}[{label}]" for label in labels[-self.outputs :] for name in covariates]

    def mean(self, predictors: Floats) -> Floats:
        """Return (m, ...) the probability of the class of each predictor."""
        rest = -np.inf if self.symmetric else 0.0  # the predictor of class 0
        largest = np.maximum(predictors.max(axis=0), rest)
        odds = np.exp(predictors - largest)
        return np.asarray(odds / (odds.sum(axis=0) + np.exp(rest - largest)))

    def _own_class(self, y: Floats) -> Booleans:
        classes = np.arange(self.classes - self.outputs, self.classes)
        return np.asarray(y[None] == classes.reshape(-1, *[1] * y.ndim))

    def slopes(self, predictors: Floats, y: Floats) -> Floats:
        return self.mean(predictors) - self._own_class(y)

    def curvatures(self, predictors: Floats, y: Floats) -> Floats:
        p = self.mean(predictors)
        matrix: Floats = -p[:, None] * p[None]
        same = np.arange(self.outputs)
        matrix[same, same] += p
        return matrix

    def bend(self, predictors: Floats, y: Floats, changes: Floats) -> Floats:
        p = self.mean(predictors)
        return np.asarray(p * (changes - np.einsum("an,an->n", p, changes)))

    def probabilities(self, predictors: Floats) -> Floats:
        if self.symmetric:
            return self.mean(predictors)
        every = Softmax(self.classes, symmetric=True)
        return every.mean(np.concatenate([np.zeros_like(predictors[:1]), predictors]))

    def losses(self, predictors: Floats, y: Floats) -> Floats:
        chosen = np.where(self._own_class(y), predictors, 0.0).sum(axis=0)
        among = predictors if self.symmetric else np.concatenate([np.zeros_like(predictors[:1]), predictors])
        return np.asarray(np.logaddexp.reduce(among, axis=0) - chosen)

    def indicators(self, y: Floats) -> Floats:
        return self._own_class(y).astype(float)

    def null_loss(self, mean: Floats) -> float:
        shares = mean if self.symmetric else np.append(1 - mean.sum(), mean)
        return float(-(shares * np.log(np.where(shares > 0, shares, 1.0))).sum())

    def pearson(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(np.expm1(self.losses(predictors, y)))  # 1/p - 1 of the own class

    def outside(self, y: Floats) -> Booleans:
        return np.asarray((y < 0) | (y >= self.classes) | (y != np.floor(y)))

    def plausible(self, y: Floats, samples: int) -> Limits:
        return _odds(samples)

    def reach_of(self, low: float, high: float) -> tuple[float, float]:
        return -CERTAIN, CERTAIN

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        p = self.mean(predictors)
        p = p[1:] if self.symmetric else p
        beyond = np.cumsum(p[::-1], axis=0)[::-1]  # the probability of class k or a later one
        return np.asarray((rng.random(p.shape[1:]) < beyond).sum(axis=0), dtype=float)
