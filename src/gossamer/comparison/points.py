"""A point of a comparison: one method on one network, its rows, and the key under which they are kept."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

import joblib
import numpy as np

from gossamer import theory
from gossamer.engines.exact import exact
from gossamer.engines.results import ErrorResult, network_limit_if_known, over_limit
from gossamer.engines.simulate import simulate
from gossamer.errors import GossamerError, InvalidInput, Unsupported
from gossamer.faults import Faults
from gossamer.fingerprint import fingerprint
from gossamer.methods import Method
from gossamer.networks import ChangingNetwork, Network
from gossamer.observations import Observations

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
        return _digest(fingerprint(Path(__file__)), *parts)


@dataclass(frozen=True, eq=False)
class Point:
    """One method in one setting."""

    setting: Setting
    name: str
    method: Method

    @cached_property
    def key(self) -> str:
        """A digest of everything that the point's numbers depend on."""
        return _digest(self.setting.key, self.method)

    def named(self, row: Row) -> Row:
        """A kept row under the names of this comparison."""
        return (self.setting.name, *row[1:3], self.name, *row[4:])

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
        if self.setting.faults is None and not (changing and self.setting.trials):
            self._fill(found, notes, self._exact, ("total_error", "bias", "variance", "uncertainty"))
        if self.setting.trials:
            self._fill(found, notes, self._simulated, ("stderr", "trials"))
        for t, row in found.items():
            if row["total_error"] is not None:
                row["mse"] = row["total_error"] / row["agents"]
                row["over_limit"] = float(over_limit(row["total_error"], row["centralized_limit"]))
            row["note"] = "; ".join(dict.fromkeys(notes[t]))
        return [tuple(_plain(value) for value in row.values()) for row in found.values()]

    def _fill(
        self,
        found: dict[int, dict[str, Any]],
        notes: dict[int, list[str]],
        compute: Callable[[list[int]], ErrorResult[Any, Any]],
        names: Sequence[str],
    ) -> None:
        """Put what an engine says into the rows; where it refuses, say so there."""
        for some, outcome in _as_far_as_possible(compute, list(found)):
            if isinstance(outcome, GossamerError):
                for t in some:
                    notes[t].append(str(outcome))
                continue
            for record in outcome.records():
                row = found[record["rounds"]]
                row.update({name: record[name] for name in names})
                if "trials" in names:
                    row["simulated_error"] = record["total_error"]
                    if row["total_error"] is None:
                        row["total_error"] = record["total_error"]
                    if self.setting.faults is not None:  # theory is about networks that lose nothing
                        row.update(network_limit=None, theorem_1=None, theorem_2=None)
                        row["agents"], row["centralized_limit"] = (
                            record["agents"],
                            record["centralized_limit"],
                        )
                else:
                    row["samples"], row["messages"] = record["samples"], record["messages"]
                notes[record["rounds"]].extend(filter(None, [record["note"]]))

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


def _as_far_as_possible(
    compute: Callable[[list[int]], ErrorResult[Any, Any]], horizons: list[int]
) -> Iterator[tuple[list[int], ErrorResult[Any, Any] | GossamerError]]:
    """All horizons at once; if that is refused, each by itself, since only some may be too short for the method."""
    try:
        yield horizons, compute(horizons)
    except GossamerError as refusal:
        if isinstance(refusal, Unsupported) or len(horizons) == 1:
            yield horizons, refusal
        else:
            for t in horizons:
                yield from _as_far_as_possible(compute, [t])


def _plain(value: Any) -> Any:
    """A number or text of Python; NaN and infinity are kept, but a NaN limit is none."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value


def _digest(*values: Any) -> str:
    try:
        return str(joblib.hash([_content(value) for value in values], hash_name="sha1"))
    except Exception as error:  # whatever keeps an object from being pickled
        raise InvalidInput(
            f"a store needs methods and streams that can be pickled, got one that cannot ({error}); "
            "define its class and functions in a module"
        ) from error


def _content(value: Any) -> Any:
    """What a value is, so that equal ones give equal digests in every process and on every machine."""
    if isinstance(value, Network):
        matrix = value.gossip
        return matrix.shape, matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
    if isinstance(value, FunctionType):
        cells = [_content(cell.cell_contents) for cell in value.__closure__ or ()]
        return value.__qualname__, value.__code__.co_code, value.__code__.co_consts, value.__defaults__, cells
    if is_dataclass(value) and not isinstance(value, type):
        return _kind(type(value)), {
            field.name: _content(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, Observations):
        cached = {
            name for name in vars(value) if isinstance(getattr(type(value), name, None), cached_property)
        }
        return _kind(type(value)), {k: _content(v) for k, v in vars(value).items() if k not in cached}
    if isinstance(value, list | tuple):
        return [_content(each) for each in value]
    return value


@cache
def _kind(cls: type) -> tuple[str, str]:
    """The name of a class and, for one that is not of this package, a digest of the file that defines it."""
    if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return cls.__module__, cls.__qualname__
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):  # typed into an interpreter
        source = ""
    return cls.__qualname__, hashlib.sha256(source.encode()).hexdigest()
