"""Changes of a fleet that bias nothing: edges that end, agents that stop or leave, and flows set to zero."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from tests.support.memory_fleet import Fleet, member
from tests.support.waiting import until_true

from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.closing import Parked

VALUES = {0: 0.0, 1: 10.0, 2: 20.0, 3: 34.0}
SQUARE = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]
AVERAGE = 16.0
NOISE = 1e-9


def near(edges: Iterable[tuple[int, int]], i: int) -> tuple[int, ...]:
    return tuple(sorted(sum(pair) - i for pair in edges if i in pair))


def listed(
    i: int, edges: list[tuple[int, int]], epoch: int, ids: Iterable[int], **changes: object
) -> AgentSettings:
    """The settings of an agent in a fleet whose roster has these members and edges."""
    ids = tuple(ids)
    names = tuple(f"agent{j}" for j in ids)
    return member(
        i, near(edges, i), epoch=epoch, members=len(ids), ids=ids, bringers=names, **{"death": 0.5, **changes}
    )


class Changing(Fleet):
    """A fleet whose agents follow rosters; `worst` is the largest deviation of an estimate since it was reset."""

    def __init__(self, folder: Path | None = None, **changes: object) -> None:
        super().__init__()
        self.folder, self.changes = folder, changes
        self.worst = 0.0

    async def begin(self, edges: list[tuple[int, int]] = SQUARE) -> None:
        for i, value in VALUES.items():
            await self.start(listed(i, edges, 1, VALUES, **self.changes), value)
        await self.settled(AVERAGE)
        for agent in self.agents.values():
            agent.subscribe(lambda now: self._watch(float(now.estimate[0])))
        self.worst = 0.0

    async def start(self, settings: AgentSettings, value: float | None = None) -> Agent:
        store = None if self.folder is None else self.folder / f"{settings.id}.sqlite"
        agent = self.agents[settings.id] = Agent(settings, transport=self.connect(settings), store=store)
        await agent.__aenter__()
        if value is not None:
            agent.observe(value)
        return agent

    def _watch(self, estimate: float) -> None:
        self.worst = max(self.worst, abs(estimate - AVERAGE))

    async def settled(self, value: float, who: Iterable[int] | None = None) -> None:
        who = list(self.agents if who is None else who)
        await until_true(
            lambda: all(abs(self.agents[i].estimate - value) < 1e-11 for i in who), f"average {value}"
        )

    def follow(self, edges: list[tuple[int, int]], epoch: int, ids: Iterable[int], **changes: object) -> None:
        ids = tuple(ids)
        for i in ids:
            if i in self.agents:
                self.agents[i].apply(listed(i, edges, epoch, ids, **self.changes, **changes))

    async def rounds(self, count: int) -> None:
        """Let every agent play so many rounds."""
        ages = {i: a.snapshot.age for i, a in self.agents.items()}
        await until_true(
            lambda: all(a.snapshot.age >= ages[i] + count for i, a in self.agents.items()), "rounds"
        )

    async def adds_up(self) -> None:
        """Wait until what all agents hold besides their own means adds up to zero; rounds go on meanwhile."""
        ledgers = [agent._ledger for agent in self.agents.values()]
        await until_true(
            lambda: bool(np.all(abs(sum(a.share() - a.mean for a in ledgers)) < NOISE)),
            "flows of sum zero",
            20.0,
        )

    async def kill(self, who: int) -> None:
        """End an agent that does not say goodbye."""
        self.agents[who].changes.say_goodbye = lambda: None  # type: ignore[method-assign]
        await self.remove(who)


@pytest.mark.slow
def test_an_edge_that_is_unlinked_keeps_its_flow_without_a_jump() -> None:
    async def live() -> None:
        async with Changing() as fleet:
            await fleet.begin()
            flow = fleet.agents[0]._ledger.flow(3)
            assert abs(flow).max() > 1.0  # agent 3 gives 18 over two edges
            less = [edge for edge in SQUARE if edge != (0, 3)]
            fleet.follow(less, 2, VALUES)
            await until_true(
                lambda: all(not a.changes.busy and a.settings.epoch == 2 for a in fleet.agents.values()),
                "parted",
            )
            assert 3 in fleet.agents[0]._ledger.parked
            parked = [fleet.agents[i]._ledger.parked[j].flow for i, j in ((0, 3), (3, 0))]
            np.testing.assert_array_equal(parked[0], -parked[1])
            await fleet.rounds(100)
            assert fleet.worst < NOISE
            # Linked again, the edge goes on where it was.
            fleet.follow(SQUARE, 3, VALUES)
            await until_true(lambda: all(a.settings.epoch == 3 for a in fleet.agents.values()), "epoch 3")
            await fleet.rounds(100)
            assert fleet.worst < NOISE
            assert not fleet.agents[0]._ledger.parked
            await fleet.adds_up()

    asyncio.run(live())


@pytest.mark.slow
def test_what_was_parked_returns_when_its_other_end_is_removed_or_replaced() -> None:
    async def live() -> None:
        async with Changing() as fleet:
            await fleet.begin()
            less = [edge for edge in SQUARE if edge != (0, 2)]
            fleet.follow(less, 2, VALUES)
            await until_true(
                lambda: all(not a.changes.busy and a.settings.epoch == 2 for a in fleet.agents.values()),
                "parted",
            )
            await fleet.kill(2)
            fleet.follow([(0, 1), (0, 3)], 3, [0, 1, 3])
            await fleet.settled(44 / 3)
            assert not fleet.agents[0]._ledger.parked

    asyncio.run(live())


@pytest.mark.slow
def test_an_agent_that_stops_in_order_and_comes_back_makes_no_jump(tmp_path: Path) -> None:
    async def live() -> None:
        async with Changing(tmp_path) as fleet:
            await fleet.begin()
            await fleet.remove(3)
            await until_true(lambda: fleet.agents[0].snapshot.neighbors[2].state == "stopped", "said goodbye")
            await asyncio.sleep(0.6)  # longer than `death`
            await fleet.rounds(50)
            assert fleet.worst < NOISE
            # A neighbor that restarts meanwhile remembers it, too.
            await fleet.remove(0)
            await fleet.start(listed(0, SQUARE, 1, VALUES))
            await asyncio.sleep(0.6)
            assert fleet.agents[0]._ledger.closings.keys() == {3}
            await fleet.start(listed(3, SQUARE, 1, VALUES))
            await fleet.rounds(100)
            assert not fleet.agents[0]._ledger.closings
            assert fleet.worst < NOISE
            await fleet.settled(AVERAGE)

    asyncio.run(live())


async def handed_over(agent: Agent) -> list[int]:
    agent.changes.wish(True)
    await until_true(lambda: json.loads(agent.changes.report)["done"], "handed over")
    heirs: list[int] = json.loads(agent.changes.report)["heirs"]
    return heirs


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [True, False], ids=["after mixing", "before"])
def test_who_leaves_hands_its_share_over(tmp_path: Path, mixed: bool) -> None:
    """Also before the fleet agrees: the members hold what all have observed, to rounding."""

    async def live() -> None:
        async with Changing(tmp_path) as fleet:
            await fleet.begin()
            if not mixed:
                for i in VALUES:
                    fleet.agents[i].observe(VALUES[i] + 8.0)  # means rise by 4
                await until_true(
                    lambda: all(a.snapshot.samples == 2 for a in fleet.agents.values()), "observed"
                )
            fleet.agents[3].observe(VALUES[3] + (4.0 if not mixed else 0.0))
            heirs = await handed_over(fleet.agents[3])
            assert heirs == [0, 2]
            await fleet.kill(3)
            fleet.follow([(0, 1), (1, 2), (0, 2)], 2, [0, 1, 2], kept=(3,), inherited=1)
            expected = AVERAGE + (0.0 if mixed else 4.0)
            await fleet.settled(expected)
            if mixed:
                assert fleet.worst < NOISE
            await until_true(
                lambda: abs(fleet.agents[1].snapshot.answers.observing(3, 1) - 3.0) < 1e-9, "all are counted"
            )
            now = fleet.agents[1].snapshot
            assert now.state == "running"
            assert now.problem == ""

    asyncio.run(live())


@pytest.mark.slow
def test_a_neighbor_that_was_away_when_another_left_reads_it_in_the_roster(tmp_path: Path) -> None:
    async def live() -> None:
        async with Changing(tmp_path) as fleet:
            await fleet.begin()
            away = fleet.agents[2]
            await fleet.kill(2)
            assert away._ledger.flow(3)[:, 1].any()
            heirs = await handed_over(fleet.agents[3])
            assert heirs == [0]
            await fleet.kill(3)
            triangle = [(0, 1), (1, 2), (0, 2)]
            fleet.follow(triangle, 2, [0, 1, 2], kept=(3,), inherited=1)
            await fleet.start(listed(2, triangle, 2, [0, 1, 2], kept=(), inherited=1))
            await fleet.settled(AVERAGE)

    asyncio.run(live())


@pytest.mark.slow
def test_what_was_handed_over_is_taken_back_unless_the_roster_says_so(tmp_path: Path) -> None:
    async def live() -> None:
        async with Changing(tmp_path) as fleet:
            await fleet.begin()
            await handed_over(fleet.agents[3])
            assert fleet.agents[3].snapshot.problem.startswith("it has handed its data over")
            await fleet.remove(3)  # and it goes on leaving after a restart
            again = await fleet.start(listed(3, SQUARE, 1, VALUES))
            await until_true(lambda: json.loads(again.changes.report)["done"], "handed over")
            fleet.follow(SQUARE, 2, VALUES)
            await until_true(
                lambda: not again._ledger.closings and again.settings.epoch == 2, "it takes part again"
            )
            await fleet.settled(AVERAGE)
            await fleet.adds_up()

    asyncio.run(live())


@pytest.mark.slow
def test_flows_set_to_zero_give_the_plain_average(tmp_path: Path) -> None:
    """Of a fleet whose flows add up to nothing possible, with an agent away that learns of it later."""

    async def live() -> None:
        async with Changing(tmp_path) as fleet:
            await fleet.begin()
            await fleet.kill(1)
            fleet.follow(SQUARE, 2, VALUES, kept=(7,))
            agent = fleet.agents[0]
            wrong = agent._ledger.remember().flows[3] * 0.0 + 5.0
            agent._ledger.parked[7] = Parked(wrong, "agent0", "agent7")
            fleet.follow(SQUARE, 3, VALUES, kept=(7,))
            await until_true(lambda: all(a.settings.epoch == 3 for a in fleet.agents.values()), "epoch 3")
            await until_true(lambda: "cannot have observed" in fleet.agents[2].snapshot.problem, "it is seen")
            fleet.follow(SQUARE, 4, VALUES, reset=4)
            await fleet.start(listed(1, SQUARE, 1, VALUES))
            await fleet.rounds(20)
            fleet.agents[1].apply(listed(1, SQUARE, 4, VALUES, reset=4))
            await fleet.settled(AVERAGE)
            await fleet.adds_up()

    asyncio.run(live())
