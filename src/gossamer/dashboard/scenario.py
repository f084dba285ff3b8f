"""Everything a playground shows, as one value.

A run is a pure function of its scenario, since noise and faults are drawn from counters. So what happens to a running
network at round t is one more fault in the list: the run is computed again, its first t rounds come out the same, and
the whole view fits into an address and into a few lines of code.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import gossamer as gs
from gossamer import checks
from gossamer.errors import InvalidInput
from gossamer.methods.loading import build, parameters
from gossamer.networks.names import EXAMPLES, NAMES, split_name
from gossamer.networks.reading import parse_network
from gossamer.observations.named import MEANS, NOISE, named_streams

MOST_AGENTS = 2000
MOST_LINKS = 40_000
MOST_ROUNDS = 20_000
MOST_NUMBERS = 12_000_000
"""Rounds times agents times methods: what a page holds."""
MOST_METHODS = 3
MOST_FORKS = 3
MOST_EVENTS = 200
MOST_FILE = 256 * 2**10
"""Bytes of an uploaded file."""
HORIZONS = 40
"""Points of a curve, evenly spread on a log scale."""

CHANGING = {
    "mobile": {"n": 60, "radius": 0.2, "speed": 0.01},
    "matchings": {"n": 60},
    "dropout": {"network": "grid:10x10", "alive": 0.2},
    "switching": {"networks": "path:40+star:40", "every": 10},
}
"""The changing networks that have a name, with parameters to start from."""

MethodWords = tuple[str, Mapping[str, Any]]
Events = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Scenario:
    """What is run, on what, and what happens to it.

    network   a name such as grid:10x10, or "file" for an uploaded one
    weights   of the gossip matrix
    methods   names and parameters, up to three, on the same observations
    rounds    how many
    seed      of the network, the means, the noise and the faults
    means, spread, noise, std   see `observations/named.py`
    events    what goes wrong (`events.py`)
    forks     events of earlier versions of this run, whose curves stay
    file      the name and the content (base64) of an uploaded network
    """

    network: str = "grid:10x10"
    weights: str = "metropolis"
    methods: tuple[MethodWords, ...] = (("anytime-sda", {}),)
    rounds: int = 300
    seed: int = 0
    means: str = "uniform"
    spread: float = 10.0
    noise: str = "gaussian"
    std: float = 1.0
    events: Events = ()
    forks: tuple[Events, ...] = ()
    file: tuple[str, str] | None = None

    @classmethod
    def of(cls, state: Any) -> Scenario:
        """The scenario that a page describes, checked; its network is looked at when it is built."""
        if not isinstance(state, dict):
            raise InvalidInput(f"a scenario must be a JSON object, got {checks.brief(state)}")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(state) - known):
            raise InvalidInput(f"a scenario has {', '.join(sorted(known))}, got {checks.brief(unknown[0])}")
        return cls(**{**state, **_checked(state)})

    @property
    def first(self) -> int:
        """The smallest number of rounds that leaves every method an answer, after its burn-in."""
        return min(self.rounds, 1 + max(method.averages_since(1) or 0 for method in self.build_methods()))

    @property
    def horizons(self) -> list[int]:
        """The numbers of rounds at which errors are computed."""
        return sorted({round(t) for t in np.geomspace(self.first, self.rounds, HORIZONS)})

    def build_network(self) -> gs.Network | gs.ChangingNetwork:
        """The network, if it is small enough for a page."""
        network = _built(self.network, self.weights, self.seed, self.file)
        agents = checks.whole_number("agents of a playground", network.agents, most=MOST_AGENTS)
        if isinstance(network, gs.Network):
            checks.whole_number("links of a playground", len(network.edges), most=MOST_LINKS)
        numbers = self.rounds * agents * len(self.methods)
        if numbers > MOST_NUMBERS:
            raise InvalidInput(
                f"a page holds {MOST_NUMBERS:,} estimates, but {self.rounds} rounds of {agents} agents with "
                f"{len(self.methods)} methods have {numbers:,}; take fewer rounds, agents or methods"
            )
        return network

    def build_streams(self, agents: int) -> gs.Observations:
        return named_streams(agents, self.spread, self.std, self.seed, means=self.means, noise=self.noise)

    def build_methods(self) -> list[gs.Method]:
        return [build(gs.METHODS[name], values) for name, values in self.methods]

    def build_faults(self, events: Events | None = None) -> gs.faults.Faults | None:
        """What goes wrong, or in an earlier version of the run did; None if nothing does."""
        items = gs.faults.in_order(map(gs.faults.from_json, self.events if events is None else events))
        return gs.faults.Faults(*items) if items else None


@lru_cache(maxsize=4)
def _built(
    text: str, weights: str, seed: int, file: tuple[str, str] | None
) -> gs.Network | gs.ChangingNetwork:
    """A network, with the spectrum that it finds: one that is acted on is built once."""
    if text == "file":
        return _uploaded(file, weights)
    _check_size(text)
    return parse_network(text, weights, seed)


def _checked(state: dict[str, Any]) -> dict[str, Any]:
    """The entries of a scenario that are there, in the form we use."""
    kinds = {
        "network": _text,
        "weights": _text,
        "methods": _methods,
        "rounds": lambda value: checks.whole_number("rounds", value, least=1, most=MOST_ROUNDS),
        "seed": lambda value: checks.whole_number("seed", value, least=0, most=2**53),
        "means": lambda value: checks.choice("means", value, MEANS),
        "spread": lambda value: checks.number("spread", value, least=0, most=1e9),
        "noise": lambda value: checks.choice("noise", value, NOISE),
        "std": lambda value: checks.number("std", value, least=0, most=1e9),
        "events": _events,
        "forks": lambda value: tuple(_events(each) for each in _few("forks", value, MOST_FORKS)),
        "file": _file,
    }
    return {name: check(state[name]) for name, check in kinds.items() if name in state}


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise InvalidInput(f"a name is needed, got {checks.brief(value)}")
    return value.strip()


def _few(name: str, value: Any, most: int) -> list[Any]:
    found = checks.listed(name, value)
    if len(found) > most:
        raise InvalidInput(f"a playground has at most {most} {name}, got {len(found)}")
    return found


def _events(value: Any) -> Events:
    found = tuple(_few("events", value, MOST_EVENTS))
    for event in found:
        gs.faults.from_json(event)
    return found


def _methods(value: Any) -> tuple[MethodWords, ...]:
    found = _few("methods", value, MOST_METHODS)
    if not found:
        raise InvalidInput("a playground needs a method, got none")
    for pair in found:
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[1], dict)):
            raise InvalidInput(f"a method is a name and its parameters, got {checks.brief(pair)}")
        build(gs.METHODS[checks.choice("method", pair[0], gs.METHODS)], pair[1])
    return tuple((name, values) for name, values in found)


def _file(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    if not (
        isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(each, str) for each in value)
    ):
        raise InvalidInput(f"a file is a name and its content, got {checks.brief(value)}")
    if len(value[1]) > MOST_FILE * 4 // 3 + 4:
        raise InvalidInput(
            f"an uploaded file may have {MOST_FILE // 1024} kB, got {len(value[1]) * 3 // 4096} kB"
        )
    return Path(value[0]).name[:80], value[1]


def _check_size(text: str) -> None:
    """Refuse a network that is too large before it is built, and a file of this machine."""
    kind, rest = split_name(text)
    names = rest.split(",")[0].split("+") if kind in ("dropout", "switching") and rest else [text]
    for name in names:
        kind, rest = split_name(name)
        if kind not in NAMES and kind not in CHANGING:
            raise InvalidInput(
                parameter="network",
                required=f"one of {', '.join((*NAMES, *CHANGING))} and its size",
                got=repr(text),
            )
        try:
            sizes = [float(part) for part in (rest or "").split(",")[0].lower().split("x")]
        except ValueError:
            continue  # whoever reads the name says what is wrong with it
        agents = (
            math.prod(sizes[:2])
            if kind in ("grid", "torus")
            else 2.0 ** min(sizes[0], 64)
            if kind == "hypercube"
            else sizes[0]
        )
        if agents > MOST_AGENTS:
            raise InvalidInput(
                f"agents of a playground must be at most {MOST_AGENTS}, got {agents:g} in {text!r}"
            )


def _uploaded(file: tuple[str, str] | None, weights: str) -> gs.Network:
    if file is None:
        raise InvalidInput(
            "must be uploaded as a file, but there is none; choose one, or another network",
            parameter="network",
        )
    try:
        content = base64.b64decode(file[1], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{file[0]} did not arrive whole; upload it again") from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (file[0] or "network")
        path.write_bytes(content)
        try:
            return gs.Network.read(path, weights)
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(f"{folder}/", "")) from None


def catalog() -> dict[str, Any]:
    """What a page may offer: networks, weights, methods with their parameters, means, noise, and the limits."""
    return {
        "networks": {**_named(), **CHANGING},
        "changing": list(CHANGING),
        "weights": list(gs.networks.WEIGHTS),
        "methods": {name: _parameters(kind) for name, kind in gs.METHODS.items()},
        "means": list(MEANS),
        "noise": list(NOISE),
        "limits": {
            "agents": MOST_AGENTS,
            "rounds": MOST_ROUNDS,
            "methods": MOST_METHODS,
            "forks": MOST_FORKS,
            "file": MOST_FILE,
        },
    }


def _named() -> dict[str, dict[str, Any]]:
    """The sizes of every network by name, with those of its example."""
    found = {}
    for example in EXAMPLES.split(", "):
        kind, sizes = split_name(example)
        names = [name for name in inspect.signature(NAMES[kind]).parameters if name != "seed"]
        values: list[Any] = [int(part) for part in (sizes or "").split("x")]
        found[kind] = dict(zip(names, values + [None] * len(names), strict=False))
    return found


def _parameters(kind: type[gs.Method]) -> list[dict[str, Any]]:
    """A method's parameters: name, default value and, where it takes words, which."""
    defaults = kind()
    found = []
    for name in parameters(kind):
        value = getattr(defaults, name)
        found.append({"name": name, "value": value, "choices": CHOICES.get((kind.name, name))})
    return found


CHOICES = {
    ("anytime-sda", "acceleration"): ["nesterov", "chebyshev", "heavy-ball", "local", "local-heavy-ball"],
    ("sda", "output"): ["average", "last"],
    ("sstm_sc", "counting"): ["agents", "iterations"],
}
"""The words that parameters take."""
