"""The kinds of faults, each of which defines its text, its JSON and its meaning: what is lost, late or down.

A new kind is one class here and one line in `KINDS`; the command line, the playground and fleets use the class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from gossamer import checks
from gossamer.arrays import Booleans, Integers
from gossamer.errors import InvalidInput
from gossamer.faults.fault import AgentFault, Fault, LinkFault, whole_numbers
from gossamer.faults.quiet import Quiet
from gossamer.methods.ledger import SILENCE


@dataclass(frozen=True, repr=False)
class Loss(LinkFault):
    """Each message of rounds `start` to `stop` - 1 is lost with a probability, independently of all others.

    Parameters
    ----------
    probability : float
        Probability that a message is lost, from 0 to 1.
    start : int
        The first round in which messages are lost, from 0.
    stop : int, optional
        The first round in which they arrive again. None means that they are lost until the end.

    See Also
    --------
    Bursts : Losses that follow one another.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(6), gs.Gaussian(np.arange(6.0))
    >>> gs.simulate("anytime-sda", net, obs, 300, 20, faults=gs.faults.Loss(0.5)).mse < 0.01
    True
    >>> print(gs.faults.Loss(0.3, 200, 1200))
    loss=0.3@200-1200
    """

    probability: float
    start: int = 0
    stop: int | None = None

    kind: ClassVar[str] = "loss"
    form: ClassVar[str] = "PROBABILITY[@START-STOP], for example 0.3 or 0.3@200-1200"

    def __post_init__(self) -> None:
        checks.probability("probability", self.probability)
        whole_numbers(self, start=0)
        if self.stop is not None:
            whole_numbers(self, stop=self.start + 1)

    @classmethod
    def parse(cls, text: str, names: Sequence[Hashable] = ()) -> Self:
        matched = re.fullmatch(r"([^@]*)(?:@(\d+)-(\d*))?", text.strip())
        if matched is None:
            raise cls._misread(text)
        (probability,) = cls._numbers(matched[1], 1)
        return cls(probability, int(matched[2] or 0), int(matched[3]) if matched[3] else None)

    @property
    def text(self) -> str:
        always = not self.start and self.stop is None
        return _short(self.probability) + ("" if always else _rounds(self.start, self.stop))

    @property
    def chain(self) -> tuple[float, ...]:
        until = math.inf if self.stop is None else float(self.stop)
        return (self.probability,) * 3 + (0.0, float(self.start), until)


@dataclass(frozen=True, repr=False)
class Bursts(LinkFault):
    """Each directed link switches between good and bad, and loses every message while it is bad (Gilbert, Elliott).

    Parameters
    ----------
    mean_length : float
        Mean number of rounds that a link stays bad, geometrically distributed.
    fraction : float
        Share of the time that a link is bad; the first state is drawn with it.
    both : bool
        Whether the two directions of a link are bad together; if False, they are independent.

    See Also
    --------
    Loss : Losses that are independent of each other.

    Examples
    --------
    >>> net, obs = gs.Network.complete(6), gs.Gaussian(np.arange(6.0))
    >>> gs.simulate("anytime-sda", net, obs, 300, 20, faults=gs.faults.Bursts(10, 0.2)).mse < 0.01
    True
    """

    mean_length: float
    fraction: float
    both: bool = False

    kind: ClassVar[str] = "burst"
    form: ClassVar[str] = "MEAN_LENGTH,FRACTION[,both], for example 10,0.17"

    def __post_init__(self) -> None:
        checks.probability("fraction", self.fraction)
        checks.number("mean_length", self.mean_length, least=1)
        if self.fraction > self.mean_length / (self.mean_length + 1):
            least = math.inf if self.fraction == 1 else self.fraction / (1 - self.fraction)
            raise InvalidInput(
                f"bursts of mean length {self.mean_length:g} cannot fill {self.fraction:g} of the time, since "
                f"a good round lies between two of them; mean_length must be at least {least:.4g}"
            )

    @classmethod
    def parse(cls, text: str, names: Sequence[Hashable] = ()) -> Self:
        numbers = text.removesuffix(",both")
        length, fraction = cls._numbers(numbers, 2)
        return cls(length, fraction, both=numbers != text)

    @property
    def text(self) -> str:
        return f"{_short(self.mean_length)},{_short(self.fraction)}{',both' if self.both else ''}"

    @property
    def chain(self) -> tuple[float, ...]:
        leave = 1.0 / self.mean_length
        enter = leave * self.fraction / (1.0 - self.fraction)
        return self.fraction, enter, 1.0 - leave, float(self.both), 0.0, math.inf


@dataclass(frozen=True, repr=False)
class Delay(LinkFault):
    """A message is delayed by `rounds` rounds with probability `probability`.

    A late message counts as lost: a message from an earlier round is not used.

    Parameters
    ----------
    rounds : int
        Number of rounds by which a message is late, at least 1.
    probability : float
        Probability that a message is late, from 0 to 1.

    See Also
    --------
    Loss : Messages that never arrive.

    Examples
    --------
    >>> bound = gs.faults.Faults(gs.faults.Delay(2, 1.0)).bind(seed=0)
    >>> bound.delay(round=7, sender=0, receiver=1), bound.heard(round=7, sender=0, receiver=1)
    (2, False)
    """

    rounds: int
    probability: float = 1.0

    kind: ClassVar[str] = "delay"
    form: ClassVar[str] = "ROUNDS,PROBABILITY, for example 2,0.1"

    def __post_init__(self) -> None:
        whole_numbers(self, rounds=0)
        checks.probability("probability", self.probability)

    @classmethod
    def parse(cls, text: str, names: Sequence[Hashable] = ()) -> Self:
        rounds, probability = cls._numbers(text, 2)
        return cls(int(rounds) if rounds.is_integer() else rounds, probability)  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        return f"{self.rounds},{_short(self.probability)}"

    @property
    def chain(self) -> tuple[float, ...]:
        probability = self.probability if self.rounds else 0.0
        return (probability,) * 3 + (0.0, 0.0, math.inf)

    @property
    def lateness(self) -> int | None:
        return self.rounds


@dataclass(frozen=True, repr=False)
class Crash(AgentFault):
    """The agent stops at the start of `round`; its neighbors declare it dead `notice` rounds later.

    Parameters
    ----------
    agent, round : int
        Number of the agent that stops, and the first round in which it does not take part.
    notice : int
        Number of rounds after which its neighbors declare it dead.

    See Also
    --------
    Restart : The agent returns.

    Examples
    --------
    >>> gs.faults.Faults(gs.faults.Crash(agent=1, round=10)).alive(1, 10)
    False
    """

    notice: int = SILENCE

    kind: ClassVar[str] = "crash"
    begins: ClassVar[bool] = False
    _earliest: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_numbers(self, notice=0)

    @classmethod
    def parse(cls, text: str, names: Sequence[Hashable] = ()) -> Self:
        matched = re.fullmatch(r"(.*),notice=(\d+)", text.strip())
        crash = super().parse(matched[1] if matched else text, names)
        return replace(crash, notice=int(matched[2])) if matched else crash

    @property
    def text(self) -> str:
        return super().text + ("" if self.notice == SILENCE else f",notice={self.notice}")


@dataclass(frozen=True, repr=False)
class Restart(AgentFault):
    """A crashed agent is back at the start of `round`, with its old observations and new edges.

    Parameters
    ----------
    agent, round : int
        Number of the agent that returns, and the first round in which it takes part again.

    See Also
    --------
    Crash : The fault that it ends.

    Examples
    --------
    >>> faults = gs.faults.Faults(gs.faults.Crash(1, 10), gs.faults.Restart(1, 20))
    >>> [faults.alive(1, t) for t in (9, 10, 20)]
    [True, False, True]
    """

    kind: ClassVar[str] = "restart"


@dataclass(frozen=True, repr=False)
class Join(AgentFault):
    """The agent takes part only from the start of `round` on.

    Parameters
    ----------
    agent, round : int
        Number of the agent that begins later, and the first round in which it takes part.

    See Also
    --------
    Crash : An agent that stops.

    Examples
    --------
    >>> [gs.faults.Faults(gs.faults.Join(1, 30)).alive(1, t) for t in (29, 30)]
    [False, True]
    """

    kind: ClassVar[str] = "join"


@dataclass(frozen=True, init=False, repr=False)
class Partition(Fault):
    """No message crosses between the groups, or along the given edges, in rounds `start` to `stop` - 1.

    Parameters
    ----------
    groups : iterable
        A group of agents, or several; all agents that are not named form one more group.
    start : int
        The first round in which messages between groups are lost, from 0.
    stop : int, optional
        The round in which it heals. None means that it never does.
    edges : iterable of pairs
        Pairs of agents that do not hear each other, in place of groups or in addition to them.

    See Also
    --------
    Loss : Single lost messages.

    Examples
    --------
    >>> bound = gs.faults.Faults(gs.faults.Partition([0, 1], start=5, stop=8)).bind(seed=0)
    >>> [bound.heard(t, sender=1, receiver=2) for t in (4, 5, 7, 8)]
    [True, False, False, True]
    """

    groups: tuple[frozenset[int], ...] = ()
    start: int = 0
    stop: int | None = None
    edges: frozenset[tuple[int, int]] = frozenset()

    kind: ClassVar[str] = "partition"
    form: ClassVar[str] = (
        "AGENTS@START-STOP, for example 0-49@200-1200 or 0-9,20/10-19@200- or (edges) 3:4,4:5@0-100"
    )

    def __init__(
        self,
        groups: Iterable[int] | Iterable[Iterable[int]] = (),
        start: int = 0,
        stop: int | None = None,
        edges: Iterable[tuple[int, int]] = (),
    ) -> None:
        start = checks.whole_number("start", start, least=0)
        if stop is not None:
            stop = checks.whole_number("stop", stop, least=start + 1)
        entries: list[object] = checks.listed("groups", groups)
        if entries and not any(isinstance(entry, Iterable) for entry in entries):
            entries = [entries]
        sets = tuple(frozenset(map(_agent, checks.listed("every group", group))) for group in entries)
        pairs_given = [checks.listed("every edge", pair) for pair in checks.listed("edges", edges)]
        if any(len(pair) != 2 for pair in pairs_given):
            raise InvalidInput(parameter="edges", required="pairs of agents", got=repr(pairs_given))
        ends = [(_agent(a), _agent(b)) for a, b in pairs_given]
        pairs = frozenset((min(a, b), max(a, b)) for a, b in ends)
        if not any(sets) and not pairs:
            raise InvalidInput("Partition needs a group of agents or edges to cut, got neither")
        if sum(map(len, sets)) != len(frozenset().union(*sets)):
            raise InvalidInput(
                "the groups of a Partition must not share agents, but these do; list every agent once"
            )
        for name, value in (("groups", sets), ("start", start), ("stop", stop), ("edges", pairs)):
            object.__setattr__(self, name, value)

    @property
    def agents(self) -> frozenset[int]:
        """Every agent that the partition names."""
        return frozenset(self._side) | {end for pair in self.edges for end in pair}

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

    def cuts(self, senders: Integers, receivers: Integers) -> Booleans:
        """`separates` for many pairs at once."""
        size = 1 + max(*self._side, int(senders.max(initial=0)), int(receivers.max(initial=0)), 0)
        side = np.zeros(size, dtype=np.int64)
        side[list(self._side)] = list(self._side.values())
        cut: Booleans = side[senders] != side[receivers]
        for a, b in self.edges:
            cut |= (np.minimum(senders, receivers) == a) & (np.maximum(senders, receivers) == b)
        return cut

    @classmethod
    def parse(cls, text: str, names: Sequence[Hashable] = ()) -> Self:
        agents = r"\d+(?:-\d+)?(?:[,/]\d+(?:-\d+)?)*"
        edges = r"\d+:\d+(?:,\d+:\d+)*"
        form = rf"(?:(?P<groups>{agents})/)?(?P<edges>{edges})|(?P<only>{agents})"
        matched = re.fullmatch(rf"(?:{form})@(?P<start>\d+)-(?P<stop>\d*)", text.strip())
        if matched is None:
            raise cls._misread(text)
        groups = matched["groups"] or matched["only"]
        pairs = [pair.split(":") for pair in matched["edges"].split(",")] if matched["edges"] else []
        return cls(
            [_agents(group) for group in groups.split("/")] if groups else (),
            int(matched["start"]),
            int(matched["stop"]) if matched["stop"] else None,
            edges=[(int(a), int(b)) for a, b in pairs],
        )

    @property
    def text(self) -> str:
        parts = [",".join(map(str, sorted(group))) for group in self.groups]
        parts += [",".join(f"{a}:{b}" for a, b in sorted(self.edges))] if self.edges else []
        return "/".join(parts) + _rounds(self.start, self.stop)

    def _plain(self, name: str) -> object:
        if name == "groups" and self.groups:
            groups = [sorted(group) for group in self.groups]
            return groups[0] if len(groups) == 1 else groups
        if name == "edges" and self.edges:
            return sorted(self.edges)
        return super()._plain(name)

    def check(self, agents: int, edges: Integers | None = None) -> None:
        super().check(agents)
        if edges is None:
            return
        missing = self.edges - set(map(tuple, np.sort(edges, axis=1).tolist())) if self.edges else None
        if missing:
            a, b = min(missing)
            near = sorted({*edges[(edges == a).any(axis=1)].ravel().tolist()} - {a})
            raise InvalidInput(
                f"Partition cuts the edge {a}-{b}, which the network does not have; the neighbors of agent {a} are "
                f"{', '.join(map(str, near[:10]))}{', ...' if len(near) > 10 else ''}"
            )
        if not self.cuts(edges[:, 0], edges[:, 1]).any():
            raise InvalidInput(
                "Partition cuts no edge of the network, since all agents are in one group; leave some agents out of "
                "it, or name several groups"
            )


KINDS: dict[str, type[Fault]] = {
    fault.kind: fault for fault in (Loss, Bursts, Delay, Crash, Restart, Join, Partition, Quiet)
}
"""All kinds by name, in the order in which a set of faults has them."""


def parse(text: str, names: Sequence[Hashable] = ()) -> Fault:
    """Read the text of any fault, such as ``loss=0.3`` or ``crash=17@500``.

    Parameters
    ----------
    text : str
        A fault as `str(fault)` writes it, for example "loss=0.3@200-1200".
    names : sequence, optional
        Names of the agents, in order, which may be used instead of their numbers.

    See Also
    --------
    Faults : Several faults together.

    Examples
    --------
    >>> gs.faults.parse("crash=17@500")
    Crash(17, 500)
    """
    kind, _, value = checks.text("text", text).partition("=")
    return KINDS[checks.choice("the kind of a fault", kind.strip(), KINDS)].parse(value, names)


def from_json(entries: object) -> Fault:
    """Read the JSON of any fault: a dictionary of its kind and its fields (see `Fault.to_json`)."""
    if not isinstance(entries, Mapping) or entries.get("kind") not in KINDS:
        raise InvalidInput(f"an event must be one of {', '.join(KINDS)}, got {checks.brief(entries)}")
    return KINDS[entries["kind"]].from_json(
        {name: value for name, value in entries.items() if name != "kind"}
    )


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """Sort faults by kind, except that all losses but the first come after all other random faults.

    The position of a random fault among the others determines its random numbers, so a loss that is added later must
    not change those of the rounds before it.
    """
    kinds = list(KINDS)
    losses = 0

    def order(fault: Fault) -> tuple[bool, bool, int]:
        nonlocal losses
        losses += isinstance(fault, Loss)
        later = isinstance(fault, Loss) and losses > 1
        return not isinstance(fault, LinkFault), later, kinds.index(fault.kind)

    return sorted(faults, key=order)


def _agent(number: object) -> int:
    return checks.whole_number("agent", number, least=0)


def _short(number: float) -> str:
    """A number as text that reads back as the same number."""
    return repr(int(number)) if float(number).is_integer() else repr(float(number))


def _rounds(start: int, stop: int | None) -> str:
    return f"@{start}-{'' if stop is None else stop}"


def _agents(text: str) -> list[int]:
    """`0-9,20` as numbers."""
    agents: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise InvalidInput(f"takes agents in ascending order, got {part!r}", parameter="partition")
        agents += range(int(first), int(last or first) + 1)
    return agents
