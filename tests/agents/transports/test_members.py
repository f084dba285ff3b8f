"""Members that connect in a loop, stall, or ask without end: what they use up is bounded."""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.small_fleets import PLAINTEXT, fleet, make_certificates, member
from tests.support.waiting import PATIENCE, until

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.host.logs import RepeatFilter
from gossamer.agents.transports import calling
from gossamer.agents.transports.tls import TlsTransport
from gossamer.networks import Network

FD = Path("/proc/self/fd")


def two(tmp_path: Path) -> tuple[AgentSettings, AgentSettings]:
    first, second = fleet(Network.path(2), certificates=make_certificates(tmp_path, 2))
    return first, second


@contextmanager
def opened(
    settings: AgentSettings, answer: Callable[[str, bytes], bytes] | None = None
) -> Iterator[TlsTransport]:
    transport = TlsTransport(settings, answer)
    transport.open()
    try:
        yield transport
    finally:
        transport.close()


def callers() -> int:
    return sum(thread.name == "call-1-0" for thread in threading.enumerate())


def attend(transport: TlsTransport) -> None:
    """What the agent's thread does between two rounds."""
    transport.exchange(0, {}, 0.0, lambda sender, payload: False)


def test_a_neighbor_that_must_be_called_may_not_connect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own endpoint stalls: every connection that was let in and lost left a thread behind that called it."""
    first, second = two(tmp_path)
    with (
        socket.create_server(("127.0.0.1", int(first.endpoint.rpartition(":")[2]))),
        opened(second) as victim,
    ):
        for _ in range(20):
            with member(first, second, b"gossamer 1 gossamer 0\n") as intruder:
                assert intruder.recv(100) == b""  # refused
            attend(victim)
            assert victim.present() == frozenset()
            assert callers() == 1
        why = "agent0 has the smaller number, so this agent connects to it"
        until(lambda: why in caplog.text, why)
    until(lambda: not callers(), "the end of the caller")


@pytest.mark.filterwarnings(PLAINTEXT)
def test_a_neighbor_that_hangs_up_is_called_again_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less and less often, although it answers every time."""
    first, second = fleet(Network.path(2))
    pauses = []
    wait = threading.Event.wait

    def waits(event: threading.Event, seconds: float | None = None) -> bool:
        if threading.current_thread().name == "call-1-0" and seconds:
            pauses.append(seconds)
            return event.is_set()
        return wait(event, seconds)

    monkeypatch.setattr(threading.Event, "wait", waits)
    monkeypatch.setattr(calling, "PATIENCE", 1000.0)  # no connection lasts
    with socket.create_server(("127.0.0.1", int(first.endpoint.rpartition(":")[2]))) as server:
        with opened(second) as victim:
            for _ in range(8):
                with server.accept()[0] as accepted:
                    accepted.sendall(b"gossamer 1 gossamer 0\n")
                    until(lambda: attend(victim) or victim.present() == {0}, "the connection")  # type: ignore[func-returns-value]
                    assert callers() == 1
                until(lambda: attend(victim) or not victim.present(), "its loss")  # type: ignore[func-returns-value]
        assert pauses[:5] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0])
        assert max(pauses) == 1.0


@pytest.mark.skipif(not FD.exists(), reason="counts descriptors in /proc")
def test_a_neighbor_that_connects_again_and_again_has_one_connection(tmp_path: Path) -> None:
    """Also while the agent is busy, and does not look at who has come."""
    first, second = two(tmp_path)
    with opened(first) as victim, ExitStack() as stack:
        made = []
        for k in range(12):
            made.append(stack.enter_context(member(second, first, b"gossamer 1 gossamer 1\n")))
            assert made[-1].recv(100)
            until(lambda: victim.present() == {1}, "being let in")
            if k == 0:
                before = len(os.listdir(FD))
        # The test has eleven sockets more, and the agent none.
        until(lambda: len(os.listdir(FD)) <= before + 11, "the others closed")
        attend(victim)
        made[-1].sendall(struct.pack("<I", 5) + b"hello")
        heard: list[bytes] = []

        def hears() -> bool:
            victim.exchange(0, {}, 0.0, lambda sender, payload: not heard.append(payload))
            return bool(heard)

        until(hears, "the newest connection")


def test_a_member_asks_one_question_at_a_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each may be a megabyte, so many at once would fill the memory; a question that is given up counts no more."""
    first, second = two(tmp_path)
    members = replace(first, bringers=("agent0", "agent1"))
    asks = b"gossamer 1 gossamer asks\n"
    with opened(members, lambda name, question: b"heard " + question) as _:
        with member(second, first, asks + struct.pack("<I", 1 << 20)) as slow:
            slow.sendall(bytes(1 << 16))
            with member(second, first, asks + struct.pack("<I", 5) + b"hello") as another:
                assert another.recv(100) == b""
            why = "agent1 asks more than one question at a time"
            until(lambda: why in caplog.text, why)
            with member(second, first, asks + struct.pack("<I", 0)) as empty:  # asks for the roster
                assert empty.recv(100)

        def answers() -> bool:
            with member(second, first, asks + struct.pack("<I", 5) + b"hello") as another:
                return another.recv(100).endswith(b"heard hello")

        until(answers, "an answer once the other question is over")


def test_greetings_that_always_differ_are_one_message_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are in a field of their own, where they do not count as different messages."""
    first, second = two(tmp_path)
    with caplog.at_level(logging.WARNING), opened(first):
        for k in range(9):
            said = f"gossamer {chr(97 + k)} x{chr(97 + k)} {chr(97 + k)}\x1b[2J\n".encode()
            with member(second, first, said) as intruder:
                assert intruder.recv(100) == b""

        def refusals() -> list[logging.LogRecord]:
            return [r for r in caplog.records if "refused a connection" in r.getMessage()]

        until(lambda: len(refusals()) == 9, "nine refusals")
        refused = refusals()
        assert refused[3].said == "gossamer d xd d [2J "  # type: ignore[attr-defined]
        repeats = RepeatFilter()
        assert sum(map(repeats.filter, refused)) == 4  # the 1st, 2nd, 4th and 8th


@pytest.mark.filterwarnings(PLAINTEXT)
def test_a_neighbor_that_never_stops_sending_is_read_for_a_tenth_of_the_time() -> None:
    """Otherwise reading takes the time in which rounds would be computed, however useless the messages are."""
    first, _ = fleet(Network.path(2))
    with (
        opened(first) as victim,
        socket.create_connection(("127.0.0.1", int(first.endpoint.rpartition(":")[2]))) as flooder,
    ):
        flooder.sendall(b"gossamer 1 gossamer 1\n")
        until(lambda: attend(victim) or victim.present() == {1}, "the connection")  # type: ignore[func-returns-value]
        message = struct.pack("<I", 60_000) + bytes(60_000)

        def flood() -> None:
            with suppress(OSError):
                while True:
                    flooder.sendall(message)

        flooding = threading.Thread(target=flood)
        flooding.start()
        busy = 0.0

        def deliver(sender: int, payload: bytes) -> bool:
            nonlocal busy
            began = time.monotonic()
            time.sleep(0.001)
            busy += time.monotonic() - began
            return False

        try:
            began = time.monotonic()
            for _ in range(5):
                victim.exchange(0, {1: b"a message"}, time.monotonic() + 0.1, deliver)
            assert busy > 0.0
            # Without rest it is above 0.9. On a busy machine one message may take longer than all exchanges above.
            while busy >= 0.3 * (time.monotonic() - began) and time.monotonic() < began + PATIENCE:
                victim.exchange(0, {1: b"a message"}, time.monotonic() + 0.1, deliver)
            assert busy < 0.3 * (time.monotonic() - began)
        finally:
            flooder.shutdown(socket.SHUT_RDWR)
            flooding.join()
