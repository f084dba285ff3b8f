"""Connections through a broker or router that forgets, repeats, lies and goes away."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.memory_fleet import enter, leave
from tests.support.mosquitto import Mosquitto
from tests.support.small_fleets import fleet, hidden, make_certificates
from tests.support.waiting import PATIENCE, until, until_true
from tests.support.zenoh_router import MIDDLES, ZenohRouter

from gossamer.agents.agent import Agent
from gossamer.agents.transports import calling
from gossamer.agents.transports.faulty import Faulty
from gossamer.agents.transports.relay import _HEADER
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
            publish("site/gossamer/0/7", _HEADER.pack(b"stranger", 0) + b"\x16")
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
    tmp_path: Path, broker: Middle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker forgets what nobody subscribes to, so the neighbor announces itself."""
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


def test_an_agent_whose_router_is_away_stops(tmp_path: Path) -> None:
    pytest.importorskip("zenoh")
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "ca", 2))
    end = TlsTransport(hidden(settings, (0, 1), "zenoh://127.0.0.1:9")[0])
    end.open()
    until(lambda: "the router 127.0.0.1:9" in str(end._connector._relay._carrier.failing), "a word")
    end.close()
