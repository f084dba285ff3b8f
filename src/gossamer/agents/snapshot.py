"""The state of an agent and of its neighbors at one moment."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from gossamer.agents.config.settings import AgentSettings, differing
from gossamer.agents.round.bounds import EdgeLimits
from gossamer.agents.round.conversation import Peer
from gossamer.agents.round.masking import Masking
from gossamer.agents.round.round_trip import RoundTrip
from gossamer.agents.statistics.layout import Answers
from gossamer.agents.statistics.models import ModelAnswers
from gossamer.agents.statistics.values import ValueAnswers
from gossamer.arrays import Floats
from gossamer.errors import Unsupported
from gossamer.fingerprint import full_version
from gossamer.fitted import FittedModel


def incompatible(peers: Iterable[Peer], settings: AgentSettings, builds: Mapping[int, str]) -> str:
    """The neighbors that cannot be averaged with, and why; empty if there are none. `builds` are their versions."""
    texts = []
    for p in peers:
        if not (p.agreed or p.foreign):
            continue
        differs = ", ".join(differing(settings.fingerprint, p.agreed)) if p.agreed else ""
        why = f"its settings differ: {differs}" if differs else "its messages are of another version"
        theirs = builds.get(p.id, full_version()) or "an unknown build"
        other = f" (it runs {theirs}, this agent {full_version()})" if theirs != full_version() else ""
        texts.append(f"{settings.label_of(p.id)} is not averaged with, because {why}{other}")
    return "; ".join(texts)


def quarantined(peers: Iterable[Peer], settings: AgentSettings) -> str:
    """The neighbors in quarantine; empty if there are none."""
    names = [settings.label_of(p.id) for p in peers if p.quarantined]
    return f"in quarantine for impossible claims or a flood: {', '.join(names)}" if names else ""


def strained(limits: EdgeLimits | None, settings: AgentSettings) -> str:
    """The neighbors whose flow is larger than the roster explains; empty if there are none."""
    if limits is None or not limits.strained:
        return ""
    names = ", ".join(settings.label_of(j) for j in limits.strained)
    return (
        f"the flow to {names} is larger than the range and the roster explain, so answers may be wrong: it or a member "
        "behind it lies, or members that the roster lists have died (`gossamer fleet remove` them)"
    )


def unmasked(masks: Masking, live: Collection[int], settings: AgentSettings) -> str:
    """Why an agent in a fleet with masks sends no values yet; empty if it does. `live` are its neighbors alive."""
    if masks.refusing:
        return (
            f"it takes no part, because fewer than {masks.least} of its neighbors do ([privacy] least_neighbors): "
            "start its neighbors, or `gossamer fleet link` it to more"
        )
    names = ", ".join(settings.label_of(j) for j in masks.waits_for(live))
    return f"it tells no values yet: it has not agreed on masks with {names}" if names else ""


class CountCheck:
    """Notices that the number of observing members is impossible, although neighbors agree on it.

    Then the flows of the fleet do not add up to zero. The count may oscillate while a change mixes, so it must be
    impossible for some time. Where agents have left their data behind, it is also too large while members are away,
    because it is extrapolated from the members that are not; so an agent that knows of one does not judge it.
    """

    def __init__(self) -> None:
        self._since = math.inf

    def problem(
        self, answers: Answers, settings: AgentSettings, peers: Mapping[int, Peer], now: float
    ) -> str:
        """The problem and its remedy at the time `now` of the agent's clock; empty if there is no problem."""
        observing, most = answers.observing(settings.members), settings.members + settings.inherited
        if math.isnan(observing):
            return ""
        away = settings.inherited and any(p.dead or p.stopped for p in peers.values())
        heard = [p for p in peers.values() if p.last and p.misses <= settings.silence]
        apart = [abs(answers.layout.read(p.value).presence - answers.presence) for p in heard]
        slack = _SLACK * (1 + 0.1 * most) + 2 * settings.members * max(apart, default=0.0)
        if away or -slack <= observing <= most + slack:
            self._since = math.inf
            return ""
        self._since = min(self._since, now)
        if now - self._since < 2 * settings.dead_after:
            return ""
        text = f"{observing:.3f} of {most} agents cannot have observed"
        if settings.inherited:
            return (
                f"{text}: members are away, or the average is wrong, because the flows of this fleet do not add up to "
                "zero; if all members are up, run `gossamer fleet reset-flows`, which forgets the data of agents that "
                "have left, and `gossamer fleet push`"
            )
        return (
            f"{text}, so the average is wrong: the flows of this fleet do not add up to zero; run "
            "`gossamer fleet reset-flows` and `gossamer fleet push`"
        )


_SLACK = 0.02
"""Error in agents from which a count is not possible; it is exact once a fleet agrees."""


@dataclass(frozen=True)
class NeighborView:
    """What an agent knows about one neighbor.

    Attributes
    ----------
    id : int
        The number of the neighbor in the fleet.
    state : str
        One of "joining" (not heard yet), "alive", "silent" (missed the last `silence` rounds), "stopped"
        (regularly: its data stay in the average until it returns), "dead", and "quarantined" (ignored, because it
        kept claiming the impossible).
    connected : bool
        Whether the transport has a connection to the neighbor at this moment.
    last_heard : float
        Seconds since its last message that was used; infinite before the first.
    distance : float
        Largest difference between its estimate and the agent's own over all components, in units of the observations.
    used, lost, late : int
        Numbers of messages that were used in a round, of rounds for which no usable message arrived in time, and of
        messages that arrived too late for their round.
    round_trip : float
        Smoothed round-trip time in seconds; NaN before the first measurement.
    epoch : int
        The epoch of the newest roster that it is known to have.
    name : str
        The name of the neighbor in the fleet.

    See Also
    --------
    Snapshot : Contains one for each neighbor.
    gossamer.Neighbor : The settings of a neighbor.

    Examples
    --------
    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1),), method=gs.AnytimeSDA("local-heavy-ball"))
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
        cls,
        peer: Peer,
        own: Answers,
        connected: bool,
        now: float,
        settings: AgentSettings,
        trip: RoundTrip | None = None,
    ) -> NeighborView:
        """The view of a neighbor by an agent with the answers `own`, at the time `now` of its clock."""
        name = settings.label_of(peer.id)
        if peer.quarantined:
            state = "quarantined"
        elif peer.stopped:
            state = "stopped"
        elif peer.dead:
            state = "dead"
        elif not peer.used:
            state = "joining"
        else:
            state = "silent" if peer.misses > settings.silence else "alive"
        distance = math.nan
        if peer.last:
            distance = own.distance(peer.value)
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
            math.nan if trip is None else trip.mean,
            peer.epoch,
            name,
        )


@dataclass(frozen=True)
class Snapshot:
    """An agent at one moment, as tables, JSON lines and metrics show it.

    Attributes
    ----------
    agent : int
        The number of the agent in the fleet.
    time : float
        When the snapshot was taken, in seconds since 1970.
    round : int
        Lamport number of the current round, shared with the neighbors.
    age : int
        Number of rounds in which this agent has taken part, across restarts.
    samples : int
        Number of observations that the agent has used, across restarts.
    acknowledged : int
        Number of these observations that are in the store, and survive a crash.
    estimate, standard_error, variance : ndarray
        The average of all agents, its standard error and the variance of an observation, in (squared) units of the
        observations, each of shape (n,). Unknown numbers are NaN; `variance` is None if the fleet does not learn it.
    answers : Answers
        All averaged statistics, among them those above (see `statistics/layout.py`).
    state : str
        One of "running", "degraded" (the store cannot be written, the source failed, a neighbor is in quarantine,
        a flow is larger than the range and the roster explain, or the estimate cannot be right; `problem` says why)
        and "stopped".
    problem : str
        The reason why the agent is degraded, as a sentence; empty if it is not.
    sent, received : int
        Number of messages that the agent has sent to and received from its neighbors.
    neighbors : tuple of NeighborView
        One entry for each neighbor, with what the agent knows about it.
    rejected : mapping
        Number of messages that were dropped, by reason (see `wire.Reason`).
    bad : int
        Number of values of the source that were not observations.
    epoch, members : int
        The epoch of the agent's roster, and the number of agents in the fleet, 0 if unknown.
    inherited : int
        Number of agents that have left the fleet and handed their data over.
    least, largest : ndarray, optional
        Smallest and largest observation of all members in this epoch, shape (n,); None if not computed.
    clipped : int
        Number of observations outside the range that were moved to its nearest end.
    store_failures : int
        Number of commits of the store that failed, for example because the disk was full.
    settled : bool
        Whether the estimate no longer moves after a change by more than its noise; until then `standard_error`
        includes how far it may still move (`statistics/mixing.py`).
    participating : int
        Number of members (of this agent and its neighbors if unknown) without the neighbors that it considers dead.
    withheld : str
        Why there is no estimate of a model or of values; empty if there is one.

    See Also
    --------
    gossamer.Agent : The agent that it describes.
    NeighborView : What it says about one neighbor.

    Examples
    --------
    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1),), method=gs.AnytimeSDA("local-heavy-ball"))
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
    inherited: int = 0
    settled: bool = False
    participating: int = 0
    withheld: str = ""

    def fitted(self) -> FittedModel:
        """The model of a fleet that learns one: predictions and a summary, from what this agent holds.

        Raises `Unsupported` if the fleet learns no model, or while the estimate is withheld.
        """
        if not isinstance(self.answers, ModelAnswers):
            raise Unsupported("learns the mean of observations; give the fleet a model", parameter="model")
        return self.answers.fitted(self.agent, str(self.agent))

    def values(self, states: ArrayLike) -> Floats:
        """Return (M,) the values of states in a fleet that learns them, from what this agent holds.

        `states` are (M, d), or (M,) numbers of states of a table. Raises `Unsupported` if the fleet learns no values,
        or while they are withheld.
        """
        return self._values(states)[0]

    def value_errors(self, states: ArrayLike) -> Floats:
        """Return (M,) the standard errors of `values`; nan without replicates, or if all agents see the same states."""
        return self._values(states)[1]

    def _values(self, states: ArrayLike) -> tuple[Floats, Floats]:
        if not isinstance(self.answers, ValueAnswers):
            raise Unsupported("learns the mean of observations; give the fleet values", parameter="values")
        return self.answers.values(states)
