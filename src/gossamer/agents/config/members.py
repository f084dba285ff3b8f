"""The rows of a fleet's lists: its members, its edges, and the agents that have left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.errors import require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")


class RosterMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One agent as the others see it.

    id           its number, for good
    name         what people, files and the command line call it
    endpoint     host:port at which its neighbors reach it
    common_name  that of its certificate, NAME@EPOCH; empty: the name itself
    """

    id: int
    name: str
    endpoint: str
    common_name: str = ""

    @property
    def certified(self) -> str:
        """The common name of the certificate that counts."""
        return self.common_name or self.name

    @property
    def host(self) -> str:
        """The host of its endpoint, for which its certificate is issued."""
        return self.endpoint.rpartition(":")[0].strip("[]")


class Edge(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Two agents that talk to each other; `weight` is 0 where it follows from the degrees (see `Fleet.weights`)."""

    a: int
    b: int
    weight: float = 0.0

    @property
    def pair(self) -> tuple[int, int]:
        return min(self.a, self.b), max(self.a, self.b)


class Left(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent that was removed in this epoch.

    keep   what it observed stays in the average
    heirs  the agents to which it handed that over; none in rosters of earlier versions, where all its neighbors were
    """

    id: int
    name: str
    keep: bool
    epoch: int
    heirs: tuple[int, ...] = ()

    def kept_by(self, agent: int) -> bool:
        """Whether this agent keeps the flow of its edge to the one that left."""
        return self.keep and (not self.heirs or agent in self.heirs)
