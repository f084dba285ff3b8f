"""Answers at an MQTT broker: retained, with a last will, and found by Home Assistant."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gossamer.agents.broker import Broker, check_topic
from gossamer.agents.config.urls import Place, Url
from gossamer.agents.sinks.kinds import Answer, Sink
from gossamer.fingerprint import full_version

if TYPE_CHECKING:
    from paho.mqtt.client import Client

_PATIENCE = 5.0
"""Seconds to wait for a connection, and for the broker's confirmation."""

_WAITING = 100
"""Largest number of messages that wait for the broker."""

_MISSED = 3
"""Number of intervals without an answer after which Home Assistant calls it unavailable."""


class MqttSink(Sink):
    """Publishes retained JSON at an MQTT broker; Home Assistant can discover it.

    The answer is at TOPIC (by default gossamer/FLEET/NAME); TOPIC/status is "online", or "offline" if the agent has
    stopped or its connection is lost. With discovery=homeassistant, that prefix has the configuration of a device.
    """

    def __init__(self, url: Url, owner: Place) -> None:
        super().__init__(url, owner)
        self.topic = url.path or f"gossamer/{owner.fleet}/{owner.name}"
        check_topic(url.kind, self.topic)
        self.status = f"{self.topic}/status"
        self._discovery = url.text_of("discovery", "")
        if self._discovery:
            check_topic(url.kind, self._discovery)
        self._unit = url.text_of("unit", "")
        self._device_class = url.text_of("device_class", "")
        self._interval = url.seconds("interval", "10s", above=0)
        self._broker = Broker(url, owner, role="sink", connected=self._on_connection)
        self._ready = threading.Event()
        self._refusal = ""
        self._parts: tuple[str, ...] = ()  # of an estimate, once there was one: "", or "[0]", "[1]", ...
        self._client: Client | None = None

    def open(self) -> None:
        self._client = client = self._broker.client()
        client.max_queued_messages_set(_WAITING)
        client.on_publish = self._on_publish
        client.will_set(self.status, "offline", qos=1, retain=True)
        self._broker.start()

    def write(self, answer: Answer) -> None:
        self._ready.wait(_PATIENCE)
        if self._broker.failing:
            raise ConnectionError(self._refusal or self._broker.failing)
        estimate = answer.get("estimate")
        parts = tuple(f"[{k}]" for k in range(len(estimate))) if isinstance(estimate, list) else ("",)
        if parts != self._parts:
            self._parts = parts
            self._announce()
        self._publish(self.topic, json.dumps(answer))

    def close(self) -> None:
        if self._client is not None:
            try:
                if not self._broker.failing:
                    self._publish(self.status, "offline")
            finally:
                self._broker.stop()

    def _publish(self, topic: str, content: str) -> None:
        assert self._client is not None
        sent = self._client.publish(topic, content, qos=1, retain=True)
        sent.wait_for_publish(_PATIENCE)
        refusal, self._refusal = self._refusal, ""
        if refusal or not sent.is_published():
            raise ConnectionError(refusal or f"the broker {self._broker.name} did not confirm an answer")

    def _on_publish(self, client: Client, data: object, packet: int, reason: Any, properties: object) -> None:
        if reason.is_failure:  # which only MQTT 5 can say
            self._refusal = f"the broker {self._broker.name} refuses a message ({reason})"

    def _on_connection(self, session_present: bool) -> None:
        """Say what there is, in the client's thread; also after a restart of a broker that has forgotten it."""
        assert self._client is not None
        self._announce()
        self._client.publish(self.status, "online", qos=1, retain=True)
        self._broker.works()
        self._ready.set()

    def _announce(self) -> None:
        """Tell Home Assistant what there is; how many numbers an estimate has is known from the first one."""
        assert self._client is not None
        for topic, content in self.configurations() if self._discovery and self._parts else ():
            self._client.publish(topic, json.dumps(content), qos=1, retain=True)

    def configurations(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Topics and contents of Home Assistant's discovery, one per entity."""
        owner = self.place
        node = re.sub(r"[^A-Za-z0-9_-]+", "_", f"gossamer_{owner.fleet}_{owner.name}")
        common = {
            "state_topic": self.topic,
            "availability_topic": self.status,
            "expire_after": max(round(_MISSED * self._interval), 1),
            "device": {
                "identifiers": [node],
                "name": f"{owner.fleet} {owner.name}",
                "manufacturer": "Gossamer",
                "model": "agent",
                "sw_version": full_version(),
            },
            "origin": {"name": "Gossamer", "sw_version": full_version()},
        }
        measured: dict[str, Any] = {"state_class": "measurement"}
        if self._unit:
            measured["unit_of_measurement"] = self._unit
        quantity = measured | ({"device_class": self._device_class} if self._device_class else {})
        entities: list[tuple[str, str, str, dict[str, Any]]] = []
        for part in self._parts:
            entities += [
                ("sensor", f"estimate{part}", f"value_json.estimate{part}", quantity),
                ("sensor", f"standard error{part}", f"value_json.standard_error{part}", measured),
            ]
        entities += [
            ("binary_sensor", "settled", "'ON' if value_json.settled else 'OFF'", {}),
            ("sensor", "participating", "value_json.participating", {"state_class": "measurement"}),
            (
                "sensor",
                "age",
                "value_json.age",
                {"state_class": "total_increasing", "unit_of_measurement": "rounds"},
            ),
            ("sensor", "state", "value_json.state", {}),
        ]
        for component, name, template, more in entities:
            key = re.sub(r"\W+", "_", name).strip("_")
            diagnostic = {} if name.startswith("estimate") else {"entity_category": "diagnostic"}
            yield (
                f"{self._discovery}/{component}/{node}/{key}/config",
                {
                    "name": name.capitalize(),
                    "unique_id": f"{node}_{key}",
                    "value_template": f"{{{{ {template} }}}}",
                    **more,
                    **diagnostic,
                    **common,
                },
            )
