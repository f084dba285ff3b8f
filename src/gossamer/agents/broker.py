"""Connections of sources, sinks and relays to an MQTT broker: addresses, TLS, users, and errors while it is offline."""

from __future__ import annotations

import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gossamer.agents.config.urls import Place, Url
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    from paho.mqtt.client import Client

log = logging.getLogger("gossamer.agents.broker")

_KEEPALIVE = 15
"""Seconds of silence after which a connection is tested; a broker that vanished is noticed after about twice that."""

_TOPIC, _FILTER = r"[^+#\0]+", r"((\+|[^+#/\0]*)/)*(\+|#|[^+#/\0]*)"
"""What a topic must look like, and with wildcards."""

_FIRST_RETRY, _LAST_RETRY = 1, 30
"""Seconds between two attempts to connect: they double from the first to the last."""


class Broker:
    """A client of one broker, which connects, and reconnects, in its own thread.

    Parameters
    ----------
    url, owner : Url, Place
        An address mqtt://[USER@]HOST[:PORT]/... or mqtts://..., with the options client_id, version (5 or 3), session
        (how long the broker keeps the session of a disconnected client; 0 for none), password_file, ca, cert and key.
    role : str
        Distinguishes the clients of an agent.
    session : str
        The default of `session`.
    connected : callable
        Called in the client's thread with whether the broker still has the session, when a connection is made.
    says : callable
        Called with `failing` when it changes.

    Attributes
    ----------
    failing : str
        Why there is no connection; empty if there is one.
    """

    def __init__(
        self,
        url: Url,
        owner: Place,
        *,
        role: str,
        session: str = "0",
        connected: Callable[[bool], None] = lambda present: None,
        says: Callable[[str], None] = lambda failing: None,
    ) -> None:
        if not url.host:
            raise InvalidInput(f"{url.kind}: needs the host of a broker, got {url.text!r}")
        self.secure = url.kind == "mqtts"
        self.host, self.port = url.host, url.port or (8883 if self.secure else 1883)
        self.client_id = url.text_of("client_id", f"gossamer-{owner.fleet}-{owner.name}-{role}")
        self.version = int(url.text_of("version", "5", choices=("3", "5")))
        self.session = int(url.seconds("session", session))
        self.user = url.user
        self.failing = f"the broker {self.name} is not connected yet"
        self._owner = owner
        self._connected = connected
        self._says = says
        self._password_file = url.text_of("password_file", "")
        self._certificates = {name: url.text_of(name, "") for name in ("ca", "cert", "key")}
        if not self.secure and any(self._certificates.values()):
            raise InvalidInput(f"ca, cert and key are for mqtts://, got {url.text!r}")
        if bool(self._certificates["cert"]) != bool(self._certificates["key"]):
            raise InvalidInput(f"cert and key must be given together, got {url.text!r}")
        if self._password_file and not self.user:
            raise InvalidInput(f"password_file needs a user, as in {url.kind}://USER@HOST, got {url.text!r}")
        self._client: Client | None = None
        self._since = 0.0  # when the connection was made
        self._answered = False  # whether the broker has accepted or refused it

    @property
    def name(self) -> str:
        """Its address, for messages."""
        return f"{self.host}:{self.port}"

    def client(self, **options: Any) -> Client:
        """Make the client; raises if the package, a file or a password is missing. `start` connects it."""
        mqtt = require("paho.mqtt.client", "mqtt")
        five, keeps = self.version == 5, self.session > 0
        client: Client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=self.client_id,
            clean_session=None if five else not keeps,
            protocol=mqtt.MQTTv5 if five else mqtt.MQTTv311,
            **options,
        )
        self._client = client
        if self.user:
            password = self._owner.secret(self._password_file) if self._password_file else None
            client.username_pw_set(self.user, password)
        if self.secure:
            client.tls_set_context(self._owner.tls("mqtts", **self._certificates))
        client.reconnect_delay_set(_FIRST_RETRY, _LAST_RETRY)
        client.connect_timeout = 3.0
        client.on_socket_open = self._on_socket_open
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        return client

    def start(self, *, receive_maximum: int = 0) -> None:
        """Connect, in the client's thread; returns at once."""
        assert self._client is not None
        options: dict[str, Any] = {}
        if self.version == 5:
            properties = require("paho.mqtt.properties", "mqtt").Properties(
                require("paho.mqtt.packettypes", "mqtt").PacketTypes.CONNECT
            )
            properties.SessionExpiryInterval = self.session
            if receive_maximum:
                properties.ReceiveMaximum = receive_maximum
            options = {"clean_start": not self.session, "properties": properties}
        self._client.connect_async(self.host, self.port, _KEEPALIVE, **options)
        self._client.loop_start()

    def stop(self, seconds: float = 1.0) -> None:
        """Disconnect; wait at most `seconds` for the thread."""
        client = self._client
        if client is not None:
            client.on_disconnect = None
            client.disconnect()
            ending = threading.Thread(target=client.loop_stop, daemon=True)
            ending.start()
            ending.join(seconds)

    def fail(self, why: str) -> None:
        """Note why nothing can be received or sent."""
        text = f"the broker {self.name} {why}"
        if text != self.failing:
            log.warning("%s", text)
        self.failing = text
        self._says(text)

    def works(self) -> None:
        """Note that everything is well."""
        if self.failing:
            log.info("the broker %s is connected", self.name)
        self.failing = ""
        self._says("")

    def _on_socket_open(self, client: Client, data: object, connection: Any) -> None:
        self._answered = False
        with suppress(OSError):  # do not wait for more to send: a small packet would take 40 ms
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _on_connect(self, client: Client, data: object, flags: Any, reason: Any, properties: object) -> None:
        self._answered = True
        if reason.is_failure:
            self.fail(f"refuses this client ({reason})")
        else:
            self._since = time.monotonic()
            self._connected(bool(flags.session_present))

    def _on_connect_fail(self, client: Client, data: object) -> None:
        error = sys.exception()  # paho calls this while it handles the error, which it does not pass on
        why = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or error or "no answer"
        self.fail(f"is away: it cannot be reached ({why})")

    def _on_disconnect(
        self, client: Client, data: object, flags: Any, reason: Any, properties: object
    ) -> None:
        if not self._answered:
            self.fail(
                f"is away: it closed the connection before it answered ({reason}); it may need TLS (mqtts://), a "
                "certificate of the client (cert and key), or version=3"
            )
        if self.failing:  # it is known why
            return
        hint = ""
        if time.monotonic() - self._since < _KEEPALIVE:
            hint = (
                f" soon after it was made; another client may use the client_id {self.client_id}, or this one may "
                "publish what it is not allowed to"
            )
        self.fail(f"is away: it closed the connection ({reason}){hint}")


def check_topic(kind: str, topic: str, *, wildcards: bool = False) -> None:
    """Raise for a topic that no broker accepts."""
    if not re.fullmatch(_FILTER if wildcards else _TOPIC, topic):
        form = "in which + and #, the last one, may stand for levels" if wildcards else "without + and #"
        raise InvalidInput(f"{kind}: needs a topic {form}, got {topic!r}")
