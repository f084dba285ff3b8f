"""What the engines return. For one horizon every field is a number; for several, the horizons are its first axis.

Three names for one error, the same in every result, table, file and plot:

    total_error   E sum_i ||estimate_i - mubar||^2, the paper's error
    mse           its mean over the agents
    over_limit    total_error divided by that of a center that holds everybody's samples (one per round): 1 is perfect
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Booleans, Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.methods import Method

Rounds = TypeVar("Rounds", int, Integers)
"""One horizon, or an array of them."""

Value = TypeVar("Value", float, Floats)
"""A number for one horizon, an array with one entry per horizon for several."""


@dataclass(frozen=True, kw_only=True)
class ErrorResult(Generic[Rounds, Value]):
    """An error after some rounds, in its three forms.

    agents             how many agents the total covers
    centralized_limit  the total error of a center that holds everybody's samples
    """

    rounds: Rounds
    total_error: Value
    centralized_limit: Value
    agents: int

    @property
    def mse(self) -> Value:
        """The mean over the agents of their squared errors."""
        return self.total_error / self.agents

    @property
    def over_limit(self) -> Value:
        """The total error as a multiple of the centralized limit; infinite where that is 0."""
        return over_limit(self.total_error, self.centralized_limit)

    def records(self, *more: str) -> list[dict[str, Any]]:
        """One row per horizon: rounds, the error in its three forms, its limit, and the fields that `more` names."""
        names = ("rounds", "total_error", "mse", *more, "centralized_limit", "over_limit")
        columns = [np.atleast_1d(getattr(self, name)).tolist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Simulation(ErrorResult[Rounds, Value]):
    """What the trials gave. With several horizons, every array has the horizons as its first axis.

    total_error  mean over trials of sum_i ||estimate_i - mubar||^2
    stderr       its standard error
    errors       (trials,) the sum for each trial
    per_agent    (N,) mean over trials of each agent's squared error
    estimates    (trials, N, n)
    iterates     "estimate" and the name of each of the method's registers: (trials, T, N, n), the values after rounds
                 1..T; with several horizons, those of the run of the largest one, without a first axis of horizons
    partial      whether the run was interrupted: then only the finished trials are here
    """

    method: Method
    trials: int
    seed: int
    stderr: Value
    errors: Floats
    per_agent: Floats
    kept_estimates: NDArray[Any] | None = field(repr=False)
    kept_iterates: dict[str, NDArray[Any]] | None = field(default=None, repr=False)
    partial: bool = False

    @property
    def estimates(self) -> NDArray[Any]:
        if self.kept_estimates is None:
            raise InvalidInput("this simulation kept no estimates; call simulate(..., keep='estimates')")
        return self.kept_estimates

    @property
    def iterates(self) -> Mapping[str, NDArray[Any]]:
        if self.kept_iterates is None:
            raise InvalidInput("this simulation kept no iterates; call simulate(..., keep='iterates')")
        return MappingProxyType(self.kept_iterates)


@dataclass(frozen=True, kw_only=True)
class FaultySimulation(Simulation[Rounds, Value]):
    """What a simulation with faults found: a `Simulation` that also says who is still alive.

    Who is alive differs between horizons, so with several of them these arrays, too, have the horizons first.

    agents  how many agents are alive
    alive   (N,) who they are; the estimates and errors of the others are NaN
    target  (n,) the average of the means of the agents alive, against which their errors are measured
    parts   into how many pieces the crashes cut those alive; agents of two pieces cannot reach each other
    rule    "ledger": the method ran in its edge-ledger form; "skip": it left neighbors that it did not hear out
    """

    agents: Rounds  # type: ignore[assignment]
    alive: Booleans
    target: Floats
    parts: Rounds
    rule: str

    @property
    def note(self) -> str | list[str]:
        """What a reader of the errors should know, if anything; with several horizons, a text for each."""
        size = self.alive.shape[-1]
        texts = []
        for agents, parts in zip(np.atleast_1d(self.agents), np.atleast_1d(self.parts), strict=True):
            said = []
            if agents < size:
                said.append(
                    f"{agents} of {size} agents alive at the end; errors are against the average of their means"
                )
            if parts > 1:
                said.append(f"the crashes cut them into {parts} parts, which cannot reach each other")
            if self.rule == "skip":
                said.append(
                    f"{self.method.name} runs without a ledger: neighbors that are not heard are left out"
                )
            texts.append("; ".join(said))
        return texts if np.ndim(self.rounds) else texts[0]


def over_limit(total_error: Value, limit: Value) -> Value:
    """`total_error` as a multiple of `limit`; infinite where that is 0."""
    safe = np.where(np.equal(limit, 0), 1.0, limit)
    ratio = np.where(np.equal(limit, 0), np.inf, np.divide(total_error, safe))
    return ratio if ratio.ndim else float(ratio)  # type: ignore[return-value, unused-ignore]


def standard_error(errors: Floats, axis: int = -1) -> Floats:
    """The standard error of the mean over trials; NaN for a single one."""
    trials = errors.shape[axis]
    if trials < 2:
        return np.full_like(errors.mean(axis=axis), np.nan)
    return np.asarray(errors.std(axis=axis, ddof=1) / np.sqrt(trials))
