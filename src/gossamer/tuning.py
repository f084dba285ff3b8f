"""Tuning: the parameters that minimize a method's exact error.

The error has many local minima, so the search starts with a grid over all parameters and continues from the best points
without a better neighbor. It uses a few dozen representative eigenvalues; only the final step uses all of them. A
parameter that says where an average begins (a burn-in) costs little: one pass gives the error for many of its values
(see `Method.averages_since`), and the final step examines all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from gossamer import checks, plotting, theory
from gossamer.arrays import Floats, Integers
from gossamer.engines.exact import (
    Measure,
    Pass,
    Runs,
    Sampler,
    WindowedPass,
    analyzable,
    exact,
    integrate,
    measures,
    summing,
)
from gossamer.engines.horizons import check_table
from gossamer.engines.results import StreamResult, spread_out
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods import Method, Tunable, tabulate, tabulate_all
from gossamer.networks import Network, NetworkLike
from gossamer.observations import Gaussian, Observations, check_match

NODES = 32
"""Number of eigenvalues that represent all of them until the final step."""

CANDIDATES = 4000
"""Approximate number of points of the grid; parameters without an upper bound get twice as many as the others."""

STARTS, STEPS, FINISHERS = 12, 16, 3
"""Number of points from which the search continues, number of its steps, and number of results for the final step."""

SPREAD = 40
"""Number of first rounds of an average that are examined together."""

Point = tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tuned(StreamResult[int, float]):
    """A method with the parameters that minimize the exact error, and the original method.

    Attributes
    ----------
    method, start : Method
        The method with the chosen parameters, and the original one.
    total_error, before : float
        The total error with the chosen parameters, and with the original ones.
    moved : bool
        Whether the parameters were chosen for shifted means, because the average of the given ones is about zero, where
        methods start.

    See Also
    --------
    tune : Computes it.
    Exact : The error with given parameters.

    Examples
    --------
    >>> tuned = gs.tune("sda", gs.Network.cycle(10), gs.Gaussian(np.arange(10.0)), rounds=100)
    >>> tuned.total_error < tuned.before
    True
    """

    start: Method
    before: float
    moved: bool = False

    columns = ("before",)
    shown = ("rounds", "before", "total_error", "over_limit")

    def _notes(self, which: int) -> Iterator[str]:
        yield from super()._notes(which)
        if self.moved:
            yield (
                "the means average to about zero, where the method starts, so that doing nothing would seem best: the "
                "parameters were chosen for means that are farther away"
            )

    def curves(self) -> list[plotting.Curve]:
        horizons = spread_out(max(1, self.rounds // 8), 2 * self.rounds)
        untuned = exact(self.start, self.network, self.observations, horizons)
        enough = horizons[[(self.method.averages_since(t) or 0) < t for t in horizons.tolist()]]
        tuned = exact(self.method, self.network, self.observations, enough)
        return [
            plotting.Curve(self.start.label, horizons, untuned.total_error),
            plotting.Curve(self.label, tuned.rounds, tuned.total_error),
            *untuned.curves()[1:],
        ]


def tune(
    method: Method | str,
    network: NetworkLike,
    observations: Observations,
    rounds: int,
    parameters: Sequence[str] | str | None = None,
) -> Tuned:
    """Choose the parameters that minimize the exact error after `rounds`: burn-in, step size, momentum, smoothing.

    The result is never worse than the original method. If the means average to about zero, where every method starts,
    doing nothing would be best; the parameters are then chosen for shifted means, and a note says so if that matters
    for this method.

    Parameters
    ----------
    method, network, observations, rounds
        The same as for `gs.exact`, with a single number of rounds.
    parameters : str or sequence of str, optional
        The parameters to choose; by default all in the method's `tunable`.

    See Also
    --------
    exact : The error with given parameters.
    plan : The rounds needed for a target error.

    Examples
    --------
    >>> tuned = gs.tune("sda", "cycle:10", gs.Gaussian(np.arange(10.0)), 100, parameters="burn_in")
    >>> tuned.method.burn_in
    11
    """
    method = analyzable(method)
    network = check_match(network, observations)
    rounds = checks.rounds(rounds)
    check_table(method, rounds)
    known = method.tunable(network, rounds)
    names = (
        list(known)
        if parameters is None
        else [parameters]
        if isinstance(parameters, str)
        else checks.listed("parameters", parameters)
    )
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise Unsupported(
                f"{method.name} has no parameter {name!r} to tune; it has {', '.join(known) or 'none'}"
            )
    if not known:
        raise Unsupported(f"{method.name} has no parameters to tune")
    if not names:
        raise InvalidInput(f"must name at least one of {', '.join(known)}, got none", parameter="parameters")
    moved = _away_from_the_start(observations, rounds)
    over = measures(network, moved)
    task = _Task(method, network, moved, rounds, {name: known[name] for name in names})
    before = task.error(method, over)
    full = over.fit([task.runs([method])])
    best = task.search(full.thinned(NODES), full)
    least = task.error(best, over)
    if not least < before:
        best, least = method, before
    if moved is not observations:
        task, over = replace(task, observations=observations), measures(network, observations)
        before, least = task.error(method, over), task.error(best, over)
    return Tuned(
        method=best,
        network=network,
        observations=observations,
        start=method,
        agents=network.agents,
        rounds=rounds,
        total_error=least,
        centralized_limit=theory.centralized_limit(observations, rounds),
        before=before,
        moved=moved is not observations and _remembers_its_start(method, network),
    )


AWAY = 10.0
"""How far means that average to zero are moved, in units of the size of an observation. Parameters tuned there are as
good for other means (D-ASG on a cycle of 20, 200 rounds, error over the limit for averages 0, 1, 100: 1.109, 1.109,
1.109), while those tuned at a distance of 1 are not (1.108, 1.109, 4.365)."""


def _away_from_the_start(observations: Observations, rounds: int) -> Observations:
    """Return the same streams, or streams with larger means if a constant answer of 0 would beat a center.

    All registers start at zero, so primal methods would be tuned to stay there, with a step size of zero.
    """
    center = observations.mean.mean(axis=0)
    nothing = observations.agents * float(center @ center)
    if observations.moving or np.any(observations.drift):
        return observations
    if nothing > theory.centralized_limit(observations, rounds):
        return observations
    size = math.sqrt(float((observations.variance + (observations.mean - center) ** 2).mean())) or 1.0
    return Gaussian(observations.mean + AWAY * size, np.sqrt(observations.variance))


def _remembers_its_start(method: Method, network: Network) -> bool:
    """Return whether the answers after a round depend on the initial registers; averages of observations do not."""
    try:
        response, _ = Runs.of(tabulate(method, network, 1), 1).propagate(np.zeros(1))
    except InvalidInput:  # it needs more rounds
        return False
    return not math.isclose(response[0, 0, 0], 1.0)


class _Window(NamedTuple):
    """The parameter that is the first round of an average: one pass serves many of its values."""

    name: str
    first: int
    last: int
    register: int  #: that holds the average

    def spread(self, low: int, high: int) -> Integers:
        """Return some of the first rounds from `low` to `high`, denser near both ends."""
        if high - low < SPREAD:
            return np.arange(low, high + 1)
        most = np.log(high - low)
        inner = low + np.round((high - low) * expit(np.linspace(-most, most, SPREAD - 2))).astype(int)
        return np.unique([low, *inner, high])


class _Candidate(NamedTuple):
    error: float
    point: Point
    method: Method


@dataclass(frozen=True)
class _Task:
    """The method to tune, its parameters, and the problem."""

    method: Method
    network: Network
    observations: Observations
    rounds: int
    parameters: Mapping[str, Tunable]

    @cached_property
    def window(self) -> _Window | None:
        for name, bounds in self.parameters.items():
            if bounds.whole and np.isfinite(bounds.most):
                first, last = int(bounds.least), int(bounds.most)
                if all(
                    _changed(self.method, {name: k}).averages_since(self.rounds) == k for k in (first, last)
                ):
                    table = tabulate(_changed(self.method, {name: first}), self.network, self.rounds)
                    summed = summing(table, self.rounds, first)
                    if summed is None or np.ptp(table.batches) > 0:
                        return None
                    return _Window(name, first, last, summed[1])
        return None

    @cached_property
    def axes(self) -> list[_ParameterAxis]:
        averaged = self.window.name if self.window else None
        return [_ParameterAxis(name, bounds) for name, bounds in self.parameters.items() if name != averaged]

    @property
    def scales(self) -> Floats:
        """Typical distance along each axis between two values that differ substantially."""
        return np.array([4.0 if axis.bounded else 1.0 for axis in self.axes])

    def error(self, candidate: Method, over: Measure | Sampler) -> float:
        """Return the exact error of a candidate, or its upper end; infinite if it diverges."""
        runs = self.runs([candidate])
        return float(self._errors(runs, over.fit([runs]))[0])

    def runs(self, candidates: Sequence[Method]) -> Runs:
        return Runs.of(tabulate_all(candidates, self.network, self.rounds), self.rounds)

    def at(self, points: Sequence[Point], over: Measure) -> list[_Candidate]:
        """Return the best candidate at each of several points of the axes."""
        candidates: list[_Candidate] = []
        for start in range(0, len(points), self.batch):
            candidates += self._at(points[start : start + self.batch], over)
        return candidates

    @property
    def batch(self) -> int:
        """Number of candidates that are evaluated together, in a few dozen megabytes."""
        if self.window:
            return 2**20 // (NODES * SPREAD)
        return max(1, 2**20 // self.rounds // len(self.method.State._fields) ** 2)

    def _at(self, points: Sequence[Point], over: Measure) -> list[_Candidate]:
        if self.window:
            return self._averaged(points, over, self.window.spread(self.window.first, self.window.last))
        candidates = [self._candidate(point) for point in points]
        errors = self._errors(self.runs(candidates), over)
        return [*map(_Candidate, errors.tolist(), points, candidates)]

    def _candidate(self, point: Point) -> Method:
        values = {axis.name: axis.decode(x) for axis, x in zip(self.axes, point, strict=True)}
        return _changed(self.method, values | ({self.window.name: self.window.first} if self.window else {}))

    def _averaged(self, points: Sequence[Point], over: Measure, starts: Integers) -> list[_Candidate]:
        """Return the best candidate at each of several points if the average may begin in any of `starts`."""
        assert self.window
        candidates = [self._candidate(point) for point in points]
        only = slice(self.window.first, self.window.first + 1)
        table = tabulate_all(candidates, self.network, self.rounds, piece=only)
        table.step_state[:, self.window.register, self.window.register] = 1.0  # sum up what is averaged
        errors = self._errors(Runs.of(table, self.rounds, starts, self.window.register), over)
        errors = errors.reshape(len(points), len(starts))
        best = np.argmin(errors, axis=1)
        return [
            _Candidate(float(errors[k, w]), point, _changed(method, {self.window.name: int(starts[w])}))
            for k, (point, method, w) in enumerate(zip(points, candidates, best.tolist(), strict=True))
        ]

    def closer(self, best: _Candidate, over: Measure) -> _Candidate:
        """Refine the first round of the average in ever smaller steps around the best one so far."""
        if not self.window:
            return best
        low, high = self.window.first, self.window.last
        while True:
            starts = self.window.spread(low, high)
            at = int(np.searchsorted(starts, getattr(best.method, self.window.name)))
            low, high = int(starts[max(at - 1, 0)]), int(starts[min(at + 1, len(starts) - 1)])
            if high - low <= 2:
                return best
            best = min(best, *self._averaged([best.point], over, self.window.spread(low, high)), key=_error)

    def settled(self, best: _Candidate, over: Measure) -> Method:
        """Return the method of the best candidate, with the best of all first rounds of the average."""
        if not self.window:
            return best.method
        candidate, starts = self._candidate(best.point), np.arange(self.window.first, self.window.last + 1)
        summed = summing(tabulate(candidate, self.network, self.rounds), self.rounds, self.window.first)
        if summed is None:
            return best.method
        ends = np.full(len(starts), self.rounds)
        errors = self._errors(WindowedPass(summed[0], np.arange(len(starts)), ends, starts, summed[1]), over)
        return _changed(candidate, {self.window.name: int(starts[np.argmin(errors)])})

    def _errors(self, runs: Pass, over: Measure) -> Floats:
        with np.errstate(all="ignore"):
            parts = integrate([runs], self.network, self.observations, over)
            total = parts.bias + parts.variance + 2 * parts.uncertainty
        return np.where(np.isfinite(total), total, np.inf)

    def search(self, thin: Measure, full: Measure) -> Method:
        """Search a grid, descend from its best local minima, and finish with all eigenvalues."""
        if not self.axes:
            return self.settled(self.at([()], full)[0], full)
        own = tuple(axis.encode(getattr(self.method, axis.name)) for axis in self.axes)
        shares = [1 if axis.bounded else 2 for axis in self.axes]
        points = min((CANDIDATES / np.prod(shares)) ** (1 / len(shares)), 50)
        grids = [axis.grid(round(share * points)) for axis, share in zip(self.axes, shares, strict=True)]
        errors = np.array([candidate.error for candidate in self.at(list(itertools.product(*grids)), thin)])
        errors = errors.reshape([len(grid) for grid in grids])
        starts = [tuple(float(g[i]) for g, i in zip(grids, at, strict=True)) for at in _minima(errors)]
        best = self.descend([own, *starts[: STARTS - 1]], thin)
        finished = min((self.finish(candidate.point, full) for candidate in best[:FINISHERS]), key=_error)
        return self.settled(finished, full)

    def descend(self, starts: Sequence[Point], over: Measure) -> list[_Candidate]:
        """Step from each start to the best of its neighbors, and return the results, best first.

        Steps grow while the error falls, and shrink when it does not.
        """
        current = self.at(starts, over)
        sizes = np.full(len(current), 0.5)
        ways = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=len(self.axes))))
        ways = ways[ways.any(axis=1)] * self.scales
        for _ in range(STEPS):
            around = [
                tuple((np.array(candidate.point) + size * way).tolist())
                for candidate, size in zip(current, sizes, strict=True)
                for way in ways
            ]
            tried = self.at(around, over)
            for k, before in enumerate(current):
                best = min(tried[k * len(ways) : (k + 1) * len(ways)], key=_error)
                if best.error < before.error:
                    current[k] = best
                    sizes[k] *= 1.5
                else:
                    sizes[k] /= 2.5
        return sorted(current, key=_error)

    def finish(self, start: Point, over: Measure) -> _Candidate:
        """Minimize the logarithm of the error by Nelder and Mead's method."""
        tried: list[_Candidate] = []

        def objective(point: Floats) -> float:
            tried.append(self.closer(self.at([tuple(point.tolist())], over)[0], over))
            error = tried[-1].error
            return float(np.log(error)) if 0 < error < np.inf else 1e3

        simplex = np.array([start, *(start + 0.1 * unit for unit in np.diag(self.scales))])
        minimize(
            objective,
            start,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "xatol": 1e-3, "fatol": 1e-6, "maxiter": 100 * len(start)},
        )
        return min(tried, key=_error)


def _changed(method: Method, values: Mapping[str, float]) -> Method:
    """Return the method with other values of some parameters."""
    return replace(method, **values)  # type: ignore[type-var]


def _error(candidate: _Candidate) -> float:
    return candidate.error


class _ParameterAxis:
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
        """Return points between the bounds, denser near the upper one, where accelerations are.

        Without an upper bound, most of them are near the start, and the others far below and above it.
        """
        if self.bounded:
            return np.linspace(-4.0, 14.0, points)
        below, above = points // 4, points // 16
        near = np.geomspace(0.05, 6.0, points - below - above)
        scale = [np.geomspace(1e-5, 0.04, below), near, np.geomspace(9.0, 50.0, above)]
        return np.asarray(self.encode(None) + np.log(np.concatenate(scale)))


def _minima(errors: Floats) -> Iterable[tuple[int, ...]]:
    """Return the local minima of a grid, best first."""
    padded = np.pad(errors, 1, constant_values=np.inf)
    middle = tuple(slice(1, -1) for _ in errors.shape)
    least = np.full(errors.shape, np.inf)
    for shift in itertools.product((-1, 0, 1), repeat=errors.ndim):
        if any(shift):
            shifted = tuple(slice(1 + s, padded.shape[k] - 1 + s) for k, s in enumerate(shift))
            least = np.minimum(least, padded[shifted])
    minima = np.argwhere((padded[middle] <= least) & np.isfinite(errors))
    return [tuple(at) for at in sorted(minima.tolist(), key=lambda at: float(errors[tuple(at)]))]
