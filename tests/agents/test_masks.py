"""Fleets with masks: right averages under loss, kills and joins, and nothing of an observation on the wire."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import numpy as np
import pytest
from tests.support.lockstep import Lockstep
from tests.support.memory_fleet import in_memory, member
from tests.support.small_fleets import free_ports
from tests.support.waiting import until, until_true

from gossamer.agents.config.model import FleetModel
from gossamer.agents.config.settings import AgentSettings, Limits
from gossamer.agents.fleet.local import LocalFleet
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.planning import exposures
from gossamer.agents.round.bounds import Bounds
from gossamer.agents.round.masking import stream
from gossamer.agents.round.messages import Outgoing, Received
from gossamer.agents.round.wire import Codec, Reason
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.store import maintenance
from gossamer.agents.store.agent_store import AgentStore
from gossamer.errors import InvalidInput
from gossamer.faults import Loss
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import ledger_program
from gossamer.networks import Network

GRID = Network.grid(3, 4)
MEANS = np.array([3.0, 8.0, -2.0, 5.0, 7.5, 1.0, 0.0, 12.0, 4.0, 9.0, -6.0, 2.5])
SCALE = 1000.0


def masked(**options) -> Lockstep:
    return Lockstep(GRID, MEANS, method=AnytimeSDA("local"), mask=SCALE, **options)


@pytest.mark.slow
def test_a_fleet_survives_loss_a_kill_and_a_join() -> None:
    """30% of all messages are lost; an agent joins; one is killed, restarts from an old store, and later from none.

    One mask that only one end has would move the average by about 1000/12.
    """
    fleet = masked(loss=0.3, death=3.0)
    joiner = fleet.desks.pop(11)  # it is there from round 300 on
    fleet.run(600)
    assert joiner.ledger.age == 0
    np.testing.assert_allclose(fleet.estimates(), MEANS[:11].mean(), atol=0.05)
    fleet.restart(11)
    fleet.run(600)
    np.testing.assert_allclose(fleet.estimates(), MEANS.mean(), atol=0.05)
    state = fleet.desks[5].ledger.remember()
    fleet.run(10)
    fleet.remove(5)
    fleet.run(5)
    fleet.restart(5, state)  # before it is held for dead: nothing but its silence shows
    fleet.run(20)
    np.testing.assert_allclose(fleet.estimates(), MEANS.mean(), atol=0.05)
    fleet.remove(5)
    fleet.run(600)
    np.testing.assert_allclose(fleet.estimates(), np.delete(MEANS, 5).mean(), atol=0.05)
    fleet.restart(5)
    fleet.run(600)
    np.testing.assert_allclose(fleet.estimates(), MEANS.mean(), atol=0.05)
    for i, j in GRID.edges.tolist():
        mine, theirs = (fleet.desks[a].ledger.masks.kept[b] for a, b in ((i, j), (j, i)))
        np.testing.assert_array_equal(mine, -theirs)


@pytest.mark.slow
def test_what_a_curious_neighbor_can_learn_is_what_the_formula_says() -> None:
    """Agent 5 reads everything it is sent, and takes off the masks that it knows: what is left of the first value of a
    neighbor has variance s^2 times that neighbor's other edges, and the mean of that is all it knows of the level."""
    reader = Codec(5, frozenset(range(12)), 2, 2, Limits(), masks=np.array([0.0, 9 * SCALE]))
    scores = []
    for seed in range(60):
        fleet = masked(seed=seed)
        curious = fleet.desks[5]
        wire: list[tuple[int, bytes]] = []

        class Recording(list):
            def append(self, item, wire=wire) -> None:
                wire.append(item)
                super().append(item)

        curious.inbox = Recording()
        fleet.run(6)
        first: dict[int, float] = {}
        for sender, payload in wire:
            message = reader.decode(sender, payload, 0)
            assert isinstance(message, Received)
            told = np.frombuffer(message.rows)[1]
            if message.mask[0] & 1:
                first.setdefault(sender, told)
            elif told:
                assert abs(told) == abs(curious.ledger.masks.kept[sender][1])  # nothing but their own mask
        assert sorted(first) == [1, 4, 6, 9]
        for i, value in first.items():
            others = len(GRID.neighbors(i)) - 1
            known = -curious.ledger.masks.kept[i][1]
            scores.append((value - known - MEANS[i]) / (SCALE * np.sqrt(others)))
    count = len(scores)
    assert abs(np.mean(scores)) < 5 / np.sqrt(count)
    assert abs(np.var(scores) - 1.0) < 5 * np.sqrt(2 / count)


@pytest.mark.slow
def test_whole_agents_with_every_statistic_and_a_store(tmp_path: Path) -> None:
    """Everything that is averaged is right; masks are in stores that only their owner can read, and nowhere else."""
    edges = {0: (1, 3), 1: (0, 2), 2: (1, 3), 3: (0, 2)}
    options = {"mask": 50.0, "variance": True, "bins": (0.0, 2.0, 4.0), "replicates": 2, "dimension": 1}

    async def main() -> None:
        agents = in_memory(
            member(i, others, members=4, range=(-10.0, 10.0), **options) for i, others in edges.items()
        )
        stores = [tmp_path / f"{i}.db" for i in range(4)]
        agents = [
            type(a)(a.settings, transport=a._transport, store=store)
            for a, store in zip(agents, stores, strict=True)
        ]
        for agent in agents:
            await agent.__aenter__()
            for value in (1.0 * agent.settings.id, 2.0 * agent.settings.id):
                agent.observe(value)
        await until_true(lambda: all(abs(a.estimate - 2.25) < 1e-6 for a in agents), "the average")
        await until_true(lambda: all(a.snapshot.settled for a in agents), "settled")
        await until_true(lambda: all(a.snapshot.acknowledged == 2 for a in agents), "stored")
        for agent in agents:
            now = agent.snapshot
            assert now.state == "running", now.problem
            assert now.variance == pytest.approx(np.mean([0, 0, 1, 4, 4, 16, 9, 36]) - 2.25**2, abs=1e-3)
            np.testing.assert_allclose(now.answers.distribution[:, 0], [2 / 8, 5 / 8, 7 / 8], atol=1e-5)
            assert now.answers.observing(4) == pytest.approx(4.0, abs=1e-3)
        masks = agents[0]._ledger.masks.kept
        assert sorted(masks) == [1, 3]
        assert not masks[1][0]  # whether it has observed is not masked
        assert np.all(masks[1][1:])
        shown = repr(agents[0].snapshot) + repr(agents[0].settings)
        assert not any(repr(float(number))[:8] in shown for number in masks[1][1:])
        for agent in agents:
            await agent.__aexit__(None, None, None)
        store = AgentStore(stores[0], 0, agents[0].layout.size)
        np.testing.assert_array_equal(store.load().ledger.masks[1], masks[1])
        store.close()
        assert stat.S_IMODE(stores[0].stat().st_mode) == 0o600

    asyncio.run(main())


@pytest.mark.slow
def test_a_linear_model_from_masked_covariances_is_that_of_all_rows() -> None:
    """Averaged covariances of covariates and label are a regression, whose sums do not depend on an estimate."""
    generator = np.random.default_rng(1)
    x = generator.normal(3.0, 1.0, (12, 30, 2))
    rows = np.concatenate(
        [x, x @ [[1.5], [-0.7]] + 2.0 + generator.standard_normal((12, 30, 1))], axis=2
    )  # of 12 agents
    layout = Layout(3, variance=True, covariance=True)
    pairs = [rows[:, :, a] * rows[:, :, b] for a, b in ((0, 1), (0, 2), (1, 2))]
    means = [np.mean(part, axis=1) for part in (rows, rows**2, np.stack(pairs, axis=2))]
    told = np.column_stack([np.ones(12), *means])

    def slopes(mask: float) -> np.ndarray:
        fleet = Lockstep(GRID, told, method=AnytimeSDA("local"), layout=layout, mask=mask)
        fleet.run(400)
        matrices = [layout.read(desk.ledger.estimate).covariance for desk in fleet.desks.values()]
        return np.array([np.linalg.solve(matrix[:2, :2], matrix[:2, 2]) for matrix in matrices])

    flat = rows.reshape(-1, 3)
    fitted = np.linalg.lstsq(np.column_stack([flat[:, :2], np.ones(360)]), flat[:, 2], rcond=None)[0]
    masked_slopes = slopes(100.0)
    np.testing.assert_allclose(masked_slopes, np.tile(fitted[:2], (12, 1)), rtol=1e-9)
    np.testing.assert_allclose(masked_slopes, slopes(0.0), rtol=1e-9)


def test_settings_that_cannot_be_masked_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match="the extremes of a fleet are observations of a member; leave out mask or ext"
    ):
        AgentSettings(0, (), method=AnytimeSDA("local"), mask=1.0, extremes=True)
    with pytest.raises(
        InvalidInput,
        match="the sums of a model change with its estimate, and the changes would reveal the ro",
    ):
        AgentSettings(
            0, (), method=AnytimeSDA("local"), mask=1.0, dimension=2, model=FleetModel("logistic", ("x",))
        )
    with pytest.raises(InvalidInput, match="the changes would reveal the sums; leave out mask or weighting"):
        AgentSettings(0, (), method=AnytimeSDA("local"), mask=1.0, weighting="samples")
    with pytest.raises(
        InvalidInput, match=r"mask must be one number, or one for each of the 1 component\(s\), got 2 num"
    ):
        AgentSettings(0, (), method=AnytimeSDA("local"), mask=(1.0, 2.0))
    with pytest.raises(
        InvalidInput, match="mask must be a number of at least 0, or one above 0 per component"
    ):
        AgentSettings(0, (), method=AnytimeSDA("local"), mask=-1.0)
    star = Network.star(4)
    with pytest.raises(
        InvalidInput, match=r"got 2, but these have fewer: agent1, agent2, agent3; link them to more agents"
    ):
        Fleet.create(star, privacy={"mask": 10.0, "least_neighbors": 2})
    with pytest.raises(
        InvalidInput, match=r"allow flows of 4\.2.*e\+13 in component 1 .*, whose width is 10, and rounding"
    ):
        Fleet.create(star, privacy={"mask": 1e12}, observations={"range": [0.0, 10.0]})


def test_masks_are_agreed_by_fingerprint_and_cost_fleets_without_them_nothing() -> None:
    plain, one, two = (AgentSettings(0, (), method=AnytimeSDA("local"), mask=mask) for mask in ((), 5.0, 6.0))
    assert len({plain.fingerprint, one.fingerprint, two.fingerprint}) == 3
    assert one.fingerprint.startswith(plain.fingerprint[:18])
    rows = np.zeros(6)
    with_mask = Outgoing(1, 0, True, rows.tobytes(), mask=b"\x02" + bytes(8))
    masks = np.array([0.0, 5.0])
    sender, hearer = (Codec(i, frozenset({1 - i}), 2, 2, Limits(), masks=masks) for i in (0, 1))
    unmasked = Codec(1, frozenset({0}), 2, 2, Limits())
    assert isinstance(hearer.decode(0, sender.encode(0, with_mask), 0), Received)
    assert unmasked.decode(0, sender.encode(0, with_mask), 0) in (Reason.SIZE, Reason.GARBAGE)
    assert hearer.decode(0, sender.encode(0, Outgoing(1, 0, True, rows.tobytes())), 0) is Reason.GARBAGE
    rows[1] = 6.0  # a mask beyond what can be drawn
    forged = Outgoing(1, 0, True, rows.tobytes(), mask=b"\x02" + bytes(8))
    assert hearer.decode(0, sender.encode(0, forged), 0) is Reason.VALUE


def test_masks_of_all_components_and_the_bounds_that_follow() -> None:
    layout = Layout(2, variance=True, covariance=True, bins=(0.0, 5.0), replicates=1, range=((0, 10), (0, 1)))
    scales = layout.masks((10.0, 2.0))
    np.testing.assert_array_equal(scales, [0, 10, 2, 100, 4, 2, 0.4, 2, 0.4, 20, 10, 2])
    program = ledger_program(AnytimeSDA("local"), GRID, 10)
    plain, wide = Bounds.of(layout, program, 12), Bounds.of(layout, program, 12, scales)
    assert plain is not None
    assert wide is not None
    np.testing.assert_array_equal(plain.rows[:, 0], wide.rows[:, 0])
    np.testing.assert_allclose(wide.rows[1] - plain.rows[1], 2 * 8.6 * np.sqrt(66) * scales)
    assert np.all(wide.rows[0, 1:] > plain.rows[0, 1:])


def test_operators_are_told_what_the_network_cannot_hide() -> None:
    path = Fleet.create(Network.path(3), privacy={"mask": 10.0})
    assert exposures(path) == [
        "agent0, agent2 have one neighbor only, from which masks hide nothing: each needs another edge"
    ]
    ring = Fleet.create(Network.cycle(3), privacy={"mask": 10.0})
    (text,) = exposures(ring)
    assert text.startswith("all neighbors of agent0, agent1, agent2 know each other; together they can read")
    assert exposures(Fleet.create(Network.cycle(5), privacy={"mask": 10.0})) == []
    assert exposures(Fleet.create(Network.path(3))) == []


def test_an_agent_that_waits_for_masks_says_so() -> None:
    async def main() -> None:
        (agent,) = in_memory([member(0, (1, 2), mask=5.0)])
        async with agent:
            agent.observe(3.0)
            await until_true(lambda: float(agent.estimate) == 3.0, "a round")
            now = agent.snapshot
            assert now.problem == "it tells no values yet: it has not agreed on masks with agent1, agent2"
            assert not now.settled

    asyncio.run(main())


@pytest.mark.slow
def test_whole_agents_with_masks_that_change_and_a_restart(tmp_path: Path) -> None:
    """The secrets and indices survive in the stores, and the fleet goes on with them."""
    edges = {0: (1, 3), 1: (0, 2), 2: (1, 3), 3: (0, 2)}

    async def run(*, observed: bool) -> tuple[dict[int, tuple[bytes, int]], float]:
        agents = in_memory(
            member(i, others, members=4, mask=5.0, refresh=True, store=tmp_path / f"{i}.db")
            for i, others in edges.items()
        )
        for agent in agents:
            await agent.__aenter__()
            if not observed:
                agent.observe(float(agent.settings.id))
        await until_true(
            lambda: all(a._ledger.masks.opened and a._ledger.age > 150 + 150 * observed for a in agents),
            "rounds",
        )
        worst = max(abs(a.estimate - 1.5) for a in agents)
        for agent in agents:
            await agent.__aexit__(None, None, None)
        return agents[0]._ledger.masks.secrets, worst

    first, worst = asyncio.run(run(observed=False))
    assert sorted(first) == [1, 3]
    assert worst < 1.0  # a mask at one end only would be 5/4
    again, worst = asyncio.run(run(observed=True))
    assert {j: secret for j, (secret, _) in again.items()} == {j: secret for j, (secret, _) in first.items()}
    assert all(again[j][1] > first[j][1] > 50 for j in first)
    assert worst < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("members", "refresh"), [(12, False), (4, True)])
def test_processes_with_masks_survive_loss_a_join_and_a_kill(
    members: int, refresh: bool, tmp_path: Path
) -> None:
    """30% of all messages are lost; the last agent joins late, and agent 1 is killed with SIGKILL.

    A mask at one end only would be 10/12 in the average, or 5/4; what is left of masks that change shrinks with their
    increments. An end never advances past the index after the last one of the other end.
    """
    network, scale = (GRID, 10.0) if members == 12 else (Network.cycle(4), 5.0)
    levels = MEANS[:members]
    for i, level in enumerate(levels):
        (tmp_path / f"{i}.csv").write_text(f"{level}\n")
    path = Fleet.create(
        network,
        endpoints=[f"127.0.0.1:{port}" for port in free_ports(members)],
        sources=[f"csv:{tmp_path / str(i)}.csv" for i in range(members)],
        privacy={"mask": scale, "refresh": refresh},
        rounds={"every": "20ms", "timeout": "100ms", "death": "2s", "stop_timeout": "60s"},
    ).write(tmp_path)
    options = {"store": str(tmp_path / "stores"), "faults": (str(Loss(0.3)),)}
    tolerance = 0.2 if refresh else 0.05

    def stored(i: int) -> maintenance.Record:
        return maintenance.check(tmp_path / "stores" / f"agent{i}.sqlite")

    def close(count: int, *fleets: LocalFleet) -> bool:
        for fleet in fleets:
            fleet.supervise()
        pids = {pid for fleet in fleets for pid in fleet.pids.values()}
        states = [s for fleet in fleets for s in fleet.status() if s.details.get("pid") in pids]
        known = np.array([s.estimate[0] for s in states if s.estimate and s.state == "running"], dtype=float)
        near = len(known) == count and bool(np.abs(known - levels[:count].mean()).max() < tolerance)
        return near and all(
            set(network.neighbors(i)) & set(range(count)) == set(stored(i).masks) for i in range(count)
        )

    late = members - 1
    with LocalFleet(path, f"0-{late - 1}", **options) as first:
        until(lambda: close(late, first), "the average without the last one")
        with LocalFleet(path, str(late), **options) as joiner:
            until(lambda: close(members, first, joiner), "the average of all")
            victim = first.pids[1]
            os.kill(victim, signal.SIGKILL)
            until(lambda: first.supervise() or first.pids.get(1, victim) != victim, "a restart")
            until(lambda: close(members, first, joiner), "the average after the kill")
    assert not first.killed + joiner.killed  # each has committed its last state
    stores = [stored(i) for i in range(members)]
    for i, j in network.edges.tolist():
        mine, theirs = stores[i].array(stores[i].masks[j]), stores[j].array(stores[j].masks[i])
        if refresh:
            (secret, index), (other, last) = stores[i].secrets[j], stores[j].secrets[i]
            assert secret == other
            assert abs(index - last) <= 1
            increment = scale * stream(secret, max(index, last), mine.size) / (max(index, last) + 1)
            theirs = theirs - (index - last) * increment * (np.arange(mine.size) > 0)
        np.testing.assert_allclose(mine, -theirs, atol=1e-12)
