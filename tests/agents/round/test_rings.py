"""Which ring an exchange waits at, and what it does when it is nudged, woken or late; without Zenoh."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from gossamer.agents.round.rings import Rings

PUT, DELETE = "put", "delete"


class Ring:
    """A ring of Zenoh's, in one thread: who would wait for ever fails instead."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[bytes, str]] = deque()
        self.waits: list[Callable[[], None]] = []  # what happens during each wait at this ring

    def put(self, payload: bytes, kind: str = PUT) -> None:
        self.waiting.append((payload, kind))

    def try_recv(self) -> SimpleNamespace | None:
        if not self.waiting:
            return None
        payload, kind = self.waiting.popleft()
        return SimpleNamespace(payload=SimpleNamespace(to_bytes=lambda: payload), kind=kind)

    def recv(self) -> SimpleNamespace | None:
        if not self.waiting:
            assert self.waits, "nobody would ever come to this ring"
            self.waits.pop(0)()
        return self.try_recv()


@pytest.fixture
def world() -> SimpleNamespace:
    rings = Rings()
    rings.message = PUT
    found = SimpleNamespace(rings=rings, sent=[], heard=[], by={})
    for id in (1, 2, 3):
        ring = found.by[id] = Ring()
        rings.add(
            id,
            put=lambda payload, id=id: found.sent.append((id, payload)),
            ring=ring,
            nudge=lambda ring=ring: ring.put(b"", DELETE),
        )

    def exchange(
        awaited: set[int], outgoing: dict[int, bytes] | None = None, seconds: float = 60.0
    ) -> list[tuple[int, bytes]]:
        found.heard.clear()

        def deliver(sender: int, payload: bytes) -> bool:
            found.heard.append((sender, payload))
            awaited.discard(sender)
            return not awaited

        rings.exchange(0, outgoing or {}, time.monotonic() + seconds, deliver, awaited)
        return list(found.heard)

    found.exchange = exchange
    return found


def test_it_waits_only_for_the_awaited(world: SimpleNamespace) -> None:
    """The others may have said what they had to say: agents that wait for such a one wait in a circle."""
    world.by[3].waits.append(lambda: world.by[3].put(b"c"))
    assert world.exchange({3}, {1: b"x", 2: b"y", 3: b"z"}) == [(3, b"c")]
    assert world.sent == [(1, b"x"), (2, b"y"), (3, b"z")]


def test_the_one_heard_last_comes_first(world: SimpleNamespace) -> None:
    """Who fell silent holds nobody up who could hear the others."""
    world.by[1].put(b"early")
    assert world.exchange({1}) == [(1, b"early")]
    world.by[1].waits.append(lambda: world.by[1].put(b"again"))
    world.by[2].waits.append(lambda: world.by[2].put(b"late"))
    assert world.exchange({1, 2}) == [(1, b"again"), (2, b"late")]


def test_a_nudge_makes_it_look_everywhere(world: SimpleNamespace) -> None:
    looks = []

    def look_twice() -> None:
        """The first look finds a wait that may have begun just now, the second one that lasts."""
        looks.extend(world.rings.nudge_if_long() for _ in range(2))

    world.by[2].put(b"ahead")
    world.by[1].waits += [look_twice, lambda: world.by[1].put(b"at last")]
    assert world.exchange({1}) == [(2, b"ahead"), (1, b"at last")]
    assert looks == [False, True]


def test_woken_and_late_ones_take_what_is_there(world: SimpleNamespace) -> None:
    world.by[2].put(b"here")
    assert world.exchange({1}, seconds=-1.0) == [(2, b"here")]
    world.by[3].put(b"here, too")
    world.rings.wake()
    assert world.exchange({1}) == [(3, b"here, too")]
    world.by[1].waits.append(world.rings.wake)
    assert world.exchange({1}) == []


def test_an_empty_message_is_a_message(world: SimpleNamespace) -> None:
    """A nudge is a deletion; a neighbor that puts nothing has still put something, and it is counted."""
    world.by[1].put(b"")
    assert world.exchange({1}) == [(1, b"")]
    world.by[2].put(b"")
    assert world.exchange(set(), seconds=-1.0) == [(2, b"")]
