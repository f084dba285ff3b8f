"""Agents: the method deployed on a real network, one process per agent.

Read `methods/ledger.py` first (the rules), then `round/ledger.py` and `round/conversation.py` (one round), `agent.py`
and `assembly.py` (what a program uses, and its parts) and `round/transport.py` (what a network must offer).

An agent is small because it loads none of Numba, SciPy, NetworkX and Matplotlib: no module of this package may import
them, not even through other modules of gossamer, and `lint-imports` checks it. Names are imported when they are first
used, so that reading settings needs no optional dependency.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Agent": "agent",
    "NeighborView": "snapshot",
    "Snapshot": "snapshot",
    "AgentSettings": "config.settings",
    "Fleet": "membership.fleet",
    "FleetModel": "config.model",
    "FleetValues": "config.model",
    "Limits": "config.settings",
    "LocalFleet": "fleet.local",
    "Neighbor": "config.settings",
    "Tls": "config.settings",
    "Faulty": "transports.faulty",
    "Transport": "round.transport",
    "Memory": "transports.memory",
    "MpiTransport": "transports.mpi",
    "TlsTransport": "transports.tls",
    "LiveSource": "sources.kinds",
    "PacedSource": "sources.kinds",
    "Place": "config.urls",
    "Sink": "sinks.kinds",
    "Url": "config.urls",
    "check_sink": "sinks.conformance",
    "check_source": "sources.conformance",
    "joined": "host.hosting",
    "running": "host.hosting",
}

__all__ = [
    "Agent",
    "AgentSettings",
    "Faulty",
    "Fleet",
    "FleetModel",
    "FleetValues",
    "Limits",
    "LiveSource",
    "LocalFleet",
    "Memory",
    "MpiTransport",
    "Neighbor",
    "NeighborView",
    "PacedSource",
    "Place",
    "Sink",
    "Snapshot",
    "Tls",
    "TlsTransport",
    "Transport",
    "Url",
    "check_sink",
    "check_source",
    "joined",
    "running",
]

if TYPE_CHECKING:
    from gossamer.agents.agent import Agent as Agent
    from gossamer.agents.config.model import FleetModel as FleetModel
    from gossamer.agents.config.model import FleetValues as FleetValues
    from gossamer.agents.config.settings import AgentSettings as AgentSettings
    from gossamer.agents.config.settings import Limits as Limits
    from gossamer.agents.config.settings import Neighbor as Neighbor
    from gossamer.agents.config.settings import Tls as Tls
    from gossamer.agents.config.urls import Place as Place
    from gossamer.agents.config.urls import Url as Url
    from gossamer.agents.fleet.local import LocalFleet as LocalFleet
    from gossamer.agents.host.hosting import joined as joined
    from gossamer.agents.host.hosting import running as running
    from gossamer.agents.membership.fleet import Fleet as Fleet
    from gossamer.agents.round.transport import Transport as Transport
    from gossamer.agents.sinks.conformance import check_sink as check_sink
    from gossamer.agents.sinks.kinds import Sink as Sink
    from gossamer.agents.snapshot import NeighborView as NeighborView
    from gossamer.agents.snapshot import Snapshot as Snapshot
    from gossamer.agents.sources.conformance import check_source as check_source
    from gossamer.agents.sources.kinds import LiveSource as LiveSource
    from gossamer.agents.sources.kinds import PacedSource as PacedSource
    from gossamer.agents.transports.faulty import Faulty as Faulty
    from gossamer.agents.transports.memory import Memory as Memory
    from gossamer.agents.transports.mpi import MpiTransport as MpiTransport
    from gossamer.agents.transports.tls import TlsTransport as TlsTransport


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"gossamer.agents.{_HOME[name]}"), name)
    raise AttributeError(f"module 'gossamer.agents' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
