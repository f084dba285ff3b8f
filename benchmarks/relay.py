"""Rounds per second of agents in one process, by direct TLS connections, through an MQTT broker and
through a Zenoh router; and processor time, which a loaded machine does not change much: of the process of the
agents per agent and round, and of the broker or router per message.

    python -m benchmarks.relay [AGENTS ...]

How many agents with DEGREE neighbors Mosquitto serves at one round per second:

    python -m benchmarks.relay load DEGREE [AGENTS ...]

This measures the packets of four real agents in a ring. Then it sends such packets for many simulated agents, each with
a connection of its own: at the same time in every second, a message to every neighbor, which answers every other one
as agents answer probes. With two cores, the broker has one and the simulated agents have the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.mosquitto import Mosquitto
from tests.support.small_fleets import fleet, hidden, make_certificates
from tests.support.zenoh_router import ZenohRouter

import gossamer as gs

SECONDS = 5.0
WARMUP, LOADED = 3.0, 15.0
"""Seconds of load before, and during, a measurement."""


def processor_seconds(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(settings: list[gs.AgentSettings], broker: int | None = None) -> dict[str, float]:
    """Rounds per second, milliseconds per agent and round, and microseconds of the process `broker` per message."""
    agents = [gs.Agent(s, source=[float(s.id)]) for s in settings]
    for agent in agents:
        await agent.__aenter__()
    while any(n.state != "alive" for agent in agents for n in agent.snapshot.neighbors):
        await asyncio.sleep(0.05)
    before, started = [agent.snapshot.age for agent in agents], time.monotonic()
    sent, used = sum(agent._conversation.sent for agent in agents), time.process_time()
    carried = processor_seconds(broker) if broker else 0.0
    await asyncio.sleep(SECONDS)
    seconds, used = time.monotonic() - started, time.process_time() - used
    rounds = [agent.snapshot.age - age for agent, age in zip(agents, before, strict=True)]
    sent = sum(agent._conversation.sent for agent in agents) - sent
    carried = processor_seconds(broker) - carried if broker else 0.0
    for agent in agents:
        await agent.__aexit__(None, None, None)
    result = {"rounds/s": sum(rounds) / len(rounds) / seconds, "ms per round": 1e3 * used / sum(rounds)}
    if broker:
        result["broker us per message"] = 1e6 * carried / sent
    return {name: round(value, 3) for name, value in result.items()}


async def real_packets() -> tuple[int, int]:
    """Sizes of the packets that an agent sends to a neighbor in a round of a second: a message, with a probe, and the
    answer to the neighbor's probe. Print them, and the bytes in both directions of its connection to the broker."""
    with tempfile.TemporaryDirectory() as folder:
        certificates, broker = make_certificates(Path(folder) / "ca", 4), Mosquitto(Path(folder))
        direct = fleet(gs.Network.cycle(4), certificates=certificates, pace=1.0, timeout=1.0, replicates=8)
        agents: list[Any] = [gs.Agent(s, source=[1.0]) for s in hidden(direct, range(4), broker.address("g"))]
        for agent in agents:
            await agent.__aenter__()
        while any(n.state != "alive" for agent in agents for n in agent.snapshot.neighbors):
            await asyncio.sleep(0.05)
        sizes: Counter[int] = Counter()
        carriers = [agent._transport._connector._relay._carrier for agent in agents]
        for carrier in carriers:

            def send(topic: str, packet: bytes, send: Any = carrier.send) -> bool:
                sizes[len(packet)] += 1
                return bool(send(topic, packet))

            carrier.send = send
        before, ages = [_bytes_of(c) for c in carriers], sum(agent.snapshot.age for agent in agents)
        await asyncio.sleep(4 * SECONDS)
        after, ages = [_bytes_of(c) for c in carriers], sum(agent.snapshot.age for agent in agents) - ages
        for agent in agents:
            await agent.__aexit__(None, None, None)
        broker.stop()
    sent, received = np.sum(after, 0) - np.sum(before, 0)
    message, answer = (
        max((size for size in sizes if low < size < high), key=sizes.__getitem__)
        for low, high in ((100, 1000), (20, 100))
    )
    result = {"packets": sizes.total(), "bytes sent": sent, "bytes received": received}
    per_round = {name: round(float(value) / (2 * ages), 2) for name, value in result.items()}
    print(json.dumps({"sizes": sizes.most_common(), "per neighbor and round": per_round}), flush=True)
    return message, answer


def _bytes_of(carrier: Any) -> tuple[int, int]:
    """Bytes that have been sent and received on its connection, without the headers of TCP and IP."""
    info = carrier._client.socket().getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    sent, received = struct.unpack_from("<QQ", info, 120)
    return sent, received


def _packet(kind: int, *parts: bytes) -> bytes:
    """An MQTT packet."""
    body, length = b"".join(parts), bytearray()
    rest = len(body)
    while not length or rest:
        length.append(rest % 128 | (128 if rest > 127 else 0))
        rest //= 128
    return bytes([kind]) + length + body


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


class Crowd:
    """Simulated agents of a broker, in a ring in which each has `degree` neighbors; MQTT 5."""

    def __init__(self, port: int, agents: int, degree: int, sizes: tuple[int, int]) -> None:
        reach = [k for d in range(1, degree // 2 + 1) for k in (d, -d)]
        self.sent, self.seconds = 0, 0.0
        self.delays: list[float] = []
        self._sockets = [self._connect(port, i) for i in range(agents)]
        self._unsent, self._waiting = [b""] * agents, set[int]()
        self._partial = [b""] * agents
        self._phases = np.sort(np.random.default_rng(0).uniform(0, 1, agents))
        # A packet is a topic, and a payload: the time of sending, whether it needs an answer, and padding.
        self._messages, self._answers = (
            [
                {j % agents: self._publication(j % agents, i, size) for j in (i + k for k in reach)}
                for i in range(agents)
            ]
            for size in sizes
        )
        self._epoll = select.epoll()
        self._number = {}
        for i, connection in enumerate(self._sockets):
            connection.setblocking(False)
            self._number[connection.fileno()] = i
            self._epoll.register(connection, select.EPOLLIN)

    @staticmethod
    def _publication(receiver: int, sender: int, size: int) -> tuple[bytes, bytes]:
        whole = _packet(0x30, _text(f"gossamer/gossamer/{receiver}/{sender}"), bytes(1 + size))
        return whole[:-size], bytes(size - 9)

    @staticmethod
    def _connect(port: int, i: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(_packet(0x10, _text("MQTT"), b"\5\2\0\x3c\0", _text(f"load-{i}")))
        assert connection.recv(4096)[0] == 0x20
        connection.sendall(_packet(0x82, b"\0\1\0", _text(f"gossamer/gossamer/{i}/+"), b"\0"))
        assert connection.recv(4096)[0] == 0x90
        return connection

    def run(self, seconds: float) -> dict[str, float]:
        """Send and receive; return what the simulated agents have seen."""
        self.sent, self.delays, late, due = 0, [], 0, 0
        agents, began = len(self._sockets), time.monotonic()
        while (now := time.monotonic() - began) < seconds:
            while (behind := now - due // agents - self._phases[due % agents]) >= 0:
                late += behind > 0.1
                probes = due // agents % 2  # as real agents probe in every other round
                self._send(due % agents, self._messages[due % agents].values(), bytes([probes]))
                due += 1
            self._receive(min(-behind, seconds - now))
        self.seconds = time.monotonic() - began
        while len(self.delays) < self.sent and time.monotonic() < began + seconds + SECONDS:
            self._receive(0.1)  # what is still on its way
        middle, most = np.quantile(self.delays, [0.5, 0.99])
        return {
            "packets/s": self.sent / self.seconds,
            "delivered": len(self.delays) / self.sent,
            "p50 ms": 1e3 * middle,
            "p99 ms": 1e3 * most,
            "late": late / due,
        }

    def _receive(self, seconds: float) -> None:
        for descriptor, event in self._epoll.poll(max(seconds, 0.0)):
            i = self._number[descriptor]
            if event & select.EPOLLOUT:
                self._flush(i)
            if event & select.EPOLLIN:
                self._take(i)

    def _send(self, i: int, packets: Any, kind: bytes) -> None:
        stamp = struct.pack("<d", time.monotonic()) + kind
        self._unsent[i] += b"".join([part for head, rest in packets for part in (head, stamp, rest)])
        self.sent += len(packets)
        self._flush(i)

    def _flush(self, i: int) -> None:
        data = self._unsent[i]
        with suppress(BlockingIOError):
            data = data[self._sockets[i].send(data) :]
        if bool(data) != (i in self._waiting):
            (self._waiting.add if data else self._waiting.remove)(i)
            self._epoll.modify(self._sockets[i], select.EPOLLIN | (select.EPOLLOUT if data else 0))
        self._unsent[i] = data

    def _take(self, i: int) -> None:
        data, at = self._partial[i] + self._sockets[i].recv(1 << 16), 0
        now, answers = time.monotonic(), []
        while len(data) - at > 5:
            length, k = data[at + 1] & 127, at + 2
            if data[at + 1] > 127:
                length, k = length + 128 * data[at + 2], at + 3
            if len(data) < k + length:
                break
            topic = int.from_bytes(data[k : k + 2], "big")
            payload = k + 3 + topic
            self.delays.append(now - struct.unpack_from("<d", data, payload)[0])
            if data[payload + 8]:
                answers.append(self._answers[i][int(data[k + 2 : k + 2 + topic].rpartition(b"/")[2])])
            at = k + length
        self._partial[i] = data[at:]
        if answers:
            self._send(i, answers, b"\0")

    def close(self) -> None:
        for connection in self._sockets:
            connection.close()


def load(degree: int, *sizes: int) -> None:
    packets, cores = asyncio.run(real_packets()), sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-1:])
    for n in sizes or (1000, 2000, 4000, 8000):
        with tempfile.TemporaryDirectory() as folder:
            broker = Mosquitto(Path(folder))
            assert broker._process is not None
            os.sched_setaffinity(broker._process.pid, cores[:1])
            crowd = Crowd(broker.port, n, degree, packets)
            try:
                crowd.run(WARMUP)
                used, mine = processor_seconds(broker._process.pid), time.process_time()
                found = crowd.run(LOADED)
                used, mine = processor_seconds(broker._process.pid) - used, time.process_time() - mine
                found |= {
                    "broker %": 100 * used / crowd.seconds,
                    "broker % per 1000 agents": 1e5 * used / crowd.seconds / n,
                    "broker us per packet": 1e6 * used / crowd.sent,
                    "simulation %": 100 * mine / crowd.seconds,
                }
            finally:
                crowd.close()
                broker.stop()
            row = {name: round(float(value), 4) for name, value in found.items()}
            print(json.dumps({"agents": n, "neighbors": degree, **row}), flush=True)


def main(*sizes: int) -> None:
    for n in sizes or (2, 10, 50):
        with tempfile.TemporaryDirectory() as folder:
            certificates = make_certificates(Path(folder) / "ca", n)
            network = gs.Network.path(2) if n == 2 else gs.Network.cycle(n)
            direct = fleet(network, certificates=certificates, timeout=2.0)
            found = {"direct": asyncio.run(measure(direct))}
            for middle in (Mosquitto, ZenohRouter):
                broker = middle(Path(folder))
                try:
                    relayed = hidden(direct, range(n), broker.address("bench"))
                    assert broker._process is not None
                    found[middle.__name__] = asyncio.run(measure(relayed, broker._process.pid))
                finally:
                    broker.stop()
            print(json.dumps({"agents": n, **found}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(*map(int, sys.argv[2:]))
    else:
        main(*map(int, sys.argv[1:]))
