"""Fleets that change while they run: neighbors come and go, settings must agree, rosters are passed on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.memory_fleet import Fleet, member
from tests.support.waiting import until_true

from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.ledger_state import KEPT
from gossamer.agents.round.transport import Transport
from gossamer.agents.transports.memory import Memory
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA


@pytest.mark.slow
def test_agents_come_and_go() -> None:
    async def live() -> None:
        async with Fleet() as fleet:
            for me, neighbors in enumerate([(1, 3), (0, 2), (1, 3), (0, 2)]):
                await fleet.add(member(me, neighbors), 10.0 * me)
            await fleet.at(15.0)
            await fleet.remove(3)  # and its data stay
            for me, neighbors in enumerate([(1, 2), (0, 2), (0, 1)]):
                fleet.agents[me].apply(member(me, neighbors, kept=(3,), epoch=1))
            await until_true(lambda: all(a.snapshot.epoch == 1 for a in fleet.agents.values()), "epoch 1")
            await fleet.at(15.0)
            await fleet.remove(2)  # with its data
            await fleet.add(member(4, (0,), epoch=2), 95.0)
            fleet.agents[0].apply(member(0, (1, 4), epoch=2))
            fleet.agents[1].apply(member(1, (0,), epoch=2))
            # What agents 0 and 1 have seen, what 3 left to 0, and the new one.
            seen, value = fleet.agents[0]._ledger.remember().flows[KEPT][0]
            await fleet.at((0.0 + 10.0 + value + 95.0) / (3 + seen))
            assert {n.epoch for n in fleet.agents[1].snapshot.neighbors} == {2}

    asyncio.run(live())


def test_what_is_averaged_cannot_change_while_the_agent_runs() -> None:
    agent = Agent(member(0, (1,)), transport=Memory().transport(0, (1,)))
    changed, waiting = agent.apply(member(0, (1,), pace=0.5, weighting="samples"))
    assert (changed, waiting) == (["pace"], ["weighting"])


def test_a_slow_pace_still_bears_lost_messages_after_a_change() -> None:
    """Death never comes before `silence` rounds, also for an agent whose settings have changed."""
    told: list[tuple[float, float]] = []
    agent = Agent(member(0, (1,)), transport=Memory().transport(0, (1,)))
    agent.changes._conversation = SimpleNamespace(  # type: ignore[assignment]
        adjust=lambda timeout, death: told.append((timeout, death)),
        barred=frozenset(),
        **dict.fromkeys(("part", "rewire", "follow", "gather"), lambda *given: None),
    )
    agent.apply(member(0, (1,), pace=10.0, death=5.0))
    agent._make_change()
    assert told == [(0.05, 50.0)]


def test_a_neighbor_with_other_settings_is_not_averaged_with() -> None:
    """Each end says which field differs, and keeps its own average."""

    async def live() -> None:
        async with Fleet() as fleet:
            await fleet.add(member(0, (1, 2)), 0.0)
            await fleet.add(member(1, (0,)), 10.0)
            odd = await fleet.add(member(2, (0,), weighting="samples", replicates=2), 1000.0)
            await until_true(lambda: bool(odd.snapshot.problem), "the difference is seen")
            del fleet.agents[2]
            await fleet.at(5.0)
            problem = fleet.agents[0].snapshot.problem
            assert (
                problem == "agent2 is not averaged with, because its settings differ: weighting, replicates"
            )
            assert fleet.agents[0].snapshot.state == odd.snapshot.state == "degraded"
            assert fleet.agents[0].snapshot.rejected["settings"] > 0
            assert odd.estimate == pytest.approx(1000.0)
            await odd.__aexit__(None, None, None)

    asyncio.run(live())


def test_a_roster_is_sent_to_neighbors_that_are_behind() -> None:
    came: list[tuple[int, bytes]] = []

    async def live() -> None:
        async with Fleet() as fleet:
            await fleet.add(member(0, (1,)), 0.0)
            behind = await fleet.add(member(1, (0,)), 10.0)
            behind._conversation.roster_came = lambda sender, roster: came.append((sender, roster))
            fleet.agents[0].apply(member(0, (1,), epoch=5, roster=b"signed" * 1000))
            await until_true(lambda: bool(came), "the roster arrives")
            behind.apply(member(1, (0,), epoch=5, roster=b"signed" * 1000))
            await until_true(lambda: fleet.agents[0].snapshot.neighbors[0].epoch == 5, "it has caught up")

    asyncio.run(live())
    assert came == [(0, b"signed" * 1000)]


# -- what can be asked of a fleet -----------------------------------------------------------------------------


@pytest.mark.slow
def test_statistics_of_a_fleet() -> None:
    """Covariance, sum, number of observing members, and extremes, which reset when a member leaves."""
    rows = {0: [1.0, 2.0], 1: [3.0, -4.0], 2: [-6.0, 5.0]}
    asked = {"dimension": 2, "variance": True, "covariance": True, "extremes": True, "replicates": 8}
    edges = {0: (1, 3), 1: (0, 2), 2: (1, 3), 3: (0, 2)}

    async def live() -> None:
        network = Memory()

        def connect(settings: AgentSettings) -> Transport:
            return network.transport(settings.id, tuple(n.id for n in settings.neighbors))

        made = [member(i, near, members=4, **asked) for i, near in edges.items()]
        agents = [Agent(settings, transport=connect(settings)) for settings in made]
        async with AsyncExitStack() as stack:
            for agent in agents:
                await stack.enter_async_context(agent)
            for i, row in rows.items():  # agent 3 observes nothing
                agents[i].observe(row)
            seen = np.array(list(rows.values()))
            await until_true(
                lambda: all(a.snapshot.answers.observing(4) > 2.999999 for a in agents), "the average"
            )
            await until_true(
                lambda: all(abs(a.estimate - seen.mean(axis=0)).max() < 1e-6 for a in agents), "the mean"
            )
            now = agents[3].snapshot
            assert now.answers.observing(4) == pytest.approx(3.0, abs=1e-5)
            np.testing.assert_allclose(now.answers.total(4), seen.sum(axis=0), atol=1e-4)
            np.testing.assert_allclose(now.answers.covariance, np.cov(seen.T, ddof=0), atol=1e-4)
            np.testing.assert_array_equal(now.least, seen.min(axis=0))
            np.testing.assert_array_equal(now.largest, seen.max(axis=0))
            for i, near in enumerate([(1, 3), (0, 3)]):
                agents[i].apply(member(i, near, members=3, epoch=1, **asked))
            agents[3].apply(member(3, (0, 1), members=3, epoch=1, **asked))
            left = seen[:2]
            await until_true(
                lambda: bool(np.all(agents[3].snapshot.least == left.min(axis=0))), "without agent 2"
            )
            await until_true(
                lambda: bool(np.all(agents[0].snapshot.largest == left.max(axis=0))), "without agent 2"
            )

    asyncio.run(live())


def test_wrong_combinations_are_refused() -> None:
    with pytest.raises(InvalidInput, match="covariance needs variance and observations of at least two"):
        member(0, (1,), covariance=True, variance=True)
    with pytest.raises(InvalidInput, match="extremes are those of all observations so far"):
        member(0, (1,), extremes=True, method=AnytimeSDA(acceleration="local", gain=0.1))
