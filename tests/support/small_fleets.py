"""What the tests of agents share: settings of small fleets on loopback, free ports."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import ssl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.agents.config.members import NOWHERE
from gossamer.agents.config.settings import AgentSettings, Neighbor, Tls
from gossamer.facts import KnownFacts
from gossamer.methods import AnytimeSDA
from gossamer.networks import Network

PLAINTEXT = "ignore:.* talks in plaintext"


_NEXT = itertools.count(os.getpid() * 7919)


def free_ports(count: int) -> list[int]:
    """Ports that are free now, and are likely to stay so: each process takes its own, one after the other, below those
    that the kernel gives to connections and to programs that ask for any port."""
    found: list[int] = []
    while len(found) < count:
        port = 10_000 + next(_NEXT) % 20_000
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def weights_of(network: Network, i: int) -> dict[int, float]:
    return {int(j): float(-network.gossip[i, int(j)]) for j in network.neighbors(i)}


def fleet(network: Network, *, certificates: Path | None = None, **changes: Any) -> list[AgentSettings]:
    """Settings of one agent per node of `network`, on free loopback ports."""
    ports = free_ports(network.agents)
    parameters: dict[str, Any] = {
        "method": AnytimeSDA(),
        "facts": KnownFacts.of(network.spectrum.eigenvalues),
        "timeout": 0.2,
        "death": 5.0,
        "replicates": 0,
    }
    parameters.update(changes)
    settings = []
    for i in range(network.agents):
        neighbors = tuple(
            Neighbor(j, w, endpoint=f"127.0.0.1:{ports[j]}") for j, w in weights_of(network, i).items()
        )
        tls = None
        if certificates is not None:
            tls = Tls(certificates / "ca.pem", certificates / f"agent{i}.pem", certificates / f"agent{i}.key")
        settings.append(AgentSettings(i, neighbors, endpoint=f"127.0.0.1:{ports[i]}", tls=tls, **parameters))
    return settings


def hidden(settings: list[AgentSettings], ids: Sequence[int], broker: str = "") -> list[AgentSettings]:
    """Return the same agents, with these unreachable."""
    return [
        replace(
            s,
            endpoint="" if s.id in ids else s.endpoint,
            reachable=s.id not in ids,
            broker=broker,
            neighbors=tuple(
                replace(n, endpoint="", reachable=False) if n.id in ids else n for n in s.neighbors
            ),
        )
        for s in settings
    ]


def make_certificates(directory: Path, agents: int) -> Path:
    """A small authority and one certificate per agent, as `gossamer fleet init` makes them."""
    from gossamer.agents.membership.certificates import Authority

    authority = Authority.create(directory)
    for i in range(agents):
        authority.issue(f"agent{i}", ["127.0.0.1", NOWHERE])
    return directory


def spread(values: list[float]) -> float:
    return float(np.ptp(values))


def member(settings: AgentSettings, victim: AgentSettings, says: bytes) -> ssl.SSLSocket:
    """A connection with an agent's own certificate, on which a test may send anything."""
    assert settings.tls is not None
    context = ssl.create_default_context(cafile=settings.tls.authority)
    context.load_cert_chain(settings.tls.certificate, settings.tls.key)
    host, _, port = victim.endpoint.partition(":")
    made = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
    made.settimeout(60)
    made.sendall(says)
    return made
