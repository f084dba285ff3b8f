"""Families: a convex loss of a label and a linear predictor, given by its two derivatives.

The loss of a sample with covariates x and label y is l(eta, y) at the predictor eta = x'theta. All that estimation
needs is the derivative l' and the curvature l'' in eta. A family with several predictors, softmax, has one column
of parameters for each, and its derivative is a vector and its curvature a matrix.

    family                 labels             predictor               loss
    logistic               0, 1               log odds                log(1 + exp(eta)) - y eta
    softmax                0 .. K-1           log odds against 0      log(1 + sum exp(eta)) - eta_y
    Poisson                0, 1, 2, ...       log of the rate         exp(eta) - y eta
    gamma                  positive           log of the mean         eta + y exp(-eta)
    negative binomial      0, 1, 2, ...       log of the mean         (y + 1/a) log(1 + a exp(eta)) - y eta
    least squares          any number         the mean                (y - eta)^2 / 2
    linear, Huber loss     any number         the location            r = y - eta: r^2/2, from |r| = k on linear

A family of your own is two functions (`Family.own`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Booleans, Floats
from gossamer.errors import InvalidInput, Unsupported

Derivative = Callable[[Floats, Floats], Floats]
"""A function of predictors and labels, arrays of one shape, that returns one number for each."""

Limits = tuple[Floats | float, Floats | float]
"""The smallest and the largest predictor of each label, or of all."""

CERTAIN = 20.0
"""Largest distance between the predictor at which a row is linearized and the one that its label suggests; odds or
rates of exp(-20) are practically zero."""

_PREDICTORS = np.linspace(-3.1, 3.3, 37)
"""The predictors at which the two functions of a family are compared."""


class DispersionTerms(NamedTuple):
    """Derivatives of each row's negative log-likelihood in the dispersion a: d/da, d2/da2 and d2/(da deta)."""

    slope: Floats
    curvature: Floats
    cross: Floats


class Family(ABC):
    """A convex loss of a label and of `outputs` linear predictors, by its derivatives.

    Predictors have one more axis in front than labels, of length `outputs`.

    See Also
    --------
    Logistic : Two classes.
    Poisson : Counts.
    gossamer.LikelihoodEstimation : Fits a model with one of these losses.

    Examples
    --------
    >>> family: gs.applications.Family = gs.applications.Poisson()
    >>> family.outputs
    1
    """

    name: ClassVar[str]
    labels: ClassVar[str]
    """A description of its labels."""

    separates: ClassVar[bool] = False
    """Whether labels can be separable, so that the loss has no minimum."""

    reach: ClassVar[float] = 0.0
    """A change of a predictor that changes the curvature by at most a factor e; 0 if unknown; infinite if every full
    step by `newton_curvatures` lowers the loss."""

    scale_terms: ClassVar[int] = 0
    """Number of averages from which a scale is estimated, for families that have one."""

    density: ClassVar[bool] = False
    """Whether the loss comes from a density, so that deviance, AIC and model-based standard errors exist."""

    dispersed: ClassVar[bool] = False
    """Whether the variance has a factor, the dispersion, that is estimated from the residuals."""

    canonical: ClassVar[bool] = True
    """Whether the expected curvature is the observed one."""

    student: ClassVar[bool] = False
    """Whether estimates in units of their standard errors follow Student's t distribution."""

    estimates_dispersion: ClassVar[bool] = False
    """Whether the scale is a dispersion that maximizes the likelihood together with the coefficients."""

    jumps: ClassVar[bool] = False
    """Whether curvatures jump, so that the linearization error may miss changes: rows move at each look."""

    @property
    def class_count(self) -> int:
        """Number of classes; 0 if labels are numbers."""
        return 0

    @property
    def categorical(self) -> bool:
        """Whether labels are classes, which have probabilities."""
        return self.class_count > 0

    @property
    def outputs(self) -> int:
        """Number of linear predictors of a sample."""
        return 1

    @property
    def sharpness(self) -> float:
        """Logarithm of the largest factor by which the curvature changes when a predictor changes by 1.

        It is doubled for several predictors, which may change in opposite directions.
        """
        return 2.0 if self.outputs > 1 else 1.0

    @property
    def symmetric_predictors(self) -> bool:
        """Whether adding a constant to all predictors leaves the loss unchanged."""
        return False

    def parameter_names(
        self, covariates: Sequence[str], classes: Sequence[object] | None = None
    ) -> list[str]:
        """Return the names of the parameters of these covariates; with several predictors, name[class], with the label
        or the number of the class."""
        return list(covariates)

    def against_first(self) -> Family:
        """Return the same family with the smallest number of predictors that determines it."""
        return self

    @abstractmethod
    def slopes(self, predictors: Floats, y: Floats) -> Floats:
        """Return (m, ...) the derivative of the loss in each predictor, from (m, ...) and (...)."""

    @abstractmethod
    def curvatures(self, predictors: Floats, y: Floats) -> Floats:
        """Return (m, m, ...) the second derivatives, from (m, ...) and (...)."""

    def newton_curvatures(self, predictors: Floats, y: Floats) -> Floats:
        """Return (m, m, ...) the curvatures of Newton's step for stored rows."""
        return self.curvatures(predictors, y)

    def careful_curvatures(self, predictors: Floats, y: Floats, careful: Booleans | bool) -> Floats:
        """Return (m, m, ...) the curvatures of rows in a stream; those of Newton's step where `careful` (...)."""
        return self.curvatures(predictors, y)

    def bend(self, predictors: Floats, y: Floats, changes: Floats) -> Floats:
        """Return (m, n) `newton_curvatures` times changes of the predictors, (m, n)."""
        return np.asarray(np.einsum("abn,bn->an", self.newton_curvatures(predictors, y), changes))

    def constant(self, mean: float) -> Floats:
        """Return (m,) initial predictors for labels with this mean."""
        return np.zeros(self.outputs)

    def at_scale(self, scale: float) -> Family:
        """Return the loss of residuals in units of a scale."""
        return self

    def first_scale(self, mean_square: float) -> float:
        """Return the initial scale for labels with this mean square."""
        return 1.0

    def scale_parts(self, predictors: Floats, y: Floats) -> Floats:
        """Return (scale_terms, n) the numbers whose averages over rows determine a scale."""
        return np.empty((0, len(y)))

    def next_scale(self, scale: float, means: Floats) -> float:
        """Return a better scale, from the averages of `scale_parts`."""
        return scale

    def at_limit(self, scale: Floats) -> bool:
        """Return whether one of these estimated scales is at its lower limit."""
        return False

    def dispersion_terms(self, predictors: Floats, y: Floats) -> DispersionTerms:
        """Return the derivatives of the likelihood in the dispersion, for families that estimate it."""
        raise Unsupported(f"the family {self.name} does not estimate its dispersion from the likelihood")

    def penalty_factor(self, scale: float) -> float:
        """Return the factor of the penalty at a scale."""
        return 1.0

    @abstractmethod
    def outside(self, y: Floats) -> Booleans:
        """Return which of these finite labels are invalid for the family."""

    def start(self, y: Floats, seen: Floats) -> Floats:
        """Return (m, ...) the predictors at which samples are linearized before there is an estimate.

        They follow from the samples' labels and from the labels `seen` by the agent, along the first axis, with NaN for
        missing ones.
        """
        return np.zeros((self.outputs, *y.shape))

    def plausible(self, y: Floats, samples: int) -> Limits:
        """Return the interval of predictors in which a sample with this label is linearized after `samples` samples.

        Before the network has mixed, estimates are unreliable, and if the curvature grows with the predictor a few
        samples would permanently outweigh all others.
        """
        return -np.inf, np.inf

    def limits(self, y: Floats) -> Limits:
        """Return the interval of predictors in which rows with these labels are linearized, if one is `plausible`.

        Beyond it the loss is practically linear, so a row would need many steps to return.
        """
        if type(self).plausible is Family.plausible:
            return -np.inf, np.inf
        start = self.start(y, y)
        return start - CERTAIN, start + CERTAIN

    def reach_of(self, low: float, high: float) -> tuple[float, float]:
        """Return the interval of predictors in which a fleet with labels from `low` to `high` linearizes rows.

        Their mean labels are not far outside this range. This bounds what a row can contribute.
        """
        return 2 * low - high, 2 * high - low

    def recoded(self, y: Floats) -> tuple[Floats, tuple[int, ...] | None]:
        """Return the labels as the family numbers them, and the names of the classes (None if these are numbers)."""
        return y, None

    def mean(self, predictors: Floats) -> Floats:
        """Return (m, ...) the mean label at these predictors, or the probability of each class except the first."""
        raise Unsupported(f"the family {self.name} does not say what its predictors mean")

    def losses(self, predictors: Floats, y: Floats) -> Floats:
        """Return (...) the loss of each label."""
        raise Unsupported(f"the family {self.name} has derivatives alone, and no loss to report")

    def least_losses(self, y: Floats) -> Floats:
        """Return (...) the smallest possible loss of each label, which the deviance subtracts."""
        return np.zeros(y.shape)

    def bases(self, y: Floats) -> Floats:
        """Return (...) the part of the negative log-likelihood that the loss leaves out; see `log_likelihood`."""
        return np.zeros(y.shape)

    def log_likelihood(
        self, rows: float, loss: Floats | float, bases: Floats | float, dispersion: float = 1.0
    ) -> Floats | float:
        """Return the log-likelihood of labels from their number and the sums of their losses and bases."""
        return -loss - bases

    def figures(self, predictors: Floats, y: Floats) -> Floats:
        """Return (4, ...) deviance, Pearson's statistic, loss and base of each label; 0 without a density."""
        if not self.density:
            return np.zeros((4, *y.shape))
        loss = self.losses(predictors, y)
        return np.stack([2 * (loss - self.least_losses(y)), self.pearson(predictors, y), loss, self.bases(y)])

    def indicators(self, y: Floats) -> Floats:
        """Return (m, ...) numbers whose means determine a model of only an intercept: labels, or class indicators."""
        return y[None]

    def null_loss(self, mean: Floats) -> float:
        """Return the mean loss of a model of only an intercept, from the means (m,) of `indicators`."""
        return float(self.losses(self.constant(float(mean[0]))[:, None], mean)[0])

    def likelihood_dispersion(self, dispersion: float, mean_deviance: float) -> float:
        """Return the dispersion at which the likelihood is reported."""
        return dispersion

    def information(self, predictors: Floats, y: Floats) -> Floats:
        """Return (m, m, ...) the expected second derivatives of the loss."""
        return self.curvatures(predictors, y)

    def pearson(self, predictors: Floats, y: Floats) -> Floats:
        """Return (...) squared residuals in units of the variance at dispersion 1."""
        raise Unsupported(f"the family {self.name} has no density, so there is no variance of its labels")

    def probabilities(self, predictors: Floats) -> Floats:
        """Return (classes, ...) the probability of each class."""
        raise Unsupported(f"the labels of the family {self.name} are {self.labels}, which have no classes")

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        """Return (...) random labels at these predictors, (m, ...)."""
        raise Unsupported(
            f"the family {self.name} cannot draw labels, so there is nothing to simulate; give it `draw`, "
            "or hand in your own samples"
        )

    def check_labels(self, y: ArrayLike, whose: str = "") -> Floats:
        """Return finite labels of this family, or name the first that is not one."""
        labels = checks.array(f"the labels{whose}", y)
        wrong = self.outside(labels)
        if np.any(wrong):
            raise InvalidInput(
                f"the labels{whose} must be {self.labels} for the family {self.name}, but {int(np.sum(wrong))} of "
                f"{labels.size} are not, the first of them {labels[wrong].flat[0]:g}; choose another family, or encode "
                "the labels again"
            )
        return labels

    @staticmethod
    def own(
        derivative: Derivative,
        curvature: Derivative,
        *,
        labels: Sequence[float] = (0.5, 1.0, 2.0),
        name: str = "own",
        draw: Callable[[np.random.Generator, Floats], Floats] | None = None,
    ) -> Family:
        """Return a family of your own: the derivative and the curvature of a convex loss in the linear predictor.

        Parameters
        ----------
        derivative, curvature
            Functions of predictors and labels, arrays of one shape.
        labels
            Some labels to compare the two functions at, for predictors from -3 to 3 and around the labels.
        name
            Its name, for error messages and tables.
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
        return OwnFamily(derivative, curvature, tuple(labels), name, draw)


class OnePredictor(Family):
    """A family of one predictor: `derivative` and `curvature` take it without the axis in front."""

    @abstractmethod
    def derivative(self, eta: Floats, y: Floats) -> Floats: ...

    @abstractmethod
    def curvature(self, eta: Floats, y: Floats) -> Floats: ...

    def slopes(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(self.derivative(predictors[0], y))[None]

    def curvatures(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(self.curvature(predictors[0], y))[None, None]

    def variance(self, mean: Floats) -> Floats:
        """Return the variance of labels with this mean at dispersion 1."""
        raise Unsupported(f"the family {self.name} has no density, so there is no variance of its labels")

    def pearson(self, predictors: Floats, y: Floats) -> Floats:
        mean = self.mean(predictors)[0]
        return np.asarray((y - mean) ** 2 / self.variance(mean))


class LogMean(OnePredictor):
    """A family whose predictor is the logarithm of the mean label."""

    reach: ClassVar[float] = 1.0
    density: ClassVar[bool] = True

    def mean(self, predictors: Floats) -> Floats:
        return np.asarray(np.exp(predictors))

    def constant(self, mean: float) -> Floats:
        return np.array([np.log(mean) if mean > 0 else 0.0])


class Counts(LogMean):
    """A family whose labels are counts."""

    labels: ClassVar[str] = "whole numbers of at least 0"

    def outside(self, y: Floats) -> Booleans:
        return np.asarray((y < 0) | (y != np.floor(y)))

    def start(self, y: Floats, seen: Floats) -> Floats:
        return np.log(y + 0.5)[None]

    def reach_of(self, low: float, high: float) -> tuple[float, float]:
        return -CERTAIN, float(np.log(max(high, 0.0) + 0.5)) + 1


@dataclass(frozen=True)
class OwnFamily(OnePredictor):
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
        for what, values in (("derivative", slope), ("curvature", bend)):
            if values.shape != eta.shape or not np.all(np.isfinite(values)):
                raise InvalidInput(
                    f"the {what} of the family {self.name} must give one finite number for each predictor and label, "
                    f"got shape {values.shape} for {eta.shape}, {int(np.sum(~np.isfinite(values)))} of them not finite"
                )
        self._compare(eta, y, 1e-5)
        unit = float(np.abs(examples).max(initial=0.0))
        if unit > 0:  # predictors may have the unit of the labels
            self._compare(unit * eta + y, y, 1e-5 * unit)

    def _compare(self, eta: Floats, y: Floats, step: float) -> None:
        """Compare the curvature with differences of the derivative, and its sign with that of convex losses.

        Nothing is compared where a value is not finite.
        """
        with np.errstate(all="ignore"):
            slope, bend = self.derivative(eta, y), self.curvature(eta, y)
            ends = self.derivative(eta + step, y), self.derivative(eta - step, y)
            measured = (ends[0] - ends[1]) / (2 * step)
            rounding = 1e-9 * (np.abs(ends[0]) + np.abs(ends[1]) + np.abs(slope)) / step * 1e-5
            off = np.abs(measured - bend) > 1e-4 * np.maximum(np.abs(measured), np.abs(bend)) + rounding
        off &= np.isfinite(measured) & np.isfinite(bend)
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
