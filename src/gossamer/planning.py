"""Planning: rounds, samples and messages for a target error.

Errors need not decrease with the rounds, so every number of rounds is examined, from 1 on, as far as that is
affordable; if the method allows it, one pass gives them all (`trajectory`). The rest is decided by proof if there is
one:

    no method can    agent i holds weights w of its streams' samples; in the network's average alone, with h = sum w,
                     the error is at least A (1 - h)^2 + V h^2/S >= A (V/S)/(A + V/S), where A = N ||mubar||^2,
                     V = sum sigma^2/N, and S the samples that an agent takes
    this one cannot  its error in the network's average, which no exchange of messages changes, is one mode of many
                     and cheap to follow for every number of rounds, so those where it alone misses the target are
                     skipped; and if all its rounds are the same, its variance (P <- A P A' + Q from P = 0) never falls

and otherwise by doubling and bisection, in which case the plan's note names the rounds that were not examined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Unpack, overload

import numpy as np

from gossamer import checks
from gossamer.accounting import PrivacyOptions, masks_for
from gossamer.arrays import Booleans, Floats, Integers
from gossamer.engines.exact import (
    AverageSweeps,
    Measure,
    Sampler,
    Sweep,
    analyzable,
    evaluate,
    integrate,
    mask_cost,
    measures,
    one_pass,
    trajectory,
)
from gossamer.engines.horizons import check_table
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA, Method, tabulate
from gossamer.networks import Changing, DirectedNetwork, Graph, Network, NetworkLike
from gossamer.observations import Masked, Observations, check_match
from gossamer.plans import Plan as Plan
from gossamer.plans import Plans as Plans

MOST_ROUNDS = 1_000_000

BLOCK, WORK, SWEPT = 256, 2**24, 2**29
"""Every number of rounds up to BLOCK is examined, then four times as many, and so on, while rounds times eigenvalues
are at most WORK; or SWEPT, if a block of rounds continues from the previous one."""

LEAP = 2**12  # smallest number of rounds that a sweep skips

SAMPLED = 1024
"""If variances are sampled, every number of rounds up to this one is examined."""

SECTIONS = 64
"""Numbers of rounds that are examined together if not all of them are."""

UPPER = 2.0
"""A plan uses a sampled error plus this many standard errors, which is exceeded in one of 44 cases."""

ONE_BY_ONE = 512
"""If each number of rounds needs its own pass, all of them up to this one are examined."""

MOVING = 2**14
"""Largest number of rounds for which arbitrarily moving means are followed."""

LOOK_BACK = 64
"""Beyond what is examined throughout, this many numbers of rounds before the answer are checked to miss the target."""

ROUNDING = 1e-12
"""The same error computed forward and backward differs in the last digits; a target is met up to these."""


Streams = Observations | Callable[[Network], Observations]
"""Observations, or a function of the network that returns them, for networks of different sizes."""

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
    **privacy: Unpack[PrivacyOptions],
) -> Plan: ...
@overload
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Streams,
    target: float | SeveralTargets,
    method: SeveralMethods,
    *,
    most_rounds: int = ...,
    **privacy: Unpack[PrivacyOptions],
) -> Plans: ...
@overload
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Streams,
    target: SeveralTargets,
    method: Method | str | SeveralMethods | None = ...,
    *,
    most_rounds: int = ...,
    **privacy: Unpack[PrivacyOptions],
) -> Plans: ...
@overload
def plan(
    network: SeveralNetworks,
    observations: Streams,
    target: float | SeveralTargets,
    method: Method | str | SeveralMethods | None = ...,
    *,
    most_rounds: int = ...,
    **privacy: Unpack[PrivacyOptions],
) -> Plans: ...
def plan(
    network: NetworkLike | SeveralNetworks,
    observations: Streams,
    target: float | SeveralTargets,
    method: Method | str | SeveralMethods | None = None,
    *,
    most_rounds: int = MOST_ROUNDS,
    **privacy: Unpack[PrivacyOptions],
) -> Plan | Plans:
    """Return the smallest number of rounds with total error <= target, and its cost.

    One network, target and method give a `Plan`; sequences of any of them give `Plans`, one per combination,
    with `.cheapest(by=...)`. Observations may be a function of the network.

    Every number of rounds is examined as far as that is affordable: up to ONE_BY_ONE, and far beyond for methods
    whose error after any number of rounds comes from one pass (`anytime`, or SDA with its burn-in). Arbitrarily
    moving means (`Moving`) are followed for at most `MOVING` rounds. If some numbers were skipped, `note` says so.
    On networks too large to decompose, variances are sampled; a plan then uses the upper end of the error, two
    standard errors above its estimate, as `total_error`, and `note` says so.
    If a target is not reached, the note says why, and `total_error` is the smallest error found.

    Parameters
    ----------
    network, observations, method
        The same as for `gs.exact`, or sequences of them; the default method is AnytimeSDA.
    target : float or sequence of float
        The total error to reach, summed over agents, for example 1e-3.
    most_rounds : int
        Largest number of rounds to consider; a target that needs more is not reached.
    masks : Masks or float, optional
        Masks that hide the readings, and noise (see `Masks`), or the scale of the masks; refreshed ones are not
        supported.
    noise : float, optional
        Standard deviation of the noise that each agent adds to its level, instead of that of the masks.
    epsilon, delta : float, optional
        Choose the least noise with which every agent has (epsilon, delta)-differential privacy (delta is 1e-6 by
        default).
    change, coalition : optional
        The change that epsilon hides and the coalition it is hidden from, as for `gs.privacy`.

    See Also
    --------
    exact : The error after a number of rounds.
    tune : Parameters that minimize the error.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(20), gs.Gaussian(np.arange(20.0))
    >>> gs.plan(net, obs, target=0.01).rounds, gs.plan(net, obs, target=0.01, masks=1000).rounds
    (113, 113)
    >>> plan = gs.plan(net, obs, 0.2, masks=1000, epsilon=1.0, change=0.1)
    >>> plan.rounds, plan.masks.noise
    (54, 0.094467)
    """
    method = AnytimeSDA() if method is None else method
    one_network = isinstance(network, Network | DirectedNetwork | Graph | Changing | str)
    one_target, one_method = isinstance(target, float | int | np.number), isinstance(method, Method | str)
    networks: list[NetworkLike] = _listed("network", "a network", network, one_network)
    methods: list[Method | str] = _listed("method", "a method or its name", method, one_method)
    given: list[float] = _listed("target", "a number", target, one_target)
    targets = [checks.number("target", value, above=0) for value in given]
    checks.whole_number("most_rounds", most_rounds, least=1)
    plans = Plans()
    for net in map(Network.of, networks):
        streams = observations(net) if callable(observations) else observations
        check_match(net, streams)
        if (masks := masks_for(net, **privacy)) is not None:
            streams = Masked(streams, net, masks)
        most = int(min(most_rounds, streams.known_rounds))
        by_method = [_Search(analyzable(one), net, streams, most).plans(targets) for one in methods]
        plans += [plan for group in zip(*by_method, strict=True) for plan in group]
    if not (one_network and one_target and one_method):
        return plans
    if not plans[0].reached:
        raise InvalidInput(plans[0].note)
    return plans[0]


def _listed(name: str, kind: str, value: Any, one: bool) -> list[Any]:
    """Return one value, or several, as a list."""
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    several = [value] if one else list(value) if listed else []
    if not several:
        raise InvalidInput(parameter=name, required=f"{kind} or several", got=repr(value))
    return several


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
        every, errors = self.examined(targets)
        return [self._plan(target, every, errors) for target in targets]

    def _plan(self, target: float, every: int, known: _Errors) -> Plan:
        errors = np.nan_to_num(known.total, nan=np.inf)
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
        if why := self.proof(target, known):
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
        least = {best: float(errors.min()), **tried}
        best = min(least, key=lambda t: least[t])
        beyond = f", nor after {', '.join(map(str, tried))}" if tried else ""
        return self._made(
            target,
            best,
            f"{name} was not found to reach an error of {target:g}: it does not after any number of rounds up to "
            f"{every}{beyond} (the least is {least[best]:.3g}, after {best}); others up to {self.most} were "
            "not examined",
            missed=True,
        )

    def _made(self, target: float, rounds: int, note: str, *, missed: bool = False) -> Plan:
        """Return a plan with the error after these rounds; if the target is missed, costs are infinite."""
        result = evaluate(self.method, self.network, self.observations, rounds, self.over)
        total = result.total_error + UPPER * result.uncertainty
        if result.uncertainty:
            about = f"{result.total_error:.4g} ± {result.uncertainty:.2g}"
            more = f"the error is the upper end of {about}, two standard errors above the estimate"
            note = f"{note}; {more}" if note else more
        costs = (result.samples, result.messages, result.messages * 8 * self.observations.components)
        samples, messages, size = (np.inf, np.inf, np.inf) if missed else costs
        return Plan(
            method=self.method,
            network=self.network,
            observations=self.observations,
            target=target,
            rounds=None if missed else rounds,
            total_error=total,
            centralized_limit=result.centralized_limit,
            samples=samples,
            messages=messages,
            bytes=size,
            note=note,
            masks=self.observations.masks if isinstance(self.observations, Masked) else None,
        )

    @cached_property
    def over(self) -> Measure | Sampler:
        return measures(self.network, self.observations)

    @cached_property
    def reach(self) -> int:
        """The largest number of rounds worth computing."""
        followed = max(ONE_BY_ONE, min(MOVING, WORK // (4 * self.observations.mean.size)))
        return min(self.most, followed) if self.observations.moving else self.most

    @cached_property
    def in_one_pass(self) -> bool:
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
        """Return the errors after `first`, `first` + 1, ... rounds, and the last of these numbers.

        It continues until every target is met or proven out of reach, no candidate is left, or it costs too much.
        """
        if not self.in_one_pass:
            return self._one_by_one(min(targets))
        if self.method.anytime and self._sweeps:
            assert isinstance(self.over, Measure)
            return self._swept(targets, self.over)
        nodes = len(self.over.nodes) if isinstance(self.over, Measure) else WORK // SAMPLED
        most = min(self.reach, max(BLOCK, WORK // nodes))
        length = min(max(BLOCK, 2 * self.first), most)
        while True:
            errors = self._errors(np.arange(self.first, length + 1), self.over)
            open_ones = [target for target in targets if not _meets(errors.total, target).any()]
            if length == most or not np.isfinite(errors.total[-1]):
                return length, errors
            if all(self.proof(target, errors) for target in open_ones):
                return length, errors
            length = min(4 * length, most)

    @property
    def _sweeps(self) -> bool:
        """Whether one pass over the rounds needs nothing but the variances of modes."""
        plain = not (self.observations.moving or isinstance(self.observations, Masked))
        return plain and isinstance(self.over, Measure)

    def _swept(self, targets: list[float], over: Measure, *, leaping: bool = True) -> tuple[int, _Errors]:
        """Return the same block by block, as one pass; if `leaping`, skipped rounds have infinite errors."""
        check_table(self.method, self.reach)
        going = Sweep(self.method, self.network, over)
        average = AverageSweeps(Sweep(self.method, self.network, over.average), self.reach)
        errors = _Errors(np.empty(0), 0.0)
        begin = length = 0
        budget = max(BLOCK, SWEPT // len(over.nodes))
        while True:
            block = min(max(BLOCK, 3 * (length - begin)), budget, self.reach - length, 2**16)
            with np.errstate(all="ignore"):
                bias, variance = (values[:block] for values in going.block(block + block % 2))
            errors = _Errors(np.concatenate([errors.total, bias + variance]), float(variance[-1]))
            length, budget = length + block, budget - block
            open_ones = [target for target in targets if not _meets(errors.total, target).any()]
            done = all(self.proof(target, errors, patient=False) for target in open_ones)
            if done or length == self.reach or not (budget and np.isfinite(errors.total[-1])):
                if open_ones and begin:  # what was skipped may have the least error
                    return self._swept(targets, over, leaping=False)
                return length, errors
            leaps = leaping and length >= LEAP
            start = average.leap(going, max(open_ones) * (1 + 2 * ROUNDING), LEAP) if leaps else length
            if start > length:
                errors = _Errors(np.append(errors.total, np.full(start - length, np.inf)), 0.0)
                begin = length = start

    def _errors(self, horizons: Integers, over: Measure | Sampler, *, masked: bool = True) -> _Errors:
        """Return the errors after these numbers of rounds, in one pass; without those of masks unless `masked`."""
        check_table(self.method, int(horizons[-1]))
        passes = trajectory(self.method, self.network, horizons)
        with np.errstate(all="ignore"):
            if isinstance(over, Sampler):
                some = np.unique(np.geomspace(1, len(horizons), 12).astype(int)) - 1
                over = over.fit(trajectory(self.method, self.network, horizons[some]))
            parts = integrate(passes, self.network, self.observations, over)
            total = parts.bias + parts.variance + UPPER * parts.uncertainty
            if masked and isinstance(self.observations, Masked):
                total += mask_cost(self.method, self.network, self.observations, passes)
            return _Errors(total, float(parts.variance[-1]))

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
            result = evaluate(self.method, self.network, self.observations, rounds, self.over)
            return float(result.total_error + UPPER * result.uncertainty)
        except InvalidInput:  # too few rounds for the method's own parameters
            return np.inf

    def proof(self, target: float, errors: _Errors, *, patient: bool = True) -> str:
        """Return why no number of rounds meets a target that those examined miss; empty if there is no proof.

        One of the proofs takes seconds, and is left out unless `patient`.
        """
        target *= 1 + ROUNDING
        if not self.in_one_pass:
            return ""
        if self.impossible(target):
            return f"with {self.samples:g} samples per agent no estimate that is linear in them does"
        if errors.last_variance > target and self.steady:
            variance = f"{errors.last_variance:.3g}"
            return f"its rounds are all alike, so its variance never falls, and it is {variance} already"
        if patient and len(errors.total) >= 4096 and not self.observations.moving:
            floor = self.in_average[len(errors.total) :].min()
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
        return np.nan_to_num(self._errors(horizons, self.over.average, masked=False).total, nan=np.inf)

    @cached_property
    def steady(self) -> bool:
        """Whether all rounds are the same, judged by `BLOCK` rounds of a method that says it is `anytime`."""
        table = tabulate(self.method, self.network, BLOCK)
        return self.method.anytime and all(np.all(array == array[:1]) for array in table)

    @cached_property
    def samples(self) -> float:
        """Samples of an agent in `most` rounds, at least as many as in fewer; infinite unless one pass serves all."""
        check_table(self.method, self.most)
        return float(self.method.batches(self.network, self.most).sum()) if self.in_one_pass else np.inf

    def impossible(self, target: float) -> bool:
        """Return whether no estimate that is linear in the samples meets the target."""
        average = self.observations.mean.mean(axis=0)
        if self.observations.moving or np.any(self.observations.drift.mean(axis=0)):
            return False  # the average itself moves
        energy = self.network.agents * float(average @ average)
        noise = float(self.over.average.power[0]) / self.samples
        if isinstance(self.observations, Masked):
            noise += self.observations.components * self.observations.masks.noise**2
        return energy * noise > target * (energy + noise)

    def _beyond(self, target: float, every: int) -> tuple[int | None, dict[int, float]]:
        """Return a number of rounds above `every` that meets the target, by doubling and bisection, and the errors at
        the doublings that do not."""

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
            first = int(np.argmax(self._meet(some, target)))  # the last one does
            low, high = (int(some[first - 1]) if first else low), int(some[first])
        some = np.arange(max(every + 1, high - LOOK_BACK), high + 1)
        return int(some[np.argmax(self._meet(some, target))]), tried

    def _meet(self, horizons: Integers, target: float) -> Booleans:
        """Return which of these numbers of rounds meet the target; the last one is known to."""
        if self.in_one_pass:
            errors = self._errors(horizons, self.over).total
        else:
            errors = np.array([self._error(rounds) for rounds in horizons.tolist()])
        meets = _meets(errors, target)
        meets[-1] = True
        return meets


def _meets(error: Floats | float, target: float) -> Booleans:
    return np.asarray(np.less_equal(error, target * (1 + ROUNDING)))
