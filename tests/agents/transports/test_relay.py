"""Connections through a broker or router that forgets, repeats, lies and goes away."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.memory_fleet import enter, leave
from tests.support.mosquitto import Mosquitto, needs_mosquitto
from tests.support.small_fleets import fleet, hidden, make_certificates
from tests.support.waiting import PATIENCE, until, until_true
from tests.support.zenoh_router import MIDDLES, ZenohRouter

from gossamer.agents.agent import Agent
from gossamer.agents.transports import calling
from gossamer.agents.transports import relay as relays
from gossamer.agents.transports.carriers import _UNSENT
from gossamer.agents.transports.faulty import Faulty
from gossamer.agents.transports.relay import _HEADER, Relay
from gossamer.agents.transports.tls import TlsTransport
from gossamer.errors import InvalidInput
from gossamer.faults import Faults, Loss
from gossamer.methods import AnytimeSDA
from gossamer.networks import Network

Middle = Mosquitto | ZenohRouter

SECRET = b"the temperature of the reactor"


class Pair:
    """Two agents behind a broker that exchange numbered messages all the time."""

    def __init__(self, folder: Path, broker: Middle) -> None:
        settings = fleet(Network.path(2), certificates=make_certificates(folder / "ca", 2))
        self.ends = [TlsTransport(s) for s in hidden(settings, (0, 1), broker.address("site"))]
        self.heard: list[list[bytes]] = [[], []]
        self._stop = threading.Event()
        for end in self.ends:
            end.open()
        self._threads = [threading.Thread(target=self._talk, args=(i,)) for i in range(2)]
        for thread in self._threads:
            thread.start()

    def _talk(self, i: int) -> None:
        k = 0
        while not self._stop.is_set():
            k += 1
            text = SECRET + f" {i} {k}".encode()

            def deliver(sender: int, payload: bytes) -> bool:
                assert sender == 1 - i
                self.heard[i].append(payload)
                return False

            self.ends[i].exchange(0, {1 - i: text}, time.monotonic() + 0.01, deliver)

    def hears_more(self, what: str) -> None:
        before = [len(heard) for heard in self.heard]
        until(lambda: all(len(h) > b + 3 for h, b in zip(self.heard, before, strict=True)), what)

    def relays(self) -> list[Relay]:
        return [relay for end in self.ends if (relay := end._connector._relay) is not None]

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        for end in self.ends:
            end.close()

    def check(self) -> None:
        """Every message is one that the neighbor sent, in its order, and none came twice."""
        for i, heard in enumerate(self.heard):
            numbers = [int(text.split()[-1]) for text in heard]
            assert all(text.startswith(SECRET + f" {1 - i} ".encode()) for text in heard)
            assert numbers == sorted(set(numbers))


@pytest.fixture(params=MIDDLES)
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Middle]:
    broker: Middle = request.param(tmp_path)
    yield broker
    broker.stop()


def test_another_client_sees_ciphertext_and_can_only_disturb(tmp_path: Path, broker: Middle) -> None:
    pair = Pair(tmp_path, broker)
    try:
        with broker.stranger("site") as (packets, publish):
            pair.hears_more("messages through the broker")
            until(lambda: len(packets) > 20, "packets")
            seen = list(packets)
            assert {topic for topic, _ in seen} == {"site/gossamer/0/1", "site/gossamer/1/0"}
            assert not any(SECRET in payload for _, payload in seen)
            for topic, payload in seen:  # all of it again
                publish(topic, payload)
            number, k = _HEADER.unpack_from(seen[-1][1])
            for topic in ("site/gossamer/0/1", "site/gossamer/1/0"):
                publish(topic, b"short")
                publish(topic, _HEADER.pack(number, k + 1) + b"forged")
                publish(topic, _HEADER.pack(number, k + 9) + b"a gap")
                for fake in range(100):  # connections in the neighbor's name
                    publish(topic, _HEADER.pack(fake.to_bytes(8, "big"), 0) + b"\x16nonsense")
            for name in ("7", "1" * 5000, "one"):  # not neighbors of this agent
                publish(f"site/gossamer/0/{name}", _HEADER.pack(b"stranger", 0) + b"\x16")
            pair.hears_more("messages after the attack")
    finally:
        pair.close()
    pair.check()


@pytest.mark.slow
def test_a_broker_that_was_restarted_carries_on(tmp_path: Path, broker: Middle) -> None:
    pair = Pair(tmp_path, broker)
    try:
        pair.hears_more("messages through the broker")
        broker.stop()
        until(lambda: not any(end.present() for end in pair.ends), "connections that end")
        broker.start()
        pair.hears_more("messages after a restart")
    finally:
        pair.close()
    pair.check()


def test_an_end_that_was_not_heard_of_is_told_again(tmp_path: Path, broker: Middle) -> None:
    """Or the other end would hold a dead connection for a living one."""
    pair = Pair(tmp_path, broker)
    try:
        pair.hears_more("messages through the broker")
        for end in pair.ends:
            relay = end._connector._relay
            assert relay is not None
            for stream in list(relay._streams.values()):
                relay._end(stream)  # without a word
            pair.hears_more("messages over a new connection")
    finally:
        pair.close()
    pair.check()


def test_who_called_before_the_neighbor_came_calls_again(
    tmp_path: Path, broker: Middle, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker drops packets without a subscriber, so the neighbor announces itself without a warning."""
    caplog.set_level(logging.INFO, "gossamer.agents")
    monkeypatch.setattr(calling, "PATIENCE", 3600.0)
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    first, second = (TlsTransport(s) for s in hidden(settings, (0, 1), broker.address("site")))
    second.open()
    relay = second._connector._relay
    assert relay is not None
    until(lambda: any(stream.sent for stream in list(relay._streams.values())), "a call")
    first.open()
    until(lambda: first.present() and second.present(), "a connection")
    first.close()
    second.close()
    assert "cannot connect to agent0 at tls/the broker: the connection ended" in caplog.messages
    assert not [r for r in caplog.records if r.levelno > logging.INFO and "cannot connect" in r.message]


def test_what_was_sent_before_an_end_closed_arrives(tmp_path: Path, broker: Middle) -> None:
    """The relay sends what is still in its sockets, and tells the other end that the connection has ended."""
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    first, second = (TlsTransport(s) for s in hidden(settings, (0, 1), broker.address("site")))
    first.open()
    second.open()
    until(lambda: first.present() and second.present(), "a connection")
    relay = first._connector._relay
    assert relay is not None
    send, gate = relay._carrier.send, threading.Event()

    def send_later(topic: str, packet: bytes) -> bool:
        gate.wait(PATIENCE)
        return send(topic, packet)

    relay._carrier.send = send_later  # type: ignore[method-assign]
    texts = [f"message {k}".encode() for k in range(5)]
    for text in texts:
        first.exchange(0, {1: text}, 0.0, lambda sender, payload: False)
    closing = threading.Thread(target=first.close)
    closing.start()
    until(lambda: relay._closed, "the end")
    gate.set()
    heard: list[bytes] = []

    def deliver(sender: int, payload: bytes) -> bool:
        heard.append(payload)
        return False

    def nothing_more() -> bool:
        second.exchange(0, {}, time.monotonic() + 0.01, deliver)
        return not second.present()

    until(nothing_more, "a lost connection")
    closing.join(PATIENCE)
    second.close()
    assert heard == texts


def test_a_dropped_packet_ends_a_connection_which_is_made_again(tmp_path: Path, broker: Middle) -> None:
    pair = Pair(tmp_path, broker)
    try:
        for relay in pair.relays():
            pair.hears_more("messages through the broker")
            before, send = set(relay._streams), relay._carrier.send
            dropped: list[bytes] = []

            def drop_one(topic: str, packet: bytes, send=send, dropped=dropped) -> bool:
                if dropped or len(packet) == _HEADER.size:
                    return bool(send(topic, packet))
                dropped.append(packet)
                return True

            relay._carrier.send = drop_one  # type: ignore[method-assign]
            until(lambda gone=before, r=relay: not gone & set(r._streams), "the end of the connection")
            pair.hears_more("messages over a new connection")
            assert dropped
    finally:
        pair.close()
    pair.check()


@needs_mosquitto
def test_who_takes_the_place_of_an_agent_at_the_broker_drops_its_packets_and_no_more(tmp_path: Path) -> None:
    """Another client with the client identifier of the agent: the broker ends the agent's connection, and its packets
    go to the other one, until the agent connects again."""
    from paho.mqtt import client as mqtt

    broker = Mosquitto(tmp_path)
    pair = Pair(tmp_path, broker)
    try:
        pair.hears_more("messages through the broker")
        before = [set(relay._streams) for relay in pair.relays()]
        other = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=pair.relays()[0]._carrier._broker.client_id
        )
        other.connect("127.0.0.1", broker.port)
        other.loop()
        until(lambda: pair.relays()[0]._carrier.failing, "a lost connection to the broker")
        other.disconnect()
        pair.hears_more("messages over a new connection")
        assert not any(old & set(relay._streams) for old, relay in zip(before, pair.relays(), strict=True))
    finally:
        pair.close()
        broker.stop()
    pair.check()


@needs_mosquitto
def test_packets_lost_with_a_connection_to_the_broker_do_not_stop_an_agent(tmp_path: Path) -> None:
    """A broker stops reading and is killed: packets wait in the client at that moment, and later ones are refused."""
    broker = Mosquitto(tmp_path)
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    carrier = Relay(hidden(settings, (0, 1), broker.address("site"))[0], lambda *_: None)._carrier
    carrier.open()
    try:
        until(lambda: not carrier.failing, "a connection to the broker")
        assert broker._process is not None
        broker._process.send_signal(signal.SIGSTOP)
        sent = 0
        while carrier.send("1/0", bytes(1 << 16)):
            sent += 1
        assert sent >= _UNSENT
        broker._process.kill()
        broker._process.wait(PATIENCE)
        until(lambda: any(packet.rc for packet in carrier._unsent), "packets known to be lost")
        assert not carrier.send("1/0", b"x")
        broker.start()
        until(lambda: carrier.send("1/0", b"x"), "a broker that takes packets again")
    finally:
        carrier.close()
        broker.stop()


def test_a_long_message_waits_until_it_is_read(tmp_path: Path, broker: Middle) -> None:
    """It does not fit into the socket buffers, its reader is busy, and its sender ends the connection."""
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    first, second = (TlsTransport(s) for s in hidden(settings, (0, 1), broker.address("site")))
    first.open()
    second.open()
    until(lambda: first.present() and second.present(), "a connection")
    relay = second._connector._relay
    assert relay is not None
    [stream] = relay._streams.values()
    text = bytes(range(250)) * 4000
    first.exchange(0, {1: text}, time.monotonic() + 0.01, lambda sender, payload: False)

    def nothing_left() -> bool:
        first.exchange(0, {}, time.monotonic() + 0.01, lambda sender, payload: False)
        return not first._connections[1].unsent

    until(nothing_left, "a message that is sent")
    first._lose(first._connections[1])
    until(lambda: stream.finished, "the end of the connection")
    heard: list[bytes] = []

    def deliver(sender: int, payload: bytes) -> bool:
        heard.append(payload)
        return False

    def anything() -> bool:
        second.exchange(0, {}, time.monotonic() + 0.01, deliver)
        return bool(heard)

    until(anything, "the message")
    first.close()
    second.close()
    assert heard == [text]


def test_a_connection_with_as_many_packets_as_can_be_numbered_is_made_again(
    tmp_path: Path, broker: Middle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "_PACKETS", 20)
    pair, seen = Pair(tmp_path, broker), set()
    try:

        def several() -> bool:
            seen.update(number for relay in pair.relays() for _, number in list(relay._streams))
            return len(seen) > 2

        until(several, "new connections")
        pair.hears_more("messages over a new connection")
    finally:
        pair.close()
    pair.check()


def test_a_relay_survives_calls_when_it_is_closed_and_without_descriptors(
    tmp_path: Path, broker: Middle, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    relay = Relay(hidden(settings, (0, 1), broker.address("site"))[0], lambda *_: None)
    relay.neighbors = {"1": 1}
    call = _HEADER.pack(b"a number", 0) + b"\x16"
    relay.open()
    until(lambda: not relay._carrier.failing, "a connection to the broker")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socketpair", _no_descriptors)
        relay._receive("1", call)
    assert not relay._streams
    relay.close()
    relay._receive("1", call)
    with pytest.raises(OSError, match=r"closed|away"):
        relay.dial(1)
    assert not relay._streams


def _no_descriptors() -> None:
    raise OSError(24, "Too many open files")


@pytest.mark.slow
def test_agents_behind_a_broker_agree_although_30_percent_of_messages_are_lost(
    tmp_path: Path, broker: Middle
) -> None:
    network, lost = Network.cycle(4), Faults(Loss(0.3)).bind(seed=1)
    settings = fleet(
        network, certificates=make_certificates(tmp_path / "ca", 4), method=AnytimeSDA("local"), timeout=0.05
    )
    agents = [
        Agent(s, transport=Faulty(TlsTransport(s), s.id, lost))
        for s in hidden(settings, range(4), broker.address("site"))
    ]

    async def run() -> None:
        await enter(agents)
        for i, agent in enumerate(agents):
            agent.observe(float(i))
        await until_true(lambda: all(abs(a.estimate - 1.5) < 1e-9 for a in agents), "the average")
        rates = [n.lost / (n.lost + n.used) for a in agents for n in a.snapshot.neighbors]
        assert min(rates) > 0.1
        await leave(agents)

    asyncio.run(asyncio.wait_for(run(), 2 * PATIENCE))


def test_a_wrong_broker_says_why(tmp_path: Path) -> None:
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    with pytest.raises(InvalidInput, match=r"broker must be mqtt\[s\]://.* or zenoh://.*, got 'http://x'"):
        TlsTransport(hidden(settings, (0, 1), "http://x")[0])


@needs_mosquitto
def test_a_broker_that_refuses_the_subscription_is_reported(tmp_path: Path) -> None:
    """Because its rules do not let this user read the agent's topic."""
    plugins = sorted(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))
    if not plugins:
        pytest.skip("needs mosquitto_dynamic_security.so, which is not installed")
    access = {"publishClientSend": True, "publishClientReceive": True, "subscribe": False}
    rules = {"defaultACLAccess": access, "groups": [{"groupname": "all"}], "anonymousGroup": "all"}
    (tmp_path / "rules").write_text(json.dumps(rules))
    lines = f"allow_anonymous true\nplugin {plugins[0]}\nplugin_opt_config_file {tmp_path}/rules"
    broker = Mosquitto(tmp_path, lines)
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    end = TlsTransport(hidden(settings, (0, 1), broker.address("site"))[0])
    end.open()
    why = f"the broker 127.0.0.1:{broker.port} refuses the subscription to site/gossamer/0/+"
    until(lambda: end._connector._relay._carrier.failing == why, "a word")
    end.close()
    broker.stop()


def test_an_agent_whose_router_is_away_stops(tmp_path: Path) -> None:
    pytest.importorskip("zenoh")
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    end = TlsTransport(hidden(settings, (0, 1), "zenoh://127.0.0.1:9")[0])
    end.open()
    until(lambda: "the router 127.0.0.1:9" in str(end._connector._relay._carrier.failing), "a word")
    end.close()
