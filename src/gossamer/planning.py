"""Planning: rounds, samples and messages for a target error, and parameters that make the error least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from scipy.optimize import minimize

from gossamer import checks, theory
from gossamer.arrays import Floats
from gossamer.engines.exact import analyzable, exact
from gossamer.engines.results import ErrorResult, over_limit
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods import AnytimeSDA, Method, Tunable, resolve
from gossamer.networks import Network
from gossamer.numerics.search import first_true
from gossamer.observations import Observations

LOOK_BACK = 64
"""Where the error is not computed for every T, this many horizons before the answer are checked to miss the target."""

MOST_ROUNDS = 1_000_000

ROUNDING = 1e-12
"""The same error computed forward and backward differs in the last digits; a target is met up to these."""


@dataclass(frozen=True)
class Plan:
    """What a target error costs. samples are per agent; messages and bytes are those of the whole network."""

    method: Method
    network: Network
    target: float
    rounds: int | None  #: None: the target is out of reach, see `note`
    total_error: float  #: after those rounds, or at the end of the search
    centralized_limit: float
    samples: float
    messages: float
    bytes: float
    note: str = ""

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


class Plans(list[Plan]):
    """Several plans, one per combination that was asked for."""

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


SeveralNetworks = list[Network] | tuple[Network, ...]
SeveralTargets = list[float] | tuple[float, ...] | Floats
SeveralMethods = list[Method] | list[str] | list[Method | str] | tuple[Method | str, ...]


@overload
def plan(
    network: Network,
    observations: Observations,
    target: float,
    method: Method | str | None = ...,
    *,
    most_rounds: int = ...,
) -> Plan: ...
@overload
def plan(
    network: Network | SeveralNetworks,
    observations: Observations,
    target: float | SeveralTargets,
    method: SeveralMethods,
    *,
    most_rounds: int = ...,
) -> Plans: ...
@overload
def plan(
    network: Network | SeveralNetworks,
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
    network: Network | SeveralNetworks,
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
    networks, one_network = _listed(network, Network)
    if isinstance(target, str) or target is None:
        raise InvalidInput(f"target must be a number or several, got {target!r}")
    targets, one_target = _listed(target, (float, int, np.number))
    methods, one_method = _listed(AnytimeSDA() if method is None else method, (Method, str))
    plans = Plans(
        _plan(n, observations, float(t), m, most_rounds) for n in networks for t in targets for m in methods
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
        method, network, target, rounds, found.total_error, found.centralized_limit, *costs, note=note
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
