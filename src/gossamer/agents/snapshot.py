"""What is known of an agent and of its neighbors at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gossamer.agents.statistics import Answers
from gossamer.arrays import Floats


@dataclass(frozen=True)
class NeighborView:
    """What an agent knows of one neighbor.

    state       "joining" (not heard yet), "alive", "silent" (missed its last A rounds) or "dead"
    connected   whether the transport sees it
    last_heard  seconds since its last used message; infinite before the first
    distance    largest difference between its estimate and the agent's own, over the components
    used        how many of its messages took part in a round
    lost        rounds for which nothing usable arrived from it in time
    late        messages that arrived for a round already over
    round_trip  smoothed seconds from sending a message to hearing it echoed; nan before the first
    name        its name in the fleet
    """

    id: int
    state: str
    connected: bool
    last_heard: float
    distance: float
    used: int
    lost: int
    late: int
    round_trip: float
    name: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The agent at one moment: what tables, JSON lines and metrics show.

    round         Lamport number of the current round, shared with the neighbors
    age           rounds this agent has taken part in, across restarts
    samples       observations it has used; `acknowledged` of them are safe in the store
    estimate, standard_error, variance   shape (n,), nan while nothing is known
    answers       everything averaged, for quantiles (see `statistics.Answers`)
    state         "running", "degraded" (the store cannot be written, or the source failed; `problem` says why)
                  or "stopped"
    rejected      dropped messages by reason (see `wire.Reason`)
    bad           values of the source that were not observations
    store_failures  commits of the store that failed
    """

    agent: int
    time: float
    round: int
    age: int
    samples: int
    acknowledged: int
    estimate: Floats
    standard_error: Floats
    variance: Floats | None
    answers: Answers
    state: str
    problem: str
    sent: int
    received: int
    rejected: Mapping[str, int]
    neighbors: tuple[NeighborView, ...]
    bad: int = 0
    store_failures: int = 0
