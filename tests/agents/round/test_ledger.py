"""The node form and the ledger form, without any transport: a tiny driver with any pattern of loss."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.ledgers import constant, drive, ledgers
from tests.support.node_form import NodeForm
from tests.support.small_fleets import weights_of

from gossamer.agents.round.ledger import Ledger
from gossamer.engines.simulate import simulate
from gossamer.errors import Unsupported
from gossamer.facts import UnknownFacts
from gossamer.faults import Faults, Loss
from gossamer.methods import METHODS, SDA, SSDA, AnytimeSDA, tabulate
from gossamer.methods.ledger import ledger_program
from gossamer.methods.method import Method
from gossamer.networks import Network
from gossamer.observations import Gaussian


def estimates(agents) -> np.ndarray:
    return np.array([agent.estimate for agent in agents])


def disagreement(agents, network) -> float:
    """Largest |g_ij + g_ji| over edges."""
    return max(
        float(np.abs(agents[i].flow(int(j)) + agents[int(j)].flow(int(i))).max()) for i, j in network.edges
    )


SETTLED = 20
"""Rounds after which the coefficients of Anytime SDA on these small networks no longer change."""

NETWORKS = [Network.path(5), Network.cycle(6), Network.star(5), Network.grid(3, 3)]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.name)
@pytest.mark.parametrize(
    "method", [AnytimeSDA(), SDA(), SSDA(), AnytimeSDA(acceleration="chebyshev")], ids=str
)
def test_ledger_form_equals_node_form(network: Network, method: Method) -> None:
    rounds, n = 60, 2
    y = np.random.default_rng(1).normal(5, 2, (rounds, network.agents, n))
    table = tabulate(method, network, rounds)
    nodes = [NodeForm(table, i, weights_of(network, i), n) for i in range(network.agents)]
    edges = ledgers(network, method, rounds, n)
    drive(nodes, network, y)
    drive(edges, network, y)
    np.testing.assert_allclose(estimates(edges), estimates(nodes), rtol=0, atol=1e-12)
    assert disagreement(edges, network) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["nesterov", "local", "local-heavy-ball"])
@pytest.mark.parametrize("loss", [0.005, 0.3])
def test_ledgers_equal_the_simulation_under_loss(form: str, loss: float) -> None:
    """Of the local heavy ball, edges change over to the step of the local form and back."""
    network, rounds, method, faults = Network.grid(3, 4), 400, AnytimeSDA(form), Faults(Loss(loss))
    observations = Gaussian(np.arange(12.0))
    links = [(int(j), i) for i in range(12) for j in network.neighbors(i)]
    heard = faults.heard(3, 12, np.array(links), rounds, range(1))[:, :, 0]
    arrived = {(t, *link): bool(heard[t, k]) for k, link in enumerate(links) for t in range(rounds)}
    agents = ledgers(network, method, rounds)
    samples = observations.sample(3, range(rounds), range(1))[..., 0]
    drive(agents, network, samples, lambda t, i, j: arrived[t, i, j])
    run = simulate(method, network, observations, rounds, trials=1, seed=3, faults=faults)
    np.testing.assert_allclose(estimates(agents), run.estimates[0], rtol=1e-12, atol=1e-12)


def test_methods_without_a_ledger_say_so() -> None:
    network = Network.cycle(5)
    with_ledger = set()
    for name, cls in METHODS.items():
        method = cls()
        try:
            ledger_program(method, network, 96)
            with_ledger.add(name)
        except Unsupported as error:
            assert name in str(error)  # noqa: PT017 (both outcomes are right, for different methods)
    assert with_ledger == {"sda", "anytime-sda", "ssda"}


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    size=st.integers(3, 5),
    ring=st.booleans(),
    loss=st.floats(0.0, 0.5),
    seed=st.integers(0, 2**16),
)
def test_any_loss_converges_to_the_average(size: int, ring: bool, loss: float, seed: int) -> None:
    network = Network.cycle(size) if ring else Network.path(size)
    rng = np.random.default_rng(seed)
    values = rng.uniform(-10, 10, (1, size, 1))
    lost = rng.random((600, size, size)) < loss
    agents = ledgers(network, AnytimeSDA(), SETTLED)
    drive(agents, network, np.repeat(values, 600, axis=0), lambda t, i, j: not lost[t, i, j])
    np.testing.assert_allclose(estimates(agents)[:, 0], values.mean(), atol=1e-3)
    # One round without loss: every ledger is compared, so the two ends agree and nothing was made or lost.
    drive(agents, network, values, first=600)
    assert disagreement(agents, network) == 0.0
    total = sum(agent.estimate - agent.local("smooth") for agent in agents)
    assert abs(float(total[0])) < 1e-9


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_arbitrary_silences_never_blow_up_and_heal(data: st.DataObject, seed: int) -> None:
    """Directed links that come and go as Hypothesis likes, for ever silent in one direction included."""
    network = Network.cycle(5)
    rng = np.random.default_rng(seed)
    values = rng.uniform(-10, 10, (1, 5, 1))
    silent = data.draw(
        st.lists(
            st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 200), st.integers(1, 200)),
            max_size=12,
        )
    )

    def arrives(t: int, i: int, j: int) -> bool:
        return t >= 400 or not any(a == i and b == j and s <= t < s + n for a, b, s, n in silent)

    agents = ledgers(network, AnytimeSDA(), SETTLED)
    for block in range(8):
        drive(agents, network, np.repeat(values, 100, axis=0), arrives, first=100 * block)
        assert np.abs(estimates(agents)).max() < 200
    np.testing.assert_allclose(estimates(agents)[:, 0], values.mean(), atol=1e-8)


def test_the_silence_rule_is_what_holds_one_way_silence() -> None:
    """With one direction dead for ever, an edge without the rule is pushed by one end alone, for ever."""
    network = Network.path(3)
    values = np.array([[[0.0], [5.0], [10.0]]])

    def arrives(t: int, i: int, j: int) -> bool:
        return (i, j) != (0, 1)

    kept = ledgers(network, AnytimeSDA(), SETTLED)
    free = ledgers(network, AnytimeSDA(), SETTLED, silence=10**9)
    for agents in (kept, free):
        drive(agents, network, np.repeat(values, 300, axis=0), arrives)
    # After A rounds the end that nobody hears undoes what it moved alone: each part has its own average.
    np.testing.assert_array_equal(kept[0].flow(1), 0.0)
    np.testing.assert_allclose(estimates(kept)[:, 0], [0.0, 7.5, 7.5], atol=1e-6)
    assert free[0].flow(1)[0, 0] == pytest.approx(7.5, abs=1e-6)  # took all it wanted from nobody
    drive(kept, network, np.repeat(values, 300, axis=0), first=300)
    np.testing.assert_allclose(estimates(kept)[:, 0], 5.0, atol=1e-6)  # and it heals


def test_a_neighbor_that_restarts_has_not_heard_me_but_adopts_my_ledger() -> None:
    network = Network.path(2)
    values = np.array([[[0.0], [10.0]]])
    agents = ledgers(network, AnytimeSDA(), SETTLED)
    drive(agents, network, np.repeat(values, 100, axis=0))
    flow = agents[1].flow(0)
    fresh = ledgers(network, AnytimeSDA(), SETTLED)[0]
    agents[0] = fresh
    drive(agents, network, values, lambda t, i, j: (i, j) == (0, 1), first=100)  # 1 hears the newcomer ...
    np.testing.assert_array_equal(agents[1].flow(0), flow)  # ... and keeps the live ledger


@pytest.mark.slow
def test_a_dead_neighbor_returns_its_flow() -> None:
    network = Network.cycle(6)
    values = np.array([[[0.0], [1.0], [2.0], [3.0], [4.0], [50.0]]])
    agents = ledgers(network, AnytimeSDA(), SETTLED)
    drive(agents, network, np.repeat(values, 300, axis=0))
    np.testing.assert_allclose(estimates(agents)[:, 0], 10.0, atol=1e-6)
    agents[0].drop(5)
    agents[4].drop(5)
    np.testing.assert_allclose(estimates(agents)[:, 0], 10.0, atol=1e-6)  # nothing jumps
    drive(agents, network, np.repeat(values, 900, axis=0), lambda t, i, j: 5 not in (i, j), first=300)
    np.testing.assert_allclose(estimates(agents)[:5, 0], 2.0, atol=1e-6)
    np.testing.assert_allclose(estimates(agents)[5], 10.0, atol=1e-6)
    # It was cut off, not dead: it comes back with its old ledgers, drops them as well, and again nothing jumps.
    drive(agents, network, values, first=1200)
    np.testing.assert_allclose(estimates(agents)[:, 0], [2, 2, 2, 2, 2, 10], atol=1.0)
    drive(agents, network, np.repeat(values, 1100, axis=0), first=1201)
    np.testing.assert_allclose(estimates(agents)[:, 0], 10.0, atol=1e-6)
    assert disagreement(agents, network) == 0.0


@pytest.mark.parametrize("who", [0, 3], ids=["smallest", "larger"])
@pytest.mark.parametrize("memory", ["fresh", "stale", "none"])
def test_a_restarted_agent_adopts_what_its_neighbors_hold(who: int, memory: str) -> None:
    """Whichever end is smaller, a live ledger is not overwritten by one from a disk or by nothing."""
    network = Network.cycle(5)
    values = np.array([[[1.0], [2.0], [3.0], [4.0], [40.0]]])
    agents = ledgers(network, AnytimeSDA(), SETTLED)
    drive(agents, network, np.repeat(values, 20, axis=0))
    stale = agents[who].remember()
    drive(agents, network, np.repeat(values, 400, axis=0), first=20)
    restored = {"fresh": agents[who].remember(), "stale": stale, "none": None}[memory]
    program = ledger_program(AnytimeSDA(), network)
    before = [agents[i].flow(who) for i in (network.neighbors(who))]
    agents[who] = Ledger(program, who, weights_of(network, who), serial=10**6, restored=restored)
    drive(agents, network, values, first=420)
    after = [agents[i].flow(who) for i in (network.neighbors(who))]
    np.testing.assert_array_equal(
        before, after
    )  # nobody moved yet: its first message echoes nothing of this run
    assert disagreement(agents, network) == 0.0
    drive(agents, network, np.repeat(values, 400, axis=0), first=421)
    np.testing.assert_allclose(estimates(agents)[:, 0], 10.0, atol=1e-6)


def test_agents_at_different_rates_stay_unbiased() -> None:
    """Agent 0 sees three observations a round, agent 1 one, agent 2 one every fifth round."""
    network = Network.path(3)
    agents = ledgers(network, AnytimeSDA(), SETTLED)
    rng = np.random.default_rng(4)
    seen: list[list[float]] = [[], [], []]
    for t in range(1000):
        batch = [list(rng.normal(m, 1, k)) for m, k in ((0.0, 3), (3.0, 1), (9.0, int(t % 5 == 0)))]
        for agent, own, new in zip(agents, seen, batch, strict=True):
            own += new
            agent.begin(np.array([np.mean(new) if new else 0.0]), len(new))
        told = {(i, int(j)): agents[i].tell(int(j)) for i in range(3) for j in network.neighbors(i)}
        for i, agent in enumerate(agents):
            agent.finish({int(j): told[int(j), i] for j in network.neighbors(i)})
    for agent, own in zip(agents, seen, strict=True):
        np.testing.assert_allclose(agent.local("mean")[0], np.mean(own), atol=1e-9)
    center = np.mean([np.mean(own) for own in seen])
    np.testing.assert_allclose(estimates(agents)[:, 0], center, atol=0.05)


# -- edges that come and go ---------------------------------------------------------------------------------


def local_ledger(i: int, neighbors: Collection[int]) -> Ledger:
    program = ledger_program(AnytimeSDA(acceleration="local"), UnknownFacts(), 200)
    return Ledger(program, i, dict.fromkeys(neighbors, 0.0))


def talk(
    agents: dict[int, Ledger], values: dict[int, float], edges: list[tuple[int, int]], rounds: int
) -> None:
    """Rounds in which every agent observes its value and hears its neighbors."""
    for _ in range(rounds):
        for i, agent in agents.items():
            agent.begin(np.array([values[i]]))
        told = {(i, j): agents[i].tell(j) for a, b in edges for i, j in ((a, b), (b, a))}
        for i, agent in agents.items():
            agent.finish({a: message for (a, b), message in told.items() if b == i})


def ends(agents: dict[int, Ledger]) -> list[float]:
    return [float(agent.estimate[0]) for agent in agents.values()]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.name)
def test_weights_from_degrees_are_metropolis_weights(network: Network) -> None:
    values = np.random.default_rng(4).normal(size=(50, network.agents, 1))
    free = [local_ledger(i, weights_of(network, i)) for i in range(network.agents)]
    program = ledger_program(AnytimeSDA(acceleration="local"), UnknownFacts(), 200)
    given = [Ledger(program, i, weights_of(network, i)) for i in range(network.agents)]
    drive(free, network, values)
    drive(given, network, values)
    np.testing.assert_allclose(estimates(free), estimates(given), rtol=0, atol=1e-13)


def test_the_degree_counts_edges_that_are_up() -> None:
    agent = local_ledger(0, [1, 2, 3])
    agent.begin(np.zeros(1))
    assert agent.tell(1).degree == 3
    agent.drop(2)
    assert agent.tell(1).degree == 2
    back = local_ledger(2, [0])
    back.begin(np.zeros(1))
    agent.finish({2: back.tell(0)})
    assert agent.degree == 3


SQUARE = [(0, 1), (1, 2), (2, 3), (0, 3)]
TRIANGLE = [(0, 1), (1, 2), (0, 2)]
VALUES = {0: 0.0, 1: 10.0, 2: 20.0, 3: 34.0}


def neighbors_in(edges: list[tuple[int, int]], i: int) -> dict[int, float]:
    return {j: 0.0 for a, b in edges for here, j in ((a, b), (b, a)) if here == i}


@pytest.mark.parametrize(("kept", "average"), [((), 10.0), ((3,), 16.0)])
def test_a_neighbor_that_leaves_takes_its_data_along_unless_they_are_kept(
    kept: tuple[int, ...], average: float
) -> None:
    agents = {i: local_ledger(i, neighbors_in(SQUARE, i)) for i in range(4)}
    talk(agents, VALUES, SQUARE, 300)
    np.testing.assert_allclose(ends(agents), 16.0, atol=1e-6)
    del agents[3]
    before = agents[0].flow(1)
    for i, agent in agents.items():
        agent.rewire(neighbors_in(TRIANGLE, i), kept)
    np.testing.assert_array_equal(agents[0].flow(1), before)  # edges that stay keep their ledgers
    np.testing.assert_allclose(ends(agents), 16.0, atol=1e-6)  # and nothing jumps
    talk(agents, VALUES, TRIANGLE, 900)
    np.testing.assert_allclose(ends(agents), average, atol=1e-6)
    # What was kept survives a restart, and so does a neighbor that leaves while the agent is down.
    program = ledger_program(AnytimeSDA(acceleration="local"), UnknownFacts(), 200)
    again = Ledger(program, 0, neighbors_in(TRIANGLE, 0), serial=10**6, restored=agents[0].remember())
    assert again.estimate == pytest.approx(agents[0].estimate)


def test_a_neighbor_that_left_while_the_agent_was_down() -> None:
    agents = {i: local_ledger(i, neighbors_in(SQUARE, i)) for i in range(4)}
    talk(agents, VALUES, SQUARE, 300)
    program = ledger_program(AnytimeSDA(acceleration="local"), UnknownFacts(), 200)
    saved = agents[0].remember()
    kept = Ledger(program, 0, {1: 0.0}, serial=10**6, restored=saved, kept=(3,))
    gone = Ledger(program, 0, {1: 0.0}, serial=10**6, restored=saved)
    assert float(kept.estimate[0]) == pytest.approx(16.0)
    assert float(gone.estimate[0]) == pytest.approx(16.0)  # until its flow has returned
    for _ in range(900):
        for agent in (kept, gone):
            agent.begin(np.zeros(1), 0.0)
            agent.finish({})
    assert float((gone.estimate - kept.estimate)[0]) == pytest.approx(-float(agents[0].flow(3)[0, 0]))


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.name)
@pytest.mark.parametrize(("rate", "one"), [(0.002, False), (0.01, True), (0.1, True)])
def test_agents_that_skip_rounds_take_the_safe_step(network: Network, rate: float, one: bool) -> None:
    """An agent that is delayed jumps to the round of its neighbors, and uses none of the messages in between."""
    random, rounds = np.random.default_rng(3), 2000
    skipped = np.zeros((rounds + 4, network.agents), dtype=bool)
    for t, i in np.argwhere(random.random((rounds, network.agents)) < rate):
        skipped[t : t + random.integers(1, 5), i] = i == 0 or not one
    agents = ledgers(network, AnytimeSDA("local-heavy-ball"), 1000)
    worst = []
    for t in range(0, rounds, 100):
        drive(agents, network, constant(network, 100), first=t, skips=lambda t, i: bool(skipped[t, i]))
        worst.append(np.abs(estimates(agents) - np.mean(np.arange(network.agents))).max())
    assert max(worst[5:]) < 0.01  # beyond 1e20 without it
