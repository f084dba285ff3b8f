"""A point of a comparison: one method on one network with some streams, its rows, and the key of its file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from gossamer import theory
from gossamer.arrays import Floats, Integers
from gossamer.comparison.content import digest
from gossamer.comparison.values import Digests, Facts, sample_digest, value_digests
from gossamer.engines.exact import exact
from gossamer.engines.results import ErrorResult, network_limit_if_known, over_limit
from gossamer.engines.simulate import simulate
from gossamer.errors import GossamerError, Unsupported
from gossamer.faults import Faults
from gossamer.fingerprint import fingerprint
from gossamer.methods import DSG, SDA, AnytimeSDA, Method
from gossamer.networks import AnyNetwork, ChangingNetwork, DirectedNetwork, Network
from gossamer.observations import Observations
from gossamer.results import Record

COLUMNS: dict[str, type] = {
    "network": str,
    "agents": int,  # those whose errors are summed: with faults, the ones alive
    "edges": int,  # of a directed network, its links
    "streams": str,
    "method": str,
    "rounds": int,
    "total_error": float,  # exact where there is an exact value (its upper end if sampled), else that of the trials
    "mse": float,
    "over_limit": float,
    "bias": float,
    "variance": float,
    "uncertainty": float,
    "simulated_error": float,
    "stderr": float,
    "ci_low": float,  # the 95% confidence interval of simulated_error, by Student's t
    "ci_high": float,
    "trials": int,
    "samples": float,  # per agent
    "messages": int,  # in the whole network
    "centralized_limit": float,
    "network_limit": float,
    "theorem_1": float,  # about SDA with the paper's parameters, and in its rows alone
    "theorem_2": float,  # about DSG
    "theorem_3": float,  # about Anytime SDA with its default parameters
    "note": str,
}
"""The columns of a comparison, in order; a value that does not exist is None."""

EXACT = ("total_error", "bias", "variance", "uncertainty", "samples", "messages")
"""The columns that the exact engine fills."""

SIMULATED = ("simulated_error", "stderr", "ci_low", "ci_high", "trials", "note")
"""The columns that a kept row keeps when its exact error is computed again: trials take longer."""

CONFIDENCE = 0.95


def _theorem_3(network: Network, observations: Observations, rounds: int) -> theory.Bound:
    return theory.theorem_3(network, observations, rounds, AnytimeSDA().window(network))


THEOREMS: dict[str, tuple[Method, Callable[..., theory.Bound]]] = {
    "theorem_1": (SDA(), theory.theorem_1),
    "theorem_2": (DSG(), theory.theorem_2),
    "theorem_3": (AnytimeSDA(), _theorem_3),
}
"""The theorems by column, with the method that each is about."""

UPPER_END = "total_error is its upper end, two standard errors (uncertainty) above bias + variance"

ROUNDS = list(COLUMNS).index("rounds")
"""Index of the number of rounds in a row."""

Row = tuple[Any, ...]

Label = str | int | float
"""The label of a network, of streams or of a method in a comparison; numbers make a column to plot against."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A network and the streams to average, which many points share; `trials` and what may go wrong in them."""

    name: Label  #: of the network
    network: Any  #: a Network, a ChangingNetwork or a DirectedNetwork, which engines may refuse
    streams: Label
    observations: Observations
    trials: int
    seed: int
    faults: Faults | None

    @cached_property
    def key(self) -> str:
        """A digest of everything but the method that the numbers depend on, the code of the engines included."""
        streams = self.observations
        given = (streams.mean, streams.variance, streams.drift)
        parts = (self.network, streams, given, self.trials, self.seed, self.faults)
        return digest(fingerprint(Path(__file__)), *parts)

    @cached_property
    def samples(self) -> Digests:
        """Digests of what user-defined streams give in the trials, of the numbers of rounds asked for so far."""
        return {}


@dataclass(frozen=True, eq=False)
class Contender:
    """A method under the name that it has in a comparison, which many points share."""

    name: Label
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
    def name(self) -> Label:
        """The name of the method."""
        return self.contender.name

    @cached_property
    def key(self) -> str:
        """A digest of everything that the point's numbers depend on."""
        return hashlib.sha1(f"{self.setting.key} {self.contender.key}".encode()).hexdigest()

    def values(self, horizons: Sequence[int], known: Facts) -> tuple[Digests, Facts]:
        """Return digests of what the engines read up to each horizon, and the facts that the method used."""
        on = self.setting
        digests, facts = value_digests(self.method, on.network, on.observations, horizons, known)
        for t in horizons if on.trials else ():
            if t not in on.samples:
                on.samples[t] = sample_digest(on.observations, on.seed, on.trials, t)
            digests[t] = f"{digests[t]} {on.samples[t]}".rstrip()
        return digests, facts

    def named(self, row: Row) -> Row:
        """Return a kept row under the names of this comparison."""
        ours = {"network": self.setting.name, "streams": self.setting.streams, "method": self.name}
        return tuple(ours.get(column, value) for column, value in zip(COLUMNS, row, strict=True))

    def rows(self, horizons: Sequence[int], limits: Limits, kept: Mapping[int, Row]) -> list[Row]:
        """Return one row for each horizon; `kept` rows have trials that are not simulated again."""
        network = self.setting.network
        rows: dict[int, Record] = {
            t: {
                **dict.fromkeys(COLUMNS),
                "network": str(self.setting.name),
                "streams": str(self.setting.streams),
                "method": str(self.name),
                "agents": self.setting.network.agents,
                "edges": _edges(network),
                "rounds": t,
                **limits[t],
                **self._theorems(t),
            }
            for t in horizons
        }
        notes: dict[int, list[str]] = {t: [] for t in horizons}
        refusals: dict[int, str] = {}
        # On given contacts an exact error takes a run for each observation, so that trials are asked for instead of it.
        if self.setting.faults is None and not (self.setting.trials and isinstance(network, ChangingNetwork)):
            for record in _records(self._exact, horizons, refusals):
                row = rows[record["rounds"]]
                row.update({name: record[name] for name in EXACT})
                notes[record["rounds"]].append(record["note"])
                if record["uncertainty"]:  # the upper end, to be on the safe side
                    row["total_error"] += 2 * record["uncertainty"]
                    notes[record["rounds"]].append(UPPER_END)
        if self.setting.trials:
            old = {t: dict(zip(COLUMNS, row, strict=True)) for t, row in kept.items()}
            # The reasons for refusing an exact error advise simulating, which is done here.
            refusals.clear()
            for record in _records(self._simulated, [t for t in horizons if t not in old], refusals):
                self._add_trials(rows[record["rounds"]], record)
                notes[record["rounds"]].append(record["note"])
            for t, row in old.items():
                rows[t].update({name: row[name] for name in SIMULATED})
                notes[t] = [row["note"]]
        for t, row in rows.items():
            if row["total_error"] is None:
                notes[t] = [refusals.get(t, "")]
            else:
                row["mse"] = row["total_error"] / row["agents"]
                row["over_limit"] = float(over_limit(row["total_error"], row["centralized_limit"]))
            row["note"] = "; ".join(dict.fromkeys(filter(None, notes[t])))
        return [tuple(_plain(value) for value in row.values()) for row in rows.values()]

    def _theorems(self, rounds: int) -> dict[str, float | None]:
        """Return the bounds that theory has for this method, where there are any."""
        on = self.setting
        if on.faults is not None or not isinstance(on.network, Network):
            return {}
        return {
            name: _bound(theorem, on.network, on.observations, rounds)
            for name, (method, theorem) in THEOREMS.items()
            if type(self.method) is type(method) and self.method == method
        }

    def _add_trials(self, row: Record, record: Record) -> None:
        """Add the results of the trials to the exact values, or use them if there are no exact ones."""
        row.update({name: record[name] for name in ("stderr", "trials")})
        row["simulated_error"] = record["total_error"]
        if record["trials"] > 1:
            half = float(student.ppf(0.5 + CONFIDENCE / 2, record["trials"] - 1)) * record["stderr"]
            row.update(ci_low=record["total_error"] - half, ci_high=record["total_error"] + half)
        if row["total_error"] is None:
            row["total_error"] = record["total_error"]
        if self.setting.faults is not None:  # the network limit assumes that no message is lost
            row["network_limit"] = None
            row.update({name: record[name] for name in ("agents", "centralized_limit")})

    def _exact(self, horizons: list[int]) -> ErrorResult[Integers, Floats]:
        return exact(self.method, self.setting.network, self.setting.observations, horizons)

    def _simulated(self, horizons: list[int]) -> ErrorResult[Integers, Floats]:
        on = self.setting
        problem = (self.method, on.network, on.observations, horizons, on.trials, on.seed)
        run = simulate(*problem, faults=on.faults, keep="errors", progress=False)
        if run.partial:
            raise KeyboardInterrupt
        return run


def _edges(network: AnyNetwork) -> int | None:
    if isinstance(network, ChangingNetwork):
        return None
    return len(network.links if isinstance(network, DirectedNetwork) else network.edges)


Limits = dict[int, dict[str, float]]
"""The limits that no method on a network can beat, by the number of rounds."""


def limits(network: Any, observations: Observations, horizons: Sequence[int]) -> Limits:
    """Return both limits after each of these rounds; None where they are unknown."""
    rounds = np.array(horizons)
    center = theory.centralized_limit(observations, rounds)
    best = network_limit_if_known(network, observations, rounds)
    return {t: {"centralized_limit": center[k], "network_limit": best[k]} for k, t in enumerate(horizons)}


def _bound(
    theorem: Callable[..., theory.Bound], network: Network, observations: Observations, rounds: int
) -> float | None:
    try:
        bound = theorem(network, observations, rounds)
    except Unsupported:
        return None
    return bound.total if bound.applies else None


def _records(
    compute: Callable[[list[int]], ErrorResult[Integers, Floats]],
    horizons: Sequence[int],
    refusals: dict[int, str],
) -> Iterator[Record]:
    """Return an engine's results for all horizons or, if that fails, for each one separately, since some may be too
    small."""
    if not horizons:
        return
    try:
        yield from compute(list(horizons)).records()
    except GossamerError as refusal:
        if isinstance(refusal, Unsupported) or len(horizons) == 1:
            for t in horizons:
                refusals[t] = str(refusal)
        else:
            for t in horizons:
                yield from _records(compute, [t], refusals)


def _plain(value: object) -> object:
    """Return a Python number or text; NaN and infinity are kept, but a limit that is NaN becomes None."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value
