"""The Huber loss in units of a scale that is estimated as well."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gossamer.arrays import Floats
from gossamer.families import Huber


@dataclass(frozen=True)
class ScaledHuber(Huber):
    r"""The Huber loss in units of a scale that is estimated together with the coefficients, for stored rows.

    The loss of a row is :math:`s\,(1/2 + h((y - \eta)/s))`, with h the Huber loss of `threshold` 1.35 and s the scale,
    so the minimum is that of scikit-learn's `HuberRegressor`.

    Parameters
    ----------
    threshold : float
        Residual beyond which a row counts less, in units of the estimated scale.
    freedom : float
        Degrees of freedom of simulated noise, above 0; the fewer there are, the larger are the outliers.

    See Also
    --------
    Huber : With a fixed threshold in units of the labels.
    LeastSquares : Without protection against outliers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(200, 2)), rng.standard_t(2, 200)
    >>> rows = gs.LikelihoodEstimation.from_data(
    ...     x, x @ [1.0, -2.0] + noise, gs.Network.cycle(5), family=gs.applications.ScaledHuber()
    ... )
    >>> rows.fit("newton", 1000).disagreement < 1e-3
    True
    """

    threshold: float = 1.35
    name: ClassVar[str] = "huber with scale"
    scale_terms: ClassVar[int] = 2

    def at_scale(self, scale: float) -> ScaledHuber:
        return replace(self, threshold=self.threshold * scale)

    def first_scale(self, mean_square: float) -> float:
        return float(np.sqrt(max(mean_square, 1e-24)))

    def penalty_factor(self, scale: float) -> float:
        return scale

    def scale_parts(self, predictors: Floats, y: Floats) -> Floats:
        """Return the squared residuals within the threshold, and which residuals are beyond it."""
        residuals = np.abs(predictors[0] - y)
        near = residuals <= self.threshold
        return np.stack([np.where(near, residuals**2, 0.0), ~near])

    def next_scale(self, scale: float, means: Floats) -> float:
        r"""Return the scale s at which the mean of :math:`\min(r^2, (cs)^2)` is :math:`s^2`.

        Here r is a residual and c the threshold. Assuming that the same residuals stay beyond the threshold is Newton's
        step for :math:`1/s^2`; if too many are beyond it, :math:`s^2` becomes that mean.
        """
        near, beyond = means
        left = 1 - self.threshold**2 * beyond
        square = near / left if left > 0 and near > 0 else near + (self.threshold * scale) ** 2 * beyond
        return float(np.sqrt(max(square, 0.0)))
