"""Two ends of an edge that the roster ends, with lost messages, lost contact and crashes at any moment."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gossamer.agents.config.settings import AgentSettings, Neighbor, Tls
from gossamer.agents.rewiring import Rewiring, resumed
from gossamer.agents.round.bounds import Bounds
from gossamer.agents.round.closing import Parked
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.ledger_state import LedgerState
from gossamer.agents.statistics.layout import Layout
from gossamer.facts import UnknownFacts
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import ledger_program

LOCAL = AnytimeSDA("local")
PROGRAM = ledger_program(LOCAL, UnknownFacts(), 50)
FILES = Tls(Path("ca.pem"), Path("own.pem"), Path("own.key"))
DEATH = 4
"""Ticks without a message after which the other end counts as dead."""


def roster(me: int, epoch: int) -> AgentSettings:
    """Of three agents; agents 0 and 1, the ends, are linked in epoch 1 only."""
    near = (1 - me, 2) if epoch == 1 else (2,)
    listed = {"ids": (0, 1, 2), "bringers": ("agent0", "agent1", "agent2"), "epoch": epoch, "members": 3}
    return AgentSettings(me, tuple(map(Neighbor, near)), method=LOCAL, tls=FILES, **listed)  # type: ignore[arg-type]


class End:
    """One end, as much of an agent as parts: a ledger, a `Rewiring`, and what its store has."""

    def __init__(self, world: World, me: int, flow: float) -> None:
        self.world, self.me, self.other = world, me, 1 - me
        self.epoch, self.up, self.serial = 1, True, 1
        flows = {1 - me: np.full((2, 1), flow)}
        self.stored = LedgerState(1, 1, 1.0, np.zeros((len(PROGRAM.own), 1)), flows)
        self.ledger = Ledger(PROGRAM, me, {1 - me: 0.0, 2: 0.0}, serial=1, restored=self.stored)
        self.ledger.durable = 1
        self._begin()

    def _begin(self) -> None:
        self.peers: Any = defaultdict(lambda: SimpleNamespace(dead=False, stopped=False, misses=0))
        self.quiet = 0
        self.newest = 0
        talk = SimpleNamespace(
            peers=self.peers,
            barred=frozenset(),
            bid_farewell=self._bid_farewell,
            **dict.fromkeys(("part", "rewire", "adjust", "follow", "gather"), lambda *given: True),
        )
        wires = SimpleNamespace(rewire=lambda s: None, present=self.present, wake=lambda: None)
        self.rewiring = Rewiring(roster(self.me, self.epoch), self.ledger, talk, wires, lambda s: None)  # type: ignore[arg-type]

    def talks(self) -> bool:
        """Whether this end has the other one as a neighbor, or parts from it."""
        return self.up and (self.rewiring.settings.epoch == 1 or self.other in self.rewiring._parting)

    def present(self) -> frozenset[int]:
        ends = self.world.ends
        return frozenset({self.other} if self.world.connected and all(end.talks() for end in ends) else {})

    def _bid_farewell(self, neighbors: list[int]) -> None:
        if self.other in neighbors and self.present():
            self.world.send(self, self.ledger.farewell(self.other))

    def hear(self, message: Any) -> None:
        if not self.talks() or message.serial < self.newest:
            return
        self.newest, self.quiet = message.serial, 0
        peer = self.peers[self.other]
        peer.dead, peer.stopped = False, bool(message.closing & 1)
        if message.closing or self.other in self.ledger.closings:
            self.ledger.hear_closing(self.other, message)

    def tick(self, saves: bool) -> None:
        if not self.up:
            return
        self.ledger.begin(np.array([1.0]))
        if self.present():
            self.world.send(self, self.ledger.tell(self.other))
        self.ledger.finish({})
        self.quiet += 1
        if self.quiet > DEATH and self.talks() and not self.peers[self.other].dead:
            self.peers[self.other].dead = True
            self.newest = 0
            self.ledger.drop(self.other)
        if self.rewiring.busy:
            self.rewiring.look()
        if self.other in self.rewiring.doubts and self.world.ends[self.other].up and self.world.connected:
            held = self.world.ends[self.other].rewiring.held(self.me)
            if held:
                self.rewiring.settle(self.other, held)
        if saves:
            self.stored = self.ledger.remember()
            self.ledger.durable = self.stored.serial

    def follow(self) -> None:
        self.epoch = 2
        if self.up:
            self.rewiring.follow(roster(self.me, 2))

    def crash(self) -> None:
        self.up = False

    def restart(self) -> None:
        if self.up:
            return
        self.up = True
        self.serial = self.ledger.serial + 1000
        now = roster(self.me, self.epoch)
        weights = {n.id: 0.0 for n in now.neighbors}
        state = resumed(self.stored, now)
        self.ledger = Ledger(PROGRAM, self.me, weights, serial=self.serial, restored=state, names=now.names)
        self.ledger.durable = self.stored.serial
        self._begin()


class World:
    """Both ends; what arrives, and who is there, is drawn."""

    def __init__(self, draws: np.random.Generator, loss: float) -> None:
        self.draws, self.loss = draws, loss
        self.connected = True
        self.ends: list[End] = []
        self.ends = [End(self, 0, 2.5), End(self, 1, -2.25)]  # a message was lost: they are a step apart

    def send(self, sender: End, message: Any) -> None:
        if self.connected and self.draws.random() >= self.loss:
            self.ends[sender.other].hear(message)

    def tick(self) -> None:
        for end in self.ends:
            end.tick(bool(self.draws.random() < 0.5))


EVENTS = ("follow 0", "follow 1", "crash 0", "crash 1", "restart 0", "restart 1", "cut", "join", "rest")


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    loss=st.sampled_from([0.0, 0.3, 0.6]),
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 6)), max_size=14),
)
@example(21415, 0.0, [("follow 1", 3), ("crash 0", 1)])
def test_both_ends_keep_the_same_flow_or_none(seed: int, loss: float, events: list[tuple[str, int]]) -> None:
    world = World(np.random.default_rng(seed), loss)
    for event, ticks in [
        *events,
        ("join", 0),
        ("restart 0", 0),
        ("restart 1", 0),
        ("follow 0", 2),
        ("follow 1", 2),
    ]:
        what, _, who = event.partition(" ")
        if what in ("cut", "join"):
            world.connected = what == "join"
        elif what != "rest":
            getattr(world.ends[int(who)], what)()
        for _ in range(ticks):
            world.tick()
    world.loss = 0.0
    for _ in range(5 * DEATH):
        world.tick()
    for end in world.ends:
        assert not end.rewiring._parting
        assert not end.rewiring.doubts
    nothing = np.zeros((2, 1))
    flows = [end.ledger.parked[end.other].flow if end.ledger.parked else nothing for end in world.ends]
    np.testing.assert_array_equal(flows[0], -flows[1])


def test_a_reported_flow_must_be_possible() -> None:
    """A former neighbor may report anything: NaN is not used, and nothing beyond the bounds of honest flows."""
    bounds = Bounds.of(Layout(1, range=((0.0, 10.0),)), PROGRAM, 3)
    assert bounds is not None
    largest = bounds.rows[-1] + bounds.share
    end = World(np.random.default_rng(0), 0.0).ends[1]
    end.epoch = 2
    end.ledger = Ledger(PROGRAM, 1, {2: 0.0}, 2, bounds=bounds)
    end._begin()
    for reported, taken in ((np.nan, None), (-1e9, largest), (3.0, -3.0)):
        end.ledger.parked[0] = Parked(np.zeros((2, 2)), "agent1", "agent0", doubt=True)
        end.rewiring.settle(0, np.full((2, 2), reported).tobytes())
        end.rewiring._part()
        assert end.rewiring.doubts == ([0] if taken is None else [])
        if taken is not None:
            np.testing.assert_array_equal(end.ledger.parked[0].flow, np.full((2, 2), taken))
