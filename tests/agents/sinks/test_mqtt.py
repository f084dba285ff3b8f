"""Answers at a real broker: retained, with a last will, found by Home Assistant, and cheap while it is away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.mosquitto import Client, Mosquitto, needs_mosquitto
from tests.support.waiting import PATIENCE, until

from gossamer.agents.config.urls import Place
from gossamer.agents.sinks.conformance import check_sink
from gossamer.agents.sinks.mqtt import MqttSink
from gossamer.agents.sinks.publishing import Publisher

pytestmark = needs_mosquitto

DEVICE = {"identifiers": list, "name": str, "manufacturer": str, "model": str, "sw_version": str}
ORIGIN = {"name": str, "sw_version": str}
ENTITY = {
    "name": str,
    "unique_id": str,
    "state_topic": str,
    "value_template": str,
    "availability_topic": str,
    "expire_after": int,
    "entity_category": str,
    "device": dict,
    "origin": dict,
}
SCHEMA: dict[str, dict[str, type]] = {
    "sensor": {**ENTITY, "unit_of_measurement": str, "device_class": str, "state_class": str},
    "binary_sensor": ENTITY,
}
"""Keys that are used here, and their types, as in Home Assistant's pages "MQTT sensor" and "MQTT binary sensor"."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


def test_it_conforms_and_says_when_it_ends(broker: Mosquitto) -> None:
    publisher = Publisher(broker.address("").rstrip("/"), Place(name="pump", fleet="plant"))
    with Client(broker.port) as client:
        client.subscribe("gossamer/#")

        def received() -> list[dict[str, Any]]:
            return [json.loads(m.payload) for m in client.messages if m.topic == "gossamer/plant/pump"]

        check_sink(publisher._sink, received)

        def said() -> list[bytes]:
            return [m.payload for m in client.messages if m.topic.endswith("/status")]

        until(lambda: len(said()) > 1, "its end")
        assert said() == [b"online", b"offline"]
    kept = broker.retained("gossamer/#")
    assert kept["gossamer/plant/pump/status"] == "offline"
    assert json.loads(kept["gossamer/plant/pump"])["age"] == 8


def test_home_assistant_finds_it(broker: Mosquitto) -> None:
    address = broker.address("t?discovery=homeassistant&unit=%C2%B0C&device_class=temperature&interval=20s")
    publisher = Publisher(address, Place(3, name="pump", fleet="plant one"))  # a model of 2 covariates
    publisher.open()
    publisher.offer({"settled": True, "estimate": [1, 2]}, 0.0)
    until(lambda: "t" in broker.retained("t"), "an answer")
    publisher.close(PATIENCE)
    found = {topic: json.loads(text) for topic, text in broker.retained("homeassistant/#").items()}
    node = "gossamer_plant_one_pump"
    assert {topic.split("/", 1)[1] for topic in found} == {
        *(f"sensor/{node}/{name}_{k}/config" for name in ("estimate", "standard_error") for k in (0, 1)),
        *(f"sensor/{node}/{name}/config" for name in ("participating", "age", "state")),
        f"binary_sensor/{node}/settled/config",
    }
    assert len({entity["unique_id"] for entity in found.values()}) == len(found)
    for topic, entity in found.items():
        allowed = SCHEMA[topic.split("/")[1]]
        assert {name: type(value) for name, value in entity.items()}.items() <= allowed.items()
        assert {"unique_id", "state_topic", "value_template", "device", "origin"} <= set(entity)
        assert {name: type(value) for name, value in entity["device"].items()} == DEVICE
        assert {name: type(value) for name, value in entity["origin"].items()} == ORIGIN
        assert (entity["state_topic"], entity["availability_topic"]) == ("t", "t/status")
        assert entity["expire_after"] == 60
        assert entity.get("entity_category", "diagnostic") == "diagnostic"
        assert entity.get("state_class", "measurement") in ("measurement", "total", "total_increasing")
    estimate = found[f"homeassistant/sensor/{node}/estimate_1/config"]
    assert estimate["value_template"] == "{{ value_json.estimate[1] }}"
    assert (estimate["unit_of_measurement"], estimate["device_class"]) == ("°C", "temperature")
    assert "entity_category" not in estimate


@pytest.mark.parametrize("version", [3, 5])
def test_an_answer_that_the_broker_refuses_is_told(tmp_path: Path, version: int) -> None:
    (tmp_path / "access").write_text("topic write t/status\n")
    broker = Mosquitto(tmp_path, f"allow_anonymous true\nacl_file {tmp_path}/access")
    publisher = Publisher(broker.address(f"t?version={version}"), Place())
    try:
        publisher.open()
        publisher.offer({"settled": True}, 0.0)
        sink = publisher._sink
        assert isinstance(sink, MqttSink)
        if version == 5:
            until(lambda: "refuses a message (Not authorized)" in publisher.failing, "a refusal")
        else:  # this version cannot say so; Mosquitto closes the connection
            until(lambda: "may publish what it is not allowed to" in sink._broker.failing, "a suspicion")
    finally:
        publisher.close(PATIENCE)
        broker.stop()


@pytest.mark.slow
def test_a_killed_agent_is_offline_and_a_lost_broker_costs_nothing(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    program = f"""
import time
from gossamer.agents.config.urls import Place
from gossamer.agents.sinks.publishing import Publisher
publisher = Publisher({broker.address("k")!r}, Place())
publisher.open()
publisher.offer({{"settled": True}}, 0.0)
time.sleep(600)
"""
    killed = subprocess.Popen([sys.executable, "-c", program])
    try:
        until(lambda: broker.retained("k/#").get("k/status") == "online", "an agent online")
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        until(lambda: broker.retained("k/#").get("k/status") == "offline", "the last will")
        publisher = Publisher(broker.address("b"), Place())
        sink = publisher._sink
        assert isinstance(sink, MqttSink)
        publisher.open()
        publisher.offer({"settled": True, "k": 0}, 0.0)
        until(lambda: "b" in broker.retained("b"), "an answer")
        broker.stop()
        until(lambda: sink._broker.failing, "a broker that is away")
        for k in range(1, 361):  # an hour of answers
            publisher.offer({"settled": True, "k": k}, 10.0 * k)
        until(lambda: "is away" in publisher.failing, "a failure that is told")
        assert sink._client is not None
        assert len(sink._client._out_messages) + len(sink._client._out_packet) <= 3
        broker.start()
        until(lambda: not sink._broker.failing, "a connection")
        publisher.offer({"settled": True, "k": 361}, 3610.0)
        until(lambda: json.loads(broker.retained("b").get("b", "{}")).get("k") == 361, "the newest answer")
        until(lambda: not publisher.failing, "a sink that works")
        publisher.close(PATIENCE)
    finally:
        killed.kill()
        killed.wait()
        broker.stop()
