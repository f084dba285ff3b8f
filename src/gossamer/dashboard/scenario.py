"""Everything a playground shows, as one value.

A run is a pure function of its scenario, since noise and faults are drawn from counters. So an action on a running
network in round t is one more fault in the list: the run is recomputed, its first t rounds come out the same, and the
whole view fits into a URL and into a few lines of code.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import inspect
import json
import math
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import gossamer as gs
from gossamer import checks
from gossamer.errors import InvalidInput
from gossamer.methods.loading import build, parameters
from gossamer.networks.names import EXAMPLES, NAMES, split_name
from gossamer.networks.reading import parse_network
from gossamer.observations.named import MEANS, NOISE, named_streams

if TYPE_CHECKING:
    from gossamer.dashboard.saving import SavedPage

MOST_AGENTS = 2000
MOST_LINKS = 40_000
MOST_ROUNDS = 20_000
MOST_NUMBERS = 12_000_000
"""Largest number of estimates (rounds times agents times methods) that a page holds."""
MOST_CONTACTS = 20_000_000
"""Largest number of links of a changing network, summed over all rounds; one takes at least CONTACT bytes."""
CONTACT = 20
MOST_SECONDS = 120.0
"""Time limit of a page's runs: the estimate before they begin, and a worker's time from its start."""
ROUND, UPDATE, FAULTY_UPDATE = 2e-4, 3e-8, 1e-6
"""Approximate seconds per round, and per agent or link in a round, without and with faults."""
MOST_METHODS = 3
MOST_FORKS = 3
MOST_EVENTS = 200
MOST_FILE = 256 * 2**10
"""Largest size of an uploaded file in bytes."""
HORIZONS = 40
"""Number of points of a curve, evenly spread on a log scale."""

RADIUS = 0.2
"""Within which mobile agents hear each other, unless given."""

CHANGING = {
    "mobile": {"n": 60, "radius": RADIUS, "speed": 0.01},
    "matchings": {"n": 60},
    "dropout": {"network": "grid:10x10", "alive": 0.2},
    "switching": {"networks": "path:40+star:40", "every": 10},
}
"""Changing networks by name, with initial parameters."""


class NetworkSize(NamedTuple):
    """Numbers of agents and links, from which the memory and the time of all runs are estimated."""

    agents: float
    links: float
    changing: bool = False


MethodWords = tuple[str, Mapping[str, object]]
Events = tuple[object, ...]
"""JSON of faults, see `gs.faults.from_json`."""


@dataclass(frozen=True)
class Scenario:
    """Everything that a playground shows: methods on one network, their observations, and what happens to them.

    Parameters
    ----------
    network : str
        A name with sizes such as grid:10x10, or "file" for an uploaded one.
    weights : str
        Weights of the gossip matrix: "metropolis", "laplacian", "max-degree" or "best-constant".
    methods : sequence of (str, dict)
        Up to three names of methods with their parameters; all see the same observations. A name alone is enough.
    rounds, seed : int
        Number of rounds, and the seed of the network, the means, the noise and the faults.
    means, spread, noise, std
        How the means differ between agents, by how much, and the kind and the standard deviation of the noise.
    mask : float
        Standard deviation of masks that hide the observations and cancel in the average; 0 for none.
    events : sequence of dict
        Faults as JSON: `{"kind": "crash", "agent": 0, "round": 150}`.
    forks : sequence
        Events of earlier versions of this run, whose curves stay.
    file : (str, str), optional
        The name and the content (base64) of an uploaded network.

    See Also
    --------
    widget : The runs of a scenario as a Jupyter widget.
    Animation : The same for a simulation of your own.

    Examples
    --------
    >>> scenario = gs.dashboard.Scenario(network="grid:4x4", methods=["dsg"], rounds=20)
    >>> page = scenario.page(losses=[0, 0.5])  # scenario.save("lesson.html", losses=[0, 0.5]) writes it
    >>> page.summary.split(": ")[1]
    '16 agents, 20 rounds, 2 variants'
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
    mask: float = 0.0
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
        return cls(**state)

    def __post_init__(self) -> None:
        for name, value in _checked(self.to_json()).items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_link(cls, link: str) -> Scenario:
        """Return the scenario of an address that was copied from a playground."""
        return cls.of(view_of(link)["scenario"])

    def to_json(self) -> dict[str, object]:
        """Return the entries as JSON has them, the opposite of `of`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def save(
        self,
        path: str | Path,
        *,
        title: str = "gossamer",
        words: str = "",
        losses: Sequence[float] | None = None,
        start: int = 1,
        lesson: bool = False,
    ) -> str:
        """Write the runs of this scenario to one HTML file, which needs no server and works inside other pages.

        Parameters
        ----------
        path : str or Path
            The file. Another file than a page that was saved before is not replaced.
        title, words : str
            Heading of the page, and a few sentences above the networks.
        losses : sequence of float, optional
            Shares of lost messages between which the reader chooses: by default 0, 0.1, 0.3 and 0.5, or none if the
            scenario has losses of its own or a method that cannot run with faults.
        start : int
            The round that the page shows first, from 1.
        lesson : bool
            Whether curves grow as the run plays, so that readers can predict them; a switch shows the whole run.

        Returns
        -------
        str
            The size of the file and what it holds.

        See Also
        --------
        page : The same page as a value, which notebooks show, and whose size is known before it is written.
        """
        page = self.page(title=title, words=words, losses=losses, start=start, lesson=lesson)
        page.write(path)
        return page.summary

    def page(
        self,
        *,
        title: str = "gossamer",
        words: str = "",
        losses: Sequence[float] | None = None,
        start: int = 1,
        lesson: bool = False,
    ) -> SavedPage:
        """Return the page that `save` writes, with the same parameters; its `summary` says how large it is."""
        from gossamer.dashboard.saving import page_of

        return page_of(self, title=title, words=words, losses=losses, start=start, lesson=lesson)

    @property
    def first(self) -> int:
        """Return the smallest number of rounds after which every method has an answer, after its burn-in."""
        return min(self.rounds, 1 + max(method.averages_since(1) or 0 for method in self.build_methods()))

    @property
    def horizons(self) -> list[int]:
        """The numbers of rounds at which errors are computed: evenly spaced on a log scale, and rounds of events."""
        return sorted({*(round(t) for t in np.geomspace(self.first, self.rounds, HORIZONS)), *self.turns})

    @property
    def turns(self) -> list[int]:
        """Rounds of the first events, including those of forks, and the following ones: there a curve may turn."""
        event_rounds = {
            event[key] + after
            for events in (self.events, *self.forks)
            for event in events
            if isinstance(event, dict)
            for key in ("round", "start", "stop")
            if isinstance(event.get(key), int)
            for after in (0, 1)
        }
        return sorted(t for t in event_rounds if self.first <= t <= self.rounds)[: 2 * HORIZONS]

    def build_network(self) -> gs.Network | gs.ChangingNetwork:
        """Return the network, if the runs on it are small enough for a page."""
        if self.network != "file":
            for size in _named_sizes(self.network):
                self._check_cost(size, f" in {self.network!r}")
        network = _built(self.network, self.weights, self.seed, self.file)
        if isinstance(network, gs.Network):
            self._check_cost(NetworkSize(network.agents, len(network.edges)))
        else:
            self._check_cost(NetworkSize(network.agents, len(network.edges_in(range(1))[1]), changing=True))
        return network

    def _check_cost(self, size: NetworkSize, where: str = "") -> None:
        """Refuse what takes too much memory or time, all of it derived from one size; `where` marks an estimate."""
        if size.agents > MOST_AGENTS:
            text = f"agents of a playground must be at most {MOST_AGENTS}, got {size.agents:g}{where}"
            raise InvalidInput(text)
        if size.links > MOST_LINKS:
            text = f"links of a playground must be at most {MOST_LINKS:,}, got about {size.links:,.0f}{where}"
            raise InvalidInput(text)
        contacts = size.links * self.rounds if size.changing else 0
        if contacts > MOST_CONTACTS:
            raise InvalidInput(
                f"a page holds {MOST_CONTACTS:,} contacts, but {self.network!r} has about {contacts:,.0f} in "
                f"{self.rounds} rounds, at least {contacts * CONTACT / 1e9:.1f} GB; take fewer rounds, agents or links"
            )
        estimates = self.rounds * size.agents * len(self.methods)
        if estimates > MOST_NUMBERS:
            raise InvalidInput(
                f"a page holds {MOST_NUMBERS:,} estimates, but {self.rounds} rounds of {size.agents:g} agents with "
                f"{len(self.methods)} methods have {estimates:,.0f}; take fewer rounds, agents or methods"
            )
        if (seconds := self._seconds(size)) > MOST_SECONDS:
            raise InvalidInput(
                f"the runs of a page may take {MOST_SECONDS:g} s, but these would take about {seconds:.0f} s; take "
                "fewer rounds, links, methods or earlier versions"
            )

    def _seconds(self, size: NetworkSize) -> float:
        """Estimate the seconds that all runs take; a method that is not anytime runs once per point of its curve."""
        rounds = sum(self.rounds if method.anytime else sum(self.horizons) for method in self.build_methods())
        costs = [FAULTY_UPDATE if events else UPDATE for events in (self.events, *self.forks)]
        return sum(rounds * (ROUND + update * (size.agents + size.links)) for update in costs)

    def build_streams(self, agents: int) -> gs.Observations:
        return named_streams(agents, self.spread, self.std, self.seed, means=self.means, noise=self.noise)

    def build_masks(self) -> gs.Masks | None:
        return gs.Masks(self.mask) if self.mask else None

    def build_methods(self) -> list[gs.Method]:
        return [build(gs.METHODS[name], values) for name, values in self.methods]

    def build_faults(self, events: Events | None = None) -> gs.faults.Faults | None:
        """Return the faults of this run or of an earlier version of it; None if there are none."""
        items = gs.faults.in_order(map(gs.faults.from_json, self.events if events is None else events))
        return gs.faults.Faults(*items) if items else None


def view_of(link: str) -> dict[str, object]:
    """Return the content of a playground's address: a scenario, and how it is shown (see state.js)."""
    try:
        text = checks.text("link", link).partition("#")[2]
        content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        view = json.loads(inflate.decompress(content, 4 * MOST_FILE))
        return {**view, "scenario": view["scenario"]}
    except (ValueError, KeyError, TypeError, zlib.error):
        raise InvalidInput(
            parameter="link",
            required="the whole address of a playground, including the part after #",
            got=repr(link),
        ) from None


@lru_cache(maxsize=4)
def _built(
    text: str, weights: str, seed: int, file: tuple[str, str] | None
) -> gs.Network | gs.ChangingNetwork:
    """Return a network with its cached spectrum, so that it is built only once per session."""
    if text == "file":
        return _uploaded(file, weights)
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
        "mask": lambda value: checks.number("mask", value, least=0, most=1e9),
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
    for pair in [(entry, {}) if isinstance(entry, str) else entry for entry in pairs]:
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


def _named_sizes(text: str) -> Iterator[NetworkSize]:
    """Yield the approximate sizes of the networks in a name, before any is built; refuse a file of this machine."""
    kind, rest = split_name(text)
    changing = kind in CHANGING
    names = rest.split(",")[0].split("+") if kind in ("dropout", "switching") and rest else [text]
    for name in names:
        kind, rest = split_name(name)
        if kind not in NAMES and kind not in CHANGING:
            raise InvalidInput(
                parameter="network",
                required=f"one of {', '.join((*NAMES, *CHANGING))} and its size",
                got=repr(text),
            )
        words = (rest or "").lower().replace(",", "x" if kind in NAMES else ",")
        try:
            sizes = [float(part) for part in words.split(",")[0].split("x")]
        except ValueError:
            continue  # the parser of the name reports what is wrong with it
        agents = (
            math.prod(sizes[:2])
            if kind in ("grid", "torus")
            else 2.0 ** min(sizes[0], 64)
            if kind == "hypercube"
            else sizes[0]
        )
        yield NetworkSize(agents, _links(kind, agents, sizes[1:], rest or ""), changing)


def _links(kind: str, agents: float, sizes: list[float], rest: str) -> float:
    """Return the approximate number of links of a named network, if there can be many."""
    pairs = agents * (agents - 1) / 2
    if kind == "complete":
        return pairs
    if kind == "expander" and sizes:
        return agents * sizes[0] / 2
    if kind == "erdos-renyi" and sizes:
        return pairs * min(sizes[0], 1.0)
    if kind in ("geometric", "mobile"):
        radius = sizes[0] if sizes else RADIUS if kind == "mobile" else 0.0
        for part in rest.split(",")[1:]:
            name, _, value = part.partition("=")
            if name.strip() == "radius":
                with contextlib.suppress(ValueError):  # the parser of the name reports it
                    radius = float(value)
        return pairs * min(math.pi * min(radius, 1.0) ** 2, 1.0)
    if kind in ("grid", "torus"):
        return 2 * agents
    return agents * math.log2(agents) / 2 if kind == "hypercube" and agents > 1 else agents


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
            return gs.Network.read(path, weights, most_agents=MOST_AGENTS)
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
