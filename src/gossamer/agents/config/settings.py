"""Everything that one agent needs to know before it starts, checked once, when the settings are created."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2s
from pathlib import Path
from typing import Annotated

import numpy as np

from gossamer import checks
from gossamer.agents.config.declaration import Declaration, check, documented, settings_of
from gossamer.agents.config.model import FleetModel, FleetValues, check_learned
from gossamer.agents.config.privacy import check_privacy, noise_of
from gossamer.agents.config.tables import AUTO as AUTO
from gossamer.agents.config.tables import Member, StatisticSettings, in_file
from gossamer.agents.config.values import check_endpoint as check_endpoint
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts, UnknownFacts
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.method import Method

OPERATOR = "operator"
"""The common name of the operator's certificate, with which agents can be asked and told about rosters."""

LARGEST = 1e100
"""Largest number that is accepted. Larger ones are finite, but sums and squares of them soon are not."""

LARGEST_COUNT = 2**62
"""Largest round, serial, age or epoch, in messages, stores and status files alike."""

MOST_SMOOTHING = 10_000
"""Largest number of rounds whose coefficients an agent keeps; only a path of 10,000 agents needs that many."""


class Label(str):
    """An agent's name in the fleet. Logs distinguish messages about different names, even if only digits differ."""

    @classmethod
    def of(cls, common_name: str) -> Label:
        """The name in a certificate's common name, which may be NAME@EPOCH."""
        return cls(common_name.partition("@")[0])


@dataclass(frozen=True)
class Neighbor:
    """One neighbor: its number, the gossip weight of the edge, and its address.

    Parameters
    ----------
    id : int
        The number of the neighbor in the fleet, from 0.
    weight : float
        Weight :math:`w_{ij} = -L_{ij}` of the edge, the same number at both ends. With 0 it follows from the degrees
        of the two ends, and changes as edges come and go.
    endpoint : str
        Address "host:port" at which the neighbor is reached; empty for transports that need no address.
    name : str
        Common name of the neighbor's certificate; by default "agent<id>".
    degree : int
        Number of neighbors that the roster gives this neighbor; 0 if unknown.
    reachable : bool
        Whether other agents can connect to it; if not, it connects to them.
    load : float
        Largest flow over the edge that means in an interval of width 1 can need while all members are up; 0 if unknown.
    detour : float
        Largest flow over the edge that can make up for masks of at most 1; 0 if unknown.

    See Also
    --------
    AgentSettings : The settings that contain it.
    gossamer.agents.NeighborView : What an agent reports about a neighbor.

    Examples
    --------
    >>> gs.Neighbor(3, endpoint="10.0.0.3:7447").name
    'agent3'
    """

    id: int
    weight: float = 0.0
    endpoint: str = ""
    name: str = ""
    degree: int = 0
    reachable: bool = True
    load: float = field(default=0.0, compare=False)
    detour: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        checks.whole_number("neighbor id", self.id, least=0)
        checks.whole_number("neighbor degree", self.degree, least=0)
        for name in ("weight", "load", "detour"):
            checks.number(f"neighbor {name}", getattr(self, name), least=0)
        if self.endpoint:
            check_endpoint("neighbor endpoint", self.endpoint)
        if not self.name:
            object.__setattr__(self, "name", agent_name(self.id))

    @property
    def label(self) -> Label:
        """Its name in the fleet."""
        return Label.of(self.name)


@dataclass(frozen=True)
class Tls:
    """The PEM files of mutual TLS: the fleet's authority, this agent's certificate and its private key.

    Parameters
    ----------
    authority : Path
        PEM file with the certificate of the fleet's authority.
    certificate : Path
        PEM file with the certificate of this agent, signed by the authority.
    key : Path
        PEM file with the private key of this agent, which only its owner can read.

    See Also
    --------
    TlsTransport : The transport that uses it.
    gossamer.AgentSettings : The settings that contain it.

    Examples
    --------
    >>> from pathlib import Path
    >>> folder = Path("fleet/certificates")
    >>> gs.agents.Tls(folder / "ca.pem", folder / "valve.pem", folder / "valve.key").authority.name
    'ca.pem'
    """

    authority: Path
    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        for name in ("authority", "certificate", "key"):
            object.__setattr__(self, name, Path(getattr(self, name)))

    def check_files(self) -> None:
        """Raise for a file that is missing, before it would be reported as a refused connection."""
        for name in ("authority", "certificate", "key"):
            path: Path = getattr(self, name)
            if not path.is_file():
                raise InvalidInput(
                    f"must be a readable PEM file, but there is no {path}; make it with `gossamer fleet "
                    "init`, or copy it from the machine where that was done",
                    parameter=f"tls.{name}",
                )


@documented
@dataclass(frozen=True)
class Limits:
    """Limits on what an agent accepts from its neighbors; anything beyond is dropped and counted.

    See Also
    --------
    gossamer.AgentSettings : The settings that contain it.

    Examples
    --------
    >>> gs.agents.Limits().rounds_ahead
    1000000
    """

    message_bytes: int = in_file("wire.message_bytes")
    rounds_ahead: int = in_file("wire.rounds_ahead")

    def __post_init__(self) -> None:
        check(self, "limits.")


def _check_method(name: str, method: Method) -> None:
    """Check what a fleet requires of a method beyond its own checks: long-term stability, and enough room for it."""
    if not isinstance(method, Method):
        raise InvalidInput(parameter=name, required="a gossamer.Method", got=repr(method))
    if (momentum := getattr(method, "momentum", None)) is not None:
        checks.number("momentum", momentum, least=0, below=1)
    if (smoothing := getattr(method, "smoothing", None)) is not None:
        checks.number("smoothing", smoothing, least=0, most=MOST_SMOOTHING)


@documented
@dataclass(frozen=True)
class AgentSettings(StatisticSettings):
    """The settings of one agent: its number, its neighbors, its method, its timeouts and its keys.

    See Also
    --------
    Agent : The agent that uses them.
    Neighbor : One neighbor in `neighbors`.
    gossamer.agents.Tls : Certificates of an agent.

    Examples
    --------
    >>> method = gs.AnytimeSDA("local-heavy-ball")
    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1), gs.Neighbor(2)), method=method, timeout=0.5)
    >>> settings.name, settings.timeout, settings.silence
    ('agent0', 0.5, 5)
    """

    id: Annotated[int, Declaration("This agent's number in the fleet.", least=0, live=False)]
    neighbors: Annotated[tuple[Neighbor, ...], Declaration("The agents it talks to.")]
    method: Annotated[
        Method,
        Declaration(
            "A dual method (`methods.ledger.ledger_program` says which can be deployed); all agents need the same.",
            check=_check_method,
            agreed=8,
        ),
    ] = field(default_factory=AnytimeSDA)
    facts: Annotated[
        SpectralFacts,
        Declaration(
            "The network's spectrum, as far as it is known, for parameters that the method leaves open. An agent sees "
            "only its own edges, so it must be given either the facts or all of the method's parameters.",
            live=False,
        ),
    ] = field(default_factory=UnknownFacts)
    dimension: int = in_file("observations.dimension")
    model: Annotated[
        FleetModel | None,
        Declaration(
            "The model to learn instead of the mean; observations are then rows: covariates and a label.",
            agreed=9,
            omitted=None,
        ),
    ] = None
    values: Annotated[
        FleetValues | None,
        Declaration(
            "The values of states to learn instead of the mean; observations are then transitions.",
            agreed=18,
            omitted=None,
        ),
    ] = None
    weighting: str = in_file("observations.weighting")
    range: tuple[tuple[float, float], ...] = in_file("observations.range")
    outside: str = in_file("observations.outside")
    mask: tuple[float, ...] = in_file("privacy.mask", ())
    refresh: bool = in_file("privacy.refresh")
    least_neighbors: int = in_file("privacy.least_neighbors")
    noise: tuple[float, ...] = in_file("privacy.noise", ())
    epsilon: float = in_file("privacy.epsilon")
    delta: float = in_file("privacy.delta")
    change: tuple[float, ...] = in_file("privacy.change", ())
    honest: int = in_file("privacy.honest")
    members: Annotated[int, Declaration("Number of agents in the fleet; 0 if unknown.", least=0)] = 0
    former: Annotated[int, Declaration("Number of agents that have left the fleet.")] = 0
    timeout: float | str = in_file("rounds.timeout")
    pace: float | None = in_file(
        "rounds.every",
        None,
        text="Time from the start of one round to the next; None means as fast as the neighbors answer.",
        above=0,
        least=None,
    )
    silence: int = in_file("rounds.silence")
    quiet: bool = in_file("rounds.quiet")
    return_rate: float = in_file("rounds.return_rate")
    death: float = in_file("rounds.death")
    precision: str = in_file("wire.precision")
    commit: float = in_file("rounds.commit")
    fleet: str = in_file("fleet")
    name: Annotated[str, Declaration('Common name of this agent\'s certificate; by default "agent<id>".')] = (
        ""
    )
    endpoint: str = in_file("agents.endpoint", "")
    reachable: bool = in_file("agents.reachable")
    broker: str = in_file("transport.broker")
    listen: str = in_file("agents.listen")
    tls: Annotated[Tls | None, Declaration("Certificate files; None means plaintext, with a warning.")] = None
    limits: Annotated[Limits, Declaration("Limits on messages from neighbors.")] = field(
        default_factory=Limits
    )
    store: Annotated[
        Path | None,
        Declaration(
            "The SQLite file from which the agent resumes after a crash; None disables it.", live=False
        ),
    ] = None
    kept: Annotated[
        tuple[int, ...], Declaration("Former neighbors that left and whose data stay in the average.")
    ] = ()
    epoch: int = in_file(
        "epoch", text="Epoch of the roster that these neighbors come from; 0 if there is no roster."
    )
    roster: Annotated[bytes, Declaration("That roster, signed, for neighbors that are behind.")] = field(
        default=b"", repr=False
    )
    bringers: Annotated[
        tuple[str, ...], Declaration("Common names of all members, who may bring this agent a roster.")
    ] = field(default=(), repr=False)
    ids: Annotated[tuple[int, ...], Declaration("Numbers of all members, in the same order.")] = field(
        default=(), repr=False
    )
    inherited: Annotated[
        int, Declaration("Number of agents that have left and handed their data over to the others.")
    ] = 0
    reset: int = in_file("reset")

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbors", tuple(self.neighbors))
        object.__setattr__(self, "bins", tuple(float(edge) for edge in self.bins))
        check(self)
        object.__setattr__(self, "range", _pairs(self.range, self.dimension))
        for name in ("mask", "noise", "change"):
            object.__setattr__(self, name, _scales(name, getattr(self, name), self.dimension))
        if not self.name:
            object.__setattr__(self, "name", agent_name(self.id))
        if self.store is not None:
            object.__setattr__(self, "store", Path(self.store))
        self._check_neighbors()
        self._check_statistics()
        check_learned(self)
        check_privacy(self)
        if self.timeout != AUTO and self.death <= float(self.timeout):
            raise InvalidInput(
                parameter="death",
                required="longer than timeout, or a neighbor that is late for one round would count as dead",
                got=f"death={self.death} and timeout={self.timeout}",
            )

    def _check_neighbors(self) -> None:
        """Check that the neighbors are other agents of the fleet, with weights that the method can use."""
        ids = [n.id for n in self.neighbors]
        if len(set(ids)) != len(ids) or self.id in ids:
            raise InvalidInput(
                parameter="neighbors",
                required=f"different agents other than {self.label}",
                got=", ".join(sorted(n.label for n in self.neighbors)),
            )
        if 0 < self.members <= len(ids):
            raise InvalidInput(
                f"must count this agent and its {len(ids)} neighbors at least, got {self.members}",
                parameter="members",
            )
        both = [n.label for n in self.neighbors if self.relayed(n)]
        if both and not self.broker:
            raise InvalidInput(
                f"must be reachable if this agent is not and there is no broker, but {both[0]} is not",
                parameter="neighbors",
            )
        self._check_weights()

    def calls(self, neighbor: Neighbor) -> bool:
        """Whether this agent opens the connection to a neighbor.

        That is the end that cannot be reached; if both can be, the one with the larger number.
        """
        return neighbor.id < self.id if self.reachable == neighbor.reachable else neighbor.reachable

    def relayed(self, neighbor: Neighbor) -> bool:
        """Whether the connection to a neighbor needs the broker."""
        return not (self.reachable or neighbor.reachable)

    def _check_statistics(self) -> None:
        """Check statistics that need others, or that exclude a method that forgets."""
        if self.covariance and not (self.variance and self.dimension > 1):
            raise InvalidInput(
                f"needs variance and observations of at least two components, got variance={self.variance} "
                f"and dimension={self.dimension}",
                parameter="covariance",
            )
        if self.extremes and getattr(self.method, "gain", None):
            raise InvalidInput(
                "are those of all observations so far, so they need a method that forgets none, "
                f"got gain={getattr(self.method, 'gain', None)}; leave out one of the two",
                parameter="extremes",
            )

    @property
    def names(self) -> dict[int, str]:
        """The common name of each member's certificate, by its number; empty if they are unknown."""
        return dict(zip(self.ids, self.bringers, strict=True)) if self.ids else {}

    @property
    def dead_after(self) -> float:
        """Seconds of silence after which a neighbor counts as dead: `death`, but never fewer than `silence` rounds,
        or three times as many if agents are quiet: two of the messages that keep a neighbor alive may be lost.

        At a slow pace a single lost message is a long silence.
        """
        return max(self.death, self.silence * (3 if self.quiet else 1) * (self.pace or 0.0))

    def _check_weights(self) -> None:
        """Check that the agent's own weights average, on which the local form relies if facts are unknown."""
        method, total = self.method, sum(n.weight for n in self.neighbors)
        if not isinstance(method, AnytimeSDA) or not method.local or method.step_size is not None:
            return
        if isinstance(self.facts, UnknownFacts) and total > 1 + 1e-9:
            raise InvalidInput(
                f"the weights of {self.label}'s edges must add up to at most 1, as Metropolis weights do, "
                f"got {total:g}; give facts, or the method a step_size of at most 1.3/lambda_max"
            )

    @cached_property
    def noise_scale(self) -> tuple[float, ...]:
        """Standard deviation of the noise that the agent adds to its level, by component; empty if there is none."""
        return noise_of(self)

    @property
    def fingerprint(self) -> bytes:
        """Two bytes for each of `AGREED`; agents with different fingerprints average different things.

        Settings at its end are left out if they have the value that their declaration allows to omit.
        """
        names, declared = list(AGREED), settings_of(AgentSettings)
        while getattr(self, names[-1]) == declared[names[-1]].setting.omitted:
            names.pop()
        return b"".join(blake2s(repr(getattr(self, name)).encode(), digest_size=2).digest() for name in names)

    @property
    def label(self) -> Label:
        """This agent's name in the fleet."""
        return Label.of(self.name)

    def label_of(self, neighbor: int) -> Label:
        """The name in the fleet of one of the neighbors."""
        return next((n.label for n in self.neighbors if n.id == neighbor), Label(agent_name(neighbor)))

    def with_(self, **changes: object) -> AgentSettings:
        """Return these settings with some fields changed, checked again."""
        return replace(self, **changes)  # type: ignore[arg-type]


def _pairs(range: object, dimension: int) -> tuple[tuple[float, float], ...]:
    """A range as one pair per component; a single pair serves all of them."""
    try:
        numbers = np.asarray(range, dtype=float)
    except (TypeError, ValueError):
        numbers = np.full(1, np.nan)
    if numbers.size == 0:
        return ()
    pairs = numbers[None, :] if numbers.ndim == 1 else numbers
    if (
        pairs.ndim != 2
        or pairs.shape[1] != 2
        or len(pairs) not in (1, dimension)
        or not np.isfinite(pairs).all()
        or (pairs[:, 0] >= pairs[:, 1]).any()
    ):
        raise InvalidInput(
            parameter="range",
            required="the least and the largest value of an observation, such as [-40, 60], or one such pair "
            f"for each of the {dimension} component(s)",
            got=repr(range),
        )
    return tuple((low, high) for low, high in np.broadcast_to(pairs, (dimension, 2)).tolist())


def _scales(name: str, given: object, dimension: int) -> tuple[float, ...]:
    """Standard deviations of masks or noise, or sizes of changes, by component of an observation; empty if zero."""
    scales = np.atleast_1d(np.asarray(given, dtype=float))
    if not scales.any():
        return ()
    if scales.size not in (1, dimension):
        raise InvalidInput(
            parameter=name,
            required=f"one number, or one for each of the {dimension} component(s)",
            got=f"{scales.size} numbers",
        )
    return tuple(np.broadcast_to(scales, dimension).tolist())


def agent_name(agent: int) -> str:
    """The common name on the certificate of an agent."""
    return f"agent{agent}"


AGREED = tuple(
    sorted(
        (
            name
            for name, declared in settings_of(AgentSettings).items()
            if declared.setting.agreed is not None
        ),
        key=lambda name: settings_of(AgentSettings)[name].setting.agreed or 0,
    )
)
"""The settings that neighbors must share, because they determine what is averaged, in the order of a fingerprint."""

FIXED = tuple(name for name, declared in settings_of(AgentSettings).items() if not declared.live)
"""The settings that need a new agent: what is averaged, and where it listens and stores."""

MEMBER_FIXED = tuple(
    name
    for name, declared in settings_of(Member).items()
    if not declared.live and name not in settings_of(AgentSettings)
)
"""Other fields of an agent's row of fleet.toml that take effect only after a restart."""


def differing(mine: bytes, theirs: bytes) -> list[str]:
    """Return which of `AGREED` differ between two fingerprints."""
    return [name for k, name in enumerate(AGREED) if mine[2 * k : 2 * k + 2] != theirs[2 * k : 2 * k + 2]]
