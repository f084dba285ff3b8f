"""Agents without news are silent, agree nevertheless, and stay alive; agents may round what they say."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.support.lockstep import Lockstep
from tests.support.memory_fleet import in_memory, leave, member
from tests.support.virtual_time import VirtualTime, rounds

from gossamer.agents.round.quiet import SilenceRule, largest_single
from gossamer.agents.statistics.layout import Layout
from gossamer.errors import InvalidInput
from gossamer.networks import Network

ROUNDS = 400


def rows(mean: float, error: float) -> np.ndarray:
    """A value of half of the agents, and two registers of an edge."""
    return 0.5 * np.array([1.0, mean, error, error, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0])


def test_news_is_a_tenth_of_a_standard_error_to_the_agent_or_from_a_neighbor() -> None:
    rule = SilenceRule(Layout(1, replicates=2), 5)
    assert rule.speaks(5, rows(3.0, 1.0), [np.empty(0)])
    assert rule.speaks(6, rows(3.0, 1.0), [np.empty(0)])  # a neighbor that was not heard yet
    assert not rule.speaks(7, rows(3.09, 1.0), [rows(3.0, 0.0)])
    assert rule.speaks(7, rows(3.11, 1.0), [rows(3.05, 0.0)])
    assert rule.speaks(8, rows(3.11, 1.0), [rows(3.1, 0.0), rows(3.0, 0.0)])
    assert not rule.speaks(9, rows(3.2, 1.0), [rows(3.2, 0.0)])
    assert rule.speaks(13, rows(3.2, 1.0), [rows(3.2, 0.0)])  # its first round since 10
    assert not rule.speaks(14, rows(3.2, 1.0), [rows(3.2, 0.0)])
    assert rule.speaks(14, rows(3.2, 0.0), [rows(3.2, 0.0)])  # an error that is not known yet


def test_a_quiet_fleet_agrees_with_fewer_messages() -> None:
    values = np.random.default_rng(1).normal(10.0, 1.0, (4, 40))
    time = VirtualTime(4)
    agents = [
        time.agent(
            member(i, tuple(j for j in (i - 1, i + 1) if 0 <= j < 4), pace=0.1, replicates=8, quiet=True),
            source=values[i].tolist(),
            seed=i,
        )
        for i in range(4)
    ]

    async def run() -> list[list[float]]:
        ends = await rounds(agents, time, ROUNDS)
        for agent in agents:
            assert agent.snapshot.state == "running"
            assert {n.state for n in agent.snapshot.neighbors} == {"alive"}
        await leave(agents)
        return ends

    ends = asyncio.run(run())
    assert max(times[-1] for times in ends) < 0.1 * (ROUNDS + 1)  # silence does not slow rounds down
    estimates = np.array([agent.estimate for agent in agents])
    error = values.std() / np.sqrt(values.size)
    assert np.abs(estimates - values.mean()).max() < 0.1 * error
    sent = sum(agent._conversation.sent for agent in agents)
    assert sent < 0.5 * 6 * ROUNDS  # of which the readings, in the first 40 rounds, need most


@pytest.mark.parametrize("asked", [{"quiet": True}, {"precision": "single"}])
@pytest.mark.parametrize(
    "changes", [{"replicates": 0}, {"replicates": 8, "mask": (1.0,), "least_neighbors": 1}]
)
def test_where_an_agent_can_neither_be_quiet_nor_round(
    asked: dict[str, object], changes: dict[str, object]
) -> None:
    with pytest.raises(
        InvalidInput, match=rf"{next(iter(asked))} is for averages with a standard error.* replicates above 0"
    ):
        in_memory([member(0, (1,), **asked, **changes)])


def test_a_variance_is_not_rounded() -> None:
    with pytest.raises(InvalidInput, match="precision cannot be combined with variance"):
        in_memory([member(0, (1,), precision="single", replicates=8, variance=True)])


def test_rounding_is_small_against_the_standard_error() -> None:
    layout = Layout(1, replicates=2)
    largest = largest_single(layout, rows(20.0, 0.3)[:4])
    assert 2.0**-24 * largest == pytest.approx(0.01 * 0.5 * 0.3)
    assert largest_single(layout, rows(20.0, 0.0)[:4]) == 0.0  # not known yet
    assert largest_single(layout, np.zeros(4)) == 0.0  # nothing was observed


def test_edges_that_end_have_the_same_flow_although_messages_are_rounded() -> None:
    means = np.random.default_rng(3).uniform(0.0, 10.0, 4)
    fleet = Lockstep(Network.path(4), means, loss=0.2, single=lambda vector: 1e30)
    fleet.run(150)
    assert 1e-9 < np.abs(fleet.estimates() - means.mean()).max() < 1e-5
    one, other = fleet.desks[1].ledger, fleet.desks[2].ledger
    assert one.flow(2).astype("f4").astype(float) != pytest.approx(one.flow(2), rel=1e-12, abs=0)
    one.close(2)
    fleet.run(20)
    assert one.closings[2].matched
    assert np.array_equal(one.flow(2), -other.flow(1))


def test_neighbors_are_not_dead_between_two_messages() -> None:
    assert member(0, (1,), quiet=True, pace=60.0).dead_after == 15 * 60
    assert member(0, (1,), pace=60.0).dead_after == 5 * 60
