"""Masks that change in every round: both ends keep up with each other, and every change of a value is hidden."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.ledgers import agreed, constant, drive, estimates
from tests.support.small_fleets import weights_of

import gossamer as gs
from gossamer.agents.round.batching import Batcher
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.ledger_state import LedgerState
from gossamer.agents.round.loop import RoundLoop
from gossamer.agents.round.masking import (
    Masking,
    stream,
    told_value,
)
from gossamer.agents.round.messages import Outgoing
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.transports.memory import Memory
from gossamer.faults import Faults, Partition
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import ledger_program
from gossamer.networks import Network

GRID = Network.grid(3, 3)
LOCAL = AnytimeSDA("local")
SCALE = 1000.0


def changing(
    network: Network, i: int, restored: LedgerState | None = None, serial: int = 1, **options
) -> Ledger:
    kept, known = (restored.masks, restored.secrets) if restored else ({}, {})
    masks = Masking(i, np.array([SCALE]), 1, kept, known=known, **options)
    program = ledger_program(LOCAL, network, 500)
    return Ledger(program, i, weights_of(network, i), serial=serial, masks=masks, restored=restored)


def lags(agents: list[Ledger], network: Network) -> np.ndarray:
    """How far apart the indices of the two ends of each edge are."""
    edges = [(agents[i].masks.edges[j], agents[j].masks.edges[i]) for i, j in network.edges.tolist()]
    assert all(a.secret == b.secret and a.secret for a, b in edges)
    return np.array([a.index - b.index for a, b in edges])


def test_changing_masks_equal_the_simulation() -> None:
    """A simulation in whose streams the agents' masks shift the running means as `Masks(refresh=True)` does.

    Without smoothing, a mask in the running mean and one in the constant part of the flows do the same. In the first
    three rounds masks are agreed, and nothing is told.
    """
    rounds, seed, method = 80, 5, AnytimeSDA("local", smoothing=0.0)
    observations = gs.Gaussian(np.arange(9.0), std=2.0)
    y = observations.sample(seed, range(rounds), range(1))[..., 0]
    program = ledger_program(method, GRID, rounds)
    agents = [
        Ledger(program, i, weights_of(GRID, i), masks=Masking(i, np.array([SCALE]), known={}))
        for i in range(9)
    ]
    levels = []
    for t in range(rounds):
        levels.append([agent.masks.total for agent in agents])
        drive(agents, GRID, y[t : t + 1], first=t)
    masks = np.array(levels)  # (rounds, agents, 1)
    ages = np.arange(rounds)[:, None, None]
    before = np.concatenate([np.zeros((1, 9, 1)), masks[:-1]])
    shifted = gs.Moving(gs.Gaussian(np.zeros(9), std=0.0), y + (ages + 1) * masks - ages * before)
    silent = Faults(Partition(edges=GRID.edges.tolist(), start=0, stop=3))
    simulated = gs.simulate(method, GRID, shifted, rounds, trials=1, faults=silent)
    # The answer of the last round has the masks of the next one.
    final = [agent.estimate - agent.masks.total + masks[-1][i] for i, agent in enumerate(agents)]
    np.testing.assert_allclose(final, simulated.estimates[0], rtol=1e-10, atol=1e-8)


@pytest.mark.slow
def test_the_masks_of_an_edge_are_sums_of_increments_that_shrink() -> None:
    agents = [changing(GRID, i) for i in range(9)]
    drive(agents, GRID, constant(GRID, 40))
    assert not lags(agents, GRID).any()
    edge = agents[0].masks.edges[1]
    assert edge.index > 30
    expected = sum(SCALE * stream(edge.secret, k, 1) / (k + 1) for k in range(edge.index + 1))
    np.testing.assert_allclose(edge.mask, expected, rtol=1e-12)
    assert agreed(agents, GRID)
    # Over many secrets, the level is as in `Masks(refresh=True)`: variance s^2 (1 + 1/4 + 1/9 + ...).
    many = np.array(
        [
            [stream(bytes([a, b]) * 16, k, 8) / (k + 1) for k in range(20)]
            for a in range(16)
            for b in range(16)
        ]
    )
    variance = sum((k + 1.0) ** -2 for k in range(20))
    assert abs(many.sum(axis=1).var() / variance - 1) < 5 * np.sqrt(2 / (256 * 8))
    assert abs(np.corrcoef(many[:, 0].ravel(), many[:, 1].ravel())[0, 1]) < 5 / np.sqrt(256 * 8)


@pytest.mark.slow
def test_under_loss_ends_differ_by_one_increment_at_most_and_the_average_converges() -> None:
    """Half of all messages are lost: edges lag by one index, and what that does to the average shrinks with it."""
    generator = np.random.default_rng(3)
    agents = [changing(GRID, i) for i in range(9)]
    worst, errors = 0, []
    for t in range(800):
        drive(agents, GRID, constant(GRID, 1), lambda t, i, j: generator.random() >= 0.5, first=t)
        if all(agent.masks.opened for agent in agents):
            worst = max(worst, int(np.abs(lags(agents, GRID)).max()))
            errors.append(sum(agent.masks.total[0] for agent in agents))
    assert worst == 1
    # The sum of all masks is one increment of standard deviation 1000/(k+1) for each lagging edge.
    early, late = np.abs(errors[20:60]).mean(), np.abs(errors[-200:]).mean()
    index = agents[0].masks.edges[1].index
    assert index > 150
    assert late < 4 * SCALE * np.sqrt(12) / index
    assert late < early / 4
    np.testing.assert_allclose(estimates(agents), 4.0, atol=4 * SCALE * np.sqrt(12) / index)


@pytest.mark.slow
def test_a_restart_from_an_older_store_and_a_join_take_the_index_of_the_others() -> None:
    agents = [changing(GRID, i) for i in range(9)]
    y = constant(GRID, 300)
    drive(agents, GRID, y[:100])
    state = agents[4].remember()
    drive(agents, GRID, y[:50])
    agents[4] = changing(GRID, 4, restored=state, serial=10_000)  # it is 50 changes behind
    drive(agents, GRID, y[:10])
    assert not lags(agents, GRID).any()
    assert agreed(agents, GRID)
    agents[4] = changing(GRID, 4, serial=20_000)  # its store is lost
    drive(agents, GRID, y)
    assert not lags(agents, GRID).any()
    np.testing.assert_allclose(estimates(agents), 4.0, atol=SCALE / 20)
    for j in (1, 3, 5, 7):
        agents[j].drop(4)
    drive(agents, GRID, y[:300], lambda t, i, j: 4 not in (i, j))
    drive(agents, GRID, y[:300])  # it joins again, with new secrets
    assert not lags(agents, GRID).any()
    assert agreed(agents, GRID)
    assert agents[4].masks.edges[1].index < agents[0].masks.edges[1].index
    np.testing.assert_allclose(estimates(agents), 4.0, atol=SCALE / 20)  # one mask alone would be SCALE / 9


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_a_new_observation_is_told_only_with_new_increments_of_all_masks(loss: float) -> None:
    """Otherwise the difference of two values would show it to the neighbors whose increments it has.

    Agent 4 is restored from an older store in round 100, and agent 1 is restarted without one in round 150.
    """
    generator = np.random.default_rng(5)
    agents = [changing(GRID, i) for i in range(9)]
    last: list[tuple[float, dict[int, int]]] = [
        (0.0, {})
    ] * 9  # own part and indices of each agent's newest value
    changed = 0
    for t in range(200):
        if t == 80:
            older = agents[4].remember()
        elif t == 100:
            agents[4] = changing(GRID, 4, restored=older, serial=10_000)
        elif t == 150:
            agents[1] = changing(GRID, 1, serial=20_000)
        for agent in agents:
            fresh = agent.masks.fresh
            agent.begin(generator.standard_normal(1), samples=float(fresh))
        messages = {(i, int(j)): agents[i].tell(int(j)) for i in range(9) for j in GRID.neighbors(i)}
        for i, agent in enumerate(agents):
            edges = agent.masks.edges
            if values := [messages[i, j].rows for j in edges if told_value(messages[i, j])]:
                others = agent.masks.total + agent.returning + sum(agent.flow(j)[0] for j in edges)
                own = float(np.frombuffer(values[0])[0] - others[0])
                before, indices = last[i]
                now = {j: edges[j].index for j in agent.live}
                if abs(own - before) > 1e-9:
                    changed += 1
                    assert all(indices.get(j, -1) != index for j, index in now.items())
                last[i] = own, now
            agent.finish(
                {int(j): messages[int(j), i] for j in GRID.neighbors(i) if generator.random() >= loss}
            )
    assert changed > (300 if loss else 1500)
    assert agreed(agents, GRID) or loss


def test_observations_wait_until_all_masks_have_changed() -> None:
    pair, layout = Network.path(2), Layout(1)
    masks = Masking(0, np.array([0.0, SCALE]), 1, {1: np.ones(2)}, known={1: (bytes(32), 5)})
    program = ledger_program(LOCAL, pair, 50)
    ledger = Ledger(program, 0, weights_of(pair, 0), 2, masks=masks)
    conversation = Conversation(0, ledger, Memory().transport(0, (1,)), (1,), timeout=1e-3)
    loop = RoundLoop(Batcher(layout), ledger, conversation, lambda failure: pytest.fail(str(failure)))
    loop.paced = iter([np.array([7.0])])
    loop.pending.append(np.array([8.0]))
    loop.play(0.0)
    assert loop.taken == 0
    assert not ledger.samples
    said = bytes([1]) + masks.edges[1].digest + (5).to_bytes(8, "little")
    masks.hear(1, Outgoing(1, 0, True, bytes(48), mask=said))
    loop.play(0.0)
    assert not ledger.samples
    loop.play(0.0)  # with mask 6
    assert ledger.samples == 2
    loop.pending.append(np.array([9.0]))
    loop.last()  # nothing is told any more
    assert ledger.samples == 3


def test_a_claimed_index_costs_little_and_a_forged_secret_nothing() -> None:
    pair = Network.path(2)
    agents = [changing(pair, 0), changing(pair, 1)]
    drive(agents, pair, constant(pair, 20))
    edge = agents[1].masks.edges[0]
    before = edge.index
    lie = bytes([1]) + edge.digest + (2**60).to_bytes(8, "little")
    agents[1].masks.hear(0, Outgoing(1, 0, True, b"", mask=lie))
    agents[1].masks.update([0])
    assert edge.index == before + 1000
    fresh = changing(pair, 1)
    offer = b"\x02" + bytes(8) + bytes(8) + bytes(32)
    fresh.masks.hear(0, Outgoing(1, 0, False, bytes(24), mask=offer))
    assert fresh.masks.edges[0].mask is None
