"""The range of the observations: bad data at the source, the limits that follow from it, and who is not running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.flow_bounds import faults
from tests.support.lockstep import (
    FLOW,
    GRID,
    RANGE,
    REGISTERS,
    WIDTH,
    Forger,
    Lockstep,
    Lying,
    Told,
    adds,
    loaded,
)
from tests.support.small_fleets import fleet
from tests.support.waiting import until

from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings, Neighbor
from gossamer.agents.round.bounds import SOFT, Bounds, EdgeLimits, edge_row
from gossamer.agents.round.ledger_state import RETURNING, LedgerState
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.statistics.readings import BadObservation
from gossamer.agents.transports.memory import Memory
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods import SDA, AnytimeSDA
from gossamer.methods.ledger import ledger_program
from gossamer.networks import Network

# -- the limits themselves ------------------------------------------------------------------------------------


def test_the_box_of_every_component() -> None:
    layout = Layout(2, variance=True, bins=(1.0, 2.0), replicates=1, range=((-40.0, 60.0), (10.0, 20.0)))
    assert layout.box is not None
    low, high = layout.box
    np.testing.assert_array_equal(low, [0, -40, 0, 0, 0, 0, 0, 0, 0, -800, -80])
    np.testing.assert_array_equal(high, [1, 60, 20, 3600, 400, 1, 1, 1, 1, 800, 80])
    assert len(low) == layout.size


def test_limits_follow_from_range_and_members() -> None:
    program = ledger_program(AnytimeSDA(), GRID)
    bounds = Bounds.of(Layout(1, range=(RANGE,)), program, 16)
    assert bounds is not None
    np.testing.assert_array_equal(bounds.rows[1:], [[8.0, FLOW]] * 2)
    assert (bounds.rows[0] > 15 * bounds.rows[1]).all()
    assert Bounds.of(Layout(1, range=(RANGE,)), program, 0) is None
    assert Bounds.of(Layout(1), program, 16) is None
    assert Bounds.of(Layout(1, range=(RANGE,), weighting="samples"), program, 16) is None


@pytest.mark.parametrize("name", ["grid:4x4", "cycle:9", "geometric:30", "star:12"])
def test_the_load_of_an_edge_is_its_largest_flow(name: str) -> None:
    """Of values in a box, and of masks; the same at both ends."""
    network = Network.named(name, "metropolis", 0)
    inverse = np.linalg.pinv(network.gossip.toarray(), hermitian=True)
    for i, j in network.edges[:: len(network.edges) // 4].tolist():
        row = -network.gossip[i, j] * (inverse[i] - inverse[j])
        one, other = network.edges.T
        for end, far in ((i, j), (j, i)):
            (near,) = (n for n in loaded(network, end) if n.id == far)
            assert near.load == pytest.approx(row[row > 0].sum(), rel=1e-6)
            assert near.detour == pytest.approx(np.abs(row[one] - row[other]).sum(), rel=1e-6)


def test_an_edge_whose_bound_takes_too_long_has_none() -> None:
    one, other = np.arange(99), np.arange(1, 100)
    assert edge_row(one, other, np.full(99, 0.3), (49, 50, 0.3)) is not None
    assert edge_row(one, other, np.full(99, 0.3), (49, 50, 0.3), most=2000) is None
    assert edge_row(one, other, np.full(99, 0.3), (49, 50, 0.3), most=10) is None


def limits_of(flow: float) -> EdgeLimits:
    program = ledger_program(AnytimeSDA(), GRID)
    bounds = Bounds.of(Layout(1, range=(RANGE,)), program, 16, None, [Neighbor(1, load=0.5), Neighbor(2)])
    assert bounds is not None
    return EdgeLimits(bounds, [1, 2, RETURNING], {1: np.full((2, 2), flow)})


def test_a_limit_widens_while_a_flow_stays_at_it() -> None:
    limits = limits_of(0.0)
    soft, hard = [SOFT * 0.5, SOFT * 0.5 * WIDTH], [8.0, FLOW]
    np.testing.assert_array_equal(limits.rows, [soft, hard, hard])
    flows = np.zeros((3, 2, 2))
    flows[0, 0, 1] = -soft[1]
    for _ in range(15):
        limits.look(flows)
        assert limits.strained == (1,)
        np.testing.assert_array_equal(limits.rows[0], soft)
    limits.look(flows)
    np.testing.assert_array_equal(limits.rows, [[soft[0], 2 * soft[1]], hard, hard])
    for _ in range(100):
        limits.look(flows)
    assert limits.strained == (1,)  # it is beyond the soft limit, but no longer at the limit
    np.testing.assert_array_equal(limits.rows, [[soft[0], 2 * soft[1]], hard, hard])
    for _ in range(100):
        flows[0, 0, 1] = -limits.rows[0, 1]
        limits.look(flows)
    np.testing.assert_array_equal(limits.rows, [[soft[0], hard[1]], hard, hard])
    limits.look(0 * flows)
    assert not limits.strained


def test_a_stored_flow_is_its_own_limit() -> None:
    np.testing.assert_array_equal(limits_of(3.0).rows[0], [3.0, SOFT * 0.5 * WIDTH])
    np.testing.assert_array_equal(limits_of(1e9).rows[0], [8.0, FLOW])


def test_the_final_flow_of_an_edge_is_clipped_to_its_limit_and_a_share() -> None:
    limits, flow = limits_of(0.0), np.array([[1e9, 140.0], [-1e9, 1e9]])
    np.testing.assert_array_equal(limits.clip_last(1, flow), [[2.0, 140.0], [-2.0, SOFT * 0.5 * WIDTH + 60]])
    np.testing.assert_array_equal(limits.clip_last(2, flow), [[8.0, 140.0], [-8.0, FLOW]])


@pytest.mark.slow
def test_a_liar_needs_thousands_of_rounds_to_widen_a_limit() -> None:
    """Its value is far below all others, so flows to it are at their limits, which double after 1024 rounds."""
    made = Lockstep(GRID, np.linspace(0.0, 10.0, 16), RANGE)

    def pull(told: Told) -> Told:
        told.shape(REGISTERS)[0, 1] = -1e4
        return told

    made.desks[5].lie = pull
    shifts = []
    for rounds in (600, 1100):
        made.run(rounds)
        shifts.append(made.average((5,)) - float(np.mean(made.estimates((5,)))))
    most = sum(SOFT * n.load * WIDTH for n in loaded(GRID, 5)) / 15
    np.testing.assert_allclose(shifts, [most, 2 * most], rtol=1e-6)
    made.remove(5)
    made.run(500)
    np.testing.assert_allclose(made.estimates(), made.average((5,)), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_an_honest_flow_beyond_its_limit_gets_through(loss: float) -> None:
    """With limits of half their size, flows on a cycle of which an agent has died are beyond them. The average is right
    to 1e-9 once the limits have widened, one after the other, although the two ends do so at different times."""
    cycle = Network.cycle(8)
    means = np.where(np.arange(8) < 4, *RANGE)
    made = Lockstep(cycle, means, RANGE, loss=loss, seed=2)
    for i, desk in made.desks.items():
        limits = desk.ledger.limits
        limits.rows /= 2.0
        limits._from /= 2.0
        limits._looks += 3 * (i % 4)
    made.remove(7)
    made.run(700)
    strained = [desk.ledger.limits.strained for desk in made.desks.values()]
    assert any(strained)
    assert np.abs(made.estimates() - made.average((7,))).max() > 1.0
    made.run(6000)
    np.testing.assert_allclose(made.estimates(), made.average((7,)), rtol=0, atol=1e-9 * WIDTH)
    for i, desk in made.desks.items():
        for j in desk.conversation.peers.keys() - {7}:
            np.testing.assert_allclose(desk.ledger.flow(j), -made.desks[j].ledger.flow(i), atol=1e-9 * WIDTH)
        assert not {"value", "flow", "echo", "quarantine"} & set(desk.rejected)


@pytest.mark.slow
def test_random_faults_exclude_no_honest_agent() -> None:
    """A small part of the run of docs/security.md."""
    found = faults(1)
    assert found["fleets"] > 0
    assert (found["quarantined"], found["refused"], found["wrong"]) == (0, 0, 0)


def test_registers_that_are_no_flows_cannot_be_bounded() -> None:
    program = ledger_program(SDA(output="last"), GRID)
    odd = program._replace(step=2 * program.step)
    with pytest.raises(Unsupported, match="leave range out, or use anytime-sda"):
        Bounds.of(Layout(1, range=(RANGE,)), odd, 16)


def test_what_was_stored_without_limits_is_clipped(caplog: pytest.LogCaptureFixture) -> None:
    bounds = Bounds.of(Layout(1, range=(RANGE,)), ledger_program(AnytimeSDA(), GRID), 16)
    assert bounds is not None
    fine = LedgerState(9, 9, 9.0, np.array([[1.0, 60.0], [1.0, 5.0]]), {1: np.full((2, 2), 7.0)})
    with caplog.at_level(logging.WARNING):
        kept = bounds.clip(fine)
        assert not caplog.messages
        wild = LedgerState(9, 9, 9.0, np.array([[1.0, 3.5e8], [1.0, 5.0]]), {1: np.full((2, 2), -1e9)})
        found = bounds.clip(wild)
    np.testing.assert_array_equal(kept.flows[1], fine.flows[1])
    np.testing.assert_array_equal(found.local, [[1.0, 60.0], [1.0, 5.0]])
    np.testing.assert_array_equal(found.flows[1], [[-8.0, -FLOW]] * 2)
    assert caplog.messages == [
        "the stored state was outside the range of the fleet and has been clipped to it"
    ]


@pytest.mark.parametrize("range", [(60, -40), (1,), (0, np.inf), ((0, 1), (0, 1), (0, 1)), "wide", (5, 5)])
def test_a_range_must_be_pairs(range: Any) -> None:
    with pytest.raises(
        InvalidInput, match=r"range must be the least and the largest value .* such as \[-40, 60\]"
    ):
        AgentSettings(0, (Neighbor(1, 0.3),), dimension=2, range=range)


def test_one_pair_serves_all_components() -> None:
    settings = AgentSettings(0, (Neighbor(1, 0.3),), dimension=2, range=(-40, 60))  # type: ignore[arg-type]
    assert settings.range == ((-40.0, 60.0), (-40.0, 60.0))
    with pytest.raises(
        InvalidInput, match="members must count this agent and its 1 neighbors at least, got 1"
    ):
        settings.with_(members=1)
    with pytest.raises(InvalidInput, match="outside must be"):
        settings.with_(outside="ignore")


# -- bad data at the source, and states -----------------------------------------------------------------------


def run_fleet(
    what: Callable[[list[Agent]], None],
    sources: list[Any] | None = None,
    network: Network | None = None,
    **changes: Any,
) -> None:
    """Run `what` while a small fleet in one process lives."""

    async def live() -> None:
        memory = Memory()
        some = fleet(network or Network.path(2), pace=0.002, death=0.5, timeout=0.05, **changes)
        agents = []
        for s in some:
            forger = Forger(s.id, Layout.of(s).size, REGISTERS, s.fingerprint)
            transport = Lying(memory.transport(s.id, tuple(n.id for n in s.neighbors)), forger)
            agents.append(Agent(s, transport=transport, source=sources[s.id] if sources else None))  # type: ignore[arg-type]
        for agent in agents:
            await agent.__aenter__()
        try:
            await asyncio.to_thread(what, agents)
        finally:
            for agent in agents:
                await agent.__aexit__(None, None, None)

    asyncio.run(live())


def test_a_reading_outside_the_range_is_refused() -> None:
    def see(agents: list[Agent]) -> None:
        with pytest.raises(
            BadObservation, match=r"must be in the range \[-40, 60\], got \[1000000000000.0\]"
        ):
            agents[0].observe(1e12)
        until(lambda: agents[0].snapshot.samples == 2, "both readings")
        until(lambda: all(abs(agent.estimate - 25.0) < 1e-6 for agent in agents), "average")
        shot = agents[0].snapshot
        assert (shot.samples, shot.bad, shot.clipped, shot.state) == (2, 1, 0, "running")

    run_fleet(see, [[20.0, 1e12, 20.0], [30.0]], range=RANGE, members=2)


def test_a_reading_outside_the_range_is_clipped_if_so_set(caplog: pytest.LogCaptureFixture) -> None:
    def see(agents: list[Agent]) -> None:
        until(lambda: agents[0].snapshot.samples == 2, "both readings")
        agents[0].observe(-1e12)
        until(lambda: agents[0].snapshot.samples == 3, "the third")
        until(lambda: abs(agents[1].estimate - (40.0 / 3 + 30.0) / 2) < 1e-6, "average")
        shot = agents[0].snapshot
        assert (shot.bad, shot.clipped, shot.state) == (0, 2, "running")

    with caplog.at_level(logging.WARNING):
        run_fleet(see, [[20.0, 1e12], [30.0]], range=RANGE, outside="clip", members=2)
    assert "observation outside [-40, 60] clipped: [1000000000000.0]" in caplog.messages


def test_an_estimate_outside_the_range_is_not_running() -> None:
    """As a liar below the limits, or a fleet whose files differ, can bring about."""

    def see(agents: list[Agent]) -> None:
        agents[1]._intake.range.high[:] = 1e3
        agents[0].observe(20.0)
        agents[1].observe(900.0)
        until(lambda: agents[0].snapshot.state == "degraded", "doubt")
        until(lambda: abs(agents[0].snapshot.answers.held[0] - 460.0) < 1e-3, "average")
        assert agents[0].snapshot.problem == (
            "the estimate 460 is outside the range [-40, 60], so the nearest end is reported"
        )
        assert agents[0].estimate == 60.0

    run_fleet(see, range=RANGE)


def test_who_has_observed_and_knows_nothing_is_not_running() -> None:
    def see(agents: list[Agent]) -> None:
        agents[0].observe(20.0)
        until(lambda: abs(agents[1].estimate - 20.0) < 1e-6, "average")
        assert agents[0].snapshot.state == agents[1].snapshot.state == "running"

        def doubted() -> bool:
            agents[1]._ledger.mean[0] = -3.0  # as a liar claims; a round under way may overwrite it
            return agents[0].snapshot.state == "degraded"

        until(doubted, "doubt")
        assert agents[0].snapshot.problem == "the agent has observed, but has no estimate"

    run_fleet(see)


def test_quarantine_is_reported_and_can_be_pardoned() -> None:
    def see(agents: list[Agent]) -> None:
        for agent in agents:
            agent.observe(20.0)
        until(lambda: all(n.state == "alive" for n in agents[1].snapshot.neighbors), "a conversation")
        agents[0]._transport.lie = adds(1e9, slice(None))  # type: ignore[attr-defined]
        why = "in quarantine for impossible claims or a flood: agent0"
        until(lambda: agents[1].snapshot.problem == why, "quarantine")
        assert agents[1].snapshot.state == "degraded"
        until(lambda: [n.state for n in agents[1].snapshot.neighbors] == ["quarantined", "alive"], "states")
        assert agents[1].snapshot.rejected["flow"] == 5
        agents[0]._transport.lie = None  # type: ignore[attr-defined]
        until(lambda: agents[0].snapshot.neighbors[0].state == "dead", "silence toward the liar")
        agents[1].pardon()
        until(lambda: agents[1].snapshot.state == "running", "pardon")
        until(lambda: agents[1].snapshot.neighbors[0].state == "alive", "a new beginning")
        until(lambda: abs(agents[2].estimate - 20.0) < 1e-6, "average")

    run_fleet(see, range=RANGE, members=3, network=Network.path(3))
