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

import contextlib
import json
import logging
import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gossamer.agents.settings import AgentSettings, Neighbour
from gossamer.agents.transports.base import Deliver
from gossamer.errors import GossamerError, InvalidInput, require

log = logging.getLogger("gossamer.agents")

_STALL_MICROSECONDS = 1_000_000
"""A neighbour that takes nothing for so long is disconnected; it reconnects when it is back."""

_WAITING = 64
"""Messages of one neighbour that may wait; a round uses one, and of more only the newest."""


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
                (f"{settings.fleet}/{n.id}/*", ["declare_subscriber"]),
                (token_key(settings, n.id), ["liveliness_token"]),
                (token_key(settings, settings.id), ["declare_liveliness_subscriber", "liveliness_query"]),
            ],
            "egress": [
                (outbox_key(settings, n), ["put"]),
                (f"{settings.fleet}/{settings.id}/*", ["declare_subscriber"]),
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
    """One agent's end of a Zenoh network, as its settings say.

    Messages wait in a ring on Zenoh's side, which the agent's thread reads without any Python in between: a
    round costs fewer switches between threads, and who is flooded forgets the oldest, not the newest. The ring
    knows no time-out, so a second thread puts a wake-up call into it when a deadline passes.
    """

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self._config = configuration(settings)
        self._present: frozenset[int] = frozenset()
        self._session: Any = None
        self._publishers: dict[int, Callable[[bytes], None]] = {}
        self._senders = {inbox_key(settings, n): n.id for n in settings.neighbours}
        self._ring: Any = None
        self._call: Callable[[], None] = lambda: None  # puts a wake-up call into the ring
        self._deadline = math.inf  # of the exchange that waits
        self._closed = threading.Event()
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
        try:
            self._session = session = zenoh.open(zenoh.Config.from_json5(json.dumps(self._config)))
        except zenoh.ZError as error:
            raise GossamerError(
                f"agent {settings.id} cannot listen on {settings.endpoint} ({error}); "
                "the port must be free, the address this machine's, and the certificates readable"
            ) from error
        self._call = partial(
            session.put,
            f"{settings.fleet}/{settings.id}/wake",
            b"",
            allowed_destination=zenoh.Locality.SESSION_LOCAL,
        )
        # The subscriber first, the token last: whoever sees the token can be sure to be heard.
        self._ring = session.declare_subscriber(
            f"{settings.fleet}/{settings.id}/*", zenoh.handlers.RingChannel(_WAITING * len(self._senders))
        )
        for n in settings.neighbours:
            publisher = session.declare_publisher(
                outbox_key(settings, n),
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
            )
            self._kept.append(publisher)
            self._publishers[n.id] = publisher.put
            notice = partial(self._notice, zenoh.SampleKind.PUT, n.id)
            token = token_key(settings, n.id)
            self._kept.append(session.liveliness().declare_subscriber(token, notice, history=True))
        self._kept.append(session.liveliness().declare_token(token_key(settings, settings.id)))
        threading.Thread(target=self._watch, name=f"watch-{settings.id}", daemon=True).start()

    def _notice(self, put: Any, neighbour: int, sample: Any) -> None:
        came = sample.kind == put
        self._present = self._present | {neighbour} if came else self._present - {neighbour}
        log.info(
            "agent %d: neighbour %d %s", self.settings.id, neighbour, "connected" if came else "disconnected"
        )
        self.wake()

    def _watch(self) -> None:
        """Wake the exchange whose deadline has passed; looks often enough for the shortest wait of a round."""
        pause = min(0.02, max(0.001, self.settings.timeout / 16))
        while not self._closed.wait(pause):
            if time.monotonic() >= self._deadline:
                self._deadline = math.inf
                self.wake()

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        for neighbour, payload in outgoing.items():
            self._publishers[neighbour](payload)
        ring = self._ring
        while True:
            sample = ring.try_recv()
            if sample is None:
                if time.monotonic() >= deadline:
                    return
                self._deadline = deadline
                sample = ring.recv()
                self._deadline = math.inf
            sender = self._senders.get(str(sample.key_expr))
            if sender is None or deliver(sender, sample.payload.to_bytes()):
                return

    def present(self) -> frozenset[int]:
        return self._present

    def wake(self) -> None:
        with contextlib.suppress(require("zenoh", "agents").ZError):  # closed in the meantime
            if not self._closed.is_set():
                self._call()

    def close(self) -> None:
        self._closed.set()
        session, self._session = self._session, None
        if session is not None:
            session.close()
            self._kept.clear()
            self._publishers.clear()
            self._present = frozenset()
