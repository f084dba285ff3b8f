"""Families: a convex loss of a label and a linear predictor, given by its two derivatives.

The loss of a sample with covariates x and label y is l(eta, y) at the predictor eta = x'theta. All that estimation
needs is the derivative l' and the curvature l'' in eta. A family with several predictors, softmax, has one column
of parameters for each, and its derivative is a vector and its curvature a matrix.

    family                 labels             predictor               loss
    logistic               0, 1               log odds                log(1 + exp(eta)) - y eta
    softmax                0 .. K-1           log odds against 0      log(1 + sum exp(eta)) - eta_y
    Poisson                0, 1, 2, ...       log of the rate         exp(eta) - y eta
    gamma                  positive           log of the mean         eta + y exp(-eta)
    linear, Huber loss     any number         the location            r = y - eta: r^2/2, from |r| = k on linear

A family of your own is two functions (`Family.own`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gossamer import checks
from gossamer.arrays import Booleans, Floats
from gossamer.errors import InvalidInput, Unsupported

Derivative = Callable[[Floats, Floats], Floats]
"""A function of predictors and labels, arrays of one shape, that returns one number for each."""

_PREDICTORS = np.linspace(-3.1, 3.3, 37)
"""Where the two functions of a family are compared."""


def _median(values: Floats) -> tuple[Floats, Floats]:
    """The lower median along the first axis, and of how many numbers; NaN are none."""
    count = np.sum(~np.isnan(values), axis=0)
    place = np.maximum(count - 1, 0) // 2
    return np.take_along_axis(np.sort(values, axis=0), place[None], axis=0)[0], count


def _odds(samples: int) -> tuple[float, float]:
    """Log odds that so many samples can tell from certainty."""
    most = 2 + float(np.log(samples))
    return -most, most


class Family(ABC):
    """A convex loss of a label and of `outputs` linear predictors, by its derivatives.

    Predictors have one more axis in front than labels, of length `outputs`.

    Examples
    --------
    >>> family: gs.applications.Family = gs.applications.Poisson()
    >>> family.outputs
    1
    """

    name: ClassVar[str]
    labels: ClassVar[str]
    """Which labels it has, in words."""

    separates: ClassVar[bool] = False
    """Whether labels can be told apart without error, so that the loss falls forever (separable data)."""

    @property
    def outputs(self) -> int:
        """How many linear predictors a sample has."""
        return 1

    @abstractmethod
    def slopes(self, predictors: Floats, y: Floats) -> Floats:
        """(m, ...) the derivative of the loss in each predictor, from (m, ...) and (...)."""

    @abstractmethod
    def curvatures(self, predictors: Floats, y: Floats) -> Floats:
        """(m, m, ...) the second derivatives, from (m, ...) and (...)."""

    @abstractmethod
    def outside(self, y: Floats) -> Booleans:
        """Which of these finite labels the family does not have."""

    def start(self, y: Floats, seen: Floats) -> Floats:
        """(m, ...) where samples are linearized while there is no estimate yet: what labels alone suggest, these and
        those that the agent has seen, along the first axis (NaN: none)."""
        return np.zeros((self.outputs, *y.shape))

    def plausible(self, y: Floats, samples: int) -> tuple[Any, Any]:
        """Between which predictors a sample with this label is linearized, when `samples` have been seen.

        Before the network has mixed, estimates are wild, and where the curvature grows with the predictor a few samples
        would outweigh all others for good.
        """
        return -np.inf, np.inf

    def mean(self, predictors: Floats) -> Floats:
        """(m, ...) what the predictors say of a label: its mean, or the probability of each class but the first."""
        raise Unsupported(f"the family {self.name} does not say what its predictors mean")

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        """(...) random labels at these predictors, (m, ...)."""
        raise Unsupported(
            f"the family {self.name} cannot draw labels, so there is nothing to simulate; give it `draw`, "
            "or hand in your own samples"
        )

    def check_labels(self, y: Any, whose: str = "") -> Floats:
        """Return finite labels of this family, or name the first that is not one."""
        found = checks.array(f"the labels{whose}", y)
        wrong = self.outside(found)
        if np.any(wrong):
            raise InvalidInput(
                f"the labels{whose} must be {self.labels} for the family {self.name}, but {int(np.sum(wrong))} of "
                f"{found.size} are not, the first of them {found[wrong].flat[0]:g}; choose another family, or encode "
                "the labels anew"
            )
        return found

    @staticmethod
    def own(
        derivative: Derivative,
        curvature: Derivative,
        *,
        labels: Sequence[float] = (0.5, 1.0, 2.0),
        name: str = "own",
        draw: Callable[[np.random.Generator, Floats], Floats] | None = None,
    ) -> Family:
        """A family of your own: the derivative and the curvature of a convex loss in the linear predictor.

        Parameters
        ----------
        derivative, curvature
            Functions of predictors and labels, arrays of one shape.
        labels
            Some labels to compare the two functions at, for predictors from -3 to 3.
        name
            What it is called.
        draw
            Draws labels from a generator and predictors; only simulations need it.

        Examples
        --------
        >>> import gossamer as gs
        >>> import numpy as np
        >>> squares = gs.applications.Family.own(lambda eta, y: eta - y, lambda eta, y: np.ones_like(eta))
        >>> squares.outputs
        1
        """
        return _Own(derivative, curvature, tuple(labels), name, draw)


class _OnePredictor(Family):
    """A family of one predictor: `derivative` and `curvature` take it without the axis in front."""

    @abstractmethod
    def derivative(self, eta: Floats, y: Floats) -> Floats: ...

    @abstractmethod
    def curvature(self, eta: Floats, y: Floats) -> Floats: ...

    def slopes(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(self.derivative(predictors[0], y))[None]

    def curvatures(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(self.curvature(predictors[0], y))[None, None]


@dataclass(frozen=True)
class Logistic(_OnePredictor):
    """Labels 0 and 1 with log odds eta.

    Examples
    --------
    >>> team = gs.LikelihoodEstimation.random(gs.Network.cycle(6), gs.applications.Logistic(), dimension=2)
    >>> team.simulate("anytime-sda", 300, trials=2).over_limit < 10
    True
    """

    name: ClassVar[str] = "logistic"
    separates: ClassVar[bool] = True
    labels: ClassVar[str] = "0 or 1"

    def mean(self, predictors: Floats) -> Floats:
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * predictors))

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return self.mean(eta) - y

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        p = self.mean(eta)
        return p * (1 - p)

    def outside(self, y: Floats) -> Booleans:
        return np.asarray((y != 0) & (y != 1))

    def plausible(self, y: Floats, samples: int) -> tuple[Any, Any]:
        return _odds(samples)

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return (rng.random(predictors.shape[1:]) < self.mean(predictors[0])).astype(float)


@dataclass(frozen=True)
class Softmax(Family):
    """Classes 0 .. classes-1. Class 0 is what the others are compared with, so there are classes - 1 predictors;
    with `symmetric`, every class has one, and only their differences matter (then a ridge penalty is needed).

    Examples
    --------
    >>> gs.applications.Softmax(3).outputs
    2
    """

    classes: int
    symmetric: bool = False

    name: ClassVar[str] = "softmax"
    separates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.whole_number("classes", self.classes, least=2)

    @property
    def labels(self) -> str:  # type: ignore[override]
        return f"whole numbers from 0 to {self.classes - 1}"

    @property
    def outputs(self) -> int:
        return self.classes if self.symmetric else self.classes - 1

    def mean(self, predictors: Floats) -> Floats:
        """(m, ...) the probability of the class of each predictor."""
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
        found: Floats = -p[:, None] * p[None]
        same = np.arange(self.outputs)
        found[same, same] += p
        return found

    def outside(self, y: Floats) -> Booleans:
        return np.asarray((y < 0) | (y >= self.classes) | (y != np.floor(y)))

    def plausible(self, y: Floats, samples: int) -> tuple[Any, Any]:
        return _odds(samples)

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        p = self.mean(predictors)
        p = p[1:] if self.symmetric else p
        beyond = np.cumsum(p[::-1], axis=0)[::-1]  # the probability of class k or a later one
        return np.asarray((rng.random(p.shape[1:]) < beyond).sum(axis=0), dtype=float)


@dataclass(frozen=True)
class Poisson(_OnePredictor):
    """Counts whose rate is exp(eta).

    Examples
    --------
    >>> team = gs.LikelihoodEstimation.random(gs.Network.cycle(6), gs.applications.Poisson(), dimension=2)
    >>> team.simulate("anytime-sda", 300, trials=2).over_limit < 10
    True
    """

    name: ClassVar[str] = "poisson"
    labels: ClassVar[str] = "whole numbers of at least 0"

    def mean(self, predictors: Floats) -> Floats:
        return np.asarray(np.exp(predictors))

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return np.exp(eta) - y

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        return np.exp(eta)

    def outside(self, y: Floats) -> Booleans:
        return np.asarray((y < 0) | (y != np.floor(y)))

    def start(self, y: Floats, seen: Floats) -> Floats:
        return np.log(y + 0.5)[None]

    def plausible(self, y: Floats, samples: int) -> tuple[Any, Any]:
        return -np.inf, np.log(
            y + 4 * np.sqrt(y + 1) + 4
        )  # of larger rates so few are rare: 3 in 10,000 for none

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return np.asarray(rng.poisson(np.exp(predictors[0])), dtype=float)


@dataclass(frozen=True)
class Gamma(_OnePredictor):
    """Positive labels of mean exp(eta), gamma distributed with a shape that estimation need not know.

    Examples
    --------
    >>> gs.applications.Gamma(shape=3.0).outputs
    1
    """

    shape: float = 2.0

    name: ClassVar[str] = "gamma"
    labels: ClassVar[str] = "positive"

    def __post_init__(self) -> None:
        checks.number("shape", self.shape, above=0)

    def mean(self, predictors: Floats) -> Floats:
        return np.asarray(np.exp(predictors))

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return 1 - y * np.exp(-eta)

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        return y * np.exp(-eta)

    def outside(self, y: Floats) -> Booleans:
        return np.asarray(y <= 0)

    def start(self, y: Floats, seen: Floats) -> Floats:
        return np.log(y)[None]

    def plausible(self, y: Floats, samples: int) -> tuple[Any, Any]:
        return np.log(y) - 2, np.inf  # seven times the mean is rare: 6 in 10,000 if labels are exponential

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return np.asarray(rng.gamma(self.shape, np.exp(predictors[0]) / self.shape))


@dataclass(frozen=True)
class Huber(_OnePredictor):
    """Numbers around eta, some of them far off: residuals beyond `threshold` count as if they were there.

    Simulated noise is Student's t with `freedom` degrees of freedom.

    Examples
    --------
    >>> gs.applications.Huber(threshold=2.0).threshold
    2.0
    """

    threshold: float = 1.345
    freedom: float = 2.5

    name: ClassVar[str] = "huber"
    labels: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        checks.number("threshold", self.threshold, above=0)
        checks.number("freedom", self.freedom, above=0)

    def mean(self, predictors: Floats) -> Floats:
        return predictors

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return np.clip(eta - y, -self.threshold, self.threshold)

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        return (np.abs(eta - y) < self.threshold).astype(float)

    def outside(self, y: Floats) -> Booleans:
        return np.zeros(y.shape, dtype=bool)

    def start(self, y: Floats, seen: Floats) -> Floats:
        """Least squares, but for outliers: these would lead to an estimate with all other residuals beyond the
        threshold, where nothing is known."""
        middle, count = _median(seen)
        typical, _ = _median(np.abs(seen - middle))
        reach = np.where((count >= 8) & (typical > 0), 10 * typical, np.inf)
        return np.clip(y, np.nan_to_num(middle) - reach, np.nan_to_num(middle) + reach)[None]

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return np.asarray(predictors[0] + rng.standard_t(self.freedom, predictors.shape[1:]))


@dataclass(frozen=True)
class _Own(_OnePredictor):
    """See `Family.own`."""

    by_derivative: Derivative
    by_curvature: Derivative
    examples: tuple[float, ...]
    name: str  # type: ignore[misc]
    by_draw: Callable[[np.random.Generator, Floats], Floats] | None = field(repr=False)

    labels: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        if not callable(self.by_derivative) or not callable(self.by_curvature):
            raise InvalidInput(
                "a family is two functions of predictors and labels: the derivative and the curvature of the loss"
            )
        examples = checks.array("labels", self.examples, (None,))
        eta, y = (a.ravel() for a in np.meshgrid(_PREDICTORS, examples))
        slope, bend = self.derivative(eta, y), self.curvature(eta, y)
        for what, found in (("derivative", slope), ("curvature", bend)):
            if found.shape != eta.shape or not np.all(np.isfinite(found)):
                raise InvalidInput(
                    f"the {what} of the family {self.name} must give one finite number for each predictor and label, "
                    f"got shape {found.shape} for {eta.shape}, {int(np.sum(~np.isfinite(found)))} of them not finite"
                )
        step = 1e-5
        measured = (self.derivative(eta + step, y) - self.derivative(eta - step, y)) / (2 * step)
        off = np.abs(measured - bend) > 1e-4 * (1 + np.abs(bend))
        if np.any(off):
            k = int(np.argmax(off))
            raise InvalidInput(
                f"the curvature of the family {self.name} must be the derivative of its derivative, but at the "
                f"predictor {eta[k]:.3g} and the label {y[k]:g} it is {bend[k]:.4g}, and the derivative changes by "
                f"{measured[k]:.4g}; check the two functions, or give labels that they are made for"
            )
        if np.any(bend < 0):
            k = int(np.argmin(bend))
            raise InvalidInput(
                f"the loss of the family {self.name} must be convex, but its curvature is {bend[k]:.4g} at the "
                f"predictor {eta[k]:.3g} and the label {y[k]:g}"
            )

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return np.asarray(self.by_derivative(eta, y), dtype=float)

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        return np.asarray(self.by_curvature(eta, y), dtype=float)

    def outside(self, y: Floats) -> Booleans:
        return np.zeros(y.shape, dtype=bool)

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return super().draw(rng, predictors) if self.by_draw is None else self.by_draw(rng, predictors[0])


FAMILIES: dict[str, Callable[[], Family]] = {
    "logistic": Logistic,
    "softmax": lambda: Softmax(3),
    "poisson": Poisson,
    "gamma": Gamma,
    "huber": Huber,
}
"""Families by name, with their usual parameters."""


def family_of(family: Family | str) -> Family:
    """A family, or the one of this name."""
    if isinstance(family, Family):
        return family
    return FAMILIES[checks.choice("family", family, FAMILIES)]()


def curvature_of(x: Floats, bends: Floats) -> Floats:
    """(p, p) the sum over rows of l'' x x', from (n, width) and (m, m, n)."""
    m, width = len(bends), x.shape[1]
    found = np.empty((m, width, m, width))
    for a in range(m):
        for b in range(a + 1):
            found[a, :, b, :] = found[b, :, a, :] = (x.T * bends[a, b]) @ x
    return found.reshape(m * width, m * width)


def centering(curvature: Floats, outputs: int) -> Floats:
    """(..., p, p) theta for each theta of centered covariates, if the last of each predictor's is an intercept.

    Covariates that are all far from zero look alike beside a constant: what is known of them shows around their mean.
    """
    width = curvature.shape[-1] // outputs
    change = np.zeros(curvature.shape) + np.eye(curvature.shape[-1])
    blocks = curvature.reshape(*curvature.shape[:-2], outputs, width, outputs, width)
    last = np.einsum("...aia->...i", blocks[..., -1])  # the sums of l'' x and of l''
    means = last[..., :-1] / np.where(last[..., -1:] > 0, last[..., -1:], np.inf)
    for k in range(outputs):
        change[..., (k + 1) * width - 1, k * width : (k + 1) * width - 1] = -means
    return change
