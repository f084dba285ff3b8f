"""The tables of fleet.toml: the method, what is observed, the pace, limits on messages, and the agents."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer import checks
from gossamer.agents import files
from gossamer.agents.config.members import RosterMember
from gossamer.agents.config.model import FleetModel
from gossamer.agents.config.settings import AUTO, Limits
from gossamer.errors import InvalidInput, require
from gossamer.facts import SpectralFacts
from gossamer.methods import METHODS, resolve
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.base import Method
from gossamer.methods.ledger import RETURN_RATE, SILENCE
from gossamer.methods.loading import build, load_class, parameters

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

LEVELS = ("debug", "info", "warning", "error")
"""Log levels, the least serious one first."""

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class MethodTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The method that all agents run, by name, and its parameters. In the file both are in one table.

    name        a method of this package, or "my_file.py:MyMethod" with the file beside fleet.toml
    parameters  those that are not given come from the spectrum of the fleet's edges, if the method needs them
    """

    name: str = AnytimeSDA.name
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, method: Method | str, facts: SpectralFacts) -> MethodTable:
        """The table of a method of this package.

        The parameters that Anytime SDA takes from the spectrum are written out, for a reader to see.
        """
        method = resolve(method)
        if METHODS.get(method.name) is not type(method):
            raise InvalidInput(
                parameter="method",
                required=f"one of {', '.join(METHODS)}",
                got=repr(method),
                hint="name a method of your own as MethodTable(name='my_file.py:MyMethod')",
            )
        own: Any = fields(method)  # type: ignore[arg-type]
        given = {f.name: (getattr(method, f.name), f.default) for f in own}
        chosen = {
            name: value for name, (value, default) in given.items() if not np.array_equal(value, default)
        }
        if isinstance(method, AnytimeSDA):
            tuned = {} if method.local else method.chosen(facts)
            chosen |= tuned | {"gain": method.gain or 0.0}
        return cls(name=method.name, parameters=chosen)

    @classmethod
    def from_file(cls, table: dict[str, Any]) -> dict[str, Any]:
        """What fleet.toml holds in one table, as the fields of this class."""
        rest = dict(table)
        name = rest.pop("name", AnytimeSDA.name)
        return {"name": name, "parameters": rest}

    def in_file(self) -> dict[str, Any]:
        """The fields of this class, as one table of fleet.toml."""
        return {"name": self.name, **self.parameters}

    def build(self, directory: Path | None = None) -> Method:
        """The method itself; a file is looked for in `directory`, where fleet.toml is."""
        known: list[str] = []
        try:
            if ".py:" in self.name:
                files.check([(directory or Path()) / self.name.rpartition(":")[0]])
            kind = load_class(self.name, directory)
            known = parameters(kind)
            # TOML has no None, so a gain of 0 stands for it in methods whose gain is optional.
            optional = getattr(kind, "gain", 0) is None
            given = {k: v for k, v in self.parameters.items() if not (k == "gain" and v == 0 and optional)}
            return build(kind, given)
        except InvalidInput as error:
            raise error.inside("method", known) from None


class ObservationsTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agents observe and average."""

    dimension: int = 1
    weighting: str = "agents"
    range: tuple[float | tuple[float, float], ...] = ()
    outside: str = "refuse"


class StatisticsTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agents learn besides the mean."""

    replicates: int = 8
    variance: bool = False
    covariance: bool = False
    bins: tuple[float, ...] = ()
    extremes: bool = False
    window: str = ""


class ModelTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that the agents learn from rows; without a family they average observations."""

    family: str = ""
    covariates: tuple[str, ...] = ()
    intercept: bool = True
    ridge: float = 0.0
    classes: int = FleetModel.classes
    threshold: float = FleetModel.threshold
    memory: int = FleetModel.memory
    least: int = FleetModel.least
    forgetting: float = FleetModel.forgetting
    keep: bool = FleetModel.keep

    def build(self) -> FleetModel | None:
        """The model itself; None: there is none."""
        if not self.family:
            return None
        return FleetModel(**msgspec.structs.asdict(self))


class RoundsTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pace and timeouts."""

    every: str = "100ms"
    timeout: str = AUTO
    stop_timeout: str = "5s"
    silence: int = SILENCE
    return_rate: float = RETURN_RATE
    death: str = "5s"
    commit: str = "200ms"

    def check(self) -> None:
        """Raise for a time to stop that is too short: a command has two seconds to end."""
        checks.number("rounds.stop_timeout", duration("rounds.stop_timeout", self.stop_timeout), least=3)

    @property
    def wait(self) -> float | str:
        """The timeout in seconds, or "auto"."""
        try:
            return AUTO if self.timeout == AUTO else duration("rounds.timeout", self.timeout)
        except InvalidInput as error:
            raise InvalidInput(
                parameter=error.parameter, required=f'"auto" or {error.required}', got=error.got
            ) from None


class WireTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on what is accepted from neighbors."""

    message_bytes: int = Limits.message_bytes
    rounds_ahead: int = Limits.rounds_ahead


class LoggingTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agents write about themselves."""

    level: str = "info"
    report: str = "1s"


class Member(RosterMember, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent as in fleet.toml: what the others know of it, and what only its own machine uses.

    listen  host:port on which it listens, where that is not its endpoint (containers, NAT); empty: the endpoint
    source  where its observations come from
    end     what it means that a command (cmd:) ends without an error: "fail", "restart" or "stop"; empty: "fail"
    metrics "host:port" where it serves its metrics; empty: nowhere
    level   its own log level; empty: the fleet's
    """

    listen: str = ""
    source: str = "-"
    end: str = ""
    metrics: str = ""
    level: str = ""


def duration(name: str, text: str) -> float:
    """Return seconds from "250ms", "2s", "1m" or "1h"; "0" is 0."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if not match or (match[2] not in _UNITS and float(match[1]) != 0):
        raise InvalidInput(parameter=name, required='a time such as "250ms", "2s" or "1m"', got=repr(text))
    return float(match[1]) * _UNITS.get(match[2], 0.0)
