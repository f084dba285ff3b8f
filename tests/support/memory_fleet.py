"""Fleets of agents in one process, over a `Memory` network, that tests change while they run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings, Neighbor
from gossamer.agents.round.transport import Transport
from gossamer.agents.transports.memory import Memory
from gossamer.methods import AnytimeSDA
from tests.support.waiting import until_true

LOCAL = AnytimeSDA(acceleration="local")


def member(me: int, neighbors: tuple[int, ...], **changes: object) -> AgentSettings:
    plain = {"method": LOCAL, "replicates": 0, "timeout": 0.05, "death": 30.0, "pace": 0.002}
    return AgentSettings(me, tuple(Neighbor(j) for j in neighbors), **{**plain, **changes})  # type: ignore[arg-type]


class Fleet:
    """Agents over one `Memory`, each entered as it is added."""

    def __init__(self) -> None:
        self.network = Memory()
        self.agents: dict[int, Agent] = {}

    def connect(self, settings: AgentSettings) -> Transport:
        return self.network.transport(settings.id, tuple(n.id for n in settings.neighbors))

    async def add(self, settings: AgentSettings, value: float) -> Agent:
        agent = self.agents[settings.id] = Agent(settings, transport=self.connect(settings))
        await agent.__aenter__()
        agent.observe(value)
        return agent

    async def remove(self, who: int) -> None:
        await self.agents.pop(who).__aexit__(None, None, None)

    async def at(self, value: float) -> None:
        await until_true(
            lambda: all(abs(a.estimate - value) < 1e-6 for a in self.agents.values()), f"average {value}"
        )

    async def __aenter__(self) -> Fleet:
        return self

    async def __aexit__(self, *error: object) -> None:
        for who in list(self.agents):
            await self.remove(who)


def in_memory(
    settings: Iterable[AgentSettings], memory: Memory | None = None, **arguments: Any
) -> list[Agent]:
    """Agents over one `Memory`."""
    memory = memory or Memory()
    return [
        Agent(s, transport=memory.transport(s.id, tuple(n.id for n in s.neighbors)), **arguments)
        for s in settings
    ]


async def enter(agents: list[Agent]) -> None:
    for agent in agents:
        await agent.__aenter__()


async def leave(agents: list[Agent]) -> None:
    for agent in agents:
        await agent.__aexit__(None, None, None)
