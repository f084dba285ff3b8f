"""Strangers cannot keep friends out: crowds at the door, and what one member can use up; see docs/security.md."""

from __future__ import annotations

import logging
import select
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support import SUPPORT
from tests.support.agent_process import Handle
from tests.support.small_fleets import fleet, make_certificates, member
from tests.support.waiting import until

from gossamer.agents.config.settings import Neighbor
from gossamer.agents.membership.certificates import Authority
from gossamer.agents.transports import handshakes
from gossamer.agents.transports.secured import longest_message
from gossamer.agents.transports.tls import Connection, TlsTransport
from gossamer.fingerprint import full_version
from gossamer.networks import Network

KINDS = ("garbage", "idle", "stalled", "none", "other")


@contextmanager
def crowd(kind: str, count: int, endpoint: str, certificate: list[str]) -> Iterator[None]:
    """So many strangers at a port, in a process of their own; the block begins when all of them have been there."""
    program = str(SUPPORT / "hostile.py")
    command = [sys.executable, program, kind, str(count), *endpoint.split(":"), *certificate]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        select.select([process.stdout], [], [], 3)  # or not all of them, where shaking hands takes long
        yield
    finally:
        process.kill()
        process.communicate()


def memory(pid: int) -> float:
    """The most megabytes that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def other_certificate(directory: Path) -> list[str]:
    issued = Authority.create(directory, "another").issue("agent1", ["127.0.0.1"])
    return [str(issued.certificate), str(issued.key)]


@pytest.mark.slow
def test_a_neighbor_gets_in_past_a_crowd_of_strangers(tmp_path: Path) -> None:
    """For each kind, agent 1 is killed and started again while 400 strangers crowd the door of agent 0."""
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "c", 2), pace=0.05)
    first, second = (Handle(s, mean=1.0) for s in settings)
    try:
        until(lambda: first.last.get("connected") == 1, "the connection")
        for kind in KINDS:
            certificate = other_certificate(tmp_path / "other") if kind == "other" else []
            with crowd(kind, 400, settings[0].endpoint, certificate):
                second.end()
                until(lambda: first.last["connected"] == 0, f"its end ({kind})")
                second = Handle(settings[1], mean=1.0)
                until(lambda s=second: s.last, f"the start ({kind})")
                both = (first, second)
                until(lambda b=both: all(a.last["connected"] == 1 for a in b), f"being let in ({kind})")
                before = first.last["round"]
                until(lambda n=before: first.last["round"] > n + 5, f"more rounds ({kind})")
        assert memory(first.pid) < 100
    finally:
        for handle in (first, second):
            handle.end()


def test_a_crowd_makes_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many, the oldest from the address that has most must go."""
    monkeypatch.setattr(handshakes, "_MOST", 4)
    crowded = handshakes.Handshakes()
    pairs = [socket.socketpair() for _ in range(6)]
    try:
        guests = [
            handshakes.Handshake(pair[0], address, deadline=k)
            for k, (pair, address) in enumerate(zip(pairs, "abbbbc", strict=True))
        ]
        for guest in guests:
            crowded.add(guest)
        assert [guest in crowded for guest in guests] == [True, False, False, True, True, True]
        crowded.abort_expired(0.5)
        assert guests[0] not in crowded
    finally:
        crowded.close()
        for pair in pairs:
            for end in pair:
                end.close()


# -- strangers, one at a time ---------------------------------------------------------------------------------


def certificate_of(kind: str, directory: Path, certificates: Path) -> list[str]:
    """The files that a stranger shows: with the name of a neighbor, but not from the authority, or too old."""
    if kind not in ("other", "expired"):
        return []
    if kind == "other":
        return other_certificate(directory / "other")
    authority = replace(Authority.load(certificates), directory=directory)
    issued = authority.issue("agent1", ["127.0.0.1"], start=datetime.now(UTC) - timedelta(days=9), days=1)
    return [str(issued.certificate), str(issued.key)]


REFUSALS = {
    "none": "it presented no certificate",
    "other": "invalid peer certificate: unable to get local issuer certificate",
    "expired": "invalid peer certificate: certificate has expired",
    "old TLS": "unsupported protocol",
    "plaintext": "it does not speak TLS",
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_stranger_is_refused_and_the_log_says_why(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = make_certificates(tmp_path / "c", 2)
    first, second = fleet(Network.path(2), certificates=certificates)
    files = certificate_of(kind, tmp_path, certificates)
    host, _, port = first.endpoint.partition(":")
    transport = TlsTransport(first)
    transport.open()
    try:
        with caplog.at_level(logging.INFO), socket.create_connection((host, int(port)), timeout=60) as knock:
            if kind == "plaintext":
                knock.sendall(b"gossamer 1 gossamer 1\n")
                assert not received(knock)
            else:
                context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
                if kind == "old TLS":
                    context.maximum_version = ssl.TLSVersion.TLSv1_2
                if files:
                    context.load_cert_chain(*files)
                with suppress(OSError), context.wrap_socket(knock, server_hostname=host) as secured:
                    secured.sendall(b"gossamer 1 gossamer 1\n")
                    assert not received(secured)
            until(lambda: REFUSALS[kind] in caplog.text, REFUSALS[kind])
            assert transport.present() == frozenset()
            with member(second, first, b"gossamer 1 gossamer 1\n") as honest:
                assert received(honest).startswith(b"gossamer 1 gossamer 0 ")
    finally:
        transport.close()
    secrets = [line for path in tmp_path.rglob("*.key") for line in path.read_text().splitlines()[1:-1]]
    assert len(secrets) >= 9
    assert not any(secret in caplog.text for secret in secrets)


def received(connection: socket.socket) -> bytes:
    """What comes before the other end closes, or refuses."""
    try:
        return connection.recv(100)
    except OSError:
        return b""


# -- members that overstep ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "says", "why"),
    [
        (1, b"gossamer 1 gossamer 2\n", "agent1 identified itself as another agent"),
        (1, b"gossamer 1 another 1\n", "agent1 identified itself as another agent"),
        (1, b"GET / HTTP/1.1\r\n\r\n", "agent1 identified itself as another agent; it runs another version"),
        (1, b"x" * 1000, "it did not identify itself"),
        (3, b"gossamer 1 gossamer 1\n", "agent3 is an agent of this fleet, but not a neighbor"),
    ],
)
def test_a_member_comes_in_only_as_itself(
    agent: int, says: bytes, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Agents 1 and 2 are neighbors of agent 0, agent 3 is not."""
    settings = fleet(
        Network.from_edges(4, [(0, 1), (0, 2), (1, 2), (2, 3)]), certificates=make_certificates(tmp_path, 4)
    )
    victim = TlsTransport(settings[0])
    victim.open()
    try:
        with caplog.at_level(logging.WARNING), member(settings[agent], settings[0], says) as intruder:
            assert intruder.recv(100) == b""
            until(lambda: why in caplog.text, why)
        assert victim.present() == frozenset()
        with member(settings[1], settings[0], b"gossamer 1 gossamer 1\n") as honest:
            assert honest.recv(100) == f"gossamer 1 gossamer 0 {full_version()}\n".encode()
            until(lambda: victim.present() == {1}, "being let in")
            honest.sendall(struct.pack("<I", 14) + b"I am agent 2, ")
            assert first_message(victim) == (1, b"I am agent 2, ")  # whatever it says, it is from agent 1
    finally:
        victim.close()


def first_message(transport: TlsTransport) -> tuple[int, bytes]:
    heard: list[tuple[int, bytes]] = []

    def listen() -> bool:
        transport.exchange(0, {}, 0.0, lambda sender, payload: not heard.append((sender, payload)))
        return bool(heard)

    until(listen, "a message")
    return heard[0]


@pytest.mark.slow
def test_a_huge_message_takes_no_memory(tmp_path: Path) -> None:
    """A neighbor sends 500 MB as one message; it is dropped for its size, and the way stays open."""
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path, 2), pace=0.05)
    victim = Handle(settings[0], mean=1.0)
    try:
        until(lambda: victim.last, "the start")
        with member(settings[1], settings[0], b"gossamer 1 gossamer 1\n") as neighbor:
            assert received(neighbor).startswith(b"gossamer 1 gossamer 0 ")
            neighbor.sendall(struct.pack("<I", 500_000_000))
            piece = bytes(1_000_000)
            for _ in range(500):
                neighbor.sendall(piece)
            until(lambda: victim.last["rejected"].get("size") == 1, "the refusal")
            neighbor.sendall(struct.pack("<I", 5) + b"hello")
            until(lambda: victim.last["rejected"].get("garbage") == 1, "the next message")
        assert memory(victim.pid) < 100
        assert victim.last["state"] == "running"
    finally:
        victim.end()


def test_messages_come_whole_or_are_cut(tmp_path: Path) -> None:
    """Any pieces, as they come from the network, make the same messages; one that is too long loses its end."""
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        connection = Connection(Neighbor(1), here, float("inf"), longest=10)
        sent = [b"", b"short", bytes(range(10)), b"x" * 3000, b"last"]
        stream = b"".join(struct.pack("<I", len(m)) + m for m in sent)
        for size in (1, 3, 7, 1000, len(stream)):
            got = []
            for k in range(0, len(stream), size):
                there.sendall(stream[k : k + size])
                assert connection.receive()
                while (message := connection.take()) is not None:
                    got.append(message)
            assert got == [message[:10] for message in sent]
        there.close()
        assert not connection.receive()


def test_the_limit_follows_the_messages() -> None:
    small, large = (fleet(Network.path(2), dimension=n)[0] for n in (1, 100_000))
    assert longest_message(small) == 1 << 20
    assert longest_message(large) > 4 * 8 * 100_000
