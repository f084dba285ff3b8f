"""Gamma labels, least squares and the negative binomial: families whose spread is estimated with the coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossamer import checks
from gossamer.arrays import Booleans, Floats
from gossamer.errors import Unsupported
from gossamer.families.family import CERTAIN, Counts, DispersionTerms, Limits, LogMean, OnePredictor
from gossamer.families.special import digamma, log_gamma, trigamma


@dataclass(frozen=True)
class Gamma(LogMean):
    r"""Positive labels of mean :math:`e^\eta`, gamma distributed with a shape that estimation need not know.

    Parameters
    ----------
    shape : float
        Shape of simulated labels, a positive number; their variance is the squared mean divided by it.

    See Also
    --------
    Poisson : Counts.
    LeastSquares : Labels of any sign.
    gossamer.LikelihoodEstimation : Fits a model with this loss.

    Examples
    --------
    >>> gs.applications.Gamma(shape=3.0).outputs
    1
    """

    shape: float = 2.0

    name: ClassVar[str] = "gamma"
    canonical: ClassVar[bool] = False
    dispersed: ClassVar[bool] = True
    labels: ClassVar[str] = "positive"

    def __post_init__(self) -> None:
        checks.number("shape", self.shape, above=0)

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return 1 - y * np.exp(-eta)

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        return y * np.exp(-eta)

    def losses(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(predictors[0] + y * np.exp(-predictors[0]))

    def least_losses(self, y: Floats) -> Floats:
        return np.asarray(np.log(y) + 1)

    def bases(self, y: Floats) -> Floats:
        return np.asarray(np.log(y))

    def log_likelihood(
        self, rows: float, loss: Floats | float, bases: Floats | float, dispersion: float = 1.0
    ) -> Floats | float:
        shape = 1 / dispersion
        constant = shape * np.log(shape) - log_gamma(np.array(shape))
        return np.asarray(rows * constant + (shape - 1) * bases - shape * loss)[()]

    def variance(self, mean: Floats) -> Floats:
        return mean**2

    def information(self, predictors: Floats, y: Floats) -> Floats:
        return np.ones((1, *predictors.shape))

    def outside(self, y: Floats) -> Booleans:
        return np.asarray(y <= 0)

    def start(self, y: Floats, seen: Floats) -> Floats:
        return np.log(y)[None]

    def plausible(self, y: Floats, samples: int) -> Limits:
        return np.log(y) - 2, np.inf  # seven times the mean is rare: 6 in 10,000 if labels are exponential

    def reach_of(self, low: float, high: float) -> tuple[float, float]:
        least = np.log(low) - 1 if low > 0 else -np.inf  # labels near zero have no largest curvature
        return float(least), float(np.log(max(high, 1e-300))) + CERTAIN

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return np.asarray(rng.gamma(self.shape, np.exp(predictors[0]) / self.shape))


@dataclass(frozen=True)
class LeastSquares(OnePredictor):
    r"""Numbers around the predictor :math:`\eta`: linear regression.

    Simulated noise is Gaussian with standard deviation `spread`, which estimation need not know.

    Parameters
    ----------
    spread : float
        Standard deviation of simulated noise, in the unit of the labels.

    See Also
    --------
    Huber : The same with protection against outliers.
    gossamer.LikelihoodEstimation : Fits a model with this loss.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> rows = gs.LikelihoodEstimation.from_data(x, x[:, 0] - x[:, 1], "cycle:5", family="least-squares")
    >>> rows.fit().estimates[3].round(6).tolist()
    [1.0, -1.0, 0.0]
    """

    spread: float = 1.0

    name: ClassVar[str] = "least-squares"
    student: ClassVar[bool] = True
    reach: ClassVar[float] = np.inf
    labels: ClassVar[str] = "numbers"
    density: ClassVar[bool] = True
    dispersed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.number("spread", self.spread, above=0)

    def mean(self, predictors: Floats) -> Floats:
        return predictors

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return eta - y

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        return np.ones(np.broadcast_shapes(eta.shape, y.shape))

    def constant(self, mean: float) -> Floats:
        return np.array([mean])

    def losses(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray((y - predictors[0]) ** 2 / 2)

    def log_likelihood(
        self, rows: float, loss: Floats | float, bases: Floats | float, dispersion: float = 1.0
    ) -> Floats | float:
        return np.asarray(-loss / dispersion - rows * np.log(2 * np.pi * dispersion) / 2)[()]

    def likelihood_dispersion(self, dispersion: float, mean_deviance: float) -> float:
        """Report the likelihood at its own maximum, as is usual for linear regression."""
        return mean_deviance

    def variance(self, mean: Floats) -> Floats:
        return np.ones_like(mean)

    def outside(self, y: Floats) -> Booleans:
        return np.zeros(y.shape, dtype=bool)

    def start(self, y: Floats, seen: Floats) -> Floats:
        return y[None]

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return np.asarray(rng.normal(predictors[0], self.spread))


_SMALLEST_DISPERSION = 1e-5
"""Lower limit of the dispersion; below it, counts have a Poisson distribution."""


@dataclass(frozen=True)
class NegativeBinomial(Counts):
    r"""Counts of mean :math:`m = e^\eta` and variance :math:`m + a m^2`.

    `dispersion` is a; None estimates it by maximum likelihood together with the coefficients, for stored data.

    Parameters
    ----------
    dispersion : float, optional
        The dispersion a, a positive number; by default it is estimated.

    See Also
    --------
    Poisson : Counts whose variance equals their mean.
    gossamer.LikelihoodEstimation : Fits a model with this loss.

    Examples
    --------
    >>> gs.applications.NegativeBinomial(dispersion=0.5).outputs
    1
    """

    dispersion: float | None = None

    name: ClassVar[str] = "negative-binomial"
    canonical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.dispersion is not None:
            checks.number("dispersion", self.dispersion, above=0)

    @property
    def estimates_dispersion(self) -> bool:  # type: ignore[override]
        return self.dispersion is None

    @property
    def scale_terms(self) -> int:  # type: ignore[override]
        return 2 if self.dispersion is None else 0

    def at_scale(self, scale: float) -> NegativeBinomial:
        return NegativeBinomial(scale) if self.dispersion is None else self

    @property
    def _a(self) -> float:
        if self.dispersion is None:
            raise Unsupported(
                "streams and gradient methods need the dispersion of a negative binomial, for example "
                "NegativeBinomial(dispersion=0.5); fit() estimates it from stored data"
            )
        return self.dispersion

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        m = np.exp(eta)
        return (m - y) / (1 + self._a * m)

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        m = np.exp(eta)
        return m * (1 + self._a * y) / (1 + self._a * m) ** 2

    def losses(self, predictors: Floats, y: Floats) -> Floats:
        return self._loss(np.exp(predictors[0]), predictors[0], y)

    def least_losses(self, y: Floats) -> Floats:
        return self._loss(y, np.log(np.where(y > 0, y, 1.0)), y)

    def _loss(self, m: Floats, eta: Floats, y: Floats) -> Floats:
        return np.asarray((y + 1 / self._a) * np.log1p(self._a * m) - y * eta)

    def bases(self, y: Floats) -> Floats:
        r = 1 / self._a
        return np.asarray(log_gamma(np.array(r)) + log_gamma(y + 1) - log_gamma(y + r) - y * np.log(self._a))

    def variance(self, mean: Floats) -> Floats:
        return mean + self._a * mean**2

    def information(self, predictors: Floats, y: Floats) -> Floats:
        m = np.exp(predictors)
        return np.asarray(m / (1 + self._a * m))[None]

    def dispersion_terms(self, predictors: Floats, y: Floats) -> DispersionTerms:
        a, m = self._a, np.exp(predictors[0])
        r = np.array(1 / a)
        grown = digamma(y + r) - digamma(r) - np.log1p(a * m)
        slope = r**2 * grown - (y - m) / (a + a**2 * m)
        bend = -2 * r**3 * grown - r**4 * (trigamma(y + r) - trigamma(r)) - r**2 * m / (1 + a * m)
        bend = bend + (y - m) * (1 + 2 * a * m) / (a + a**2 * m) ** 2
        return DispersionTerms(slope, bend, (y - m) * m / (1 + a * m) ** 2)

    def scale_parts(self, predictors: Floats, y: Floats) -> Floats:
        """Return the curvature and pseudo-response of the negative log-likelihood in the logarithm of the dispersion.

        As for coefficients, they lead all agents to the same number, whatever their current values.
        """
        terms = self.dispersion_terms(predictors, y)
        slope = self._a * terms.slope
        bend = self._a**2 * terms.curvature + slope
        return np.stack([bend, bend * np.log(self._a) - slope])

    def next_scale(self, scale: float, means: Floats) -> float:
        """Return the scale after Newton's step, or after a short step uphill where the likelihood is not concave."""
        bend, response = means
        logarithm = np.log(scale)
        step = response / bend - logarithm if bend > 0 else np.sign(response - bend * logarithm)
        return float(max(scale * np.exp(np.clip(step, -1.0, 1.0)), _SMALLEST_DISPERSION))

    def at_limit(self, scale: Floats) -> bool:
        return self.estimates_dispersion and bool(scale.min() <= 1.001 * _SMALLEST_DISPERSION)

    def plausible(self, y: Floats, samples: int) -> Limits:
        spread = np.sqrt(y + 1 + self._a * (y + 1) ** 2)
        return -np.inf, np.log(y + 4 * spread + 4)

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        m = np.exp(predictors[0])
        return np.asarray(rng.poisson(rng.gamma(1 / self._a, self._a * m)), dtype=float)
