"""The rounds' sense of time, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from gossamer.agents.config.settings import Limits
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.messages import Outgoing
from gossamer.agents.round.transport import Deliver
from gossamer.agents.round.wire import Codec, roster_payload


class Silence:
    """A neighbor that never speaks, and a core that only remembers whom it dropped."""

    dimension, edge_registers = 1, 1
    closings: ClassVar[dict[int, Any]] = {}

    def __init__(self) -> None:
        self.now = 0.0
        self.coming: list[tuple[float, bytes]] = []  # when, what
        self.connected = frozenset({1})
        self.dropped: list[int] = []
        self.serial = 0

    def clock(self) -> float:
        return self.now

    # the core
    def begin(self, observation: object, samples: float = 1.0, weight: float | None = None) -> None:
        self.serial += 1

    def tell(self, neighbor: int, holding: int) -> Outgoing:
        return Outgoing(self.serial, holding, True, bytes(16))

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        pass

    def drop(self, neighbor: int, *, at_once: bool = False) -> None:
        self.dropped.append(neighbor)

    # the transport
    def exchange(
        self,
        round: int,
        outgoing: Mapping[int, bytes],
        deadline: float,
        deliver: Deliver,
    ) -> None:
        self.now = max(self.now, deadline)
        while self.coming and self.coming[0][0] <= self.now:
            deliver(1, self.coming.pop(0)[1])

    def present(self) -> frozenset[int]:
        return self.connected


def one(rounds: Conversation, world: Silence, pace: float) -> None:
    """A round and the pause after it, as the agent does them."""
    due = world.now + pace
    rounds.step(np.zeros(1), until=due)
    world.now = max(world.now, due)


@pytest.mark.parametrize("connected", [True, False], ids=["silent", "away"])
@pytest.mark.parametrize("pace", [0.02, 0.5, 2.0])
def test_death_is_measured_in_seconds_at_any_pace(connected: bool, pace: float) -> None:
    world = Silence()
    world.connected = frozenset({1} if connected else ())
    rounds = Conversation(0, world, world, (1,), timeout=0.2, death=5.0, clock=world.clock)  # type: ignore[arg-type]
    while not world.dropped:
        one(rounds, world, pace)
        assert world.now < 100
    assert world.dropped == [1]
    assert 5.0 <= world.now <= 5.0 + 2 * max(pace, 0.2)


def test_who_was_stopped_does_not_blame_its_neighbors() -> None:
    world = Silence()
    rounds = Conversation(0, world, world, (1,), timeout=0.2, death=5.0, clock=world.clock)  # type: ignore[arg-type]
    one(rounds, world, 0.1)
    world.now += 60.0
    one(rounds, world, 0.1)
    assert world.dropped == []


def test_a_late_message_is_a_sign_of_life_even_where_a_round_outlasts_death() -> None:
    world = Silence()
    codec = Codec(1, frozenset({0}), 1, 1, Limits())
    rounds = Conversation(0, world, world, (1,), timeout=0.2, death=1.0, clock=world.clock)  # type: ignore[arg-type]
    for serial in range(1, 5):
        late = codec.encode(0, Outgoing(serial, 0, True, bytes(16)))
        world.coming.append((world.now + 2.0, late))
        rounds.round = 1
        one(rounds, world, 2.0)
        assert world.dropped == []
    assert rounds.peers[1].late == 4


def test_an_incompatible_neighbor_is_not_waited_for() -> None:
    """Nothing that it sends can be used, however often it sends."""
    world = Silence()
    rounds = Conversation(0, world, world, (1,), timeout=0.2, clock=world.clock)  # type: ignore[arg-type]
    one(rounds, world, 0.0)
    assert world.now == 0.2
    hear(rounds, world, b"Gs\x63 of another version")
    one(rounds, world, 0.0)
    assert world.now == 0.2


def hear(rounds: Conversation, world: Silence, *payloads: bytes) -> None:
    world.coming += [(world.now, payload) for payload in payloads]
    rounds.listen(world.now)


def test_garbage_is_forgiven_once_a_second_and_a_flood_is_quarantined() -> None:
    world = Silence()
    rounds = Conversation(0, world, world, (1,), timeout=0.2, clock=world.clock)  # type: ignore[arg-type]
    for _ in range(3):
        hear(rounds, world, *[b"nonsense"] * 31)
        world.now += 31.0
    for _ in range(100):  # for example a roster of a later version, again and again
        hear(rounds, world, b"Gr\x63 from the future")
        world.now += 1.0
    assert rounds.barred == frozenset()
    hear(rounds, world, *[b"nonsense"] * 40)
    assert rounds.barred == {1}
    assert rounds.rejected == {"garbage": 31 * 3 + 100 + 32, "quarantine": 8}
    rounds.pardon()
    hear(rounds, world, b"nonsense")
    assert rounds.barred == frozenset()


def test_rosters_of_one_neighbor_are_checked_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    world = Silence()
    rounds = Conversation(0, world, world, (1,), timeout=0.2, clock=world.clock)  # type: ignore[arg-type]
    came: list[bytes] = []

    def check(sender: int, roster: bytes) -> None:
        came.append(roster)
        if not roster.startswith(b"signed"):
            rounds.rejected["roster"] += 1

    rounds.roster_came = check
    hear(rounds, world, *[roster_payload(b"signed 1")] * 5)  # they are repeated, because messages may be lost
    assert (came, rounds.rejected) == ([b"signed 1"], {})
    world.now += 1.0
    hear(rounds, world, roster_payload(b"signed 2"))
    assert (len(came), rounds.rejected) == (2, {})
    world.now += 1.0
    hear(rounds, world, *[roster_payload(b"invented %d" % k) for k in range(100)])
    assert (len(came), rounds.rejected) == (3, {"roster": 32, "quarantine": 68})
    assert "because it keeps sending what no agent sends (roster)" in caplog.text
    rounds.pardon()
    world.now += 1.0
    hear(rounds, world, *[roster_payload(b"invented again")] * 40)
    assert (len(came), rounds.barred) == (4, {1})
