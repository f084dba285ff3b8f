"""Agents in virtual time: a network in memory whose clock advances when all agents wait, so that no test sleeps."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.transport import Deliver
from gossamer.agents.snapshot import Snapshot
from tests.support.memory_fleet import enter


class VirtualTime:
    """A network of agents and their clock.

    The clock stands still while an agent computes. When all agents wait for messages and none is on its way, it jumps
    to the earliest of their deadlines.
    """

    def __init__(self, agents: int) -> None:
        self.now = 0.0
        self._agents = agents
        self._open: dict[int, VirtualTransport] = {}
        self._waiting: dict[int, float] = {}
        self._change = threading.Condition()

    def agent(self, settings: AgentSettings, **arguments: Any) -> Agent:
        neighbors = frozenset(n.id for n in settings.neighbors)
        return Agent(
            settings,
            transport=VirtualTransport(self, settings.id, neighbors),
            clock=lambda: self.now,
            **arguments,
        )


class VirtualTransport:
    """One agent's end of a `VirtualTime` network."""

    def __init__(self, network: VirtualTime, me: int, neighbors: frozenset[int]) -> None:
        self._network = network
        self._me = me
        self._neighbors = neighbors
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._woken = False

    def open(self) -> None:
        with self._network._change:
            self._network._open[self._me] = self
            self._wake_neighbors()

    def _wake_neighbors(self) -> None:
        for j in self._neighbors & self._network._open.keys():
            self._network._open[j]._woken = True
        self._network._change.notify_all()

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        network = self._network
        with network._change:
            for receiver, payload in outgoing.items():
                if (other := network._open.get(receiver)) is not None:
                    other._inbox.append((self._me, payload))
            network._change.notify_all()
        while (arrived := self._next(deadline)) is not None:
            if deliver(*arrived):
                return

    def _next(self, deadline: float) -> tuple[int, bytes] | None:
        """The next message; None at the deadline, or if the transport was woken."""
        network = self._network
        with network._change:
            while not self._inbox:
                if self._woken or network.now >= deadline:
                    self._woken = False
                    network._waiting.pop(self._me, None)
                    return None
                network._waiting[self._me] = deadline
                if len(network._waiting) == network._agents and not self._stirs():
                    network.now = min(network._waiting.values())
                    network._waiting.clear()
                    network._change.notify_all()
                else:
                    assert network._change.wait(60.0), "an agent neither waits nor computes"
            network._waiting.pop(self._me, None)
            return self._inbox.popleft()

    def _stirs(self) -> bool:
        """Return whether a waiting agent has a message, or was woken."""
        return any(other._inbox or other._woken for other in self._network._open.values())

    def rewire(self, settings: AgentSettings) -> None:
        self._neighbors = frozenset(n.id for n in settings.neighbors)

    def present(self) -> frozenset[int]:
        return self._neighbors & self._network._open.keys()

    def wake(self) -> None:
        with self._network._change:
            self._woken = True
            self._network._change.notify_all()

    def close(self) -> None:
        network = self._network
        with network._change:
            if network._open.pop(self._me, None) is not None:
                network._agents -= 1
            network._waiting.pop(self._me, None)
            self._wake_neighbors()


def in_virtual_time(settings: Sequence[AgentSettings], **arguments: Any) -> tuple[VirtualTime, list[Agent]]:
    time = VirtualTime(len(settings))
    return time, [time.agent(s, **arguments) for s in settings]


async def rounds(agents: list[Agent], time: VirtualTime, count: int) -> list[list[float]]:
    """Run agents in virtual time; return when each one's first `count` rounds ended."""
    ends: list[list[float]] = [[] for _ in agents]
    done = [threading.Event() for _ in agents]

    def note(k: int, snapshot: Snapshot) -> None:
        ends[k].append(time.now)
        if len(ends[k]) >= count:
            done[k].set()

    for k, agent in enumerate(agents):
        agent.subscribe(partial(note, k))
    await enter(agents)
    for event in done:
        assert await asyncio.to_thread(event.wait, 60.0)
    return [times[:count] for times in ends]
