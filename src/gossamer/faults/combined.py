"""Several faults together: who is alive in a round, which links are up, and which messages arrive."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from gossamer import checks
from gossamer.arrays import Booleans, Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.faults.bound import BoundFaults
from gossamer.faults.fault import AgentFault, Fault, LinkFault, faults_table
from gossamer.faults.kinds import KINDS, Crash, Join, Partition
from gossamer.faults.quiet import Quiet
from gossamer.numerics import counters

FaultsLike = Union["Faults", Fault, Iterable[Fault], None]
"""The types that are accepted as faults: a set of faults, one, several in a list, or None."""

AGENT_LIMIT = 1 << 24
"""Agents must be numbered below this: a receiver's number is one 24-bit field of the random generator."""

_CHAIN_LIMIT = 15


class Event(NamedTuple):
    """Something that happens to an agent at the start of a round: it begins, ends, or is declared dead.

    Attributes
    ----------
    round : int
        The round at whose start it happens, from 0.
    what : str
        What happens: "begin", "end" or "drop" (its neighbors declare it dead).
    agent : int
        Number of the agent that it happens to.

    See Also
    --------
    Faults : Its attribute `events` lists them.
    Crash : A fault that becomes events.

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
        Loss, Bursts, Delay, Crash, Restart, Join, Partition or Quiet.

    See Also
    --------
    gossamer.simulate : Simulates with faults.
    parse : Reads one fault from text.
    BoundFaults : The faults of one trial.

    Examples
    --------
    >>> faults = gs.faults.Faults(gs.faults.Loss(0.3), gs.faults.Crash(2, 50), gs.faults.Restart(2, 80))
    >>> faults.alive(agent=2, round=60), faults.alive(agent=2, round=80)
    (False, True)
    """

    items: tuple[Fault, ...]

    @classmethod
    def of(cls, faults: FaultsLike) -> Faults:
        """Return one fault, several in a list, or none, as a set of faults."""
        if isinstance(faults, Faults):
            return faults
        if faults is None or isinstance(faults, Fault):
            return cls() if faults is None else cls(faults)
        given: object = faults  # a string is iterable too
        if isinstance(given, str) or not isinstance(faults, Iterable):
            raise InvalidInput(
                parameter="faults",
                required="a fault such as gs.faults.Loss(0.3), or a list of faults",
                got=checks.brief(given),
                hint="gs.faults.parse reads a fault from text" if isinstance(given, str) else "",
            )
        return cls(*faults)

    def __init__(self, *items: Fault) -> None:
        if strangers := [item for item in items if not isinstance(item, Fault)]:
            names = ", ".join(kind.__name__ for kind in KINDS.values())
            raise InvalidInput(f"Faults takes {names}, got {strangers[0]!r}")
        object.__setattr__(self, "items", items)
        if len(self.chains) > _CHAIN_LIMIT:
            raise InvalidInput(
                f"at most {_CHAIN_LIMIT} random link faults can be combined, got {len(self.chains)}"
            )
        _ = self.events  # a restart without a crash is found now, not in the middle of a run

    def _repr_html_(self) -> str:
        return faults_table(self.items)

    @cached_property
    def chains(self) -> Floats:
        """(K, 6): start, enter, stay of every random link fault (see `link_draws.py`), 1 if `both`, and its rounds."""
        rows = [item.chain for item in self.items if isinstance(item, LinkFault)]
        return np.array(rows, dtype=float).reshape(-1, 6)

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(item for item in self.items if isinstance(item, Partition))

    @cached_property
    def quiet(self) -> Quiet | None:
        """The rule by which agents stay silent, if they do."""
        return next((item for item in self.items if isinstance(item, Quiet)), None)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Events of agents in the order of rounds: "begin", "end" and "drop" (declared dead)."""
        events = []
        for agent, history in self._histories.items():
            alive = not isinstance(history[0], Join)
            for k, item in enumerate(history):
                begins = item.begins
                if begins == alive or (isinstance(item, Join) and k):
                    raise InvalidInput(_impossible(agent, history, item))
                alive = begins
                events.append(Event(item.round, "begin" if begins else "end", agent))
                following = history[k + 1].round if k + 1 < len(history) else math.inf
                if following == item.round:
                    raise InvalidInput(_impossible(agent, history, history[k + 1]))
                if isinstance(item, Crash) and item.round + item.notice < following:
                    events.append(Event(item.round + item.notice, "drop", agent))
        order = {"begin": 0, "end": 1, "drop": 2}
        return tuple(sorted(events, key=lambda event: (event.round, order[event.what], event.agent)))

    @cached_property
    def _histories(self) -> dict[int, list[AgentFault]]:
        histories: dict[int, list[AgentFault]] = {}
        for item in self.items:
            if isinstance(item, AgentFault):
                histories.setdefault(item.agent, []).append(item)
        for history in histories.values():
            history.sort(key=lambda item: item.round)
        return histories

    def alive(self, agent: int, round: int) -> bool:
        """Whether the agent takes part in `round`."""
        history = self._histories.get(agent, [])
        past = [item for item in history if item.round <= round]
        if past:
            return past[-1].begins
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

    def last_change(self, rounds: int) -> int:
        """The last of the first `rounds` rounds in which an agent began or ended; 0 if none did."""
        turns = (event.round for event in self.events if event.what != "drop" and event.round < rounds)
        return max(turns, default=0)

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
        """The faults bound to a seed, which a transport asks about each message."""
        return BoundFaults(self, seed, trial)

    def heard(
        self, seed: int, agents: int, links: NDArray[np.integer], rounds: int, trials: range
    ) -> Booleans:
        """(rounds, links, trials) whether messages arrive in their round; `links` is (links, 2): from, to."""
        # Compiled code, which an agent must not load.
        from gossamer.faults.link_draws import ChainDraws, fill_heard

        self.check(agents)
        pairs = np.asarray(links, dtype=np.int64).reshape(-1, 2)
        if pairs.size and not 0 <= pairs.min() <= pairs.max() < agents:
            raise InvalidInput(
                f"must join agents 0..{agents - 1}, got numbers from {pairs.min()} to {pairs.max()}",
                parameter="links",
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
        """Raise an error if a fault names an agent, or cuts an edge, that the network does not have.

        The network has `agents` agents and these `edges` (E, 2); None if they are unknown.
        """
        for item in self.items:
            item.check(agents, edges)
        if agents > AGENT_LIMIT:
            raise InvalidInput(
                f"are drawn for at most {AGENT_LIMIT} agents, but the network has {agents}",
                parameter="faults",
            )


def _impossible(agent: int, history: Sequence[AgentFault], item: Fault) -> str:
    story = ", ".join(f"{type(entry).__name__} at {entry.round}" for entry in history)
    return (
        f"agent {agent} cannot {type(item).__name__.lower()} there: its history is {story}; "
        "an agent may join once, first, and then crash and restart in turn, in different rounds"
    )
