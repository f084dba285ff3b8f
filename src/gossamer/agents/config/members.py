"""The rows of a fleet's lists: its members, its edges, and the agents that have left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from gossamer.agents.config.declaration import Declaration
from gossamer.agents.config.values import check_endpoint
from gossamer.errors import require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")


NOWHERE = "unreachable.invalid"
"""The host in the certificate of an agent without an endpoint."""

LEVELS = ("debug", "info", "warning", "error")
"""Log levels, from the least to the most serious."""

ENDS = ("fail", "restart", "stop")
"""What to do if a command that is a source ends without an error; the first is the default."""


class RosterMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One agent as the others see it."""

    id: Annotated[int, Declaration("The agent's number, which never changes.", live=False)]
    name: Annotated[str, Declaration("What people, files and the command line call it.")]
    endpoint: Annotated[
        str,
        Declaration(
            "host:port at which its neighbors reach it; the host is a name or an address, IPv6 in brackets.",
            check=check_endpoint,
            live=False,
        ),
    ] = ""
    reachable: Annotated[
        bool,
        Declaration(
            "Whether others can connect to it. If not (behind NAT), it has no endpoint and connects to its neighbors, "
            "which must be reachable.",
            live=False,
        ),
    ] = True
    common_name: Annotated[
        str, Declaration("Common name of its certificate, NAME@EPOCH; if empty, the name itself.")
    ] = ""

    @property
    def certified(self) -> str:
        """The common name of the certificate that counts."""
        return self.common_name or self.name

    @property
    def host(self) -> str:
        """The host of its endpoint; empty if it has none."""
        return self.endpoint.rpartition(":")[0].strip("[]")

    @property
    def certified_host(self) -> str:
        """The host for which its certificate is issued."""
        return self.host or NOWHERE


class Member(RosterMember, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent as in fleet.toml: what the others know about it, and what only its own machine uses."""

    listen: Annotated[
        str,
        Declaration(
            'host:port on which it listens, such as "0.0.0.0:7447", if it is not its endpoint (containers, NAT).',
            check=check_endpoint,
            live=False,
        ),
    ] = ""
    source: Annotated[
        str,
        Declaration(
            'Source of its observations: "-" for standard input, "csv:FILE" or "csv:FILE,follow", "cmd:COMMAND", '
            '"sim:MEAN,STD,SEED" for a simulated sensor, or a URL (`gossamer sources` lists all kinds).',
            live=False,
        ),
    ] = "-"
    sinks: Annotated[
        tuple[str, ...],
        Declaration(
            "URLs where it publishes its answers (`gossamer sources` lists all kinds); {name} and {fleet} stand for "
            "its name and that of the fleet.",
            live=False,
        ),
    ] = ()
    end: Annotated[
        str,
        Declaration(
            'What to do if a command (cmd:) ends without an error: "fail" (the default), "restart" or "stop".',
            choices=ENDS,
            live=False,
        ),
    ] = ""
    metrics: Annotated[
        str,
        Declaration(
            "host:port on which it serves its metrics, if it does.", check=check_endpoint, live=False
        ),
    ] = ""
    level: Annotated[str, Declaration("Its own log level; by default the fleet's.", choices=LEVELS)] = ""


class Edge(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Two agents that talk to each other; `weight` is 0 where it follows from the degrees (see `Fleet.weights`)."""

    a: int
    b: int
    weight: float = 0.0

    @property
    def pair(self) -> tuple[int, int]:
        return min(self.a, self.b), max(self.a, self.b)


class Left(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent that was removed from the fleet; its number is not used again."""

    id: Annotated[int, Declaration("Its number.")]
    name: Annotated[str, Declaration("Its name.")]
    keep: Annotated[bool, Declaration("Whether what it observed stays in the average.")]
    epoch: Annotated[int, Declaration("The epoch in which it was removed.")]
    heirs: Annotated[
        tuple[int, ...],
        Declaration("The agents to which it handed its data over; if empty, all its neighbors."),
    ] = ()

    def kept_by(self, agent: int) -> bool:
        """Return whether this agent keeps the flow of its edge to the one that left."""
        return self.keep and (not self.heirs or agent in self.heirs)
