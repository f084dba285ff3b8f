"""The single faults: what is lost, what is late, who is down."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gossamer import checks
from gossamer.arrays import Booleans, Integers
from gossamer.errors import InvalidInput
from gossamer.methods.ledger import SILENCE

PURPOSES = 16
"""The k-th random link fault of a set draws with purpose FAULT + 16 k, so that they are independent."""


@dataclass(frozen=True)
class Loss:
    """Each message of rounds start .. stop - 1 is lost with probability `probability`, independently of all others.

    Parameters
    ----------
    probability : float
        Of every message.
    start : int
        The first round in which messages are lost.
    stop : int, optional
        The round from which on they arrive again; None: never.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(6), gs.Gaussian(np.arange(6.0))
    >>> gs.simulate("anytime-sda", net, obs, 300, 20, faults=gs.faults.Loss(0.5)).mse < 0.01
    True
    """

    probability: float
    start: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        checks.probability("probability", self.probability)
        _whole_numbers(self, start=0)
        if self.stop is not None:
            _whole_numbers(self, stop=self.start + 1)


@dataclass(frozen=True)
class Bursts:
    """Each directed link switches between good and bad, and loses every message while it is bad (Gilbert, Elliott).

    Parameters
    ----------
    mean_length : float
        Mean number of rounds that a link stays bad, geometrically distributed.
    fraction : float
        Share of the time that a link is bad; the first state is drawn with it.
    both : bool
        Whether the two directions of a link are bad together; False: each on its own.

    Examples
    --------
    >>> net, obs = gs.Network.complete(6), gs.Gaussian(np.arange(6.0))
    >>> gs.simulate("anytime-sda", net, obs, 300, 20, faults=gs.faults.Bursts(10, 0.2)).mse < 0.01
    True
    """

    mean_length: float
    fraction: float
    both: bool = False

    def __post_init__(self) -> None:
        checks.probability("fraction", self.fraction)
        checks.number("mean_length", self.mean_length, least=1)
        if self.fraction > self.mean_length / (self.mean_length + 1):
            least = math.inf if self.fraction == 1 else self.fraction / (1 - self.fraction)
            raise InvalidInput(
                f"bursts of mean length {self.mean_length:g} cannot fill {self.fraction:g} of the time, since "
                f"a good round lies between two of them; mean_length must be at least {least:.4g}"
            )


@dataclass(frozen=True)
class Delay:
    """A message takes `rounds` more rounds with probability `probability`.

    Late is lost: a message from an earlier round is not used.

    Examples
    --------
    >>> bound = gs.faults.Faults(gs.faults.Delay(2, 1.0)).bind(seed=0)
    >>> bound.delay(round=7, sender=0, receiver=1), bound.heard(round=7, sender=0, receiver=1)
    (2, False)
    """

    rounds: int
    probability: float = 1.0

    def __post_init__(self) -> None:
        _whole_numbers(self, rounds=0)
        checks.probability("probability", self.probability)


@dataclass(frozen=True)
class Crash:
    """The agent is gone from the start of `round`; its neighbors declare it dead `notice` rounds later.

    Examples
    --------
    >>> gs.faults.Faults(gs.faults.Crash(agent=1, round=10)).alive(1, 10)
    False
    """

    agent: int
    round: int
    notice: int = SILENCE

    def __post_init__(self) -> None:
        _whole_numbers(self, agent=0, round=0, notice=0)


@dataclass(frozen=True)
class Restart:
    """A crashed agent is back from the start of `round` on, with the observations it had and new edges.

    Examples
    --------
    >>> faults = gs.faults.Faults(gs.faults.Crash(1, 10), gs.faults.Restart(1, 20))
    >>> [faults.alive(1, t) for t in (9, 10, 20)]
    [True, False, True]
    """

    agent: int
    round: int

    def __post_init__(self) -> None:
        _whole_numbers(self, agent=0, round=1)


@dataclass(frozen=True)
class Join:
    """The agent takes part only from the start of `round` on.

    Examples
    --------
    >>> [gs.faults.Faults(gs.faults.Join(1, 30)).alive(1, t) for t in (29, 30)]
    [False, True]
    """

    agent: int
    round: int

    def __post_init__(self) -> None:
        _whole_numbers(self, agent=0, round=1)


@dataclass(frozen=True, init=False)
class Partition:
    """No message crosses between the groups, or along the given edges, in rounds start .. stop - 1.

    Parameters
    ----------
    groups : iterable
        A group of agents, or several; all agents that are not named form one more group.
    start : int
        The first round of the partition.
    stop : int, optional
        The round in which it heals; None: never.
    edges : iterable of pairs
        Pairs of agents that do not hear each other, in place of groups or beside them.

    Examples
    --------
    >>> bound = gs.faults.Faults(gs.faults.Partition([0, 1], start=5, stop=8)).bind(seed=0)
    >>> [bound.heard(t, sender=1, receiver=2) for t in (4, 5, 7, 8)]
    [True, False, False, True]
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
        start = checks.whole_number("start", start, least=0)
        if stop is not None:
            stop = checks.whole_number("stop", stop, least=start + 1)
        listed = checks.listed("groups", groups)
        if listed and not any(isinstance(entry, Iterable) for entry in listed):
            listed = [listed]
        sets = tuple(frozenset(map(_agent, checks.listed("every group", group))) for group in listed)
        pairs_given = [checks.listed("every edge", pair) for pair in checks.listed("edges", edges)]
        if any(len(pair) != 2 for pair in pairs_given):
            raise InvalidInput(f"edges must be pairs of agents, got {pairs_given!r}")
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


Fault = Loss | Bursts | Delay | Crash | Restart | Join | Partition


def _whole_numbers(fault: Any, **least: int) -> None:
    """Keep these fields of a fault as integers of at least the given bounds."""
    for name, bound in least.items():
        object.__setattr__(fault, name, checks.whole_number(name, getattr(fault, name), least=bound))


def _agent(number: Any) -> int:
    return checks.whole_number("agent", number, least=0)
