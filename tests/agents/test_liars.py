"""Members that lie: what each attack of docs/security.md does while it lasts, and that it is undone when they go."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from tests.support.agent_process import Handle
from tests.support.lockstep import (
    FLOW,
    GRID,
    RANGE,
    REGISTERS,
    WIDTH,
    Desk,
    Forger,
    Lie,
    Lockstep,
    Lying,
    Told,
    adds,
    loaded,
)
from tests.support.small_fleets import fleet, make_certificates
from tests.support.waiting import until

from gossamer.agents.agent import Agent
from gossamer.agents.config.model import FleetModel
from gossamer.agents.round.bounds import SOFT
from gossamer.agents.round.row_batching import KeptRows
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.statistics.models import ModelLayout
from gossamer.agents.transports.tls import TlsTransport
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import RETURN_RATE
from gossamer.models import FIRST
from gossamer.networks import Network

MEANS = np.linspace(0.0, 10.0, 16)
LIAR = 5  # it has four neighbors; 0, in a corner, has two


def neighbors(*agents: int, network: Network = GRID) -> list[int]:
    """The honest neighbors of these agents, once for each edge."""
    return [int(j) for i in agents for j in network.neighbors(i) if int(j) not in agents]


def attacked(
    lie: Lie | Callable[[Lockstep], Lie], liars: tuple[int, ...] = (LIAR,), rounds: int = 400, **options: Any
) -> Lockstep:
    """A fleet that has agreed, and in which these agents then lied for a while."""
    made = Lockstep(options.pop("network", GRID), options.pop("means", MEANS), RANGE, **options)
    made.run(100)
    for liar in liars:
        made.desks[liar].lie = lie  # type: ignore[assignment]
    made.run(rounds)
    return made


def restored(made: Lockstep, *liars: int, rounds: int = 500) -> None:
    """Once the liars are gone the others are at their own average (of each part, if the liars were a cut), and nobody
    honest was shut out."""
    shut_out = {
        (i, j)
        for i, desk in made.desks.items()
        for j, peer in desk.conversation.peers.items()
        if peer.quarantined and i not in liars and j not in liars
    }
    assert not shut_out
    made.remove(*liars)
    made.run(rounds)
    graph = nx.Graph(made.network.edges.tolist())
    graph.remove_nodes_from(liars)
    for part in nx.connected_components(graph):
        found = [made.desks[i].estimate for i in part]
        np.testing.assert_allclose(found, made.means[list(part)].mean(), rtol=0, atol=1e-6)


# -- the attacks of the issue, and others, one by one ---------------------------------------------------------


class Grows:
    """Claims to have heard nothing, so that the other end never moves the edge, and a ledger that grows."""

    def __init__(self) -> None:
        self.size = 1.0

    def __call__(self, told: Told) -> Told:
        self.size *= 1.05
        told.echo = 0
        told.shape(REGISTERS)[1:, 1] = -self.size
        return told


def claims_a_value(told: Told) -> Told:
    told.shape(REGISTERS)[0, 1] = 1e7
    return told


def hears_the_future(told: Told) -> Told:
    told.echo += 1000
    return told


CAUGHT = {
    "adds 1e6": ("flow", lambda: adds(1e6, slice(None))),
    "adds 15.5 to the first component": ("flow", lambda: adds(15.5, slice(0, 1))),
    "echo 0 and a growing ledger": ("flow", Grows),
    "a value of 1e7": ("value", lambda: claims_a_value),
    "an echo of what was never sent": ("echo", lambda: hears_the_future),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUGHT)
def test_who_claims_the_impossible_is_put_in_quarantine(name: str, caplog: pytest.LogCaptureFixture) -> None:
    reason, lie = CAUGHT[name]
    with caplog.at_level(logging.ERROR):
        made = attacked(lie(), rounds=700)
    for j in neighbors(LIAR):
        assert made.desks[j].state(LIAR) == "quarantined"
        assert made.desks[j].rejected[reason] == 5
        assert made.desks[j].rejected["quarantine"] > 100
    told = [line for line in caplog.messages if line.startswith(f"neighbor {LIAR} is in quarantine")]
    assert len(told) == len(neighbors(LIAR))
    assert all(reason in line for line in told)
    np.testing.assert_allclose(made.estimates((LIAR,)), made.average((LIAR,)), rtol=0, atol=1e-6)
    restored(made, LIAR)


@pytest.mark.slow
def test_flows_without_bounds_return_without_a_trace() -> None:
    """A ledger that grew beyond all bounds returns slowly, so that it leaves no currents in circles behind."""
    made = Lockstep(GRID, MEANS)
    made.run(50)
    made.desks[LIAR].lie = Grows()
    made.run(1000)  # 1.05^4000 = 6e84
    made.remove(LIAR)
    made.run(500)
    np.testing.assert_allclose(made.estimates(), made.average((LIAR,)), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.0, 0.5])
@pytest.mark.parametrize(("size", "rounds", "dies"), [(1e12, 3, True), (1e60, 3, False), (1e60, 600, True)])
def test_a_lie_without_a_range_leaves_nothing_behind(
    size: float, rounds: int, dies: bool, loss: float
) -> None:
    """Currents in circles that dwarf all values are noticed, and all agents that have them begin anew."""
    made = Lockstep(GRID, MEANS, loss=loss, seed=3, return_rate=RETURN_RATE)
    made.run(200)
    made.desks[LIAR].lie = adds(size, slice(1, 2))
    made.run(rounds)
    made.desks[LIAR].lie = None
    gone = (LIAR,) if dies else ()
    made.remove(*gone)
    made.run(500 if dies else 600)
    np.testing.assert_allclose(made.estimates(gone), made.average(gone), rtol=0, atol=1e-6)
    flows = [desk.ledger.flow(j) for desk in made.desks.values() for j in desk.conversation.peers]
    assert np.abs(flows).max() < 100
    assert all(desk.ledger.overgrowth.resets for desk in made.desks.values())


@pytest.mark.parametrize(
    ("means", "most"), [([-1.0, 0.0, 1.0], 0), ([5e-17, 0.0, 1e9], 0), ([-1e9, 1e-3, 1e9], 1)]
)
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_no_honest_flow_counts_as_left_behind(means: list[float], most: int, loss: float) -> None:
    """Nor when an agent dies whose flow dwarfs the mean of its neighbor. Flows that dwarf all values of an agent do,
    once: then they grow back, and it knows better."""
    made = Lockstep(Network.path(3), means, loss=loss, death=0.5, return_rate=RETURN_RATE)
    made.run(1800)
    np.testing.assert_allclose(made.estimates(), made.average(), rtol=0, atol=1e-12 * max(means))
    watched = [desk.ledger.overgrowth for desk in made.desks.values()]
    assert max(watch.resets for watch in watched) == most
    assert not any(watch.doubted for watch in watched)
    if most == 0:
        made.remove(2)
        made.run(600)
        right = made.average((2,))
        np.testing.assert_allclose(made.estimates(), right, rtol=0, atol=1e-4 * max(means))
        assert not any(watch.resets for watch in watched)


class Replays:
    """Tells each neighbor for ever what it told it first; with fresh serials, or the old ones."""

    def __init__(self, fresh: bool) -> None:
        self.fresh = fresh
        self.first: dict[int, Told] = {}

    def __call__(self, told: Told) -> Told:
        old = self.first.setdefault(told.receiver, told)
        told.rows = old.rows.copy()
        if not self.fresh:
            told.serial, told.round = old.serial, old.round
        return told


def settles_nothing(told: Told) -> Told:
    told.settled = False
    return told


def settles_everything(told: Told) -> Told:
    told.settled = True
    told.shape(REGISTERS)[1:] = 0.0
    return told


def leaps_in_serials(told: Told) -> Told:
    told.serial = 2**62
    return told


@pytest.mark.slow
@pytest.mark.parametrize(
    "lie",
    [Replays(True), Replays(False), settles_nothing, settles_everything, leaps_in_serials],
    ids=["replays", "replays as they were", "settles nothing", "settles everything", "serials of 2^62"],
)
def test_lies_within_the_limits_are_undone(lie: Lie) -> None:
    made = attacked(lie)
    shift = len(neighbors(LIAR)) * FLOW / 15
    assert np.abs(made.estimates((LIAR,)) - MEANS.mean()).max() < shift
    restored(made, LIAR)


@pytest.mark.slow
def test_who_lied_about_its_serial_can_come_back_honest() -> None:
    """It has locked itself out: its serials are at their end. Once it counts as dead, it begins anew."""
    made = attacked(leaps_in_serials)
    assert made.desks[4].rejected["stale"] > 0
    assert made.desks[4].state(LIAR) == "dead"
    made.remove(LIAR)
    made.run(5)
    made.desks[LIAR] = Desk(made, LIAR)
    made.desks[LIAR].now = made.desks[4].now
    made.run(300)
    np.testing.assert_allclose(made.estimates(), MEANS.mean(), rtol=0, atol=1e-6)


def test_who_lost_its_store_and_its_clock_suspects_nobody() -> None:
    """Its serials begin anew, so its neighbors echo what it has not sent yet: a lie only from one that knows better."""
    made = Lockstep(GRID, MEANS, RANGE)
    made.run(300)
    now, round = made.desks[LIAR].now, made.desks[LIAR].conversation.round
    made.desks[LIAR] = Desk(made, LIAR)
    made.desks[LIAR].now, made.desks[LIAR].conversation.round = now, round
    made.run(300)
    assert made.desks[LIAR].rejected["echo"] > 5
    assert {made.desks[LIAR].state(j) for j in neighbors(LIAR)} == {"alive"}
    np.testing.assert_allclose(made.estimates(), MEANS.mean(), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [2, 10**6, 10**9])
@pytest.mark.parametrize("only", [None, 6])
def test_racing_rounds_are_survived(ahead: int, only: int | None) -> None:
    """The fleet follows or not; either way it is together again when the liar is gone."""
    made = Lockstep(GRID, MEANS, RANGE)
    made.run(100)

    def race(told: Told) -> Told:
        if only in (None, told.receiver):
            told.round = made.desks[told.receiver].conversation.round + ahead
        return told

    made.desks[LIAR].lie = race
    made.run(100)
    restored(made, LIAR)
    rounds = {desk.conversation.round for desk in made.desks.values()}
    assert max(rounds) - min(rounds) <= 1


def test_a_fleet_that_is_far_ahead_can_be_joined() -> None:
    """An agent without its store starts at round 0, however long the others have run, or were sent ahead."""
    made = Lockstep(GRID, MEANS, RANGE)
    for desk in made.desks.values():
        desk.conversation.round = 7 * 10**6
    made.run(50)
    made.remove(LIAR)
    made.run(20)
    made.desks[LIAR] = Desk(made, LIAR)
    made.desks[LIAR].now = made.desks[4].now
    made.run(200)
    np.testing.assert_allclose(made.estimates(), MEANS.mean(), rtol=0, atol=1e-6)


# -- the theorem: what liars can do at most -------------------------------------------------------------------


def pushes(made: Lockstep, sign: float = 1.0) -> Lie:
    """Just below every limit: a value that drives the honest end's flow to its own limit."""
    assert made.bounds is not None
    most = made.bounds.rows[0, 1]

    def lie(told: Told) -> Told:
        told.shape(REGISTERS)[0, 1] = sign * most * (1 - 1e-9)
        return told

    return lie


def sneaked(network: Network, means: np.ndarray, liars: tuple[int, ...], **options: Any) -> Lockstep:
    made = Lockstep(network, means, RANGE, **options)
    made.run(100)
    for liar in liars:
        made.desks[liar].lie = pushes(made)
    made.run(500)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "liars", [(5,), (0,), (5, 6), (5, 10), (1, 4)], ids=["one", "corner", "adjacent", "apart", "a cut"]
)
def test_the_honest_average_moves_by_the_flow_of_the_liars_at_most(liars: tuple[int, ...]) -> None:
    """Off by at most the soft limit of each edge between liars and honest agents, over the honest; and that is reached,
    while the neighbors name the liars. Without soft limits it was four times as much at least."""
    made = sneaked(GRID, MEANS, liars)
    edges, honest = len(neighbors(*liars)), 16 - len(liars)
    shift = float(np.mean(made.estimates(liars))) - made.average(liars)
    most = sum(SOFT * n.load * WIDTH for liar in liars for n in loaded(GRID, liar) if n.id not in liars)
    assert 0.99 * most / honest < shift <= most / honest * (1 + 1e-9)
    assert 4 * most < edges * FLOW
    for j in neighbors(*liars):
        assert set(made.desks[j].ledger.limits.strained) >= {i for i in liars if i in GRID.neighbors(j)}
    for i, desk in made.desks.items():
        if i not in liars:
            assert not any(peer.quarantined for peer in desk.conversation.peers.values())
            assert not set(desk.rejected) - {"late"}
            degree = len(desk.conversation.peers)
            assert RANGE[0] - degree * FLOW <= desk.estimate <= RANGE[1] + degree * FLOW
    restored(made, *liars)


def test_liars_that_are_a_cut_divide_the_network_and_no_more() -> None:
    made = sneaked(Network.path(8), np.arange(8.0), (3, 4))
    restored(made, 3, 4)


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_nobody_can_be_framed(loss: float) -> None:
    """Liars that drive an honest agent as far as they can: it hits its limits, and no honest agent minds."""
    star = Network.star(9)  # the center has eight neighbors, of which seven lie
    means = np.linspace(0.0, 8.0, 9)
    made = Lockstep(star, means, RANGE, loss=loss, death=3.0)
    made.run(50)
    for liar in range(1, 8):
        made.desks[liar].lie = pushes(made, sign=1.0 if liar % 4 else -1.0)
    made.run(500)
    assert made.bounds is not None
    for i in (0, 8):
        for j in star.neighbors(i):
            assert (np.abs(made.desks[i].ledger.flow(int(j))) <= made.bounds.rows[1:]).all()
    assert made.desks[8].state(0) == "alive"
    assert not {"value", "flow", "echo"} & set(made.desks[8].rejected)
    restored(made, *range(1, 8), rounds=600)


@pytest.mark.slow
@pytest.mark.parametrize("acceleration", ["nesterov", pytest.param("local", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "network",
    [Network.path(16), Network.cycle(16), Network.star(16), GRID, Network.of(nx.barbell_graph(8, 0))],
    ids=["path", "cycle", "star", "grid", "barbell"],
)
def test_honest_agents_are_never_held_back(network: Network, acceleration: str) -> None:
    """The hardest honest case (one half sees one end of the range, the other half the other, and half of all messages
    are lost): no flow comes near its limit, and the average is reached as without limits."""
    gossip = network.gossip.toarray()
    order = np.argsort(np.linalg.eigh(gossip)[1][:, 1])  # along the network's slowest mode
    means = np.empty(16)
    means[order[:8]], means[order[8:]] = RANGE
    made = Lockstep(network, means, RANGE, method=AnytimeSDA(acceleration=acceleration), loss=0.5, seed=1)
    largest = 0.0
    for _ in range(30):
        made.run(10)
        flows = [desk.ledger.flow(j)[:, 1] for desk in made.desks.values() for j in desk.conversation.peers]
        largest = max(largest, float(np.abs(flows).max()))
    assert largest < 0.75 * FLOW
    assert all(not {"value", "flow", "echo"} & set(desk.rejected) for desk in made.desks.values())
    assert np.abs(made.estimates() - 10.0).max() < 1.0


# -- models ---------------------------------------------------------------------------------------------------


LABELS = {"logistic": (0, 1), "softmax": (0, 2), "poisson": (0, 8), "gamma": (0.2, 9), "huber": (-4, 4)}


def model_layout(family: str, **changes: Any) -> ModelLayout:
    ends = ((-2.0, 3.0), (1.0, 5.0), LABELS[family])
    options = {"weighting": "agents", "range": ends} | changes
    return ModelLayout(3, model=FleetModel(family, ("age", "dose"), least=1), **options)


def honest_sums(layout: ModelLayout, seed: int, theta: np.ndarray) -> np.ndarray:
    """The mean over an agent's rows of what is averaged, linearized at theta."""
    rng, kept = np.random.default_rng(seed), KeptRows(layout)
    x = np.column_stack([rng.uniform(-2, 3, 40), rng.uniform(1, 5, 40)])
    low, high = LABELS[layout.model.family]
    y = rng.uniform(low, high, 40)
    whole = layout.model.family in ("logistic", "softmax", "poisson")
    kept.add(np.column_stack([x, np.round(y) if whole else y]), np.zeros((40, 0)), careful=True)
    for _ in range(30):
        sums = kept.move(theta, careful=bool(seed % 2))
    return sums / sums[0] ** layout.squared


@pytest.mark.slow
@pytest.mark.parametrize("family", LABELS)
def test_what_honest_members_say_of_a_model_is_within_the_bounds(family: str) -> None:
    layout, rng = model_layout(family), np.random.default_rng(0)
    assert layout.box is not None
    low, high = layout.box
    bounded = layout.sums.plain
    assert np.isfinite([low[:bounded], high[:bounded]]).all()
    for seed, scale in enumerate([0.0, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0]):
        sums = honest_sums(layout, seed, scale * rng.normal(size=layout.parameters))
        assert (sums >= low).all()
        assert (sums <= high).all()
    assert model_layout(family, range=()).box is None
    assert model_layout(family, weighting="samples").box is None


@pytest.mark.slow
def test_who_claims_impossible_sums_of_a_model_is_put_in_quarantine() -> None:
    """A pseudo-response that no rows within the range have. Without a range, the model follows the liar."""
    estimates = {}
    for bounded in (True, False):
        layout = model_layout("logistic", **({} if bounded else {"range": ()}))
        sums = np.array([honest_sums(layout, 2 * i, np.array([0.4, -0.3, 0.2])) for i in range(16)])
        made = Lockstep(GRID, sums, layout=layout)
        made.run(100)
        made.desks[LIAR].lie = adds(1e4, slice(FIRST, FIRST + 1))
        made.run(250)
        states = {made.desks[j].state(LIAR) for j in neighbors(LIAR)}
        assert states == ({"quarantined"} if bounded else {"alive"})
        rest = [i for i in range(16) if i != LIAR]
        known = layout.judge(sums[rest].mean(axis=0), 15).theta
        theta = np.array([layout.judge(made.desks[i].ledger.estimate, 15).theta for i in rest])
        estimates[bounded] = np.abs(theta - known).max()
    assert estimates[True] < 1e-6
    assert estimates[False] > 1.0


# -- over the network ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_liar_among_processes_over_tls(tmp_path: Path) -> None:
    """Six agents on a ring with a chord; one lies, is shut out by all its neighbors, and is then stopped."""
    graph = nx.cycle_graph(6)
    graph.add_edge(0, 3)
    network = Network.of(graph)
    some = fleet(
        network,
        certificates=make_certificates(tmp_path, 6),
        pace=0.02,
        death=2.0,
        range=RANGE,
        members=6,
    )
    honest = {s.id: Handle(s, mean=float(s.id)) for s in some[1:]}
    transport = Lying(
        TlsTransport(some[0]), Forger(0, Layout.of(some[0]).size, REGISTERS, some[0].fingerprint)
    )

    def all_at(value: float) -> bool:
        return all(abs(handle.estimate - value) < 1e-6 for handle in honest.values())

    async def lie() -> None:
        async with Agent(some[0], transport=transport, source=itertools.repeat(0.0)):  # type: ignore[arg-type]
            await asyncio.to_thread(until, lambda: all_at(2.5), "the average of six")
            transport.lie = adds(1e6, slice(None))
            shut_out = lambda: all(honest[j].last["neighbors"]["0"] == "quarantined" for j in (1, 3, 5))  # noqa: E731
            await asyncio.to_thread(until, shut_out, "quarantine")
            await asyncio.to_thread(until, lambda: all_at(3.0), "the average of five")
            for j in (1, 3, 5):
                assert honest[j].last["state"] == "degraded"
                assert honest[j].last["problem"] == "in quarantine for impossible claims or a flood: agent0"
                assert honest[j].last["rejected"]["flow"] == 5
            assert {honest[j].last["state"] for j in (2, 4)} == {"running"}

    try:
        asyncio.run(lie())
        until(lambda: all_at(3.0), "the average of five")
    finally:
        for handle in honest.values():
            handle.end()
