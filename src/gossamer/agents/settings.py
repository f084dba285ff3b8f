"""Everything one agent needs to know before it starts; checked once, when it is built."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from gossamer.errors import InvalidInput

WEIGHTINGS = ("agents", "samples")

MOST_SMOOTHING = 10_000
"""Rounds. An agent keeps the coefficients of each; a path of 10,000 agents needs as many, other networks fewer."""

_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


@dataclass(frozen=True)
class Neighbor:
    """One neighbor: its number, the gossip weight of the edge, and where it is reached.

    id        the neighbor's number in the fleet
    weight    w_ij = -L_ij, above 0; both ends of an edge must use the same number
    endpoint  "host:port" on which the neighbor listens; empty for transports that need no address
    name      common name of the neighbor's certificate; "agent<id>" unless given
    """

    id: int
    weight: float
    endpoint: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        _whole("neighbor id", self.id, 0)
        _number("neighbor weight", self.weight, above=0.0)
        if self.endpoint:
            check_endpoint("neighbor endpoint", self.endpoint)
        if not self.name:
            object.__setattr__(self, "name", agent_name(self.id))


@dataclass(frozen=True)
class Tls:
    """The PEM files of mutual TLS: the fleet's authority, this agent's certificate and its private key."""

    authority: Path
    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        for name in ("authority", "certificate", "key"):
            object.__setattr__(self, name, Path(getattr(self, name)))

    def check_files(self) -> None:
        """Complain about a file that is missing, before Zenoh reports it as a refused connection."""
        for name in ("authority", "certificate", "key"):
            path: Path = getattr(self, name)
            if not path.is_file():
                raise InvalidInput(
                    f"tls.{name} must be a readable PEM file, but {path} is not there; run `gossamer fleet init` "
                    "to make it, or copy it from the machine where that was done"
                )


@dataclass(frozen=True)
class Limits:
    """What a message may look like at most; anything beyond is dropped and counted.

    message_bytes  longest payload that is decoded at all; 0 stands for just enough for the agent's dimension
    rounds_ahead   a message from a round further ahead than this is not believed
    """

    message_bytes: int = 0
    rounds_ahead: int = 2**40

    def __post_init__(self) -> None:
        _whole("limits.message_bytes", self.message_bytes, 0)
        _whole("limits.rounds_ahead", self.rounds_ahead, 1)


@dataclass(frozen=True)
class AgentSettings:
    """What one agent needs: who it is, whom it talks to, the method's numbers, its patience, and its keys.

    id            this agent's number in the fleet
    neighbors    the agents it talks to
    step_size     eta of Anytime SDA, from the network's spectrum (1/lambda_1)
    momentum      zeta, (sqrt k - 1)/(sqrt k + 1) with k the condition number
    smoothing     w in rounds; 0 switches smoothing off
    gain          floor of the running mean's gain, to track drifting means; None: plain running means
    dimension     how many numbers one observation has
    variance      also learn the network-wide variance
    bins          edges of a histogram, to learn network-wide quantiles; empty: none
    weighting     "agents": every agent's own mean counts the same; "samples": every observation does
    replicates    how many noise replicates carry the standard error (0: no standard error)
    timeout       seconds a round waits for a neighbor at most
    pace          seconds between the starts of two rounds; None: as fast as the neighbors answer
    silence       A: an edge moves only while each end was heard by the other within A of its own rounds
    death         seconds of silence after which a neighbor counts as dead and its flow returns
    commit        seconds between two commits of the store
    fleet         name of the fleet; agents of different fleets do not hear each other
    name          common name of this agent's certificate; "agent<id>" unless given
    endpoint      "host:port" on which this agent listens
    tls           certificate files; None is plaintext, which warns
    limits        what a message may look like at most
    store         path of the SQLite file that survives a crash; None: nothing is kept
    """

    id: int
    neighbors: tuple[Neighbor, ...]
    step_size: float
    momentum: float
    smoothing: float
    gain: float | None = None
    dimension: int = 1
    variance: bool = False
    bins: tuple[float, ...] = ()
    weighting: str = "agents"
    replicates: int = 8
    timeout: float = 0.2
    pace: float | None = None
    silence: int = 5
    death: float = 5.0
    commit: float = 0.2
    fleet: str = "gossamer"
    name: str = ""
    endpoint: str = ""
    tls: Tls | None = None
    limits: Limits = field(default_factory=Limits)
    store: Path | None = None

    def __post_init__(self) -> None:
        _whole("id", self.id, 0)
        object.__setattr__(self, "neighbors", tuple(self.neighbors))
        ids = [n.id for n in self.neighbors]
        if len(set(ids)) != len(ids) or self.id in ids:
            raise InvalidInput(
                f"neighbors must be different agents other than agent {self.id}, got {sorted(ids)}"
            )
        _number("step_size", self.step_size, above=0.0)
        _number("momentum", self.momentum, least=0.0, below=1.0)
        _number("smoothing", self.smoothing, least=0.0, most=MOST_SMOOTHING)
        if self.gain is not None and not 0 < self.gain <= 1:
            raise InvalidInput(f"gain must be above 0 and at most 1, got {self.gain!r}")
        _whole("dimension", self.dimension, 1)
        _whole("replicates", self.replicates, 0)
        object.__setattr__(self, "bins", tuple(float(edge) for edge in self.bins))
        if self.bins and (
            len(self.bins) < 2
            or not all(math.isfinite(edge) for edge in self.bins)
            or any(a >= b for a, b in zip(self.bins, self.bins[1:], strict=False))
        ):
            raise InvalidInput(f"bins must be at least two increasing finite numbers, got {self.bins}")
        if self.weighting not in WEIGHTINGS:
            raise InvalidInput(f"weighting must be 'agents' or 'samples', got {self.weighting!r}")
        for name in ("timeout", "death", "commit"):
            _number(name, getattr(self, name), above=0.0)
        if self.pace is not None:
            _number("pace", self.pace, above=0.0)
        _whole("silence", self.silence, 1)
        if self.death <= self.timeout:
            raise InvalidInput(
                f"death must be longer than timeout, or every slow round would be a funeral, "
                f"got death={self.death} and timeout={self.timeout}"
            )
        if not self.fleet or not all(ch.isalnum() or ch in "-_" for ch in self.fleet):
            raise InvalidInput(f"fleet must be a word of letters, digits, - and _, got {self.fleet!r}")
        if not self.name:
            object.__setattr__(self, "name", agent_name(self.id))
        if self.endpoint:
            check_endpoint("endpoint", self.endpoint, tls=self.tls is not None)
        if self.store is not None:
            object.__setattr__(self, "store", Path(self.store))

    def with_(self, **changes: object) -> AgentSettings:
        """Return these settings with some fields changed (and checked again)."""
        return replace(self, **changes)  # type: ignore[arg-type]


def agent_name(agent: int) -> str:
    """The common name on the certificate of an agent."""
    return f"agent{agent}"


def _whole(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{name} must be a whole number of at least {least}, got {value!r}")


def _number(
    name: str,
    value: float,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and above < value < below and least <= value <= most):
        range_ = " and ".join(
            text
            for text, bound in (
                (f"above {above:g}", above),
                (f"at least {least:g}", least),
                (f"below {below:g}", below),
                (f"at most {most:g}", most),
            )
            if math.isfinite(bound)
        )
        raise InvalidInput(f"{name} must be a finite number {range_}, got {value!r}")


def check_endpoint(name: str, value: str, *, tls: bool = False) -> None:
    """Complain about an endpoint that is not host:port; an IPv6 address, in brackets, only without TLS."""
    host, _, port = value.rpartition(":")
    if not (_HOST.fullmatch(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InvalidInput(
            f"{name} must be host:port, the host a name of ASCII letters, digits, dots and dashes or an address, "
            f"and the port from 1 to 65535, got {value!r}"
        )
    if tls and host.startswith("["):
        raise InvalidInput(
            f"{name} must be a host name or an IPv4 address, because Zenoh's TLS cannot connect to an IPv6 address, "
            f"got {value!r}"
        )
