"""Agents over Eclipse Zenoh: peer to peer, mutual TLS, access control by certificate name.

An agent listens on its own endpoint; of two neighbors the one with the larger number connects, and keeps
trying. Agent i publishes to j on <fleet>/<j>/<i> and announces itself by the token <fleet>/alive/<i>.
Scouting is off, so nobody connects to anyone but the neighbors in the settings.

With TLS each end checks the other's certificate against the fleet's authority, and access control (deny
unless allowed) ties every key to the common name it belongs to: agent j may put only on <fleet>/<me>/<j>
and hold only the token <fleet>/alive/<j>. So a valid agent that is not a neighbor is not heard, and no agent
can impersonate another.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from gossamer.agents.round.inboxes import Inboxes
from gossamer.agents.round.rings import Rings
from gossamer.agents.settings import AgentSettings, Neighbor
from gossamer.errors import GossamerError, InvalidInput, require

log = logging.getLogger("gossamer.agents")

_STALL_MICROSECONDS = 1_000_000
"""A neighbor that accepts nothing for this long is disconnected; it reconnects when it is back."""

_OPEN_MILLISECONDS = 2_000
"""A connection attempt that takes this long is given up and tried again; closing waits for it, too."""

_WAITING = 64
"""How many messages from one neighbor may wait in a ring; a round uses only the newest."""

_NAP = 0.02
"""Most seconds between two checks on a waiting exchange, while waits have recently been long."""

_CALM = 50
"""Checks in a row that found no long wait, after which checks are four times rarer."""

_SLOW = 0.01
"""Seconds. An agent with at least this pace saves processor time between rounds, a faster one saves it in them."""

RUNTIME = (
    "(rx: (worker_threads: 1), "
    + ", ".join(f"{s}: (handover: rx)" for s in ("tx", "acc", "net", "app"))
    + ")"
)
"""Zenoh's own threads: one for everything. An agent's traffic never fills one, and switching between its usual five
costs a quarter of a round. The environment variable ZENOH_RUNTIME overrides this."""


def configuration(settings: AgentSettings) -> dict[str, Any]:
    """Zenoh's configuration for one agent, as the JSON that `zenoh.Config.from_json5` reads."""
    protocol = "tls" if settings.tls else "tcp"
    if not settings.endpoint:
        raise InvalidInput("endpoint must be host:port for Zenoh to listen on, got an empty one")
    unreachable = [n.id for n in settings.neighbors if n.id < settings.id and not n.endpoint]
    if unreachable:
        raise InvalidInput(
            f"neighbors must have an endpoint if their number is below {settings.id}, because agent {settings.id} "
            f"connects to them, but {unreachable} have none"
        )
    link: dict[str, Any] = {"tx": {"lease": lease_milliseconds(settings), "keep_alive": 4}}
    link["tx"]["queue"] = {"congestion_control": {"block": {"wait_before_close": _STALL_MICROSECONDS}}}
    config: dict[str, Any] = {
        "mode": "peer",
        "listen": {"endpoints": [f"{protocol}/{settings.endpoint}"]},
        "connect": {
            "endpoints": [f"{protocol}/{n.endpoint}" for n in settings.neighbors if n.id < settings.id],
            "timeout_ms": -1,
            "exit_on_failure": False,
            "retry": {"period_init_ms": 100, "period_max_ms": 500, "period_increase_factor": 2},
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "transport": {
            "unicast": {"open_timeout": _OPEN_MILLISECONDS, "accept_timeout": _OPEN_MILLISECONDS},
            "shared_memory": {"enabled": False},
            "link": link,
        },
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
    """How long a connection may be silent before Zenoh drops it: well before the neighbor counts as dead."""
    return int(1000 * min(10.0, max(1.0, settings.dead_after / 2)))


def access_control(settings: AgentSettings) -> dict[str, Any]:
    """Deny everything but what each neighbor, known by its certificate's name, needs."""
    rules, subjects, policies = [], [], []
    for n in settings.neighbors:
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


def inbox_key(settings: AgentSettings, neighbor: Neighbor) -> str:
    """Where this agent hears the neighbor."""
    return f"{settings.fleet}/{settings.id}/{neighbor.id}"


def outbox_key(settings: AgentSettings, neighbor: Neighbor) -> str:
    """Where the neighbor hears this agent."""
    return f"{settings.fleet}/{neighbor.id}/{settings.id}"


def token_key(settings: AgentSettings, agent: int) -> str:
    """The token by which an agent announces itself."""
    return f"{settings.fleet}/alive/{agent}"


class ZenohTransport:
    """One agent's end of a Zenoh network, as its settings say.

    An agent with a pace sleeps until a message comes (`Inboxes`); one that runs as fast as its neighbors answer reads
    from Zenoh's rings (`Rings`). Either serves at any pace: it is a matter of cost.
    """

    def __init__(self, settings: AgentSettings) -> None:
        self._receiver = Inboxes() if (settings.pace or 0.0) >= _SLOW else Rings()
        # Bound, not wrapped: a call more in every round would cost time.
        self.exchange, self.present, self.wake = (
            self._receiver.exchange,
            self._receiver.present,
            self._receiver.wake,
        )
        self.settings = settings
        self._config = configuration(settings)
        self._session: Any = None
        self._kept: list[Any] = []
        self._closed = threading.Event()
        self._tokens = threading.Lock()

    def open(self) -> None:
        os.environ.setdefault("ZENOH_RUNTIME", RUNTIME)  # read when the first session of the process opens
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
                f"agent {settings.id} cannot listen on {settings.endpoint} ({_cause(error)}); "
                "the port must be free, the address this machine's, and the certificates readable"
            ) from error
        # The subscribers first, the token last: a neighbor that sees the token can be sure to be heard.
        self._receiver.message = zenoh.SampleKind.PUT
        for n in settings.neighbors:
            publisher = session.declare_publisher(
                outbox_key(settings, n),
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
            )
            self._kept += [publisher, self._subscribe(zenoh, n, publisher.put)]
        for n in settings.neighbors:
            notice = partial(self._notice, n.id)
            token = token_key(settings, n.id)
            self._kept.append(session.liveliness().declare_subscriber(token, notice, history=True))
        self._kept.append(session.liveliness().declare_token(token_key(settings, settings.id)))
        if isinstance(self._receiver, Rings):
            watch = partial(self._watch, self._receiver)
            threading.Thread(target=watch, name=f"watch-{settings.id}", daemon=True).start()

    def _subscribe(self, zenoh: Any, neighbor: Neighbor, put: Callable[[bytes], None]) -> Any:
        """Hear a neighbor, in the way of this agent."""
        receiver, session, key = self._receiver, self._session, inbox_key(self.settings, neighbor)
        if isinstance(receiver, Inboxes):
            # In Zenoh's own thread: a thread in between would cost every message two switches.
            arrive = zenoh.handlers.Callback(receiver.add(neighbor.id, put), indirect=False)
            return session.declare_subscriber(key, arrive)
        ring = session.declare_subscriber(key, zenoh.handlers.RingChannel(_WAITING))
        nudge = partial(session.delete, key, allowed_destination=zenoh.Locality.SESSION_LOCAL)
        receiver.add(neighbor.id, put, ring, nudge)
        return ring

    def _notice(self, neighbor: int, sample: Any) -> None:
        receiver = self._receiver
        here = sample.kind == receiver.message
        with self._tokens:  # each neighbor is noticed by a thread of its own
            connected = receiver.connected
            receiver.connected = connected | {neighbor} if here else connected - {neighbor}
        log.info(
            "agent %d: neighbor %d %s", self.settings.id, neighbor, "connected" if here else "disconnected"
        )
        self.wake()

    def _watch(self, rings: Rings) -> None:
        """Nudge an exchange that waits long; checks often enough for the shortest wait of a round."""
        pause = min(_NAP, max(0.001, self.settings.timeout / 16))
        calm = 0
        while not self._closed.wait(pause if calm < _CALM else 4 * pause):
            calm = 0 if rings.nudge_if_long() else calm + 1

    def close(self) -> None:
        self._closed.set()
        session, self._session = self._session, None
        if session is not None:
            session.close()
            self._kept.clear()
            self._receiver.clear()


def _cause(error: Exception) -> str:
    """What Zenoh says went wrong, without where in its source."""
    return re.sub(r"\s+at \S+\.rs:\d+\.?", "", str(error)).strip()
