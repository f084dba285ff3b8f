"""Masks on edges: agreed under any loss, complete before a value is told, and without effect on the average."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.ledgers import agreed, constant, drive, edge_masks, estimates
from tests.support.small_fleets import weights_of

import gossamer as gs
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.ledger_state import LedgerState
from gossamer.agents.round.masking import (
    LARGEST_MASK,
    Masking,
    check_maskable,
    draw_normals,
    told_value,
    well_formed,
)
from gossamer.agents.round.messages import Outgoing
from gossamer.errors import Unsupported
from gossamer.faults import Faults, Partition
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import ledger_program
from gossamer.networks import Network
from gossamer.numerics import random

GRID = Network.grid(3, 3)
LOCAL = AnytimeSDA("local")
SCALE = 1000.0


def masked(
    network: Network,
    i: int,
    *,
    least: int = 1,
    draw=None,
    restored: LedgerState | None = None,
    serial: int = 1,
) -> Ledger:
    kept = restored.masks if restored else {}
    masks = Masking(i, np.array([SCALE]), least, kept, draw or np.random.default_rng(i).standard_normal)
    program = ledger_program(LOCAL, network, 2000)
    return Ledger(program, i, weights_of(network, i), serial=serial, masks=masks, restored=restored)


def fleet(network: Network = GRID, **options) -> list[Ledger]:
    return [masked(network, i, **options) for i in range(network.agents)]


def test_agents_equal_the_simulation() -> None:
    """Masks are agreed in three rounds, in which nothing is told; from then on both compute the same."""
    rounds, seed, scales = 96, 5, np.array([3.0, 40.0])
    observations = gs.Gaussian(np.column_stack([np.arange(9.0), -np.arange(9.0)]), std=2.0)
    y = observations.sample(seed, range(rounds), range(1))[..., 0]
    edges = GRID.edges.tolist()
    drawn = random.normals(seed, random.MASK, range(1), range(len(edges)), 2, range(1))[0, :, :, 0]
    program = ledger_program(LOCAL, GRID, rounds)

    def agent(i: int) -> Ledger:
        mine = iter(
            [drawn[k] for k, (a, _) in enumerate(edges) if a == i]
        )  # by neighbor, as messages are heard
        masks = Masking(i, scales, draw=lambda size: next(mine))
        return Ledger(program, i, weights_of(GRID, i), 2, masks=masks)

    agents = [agent(i) for i in range(9)]
    drive(agents, GRID, y)
    silent = Faults(Partition(edges=edges, start=0, stop=3))
    simulated = gs.simulate(
        LOCAL,
        GRID,
        observations,
        rounds,
        trials=1,
        seed=seed,
        faults=silent,
        masks=gs.Masks(tuple(scales.tolist())),
    )
    np.testing.assert_allclose(
        [agent.estimate for agent in agents], simulated.estimates[0], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("scale", [10.0, 1e6])
def test_the_average_is_that_without_masks(scale: float) -> None:
    agents = fleet()
    for agent in agents:
        agent.masks.scales[:] = scale
    drive(agents, GRID, constant(GRID, 500))
    assert agreed(agents, GRID)
    np.testing.assert_allclose(estimates(agents), 4.0, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.3, 0.5])
def test_both_ends_of_every_edge_agree_under_loss(loss: float) -> None:
    generator = np.random.default_rng(3)
    agents = fleet()
    drive(agents, GRID, constant(GRID, 1500), lambda t, i, j: generator.random() >= loss)
    assert agreed(agents, GRID)
    np.testing.assert_allclose(estimates(agents), 4.0, rtol=0, atol=1e-6)


def test_no_value_is_told_before_all_masks_are_agreed() -> None:
    """In the round in which agent 4 opens, each of its masks is complete; before it, its messages have no value."""
    generator = np.random.default_rng(8)
    agents = fleet()
    opened = {}
    for t in range(60):
        for i, agent in enumerate(agents):
            agent.begin(np.array([float(i)]))
        told = {(i, int(j)): agents[i].tell(int(j)) for i in range(9) for j in GRID.neighbors(i)}
        for (i, j), message in told.items():
            value = np.frombuffer(message.rows)[0]
            if told_value(message):
                assert agents[i].masks.opened
                assert len(agents[i].masks.kept) == len(GRID.neighbors(i))
                opened.setdefault(i, (t, value - agents[i].masks.total[0]))
            else:
                mask = agents[i].masks.edges[j].mask
                assert value == 0.0 or (mask is not None and value == mask[0])
        for i, agent in enumerate(agents):
            neighbors = (int(j) for j in GRID.neighbors(i))
            agent.finish({j: told[j, i] for j in neighbors if generator.random() >= 0.4})
    assert len(opened) == 9
    assert (
        len({t for t, _ in opened.values()}) > 1
    )  # they opened at different times, so that the test means something
    for i, (
        _,
        unmasked,
    ) in opened.items():  # the first value: the observation and the masks, and nothing has moved
        assert unmasked == pytest.approx(i, abs=1e-9)


@pytest.mark.parametrize("first", [20, 120])
def test_a_late_first_observation_is_not_the_difference_of_two_values_with_the_same_masks(first: int) -> None:
    """Agent 4 observes for the first time in this round: before others have waited long enough for it, or after."""
    agents = fleet()
    edges = agents[4].masks.edges
    told = []  # values of agent 4, whether it had observed, and its masks
    for t in range(first + 400):
        for i, agent in enumerate(agents):
            agent.begin(np.array([float(i)]), samples=float(i != 4 or t >= first))
        messages = {(i, int(j)): agents[i].tell(int(j)) for i in range(9) for j in GRID.neighbors(i)}
        if told_value(messages[4, 1]):
            told.append((t >= first, {j: float(edge.mask[0]) for j, edge in edges.items()}))
        for i, agent in enumerate(agents):
            agent.finish({int(j): messages[int(j), i] for j in GRID.neighbors(i)})
    before, after = (
        masks[0] if (masks := [m for seen, m in told if seen == said]) else {} for said in (0, 1)
    )
    assert bool(before) == (first > 64)  # an agent that observes nothing passes values on, after a while
    assert all(before[j] != after[j] for j in before)
    assert agreed(agents, GRID)
    np.testing.assert_allclose(estimates(agents), 4.0, atol=1e-3)


def test_an_agent_that_lost_its_masks_gets_them_again() -> None:
    """A store from before the masks: the other ends offer theirs, whichever number is smaller."""
    agents = fleet()
    y = constant(GRID, 400)
    drive(agents, GRID, y[:100])
    before = edge_masks(agents, GRID)
    agents[4] = masked(GRID, 4, serial=10_000)
    drive(agents, GRID, y[:300])
    for (a, b), (c, d) in zip(before, edge_masks(agents, GRID), strict=True):
        assert np.array_equal(a, c)
        assert np.array_equal(b, d)
    np.testing.assert_allclose(estimates(agents), 4.0, rtol=0, atol=1e-6)


def test_a_restart_from_the_store_keeps_its_masks_and_disturbs_nothing() -> None:
    agents = fleet()
    y = constant(GRID, 400)
    drive(agents, GRID, y[:300])
    state = agents[4].remember()
    assert len(state.masks) == 4
    agents[4] = masked(GRID, 4, restored=state, serial=10_000)
    drive(agents, GRID, y[:10])
    assert agreed(agents, GRID)
    np.testing.assert_allclose(estimates(agents), 4.0, rtol=0, atol=1e-6)


def test_of_two_different_masks_that_of_the_smaller_number_counts() -> None:
    pair = Network.path(2)
    agents = [masked(pair, 0), masked(pair, 1)]
    drive(agents, pair, constant(pair, 20))
    state = agents[0].remember()
    first = state.masks[1].copy()
    agents[0].drop(1)
    agents[1].drop(0)
    drive(agents, pair, constant(pair, 20))
    assert agreed(agents, pair)
    assert not np.array_equal(agents[0].masks.kept[1], first)
    agents[0] = masked(pair, 0, restored=state, serial=10_000)  # a store from before the drop
    drive(agents, pair, constant(pair, 20))
    assert agreed(agents, pair)
    np.testing.assert_array_equal(agents[0].masks.kept[1], first)


@pytest.mark.slow
def test_a_dropped_edge_takes_its_mask_along() -> None:
    """Survivors reach their own average, and an agent that comes back begins with another mask."""
    agents = fleet()
    y = constant(GRID, 1)
    drive(agents, GRID, np.repeat(y, 300, axis=0))
    old = agents[1].masks.kept[4].copy()
    alone = agents[1].estimate.copy()
    for j in (1, 3, 5, 7):
        agents[j].drop(4)
    np.testing.assert_allclose(agents[1].estimate, alone, atol=1e-6)  # flow and mask return together, slowly
    drive(agents, GRID, np.repeat(y, 1500, axis=0), lambda t, i, j: 4 not in (i, j))
    others = [i for i in range(9) if i != 4]
    np.testing.assert_allclose(estimates(agents)[others], 4.0, atol=1e-6)  # 36 - 4 over 8 is 4 again
    drive(agents, GRID, np.repeat(y, 1500, axis=0))
    assert agreed(agents, GRID)
    assert not np.array_equal(agents[1].masks.kept[4], old)
    np.testing.assert_allclose(estimates(agents), 4.0, atol=1e-6)


@pytest.mark.slow
def test_an_agent_with_too_few_neighbors_takes_no_part() -> None:
    """On a path with least_neighbors = 2 nobody does; on a cycle the two neighbors of a dead agent withdraw as well."""
    path = Network.path(4)
    agents = fleet(path, least=2)
    drive(agents, path, constant(path, 50))
    assert not any(agent.masks.opened for agent in agents)
    np.testing.assert_allclose(estimates(agents), np.arange(4.0), rtol=1e-12)
    cycle = Network.cycle(5)
    agents = fleet(cycle, least=2)
    drive(agents, cycle, constant(cycle, 300))
    np.testing.assert_allclose(estimates(agents), 2.0, atol=1e-6)
    for j in (1, 3):
        agents[j].drop(2)
    told = agents[1].tell(0)
    assert not told_value(told)
    assert not np.frombuffer(told.rows)[0]
    drive(agents, cycle, constant(cycle, 1000), lambda t, i, j: 2 not in (i, j))
    assert not any(agents[i].masks.opened for i in (0, 1, 3, 4))
    np.testing.assert_allclose(estimates(agents)[[0, 1, 3, 4]], [0.0, 1.0, 3.0, 4.0], atol=1e-6)
    drive(agents, cycle, constant(cycle, 1500))
    np.testing.assert_allclose(estimates(agents), 2.0, atol=1e-6)


def test_masks_of_closed_edges_stay_in_the_answer_and_in_the_store() -> None:
    """Both neighbors of agent 1 stop, so that it has no live edge."""
    path = Network.path(3)
    agents = fleet(path)
    drive(agents, path, constant(path, 300))
    masks = agents[1].masks.kept
    for j in (0, 2):
        agents[j].close(1)
    for _ in range(3):
        agents[1].begin(np.ones(1))
        for j in (0, 2):
            agents[1].hear_closing(j, agents[j].farewell(1))
        agents[1].finish({})
    assert not agents[1].live
    assert agents[1].remember().masks == masks
    np.testing.assert_allclose(agents[1].estimate, 1.0, atol=1e-6)


def test_an_edge_that_is_added_or_removed_while_agents_run() -> None:
    small, large = Network.path(3), Network.cycle(3)
    agents = fleet(small)
    drive(agents, small, constant(small, 300))
    for i, agent in enumerate(agents):
        agent.rewire(weights_of(large, i))
    drive(agents, large, constant(large, 500))
    assert agreed(agents, large)
    np.testing.assert_allclose(estimates(agents), 1.0, atol=1e-6)
    for i, agent in enumerate(agents):
        agent.rewire(weights_of(small, i))
    drive(agents, small, constant(small, 2000))
    np.testing.assert_allclose(estimates(agents), 1.0, atol=1e-6)


def test_a_forged_offer_is_not_taken() -> None:
    """An offer whose digest is not that of the mask in it changes nothing."""
    pair = Network.path(2)
    agent = masked(pair, 1)
    agent.begin(np.zeros(1))
    rows = np.array([7.0, 0.0, 0.0]).tobytes()
    agent.finish({0: Outgoing(1, 0, False, rows, mask=b"\x02" + bytes(8))})
    assert agent.masks.edges[0].mask is None


def test_what_a_message_may_say() -> None:
    assert [well_formed(mask) for mask in (b"", b"\0", b"\x01", b"\x04", b"\x02" + bytes(8), bytes(20))] == [
        False,
        True,
        False,
        True,
        True,
        False,
    ]


def test_masks_are_normal_and_never_too_large() -> None:
    drawn = draw_normals(4000)
    assert abs(drawn.mean()) < 5 / np.sqrt(4000)
    assert abs(drawn.var() - 1.0) < 5 * np.sqrt(2 / 4000)
    assert np.sqrt(2 * 53 * np.log(2)) < LARGEST_MASK


def test_methods_that_do_not_add_flows_are_refused() -> None:
    program = ledger_program(LOCAL, GRID, 10)
    check_maskable(program)
    with pytest.raises(
        Unsupported, match="needs a method that adds flows to what it averages, and anytime-sda does"
    ):
        check_maskable(program._replace(estimate=2 * program.estimate))
