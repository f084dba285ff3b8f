"""Everything a playground shows, as one value.

A run is a pure function of its scenario, since noise and faults are drawn from counters. So an action on a running
network in round t is one more fault in the list: the run is recomputed, its first t rounds come out the same, and the
whole view fits into a URL and into a few lines of code.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

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
"""Largest number of estimates (rounds times agents times methods) that a page holds."""
MOST_METHODS = 3
MOST_FORKS = 3
MOST_EVENTS = 200
MOST_FILE = 256 * 2**10
"""Largest size of an uploaded file in bytes."""
HORIZONS = 40
"""Number of points of a curve, evenly spread on a log scale."""

CHANGING = {
    "mobile": {"n": 60, "radius": 0.2, "speed": 0.01},
    "matchings": {"n": 60},
    "dropout": {"network": "grid:10x10", "alive": 0.2},
    "switching": {"networks": "path:40+star:40", "every": 10},
}
"""Changing networks by name, with initial parameters."""

MethodWords = tuple[str, Mapping[str, object]]
Events = tuple[object, ...]
"""JSON of faults, see `gs.faults.from_json`."""


@dataclass(frozen=True)
class Scenario:
    """The methods, the network, the observations and the events of a run.

    network   a name such as grid:10x10, or "file" for an uploaded one
    weights   of the gossip matrix
    methods   names and parameters, up to three, on the same observations
    rounds    how many
    seed      of the network, the means, the noise and the faults
    means, spread, noise, std   see `observations/named.py`
    events    faults
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
    def of(cls, state: object) -> Scenario:
        """Return the validated scenario that a page describes; its network is checked when it is built."""
        if not isinstance(state, dict):
            raise InvalidInput(f"a scenario must be a JSON object, got {checks.brief(state)}")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(state) - known):
            raise InvalidInput(f"a scenario has {', '.join(sorted(known))}, got {checks.brief(unknown[0])}")
        return cls(**{**state, **_checked(state)})

    @property
    def first(self) -> int:
        """Return the smallest number of rounds after which every method has an answer, after its burn-in."""
        return min(self.rounds, 1 + max(method.averages_since(1) or 0 for method in self.build_methods()))

    @property
    def horizons(self) -> list[int]:
        """The numbers of rounds at which errors are computed."""
        return sorted({round(t) for t in np.geomspace(self.first, self.rounds, HORIZONS)})

    def build_network(self) -> gs.Network | gs.ChangingNetwork:
        """Return the network, if it is small enough for a page."""
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
        """Return the faults of this run or of an earlier version of it; None if there are none."""
        items = gs.faults.in_order(map(gs.faults.from_json, self.events if events is None else events))
        return gs.faults.Faults(*items) if items else None


@lru_cache(maxsize=4)
def _built(
    text: str, weights: str, seed: int, file: tuple[str, str] | None
) -> gs.Network | gs.ChangingNetwork:
    """Return a network with its cached spectrum, so that it is built only once per session."""
    if text == "file":
        return _uploaded(file, weights)
    _check_size(text)
    return parse_network(text, weights, seed)


def _checked(state: dict[str, object]) -> dict[str, object]:
    """Return the entries of a scenario that are present, normalized."""
    kinds: dict[str, Callable[[object], object]] = {
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
        "forks": lambda value: tuple(_events(events) for events in _few("forks", value, MOST_FORKS)),
        "file": _file,
    }
    return {name: check(state[name]) for name, check in kinds.items() if name in state}


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise InvalidInput(f"a name is needed, got {checks.brief(value)}")
    return value.strip()


def _few(name: str, value: object, most: int) -> list[object]:
    entries = checks.listed(name, value)
    if len(entries) > most:
        raise InvalidInput(f"a playground has at most {most} {name}, got {len(entries)}")
    return entries


def _events(value: object) -> Events:
    events = tuple(_few("events", value, MOST_EVENTS))
    for event in events:
        gs.faults.from_json(event)
    return events


def _methods(value: object) -> tuple[MethodWords, ...]:
    pairs = _few("methods", value, MOST_METHODS)
    if not pairs:
        raise InvalidInput("a playground needs a method, got none")
    methods: list[MethodWords] = []
    for pair in pairs:
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[1], dict)):
            raise InvalidInput(f"a method is a name and its parameters, got {checks.brief(pair)}")
        methods.append((checks.choice("method", pair[0], gs.METHODS), pair[1]))
        build(gs.METHODS[methods[-1][0]], pair[1])
    return tuple(methods)


def _file(value: object) -> tuple[str, str] | None:
    if value is None:
        return None
    if not (
        isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)
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
            continue  # the parser of the name reports what is wrong with it
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


def catalog() -> dict[str, object]:
    """Return the choices of a page: networks, weights, methods with their parameters, means, noise, and the limits."""
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


def _named() -> dict[str, dict[str, int | None]]:
    """Return the size parameters of every network by name, with the values of its example."""
    sizes_of = {}
    for example in EXAMPLES.split(", "):
        kind, sizes = split_name(example)
        names = [name for name in inspect.signature(NAMES[kind]).parameters if name != "seed"]
        values: list[int | None] = [int(part) for part in (sizes or "").split("x")]
        sizes_of[kind] = dict(zip(names, values + [None] * len(names), strict=False))
    return sizes_of


def _parameters(kind: type[gs.Method]) -> list[dict[str, object]]:
    """Return a method's parameters: name, default value and, if it takes words, the choices."""
    defaults = kind()
    entries = []
    for name in parameters(kind):
        value = getattr(defaults, name)
        entries.append({"name": name, "value": value, "choices": CHOICES.get((kind.name, name))})
    return entries


CHOICES = {
    ("anytime-sda", "acceleration"): ["nesterov", "chebyshev", "heavy-ball", "local", "local-heavy-ball"],
    ("sda", "output"): ["average", "last"],
    ("sstm_sc", "counting"): ["agents", "iterations"],
}
"""Return the words that parameters take."""
