"""What goes wrong in a network: one set of objects for the simulation and for real transports.

    Loss(0.3)                     each message is lost with this probability, independently
    Bursts(10, 0.17)              links fall silent for 10 rounds on average, 17% of the time
    Delay(2, 0.1)                 one message in ten arrives two rounds late
    Crash(17, 500)                agent 17 stops at the start of round 500
    Restart(17, 800)              and comes back, with its observations, at the start of round 800
    Join(5, 100)                  agent 5 starts only in round 100
    Partition(range(50), 200, 1200)   agents 0-49 and the others do not hear each other in rounds 200 to 1199
    Faults(Loss(0.3), Crash(17, 500))   several together

Every decision is a pure function of (seed, trial, round, sender, receiver), so a fleet and a simulation with
the same seed lose the very same messages. A transport asks `Faults.bind(seed)`:

    links = faults.bind(seed=1)
    links.heard(round=7, sender=3, receiver=4)     does the message arrive in its round?
    links.lost(...), links.delay(...)              does it arrive at all, and how many rounds late?
    faults.alive(agent=17, round=600)

and the simulation draws `heard` for all links and many trials at once; both give the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import InvalidInput
from gossamer.faults.kernels import ChainDraws, fill_heard, is_bad
from gossamer.methods.ledger import SILENCE
from gossamer.numerics import random

Numbers = NDArray[np.int64]

AGENT_LIMIT = 1 << 24
"""Agents must be numbered below this: a receiver's number is one 24-bit field of the random generator."""

_CHAIN_LIMIT = 15


@dataclass(frozen=True)
class Loss:
    """Each message is lost with probability `probability`, independently of all others."""

    probability: float

    def __post_init__(self) -> None:
        _check_probability("Loss", self.probability)


@dataclass(frozen=True)
class Bursts:
    """Each directed link is now good, now bad, and loses every message while it is bad (Gilbert, Elliott).

    Parameters
        mean_length   mean number of rounds that a link stays bad, geometrically distributed
        fraction      share of the time that a link is bad; the first state is drawn with it
        both          whether the two directions of a link are bad together; False: each for itself
    """

    mean_length: float
    fraction: float
    both: bool = False

    def __post_init__(self) -> None:
        _check_probability("Bursts", self.fraction, "fraction")
        if not (math.isfinite(self.mean_length) and self.mean_length >= 1):
            raise InvalidInput(f"Bursts needs a mean_length of at least 1 round, got {self.mean_length!r}")
        if self.fraction > self.mean_length / (self.mean_length + 1):
            least = math.inf if self.fraction == 1 else self.fraction / (1 - self.fraction)
            raise InvalidInput(
                f"bursts of mean length {self.mean_length:g} cannot fill {self.fraction:g} of the time, for "
                f"a good round lies between two of them; mean_length must be at least {least:.4g}"
            )


@dataclass(frozen=True)
class Delay:
    """A message takes `rounds` more rounds with probability `probability`.

    Late is lost: a message of an earlier round is not used, so for the method it is as good as lost.
    """

    rounds: int
    probability: float = 1.0

    def __post_init__(self) -> None:
        _check_whole("Delay", "rounds", self.rounds, least=0)
        _check_probability("Delay", self.probability)


@dataclass(frozen=True)
class Crash:
    """The agent is gone from the start of `round`; its neighbors declare it dead `notice` rounds later."""

    agent: int
    round: int
    notice: int = SILENCE

    def __post_init__(self) -> None:
        _check_agent("Crash", self.agent)
        _check_whole("Crash", "round", self.round, least=0)
        _check_whole("Crash", "notice", self.notice, least=0)


@dataclass(frozen=True)
class Restart:
    """A crashed agent is back from the start of `round` on, with the observations it had and new edges."""

    agent: int
    round: int

    def __post_init__(self) -> None:
        _check_agent("Restart", self.agent)
        _check_whole("Restart", "round", self.round, least=1)


@dataclass(frozen=True)
class Join:
    """The agent takes part only from the start of `round` on."""

    agent: int
    round: int

    def __post_init__(self) -> None:
        _check_agent("Join", self.agent)
        _check_whole("Join", "round", self.round, least=1)


@dataclass(frozen=True, init=False)
class Partition:
    """No message crosses between the groups, or along the given edges, in rounds start .. stop - 1.

    Parameters
        groups   a group of agents, or several; all agents that are not named form one more group
        start    the first round of the partition
        stop     the round in which it heals; None: never
        edges    pairs of agents that do not hear each other, in place of groups or beside them
    """

    groups: tuple[frozenset[int], ...]
    start: int
    stop: int | None
    edges: frozenset[tuple[int, int]]

    def __init__(
        self,
        groups: Iterable[int] | Iterable[Iterable[int]] = (),
        start: int = 0,
        stop: int | None = None,
        edges: Iterable[tuple[int, int]] = (),
    ) -> None:
        _check_whole("Partition", "start", start, least=0)
        if stop is not None:
            _check_whole("Partition", "stop", stop, least=start + 1)
        listed: list[Any] = list(groups)
        if listed and not any(isinstance(entry, Iterable) for entry in listed):
            listed = [listed]
        sets = tuple(frozenset(group) for group in listed)
        pairs = frozenset((min(a, b), max(a, b)) for a, b in edges)
        if not any(sets) and not pairs:
            raise InvalidInput("Partition needs a group of agents or edges to cut, got neither")
        named = [agent for members in (*sets, *pairs) for agent in members]
        for agent in named:
            _check_agent("Partition", agent)
        if sum(map(len, sets)) != len(frozenset().union(*sets)):
            raise InvalidInput("the groups of a Partition must not share agents, but these do")
        for name, value in (("groups", sets), ("start", start), ("stop", stop), ("edges", pairs)):
            object.__setattr__(self, name, value)

    @cached_property
    def _side(self) -> dict[int, int]:
        return {agent: number for number, group in enumerate(self.groups, 1) for agent in group}

    def active(self, round: int) -> bool:
        """Whether the partition is in force in `round`."""
        return self.start <= round and (self.stop is None or round < self.stop)

    def separates(self, a: int, b: int) -> bool:
        """Whether agents a and b cannot hear each other while it is in force."""
        crosses = self._side.get(a, 0) != self._side.get(b, 0)
        return crosses or (min(a, b), max(a, b)) in self.edges

    def cuts(self, senders: Numbers, receivers: Numbers) -> NDArray[np.bool_]:
        """`separates` for many pairs at once."""
        size = 1 + max(*self._side, int(senders.max(initial=0)), int(receivers.max(initial=0)), 0)
        side = np.zeros(size, dtype=np.int64)
        side[list(self._side)] = list(self._side.values())
        cut: NDArray[np.bool_] = side[senders] != side[receivers]
        for a, b in self.edges:
            cut |= (np.minimum(senders, receivers) == a) & (np.maximum(senders, receivers) == b)
        return cut


Fault = Loss | Bursts | Delay | Crash | Restart | Join | Partition


class Event(NamedTuple):
    """Something that happens to an agent at the start of a round: it begins, ends, or is declared dead."""

    round: int
    what: str
    agent: int


@dataclass(frozen=True, init=False)
class Faults:
    """Several faults together: a message is heard only if none of them stops it."""

    items: tuple[Fault, ...]

    def __init__(self, *items: Fault) -> None:
        for item in items:
            if not isinstance(item, Fault):
                raise InvalidInput(
                    f"Faults takes Loss, Bursts, Delay, Crash, Restart, Join, Partition, not {item!r}"
                )
        object.__setattr__(self, "items", items)
        if len(self.chains) > _CHAIN_LIMIT:
            raise InvalidInput(
                f"at most {_CHAIN_LIMIT} random link faults go together, got {len(self.chains)}"
            )
        _ = self.events  # a restart without a crash is found now, not in the middle of a run

    @cached_property
    def chains(self) -> NDArray[np.float64]:
        """(K, 4): start, enter, stay of every random link fault (see `_fault_kernels`), and 1 if `both`."""
        rows = [_chain(item) for item in self.items if isinstance(item, Loss | Bursts | Delay)]
        return np.array(rows, dtype=float).reshape(-1, 4)

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(item for item in self.items if isinstance(item, Partition))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What happens to agents, in the order of rounds: "begin", "end" and "drop" (declared dead)."""
        events = []
        for agent, history in self._histories.items():
            alive = not isinstance(history[0], Join)
            for place, item in enumerate(history):
                begins = not isinstance(item, Crash)
                if begins == alive or (isinstance(item, Join) and place):
                    raise InvalidInput(_impossible(agent, history, item))
                alive = begins
                events.append(Event(item.round, "begin" if begins else "end", agent))
                following = history[place + 1].round if place + 1 < len(history) else math.inf
                if following == item.round:
                    raise InvalidInput(_impossible(agent, history, history[place + 1]))
                if isinstance(item, Crash) and item.round + item.notice < following:
                    events.append(Event(item.round + item.notice, "drop", agent))
        order = {"begin": 0, "end": 1, "drop": 2}
        return tuple(sorted(events, key=lambda event: (event.round, order[event.what], event.agent)))

    @cached_property
    def _histories(self) -> dict[int, list[Crash | Restart | Join]]:
        histories: dict[int, list[Crash | Restart | Join]] = {}
        for item in self.items:
            if isinstance(item, Crash | Restart | Join):
                histories.setdefault(item.agent, []).append(item)
        for history in histories.values():
            history.sort(key=lambda item: item.round)
        return histories

    def alive(self, agent: int, round: int) -> bool:
        """Whether the agent takes part in `round`."""
        history = self._histories.get(agent, [])
        past = [item for item in history if item.round <= round]
        if past:
            return not isinstance(past[-1], Crash)
        return not (history and isinstance(history[0], Join))

    def up(self, round: int, a: int, b: int) -> bool:
        """Whether both agents take part in `round` and no partition lies between them."""
        return (
            self.alive(a, round)
            and self.alive(b, round)
            and not any(part.active(round) and part.separates(a, b) for part in self.partitions)
        )

    def alive_agents(self, agents: int, round: int) -> NDArray[np.bool_]:
        """(agents,) `alive` for all agents at once."""
        alive = np.ones(agents, dtype=bool)
        for agent in self._histories:
            alive[agent] = self.alive(agent, round)
        return alive

    def links_up(self, agents: int, round: int, senders: Numbers, receivers: Numbers) -> NDArray[np.bool_]:
        """`up` for many pairs of a network's agents at once."""
        alive = self.alive_agents(agents, round)
        up = alive[senders] & alive[receivers]
        for part in self.partitions:
            if part.active(round):
                up &= ~part.cuts(senders, receivers)
        return up

    @cached_property
    def changes(self) -> tuple[int, ...]:
        """The rounds, 0 among them, from which on `alive` or `up` may answer differently."""
        rounds = {0, *(event.round for event in self.events), *(part.start for part in self.partitions)}
        return tuple(sorted(rounds | {part.stop for part in self.partitions if part.stop is not None}))

    def bind(self, seed: int, trial: int = 0) -> Links:
        """The faults with their dice: what a transport asks about each message."""
        return Links(self, seed, trial)

    def heard(
        self, seed: int, agents: int, links: NDArray[np.integer], rounds: int, trials: range
    ) -> NDArray[np.bool_]:
        """(rounds, links, trials) whether messages arrive in their round; `links` is (links, 2): from, to."""
        self.check(agents)
        pairs = np.asarray(links, dtype=np.int64).reshape(-1, 2)
        senders, receivers = np.ascontiguousarray(pairs.T)
        draws = ChainDraws(self.chains, random.key(seed), trials.start)
        states = np.zeros((len(self.chains), len(pairs), len(trials)), dtype=np.uint8)
        quads = np.empty((-(-rounds // 4), 4, len(pairs), len(trials)), dtype=np.uint8)
        for quad, part in enumerate(quads):
            fill_heard(part, states, draws, quad, senders, receivers)
        heard = quads.reshape(-1, *quads.shape[2:])[:rounds].astype(bool)
        for start, stop in zip(self.changes, (*self.changes[1:], rounds), strict=True):
            heard[start:stop, ~self.links_up(agents, start, senders, receivers)] = False
        return heard

    def check(self, agents: int) -> None:
        """Complain if a fault names an agent that a network of `agents` agents does not have."""
        for item in self.items:
            named: set[int] = set()
            if isinstance(item, Crash | Restart | Join):
                named = {item.agent}
            elif isinstance(item, Partition):
                named = set(item._side) | {end for pair in item.edges for end in pair}
            if named and max(named) >= agents:
                raise InvalidInput(
                    f"{type(item).__name__} names agent {max(named)}, but the agents are 0..{agents - 1}"
                )
        if agents > AGENT_LIMIT:
            raise InvalidInput(
                f"faults are drawn for at most {AGENT_LIMIT} agents, but the network has {agents}"
            )


class Links:
    """Faults bound to a seed and a trial; every answer is a pure function of (round, sender, receiver)."""

    def __init__(self, faults: Faults, seed: int, trial: int = 0) -> None:
        self.faults = faults
        self._key = random.key(seed)
        self._trial = trial
        # A chain keeps its place, and with it its dice, when the others are switched off.
        chancy = [item for item in faults.items if isinstance(item, Loss | Bursts | Delay)]
        late = np.array([[isinstance(item, Delay)] for item in chancy], dtype=bool).reshape(-1, 1)
        self._losses = np.where(late, 0.0, faults.chains)
        self._delays = [
            (item.rounds, np.where(np.arange(len(chancy))[:, None] == k, faults.chains, 0.0))
            for k, item in enumerate(chancy)
            if isinstance(item, Delay)
        ]

    def heard(self, round: int, sender: int, receiver: int) -> bool:
        """Whether the message of `round` arrives in its round: not lost, not late, both agents alive."""
        return self.faults.up(round, sender, receiver) and not self._bad(
            self.faults.chains, round, sender, receiver
        )

    def lost(self, round: int, sender: int, receiver: int) -> bool:
        """Whether the message never arrives."""
        return not self.faults.up(round, sender, receiver) or self._bad(self._losses, round, sender, receiver)

    def delay(self, round: int, sender: int, receiver: int) -> int:
        """How many rounds late the message is, where it is not lost."""
        return sum(rounds for rounds, chain in self._delays if self._bad(chain, round, sender, receiver))

    def alive(self, agent: int, round: int) -> bool:
        """Whether the agent takes part in `round`."""
        return self.faults.alive(agent, round)

    def _bad(self, chains: NDArray[np.float64], round: int, sender: int, receiver: int) -> bool:
        return bool(is_bad(chains, self._key, self._trial, sender, receiver, round))


def _chain(item: Loss | Bursts | Delay) -> tuple[float, float, float, float]:
    """Start, enter and stay probabilities, and whether both directions share the chain."""
    if isinstance(item, Bursts):
        leave = 1.0 / item.mean_length
        return item.fraction, leave * item.fraction / (1.0 - item.fraction), 1.0 - leave, float(item.both)
    probability = 0.0 if isinstance(item, Delay) and item.rounds == 0 else item.probability
    return probability, probability, probability, 0.0


def _impossible(agent: int, history: Sequence[Crash | Restart | Join], item: Fault) -> str:
    story = ", ".join(f"{type(entry).__name__} at {entry.round}" for entry in history)
    return (
        f"agent {agent} cannot {type(item).__name__.lower()} there: its history is {story}; "
        "an agent may join once, first, and then crash and restart in turn, in different rounds"
    )


def _check_probability(fault: str, value: float, name: str = "probability") -> None:
    if not 0 <= value <= 1:
        raise InvalidInput(f"{fault} needs a {name} between 0 and 1, got {value!r}")


def _check_whole(fault: str, name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{fault} needs {name} as a whole number of at least {least}, got {value!r}")


def _check_agent(fault: str, agent: int) -> None:
    _check_whole(fault, "the agent's number", agent, least=0)
