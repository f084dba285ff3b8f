"""Counts (Poisson), and numbers with outliers (Huber)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossamer import checks
from gossamer.arrays import Booleans, Floats
from gossamer.families.family import Counts, Limits, OnePredictor
from gossamer.families.special import log_gamma


def _median(values: Floats) -> tuple[Floats, Floats]:
    """Return the lower median along the first axis, and the number of values; NaN are left out."""
    count = np.sum(~np.isnan(values), axis=0)
    middle = np.maximum(count - 1, 0) // 2
    return np.take_along_axis(np.sort(values, axis=0), middle[None], axis=0)[0], count


@dataclass(frozen=True)
class Poisson(Counts):
    r"""Counts whose rate is :math:`e^\eta` with the predictor :math:`\eta`.

    See Also
    --------
    NegativeBinomial : Counts that vary more.
    Gamma : Positive labels.
    gossamer.LikelihoodEstimation : Fits a model with this loss.

    Examples
    --------
    >>> team = gs.LikelihoodEstimation.random(gs.Network.cycle(6), gs.applications.Poisson(), dimension=2)
    >>> team.simulate("anytime-sda", 300, trials=2).over_limit < 10
    True
    """

    name: ClassVar[str] = "poisson"

    def derivative(self, eta: Floats, y: Floats) -> Floats:
        return np.exp(eta) - y

    def curvature(self, eta: Floats, y: Floats) -> Floats:
        return np.exp(eta)

    def losses(self, predictors: Floats, y: Floats) -> Floats:
        return np.asarray(np.exp(predictors[0]) - y * predictors[0])

    def least_losses(self, y: Floats) -> Floats:
        return np.asarray(y - y * np.log(np.where(y > 0, y, 1.0)))

    def bases(self, y: Floats) -> Floats:
        return log_gamma(y + 1)

    def variance(self, mean: Floats) -> Floats:
        return mean

    def plausible(self, y: Floats, samples: int) -> Limits:
        # With a larger rate, counts as small as y are rare: 3 in 10,000 for y = 0.
        return -np.inf, np.log(y + 4 * np.sqrt(y + 1) + 4)

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return np.asarray(rng.poisson(np.exp(predictors[0])), dtype=float)


@dataclass(frozen=True)
class Huber(OnePredictor):
    r"""Numbers around :math:`\eta` with outliers: the loss of residuals beyond `threshold` grows linearly.

    Simulated noise is Student's t with `freedom` degrees of freedom.

    Parameters
    ----------
    threshold : float
        Residual beyond which a row counts less, in the unit of the labels.
    freedom : float
        Degrees of freedom of simulated noise, above 0; the fewer there are, the larger are the outliers.

    See Also
    --------
    ScaledHuber : With a threshold in units of the estimated spread.
    LeastSquares : Without protection against outliers.

    Examples
    --------
    >>> gs.applications.Huber(threshold=2.0).threshold
    2.0
    """

    threshold: float = 1.345
    freedom: float = 2.5

    name: ClassVar[str] = "huber"
    reach: ClassVar[float] = np.inf
    jumps: ClassVar[bool] = True
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

    def newton_curvatures(self, predictors: Floats, y: Floats) -> Floats:
        """Return the curvature of the parabola that touches the loss from above."""
        residuals = np.abs(predictors - y)
        within = residuals <= self.threshold
        return np.where(within, 1.0, self.threshold / np.where(within, 1.0, residuals))[None]

    def careful_curvatures(self, predictors: Floats, y: Floats, careful: Booleans | bool) -> Floats:
        return np.where(careful, self.newton_curvatures(predictors, y), self.curvatures(predictors, y))

    @property
    def sharpness(self) -> float:
        return 1.0 / self.threshold

    def losses(self, predictors: Floats, y: Floats) -> Floats:
        r = np.abs(y - predictors[0])
        return np.asarray(np.where(r < self.threshold, r**2 / 2, self.threshold * (r - self.threshold / 2)))

    def outside(self, y: Floats) -> Booleans:
        return np.zeros(y.shape, dtype=bool)

    def start(self, y: Floats, seen: Floats) -> Floats:
        """Return the label itself, except for outliers, which could lead to an estimate with all other residuals beyond
        the threshold, where the curvature vanishes."""
        middle, count = _median(seen)
        typical, _ = _median(np.abs(seen - middle))
        reach = np.where((count >= 8) & (typical > 0), 10 * typical, np.inf)
        return np.clip(y, np.nan_to_num(middle) - reach, np.nan_to_num(middle) + reach)[None]

    def draw(self, rng: np.random.Generator, predictors: Floats) -> Floats:
        return np.asarray(predictors[0] + rng.standard_t(self.freedom, predictors.shape[1:]))
