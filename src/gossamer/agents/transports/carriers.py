"""Carriers of packets between two agents that both cannot be reached: an MQTT broker or a Zenoh router."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from gossamer.agents.broker import Broker
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.config.urls import Place, Url
from gossamer.errors import InvalidInput, require

_UNSENT = 1000
"""Largest number of packets that the client of a broker has not sent yet; further ones are refused."""

_ZENOH_PORT = 7447
_LOOK = 0.5
"""Seconds between two checks that a Zenoh router is connected."""

Receive = Callable[[str, bytes], None]
"""Called with the last part of a topic and a packet, in a thread of the carrier."""


class Carrier(Protocol):
    """Sends packets to topics TO/FROM below a topic that the fleet shares."""

    @property
    def failing(self) -> str:
        """Why packets cannot be sent; empty if they can."""

    def open(self) -> None:
        """Start to connect, and reconnect, in the background; packets for this agent are received from then on."""

    def send(self, topic: str, packet: bytes) -> bool:
        """Send a packet; return False if it was not accepted. An accepted packet may still be lost."""

    def close(self) -> None: ...


def carrier_of(settings: AgentSettings, receive: Receive, renewed: Callable[[], None]) -> Carrier:
    """Return the carrier named in [transport].

    It calls `renewed` whenever it has connected and receives packets, because earlier ones may have been lost.
    """
    url = Url(settings.broker)
    if url.kind in ("mqtt", "mqtts"):
        return _MqttCarrier(settings, url, receive, renewed)
    if url.kind == "zenoh" and url.host:
        return _ZenohCarrier(settings, url, receive, renewed)
    raise InvalidInput(
        parameter="broker",
        required="mqtt[s]://[USER@]HOST[:PORT][/PREFIX] or zenoh://HOST[:PORT][/PREFIX]",
        got=repr(settings.broker),
    )


class _Client:
    """What the client of a broker or router is given: its topics, the agent's own number, and whom to call."""

    def __init__(
        self, settings: AgentSettings, url: Url, receive: Receive, renewed: Callable[[], None]
    ) -> None:
        self._topic = f"{url.path or 'gossamer'}/{settings.fleet}"
        self._me = settings.id
        self._directory = settings.tls.authority.parent if settings.tls else Path()
        self._receive, self._renewed = receive, renewed


class _MqttCarrier(_Client):
    def __init__(
        self, settings: AgentSettings, url: Url, receive: Receive, renewed: Callable[[], None]
    ) -> None:
        super().__init__(settings, url, receive, renewed)
        owner = Place(name=str(settings.label), fleet=settings.fleet, directory=self._directory)
        self._broker = Broker(url, owner, role="relay", connected=self._on_connection)
        url.finish()
        self._unsent: deque[Any] = deque()
        self._client: Any = None

    @property
    def failing(self) -> str:
        return self._broker.failing

    def open(self) -> None:
        self._client = self._broker.client()
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscription
        self._broker.start()

    def send(self, topic: str, packet: bytes) -> bool:
        with suppress(IndexError):  # the queue is empty, or a new connection cleared it
            while self._unsent[0].rc or self._unsent[0].is_published():  # lost with a connection, or sent
                self._unsent.popleft()
        if len(self._unsent) >= _UNSENT or self._broker.failing:
            return False
        sent = self._client.publish(f"{self._topic}/{topic}", packet)
        if sent.rc:  # the connection is lost, which is not reported yet; is_published() would raise
            return False
        self._unsent.append(sent)
        return True

    def close(self) -> None:
        self._broker.stop()

    def _on_connection(self, session_present: bool) -> None:
        self._unsent.clear()
        self._client.subscribe(f"{self._topic}/{self._me}/+")

    def _on_subscription(
        self, client: object, data: object, packet: int, reasons: list[Any], properties: object
    ) -> None:
        if any(reason.is_failure for reason in reasons):
            self._broker.fail(f"refuses the subscription to {self._topic}/{self._me}/+")
            return
        self._broker.works()
        self._renewed()

    def _on_message(self, client: object, data: object, message: Any) -> None:
        self._receive(message.topic.rpartition("/")[2], bytes(message.payload))


class _ZenohCarrier(_Client):
    """A client of a Zenoh router. `config=FILE` in its address names a configuration file, for TLS or a user."""

    def __init__(
        self, settings: AgentSettings, url: Url, receive: Receive, renewed: Callable[[], None]
    ) -> None:
        super().__init__(settings, url, receive, renewed)
        file = url.text_of("config", "")
        url.finish()
        self._zenoh = require("zenoh", "zenoh")
        self._name = f"{url.host}:{url.port or _ZENOH_PORT}"
        config = self._zenoh.Config.from_file(str(self._directory / file)) if file else self._zenoh.Config()
        for key, value in {
            "mode": "client",
            "connect/endpoints": [f"tcp/{self._name}"],
            "connect/timeout_ms": 1000,
            "scouting/multicast/enabled": False,
        }.items():
            if not file or key != "connect/endpoints":
                config.insert_json5(key, json.dumps(value))
        self._config = config
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"zenoh-{self._me}", daemon=True)
        self._session: Any = None
        self._sending = threading.Lock()  # a session cannot be closed while another thread uses it
        self.failing = f"the router {self._name} is not connected yet"

    def open(self) -> None:
        self._thread.start()

    def send(self, topic: str, packet: bytes) -> bool:
        wait = self._zenoh.CongestionControl.BLOCK
        with self._sending:
            if self.failing:
                return False
            try:
                self._session.put(f"{self._topic}/{topic}", packet, congestion_control=wait, express=True)
            except self._zenoh.ZError:  # the session has been closed
                return False
        return True

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        """Keep a session open, and poll whether it has a router, because it does not report a lost one."""
        while not self._closed.is_set():
            try:
                with self._zenoh.open(self._config) as self._session:
                    try:
                        self._session.declare_subscriber(f"{self._topic}/{self._me}/*", self._on_sample)
                        self.failing = ""
                        self._renewed()
                        while self._session.info.routers_zid() and not self._closed.wait(_LOOK):
                            pass
                    finally:
                        with self._sending:
                            self.failing = f"the router {self._name} is away"
            except self._zenoh.ZError as error:
                self.failing = f"the router {self._name} is away: {str(error).partition(' at /')[0]}"
                self._closed.wait(_LOOK)

    def _on_sample(self, sample: Any) -> None:
        self._receive(str(sample.key_expr).rpartition("/")[2], bytes(sample.payload))
