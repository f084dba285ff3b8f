"""Agents over Eclipse Zenoh: peer to peer, mutual TLS, access control by certificate name.

An agent listens on its own endpoint; of two neighbours the one with the larger number connects, and keeps
trying. Agent i publishes to j on <fleet>/<j>/<i> and shows that it is there by the token <fleet>/alive/<i>.
Scouting is off, so nobody connects to anyone but the neighbours in the settings.

With TLS each end checks the other's certificate against the fleet's authority, and access control (deny
unless allowed) ties every key to the common name it belongs to: agent j may put only on <fleet>/<me>/<j>
and hold only the token <fleet>/alive/<j>. So a valid agent that is no neighbour is not heard, and none
can speak as another.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any

from gossamer.agents.settings import AgentSettings, Neighbour
from gossamer.agents.transports.base import Deliver
from gossamer.agents.transports.memory import Inbox, listen
from gossamer.errors import InvalidInput, require

log = logging.getLogger("gossamer.agents")

_STALL_MICROSECONDS = 1_000_000
"""A neighbour that takes nothing for so long is disconnected; it reconnects when it is back."""


def configuration(settings: AgentSettings) -> dict[str, Any]:
    """Zenoh's configuration for one agent, as the JSON that `zenoh.Config.from_json5` reads."""
    protocol = "tls" if settings.tls else "tcp"
    if not settings.endpoint:
        raise InvalidInput("Zenoh needs an endpoint to listen on, but endpoint is empty; give host:port")
    unreachable = [n.id for n in settings.neighbours if n.id < settings.id and not n.endpoint]
    if unreachable:
        raise InvalidInput(
            f"agent {settings.id} connects to its neighbours {unreachable}, but they have no endpoint"
        )
    link: dict[str, Any] = {"tx": {"lease": lease_milliseconds(settings), "keep_alive": 4}}
    link["tx"]["queue"] = {"congestion_control": {"block": {"wait_before_close": _STALL_MICROSECONDS}}}
    config: dict[str, Any] = {
        "mode": "peer",
        "listen": {"endpoints": [f"{protocol}/{settings.endpoint}"]},
        "connect": {
            "endpoints": [f"{protocol}/{n.endpoint}" for n in settings.neighbours if n.id < settings.id],
            "timeout_ms": -1,
            "exit_on_failure": False,
            "retry": {"period_init_ms": 100, "period_max_ms": 500, "period_increase_factor": 2},
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "transport": {"shared_memory": {"enabled": False}, "link": link},
    }
    if settings.tls:
        tls = settings.tls
        link["tls"] = {
            "root_ca_certificate": str(tls.authority),
            "enable_mtls": True,
            "listen_certificate": str(tls.certificate),
            "listen_private_key": str(tls.key),
            "connect_certificate": str(tls.certificate),
            "connect_private_key": str(tls.key),
            "verify_name_on_connect": True,
            "close_link_on_expiration": True,
        }
        config["access_control"] = access_control(settings)
    return config


def lease_milliseconds(settings: AgentSettings) -> int:
    """How long a connection may be silent before it is lost: well before the neighbour counts as dead."""
    return int(1000 * min(10.0, max(1.0, settings.death / 2)))


def access_control(settings: AgentSettings) -> dict[str, Any]:
    """Deny everything but what each neighbour, known by its certificate's name, needs."""
    rules, subjects, policies = [], [], []
    for n in settings.neighbours:
        flows: dict[str, list[tuple[str, list[str]]]] = {
            "ingress": [
                (inbox_key(settings, n), ["put"]),
                (outbox_key(settings, n), ["declare_subscriber"]),
                (token_key(settings, n.id), ["liveliness_token"]),
                (token_key(settings, settings.id), ["declare_liveliness_subscriber", "liveliness_query"]),
            ],
            "egress": [
                (outbox_key(settings, n), ["put"]),
                (inbox_key(settings, n), ["declare_subscriber"]),
                (token_key(settings, settings.id), ["liveliness_token"]),
                (token_key(settings, n.id), ["declare_liveliness_subscriber", "liveliness_query"]),
            ],
        }
        names = []
        for flow, grants in flows.items():
            for k, (key, messages) in enumerate(grants):
                names.append(f"{flow}-{n.id}-{k}")
                rules.append(
                    {
                        "id": names[-1],
                        "permission": "allow",
                        "flows": [flow],
                        "messages": messages,
                        "key_exprs": [key],
                    }
                )
        subjects.append({"id": f"agent-{n.id}", "cert_common_names": [n.name]})
        policies.append({"rules": names, "subjects": [f"agent-{n.id}"]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def inbox_key(settings: AgentSettings, neighbour: Neighbour) -> str:
    """Where this agent hears the neighbour."""
    return f"{settings.fleet}/{settings.id}/{neighbour.id}"


def outbox_key(settings: AgentSettings, neighbour: Neighbour) -> str:
    """Where the neighbour hears this agent."""
    return f"{settings.fleet}/{neighbour.id}/{settings.id}"


def token_key(settings: AgentSettings, agent: int) -> str:
    """The token by which an agent shows that it is there."""
    return f"{settings.fleet}/alive/{agent}"


class ZenohTransport:
    """One agent's end of a Zenoh network, as its settings say."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self._config = configuration(settings)
        self._inbox: Inbox = SimpleQueue()
        self._present: frozenset[int] = frozenset()
        self._session: Any = None
        self._publishers: dict[int, Callable[[bytes], None]] = {}
        self._kept: list[Any] = []

    def open(self) -> None:
        zenoh = require("zenoh", "agents")
        settings = self.settings
        if settings.tls:
            settings.tls.check_files()
        else:
            warnings.warn(
                f"agent {settings.id} talks in plaintext: anyone on the network can read and forge messages; "
                "give it certificates (tls) unless this is a test",
                stacklevel=2,
            )
        self._session = session = zenoh.open(zenoh.Config.from_json5(json.dumps(self._config)))
        # Subscribers first, the token last: whoever sees the token can be sure to be heard.
        for n in settings.neighbours:
            hear = zenoh.handlers.Callback(partial(self._hear, n.id), indirect=False)
            self._kept.append(session.declare_subscriber(inbox_key(settings, n), hear))
            publisher = session.declare_publisher(
                outbox_key(settings, n),
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
            )
            self._kept.append(publisher)
            self._publishers[n.id] = publisher.put
            notice = zenoh.handlers.Callback(
                partial(self._notice, zenoh.SampleKind.PUT, n.id), indirect=False
            )
            token = token_key(settings, n.id)
            self._kept.append(session.liveliness().declare_subscriber(token, notice, history=True))
        self._kept.append(session.liveliness().declare_token(token_key(settings, settings.id)))

    def _hear(self, sender: int, sample: Any) -> None:
        self._inbox.put((sender, sample.payload.to_bytes()))

    def _notice(self, put: Any, neighbour: int, sample: Any) -> None:
        came = sample.kind == put
        self._present = self._present | {neighbour} if came else self._present - {neighbour}
        log.info(
            "agent %d: neighbour %d %s", self.settings.id, neighbour, "connected" if came else "disconnected"
        )
        self._inbox.put(None)

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        for neighbour, payload in outgoing.items():
            self._publishers[neighbour](payload)
        listen(self._inbox, deadline, deliver)

    def present(self) -> frozenset[int]:
        return self._present

    def wake(self) -> None:
        self._inbox.put(None)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
            self._kept.clear()
            self._publishers.clear()
            self._present = frozenset()
