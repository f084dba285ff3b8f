"""Sums over rows that a network averages to fit a model, and how to read the averages.

Each row (x, y) is linearized at its own predictor eta: near it, the loss is approximated by the parabola with slope l'
and curvature l'' (`families/`). Over the rows of an agent, with weights w (1 unless old rows are forgotten), the sums

    n = sum of w          A = sum of w l'' x x'       c = sum of w l'' eta x      g = sum of w l' x
    v = sum of w l''      s = sum of w l'' eta^2      J = sum of w^2 l'^2 x x'
    q_j = sum of w^4 (a_j'x l')^4                     d_j = sum of w^2 (a_j'x)^4 l''^2

are averaged over the network (with several predictors, Kronecker products of these), together with deviances, Pearson's
statistics, losses and labels if a summary is needed. An agent that holds the averages solves
(A + n ridge) theta = c - g, which is Newton's step for the rows of all agents. Averaging is linear and treats all
components alike, so a row has the same weight in each of them, and the averages also tell how far the rows are from the
points where they were linearized:

    Q = theta'A theta - 2 theta'c + s = sum of w l'' (x'theta - eta)^2.

If the curvature changes by at most a factor e when a predictor changes by 1, the error of the score at theta is at most
1/2 sum of l'' (x'theta - eta)^2 |x|, to second order. For covariates with the kurtosis of a normal distribution, this
changes theta by at most sqrt(3)/2 Q/sqrt(v) in the metric of A. Measured in standard errors, it is the *linearization
error*. Whatever its cause (rows discarded before the estimate was good, agents that differ, a change of the
distribution), an agent can compute it from its averages; if it is large, the agent withholds its estimate and
linearizes its rows closer to it.

Rows whose predictor is still moving toward the estimate (see the last paragraph) may be where the loss is nearly
straight, where Q does not notice them. They contribute u = sum of w |l'(x'theta) - l'(eta)| |x'theta - eta|, at the
agent's own latest theta.

Standard errors are those of the sandwich A^{-1} J A^{-1}, with l' divided by one minus the row's leverage (HC3). For
parameter j, a_j is its row of the inverse curvature, and d_j and q_j give the effective number of rows that determine
it: by their curvatures, where at least `EFFECTIVE` rows are required, and by their squared scores, k = V^2/q_j with V
the sum of (a_j'x l')^2. Satterthwaite's degrees of freedom of V are at least 2k, and intervals use Student's t with 2k.

Predictors move in small steps, by at most `STEP` at once. Such a step lowers the loss of all rows, and a bad estimate
from before the network has mixed does little harm. For the Huber loss, whose curvature jumps, the curvature is replaced
by that of the parabola that touches the loss from above, until the linearization error is below `FAR`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gossamer.arrays import Booleans, Floats
from gossamer.families import Family
from gossamer.least_squares import centering, curvature_of, invert, pack, unpack

STEP = 1.5
"""Largest change of a predictor in one step."""

CLOSE = 1e-7
"""Linearization error, in standard errors, below which rows are not moved."""

FINE = 1e-5
"""Rows are also moved while theta is further than this from their reference, in standard errors, so that sums of
nonlinear functions of theta belong to the estimate."""

FAR = 1.0
"""Linearization error, in standard errors, above which the Huber loss is replaced by parabolas above it."""

SETTLED = 0.5
"""Largest distance of a published estimate from the last reference of its rows, in standard errors."""

PUBLISHED = 0.1
"""Largest linearization error, in standard errors, of a published estimate."""

ROWS = 20
"""Smallest number of rows per parameter: with fewer, the coverage of intervals is too low."""

EFFECTIVE = 15
"""Smallest effective number of rows that determine a parameter, by their curvatures; see `Judgement.effective`."""

FIRST = 4
"""Index of the first vector-valued sum."""

_MOST_LEVERAGE = 0.9
"""Largest leverage of a row that is used; larger ones are clipped."""

_LEAST = 1e-10
"""Smallest relative curvature of a direction that counts as known, for centered covariates of equal scale."""


class SumLayout(NamedTuple):
    """The order of the averaged sums in a vector: n, v, s, u, c, g, A; with `meat`, the number of contradicted labels,
    the sum of w^2, J, d and q; then the sums of a summary."""

    size: int
    intercepts: int = 0  #: number of intercepts in theta; each is the last entry of its predictor
    meat: bool = False
    #: number of entries of `summary`; 0 without a summary
    figures: int = 0
    expected: bool = (
        False  #: whether the expected curvature is summed, because it differs from the observed one
    )

    @property
    def packed(self) -> int:
        return self.size * (self.size + 1) // 2

    @property
    def curved(self) -> int:
        """Index of the first entry of the curvature."""
        return FIRST + 2 * self.size

    @property
    def plain(self) -> int:
        """Number of entries without the meat."""
        return self.curved + self.packed

    @property
    def components(self) -> int:
        """Number of entries of the vector."""
        return self.summarized + self.figures + (self.packed if self.expected else 0)

    @property
    def summarized(self) -> int:
        """Index of the first sum of a summary: discarded rows, figures, indicators, and the expected curvature."""
        return self.plain + (2 + self.packed + 2 * self.size if self.meat else 0)

    @property
    def spreads(self) -> int:
        """Index of the first entry of d, which q follows."""
        return self.plain + 2 + self.packed

    @property
    def powers(self) -> Floats:
        """(components,) the power of a row's weight in each entry."""
        column = np.arange(self.components)
        inner = np.where(column < self.spreads + self.size, 2.0, 4.0)
        return np.where((column <= self.plain) | (column >= self.summarized), 1.0, inner)

    def counts(self, held: Floats) -> Floats:
        return held[..., 0]

    def shifted(self, held: Floats) -> Floats:
        """Return (..., p) c, the curvature times the predictors of the rows."""
        return held[..., FIRST : FIRST + self.size]

    def slopes(self, held: Floats) -> Floats:
        """Return (..., p) g, the sum of the scores."""
        return held[..., FIRST + self.size : self.curved]

    def curvature(self, held: Floats) -> Floats:
        """Return (..., p, p) A."""
        return unpack(held[..., self.curved : self.plain], self.size)

    def contradictions(self, held: Floats) -> Floats:
        """Return (...) number of labels that the model considers less likely: those with a slope above 1/2."""
        return held[..., self.plain]

    def squared_weights(self, held: Floats) -> Floats:
        return held[..., self.plain + 1]

    def scores(self, held: Floats) -> Floats:
        """Return (..., p, p) J, the squared scores."""
        return unpack(held[..., self.plain + 2 : self.spreads], self.size)

    def summary(self, held: Floats) -> Floats:
        """Return (..., figures) the number of discarded rows, `Family.figures` and `Family.indicators`."""
        return held[..., self.summarized : self.summarized + self.figures]

    def information(self, held: Floats) -> Floats:
        """Return (..., p, p) the expected curvature."""
        if not self.expected:
            return self.curvature(held)
        return unpack(held[..., self.summarized + self.figures : self.components], self.size)


class Judgement(NamedTuple):
    """The estimate theta from averaged sums, and its accuracy."""

    theta: Floats  #: (..., p)
    known: Booleans  #: (..., p) which directions are determined; along the others, theta is that of the reference
    #: (..., p, p) the directions, in columns: orthogonal for centered covariates of equal scale
    directions: Floats
    errors: Floats  #: (..., p) standard errors
    #: (...) the linearization error, in standard errors; infinite if nothing is known
    linearization: Floats
    inverse: Floats  #: (..., p, p) inverse of the curvature, along the known directions
    covariance: Floats  #: (..., p, p) of theta
    rows: Floats  #: (...) number of rows of all agents in the averages
    effective: Floats  #: (..., p) effective number of rows that determine each parameter, by their curvatures
    freedom: Floats  #: (..., p) degrees of freedom of each standard error

    @property
    def ready(self) -> Booleans:
        """(...) whether all directions are known."""
        return np.asarray(self.known.all(axis=-1))

    @property
    def published(self) -> Booleans:
        return np.asarray(self.ready & (self.linearization <= PUBLISHED))

    def enough(self, penalty: Floats) -> Booleans:
        """Return (...) whether there are enough rows for valid intervals, or a penalty."""
        return np.asarray((self.rows >= ROWS * len(penalty)) | penalty.any())

    def unfounded(self, names: Sequence[str], penalty: Floats, rows: str) -> str:
        """Return why intervals of theta (p,) would not be valid; empty if they are, or if there is a penalty."""
        if penalty.any():
            return ""
        least = int(np.argmin(self.effective))
        if self.effective[least] < EFFECTIVE:
            return (
                f"too few {rows} so far: {names[least]} is determined by the equivalent of "
                f"{self.effective[least]:.0f} of them, because few carry the information; intervals need {EFFECTIVE}"
            )
        if self.freedom.min() < 2:  # impossible for sums over all rows
            return "the sums on which intervals rest have not mixed yet"
        return ""

    def exact(self, names: Sequence[str], rows: str) -> str:
        """Return why errors in units of the standard errors of theta (p,) mean nothing; empty if they do not vanish."""
        variances = self.errors**2 * self.rows / np.maximum(np.diag(self.inverse), 1e-300)
        least = int(np.argmin(variances))
        if variances[least] > 1e-12:
            return ""
        return (
            f"the standard error of {names[least]} vanishes: no {rows} vary along it, or the model fits all labels "
            "exactly"
        )

    def step(self, reference: Floats) -> float:
        """Return the distance of theta (p,) from the reference of the rows, in standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nan_to_num(np.abs((self.theta - reference) / self.errors), nan=0.0).max())

    def unsettled(self, family: Family, reference: Floats) -> float:
        """Return the step from the reference, or 0 if it is short enough for a published estimate."""
        step = self.step(reference)
        return 0.0 if step <= (PUBLISHED / 2 if family.jumps else SETTLED) else step

    def apart(self, layout: SumLayout, other: Floats, penalty: Floats) -> Floats:
        """Return (...) the largest error of theta according to the averages of another agent, in standard errors."""
        count = layout.counts(other)[..., None]
        whole = np.einsum("...ij,...j->...i", layout.curvature(other), self.theta)
        short = layout.shifted(other) - layout.slopes(other) - whole - count * penalty * self.theta
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.einsum("...ij,...j->...i", self.inverse, short) / count
            distance = np.abs(step / self.errors).max(axis=-1)
        return np.asarray(np.where(np.isfinite(distance), distance, np.inf))


def student_95(freedom: Floats) -> Floats:
    """Return the half-width of a 95% interval by Student's t, in standard errors; within 1% from 3 degrees of freedom
    on."""
    z, n = 1.959963985, np.maximum(freedom, 1.0)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return np.asarray(z + terms[0] / n + terms[1] / n**2 + terms[2] / n**3)


def judge(
    layout: SumLayout,
    held: Floats,
    reference: Floats,
    penalty: Floats,
    share: Floats | float,
    sharpness: float,
    least: float = _LEAST,
) -> Judgement:
    """Solve for theta, and return it with its accuracy.

    held (..., n): averaged sums; reference (..., p): theta along unknown directions; penalty (p,): per row;
    share (...): the sum of the squared weights of the rows of all agents in the averages, which is 1/N if the sums of N
    agents are averaged; sharpness: see `Family.sharpness`.
    """
    held = np.asarray(held)
    finite = np.isfinite(held).all(axis=-1) & (layout.counts(held) > 0)
    count = np.where(finite, layout.counts(held), 1.0)
    held = np.where(finite[..., None], held, 0.0) / count[..., None]  # means over rows
    curvature = layout.curvature(held)
    whole = curvature + penalty * np.eye(layout.size)
    change = centering(curvature, layout.intercepts) if layout.intercepts else None
    inverse, directions, known = invert(whole, np.where(finite, least, np.inf)[..., None], change)
    short = layout.shifted(held) - layout.slopes(held) - np.einsum("...ij,...j->...i", whole, reference)
    theta = reference + np.einsum("...ij,...j->...i", inverse, short)
    covariance = inverse @ layout.scores(held) @ inverse if layout.meat else inverse
    rows = np.where(finite, count / np.maximum(share, 1e-300), 0.0)
    effective = freedom = np.broadcast_to(np.inf, theta.shape)
    if layout.meat:
        effective, freedom = _rested_on(layout, held, rows, inverse, curvature, covariance)
    covariance = covariance / np.where(finite, rows, 1.0)[..., None, None]
    errors = np.sqrt(np.maximum(np.einsum("...ii->...i", covariance), 0.0))
    moved = np.einsum("...i,...ij,...j->...", theta, curvature, theta)
    moved = np.abs(moved - 2 * np.einsum("...i,...i->...", theta, layout.shifted(held)) + held[..., 2])
    moved = moved + np.abs(held[..., 3])
    with np.errstate(divide="ignore", invalid="ignore"):
        wrong = np.sqrt(3) / 2 * sharpness * moved / np.sqrt(np.maximum(held[..., 1], 0.0))
        own = np.sqrt(np.maximum(np.einsum("...ii->...i", inverse), 0.0)) / errors
        off = wrong * own.max(axis=-1)
    ready = known.all(axis=-1)
    off = np.where(ready & np.isfinite(off), off, np.inf)
    return Judgement(theta, known, directions, errors, off, inverse, covariance, rows, effective, freedom)


def _rested_on(
    layout: SumLayout, held: Floats, rows: Floats, inverse: Floats, curvature: Floats, covariance: Floats
) -> tuple[Floats, Floats]:
    """Return (..., p) the effective number of rows that determine each parameter, and the degrees of freedom of its
    variance, from means over rows and the covariance of one row."""
    scale = np.maximum(np.einsum("...ii->...i", inverse), 1e-300)
    bent = np.einsum("...ij,...jk,...ki->...i", inverse, curvature, inverse) / scale
    spread = np.einsum("...ii->...i", covariance) / scale
    d, q = np.split(held[..., layout.spreads : layout.summarized], 2, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows_and_freedom = np.stack([bent**2 / d, 2 * spread**2 / q]) * rows[..., None]
    effective, freedom = np.nan_to_num(np.where(rows_and_freedom > 0, rows_and_freedom, 0.0), posinf=0.0)
    return effective, freedom


def moved(family: Family, start: Floats, target: Floats, y: Floats) -> Floats:
    """Return the next predictors of rows that move from `start` toward `target`; see the top of this file."""
    low, high = family.limits(y)
    if np.ndim(low) == 0:
        return target
    way = target - start
    if np.abs(way).max(initial=0.0) > STEP:
        target = np.where(np.abs(way) > STEP, start + np.clip(way, -STEP, STEP), target)
    return np.clip(target, low, high)


def placed(family: Family, target: Floats, y: Floats, reach: Floats | float) -> Floats:
    """Return the first predictors of new rows while there is no good estimate: those of the estimate, clipped to where
    the labels are plausible (`Family.plausible`) or, for labels that say little, to `STEP` beyond the `reach` of
    earlier rows."""
    low, high = family.plausible(y, 1)
    if family.separates:
        high = np.asarray(reach) + STEP
        low = -high
    return np.clip(np.clip(target, low, high), *family.limits(y))


def on_their_way(family: Family, predictors: Floats, target: Floats, y: Floats, slopes: Floats) -> Floats:
    """Return (...) the contribution to u of rows with these slopes at their predictors (m, ...), short of the
    target."""
    way = np.clip(target, *family.limits(y)) - predictors
    if not way.any():
        return np.zeros(y.shape)
    return np.asarray((np.abs(family.slopes(predictors + way, y) - slopes) * np.abs(way)).sum(axis=0))


def leveraged(x: Floats, slopes: Floats, bends: Floats, inverse: Floats, rows: Floats | float) -> Floats:
    """Return (m, ..., k) the slopes of rows, corrected for the influence of each row on the estimate.

    x (..., k, width), slopes (m, ..., k), bends (m, m, ..., k); inverse (..., p, p) of the mean curvature of `rows`
    rows (...). Their squares give standard errors that are also valid if few rows carry the information (HC3; HC0 would
    be too small).
    """
    outputs, width = len(slopes), x.shape[-1]
    blocks = inverse.reshape(*inverse.shape[:-2], outputs, width, outputs, width)
    corrected = np.empty_like(slopes)
    for a in range(outputs):
        # The share of its own prediction that a row determines.
        share = sum(bends[c, a] * ((x @ blocks[..., a, :, c, :]) * x).sum(axis=-1) for c in range(outputs))
        share = share / np.asarray(rows)[..., None]
        corrected[a] = slopes[a] / (1 - np.clip(share, 0.0, _MOST_LEVERAGE))
    return corrected


def spreads_of(x: Floats, slopes: Floats, bends: Floats, inverse: Floats) -> Floats:
    """Return (2, p, ..., k) the contributions of rows to d and q, for arrays as in `leveraged`, weights included."""
    outputs, width = len(slopes), x.shape[-1]
    size = np.sqrt(
        np.maximum(np.einsum("...ii->...i", inverse), 1e-300)
    )  # makes the result independent of units
    blocks = (inverse / size[..., None]).reshape(*inverse.shape[:-1], outputs, width)
    along = np.einsum("...jaw,...kw->ja...k", blocks, x)
    bent = np.einsum("ja...k,ac...k,jc...k->j...k", along, bends, along)
    scores = np.einsum("ja...k,a...k->j...k", along, slopes)
    return np.stack([bent**2, scores**4])


def row_sums(
    layout: SumLayout,
    family: Family,
    x: Floats,
    y: Floats,
    predictors: Floats,
    target: Floats,
    weights: Floats,
    careful: bool,
    *,
    known: tuple[Floats, float] | None = None,
) -> Floats:
    """Return the sums over rows x (k, width) with labels y and weights (k,), linearized at predictors (m, k) that move
    toward the target (m, k); `known` is the inverse of the mean curvature and its number of rows (see `leveraged`)."""
    slopes = family.slopes(predictors, y)
    bends = family.careful_curvatures(predictors, y, careful) * weights
    shifted = (bends * predictors).sum(axis=1)
    sums = np.empty(layout.components)
    sums[0] = weights.sum()
    sums[1] = np.einsum("aak->", bends)
    sums[2] = (shifted * predictors).sum()
    sums[3] = weights @ on_their_way(family, predictors, target, y, slopes)
    sums[FIRST : FIRST + layout.size] = (shifted @ x).ravel()
    sums[FIRST + layout.size : layout.curved] = ((slopes * weights) @ x).ravel()
    sums[layout.curved : layout.plain] = pack(curvature_of(x, bends))
    if layout.meat:
        sums[layout.plain] = weights @ (np.abs(slopes).max(axis=0) > 0.5)
        sums[layout.plain + 1] = weights @ weights
        scores = (slopes if known is None else leveraged(x, slopes, bends, *known)) * weights
        sums[layout.plain + 2 : layout.spreads] = pack(curvature_of(x, scores[:, None] * scores))
        spreads = 0.0 if known is None else spreads_of(x, scores, bends, known[0]).sum(axis=-1).ravel()
        sums[layout.spreads : layout.summarized] = spreads
    if layout.figures:  # at theta, not where rows are linearized
        target = np.clip(target, *family.limits(y))
        at = np.concatenate([np.zeros((1, len(y))), family.figures(target, y), family.indicators(y)])
        sums[layout.summarized : layout.summarized + layout.figures] = at @ weights
    if layout.expected:
        information = curvature_of(x, family.information(target, y) * weights)
        sums[layout.summarized + layout.figures :] = pack(information)
    return sums


def next_look(age: int, near: bool = True, half_life: float = 0.0) -> int:
    """Return the age, in rounds, at which an agent examines its estimate next, after `age`; it is sooner if the rows
    were not near the estimate, or if rows are forgotten with a half-life."""
    most = min(32 if near else 8, half_life / 8 if half_life else np.inf)
    return age + max(1, min(age // 8, int(most)))


LEAST_SPREAD = 16
"""Smallest number of rounds between two times at which new rows enter."""


def agreement(members: int) -> float:
    """Return the largest difference between neighbors, in standard errors; in a chain, small differences add up."""
    return PUBLISHED / max(members, 4)
