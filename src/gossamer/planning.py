"""Planning: rounds, samples and messages for a target error, and parameters that make the error least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from scipy.optimize import minimize

from gossamer import checks, plotting, theory
from gossamer.arrays import Floats, Integers
from gossamer.engines.exact import Exact, analyzable, every_round, exact
from gossamer.engines.results import StreamResult, over_limit
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods import AnytimeSDA, Method, Tunable, resolve
from gossamer.networks import Graph, Network, NetworkLike
from gossamer.numerics.search import first_true
from gossamer.observations import Observations, check_match
from gossamer.results import Record, Result

LOOK_BACK = 64
"""Where the error is not computed for every T, this many horizons before the answer are checked to miss the target."""

MOST_ROUNDS = 1_000_000

ROUNDING = 1e-12
"""The same error computed forward and backward differs in the last digits; a target is met up to these."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan(Result):
    """What a target error costs. samples are per agent; messages and bytes are those of the whole network."""

    method: Method
    network: Network
    observations: Observations
    target: float
    rounds: int | None  #: None: the target is out of reach, see `note`
    total_error: float  #: after those rounds, or at the end of the search
    centralized_limit: float
    samples: float
    messages: float
    bytes: float
    note: str = ""

    shown = ("target", "rounds", "samples", "messages", "bytes", "over_limit", "note")

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.method.label} on {self.network.name}"

    @property
    def reached(self) -> bool:
        return self.rounds is not None

    @property
    def mse(self) -> float:
        """The total error's mean over the agents."""
        return self.total_error / self.network.agents

    @property
    def over_limit(self) -> float:
        """The total error as a multiple of the centralized limit; infinite where that is 0."""
        return over_limit(self.total_error, self.centralized_limit)

    def records(self) -> list[Record]:
        """One row; a plan that misses its target has an error but no costs."""
        costs = ("samples", "messages", "bytes")
        return [
            {
                "network": self.network.name,
                "method": self.method.label,
                "target": self.target,
                "rounds": self.rounds,
                **{name: getattr(self, name) if self.reached else None for name in costs},
                "total_error": self.total_error,
                "mse": self.mse,
                "centralized_limit": self.centralized_limit,
                "over_limit": self.over_limit,
                "note": self.note,
            }
        ]

    def plot(self, ax: Any = None) -> Any:
        """The error on the way to the target, and the target."""
        end = self.rounds or 2 * max(64, self.network.agents)
        course = exact(self.method, self.network, self.observations, _spread_out(1, end))
        goal = plotting.Curve("target", course.rounds, np.full(len(course.rounds), self.target), limit=True)
        ax = plotting.draw_errors(ax, [*course.curves(), goal], self.title)
        if self.reached:
            ax.plot([self.rounds], [self.total_error], "o", color=plotting.RED, zorder=5)
        return ax


class Plans(list[Plan], Result):
    """Several plans, one per combination that was asked for."""

    title = "What a target error costs"
    shown = ("network", "method", *Plan.shown)
    __repr__ = Result.__repr__

    def records(self) -> list[Record]:
        return [record for plan in self for record in plan.records()]

    def plot(self, ax: Any = None) -> Any:
        """Rounds needed against the target, a panel for each network (then `ax` is one axes for each)."""
        networks = list(dict.fromkeys(plan.network.name for plan in self))
        axes = plotting.panels(networks) if ax is None else list(np.atleast_1d(ax))
        for panel, name in zip(axes, networks, strict=True):
            plans = [plan for plan in self if plan.network.name == name]
            curves = []
            for method in dict.fromkeys(plan.method.label for plan in plans):
                mine = sorted((p.target, p.rounds or np.nan) for p in plans if p.method.label == method)
                curves.append(plotting.Curve(method, *np.array(mine).T))
            plotting.draw_curves(panel, curves, "rounds needed", "target error")
        plotting.legend(axes)
        return axes[0] if len(axes) == 1 else axes

    def cheapest(self, by: str = "rounds") -> Plan:
        """The plan with the least "rounds", "samples", "messages" or "bytes" among those that reach their target."""
        if by not in ("rounds", "samples", "messages", "bytes"):
            raise InvalidInput(f"by must be rounds, samples, messages or bytes, got {by!r}")
        reached = [plan for plan in self if plan.reached]
        if not reached:
            raise InvalidInput(
                "none of these plans reaches its target: " + "; ".join(plan.note for plan in self)
            )
        return min(reached, key=lambda plan: float(getattr(plan, by)))


SeveralNetworks = list[NetworkLike] | list[Network] | tuple[NetworkLike, ...]
SeveralTargets = list[float] | tuple[float, ...] | Floats
SeveralMethods = list[Method] | list[str] | list[Method | str] | tuple[Method | str, ...]


@overload
def plan(
    network: NetworkLike,
    observations: Observations,
    target: float,
    method: Method | str | None = ...,
    *,
    most_rounds: int = ...,
) -> Plan: ...
@overload
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Observations,
    target: float | SeveralTargets,
    method: SeveralMethods,
    *,
    most_rounds: int = ...,
) -> Plans: ...
@overload
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Observations,
    target: SeveralTargets,
    method: Method | str | SeveralMethods | None = ...,
    *,
    most_rounds: int = ...,
) -> Plans: ...
@overload
def plan(
    network: SeveralNetworks,
    observations: Observations,
    target: float | SeveralTargets,
    method: Method | str | SeveralMethods | None = ...,
    *,
    most_rounds: int = ...,
) -> Plans: ...
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Observations,
    target: float | SeveralTargets,
    method: Method | str | SeveralMethods | None = None,
    *,
    most_rounds: int = MOST_ROUNDS,
) -> Plan | Plans:
    """Return the smallest number of rounds with total error <= target, and what it costs.

    One network, target and method give a `Plan`; sequences of any of them give `Plans`, one per combination,
    with `.cheapest(by=...)`. The default method is AnytimeSDA.

    For methods that do not depend on the horizon every T is examined. For the others (SDA with its burn-in of
    T/2, for example) the answer is found by doubling and bisection, and the `LOOK_BACK` horizons before it are checked
    to miss the target.
    """
    networks, one_network = _listed(network, (Network, Graph, str))
    if isinstance(target, str) or target is None:
        raise InvalidInput(f"target must be a number or several, got {target!r}")
    targets, one_target = _listed(target, (float, int, np.number))
    methods, one_method = _listed(AnytimeSDA() if method is None else method, (Method, str))
    plans = Plans(
        _plan(Network.of(n), observations, float(t), m, most_rounds)
        for n in networks
        for t in targets
        for m in methods
    )
    if not (one_network and one_target and one_method):
        return plans
    if not plans[0].reached:
        raise InvalidInput(plans[0].note)
    return plans[0]


def _listed(value: Any, one: type | tuple[type, ...]) -> tuple[list[Any], bool]:
    """The value as a list, and whether it was a single one."""
    return ([value], True) if isinstance(value, one) else (list(value), False)


def _plan(
    network: Network, observations: Observations, target: float, method: Method | str, most: int
) -> Plan:
    method = analyzable(method)
    checks.number("target", target, above=0)
    checks.whole_number("most_rounds", most, least=1)
    rounds = _first(method, network, observations, target, most)
    found = exact(method, network, observations, most if rounds is None else rounds)
    costs = (found.samples, found.messages, found.messages * 8 * observations.components)
    note = ""
    if rounds is None:
        costs = (np.inf, np.inf, np.inf)
        note = (
            f"{method.label} does not reach an error of {target:g} within {most} rounds "
            f"(there it is {found.total_error:.3g}); allow more rounds or samples, or use another method"
            if np.isfinite(found.total_error)
            else f"{method.label} diverges on {network.name}; give it other parameters, or use another method"
        )
    return Plan(
        method=method,
        network=network,
        observations=observations,
        target=target,
        rounds=rounds,
        total_error=found.total_error,
        centralized_limit=found.centralized_limit,
        samples=costs[0],
        messages=costs[1],
        bytes=costs[2],
        note=note,
    )


def _first(
    method: Method, network: Network, observations: Observations, target: float, most: int
) -> int | None:
    """The smallest T up to `most` whose total error is at most `target`."""
    if not method.anytime:
        return _first_by_bisection(method, network, observations, target, most)
    length = min(256, most)
    while True:
        errors = every_round(method, network, observations, length)
        good = np.flatnonzero(errors[0] + errors[1] <= target * (1 + ROUNDING))
        if good.size:
            return int(good[0]) + 1
        if length == most:
            return None
        stuck = length >= 4096 and _settled(errors[0] + errors[1])
        if stuck and not _reaches(method, network, observations, target, most):
            return None  # it stopped falling, and the last horizon misses the target too
        length = min(4 * length, most)


def _settled(errors: Any) -> bool:
    """Whether the error stopped falling, as for a method that takes no new samples. Anything useful falls like 1/T."""
    return bool(errors[-1] > 0.98 * errors[len(errors) // 2])


def _reaches(
    method: Method, network: Network, observations: Observations, target: float, rounds: int
) -> bool:
    try:
        return bool(exact(method, network, observations, rounds).total_error <= target * (1 + ROUNDING))
    except InvalidInput:  # too few rounds for the method's own parameters, such as a burn-in
        return False


def _first_by_bisection(
    method: Method, network: Network, observations: Observations, target: float, most: int
) -> int | None:
    def reaches(rounds: int) -> bool:
        return _reaches(method, network, observations, target, rounds)

    high = first_true(reaches, most)
    if high is None:
        return None
    # Neighboring horizons differ by parity, so look a little further.
    candidate = high
    while candidate > max(1, high - LOOK_BACK):
        candidate -= 1
        if reaches(candidate):
            high = candidate
    return high


def _spread_out(first: int, last: int) -> Integers:
    """Some 60 horizons, evenly on a log scale."""
    return np.unique(np.geomspace(first, last, 60).round().astype(np.int64))


def _where_possible(
    method: Method, network: Network, observations: Observations, horizons: Integers
) -> Exact[Integers, Floats]:
    """The exact errors after those horizons that are long enough for the method's own parameters."""
    burn_in = getattr(method, "burn_in", None) or 0
    return exact(method, network, observations, horizons[horizons > burn_in])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tuned(StreamResult[int, float]):
    """A method with the parameters that minimize the exact error, next to what it started from.

    start   the method before
    before  its total error
    """

    start: Method
    before: float

    columns = ("before",)
    shown = ("rounds", "before", "total_error", "over_limit")

    def curves(self) -> list[plotting.Curve]:
        horizons = _spread_out(max(1, self.rounds // 8), 2 * self.rounds)
        untuned = exact(self.start, self.network, self.observations, horizons)
        tuned = _where_possible(self.method, self.network, self.observations, horizons)
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
    parameters: Sequence[str] | None = None,
) -> Tuned:
    """Choose the parameters that minimize the exact error after `rounds`: burn-in, step size, momentum, smoothing.

    `parameters` names the ones to choose; by default all that the method's `tunable` lists. The search
    starts from the default choice and never returns anything worse.
    """
    method, network = analyzable(resolve(method)), check_match(network, observations)
    rounds = checks.rounds(rounds)
    known = method.tunable(network, rounds)
    names = list(known) if parameters is None else list(parameters)
    for name in names:
        if name not in known:
            raise Unsupported(
                f"{method.name} has no parameter {name!r} to tune; it has {', '.join(known) or 'none'}"
            )
    if not names:
        raise Unsupported(f"{method.name} has no parameters to tune")

    def error(candidate: Any) -> float:
        with np.errstate(all="ignore"):
            value = float(exact(candidate, network, observations, rounds).total_error)
        return value if np.isfinite(value) else np.inf

    best, before = method, error(method)
    least = before
    continuous = {name: known[name] for name in names if not known[name].whole}
    for _ in range(3):
        sweep = least
        for name in names:
            if known[name].whole:
                best, least = _best_whole(best, least, name, known[name], error)
        if continuous:
            best, least = _best_continuous(best, least, continuous, error)
        if least > sweep * (1 - 1e-4):
            break
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
    )


def _best_whole(
    best: Any, least: float, name: str, bounds: Tunable, error: Callable[[Any], float]
) -> tuple[Any, float]:
    """A grid over whole numbers, refined around its best point until it holds every number."""
    low, high = int(bounds.least), int(bounds.most)
    while True:
        grid = np.unique(np.linspace(low, high, 17).astype(int))
        tried = [(error(replace(best, **{name: int(k)})), int(k)) for k in grid]
        value, chosen = min(tried)
        if value < least:
            best, least = replace(best, **{name: chosen}), value
        step = max(1, (high - low) // 16)
        if step == 1:
            return best, least
        low, high = max(int(bounds.least), chosen - step), min(int(bounds.most), chosen + step)


def _best_continuous(
    best: Any, least: float, parameters: Mapping[str, Tunable], error: Callable[[Any], float]
) -> tuple[Any, float]:
    """Nelder-Mead in coordinates where every point is admissible: logit between two bounds, log above one."""

    def encode(name: str, bounds: Tunable) -> float:
        value = getattr(best, name)
        value = (bounds.start if value is None else value) - bounds.least
        if np.isfinite(bounds.most):
            share = min(max(value / (bounds.most - bounds.least), 1e-6), 1 - 1e-9)
            return float(np.log(share / (1 - share)))
        return float(np.log(max(value, 1e-9)))

    def decode(point: Any) -> Any:
        values = {}
        for (name, bounds), x in zip(parameters.items(), point, strict=True):
            if np.isfinite(bounds.most):
                values[name] = float(bounds.least + (bounds.most - bounds.least) * (1 / (1 + np.exp(-x))))
            else:
                values[name] = float(bounds.least + np.exp(x))
        return replace(best, **values)

    def objective(point: Any) -> float:
        value = error(decode(point))
        return float(np.log(value)) if 0 < value < np.inf else 1e3

    found = minimize(
        objective,
        [encode(name, bounds) for name, bounds in parameters.items()],
        method="Nelder-Mead",
        options={"maxiter": 80 * len(parameters)},
    )
    candidate = decode(found.x)
    value = error(candidate)
    return (candidate, value) if value < least else (best, least)
