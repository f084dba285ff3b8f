"""When an exchange ends, what it delivers, and that waiting costs nothing; without Zenoh."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gossamer.agents.round.inboxes import Inboxes

PUT, DELETE = "put", "delete"
LONG = 60.0


def sample(payload: bytes, kind: str = PUT) -> SimpleNamespace:
    return SimpleNamespace(payload=SimpleNamespace(to_bytes=lambda: payload), kind=kind)


class Bell:
    """A lock that never waits: what happens during each wait is given, and who would wait forever fails."""

    def __init__(self) -> None:
        self.waits: list[Callable[[], None]] = []
        self.seconds: list[float] = []

    def locked(self) -> bool:
        return False

    def acquire(self, blocking: bool, seconds: float) -> None:
        self.seconds.append(seconds)
        assert self.waits, "nobody would ever ring"
        self.waits.pop(0)()


@pytest.fixture
def world() -> SimpleNamespace:
    bell = Bell()
    inboxes = Inboxes(bell)
    inboxes.message = PUT
    found = SimpleNamespace(inboxes=inboxes, bell=bell, sent=[], heard=[])
    found.arrive = {
        id: inboxes.add(id, lambda payload, id=id: found.sent.append((id, payload))) for id in (1, 2, 3)
    }

    def exchange(
        awaited: set[int], outgoing: dict[int, bytes] | None = None, seconds: float = LONG
    ) -> list[tuple[int, bytes]]:
        found.heard.clear()

        def deliver(sender: int, payload: bytes) -> bool:
            found.heard.append((sender, payload))
            awaited.discard(sender)
            return not awaited

        inboxes.exchange(0, outgoing or {}, time.monotonic() + seconds, deliver)
        return list(found.heard)

    found.exchange = exchange
    return found


def test_it_sends_and_then_waits_once_per_ring(world: SimpleNamespace) -> None:
    """One wait until the deadline, not a look every few milliseconds."""
    world.bell.waits = [lambda: world.arrive[2](sample(b"b")), lambda: world.arrive[1](sample(b"a"))]
    assert world.exchange({1, 2}, {1: b"x", 3: b"z"}) == [(2, b"b"), (1, b"a")]
    assert world.sent == [(1, b"x"), (3, b"z")]
    assert [LONG - seconds < 5 for seconds in world.bell.seconds] == [True, True]


def test_the_deadline_ends_it_after_one_wait(world: SimpleNamespace) -> None:
    world.bell.waits = [lambda: time.sleep(0.02)]
    assert world.exchange({1}, seconds=0.01) == []
    assert len(world.bell.seconds) == 1


def test_a_message_from_anyone_is_delivered_at_once(world: SimpleNamespace) -> None:
    """Whoever speaks is heard, though another one is waited for: it may have moved on to a later round."""
    world.bell.waits = [lambda: world.arrive[3](sample(b"later")), lambda: world.arrive[1](sample(b"a"))]
    assert world.exchange({1}) == [(3, b"later"), (1, b"a")]


def test_woken_and_late_ones_take_what_is_there(world: SimpleNamespace) -> None:
    world.arrive[2](sample(b"here"))
    assert world.exchange({1}, seconds=-1.0) == [(2, b"here")]
    world.arrive[3](sample(b"here, too"))
    world.inboxes.wake()
    assert world.exchange({1}) == [(3, b"here, too")]
    world.bell.waits = [world.inboxes.wake]
    assert world.exchange({1}) == []


def test_an_empty_message_is_a_message_and_a_deletion_is_none(world: SimpleNamespace) -> None:
    world.arrive[2](sample(b"", DELETE))
    world.arrive[1](sample(b""))
    assert world.exchange({1}) == [(1, b"")]


def test_a_flood_pushes_out_only_its_own_oldest(world: SimpleNamespace) -> None:
    world.arrive[2](sample(b"honest"))
    for number in range(1000):
        world.arrive[1](sample(b"%d" % number))
    heard = world.exchange({3}, seconds=-1.0)
    assert (2, b"honest") in heard
    assert [payload for sender, payload in heard if sender == 1] == [b"%d" % n for n in range(936, 1000)]


def test_rings_before_and_during_a_wait_are_heard() -> None:
    """With a real lock and threads: no ring is lost, and ringing twice is as good as once."""
    inboxes = Inboxes()
    inboxes.message = PUT
    arrive = inboxes.add(1, lambda payload: None)
    heard: list[bytes] = []

    def deliver(sender: int, payload: bytes) -> bool:
        heard.append(payload)
        return len(heard) == 200

    def speak() -> None:
        for number in range(200):
            arrive(sample(b"%d" % number))
            time.sleep(0.0001)

    thread: Any = threading.Thread(target=speak)
    thread.start()
    inboxes.exchange(0, {}, time.monotonic() + LONG, deliver)
    thread.join()
    assert heard == [b"%d" % number for number in range(200)]
    inboxes.wake()
    inboxes.wake()
    inboxes.exchange(0, {}, time.monotonic() + LONG, deliver)
