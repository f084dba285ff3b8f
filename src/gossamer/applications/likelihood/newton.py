"""Newton's method for stored rows: every agent finds the fit to the rows of all agents, and no row leaves its agent.

Newton's direction comes from averages over the network (`directions.py`); this file decides how far to step and when to
stop.

How far to step. The curvature of a sample changes by at most a factor e when its predictor changes by `reach` (1 for
all families here except Huber's), so a step that changes no predictor by more than that lowers the loss. The agents
find the largest change by forwarding the largest number they have received. Only if it is larger do they search: they
average the slopes of the loss along the step at lengths 1, 1/2, 1/4, ... down to the safe one. Slopes of a convex
function increase, so sums of (length x slope at the far end) are an upper bound on the change of the loss. They take
the longest step whose bound is at least a tenth of the decrease that the initial slope predicts; if agents disagree,
the shortest. So all agents take the same step, and the loss falls. The reach of a user-defined family is unknown, so
all of its steps are searched.

The Huber loss is not smooth enough for that. Its curvature is replaced by that of the parabola that touches it from
above, so that every full step lowers the loss, at a linear rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from gossamer.applications.likelihood.agent import FittingAgent, Frame, agree_on_frame
from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.likelihood.directions import (
    LARGEST_CHOLESKY,
    Cholesky,
    ConjugateGradients,
    Direction,
    Directions,
)
from gossamer.applications.likelihood.local import check_own
from gossamer.applications.likelihood.rows import AgentRows, Model, spread_over
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.least_squares import in_words

SOLVERS: dict[str, type[Directions]] = {"newton-cholesky": Cholesky, "newton-cg": ConjugateGradients}

_NOISE = 30.0
"""An average may be off by this multiple of its accuracy."""

_PROMISE = 0.1
"""A step is long enough if the loss falls by this share of the decrease that its slope predicts."""

_SHORTEST = 2.0**-20
_STALLED = 5
"""Number of steps without progress after which a fit ends."""

_NEAR = 1e-3
"""Changes of predictors that count as near the minimum, in units of the change that single rows would need."""

_EVERY = 3
"""Number of steps between checks for separable labels."""

_FAR = 1e3
"""Predictors that exceed the labels by this factor count as infinite."""

_FLAT = 1e-6
"""Rows whose share of the largest change is below this do not contradict a direction."""


class NewtonStep(NamedTuple):
    """The state of the agents after a step: theta (N, p), scales (N,) and the cost so far."""

    theta: Floats
    scale: Floats
    length: float
    moved: float
    rounds: int
    bytes: int


class Shared(NamedTuple):
    """What all agents know about a step, as maxima over the network.

    change    change of a predictor (of several, of their differences)
    relative  the same in units of the change that single rows would need
    free      change of a predictor by the part of the step that has no penalty
    moved     how far parameters move, relative to their size
    unsolved  1 if an agent could not compute a direction
    size      sum of curvatures
    """

    change: float
    relative: float
    free: float
    moved: float
    unsolved: float
    size: float


def solver_for(model: Model) -> str:
    """Return the solver that sends less; a lasso and local parameters need the curvature itself."""
    small = len(model.penalty) <= LARGEST_CHOLESKY or model.lasso is not None or model.local is not None
    return "newton-cholesky" if small else "newton-cg"


def newton(
    model: Model,
    data: Sequence[AgentRows],
    exchange: Consensus,
    *,
    tolerance: float,
    most: int,
    solver: str | None = None,
    start: Floats | None = None,
) -> Iterator[NewtonStep]:
    """Take Newton steps until no estimate moves by more than `tolerance` times its size.

    They begin at `start`, (N, p), or at zero slopes. If rounding keeps moving estimates near the minimum, the search
    stops after `_STALLED` steps without a shorter one.
    """
    frame = agree_on_frame(model, data, exchange)
    starts = [None] * len(data) if start is None else list(start)
    agents = spread_over(lambda rows, at: FittingAgent(model, rows, frame, at), data, starts)
    directions = SOLVERS[solver or solver_for(model)](model, exchange)
    ending = _Ending(tolerance)
    waits = 0
    for step in range(most):
        ways = directions.ways(agents)
        changes = spread_over(FittingAgent.changes, agents, [one.way for one in ways])
        scales = [_next_scale(model, agent, one, frame) for agent, one in zip(agents, ways, strict=True)]
        parts = zip(agents, ways, changes, scales, strict=True)
        shared = Shared(*exchange.largest(np.stack([_measures(model, *part) for part in parts])).tolist())
        if shared.unsolved:  # an average may not be accurate enough yet: average once more
            waits += 1
            if waits > _STALLED:
                raise _singular(model, ways, first=step == _STALLED)
            continue
        waits = 0
        directions.note_size(shared.size)
        if model.local is not None:
            check_own(model, agents, [one.way for one in ways], exchange)
        # Near a minimum labels cannot be separable, and checking takes rounds.
        if shared.change > 0.1 and shared.free > 0 and step % _EVERY == _EVERY - 1:
            _refuse_receding(model, agents, ways, exchange, shared.free)
        length = 1.0
        if shared.change > model.family.reach:
            length = _search(model, agents, ways, changes, exchange, shared.change)
        for agent, one, change, scale in zip(agents, ways, changes, scales, strict=True):
            agent.move(one.way, change, length)
            if scale != agent.scale:
                agent.set_scale(scale)
        theta = frame.original(model, np.stack([agent.theta for agent in agents]))
        used = np.array([agent.scale for agent in agents])
        yield NewtonStep(theta, used, length, shared.moved, exchange.rounds, exchange.bytes)
        if ending.reached(shared):
            return
    raise InvalidInput(
        f"no minimum was reached after {most} of Newton's steps: the last one still moved estimates by "
        f"{shared.moved:.3g} of their size; add a ridge penalty, rescale the covariates, or allow more steps"
    )


class _Ending:
    """Decides when to stop: when steps are short enough, or rounding keeps them from becoming shorter."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.shortest = np.inf
        self.since = 0

    def reached(self, shared: Shared) -> bool:
        if shared.moved < self.shortest:
            self.shortest, self.since = shared.moved, 0
        else:
            self.since += 1
        return shared.moved <= self.tolerance or (shared.relative < _NEAR and self.since == _STALLED)


def _next_scale(model: Model, agent: FittingAgent, direction: Direction, frame: Frame) -> float:
    if not model.family.scale_terms:
        return agent.scale
    finest = 1e-12 * frame.scale  # rounding errors of residuals if labels are fitted exactly
    return max(model.family.next_scale(agent.scale, direction.terms), finest)


def _measures(
    model: Model, agent: FittingAgent, direction: Direction, changes: Floats, scale: float
) -> Floats:
    """Return one agent's part of `Shared`."""
    spread = changes.max(axis=0) - changes.min(axis=0) if len(changes) > 1 else np.abs(changes)
    change = float(spread.max(initial=0.0))
    free = 0.0
    if np.any(model.free):
        way = direction.way * model.free
        along = np.abs(changes if np.all(model.free) else agent.changes(way))
        farthest = float(along.max(initial=0.0))
        largest = float((np.abs(way) * direction.spreads).max())
        free = farthest if farthest > 1e-10 * largest else 0.0  # zero if it is only rounding
    unit = min(direction.unit, model.family.reach or np.inf)
    slopes = (np.abs(agent.theta) * direction.spreads).reshape(model.family.outputs, -1)
    size = slopes[:, : slopes.shape[1] - model.intercept].max(initial=0.0)
    moved = float((np.abs(direction.way) * direction.spreads).max())
    moved /= max(unit + size, agent.finest, 1e-300)
    moved = max(moved, abs(scale / agent.scale - 1))
    return np.array(
        [change, change / max(unit, 1e-300), free, moved, direction.unknown is not None, agent.head()[2]]
    )


def _search(
    model: Model,
    agents: Sequence[FittingAgent],
    directions: Sequence[Direction],
    changes: Sequence[Floats],
    exchange: Consensus,
    change: float,
) -> float:
    """Return the length of the step; see the top of this file."""
    known = model.family.reach > 0
    shortest = min(model.family.reach / change if known else _SHORTEST, 0.5)
    halves = 0.5 ** np.arange(np.ceil(-np.log2(shortest)))
    some, every = np.array([0.5, 1.0]), np.unique(np.append(halves, shortest))  # from short to long
    accuracy = 1e-6 if known else 1e-8  # with a reach, only steps far from the minimum need a search
    for lengths in (every,) if known else (some, every):
        points = np.append(0.0, lengths)
        slopes = np.stack(
            spread_over(FittingAgent.slopes_along, agents, changes, repeat(points, len(agents)))
        )
        held = exchange.average(slopes, accuracy)
        noise, held = _NOISE * accuracy * held[:, 1:2] / held[:, :1], held[:, 2:] / held[:, :1]
        for k, (agent, one) in enumerate(zip(agents, directions, strict=True)):
            pull = model.family.penalty_factor(agent.scale) * model.penalty * one.way
            held[k] += pull @ agent.theta + points * (pull @ one.way)
        bound, promised = np.cumsum(np.diff(points) * held[:, 1:], axis=1), held[:, :1]
        if model.lasso is not None:
            places = [
                agent.theta + np.outer(points, one.way) for agent, one in zip(agents, directions, strict=True)
            ]
            norms = np.abs(np.stack(places)) @ model.lasso
            bound = bound + norms[:, 1:] - norms[:, :1]
            promised = promised + norms[:, -1:] - norms[:, :1]
        enough = bound <= lengths * (_PROMISE * promised + noise)
        chosen = np.where(enough, lengths, lengths[0]).max(axis=1)
        length = float(-exchange.largest(-chosen[:, None])[0])
        if length == 1.0:
            break
    return length


def _singular(model: Model, directions: Sequence[Direction], *, first: bool) -> InvalidInput:
    """Return why a step cannot be computed: a covariate that is constant in all rows, or a vanished curvature."""
    direction = next(one.unknown for one in directions if one.unknown is not None)
    words = in_words(direction, model.names)
    if first:
        return InvalidInput(
            f"no agent's rows vary along the direction {words}: the curvature must be invertible, but it is singular "
            "along it; drop one of these covariates, or add a ridge penalty"
        )
    return InvalidInput(
        f"the curvature has vanished along the direction {words}: the labels do not determine it; "
        "add a ridge penalty"
    )


def _refuse_receding(
    model: Model,
    agents: Sequence[FittingAgent],
    directions: Sequence[Direction],
    exchange: Consensus,
    farthest: float,
) -> None:
    """Raise an error if the loss falls forever along the part of the step that has no penalty.

    Changes are compared with the largest in the network: an agent whose rows hardly change along the direction, because
    they lack the covariates that separate the labels, does not contradict it.
    """
    ways = [one.way * model.free for one in directions]
    growths = np.array(spread_over(lambda agent, way: agent.growth(way, farthest, _FAR), agents, ways))
    if not model.family.reach:  # the loss has a unit
        growths /= [max(one.slope, 1e-300) for one in directions]
    if exchange.largest(growths[:, None])[0] > _FLAT:
        return
    words = in_words(ways[0], model.names)
    raise InvalidInput(
        f"the labels are separable: there is no finite estimate, because the loss falls forever along the direction "
        f"{words}; add a ridge penalty (ridge=1e-4, say), or drop what separates them"
    )
