"""Several faults together: who is alive in a round, which links are up, and which messages arrive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Booleans, Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.faults.bound import BoundFaults
from gossamer.faults.kinds import Bursts, Crash, Delay, Fault, Join, Loss, Partition, Restart
from gossamer.numerics import counters

AGENT_LIMIT = 1 << 24
"""Agents must be numbered below this: a receiver's number is one 24-bit field of the random generator."""

_CHAIN_LIMIT = 15


class Event(NamedTuple):
    """Something that happens to an agent at the start of a round: it begins, ends, or is declared dead.

    Examples
    --------
    >>> gs.faults.Faults(gs.faults.Crash(3, 100, notice=5)).events
    (Event(round=100, what='end', agent=3), Event(round=105, what='drop', agent=3))
    """

    round: int
    what: str
    agent: int


@dataclass(frozen=True, init=False)
class Faults:
    """Several faults together: a message is heard only if none of them stops it.

    Parameters
    ----------
    *items : Fault
        Loss, Bursts, Delay, Crash, Restart, Join or Partition.

    Examples
    --------
    >>> faults = gs.faults.Faults(gs.faults.Loss(0.3), gs.faults.Crash(2, 50), gs.faults.Restart(2, 80))
    >>> faults.alive(agent=2, round=60), faults.alive(agent=2, round=80)
    (False, True)
    """

    items: tuple[Fault, ...]

    def __init__(self, *items: Fault) -> None:
        for item in items:
            if not isinstance(item, Fault):
                raise InvalidInput(
                    f"Faults takes Loss, Bursts, Delay, Crash, Restart, Join, Partition, got {item!r}"
                )
        object.__setattr__(self, "items", items)
        if len(self.chains) > _CHAIN_LIMIT:
            raise InvalidInput(
                f"at most {_CHAIN_LIMIT} random link faults can be combined, got {len(self.chains)}"
            )
        _ = self.events  # a restart without a crash is found now, not in the middle of a run

    @cached_property
    def chains(self) -> Floats:
        """(K, 6): start, enter, stay of every random link fault (see `kernels.py`), 1 if `both`, and its rounds."""
        rows = [_chain(item) for item in self.items if isinstance(item, Loss | Bursts | Delay)]
        return np.array(rows, dtype=float).reshape(-1, 6)

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

    def alive_agents(self, agents: int, round: int) -> Booleans:
        """(agents,) `alive` for all agents at once."""
        alive = np.ones(agents, dtype=bool)
        for agent in self._histories:
            alive[agent] = self.alive(agent, round)
        return alive

    def links_up(self, agents: int, round: int, senders: Integers, receivers: Integers) -> Booleans:
        """`up` for many pairs of a network's agents at once."""
        alive = self.alive_agents(agents, round)
        up = alive[senders] & alive[receivers]
        for part in self.partitions:
            if part.active(round):
                up &= ~part.cuts(senders, receivers)
        return up

    @cached_property
    def changes(self) -> tuple[int, ...]:
        """The rounds, including 0, in which the answers of `alive` or `up` may change."""
        rounds = {0, *(event.round for event in self.events), *(part.start for part in self.partitions)}
        return tuple(sorted(rounds | {part.stop for part in self.partitions if part.stop is not None}))

    def bind(self, seed: int, trial: int = 0) -> BoundFaults:
        """The faults bound to a seed: what a transport asks about each message."""
        return BoundFaults(self, seed, trial)

    def heard(
        self, seed: int, agents: int, links: NDArray[np.integer], rounds: int, trials: range
    ) -> Booleans:
        """(rounds, links, trials) whether messages arrive in their round; `links` is (links, 2): from, to."""
        from gossamer.faults.kernels import ChainDraws, fill_heard  # compiled, which an agent must not load

        self.check(agents)
        pairs = np.asarray(links, dtype=np.int64).reshape(-1, 2)
        if pairs.size and not 0 <= pairs.min() <= pairs.max() < agents:
            raise InvalidInput(
                f"links must join agents 0..{agents - 1}, got numbers from {pairs.min()} to {pairs.max()}"
            )
        senders, receivers = np.ascontiguousarray(pairs.T)
        draws = ChainDraws(self.chains, counters.key(seed), trials.start)
        states = np.zeros((len(self.chains), len(pairs), len(trials)), dtype=np.uint8)
        quads = np.empty((-(-rounds // 4), 4, len(pairs), len(trials)), dtype=np.uint8)
        for quad, part in enumerate(quads):
            fill_heard(part, states, draws, quad, senders, receivers)
        heard = quads.reshape(-1, *quads.shape[2:])[:rounds].astype(bool)
        for start, stop in zip(self.changes, (*self.changes[1:], rounds), strict=True):
            heard[start:stop, ~self.links_up(agents, start, senders, receivers)] = False
        return heard

    def check(self, agents: int, edges: Integers | None = None) -> None:
        """Complain if a fault names an agent, or cuts an edge, that the network does not have.

        The network has `agents` agents and these `edges` (E, 2); None: they are not known here.
        """
        for item in self.items:
            named: frozenset[int] = frozenset()
            if isinstance(item, Crash | Restart | Join):
                named = frozenset({item.agent})
            elif isinstance(item, Partition):
                named = item.agents
            if named and max(named) >= agents:
                raise InvalidInput(
                    f"{type(item).__name__} names agent {max(named)}, but the agents are 0..{agents - 1}"
                )
            if isinstance(item, Partition) and edges is not None:
                _check_partition(item, edges)
        if agents > AGENT_LIMIT:
            raise InvalidInput(
                f"faults are drawn for at most {AGENT_LIMIT} agents, but the network has {agents}"
            )


def _check_partition(item: Partition, edges: Integers) -> None:
    missing = item.edges - set(map(tuple, np.sort(edges, axis=1).tolist())) if item.edges else None
    if missing:
        a, b = min(missing)
        near = sorted({*edges[(edges == a).any(axis=1)].ravel().tolist()} - {a})
        raise InvalidInput(
            f"Partition cuts the edge {a}-{b}, which the network does not have; the neighbors of agent {a} are "
            f"{', '.join(map(str, near[:10]))}{', ...' if len(near) > 10 else ''}"
        )
    if not item.cuts(edges[:, 0], edges[:, 1]).any():
        raise InvalidInput(
            "Partition cuts no edge of the network, since all agents are in one group; leave some agents out of it, "
            "or name several groups"
        )


def _chain(item: Loss | Bursts | Delay) -> tuple[float, ...]:
    """Start, enter and stay probabilities, whether both directions share the chain, and its first and end round."""
    if isinstance(item, Bursts):
        leave = 1.0 / item.mean_length
        enter = leave * item.fraction / (1.0 - item.fraction)
        return item.fraction, enter, 1.0 - leave, float(item.both), 0.0, math.inf
    probability = 0.0 if isinstance(item, Delay) and item.rounds == 0 else item.probability
    rounds = (
        (item.start, math.inf if item.stop is None else item.stop)
        if isinstance(item, Loss)
        else (0, math.inf)
    )
    return probability, probability, probability, 0.0, *rounds


def _impossible(agent: int, history: Sequence[Crash | Restart | Join], item: Fault) -> str:
    story = ", ".join(f"{type(entry).__name__} at {entry.round}" for entry in history)
    return (
        f"agent {agent} cannot {type(item).__name__.lower()} there: its history is {story}; "
        "an agent may join once, first, and then crash and restart in turn, in different rounds"
    )
