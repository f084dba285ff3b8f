"""What is known of an agent and of its neighbors at one moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gossamer.agents.round.conversation import Peer
from gossamer.agents.settings import AgentSettings
from gossamer.agents.statistics import Answers
from gossamer.arrays import Floats


def name_of(neighbor: int, settings: AgentSettings) -> str:
    """A neighbor's name in the fleet: that of its certificate, without the epoch (NAME@EPOCH)."""
    return next((n.name.partition("@")[0] for n in settings.neighbors if n.id == neighbor), "")


@dataclass(frozen=True)
class NeighborView:
    """What an agent knows of one neighbor.

    Attributes
    ----------
    state : str
        "joining" (not heard yet), "alive", "silent" (missed its last A rounds), "dead", or "quarantined" (not
        heard any more, because it kept claiming the impossible).
    connected : bool
        Whether the transport sees it.
    last_heard : float
        Seconds since its last used message; infinite before the first.
    distance : float
        Largest difference between its estimate and the agent's own, over the components.
    used, lost, late : int
        How many of its messages took part in a round; rounds for which nothing usable arrived from it in time;
        messages that arrived for a round already over.
    round_trip : float
        Smoothed seconds from sending a message to hearing it echoed; nan before the first.
    epoch : int
        Of the roster it follows, as far as it has said.
    name : str
        Its name in the fleet.

    Examples
    --------
    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1),), method=gs.AnytimeSDA("local"))
    >>> agent = gs.Agent(settings, transport=gs.agents.Memory().transport(0, (1,)))
    >>> agent.snapshot.neighbors[0].state
    'joining'
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
    epoch: int = 0
    name: str = ""

    @classmethod
    def of(
        cls, peer: Peer, own: Answers, connected: bool, now: float, settings: AgentSettings
    ) -> NeighborView:
        """The view of a neighbor by an agent whose answers are `own`, at the time `now` of time.monotonic."""
        name = name_of(peer.id, settings)
        if peer.quarantined:
            state = "quarantined"
        elif peer.dead:
            state = "dead"
        elif not peer.used:
            state = "joining"
        else:
            state = "silent" if peer.misses > settings.silence else "alive"
        distance = math.nan
        if peer.used:
            distance = float(np.abs(own.layout.read(peer.value).mean - own.mean).max())
        last = now - peer.heard_at
        return cls(
            peer.id,
            state,
            connected,
            last,
            distance,
            peer.used,
            peer.lost,
            peer.late,
            peer.round_trip,
            peer.epoch,
            name,
        )


@dataclass(frozen=True)
class Snapshot:
    """The agent at one moment: what tables, JSON lines and metrics show.

    Attributes
    ----------
    round : int
        Lamport number of the current round, shared with the neighbors.
    age : int
        Rounds this agent has taken part in, across restarts.
    samples : int
        Observations it has used; `acknowledged` of them are safe in the store.
    estimate, standard_error, variance : ndarray
        Shape (n,), nan while nothing is known.
    answers : Answers
        Everything averaged, for quantiles (see `statistics.Answers`).
    state : str
        "running", "degraded" (the store cannot be written, the source failed, a neighbor is in quarantine,
        or the estimate cannot be right; `problem` says why) or "stopped".
    rejected : mapping
        Dropped messages by reason (see `wire.Reason`).
    bad : int
        Values of the source that were not observations.
    epoch, members : int
        Of the roster it follows; how many agents the fleet has, 0: unknown.
    least, largest : ndarray, optional
        Observation of all members in this epoch, shape (n,); None: they are not asked for.
    clipped : int
        Observations outside the range that were brought to its ends.
    store_failures : int
        Commits of the store that failed.

    Examples
    --------
    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1),), method=gs.AnytimeSDA("local"))
    >>> agent = gs.Agent(settings, transport=gs.agents.Memory().transport(0, (1,)))
    >>> now = agent.snapshot
    >>> now.samples, now.estimate
    (0, array([nan]))
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
    epoch: int = 0
    members: int = 0
    least: Floats | None = None
    largest: Floats | None = None
    clipped: int = 0
    store_failures: int = 0
