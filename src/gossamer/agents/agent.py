"""The agent: one process's part of the fleet, inside any asyncio program.

async with Agent(settings) as agent:
    agent.observe(21.5)
    print(agent.estimate, agent.standard_error)
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gossamer.agents.settings import AgentSettings
from gossamer.agents.transports.base import Transport

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NeighbourView:
    """What an agent knows of one neighbour.

    state       "joining" (not heard yet), "alive", "silent" (missed the last rounds) or "dead"
    last_heard  seconds since its last used message; infinite before the first
    distance    largest difference between its last value and the agent's own, over the components
    used        messages of its that took part in a round
    lost        rounds in which nothing usable of it was there in time
    late        messages that arrived for a round already over
    round_trip  smoothed seconds between sending a message and using one that echoes it; nan before the first
    """

    id: int
    state: str
    last_heard: float
    distance: float
    used: int
    lost: int
    late: int
    round_trip: float


@dataclass(frozen=True)
class Snapshot:
    """The agent at one moment; what tables, JSON lines and metrics show.

    estimate and standard_error have the shape of an observation (n,), nan while nothing is known.
    state is "running", "degraded" (the store cannot be written: observations are used but not acknowledged) or
    "stopped". rejected counts dropped messages by reason.
    """

    agent: int
    time: float
    round: int
    age: int
    samples: int
    acknowledged: int
    estimate: Array
    standard_error: Array
    variance: Array | None
    state: str
    sent: int
    received: int
    rejected: Mapping[str, int]
    neighbours: tuple[NeighbourView, ...]


class Agent:
    """One agent of a fleet.

    settings   who it is and whom it talks to
    transport  how; None: Zenoh, as the settings say
    source     observations to take by itself: any async iterable of numbers or vectors
    store      path of its SQLite file; None: settings.store
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        transport: Transport | None = None,
        source: AsyncIterable[ArrayLike] | None = None,
        store: str | Path | None = None,
    ) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def observe(self, observation: ArrayLike) -> None:
        """Take one observation: a number, or a vector of `dimension` numbers. Never blocks; any thread.

        It counts from the next round on, and is acknowledged (see `Snapshot.acknowledged`) at the store's next
        commit. InvalidInput for NaN, infinity or a wrong shape.
        """
        raise NotImplementedError

    async def observe_durable(self, observation: ArrayLike) -> None:
        """Take one observation and return when it is safely in the store (it then survives kill -9)."""
        raise NotImplementedError

    @property
    def estimate(self) -> Any:
        """The network's average as this agent knows it now: a float (dimension 1) or an array (n,)."""
        raise NotImplementedError

    @property
    def standard_error(self) -> Any:
        """Standard error of `estimate` from noise, in the same shape; see `statistics.py` for what it covers."""
        raise NotImplementedError

    @property
    def snapshot(self) -> Snapshot:
        """Everything about the agent at the end of its latest round."""
        raise NotImplementedError

    def snapshots(self, every: float = 1.0) -> AsyncIterator[Snapshot]:
        """Yield a snapshot every so many seconds until the agent stops; 0 yields after each round seen."""
        raise NotImplementedError

    def subscribe(self, callback: Callable[[Snapshot], None]) -> Callable[[], None]:
        """Call `callback` after every round, in the agent's thread; returns a function that ends it."""
        raise NotImplementedError
