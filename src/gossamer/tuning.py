"""Tuning: the parameters with which a method's exact error is least.

The error has many local minima, so the search begins with a grid over all parameters and goes on from the best points
that have no better neighbor. It looks at a few dozen eigenvalues that stand for all; only the finish looks at all of
them. A parameter that says where an average begins (a burn-in) costs nothing: one pass gives the error for all its
values (see `Method.averages_since`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from gossamer import checks, theory
from gossamer.arrays import Floats
from gossamer.engines.exact import Measure, Pass, WindowedPass, analyzable, integrate, measure, summing
from gossamer.engines.horizons import check_table
from gossamer.engines.results import ErrorResult
from gossamer.errors import Unsupported
from gossamer.methods import Method, Tunable, tabulate
from gossamer.networks import Network
from gossamer.observations import Observations, check_match

NODES = 32
"""Eigenvalues that stand for all of them until the finish."""

POINTS = {1: 60, 2: 24, 3: 13}
"""Points of the grid along each of so many parameters; OTHERWISE for more."""
OTHERWISE = 6

STARTS, FINISHERS = 8, 2
"""From so many points of the grid the search goes on, and from so many of what it finds it is finished."""


@dataclass(frozen=True, kw_only=True)
class Tuned(ErrorResult[int, float]):
    """A method with the parameters that minimize the exact error, next to the total error it started from."""

    method: Method
    before: float


def tune(
    method: Method | str,
    network: Network,
    observations: Observations,
    rounds: int,
    parameters: Sequence[str] | str | None = None,
) -> Tuned:
    """Choose the parameters that minimize the exact error after `rounds`: burn-in, step size, momentum, smoothing.

    `parameters` names the ones to choose; by default all that the method's `tunable` lists. The result is never
    worse than the method as it was given.
    """
    method = analyzable(method)
    check_match(network, observations)
    rounds = checks.rounds(rounds)
    check_table(method, rounds)
    known = method.tunable(network, rounds)
    names = list(known) if parameters is None else [parameters] if isinstance(parameters, str) else parameters
    for name in names:
        if name not in known:
            raise Unsupported(
                f"{method.name} has no parameter {name!r} to tune; it has {', '.join(known) or 'none'}"
            )
    if not names:
        raise Unsupported(f"{method.name} has no parameters to tune")
    over = measure(network, observations)
    task = _Task(method, network, observations, rounds, {name: known[name] for name in names})
    before = task.error(method, over)
    found = task.search(over.thinned(NODES), over)
    least = task.error(found, over)
    if not least < before:
        found, least = method, before
    return Tuned(
        method=found,
        agents=network.agents,
        rounds=rounds,
        total_error=least,
        centralized_limit=theory.centralized_limit(observations, rounds),
        before=before,
    )


class _Found(NamedTuple):
    error: float
    point: tuple[float, ...]
    method: Method


@dataclass(frozen=True)
class _Task:
    """What is to be tuned, and on what problem."""

    method: Method
    network: Network
    observations: Observations
    rounds: int
    parameters: Mapping[str, Tunable]

    @cached_property
    def window(self) -> str | None:
        """The parameter that is the first round of an average, if there is one: all its values come at once."""
        for name, bounds in self.parameters.items():
            if bounds.whole and np.isfinite(bounds.most):
                ends = (int(bounds.least), int(bounds.most))
                if all(self._with({name: k}).averages_since(self.rounds) == k for k in ends):
                    return name
        return None

    @cached_property
    def axes(self) -> list[_Axis]:
        return [_Axis(name, bounds) for name, bounds in self.parameters.items() if name != self.window]

    def _with(self, values: Mapping[str, float]) -> Any:
        return replace(self.method, **values)  # type: ignore[type-var]

    def error(self, candidate: Method, over: Measure) -> float:
        """The exact error of a candidate; infinite where it diverges."""
        one = np.array([self.rounds])
        table = tabulate(candidate, self.network, self.rounds)
        return float(self._errors(Pass(table, np.zeros(1, np.int64), one), over)[0])

    def at(self, point: Sequence[float], over: Measure) -> _Found:
        """The best candidate at a point of the axes."""
        candidate = self._with(
            {axis.name: axis.decode(x) for axis, x in zip(self.axes, point, strict=True)}
        )
        if self.window is not None:
            bounds = self.parameters[self.window]
            starts = np.arange(int(bounds.least), int(bounds.most) + 1)
            first = replace(candidate, **{self.window: int(starts[0])})
            found = summing(tabulate(first, self.network, self.rounds), int(starts[0]))
            if found is not None:
                table, register = found
                ends = np.full(len(starts), self.rounds)
                errors = self._errors(
                    WindowedPass(table, np.arange(len(starts)), ends, starts, register), over
                )
                best = int(np.argmin(errors))
                chosen = replace(candidate, **{self.window: int(starts[best])})
                return _Found(float(errors[best]), tuple(point), chosen)
        return _Found(self.error(candidate, over), tuple(point), candidate)

    def _errors(self, each: Pass, over: Measure) -> Floats:
        with np.errstate(all="ignore"):
            found = integrate([each], self.network, self.observations, over)
            total = found.bias + found.variance
        return np.where(np.isfinite(total), total, np.inf)

    def search(self, thin: Measure, full: Measure) -> Method:
        """A grid, descents from its best points that have no better neighbor, and a finish with all eigenvalues."""
        if not self.axes:
            return self.at((), full).method
        own = tuple(axis.encode(getattr(self.method, axis.name)) for axis in self.axes)
        points = POINTS.get(len(self.axes), OTHERWISE)
        grids = [axis.grid(points) for axis in self.axes]
        errors = np.array([self.at(point, thin).error for point in itertools.product(*grids)])
        errors = errors.reshape([len(grid) for grid in grids])
        starts = [own, *(tuple(g[i] for g, i in zip(grids, at, strict=True)) for at in _minima(errors))]
        descents = [self.descend(start, thin, 1e-2, 60) for start in starts[:STARTS]]
        best = sorted(descents)[:FINISHERS]
        return min(self.descend(each.point, full, 1e-4, 200) for each in best).method

    def descend(self, start: Sequence[float], over: Measure, tolerance: float, steps: int) -> _Found:
        """Nelder-Mead on the logarithm of the error."""
        tried: list[_Found] = []

        def objective(point: Any) -> float:
            tried.append(self.at(tuple(np.asarray(point).tolist()), over))
            error = tried[-1].error
            return float(np.log(error)) if 0 < error < np.inf else 1e3

        simplex = np.array([start, *(start + 0.3 * unit for unit in np.eye(len(start)))])
        minimize(
            objective,
            start,
            method="Nelder-Mead",
            options={
                "initial_simplex": simplex,
                "xatol": tolerance,
                "fatol": tolerance / 10,
                "maxiter": steps * len(start),
            },
        )
        return min(tried, key=lambda found: found.error)


class _Axis:
    """A parameter in a coordinate in which every number is admissible: logit between two bounds, log above one."""

    def __init__(self, name: str, bounds: Tunable) -> None:
        self.name, self.bounds = name, bounds
        self.bounded = bool(np.isfinite(bounds.most))

    def encode(self, value: float | None) -> float:
        low, high = self.bounds.least, self.bounds.most
        value = (self.bounds.start if value is None else value) - low
        if self.bounded:
            return float(logit(np.clip(value / (high - low), 1e-6, 1 - 1e-9)))
        return float(np.log(max(value, 1e-9)))

    def decode(self, x: float) -> float:
        low, high = self.bounds.least, self.bounds.most
        value = low + ((high - low) * expit(x) if self.bounded else np.exp(np.clip(x, -300, 300)))
        return round(value) if self.bounds.whole else float(value)

    def grid(self, points: int) -> Floats:
        """Most of its points are near the start, or spread evenly between the bounds; a few go far beyond."""
        if self.bounded:
            return np.linspace(-4.0, 8.0, points)
        far = points // 3
        near = np.geomspace(0.05, 6.0, points - far)
        scale = np.concatenate([np.geomspace(1e-5, 0.03, far - far // 4), near, np.geomspace(9, 50, far // 4)])
        return np.asarray(self.encode(None) + np.log(scale))


def _minima(errors: Floats) -> Iterable[tuple[int, ...]]:
    """Positions of a grid that have no better neighbor, the best first."""
    padded = np.pad(errors, 1, constant_values=np.inf)
    middle = tuple(slice(1, -1) for _ in errors.shape)
    least = np.full(errors.shape, np.inf)
    for shift in itertools.product((-1, 0, 1), repeat=errors.ndim):
        if any(shift):
            here = tuple(slice(1 + s, padded.shape[k] - 1 + s) for k, s in enumerate(shift))
            least = np.minimum(least, padded[here])
    found = np.argwhere((padded[middle] <= least) & np.isfinite(errors))
    return [tuple(at) for at in sorted(found.tolist(), key=lambda at: float(errors[tuple(at)]))]
