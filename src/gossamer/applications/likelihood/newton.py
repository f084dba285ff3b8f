"""Data at rest: the model that all agents' rows together determine, found by every agent without a row leaving it.

At its own estimate theta_i agent i sums, over its rows, the curvature and the pseudo-response of `families.py`,

    A_i = sum of l'' x x',     b_i = A_i theta_i - sum of l' x,     n_i = its number of rows.

If everybody knew the network's averages, (A/n + ridge) theta = b/n would be Newton's step. They are averaged by
Chebyshev's method, and not from the beginning each time: an agent adds what its own sums have changed by to what it
holds already, and some rounds of averaging follow,

    held <- average(held + (A_i, b_i, n_i) - (A_i, b_i, n_i) of the last step),

so the error of averaging shrinks by `ACCURACY` with each step, beside Newton's own, and few rounds are enough for each.

How far to step. Where the curvature of a sample changes by at most a factor e when its predictor changes by 1 (all
families here but Huber's), a step that changes no predictor by more than 1 lowers the loss, whatever it is. The
agents find the largest change by passing on the largest number that they have heard. Only if it is above 1 do they
search: they average the slopes of the loss along the step at 1, 1/2, 1/4, ... down to that safe length. Slopes of a
convex function increase, so sums of (length x slope at the far end) bound from above how much the loss changes; the
longest step whose bound is a tenth of what the slope at the start promises is taken, and of different opinions the
shortest. So all agents take the same step, and the loss falls.

The Huber loss is not smooth enough for that; its curvature is replaced by that of the parabola that touches it and lies
above, which lowers the loss with every full step, at a linear rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csgraph

from gossamer.applications.linear.sensors import in_words, pack, unpack
from gossamer.applications.solvers import settled
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.families import Family, Huber, Softmax, curvature_of
from gossamer.networks import Network

ACCURACY = 1e-3
"""By what factor the averaging of one step shrinks the differences between agents."""

_SEARCH_ACCURACY = 1e-6
_PROMISE = 0.1
"""A step is long enough if the loss falls by this share of what its slope promises."""

_STALLED = 5
"""So many steps without progress end it."""

_FAR = 1e3
"""A predictor this much farther away than labels is at infinity."""


@dataclass(frozen=True)
class ScaledHuber(Huber):
    """The Huber loss in units of a scale that is estimated together with the coefficients, for data at rest.

    The loss of a row is s (1/2 + h((y - eta)/s)), with h the Huber loss of `threshold` 1.35 and s the scale, so the
    minimum is that of scikit-learn's `HuberRegressor`.

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


class AgentRows(NamedTuple):
    """One agent's rows: covariates, with the intercept's column if there is one, and labels."""

    x: Floats
    y: Floats


class Model(NamedTuple):
    """What is fitted: the loss, the penalty on each of theta's numbers, and what these are called."""

    family: Family
    penalty: Floats
    names: Sequence[str]

    @property
    def singles_out(self) -> bool:
        """Whether only the penalty decides between several theta of one loss."""
        return isinstance(self.family, Softmax) and self.family.symmetric

    def predictors(self, theta: Floats, x: Floats) -> Floats:
        """(m, n) the predictors of the rows x."""
        return np.asarray(theta.reshape(self.family.outputs, -1) @ x.T)

    def solve(self, curvature: Floats, response: Floats, scale: float = 1.0) -> Floats:
        """theta with (curvature + penalty) theta = response."""
        total = curvature + np.diag(scale * self.penalty)
        if self.singles_out:  # the sum over the classes of what has no penalty changes nothing: keep it at 0
            each = np.diag(curvature).reshape(self.family.outputs, -1)  # in the units of each covariate
            free = np.diag((each * (self.penalty == 0).reshape(each.shape)).mean(axis=0))
            total = total + np.tile(free, (self.family.outputs,) * 2)
        size = np.sqrt(np.maximum(np.diag(total), 0.0))
        size[size == 0] = 1.0
        try:
            factor = linalg.cho_factor(total / np.outer(size, size))
        except linalg.LinAlgError:
            raise Singular(total) from None
        if np.abs(np.diag(factor[0])).min() < 1e-7:
            raise Singular(total)
        return np.asarray(linalg.cho_solve(factor, response / size) / size)


class Singular(Exception):
    """The curvature cannot be inverted."""

    def __init__(self, curvature: Floats) -> None:
        super().__init__()
        self.curvature = curvature


class Consensus:
    """What the agents compute together, and what it costs: rounds, and bytes of the whole network.

    Without a network there is one agent, which holds everything, and nothing costs anything.
    """

    def __init__(self, network: Network | None) -> None:
        self.network = network
        self.rounds = 0
        self.bytes = 0
        self.agents = 1 if network is None else network.agents
        self._averaging: dict[int, Floats] = {}  # what so many rounds make of the agents' values
        if network is not None:
            graph = network.gossip
            self._diameter = int(csgraph.shortest_path(graph != 0, unweighted=True).max())
            root = np.sqrt(network.condition_number)
            self._rate = (root - 1) / (root + 1)

    def _spend(self, rounds: int, numbers: int) -> None:
        assert self.network is not None
        self.rounds += rounds
        self.bytes += rounds * 2 * len(self.network.edges) * 8 * numbers

    def average(self, values: Floats, accuracy: float) -> Floats:
        """(N, n) about the average of the agents' values (N, n), whose differences shrink by `accuracy`."""
        if self.network is None:
            return values
        rounds = 1 if self._rate < 1e-9 else int(np.ceil(np.log(2 / accuracy) / -np.log(self._rate)))
        self._spend(rounds, values.shape[1])
        if rounds not in self._averaging:
            self._averaging[rounds] = settled("chebyshev", self.network, np.eye(self.agents), rounds)
        return np.asarray(self._averaging[rounds] @ values)

    def largest(self, values: Floats) -> Floats:
        """(n,) the largest of the agents' values (N, n), passed on until everybody has it."""
        if self.network is not None:
            self._spend(self._diameter, values.shape[1])
        return np.asarray(values.max(axis=0))


class NewtonStep(NamedTuple):
    """Where the agents are after a step: theta (N, p), scales (N,) and what it has cost so far."""

    theta: Floats
    scale: Floats
    length: float
    moved: float
    rounds: int
    bytes: int


def newton(
    model: Model, data: Sequence[AgentRows], exchange: Consensus, *, tolerance: float, most: int
) -> Iterator[NewtonStep]:
    """Newton's steps, until no estimate moves by more than `tolerance` times its size, or rounding moves them all the
    time: then there were `_STALLED` steps without a shorter one, near the minimum."""
    agents, size = len(data), len(model.penalty)
    scaled = isinstance(model.family, ScaledHuber)
    theta, scale = np.zeros((agents, size)), np.ones(agents)
    if scaled:
        squares = np.array([[float(len(rows.y)), float(rows.y @ rows.y)] for rows in data])
        held = exchange.average(squares, _SEARCH_ACCURACY)
        scale = np.sqrt(np.maximum(held[:, 1] / held[:, 0], 1e-12))
    finest = 1e-12 * scale  # what rounding leaves of residuals where labels are fitted exactly
    shortest, since, waits, moved = np.inf, 0, 0, np.inf
    told = held = np.zeros((agents, 1 + size * (size + 3) // 2 + 2 * scaled))
    for step in range(most):
        fresh = np.stack([_sums(model, *args) for args in zip(data, theta, scale, strict=True)])
        held, told = exchange.average(held + fresh - told, ACCURACY), fresh
        means = held[:, 1:] / held[:, :1]
        way, singular = _ways(model, means, theta, scale if scaled else np.ones(agents))
        behind = scale
        if scaled:
            found = _scales(model.family, scale, *means[:, -2:].T)  # type: ignore[arg-type]
            scale = np.maximum(found, finest)
        changes = [model.predictors(v, rows.x) for v, rows in zip(way, data, strict=True)]
        stuck = [float(i in singular) for i in range(agents)]
        mine = zip(data, theta, changes, way, scale, np.abs(scale / behind - 1), stuck, strict=True)
        measured = exchange.largest(np.stack([_measures(model, *args) for args in mine]))
        change, recedes, moved, anybody = measured.tolist()
        waits = waits + 1 if anybody else 0
        if waits > _STALLED:
            raise _singular(model, next(iter(singular.values())), step == _STALLED)
        if anybody:  # has an average that is not good enough to solve: average once more
            continue
        if recedes <= 0 and change > 0.1:  # near a minimum there is nothing to fear
            raise _receding(model, way[0] * (model.penalty == 0))
        length = 1.0
        if change > 1 and not isinstance(model.family, Huber):
            length = _search(model, data, exchange, theta, way, changes, change)
        theta = theta + length * way
        yield NewtonStep(theta, scale, length, moved, exchange.rounds, exchange.bytes)
        shortest, since = (moved, 0) if moved < shortest else (shortest, since + 1)
        if moved <= tolerance or (change < 1e-3 and since == _STALLED):
            return
    raise InvalidInput(
        f"no minimum was reached after {most} of Newton's steps: the last one still moved estimates by {moved:.3g} of "
        "their size; add a ridge penalty, rescale the covariates, or allow more steps"
    )


def _ways(model: Model, means: Floats, theta: Floats, scale: Floats) -> tuple[Floats, dict[int, Floats]]:
    """Newton's step of every agent, (N, p), and the curvature of those that cannot take one."""
    size = theta.shape[1]
    packed = size * (size + 1) // 2
    way, singular = np.zeros_like(theta), {}
    for i, row in enumerate(means):
        try:
            target = model.solve(unpack(row[:packed], size), row[packed : packed + size], scale[i])
        except Singular as found:
            singular[i] = found.curvature
        else:
            way[i] = target - theta[i]
    return way, singular


def _sums(model: Model, rows: AgentRows, theta: Floats, scale: float) -> Floats:
    """What one agent feeds to the averages: its number of rows, A and b, and what a scale needs."""
    x, y = rows
    family = model.family
    if isinstance(family, ScaledHuber):
        family = Huber(family.threshold * float(scale))
    predictors = model.predictors(theta, x)
    slopes = family.slopes(predictors, y)
    if isinstance(family, Huber):
        residuals = np.abs(predictors - y)
        bends = (np.minimum(residuals, family.threshold) / np.maximum(residuals, 1e-300))[None]
        bends[residuals[None] == 0] = 1.0
    else:
        bends = family.curvatures(predictors, y)
    curvature = curvature_of(x, bends)
    parts: list[Any] = [[float(len(y))], pack(curvature), curvature @ theta - (slopes @ x).ravel()]
    if isinstance(model.family, ScaledHuber):
        near = residuals[0] <= family.threshold  # type: ignore[attr-defined]
        parts.append([float(residuals[0][near] @ residuals[0][near]), float(np.sum(~near))])
    return np.concatenate(parts)


def _scales(family: ScaledHuber, scale: Floats, near: Floats, beyond: Floats) -> Floats:
    """The scales at which the mean of min(residual^2, (threshold s)^2) is s^2.

    The residuals that are beyond the threshold now stay so, which is Newton's step for 1/s^2; where they are too many
    for that, s^2 becomes that mean.
    """
    left = 1 - family.threshold**2 * beyond
    safe = np.where(left > 0, left, 1.0)
    squares = np.where((left > 0) & (near > 0), near / safe, near + (family.threshold * scale) ** 2 * beyond)
    return np.sqrt(np.maximum(squares, 0.0))


def _measures(
    model: Model,
    rows: AgentRows,
    theta: Floats,
    changes: Floats,
    way: Floats,
    scale: float,
    stretched: float,
    unsolved: float,
) -> Floats:
    """One agent's part of what all must know: the largest change of a predictor (for several, of their differences);
    whether its loss grows far along the part of the way that has no penalty (above 0); how far its estimates move,
    relative to their size, and predictors in units of Huber's threshold; and whether it could not solve."""
    spread = changes.max(axis=0) - changes.min(axis=0) if len(changes) > 1 else np.abs(changes)
    largest = float(spread.max(initial=0.0))
    growth, free = 1.0, way * (model.penalty == 0)
    along, size = model.predictors(free, rows.x), np.abs(rows.x) @ np.abs(free).reshape(len(changes), -1).T
    farthest = float(np.abs(along).max(initial=0.0))
    if size.max(initial=0.0) > 0:
        growth = -1.0
    if farthest > 1e-10 * size.max(initial=0.0):  # and is not rounding
        with np.errstate(all="ignore"):
            along, start = along / farthest, model.predictors(theta, rows.x)
            far = start + along * (_FAR + 2 * (np.abs(start).max() + np.abs(rows.y)))
            slopes = (model.family.slopes(far, rows.y) * along).sum(axis=0)
        growth = float(np.nan_to_num(slopes, nan=1.0).max()) - 1e-6
    moved = max(float(np.abs(way).max() / (1 + np.abs(theta).max())), stretched)
    if isinstance(model.family, Huber):
        unit = model.family.threshold * scale + 1e-4 * float(np.abs(rows.y).max())  # rounding allows no more
        moved = max(moved, largest / unit)
    return np.array([largest, growth, moved, unsolved])


def _search(
    model: Model,
    data: Sequence[AgentRows],
    exchange: Consensus,
    theta: Floats,
    way: Floats,
    changes: Sequence[Floats],
    change: float,
) -> float:
    """The length of the step; see the top of this file."""
    lengths = np.unique(
        np.append(0.5 ** np.arange(np.ceil(np.log2(change))), 1 / change)
    )  # from short to long
    points = np.append(0.0, lengths)
    slopes = np.empty((len(data), 1 + len(points)))
    with np.errstate(all="ignore"):
        for i, rows in enumerate(data):
            start = model.predictors(theta[i], rows.x)
            slopes[i, 0] = len(rows.y)
            for k, length in enumerate(points):
                along = model.family.slopes(start + length * changes[i], rows.y) * changes[i]
                slopes[i, 1 + k] = along.sum()
    slopes = np.clip(np.nan_to_num(slopes, nan=1e100, posinf=1e100, neginf=-1e100), -1e100, 1e100)
    held = exchange.average(slopes, _SEARCH_ACCURACY)
    held = held[:, 1:] / held[:, :1]
    pull = model.penalty * way
    held = held + (pull * theta).sum(axis=1)[:, None] + np.outer((pull * way).sum(axis=1), points)
    bound = np.cumsum(np.diff(points) * held[:, 1:], axis=1)
    enough = bound <= _PROMISE * lengths * held[:, :1]
    chosen = np.where(enough, lengths, lengths[0]).max(axis=1)
    return float(-exchange.largest(-chosen[:, None])[0])


def _singular(model: Model, curvature: Floats, first: bool) -> InvalidInput:
    """Why a step cannot be computed: a covariate that nobody varies, or curvature that has vanished."""
    size = np.sqrt(np.maximum(np.diag(curvature), 0.0))
    safe = np.where(size > 0, size, 1.0)
    _, vectors = np.linalg.eigh(curvature / np.outer(safe, safe))
    unseen = size == 0
    direction = unseen.astype(float) if unseen.any() else vectors[:, 0] / safe
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    words = in_words(direction, model.names)
    if first:
        return InvalidInput(
            f"nobody's rows vary along the direction {words}: the curvature must be invertible, but it is singular "
            "along it; drop one of these covariates, or add a ridge penalty"
        )
    return InvalidInput(
        f"the curvature has vanished along the direction {words}: the labels do not determine it; "
        "add a ridge penalty"
    )


def _receding(model: Model, way: Floats) -> InvalidInput:
    return InvalidInput(
        f"the labels are separable: there is no finite estimate, because the loss falls forever along the direction "
        f"{in_words(way, model.names)}; add a ridge penalty (ridge=1e-4, say), or drop what separates them"
    )
