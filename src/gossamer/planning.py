"""Planning: rounds, samples and messages for a target error.

Errors need not fall with the rounds, so every number of rounds is examined, from 1 on, as far as that is affordable:
one pass gives them all where the method allows it (`trajectory`). What is left is answered by proof where there is one:

    no method can    agent i holds weights w of its streams' samples; in the network's average alone, with h = sum w,
                     the error is at least A (1 - h)^2 + V h^2/S >= A (V/S)/(A + V/S), where A = N ||mubar||^2,
                     V = sum sigma^2/N, and S the samples that an agent takes
    this one cannot  its error in the network's average, which no exchange of messages changes, is one mode of many
                     and cheap to follow for every number of rounds; and if its rounds are all alike, its variance
                     (P <- A P A' + Q from P = 0) never falls

and by doubling and bisection otherwise, and then the plan's note says what was not examined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.engines.exact import (
    Measure,
    Sampler,
    Sweep,
    analyzable,
    evaluate,
    integrate,
    measures,
    one_pass,
    trajectory,
)
from gossamer.engines.horizons import check_table
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA, Method, tabulate
from gossamer.networks import Changing, DirectedNetwork, Graph, Network, NetworkLike
from gossamer.observations import Observations, check_match
from gossamer.plans import Plan as Plan
from gossamer.plans import Plans as Plans

MOST_ROUNDS = 1_000_000

BLOCK, WORK, SWEPT = 256, 2**24, 2**29
"""Every number of rounds up to BLOCK is examined, then four times as many, and so on, while rounds times eigenvalues
are at most WORK; or SWEPT, where a block of rounds goes on from the one before."""

SAMPLED = 1024
"""Every number of rounds up to this one is examined where variances are sampled."""

SECTIONS = 64
"""Numbers of rounds that are looked at together where not all are examined."""

UPPER = 2.0
"""Standard errors above a sampled error that a plan counts on: one in 44 is larger."""

ONE_BY_ONE = 512
"""Where each number of rounds needs its own pass, they are all examined up to this one."""

MOVING = 2**14
"""Means that move in their own way are followed round by round, at most for so many."""

LOOK_BACK = 64
"""Beyond what is examined throughout, this many numbers of rounds before the answer are checked to miss the target."""

ROUNDING = 1e-12
"""The same error computed forward and backward differs in the last digits; a target is met up to these."""


Streams = Observations | Callable[[Network], Observations]
"""Observations, or a function that gives them for a network: networks of different sizes need different ones."""

SeveralNetworks = list[NetworkLike] | list[Network] | tuple[NetworkLike, ...]
SeveralTargets = list[float] | tuple[float, ...] | Floats
SeveralMethods = list[Method] | list[str] | list[Method | str] | tuple[Method | str, ...]


@overload
def plan(
    network: NetworkLike,
    observations: Streams,
    target: float,
    method: Method | str | None = ...,
    *,
    most_rounds: int = ...,
) -> Plan: ...
@overload
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Streams,
    target: float | SeveralTargets,
    method: SeveralMethods,
    *,
    most_rounds: int = ...,
) -> Plans: ...
@overload
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Streams,
    target: SeveralTargets,
    method: Method | str | SeveralMethods | None = ...,
    *,
    most_rounds: int = ...,
) -> Plans: ...
@overload
def plan(
    network: SeveralNetworks,
    observations: Streams,
    target: float | SeveralTargets,
    method: Method | str | SeveralMethods | None = ...,
    *,
    most_rounds: int = ...,
) -> Plans: ...
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Streams,
    target: float | SeveralTargets,
    method: Method | str | SeveralMethods | None = None,
    *,
    most_rounds: int = MOST_ROUNDS,
) -> Plan | Plans:
    """Return the smallest number of rounds with total error <= target, and what it costs.

    One network, target and method give a `Plan`; sequences of any of them give `Plans`, one per combination,
    with `.cheapest(by=...)`. Observations may be a function of the network.

    Every number of rounds is examined as far as that is affordable: up to ONE_BY_ONE, and far beyond for methods
    whose error after any number of rounds comes from one pass (`anytime`, or SDA with its burn-in). Means that move in
    their own way (`Moving`) are followed for at most `MOVING` rounds. Where some were left out, `note` says so.
    Where variances are sampled, on networks too large to decompose, a plan counts on the upper end of the error, two
    standard errors above its estimate; `total_error` is this upper end, and `note` says so.
    A target that is missed has a note that says why, and as `total_error` the least that was found.

    Parameters
    ----------
    network, observations, target, method
        As for `gs.exact`; the default method is AnytimeSDA.
    most_rounds : int
        Where the search ends.

    Examples
    --------
    >>> gs.plan("cycle:20", gs.Gaussian(np.arange(20.0)), target=0.01).rounds
    113
    """
    networks, one_network = _listed("network", network, (Network, DirectedNetwork, Graph, Changing, str))
    targets, one_target = _listed("target", target, (float, int, np.number))
    methods, one_method = _listed("method", AnytimeSDA() if method is None else method, (Method, str))
    targets = [checks.number("target", each, above=0) for each in targets]
    checks.whole_number("most_rounds", most_rounds, least=1)
    plans = Plans()
    for net in map(Network.of, networks):
        streams = observations if isinstance(observations, Observations) else _streams(observations, net)
        check_match(net, streams)
        most = int(min(most_rounds, streams.known_rounds))
        by_method = [_Search(analyzable(each), net, streams, most).plans(targets) for each in methods]
        plans += [found for group in zip(*by_method, strict=True) for found in group]
    if not (one_network and one_target and one_method):
        return plans
    if not plans[0].reached:
        raise InvalidInput(plans[0].note)
    return plans[0]


def _listed(name: str, value: Any, one: type | tuple[type, ...]) -> tuple[list[Any], bool]:
    """The value as a list, and whether it was a single one."""
    if isinstance(value, one):
        return [value], True
    try:
        several = [] if isinstance(value, str) else list(value)
    except TypeError:
        several = []
    if not several:
        kind = {"target": "a number", "network": "a network", "method": "a method or its name"}[name]
        raise InvalidInput(parameter=name, required=f"{kind} or several", got=repr(value))
    return several, False


def _streams(observations: Any, network: Network) -> Any:
    """What a function of the network gives; whether these are observations is checked later."""
    return observations(network) if callable(observations) else observations


class _Errors(NamedTuple):
    """Total errors after every number of rounds that was examined, and the last one's variance."""

    total: Floats
    last_variance: float


@dataclass(frozen=True)
class _Search:
    """The smallest numbers of rounds of one method on one network."""

    method: Method
    network: Network
    observations: Observations
    most: int

    def plans(self, targets: list[float]) -> list[Plan]:
        every, found = self.examined(targets)
        return [self._plan(target, every, found) for target in targets]

    def _plan(self, target: float, every: int, found: _Errors) -> Plan:
        errors = np.nan_to_num(found.total, nan=np.inf)
        good = np.flatnonzero(_meets(errors, target))
        while good.size:
            plan = self._made(target, int(good[0]) + self.first, "")
            if _meets(plan.total_error, target) or isinstance(self.over, Measure):
                return plan
            # More probes after just these rounds say more: what they say is taken to hold for all.
            errors *= plan.total_error / errors[good[0]]
            errors[: good[0] + 1] = np.maximum(errors[: good[0] + 1], plan.total_error)
            good = np.flatnonzero(_meets(errors, target))
        name = self.method.label
        # Where all are infinite, the last may at least have parameters that fit.
        best = int(np.argmin(errors)) + self.first if np.isfinite(errors.min()) else every
        if not np.isfinite(errors[-1]):
            advice = "give it other parameters, or use another method"
            return self._made(target, best, f"{name} diverges on {self.network.name}; {advice}", missed=True)
        misses = f"{name} does not reach an error of {target:g} within {self.most} rounds"
        advice = "allow more rounds or samples, or use another method"
        about = f"the least is {errors.min():.3g}, after {best} rounds"
        if every == self.most:
            return self._made(target, best, f"{misses}: {about}; {advice}", missed=True)
        if why := self.proof(target, found):
            return self._made(
                target, best, f"{misses}: up to {every} {about}, and {why}; {advice}", missed=True
            )
        rounds, tried = self._beyond(target, every)
        if rounds is not None:
            examined = f"every number of rounds up to {every} and the {LOOK_BACK} before {rounds}"
            plan = self._made(target, rounds, f"{examined} were examined, not all between them")
            if _meets(plan.total_error, target) or isinstance(self.over, Measure):
                return plan
            tried[rounds] = plan.total_error
        errors_found = {best: float(errors.min()), **tried}
        best = min(errors_found, key=lambda t: errors_found[t])
        beyond = f", nor after {', '.join(map(str, tried))}" if tried else ""
        return self._made(
            target,
            best,
            f"{name} was not found to reach an error of {target:g}: it does not after any number of rounds up to "
            f"{every}{beyond} (the least is {errors_found[best]:.3g}, after {best}); others up to {self.most} were "
            "not examined",
            missed=True,
        )

    def _made(self, target: float, rounds: int, note: str, *, missed: bool = False) -> Plan:
        """A plan with the error after these rounds; one that is missed costs infinitely."""
        found = evaluate(self.method, self.network, self.observations, rounds, self.over)
        total = found.total_error + UPPER * found.uncertainty
        if found.uncertainty:
            about = f"{found.total_error:.4g} ± {found.uncertainty:.2g}"
            more = f"the error is the upper end of {about}, two standard errors above the estimate"
            note = f"{note}; {more}" if note else more
        costs = (found.samples, found.messages, found.messages * 8 * self.observations.components)
        samples, messages, size = (np.inf, np.inf, np.inf) if missed else costs
        return Plan(
            method=self.method,
            network=self.network,
            observations=self.observations,
            target=target,
            rounds=None if missed else rounds,
            total_error=total,
            centralized_limit=found.centralized_limit,
            samples=samples,
            messages=messages,
            bytes=size,
            note=note,
        )

    @cached_property
    def over(self) -> Measure | Sampler:
        return measures(self.network, self.observations)

    @cached_property
    def reach(self) -> int:
        """The most rounds that are worth computing."""
        followed = max(ONE_BY_ONE, min(MOVING, WORK // (4 * self.observations.mean.size)))
        return min(self.most, followed) if self.observations.moving else self.most

    @cached_property
    def together(self) -> bool:
        """Whether one pass gives the error after every number of rounds."""
        return one_pass(self.method, self.network, self.first)

    @cached_property
    def first(self) -> int:
        """The least number of rounds that the method makes sense for: its average must begin before the end."""
        rounds = 1
        while rounds < self.most and (self.method.averages_since(rounds) or 0) >= rounds:
            rounds += 1
        return rounds

    def examined(self, targets: list[float]) -> tuple[int, _Errors]:
        """The errors after `first`, `first` + 1, ... rounds, and the last of these numbers.

        It goes on until every target is met or proven out of reach, nothing is left, or it costs too much.
        """
        if not self.together:
            return self._one_by_one(min(targets))
        if self.method.anytime and isinstance(self.over, Measure) and not self.observations.moving:
            return self._swept(targets, self.over)
        nodes = len(self.over.nodes) if isinstance(self.over, Measure) else WORK // SAMPLED
        most = min(self.reach, max(BLOCK, WORK // nodes))
        length = min(max(BLOCK, 2 * self.first), most)
        while True:
            found = self._errors(np.arange(self.first, length + 1), self.over)
            open_ones = [target for target in targets if not _meets(found.total, target).any()]
            if length == most or not np.isfinite(found.total[-1]):
                return length, found
            if all(self.proof(target, found) for target in open_ones):
                return length, found
            length = min(4 * length, most)

    def _swept(self, targets: list[float], over: Measure) -> tuple[int, _Errors]:
        """The same block by block, as one pass over the rounds."""
        check_table(self.method, self.reach)
        most = min(self.reach, max(BLOCK, SWEPT // len(over.nodes)))
        going = Sweep(self.method, self.network, over)
        found = _Errors(np.empty(0), 0.0)
        length = 0
        while True:
            block = min(max(BLOCK, 3 * length), most - length, 2**16)
            with np.errstate(all="ignore"):
                bias, variance = (values[:block] for values in going.block(block + block % 2))
            found = _Errors(np.concatenate([found.total, bias + variance]), float(variance[-1]))
            length += block
            open_ones = [target for target in targets if not _meets(found.total, target).any()]
            if length == most or not np.isfinite(found.total[-1]):
                return length, found
            if all(self.proof(target, found, patient=False) for target in open_ones):
                return length, found

    def _errors(self, horizons: Integers, over: Measure | Sampler) -> _Errors:
        """The errors after these numbers of rounds, in one pass."""
        check_table(self.method, int(horizons[-1]))
        passes = trajectory(self.method, self.network, horizons)
        with np.errstate(all="ignore"):
            if isinstance(over, Sampler):
                some = np.unique(np.geomspace(1, len(horizons), 12).astype(int)) - 1
                over = over.fit(trajectory(self.method, self.network, horizons[some]))
            found = integrate(passes, self.network, self.observations, over)
            total = found.bias + found.variance + UPPER * found.uncertainty
            return _Errors(total, float(found.variance[-1]))

    def _one_by_one(self, target: float) -> tuple[int, _Errors]:
        last = min(self.reach, ONE_BY_ONE)
        if self.observations.moving:  # as many as together have as many rounds as the longest
            last = min(last, math.isqrt(2 * self.reach))
        errors: list[float] = []
        for rounds in range(self.first, last + 1):
            errors.append(self._error(rounds))
            if _meets(errors[-1], target):
                break
        return self.first + len(errors) - 1, _Errors(np.array(errors), 0.0)

    def _error(self, rounds: int) -> float:
        try:
            found = evaluate(self.method, self.network, self.observations, rounds, self.over)
            return float(found.total_error + UPPER * found.uncertainty)
        except InvalidInput:  # too few rounds for the method's own parameters
            return np.inf

    def proof(self, target: float, found: _Errors, *, patient: bool = True) -> str:
        """Why no number of rounds meets a target that those examined miss; empty if there is no proof.

        One of the proofs takes seconds, and is left out unless `patient`.
        """
        target *= 1 + ROUNDING
        if not self.together:
            return ""
        if self.impossible(target):
            return f"with {self.samples:g} samples per agent no estimate that is linear in them does"
        if found.last_variance > target and self.steady:
            return f"its rounds are all alike, so its variance never falls, and it is {found.last_variance:.3g} already"
        if patient and len(found.total) >= 4096 and not self.observations.moving:
            floor = self.in_average[len(found.total) :].min()
            if floor > target:
                return (
                    "after more rounds its error in the network's average alone, which no exchange changes, "
                    f"is at least {floor:.3g}"
                )
        return ""

    @cached_property
    def in_average(self) -> Floats:
        """The errors in the network's average alone after every number of rounds."""
        horizons = np.arange(self.first, self.most + 1)
        return np.nan_to_num(self._errors(horizons, self.over.average).total, nan=np.inf)

    @cached_property
    def steady(self) -> bool:
        """Whether every round does the same, as far as `BLOCK` rounds tell of a method that says it is `anytime`."""
        table = tabulate(self.method, self.network, BLOCK)
        return self.method.anytime and all(np.all(array == array[:1]) for array in table)

    @cached_property
    def samples(self) -> float:
        """How many an agent takes in `most` rounds: no fewer than in any smaller number, if one pass serves all."""
        check_table(self.method, self.most)
        return float(self.method.batches(self.network, self.most).sum()) if self.together else np.inf

    def impossible(self, target: float) -> bool:
        """Whether no estimate that is linear in the samples meets the target."""
        average = self.observations.mean.mean(axis=0)
        if self.observations.moving or np.any(self.observations.drift.mean(axis=0)):
            return False  # the average itself moves
        energy = self.network.agents * float(average @ average)
        noise = float(self.over.average.power[0]) / self.samples
        return energy * noise > target * (energy + noise)

    def _beyond(self, target: float, every: int) -> tuple[int | None, dict[int, float]]:
        """A number of rounds above `every` that meets the target, by doubling and bisection, and the errors at the
        doublings that do not."""

        tried: dict[int, float] = {}
        low = every
        while low < self.reach:
            high = min(2 * low, self.reach)
            error = self._error(high)
            if _meets(error, target):
                break
            low, tried[high] = high, error
        else:
            return None, tried
        while high - low > SECTIONS:
            some = np.unique(np.linspace(low, high, SECTIONS + 1).astype(np.int64))[1:]
            place = int(np.argmax(self._meet(some, target)))  # the last one does
            low, high = (int(some[place - 1]) if place else low), int(some[place])
        some = np.arange(max(every + 1, high - LOOK_BACK), high + 1)
        return int(some[np.argmax(self._meet(some, target))]), tried

    def _meet(self, horizons: Integers, target: float) -> Any:
        """Which of these numbers of rounds meet the target; the last one is known to."""
        if self.together:
            found = self._errors(horizons, self.over).total
        else:
            found = np.array([self._error(rounds) for rounds in horizons.tolist()])
        meets = np.asarray(_meets(found, target))
        meets[-1] = True
        return meets


def _meets(error: Any, target: float) -> Any:
    return np.less_equal(error, target * (1 + ROUNDING))
