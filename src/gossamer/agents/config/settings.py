"""Everything one agent needs to know before it starts; checked once, when the settings are made."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from hashlib import blake2s
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import checks
from gossamer.agents.config.model import FleetModel
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts, UnknownFacts
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.base import Method
from gossamer.methods.ledger import RETURN_RATE, SILENCE

WEIGHTINGS = ("agents", "samples")
OPERATOR = "operator"
"""The common name of the operator's certificate, with which agents can be asked and told about rosters."""

OUTSIDE = ("refuse", "clip")
AUTO = "auto"
"""A timeout that follows the round trips to the neighbors (`round_trip.py`)."""


AGREED = (
    "dimension",
    "weighting",
    "variance",
    "covariance",
    "extremes",
    "bins",
    "replicates",
    "range",
    "method",
    "model",
    "return_rate",
)
"""The settings that neighbors must share: with another one in place, they would average different things."""

_LATER = {"model": None, "return_rate": RETURN_RATE}
"""Settings that fleets did not have at first: with these values at its end, a fingerprint leaves them out."""

LARGEST = 1e100
"""Numbers beyond this are refused: they are finite, but sums and squares of them soon are not."""

MOST_SMOOTHING = 10_000
"""Rounds. An agent keeps the coefficients of each; only a path of 10,000 agents needs that many."""

_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


class Label(str):
    """An agent's name in the fleet; logs tell apart messages about different ones, whatever digits they have."""

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
        The neighbor's number in the fleet.
    weight : float
        w_ij = -L_ij; both ends of an edge must use the same number. 0: it follows from the degrees of the two
        ends, and changes as edges come and go.
    endpoint : str
        "host:port" at which the neighbor is reached; empty for transports that need no address.
    name : str
        Common name of the neighbor's certificate; "agent<id>" unless given.
    degree : int
        How many neighbors it has in the roster; 0: unknown.

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

    def __post_init__(self) -> None:
        checks.whole_number("neighbor id", self.id, least=0)
        checks.whole_number("neighbor degree", self.degree, least=0)
        checks.number("neighbor weight", self.weight, least=0)
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


@dataclass(frozen=True)
class Limits:
    """Limits on what an agent accepts from its neighbors; anything beyond is dropped and counted.

    Parameters
    ----------
    message_bytes : int
        Longest payload that is decoded at all; 0: just enough for the agent's dimension.
    rounds_ahead : int
        A message from a round further ahead than this is dropped; it is also the most that an agent jumps.

    Examples
    --------
    >>> gs.agents.Limits().rounds_ahead
    1000000
    """

    message_bytes: int = 0
    rounds_ahead: int = 1_000_000

    def __post_init__(self) -> None:
        checks.whole_number("limits.message_bytes", self.message_bytes, least=0)
        checks.whole_number("limits.rounds_ahead", self.rounds_ahead, least=1)


@dataclass(frozen=True)
class AgentSettings:
    """What one agent needs: who it is, whom it talks to, its method, its timeouts and its keys.

    Parameters
    ----------
    id : int
        This agent's number in the fleet.
    neighbors : tuple of Neighbor
        The agents it talks to.
    method : Method
        A dual method (`methods.ledger.ledger_program` says which can be deployed); all agents need the same.
    facts : SpectralFacts
        The network's spectrum, as far as it is known, for parameters that the method leaves open. An agent
        sees only its own edges, so it must be given either the facts or all of the method's parameters.
    dimension : int
        How many numbers one observation has.
    variance, covariance, extremes : bool
        Also learn the network-wide variance; the covariance between the components of an observation, which needs
        variance; the least and the largest observation.
    model : FleetModel, optional
        The model to learn; None: the mean of observations. Observations are then rows: covariates and a label.
    bins : tuple of float
        Edges of a histogram, to learn network-wide quantiles; empty: none.
    model : FleetModel, optional
        The model to learn; None: the mean of observations. Observations are then rows: covariates and a label.
    weighting : str
        "agents": every agent's own mean counts the same; "samples": every observation does.
    replicates : int
        How many noise replicates carry the standard error (0: no standard error).
    range : tuple
        The least and the largest value of an observation: one pair, or one per component; empty: unknown.
        With `members` it also bounds what neighbors may claim, unless weighting is "samples".
    outside : str
        What becomes of an observation outside the range: "refuse", or "clip" to its nearest end.
    members, former : int
        How many agents the fleet has, 0: unknown; how many have left it.
    timeout : float or "auto"
        The most seconds that a round waits for a neighbor; "auto" follows the measured round trips.
    pace : float, optional
        Seconds between the starts of two rounds; None: as fast as the neighbors answer.
    silence : int
        A: an edge moves only while each end was heard by the other within A of its own rounds.
    return_rate : float
        The factor per round by which the flow of an edge to a dead neighbor returns: 0 is at once, which lets
        estimates swing. All agents need the same.
    death, commit : float
        Seconds of silence after which a neighbor counts as dead and its flow returns (see `dead_after`); seconds
        between two commits of the store.
    fleet, name : str
        Name of the fleet; agents of different fleets do not hear each other. Common name of this agent's certificate;
        "agent<id>" unless given.
    endpoint, listen : str
        "host:port" at which its neighbors reach this agent, and on which it listens, if that is another
        (containers, NAT).
    tls : Tls, optional
        Certificate files; None: plaintext, with a warning.
    limits : Limits
        What is accepted from neighbors.
    kept : tuple
        Former neighbors that left and whose data stay in the average.
    epoch, roster
        Of the roster that these neighbors come from, 0: there is none; that roster, signed, for neighbors that are
        behind.
    ids, bringers : tuple
        Numbers and common names of all members: who may bring this agent a roster.
    inherited : int
        How many agents have left and handed their data over to those that stay.
    reset : int
        The epoch in which all flows were set to zero last; 0: never.
    store : path, optional
        Of the SQLite file that survives a crash; None: nothing is kept.

    Examples
    --------
    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1), gs.Neighbor(2)), method=gs.AnytimeSDA("local"), timeout=0.5)
    >>> settings.name, settings.timeout, settings.silence
    ('agent0', 0.5, 5)
    """

    id: int
    neighbors: tuple[Neighbor, ...]
    method: Method = field(default_factory=AnytimeSDA)
    facts: SpectralFacts = field(default_factory=UnknownFacts)
    dimension: int = 1
    variance: bool = False
    covariance: bool = False
    extremes: bool = False
    model: FleetModel | None = None
    bins: tuple[float, ...] = ()
    weighting: str = "agents"
    replicates: int = 8
    range: tuple[tuple[float, float], ...] = ()
    outside: str = "refuse"
    members: int = 0
    former: int = 0
    timeout: float | str = AUTO
    pace: float | None = None
    silence: int = SILENCE
    return_rate: float = RETURN_RATE
    death: float = 5.0
    commit: float = 0.2
    fleet: str = "gossamer"
    name: str = ""
    endpoint: str = ""
    listen: str = ""
    tls: Tls | None = None
    limits: Limits = field(default_factory=Limits)
    store: Path | None = None
    kept: tuple[int, ...] = ()
    epoch: int = 0
    roster: bytes = field(default=b"", repr=False)
    bringers: tuple[str, ...] = field(default=(), repr=False)
    ids: tuple[int, ...] = field(default=(), repr=False)
    inherited: int = 0
    reset: int = 0

    def __post_init__(self) -> None:
        checks.whole_number("id", self.id, least=0)
        object.__setattr__(self, "neighbors", tuple(self.neighbors))
        ids = [n.id for n in self.neighbors]
        if len(set(ids)) != len(ids) or self.id in ids:
            raise InvalidInput(
                parameter="neighbors",
                required=f"different agents other than agent {self.id}",
                got=str(sorted(ids)),
            )
        _check_method(self.method)
        self._check_weights()
        checks.whole_number("dimension", self.dimension, least=1)
        checks.whole_number("replicates", self.replicates, least=0)
        object.__setattr__(self, "bins", tuple(float(edge) for edge in self.bins))
        if self.bins and (
            len(self.bins) < 2
            or not all(math.isfinite(edge) for edge in self.bins)
            or any(a >= b for a, b in zip(self.bins, self.bins[1:], strict=False))
        ):
            raise InvalidInput(
                parameter="bins", required="at least two increasing finite numbers", got=str(self.bins)
            )
        if self.covariance and not (self.variance and self.dimension > 1):
            raise InvalidInput(
                f"needs variance and observations of at least two components, got variance={self.variance} "
                f"and dimension={self.dimension}",
                parameter="covariance",
            )
        self._check_model()
        if self.extremes and getattr(self.method, "gain", None):
            raise InvalidInput(
                "are those of all observations so far, so they need a method that forgets none, "
                f"got gain={getattr(self.method, 'gain', None)}; leave out one of the two",
                parameter="extremes",
            )
        checks.choice("weighting", self.weighting, WEIGHTINGS)
        object.__setattr__(self, "range", _pairs(self.range, self.dimension))
        checks.choice("outside", self.outside, OUTSIDE)
        checks.whole_number("members", self.members, least=0)
        if 0 < self.members <= len(self.neighbors):
            raise InvalidInput(
                f"must count this agent and its {len(self.neighbors)} neighbors at least, got {self.members}",
                parameter="members",
            )
        for name in ("death", "commit"):
            checks.number(name, getattr(self, name), above=0)
        if self.timeout != AUTO:
            checks.number("timeout", self.timeout, above=0)
        if self.pace is not None:
            checks.number("pace", self.pace, above=0)
        checks.whole_number("silence", self.silence, least=1)
        checks.number("return_rate", self.return_rate, least=0, below=1)
        if self.timeout != AUTO and self.death <= float(self.timeout):
            raise InvalidInput(
                parameter="death",
                required="longer than timeout, or a neighbor that is late for one round would count as dead",
                got=f"death={self.death} and timeout={self.timeout}",
            )
        if not self.fleet or not all(ch.isalnum() or ch in "-_" for ch in self.fleet):
            raise InvalidInput(
                parameter="fleet", required="a word of letters, digits, - and _", got=repr(self.fleet)
            )
        if not self.name:
            object.__setattr__(self, "name", agent_name(self.id))
        if self.endpoint:
            check_endpoint("endpoint", self.endpoint)
        if self.listen:
            check_endpoint("listen", self.listen)
        if self.store is not None:
            object.__setattr__(self, "store", Path(self.store))

    @property
    def names(self) -> dict[int, str]:
        """The common name of each member's certificate, by its number; empty: they are not known."""
        return dict(zip(self.ids, self.bringers, strict=True)) if self.ids else {}

    @property
    def dead_after(self) -> float:
        """Seconds of silence after which a neighbor counts as dead: `death`, but never fewer than `silence` rounds.

        At a slow pace a single lost message is a long silence.
        """
        return max(self.death, self.silence * (self.pace or 0.0))

    def _check_weights(self) -> None:
        """Without facts, the local form relies on weights that average; each agent sees whether its own do."""
        method, total = self.method, sum(n.weight for n in self.neighbors)
        if not isinstance(method, AnytimeSDA) or not method.local or method.step_size is not None:
            return
        if isinstance(self.facts, UnknownFacts) and total > 1 + 1e-9:
            raise InvalidInput(
                f"the weights of agent {self.id}'s edges must add up to at most 1, as Metropolis weights do, "
                f"got {total:g}; give facts, or the method a step_size of at most 1.3/lambda_max"
            )

    def _check_model(self) -> None:
        if self.model is None:
            return
        if self.dimension != len(self.model.covariates) + 1:
            raise InvalidInput(
                parameter="dimension",
                required="the number of covariates of the model, and one for the label, "
                f"{len(self.model.covariates) + 1}",
                got=str(self.dimension),
            )
        extra = [name for name in ("variance", "covariance", "extremes", "bins") if getattr(self, name)]
        if extra or getattr(self.method, "gain", None):
            raise InvalidInput(
                "needs all rows, and nothing beside them, in plain averages; leave out "
                f"{', '.join(extra) or 'the gain or window'}",
                parameter="model",
            )

    @property
    def fingerprint(self) -> bytes:
        """Two bytes for each of `AGREED`; agents of different fingerprints average different things.

        It ends with the last setting that is not one of `_LATER`, or has another value.
        """
        names = list(AGREED)
        while getattr(self, names[-1]) == _LATER.get(names[-1], ...):
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


def _check_method(method: Method) -> None:
    """What a fleet asks of a method beyond what the method itself checks: it must be stable forever, and fit."""
    if not isinstance(method, Method):
        raise InvalidInput(parameter="method", required="a gossamer.Method", got=repr(method))
    if (momentum := getattr(method, "momentum", None)) is not None:
        checks.number("momentum", momentum, least=0, below=1)
    if (smoothing := getattr(method, "smoothing", None)) is not None:
        checks.number("smoothing", smoothing, least=0, most=MOST_SMOOTHING)


def _pairs(range: Any, dimension: int) -> tuple[tuple[float, float], ...]:
    """A range as one pair per component; a single pair serves all of them."""
    try:
        found = np.asarray(range, dtype=float)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if found.size == 0:
        return ()
    pairs = found[None, :] if found.ndim == 1 else found
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


def agent_name(agent: int) -> str:
    """The common name on the certificate of an agent."""
    return f"agent{agent}"


def check_endpoint(name: str, value: str) -> None:
    """Raise for an endpoint that is not host:port; an IPv6 address is in brackets."""
    host, _, port = value.rpartition(":")
    if not (_HOST.fullmatch(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InvalidInput(
            parameter=name,
            required="host:port, the host a name of ASCII letters, digits, dots and dashes or an address, and "
            "the port from 1 to 65535",
            got=repr(value),
        )


def differing(mine: bytes, theirs: bytes) -> list[str]:
    """Which of `AGREED` differ between two fingerprints."""
    return [name for k, name in enumerate(AGREED) if mine[2 * k : 2 * k + 2] != theirs[2 * k : 2 * k + 2]]
