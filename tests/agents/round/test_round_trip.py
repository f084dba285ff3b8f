"""Round trips are those of the network, and a round waits as long as they ask for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.memory_fleet import enter, leave
from tests.support.relay import slow_link
from tests.support.small_fleets import PLAINTEXT, fleet, free_ports
from tests.support.waiting import until_true

from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.round_trip import RoundTrip, timeout_of
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA
from gossamer.networks import Network


def settings(**changes: Any) -> AgentSettings:
    return AgentSettings(0, (), method=AnytimeSDA("local"), **changes)


def trip(mean: float, deviation: float) -> RoundTrip:
    made = RoundTrip()
    made.mean, made.deviation = mean, deviation
    return made


def test_the_mean_and_the_deviation_are_those_of_tcp() -> None:
    made = RoundTrip()
    made.add(0.4)
    assert (made.mean, made.deviation) == (0.4, 0.2)
    made.add(0.8)
    assert made.deviation == pytest.approx(0.2 + (0.4 - 0.2) / 4)
    assert made.mean == pytest.approx(0.4 + 0.4 / 8)
    for _ in range(100):
        made.add(0.1)
    assert made.mean == pytest.approx(0.1, rel=1e-3)
    assert made.deviation < 1e-3


@pytest.mark.parametrize(
    ("pace", "known", "seconds"),
    [
        (0.1, None, 0.2),  # nothing is known yet
        (0.1, trip(0.001, 0.0001), 0.05),  # a local network
        (0.1, trip(0.16, 0.03), 0.28),  # 80 +- 40 ms each way
        (0.1, trip(0.16, 0.2), 0.32),  # what takes much longer than others is lost for its round
        (1.0, trip(0.16, 0.2), 0.96),  # there is time for it at a slower pace
        (None, trip(0.16, 0.2), 0.96),
        (None, trip(5.0, 1.0), 2.0),
    ],
)
def test_a_round_waits_as_long_as_the_round_trip_asks_for(
    pace: float | None, known: RoundTrip | None, seconds: float
) -> None:
    assert timeout_of(settings(pace=pace), known) == pytest.approx(seconds)
    assert timeout_of(settings(pace=pace, timeout=0.7), known) == 0.7
    assert timeout_of(settings(pace=pace, death=0.02), known) == 0.01


def test_a_timeout_is_a_time_or_auto() -> None:
    for wrong in ("soon", 0.0, -1.0):
        with pytest.raises(InvalidInput, match="timeout must be"):
            settings(timeout=wrong)


@pytest.mark.slow
@pytest.mark.filterwarnings(PLAINTEXT)
@pytest.mark.parametrize("pace", [0.1, 0.4])
def test_a_slow_network_needs_no_setting(pace: float) -> None:
    """80 +- 40 ms each way: the round trip is about 160 ms at any pace, and hardly a message comes too late."""
    first, second = fleet(Network.path(2), pace=pace, timeout="auto")
    [port] = free_ports(1)
    far = tuple(replace(n, endpoint=f"127.0.0.1:{port}") for n in second.neighbors)
    agents = [Agent(first), Agent(replace(second, neighbors=far))]

    async def main() -> None:
        await enter(agents)
        agents[0].observe(1.0)
        agents[1].observe(3.0)
        await until_true(lambda: agents[0].snapshot.neighbors[0].used >= 10, "ten rounds")
        views = [agent.snapshot.neighbors[0] for agent in agents]
        await leave(agents)
        for view in views:
            assert 0.08 < view.round_trip < 0.4  # 160 ms, or more on a busy machine, but not the pace
            assert view.lost <= 0.3 * (view.used + view.lost)
        assert [agent.estimate for agent in agents] == pytest.approx([2.0, 2.0], abs=0.2)

    with slow_link(port, int(first.endpoint.rpartition(":")[2]), (0.04, 0.12)):
        asyncio.run(main())
