"""One agent during a fit: its centered rows, its parameters, and its predictors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.likelihood.local import OwnParameters
from gossamer.applications.likelihood.rows import AgentRows, Model, spread_over
from gossamer.arrays import Floats

_FAR_OFF = 10.0
"""Columns whose mean is this many standard deviations from zero are centered."""

_AGREED = 1e-6

_FINEST = 1e-6
"""Residuals below this share of the predictors count as zero: for labels that are fitted exactly, only rounding is
left."""


class Frame(NamedTuple):
    """Coordinates that all agents share during a fit.

    center     (d,) subtracted from the covariates
    rounding   (d,) rounding error of constant covariates after centering
    intercept  (m,) subtracted from the intercepts
    scale      the initial scale
    finest     residuals that count as zero, in units of the predictors
    """

    center: Floats
    rounding: Floats
    intercept: Floats
    scale: float
    finest: float = 0.0

    def inside(self, model: Model, theta: Floats) -> Floats:
        """Return (p,) parameters in this frame, from parameters for the original covariates."""
        if not model.intercept:
            return theta
        inside = theta.reshape(model.family.outputs, -1).copy()
        inside[:, -1] += inside[:, :-1] @ self.center - self.intercept
        return inside.ravel()

    def original(self, model: Model, theta: Floats) -> Floats:
        """Return (..., p) parameters for the original covariates, from parameters in this frame."""
        if not model.intercept:
            return theta
        original = theta.reshape(*theta.shape[:-1], model.family.outputs, -1).copy()
        original[..., -1] += self.intercept - original[..., :-1] @ self.center
        return original.reshape(theta.shape)


def agree_on_frame(model: Model, data: Sequence[AgentRows], exchange: Consensus) -> Frame:
    """Return the frame that all agents share: centers of covariates far from zero, and intercepts for the mean label.

    Products of covariates that are far from zero compared with their spread lose digits. Without an intercept nothing
    is shifted, because a shift would change the model.
    """
    family, dimension = model.family, data[0].x.shape[1]
    zeros, flat = np.zeros(dimension), np.zeros(family.outputs)
    if not model.intercept and not family.scale_terms:
        return Frame(zeros, zeros, flat, 1.0)
    held = exchange.average(np.stack(spread_over(_moments, data)), _AGREED)
    means = exchange.largest(held[:, 1:] / held[:, :1])  # the same at all agents
    scale = family.first_scale(float(means[1]))
    if not model.intercept:
        return Frame(zeros, zeros, flat, scale)
    center, spread = means[3 : 3 + dimension], np.sqrt(np.maximum(means[3 + dimension :], 0.0))
    center = np.where(np.abs(center) > _FAR_OFF * spread, center, 0.0)
    rounding = 8 * np.finfo(float).eps * np.abs(center)
    rounding = np.where(spread <= rounding, rounding, 0.0)
    offset = float(means[2]) if family.outputs == 1 else 0.0  # several predictors share the offset
    intercept = family.constant(float(means[0])) - offset
    unit = family.reach if np.isfinite(family.reach) else np.sqrt(means[1])  # the unit of the labels
    return Frame(center, rounding, intercept, scale, _FINEST * max(unit, float(np.abs(intercept).max())))


def _moments(rows: AgentRows) -> Floats:
    """Return one agent's number of rows, and its sums of labels, squared labels, offsets, covariates and centered
    squares."""
    count, weights = rows.total, rows.weighted(np.ones(len(rows.y)))
    near = rows.x[0] if len(rows.x) else np.zeros(rows.x.shape[1])
    sums, squares = np.zeros((2, rows.x.shape[1]))
    for first in range(0, len(rows.x), 4096):
        away, some = rows.x[first : first + 4096] - near, weights[first : first + 4096]
        sums += some @ away
        squares += np.einsum("i,ij,ij->j", some, away, away)
    squares = squares - sums**2 / (count or 1.0)
    with np.errstate(over="ignore"):
        lengths = float(rows.weighted(rows.y) @ rows.y)
    offsets = 0.0 if rows.offset is None else weights @ rows.offset
    head = [count, weights @ rows.y, lengths, offsets]
    return np.concatenate([head, sums + count * near, squares])


class FittingAgent:
    """The state of one agent during a fit; parameters are those of the frame."""

    own: OwnParameters | None = None
    """How the agent's local parameters follow from the shared ones."""

    def __init__(self, model: Model, rows: AgentRows, frame: Frame, start: Floats | None = None) -> None:
        self.model = model
        self.rows = rows
        self.x, self.y = rows.x, rows.y
        if frame.center.any():
            self.x = rows.x - frame.center
            self.x[np.abs(self.x) <= frame.rounding] = 0.0
        self.theta = np.zeros(len(model.penalty)) if start is None else frame.inside(model, start)
        self.predictors = np.repeat(frame.intercept[:, None], len(self.y), axis=1)
        if start is not None:
            self.predictors += self.changes(self.theta)
        if rows.offset is not None:
            self.predictors += rows.offset
        self.finest = frame.finest
        self.set_scale(frame.scale)

    def move(self, way: Floats, changes: Floats, length: float) -> None:
        """Take a step that changes predictors by `length` times `changes`."""
        self.theta = self.theta + length * way
        self.predictors += length * changes
        self._linearize()

    def set_scale(self, scale: float) -> None:
        """Change the scale by which residuals are measured."""
        self.scale = scale
        self._family = self.model.family.at_scale(scale)
        self._linearize()

    def _linearize(self) -> None:
        slopes = self._family.slopes(self.predictors, self.y)
        self._slopes = self.rows.weighted(slopes)
        self._squares = float(np.einsum("an,an->", self._slopes, slopes))
        self._bends = self.rows.weighted(self._family.newton_curvatures(self.predictors, self.y))

    def changes(self, way: Floats) -> Floats:
        """Return the (m, n) change of the predictors due to a change of the parameters."""
        return self.model.predictors(way, self.x)

    def head(self) -> Floats:
        """Return the number of rows, and the sums of squared slopes and of curvatures."""
        return np.array([self.rows.total, self._squares, float(np.einsum("aan->", self._bends))])

    def gradient(self) -> Floats:
        return self.model.gradient(self._slopes, self.x)

    def curvature(self) -> Floats:
        return self.model.curvature(self._bends, self.x)

    def diagonal(self) -> Floats:
        return self.model.diagonal(self._bends, self.x)

    def product(self, vector: Floats) -> Floats:
        """Return (p,) the curvature times a vector."""
        bent = self._family.bend(self.predictors, self.y, self.changes(vector))
        return self.model.gradient(self.rows.weighted(bent), self.x)

    def scale_terms(self) -> Floats:
        return np.asarray(self.rows.weighted(self._family.scale_parts(self.predictors, self.y)).sum(axis=1))

    def slopes_along(self, changes: Floats, lengths: Floats) -> Floats:
        """Return (2 + k,) numbers: the rows, the sum of the absolute slopes, and the derivatives of the loss at these
        step lengths."""
        slopes = [self.rows.total, float(np.abs(self._slopes * changes).sum())]
        with np.errstate(all="ignore"):
            for length in lengths:
                at = self.predictors + length * changes
                slopes.append(float(self.rows.weighted(self._family.slopes(at, self.y) * changes).sum()))
        return np.clip(np.nan_to_num(slopes, nan=1e100, posinf=1e100, neginf=-1e100), -1e100, 1e100)

    def growth(self, way: Floats, farthest: float, far: float) -> float:
        """Return the largest slope of a row's loss far along a direction; `farthest` is the largest change of any
        predictor in the network."""
        if not len(self.y):
            return -np.inf
        along = self.changes(way) / farthest
        with np.errstate(all="ignore"):
            reach = far + 2 * (np.abs(self.predictors).max() + np.abs(self.y))
            at = self.predictors + along * reach
            slopes = (self._family.slopes(at, self.y) * along).sum(axis=0)
        return float(np.nan_to_num(slopes, nan=1.0, posinf=1.0).max())
