"""Sums over rows that a network averages to fit a model, and what the averages say.

A row (x, y) is linearized at a predictor eta of its own: near it the loss is the parabola with slope l' and curvature
l'' (`families.py`). Over the rows of an agent, with weights w (1, unless old rows are forgotten), the sums

    n = sum of w          A = sum of w l'' x x'       c = sum of w l'' eta x      g = sum of w l' x
    v = sum of w l''      s = sum of w l'' eta^2      J = sum of w^2 l'^2 x x'
    q_j = sum of w^4 (a_j'x l')^4                     d_j = sum of w^2 (a_j'x)^4 l''^2

are averaged over the network (with several predictors, Kronecker products of these), and, for a summary, deviances,
Pearson's statistics, losses and labels. An agent that holds the averages solves (A + n ridge) theta = c - g: Newton's
step for the rows of all agents. Averaging is linear and treats every
component alike, so a row has one weight in all of them, and the averages also say how far the rows are from where they
were linearized:

    Q = theta'A theta - 2 theta'c + s = sum of w l'' (x'theta - eta)^2.

Where the curvature changes by a factor e at most when a predictor changes by 1, the score at theta is wrong by at most
1/2 sum of l'' (x'theta - eta)^2 |x| to second order. With the kurtosis of normal numbers that changes theta by at most
sqrt(3)/2 Q/sqrt(v) in the metric of A. In standard errors, this is the *error of linearization*: whatever its reason
(rows that were let go before the estimate was good, agents that differ, labels whose nature has changed), an agent
whose estimate has a large one knows it, withholds the estimate, and moves its rows closer.

Rows that are still on their way, as the next paragraph has it, may be where the loss is nearly straight, and Q does not
see them; they add u = sum of w |l'(x'theta) - l'(eta)| |x'theta - eta| at the agent's own latest theta.

Standard errors are those of the sandwich A^{-1} J A^{-1}, in which l' is divided by one minus the row's leverage (HC3).
For each parameter, a_j is its row of the inverse curvature, so d_j and q_j say on how many rows it rests: by their
curvatures, which must be `EFFECTIVE` at least, and by their squared scores, k = V^2/q_j with V the sum of (a_j'x l')^2.
Satterthwaite's degrees of freedom of V are at least 2k, and intervals use Student's t with 2k.

Rows move with care: a predictor changes by at most `STEP` at once. The loss of all rows falls with such a step, and a
wild estimate from before the network has mixed does little harm. The Huber loss, whose curvature jumps, has its
curvature replaced by that of the parabola that touches it and lies above, until the error is below `FAR`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gossamer.arrays import Booleans, Floats
from gossamer.families import Family
from gossamer.least_squares import centering, curvature_of, invert, pack, unpack

STEP = 1.5
"""The largest change of a predictor at once."""

CLOSE = 1e-7
"""An error of linearization, in standard errors, that is not worth moving rows for."""

FINE = 1e-5
"""Rows are also moved while the step from where they are is longer, in standard errors, so that sums of nonlinear
functions of theta are those of the estimate."""

FAR = 1.0
"""Beyond this error of linearization, in standard errors, the Huber loss is replaced by parabolas above it."""

SETTLED = 0.5
"""By how many standard errors a published estimate may be away from where rows were linearized last."""

PUBLISHED = 0.1
"""The largest error of linearization, in standard errors, with which an estimate is published."""

ROWS = 20
"""The least number of rows per parameter: with fewer, intervals do not cover as often as they say."""

EFFECTIVE = 15
"""The least number of rows that a parameter rests on, by their curvatures; see `Judgement.effective`."""

FIRST = 4
"""Where the sums that are vectors begin."""

_MOST_LEVERAGE = 0.9
"""The most that a row is taken to have determined of its own prediction."""

_LEAST = 1e-10
"""The least share of the curvature, covariates centered and scaled alike, of a direction that is known."""


class SumLayout(NamedTuple):
    """Where the averaged sums lie in a vector: n, v, s, u, c, g, A, and with `meat` the number of contradicted labels,
    the sum of w^2, J, d and q; then those of a summary."""

    size: int
    intercepts: int = 0  #: how many of theta's numbers are intercepts, the last of each predictor
    meat: bool = False
    figures: int = (
        0  #: how many numbers the rows let go, `Family.figures` and `Family.indicators` are; 0: no summary
    )
    expected: bool = False  #: whether the expected curvature is summed, because it is not the observed one

    @property
    def packed(self) -> int:
        return self.size * (self.size + 1) // 2

    @property
    def curved(self) -> int:
        """Where the curvature begins."""
        return FIRST + 2 * self.size

    @property
    def plain(self) -> int:
        """How many numbers there are without the meat."""
        return self.curved + self.packed

    @property
    def components(self) -> int:
        """How many numbers a message carries."""
        return self.summarized + self.figures + (self.packed if self.expected else 0)

    @property
    def summarized(self) -> int:
        """Where the sums of a summary begin: rows let go, figures, indicators, and the expected curvature."""
        return self.plain + (2 + self.packed + 2 * self.size if self.meat else 0)

    @property
    def spreads(self) -> int:
        """Where d begins, and then q."""
        return self.plain + 2 + self.packed

    @property
    def powers(self) -> Floats:
        """(components,) which power of its weight a row has in each."""
        column = np.arange(self.components)
        inner = np.where(column < self.spreads + self.size, 2.0, 4.0)
        return np.where((column <= self.plain) | (column >= self.summarized), 1.0, inner)

    def counts(self, held: Floats) -> Floats:
        return held[..., 0]

    def shifted(self, held: Floats) -> Floats:
        """(..., p) c, the curvature times the predictors of the rows."""
        return held[..., FIRST : FIRST + self.size]

    def slopes(self, held: Floats) -> Floats:
        """(..., p) g, the sum of the scores."""
        return held[..., FIRST + self.size : self.curved]

    def curvature(self, held: Floats) -> Floats:
        """(..., p, p) A."""
        return unpack(held[..., self.curved : self.plain], self.size)

    def contradictions(self, held: Floats) -> Floats:
        """(...) how many labels are the less likely ones: a slope above 1/2."""
        return held[..., self.plain]

    def squared_weights(self, held: Floats) -> Floats:
        return held[..., self.plain + 1]

    def scores(self, held: Floats) -> Floats:
        """(..., p, p) J, the squared scores."""
        return unpack(held[..., self.plain + 2 : self.spreads], self.size)

    def summary(self, held: Floats) -> Floats:
        """(..., figures) the number of rows let go, `Family.figures` and `Family.indicators`."""
        return held[..., self.summarized : self.summarized + self.figures]

    def information(self, held: Floats) -> Floats:
        """(..., p, p) the expected curvature."""
        if not self.expected:
            return self.curvature(held)
        return unpack(held[..., self.summarized + self.figures : self.components], self.size)


class Judgement(NamedTuple):
    """What averaged sums say of theta, and how good it is."""

    theta: Floats  #: (..., p)
    known: Booleans  #: (..., p) by direction: along others, theta is the reference's
    directions: (
        Floats  #: (..., p, p) in columns: orthogonal for covariates that are centered and scaled alike
    )
    errors: Floats  #: (..., p) standard errors
    linearization: (
        Floats  #: (...) the error of linearization, in standard errors; infinite if nothing is known
    )
    inverse: Floats  #: (..., p, p) of the curvature, along the directions that are known
    covariance: Floats  #: (..., p, p) of theta
    rows: Floats  #: (...) how many rows of all agents are in the averages
    effective: Floats  #: (..., p) on how many of them each parameter rests, by their curvatures
    freedom: Floats  #: (..., p) degrees of freedom of each standard error

    @property
    def ready(self) -> Booleans:
        """(...) whether all directions are known."""
        return np.asarray(self.known.all(axis=-1))

    @property
    def published(self) -> Booleans:
        return np.asarray(self.ready & (self.linearization <= PUBLISHED))

    def enough(self, penalty: Floats) -> Booleans:
        """(...) whether there are enough rows for intervals that cover, or a penalty."""
        return np.asarray((self.rows >= ROWS * len(penalty)) | penalty.any())

    def unfounded(self, names: Sequence[str], penalty: Floats, rows: str) -> str:
        """Why intervals of theta (p,) would not cover; empty if they do, or if there is a penalty."""
        if penalty.any():
            return ""
        least = int(np.argmin(self.effective))
        if self.effective[least] < EFFECTIVE:
            return (
                f"too few {rows} so far: {names[least]} rests on {self.effective[least]:.0f} of them, in effect, "
                f"because few carry the information; intervals need {EFFECTIVE}"
            )
        if self.freedom.min() < 2:  # impossible for sums over all rows
            return "the sums on which intervals rest have not mixed yet"
        return ""

    def step(self, reference: Floats) -> float:
        """By how many standard errors theta (p,) has left the reference where rows were linearized."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nan_to_num(np.abs((self.theta - reference) / self.errors), nan=0.0).max())

    def unsettled(self, family: Family, reference: Floats) -> float:
        """The step from the reference; 0 if it is short enough for a published estimate."""
        step = self.step(reference)
        return 0.0 if step <= (PUBLISHED / 2 if family.jumps else SETTLED) else step

    def apart(self, layout: SumLayout, other: Floats, penalty: Floats) -> Floats:
        """(...) by how many standard errors theta is off, at most, according to the averages of another agent."""
        count = layout.counts(other)[..., None]
        whole = np.einsum("...ij,...j->...i", layout.curvature(other), self.theta)
        short = layout.shifted(other) - layout.slopes(other) - whole - count * penalty * self.theta
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.einsum("...ij,...j->...i", self.inverse, short) / count
            distance = np.abs(step / self.errors).max(axis=-1)
        return np.asarray(np.where(np.isfinite(distance), distance, np.inf))


def student_95(freedom: Floats) -> Floats:
    """How many standard errors a 95% interval has to each side, by Student's t; to 1% from 3 degrees of freedom on."""
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
    """Solve for theta, and say how good it is.

    held (..., n) averaged sums; reference (..., p) where theta stays along unknown directions; penalty (p,) per row;
    share (...): the sum of the squared weights that the rows of all agents have in the averages, 1/N for averages over
    N agents of their sums; sharpness, see `Family.sharpness`.
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
    """(..., p) on how many rows each parameter rests, and the degrees of freedom of its variance, from means over
    rows and the covariance of one row."""
    scale = np.maximum(np.einsum("...ii->...i", inverse), 1e-300)
    bent = np.einsum("...ij,...jk,...ki->...i", inverse, curvature, inverse) / scale
    spread = np.einsum("...ii->...i", covariance) / scale
    d, q = np.split(held[..., layout.spreads : layout.summarized], 2, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows_and_freedom = np.stack([bent**2 / d, 2 * spread**2 / q]) * rows[..., None]
    effective, freedom = np.nan_to_num(np.where(rows_and_freedom > 0, rows_and_freedom, 0.0), posinf=0.0)
    return effective, freedom


def moved(family: Family, start: Floats, target: Floats, y: Floats) -> Floats:
    """Where rows are linearized next, on their way from `start` to `target`; see the top of this file."""
    low, high = family.limits(y)
    if np.ndim(low) == 0:
        return target
    way = target - start
    if np.abs(way).max(initial=0.0) > STEP:
        target = np.where(np.abs(way) > STEP, start + np.clip(way, -STEP, STEP), target)
    return np.clip(target, low, high)


def placed(family: Family, target: Floats, y: Floats, reach: Floats | float) -> Floats:
    """Where new rows are linearized while the estimate is not near: at its predictors, but where labels are plausible
    (`Family.plausible`), and where labels say little, not farther out than the rows before them, at most `reach`."""
    low, high = family.plausible(y, 1)
    if family.separates:
        high = np.asarray(reach) + STEP
        low = -high
    return np.clip(np.clip(target, low, high), *family.limits(y))


def on_their_way(family: Family, predictors: Floats, target: Floats, y: Floats, slopes: Floats) -> Floats:
    """(...) what rows with these slopes at their predictors (m, ...) add to u, while they are not at the target."""
    way = np.clip(target, *family.limits(y)) - predictors
    if not way.any():
        return np.zeros(y.shape)
    return np.asarray((np.abs(family.slopes(predictors + way, y) - slopes) * np.abs(way)).sum(axis=0))


def leveraged(x: Floats, slopes: Floats, bends: Floats, inverse: Floats, rows: Floats | float) -> Floats:
    """(m, ..., k) the slopes of rows as they would be if the row itself had no part in the estimate.

    x (..., k, width), slopes (m, ..., k), bends (m, m, ..., k); inverse (..., p, p) of the mean curvature, of so many
    rows (...). From their squares come standard errors that are right where few rows carry the information (HC3; HC0 is
    too small).
    """
    outputs, width = len(slopes), x.shape[-1]
    blocks = inverse.reshape(*inverse.shape[:-2], outputs, width, outputs, width)
    corrected = np.empty_like(slopes)
    for a in range(outputs):
        share = sum(
            bends[c, a] * ((x @ blocks[..., a, :, c, :]) * x).sum(axis=-1) for c in range(outputs)
        )  # of its prediction that a row determines itself
        share = share / np.asarray(rows)[..., None]
        corrected[a] = slopes[a] / (1 - np.clip(share, 0.0, _MOST_LEVERAGE))
    return corrected


def spreads_of(x: Floats, slopes: Floats, bends: Floats, inverse: Floats) -> Floats:
    """(2, p, ..., k) what rows add to d and q, for arrays as in `leveraged`, weights included."""
    outputs, width = len(slopes), x.shape[-1]
    size = np.sqrt(np.maximum(np.einsum("...ii->...i", inverse), 1e-300))  # so that units do not matter
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
    """The sums over rows x (k, width), labels y and weights (k,), linearized at predictors (m, k) on their way to the
    target (m, k); `known` is the inverse of the mean curvature, and of how many rows, see `leveraged`."""
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
    """The age in rounds at which an agent looks at its estimate again, after one at this age; sooner if that was not
    near, or if rows are forgotten with a half-life."""
    most = min(32 if near else 8, half_life / 8 if half_life else np.inf)
    return age + max(1, min(age // 8, int(most)))


LEAST_SPREAD = 16
"""The least number of rounds between two times at which new rows are taken in."""


def agreement(members: int) -> float:
    """By how many standard errors neighbors may be apart: in a chain of agents, small differences add up."""
    return PUBLISHED / max(members, 4)
