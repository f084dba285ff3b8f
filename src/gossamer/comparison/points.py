"""A point of a comparison: one method on one network, its rows, and the key under which they are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import theory
from gossamer.comparison.content import digest
from gossamer.engines.exact import exact
from gossamer.engines.results import ErrorResult, network_limit_if_known, over_limit
from gossamer.engines.simulate import simulate
from gossamer.errors import GossamerError, Unsupported
from gossamer.faults import Faults
from gossamer.fingerprint import fingerprint
from gossamer.methods import Method
from gossamer.networks import ChangingNetwork
from gossamer.observations import Observations
from gossamer.results import Record

COLUMNS: dict[str, type] = {
    "network": str,
    "agents": int,  # those whose errors are summed: with faults, the ones alive
    "edges": int,
    "method": str,
    "rounds": int,
    "total_error": float,  # exact where there is an exact value, else that of the trials
    "mse": float,
    "over_limit": float,
    "bias": float,
    "variance": float,
    "uncertainty": float,
    "simulated_error": float,
    "stderr": float,
    "trials": int,
    "samples": float,  # per agent
    "messages": int,  # in the whole network
    "centralized_limit": float,
    "network_limit": float,
    "theorem_1": float,
    "theorem_2": float,
    "note": str,
}
"""The columns of a comparison, in order; a value that does not exist is None."""

EXACT = ("total_error", "bias", "variance", "uncertainty", "samples", "messages")
"""The columns that the exact engine fills."""

ROUNDS = list(COLUMNS).index("rounds")
"""The place of the number of rounds in a row."""

Row = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Setting:
    """A network and the streams to average, which many points share; `trials` and what may go wrong in them."""

    name: str
    network: Any  #: a Network or a ChangingNetwork
    observations: Observations
    trials: int
    seed: int
    faults: Faults | None

    @cached_property
    def key(self) -> str:
        """A digest of everything but the method that the numbers depend on, the code of the engines included."""
        parts = (self.network, self.observations, self.trials, self.seed, self.faults)
        return digest(fingerprint(Path(__file__)), *parts)


@dataclass(frozen=True, eq=False)
class Contender:
    """A method under the name that it has in a comparison, which many points share."""

    name: str
    method: Method

    @cached_property
    def key(self) -> str:
        return digest(self.method)


@dataclass(frozen=True, eq=False)
class Point:
    """One method in one setting."""

    setting: Setting
    contender: Contender

    @property
    def method(self) -> Method:
        return self.contender.method

    @property
    def name(self) -> str:
        """What the method is called."""
        return self.contender.name

    @cached_property
    def key(self) -> str:
        """A digest of everything that the point's numbers depend on."""
        return hashlib.sha1(f"{self.setting.key} {self.contender.key}".encode()).hexdigest()

    def named(self, row: Row) -> Row:
        """A kept row under the names of this comparison."""
        ours = {"network": self.setting.name, "method": self.name}
        return tuple(ours.get(column, value) for column, value in zip(COLUMNS, row, strict=True))

    def rows(self, horizons: Sequence[int], limits: Limits) -> list[Row]:
        """One row for each horizon."""
        network = self.setting.network
        changing = isinstance(network, ChangingNetwork)
        found: dict[int, dict[str, Any]] = {
            t: {
                **dict.fromkeys(COLUMNS),
                "network": self.setting.name,
                "method": self.name,
                "agents": self.setting.network.agents,
                "edges": None if changing else len(network.edges),
                "rounds": t,
                **limits[t],
            }
            for t in horizons
        }
        notes: dict[int, list[str]] = {t: [] for t in horizons}
        refusals: dict[int, list[str]] = {t: [] for t in horizons}
        if self.setting.faults is None:
            for record in _records(self._exact, horizons, refusals):
                found[record["rounds"]].update({name: record[name] for name in EXACT})
                notes[record["rounds"]].append(record["note"])
        if self.setting.trials:
            for record in _records(self._simulated, horizons, refusals):
                self._add_trials(found[record["rounds"]], record)
                notes[record["rounds"]].append(record["note"])
        for t, row in found.items():
            if row["total_error"] is None:
                notes[t] = refusals[t]
            else:
                row["mse"] = row["total_error"] / row["agents"]
                row["over_limit"] = float(over_limit(row["total_error"], row["centralized_limit"]))
            row["note"] = "; ".join(dict.fromkeys(filter(None, notes[t])))
        return [tuple(_plain(value) for value in row.values()) for row in found.values()]

    def _add_trials(self, row: Record, record: Record) -> None:
        """Put what the trials gave beside the exact values, or in their place if there are none."""
        row.update({name: record[name] for name in ("stderr", "trials")})
        row["simulated_error"] = record["total_error"]
        if row["total_error"] is None:
            row["total_error"] = record["total_error"]
        if self.setting.faults is not None:  # theory is about networks that lose nothing
            row.update(network_limit=None, theorem_1=None, theorem_2=None)
            row.update({name: record[name] for name in ("agents", "centralized_limit")})

    def _exact(self, horizons: list[int]) -> ErrorResult[Any, Any]:
        return exact(self.method, self.setting.network, self.setting.observations, horizons)

    def _simulated(self, horizons: list[int]) -> ErrorResult[Any, Any]:
        on = self.setting
        problem = (self.method, on.network, on.observations, horizons, on.trials, on.seed)
        found = simulate(*problem, faults=on.faults, keep="errors", progress=False)
        if found.partial:
            raise KeyboardInterrupt
        return found


Limits = dict[int, dict[str, Any]]
"""What no method on a network can beat, and what theory promises, by the number of rounds."""


def limits(network: Any, observations: Observations, horizons: Sequence[int]) -> Limits:
    """Both limits and both theorems after each of these rounds; None where they say nothing."""
    rounds = np.array(horizons)
    center = theory.centralized_limit(observations, rounds)
    best = network_limit_if_known(network, observations, rounds)
    theorems = {"theorem_1": theory.theorem_1, "theorem_2": theory.theorem_2}
    return {
        t: {
            "centralized_limit": center[k],
            "network_limit": best[k],
            **{name: _bound(theorem, network, observations, t) for name, theorem in theorems.items()},
        }
        for k, t in enumerate(horizons)
    }


def _bound(
    theorem: Callable[..., theory.Bound], network: Any, observations: Observations, rounds: int
) -> float | None:
    try:
        bound = theorem(network, observations, rounds)
    except Unsupported:
        return None
    return bound.total if bound.applies else None


def _records(
    compute: Callable[[list[int]], ErrorResult[Any, Any]],
    horizons: Sequence[int],
    refusals: dict[int, list[str]],
) -> Iterator[Record]:
    """What an engine says after all horizons; if that is refused, after each by itself, since some may be too few."""
    try:
        yield from compute(list(horizons)).records()
    except GossamerError as refusal:
        if isinstance(refusal, Unsupported) or len(horizons) == 1:
            for t in horizons:
                refusals[t].append(str(refusal))
        else:
            for t in horizons:
                yield from _records(compute, [t], refusals)


def _plain(value: Any) -> Any:
    """A number or text of Python; NaN and infinity are kept, but a NaN limit is none."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value
