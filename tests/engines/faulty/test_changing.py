"""Networks that change, against agents that really meet and talk, and against the simulation of fixed networks."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.reference import coefficients_at

import gossamer as gs
from gossamer.engines.faulty import edges as faulty_edges
from gossamer.engines.faulty import runs
from gossamer.errors import InvalidInput, Unsupported
from gossamer.faults import Bursts, Crash, Delay, Faults, Join, Loss, Partition, Restart
from gossamer.methods.ledger import DOWN, SILENCE

LOCAL = gs.AnytimeSDA(acceleration="local")
CHANGING = {
    "mobile": gs.ChangingNetwork.mobile(12, radius=0.3, speed=0.02, seed=4),
    "matchings": gs.ChangingNetwork.matchings(12, seed=4),
    "dropout": gs.ChangingNetwork.dropout("grid:3x4", 0.2, seed=4),
}
EVERYTHING = Faults(
    Loss(0.2),
    Bursts(8, 0.2),
    Delay(1, 0.05),
    Crash(4, 30, notice=3),
    Restart(4, 70),
    Crash(9, 50),
    Join(2, 11),
    Partition(range(6), 80, 101),
)


def gaussian(agents, components=1):
    return gs.Gaussian(np.random.default_rng(0).uniform(0, 10, (agents, components)))


# -- slow, obvious reference versions ------


class Edge:
    """What one end knows of one edge."""

    def __init__(self, components):
        self.flow = self.memory = np.zeros(components)
        self.standing = 0  # 1: compared, 2: dropped
        self.echoed = False
        self.heard = None  # the last contact in which the other end was heard
        self.born = 0  # the contact from which this end counts
        self.begun = 0  # the round in which it began with zero flow


def met_by_agents(method, network, samples, faults, seed, trial):
    """(N, n) estimates of the local form by agents that meet and talk; samples (T, N, n). Nobody forgets an edge."""
    rounds, agents, components = samples.shape
    links, c = faults.bind(seed, trial), method.coefficients(network, rounds)
    mean, smooth, clock = np.zeros((agents, components)), np.zeros((agents, components)), np.zeros(agents)
    folded, returning = np.zeros((agents, components)), np.zeros((agents, components))
    known: list[dict[int, Edge]] = [{} for _ in range(agents)]
    contacts, last = {}, {}
    for t, seen in enumerate(samples):
        for event in faults.events:
            if event.round != t:
                continue
            for i in range(agents):
                for j, edge in known[i].items():
                    if (event.what, event.agent) == ("drop", j):
                        edge.standing = 2
                        returning[i] += edge.flow
                        edge.flow = edge.memory = np.zeros(components)
                    if (event.what, event.agent) == ("begin", i):
                        edge.flow = edge.memory = returning[i] = np.zeros(components)
                        edge.standing, edge.heard, edge.begun = 0, None, t
                    if (event.what, event.agent) in (("drop", j), ("begin", i)):
                        edge.echoed, edge.born = False, contacts[min(i, j), max(i, j)]
        met = [(i, j) for i, j in network.edges_at(t).tolist() if faults.up(t, i, j)]
        fresh = {pair for pair in met if t - last.get(pair, -1 << 20) > DOWN}
        last |= dict.fromkeys(met, t)
        degree = np.bincount(
            [i for pair, when in last.items() if t - when <= DOWN for i in pair], minlength=agents
        )
        theta = {}
        for i in range(agents):
            if links.alive(i, t):
                clock[i] += 1
                mean[i] += (seen[i] - mean[i]) / clock[i]
                smooth[i] += max(1 / clock[i], min(1, 1 / (2 * np.sqrt(clock[i])))) * (mean[i] - smooth[i])
                flows = sum(edge.flow for edge in known[i].values())
                theta[i] = smooth[i] + folded[i] + flows + returning[i]
        for i, j in met:
            mine, theirs = (known[a].setdefault(b, Edge(components)) for a, b in ((i, j), (j, i)))
            turn = contacts.setdefault((i, j), 0)
            contacts[i, j] += 1
            if (i, j) in fresh:
                mine.memory, theirs.memory = mine.flow, theirs.flow
                if not faults.events and np.all(mine.flow == -theirs.flow):
                    for a, b in ((i, j), (j, i)):
                        folded[a] += known[a][b].flow
                        known[a][b] = Edge(components)
                        known[a][b].born = turn
            sent = {a: dict(vars(known[a][b])) for a, b in ((i, j), (j, i))}
            weight = 1 / (1 + max(degree[i], degree[j]))
            for me, other in ((i, j), (j, i)):
                if not links.heard(t, other, me):
                    continue
                edge, told = known[me][other], sent[other]
                echo = None if told["standing"] == 2 else told["heard"]
                since = edge.born if echo is None else echo
                near_enough = since >= edge.born and turn - since <= SILENCE
                edge.echoed |= echo is not None and echo >= edge.born
                standing = 1 if edge.standing == 2 and edge.echoed else edge.standing
                alone = not edge.echoed and not near_enough and standing < 2
                if 2 in (told["standing"], edge.standing):
                    edge.begun = t
                if told["standing"] == 2:
                    returning[me] += edge.flow
                    edge.flow = edge.memory = np.zeros(components)
                elif alone or (told["standing"], -other) > (standing, -me):
                    edge.flow, edge.memory = -told["flow"], -told["memory"]
                if near_enough and standing < 2 and told["standing"] < 2:
                    moved = edge.flow - 0.65 * weight * (theta[me] - theta[other])
                    zeta = coefficients_at(c, t - edge.begun).momentum
                    edge.flow, edge.memory = moved + zeta * (moved - edge.memory), moved
                edge.heard, edge.standing = turn, 2 if standing == 2 > told["standing"] else 1
        returning *= np.where([links.alive(i, t) for i in range(agents)], 0.98, 1.0)[:, None]
    flows = [sum(edge.flow for edge in known[i].values()) for i in range(agents)]
    return np.array([smooth[i] + folded[i] + flows[i] + returning[i] for i in range(agents)])


def mixed_by_round(method, network, samples, faults, seed, trial):
    """(N, n) estimates of a method without a ledger: Metropolis weights of the round, whoever is not heard left out."""
    rounds, agents, components = samples.shape
    links, c = faults.bind(seed, trial), method.coefficients(network, rounds)
    states = [method.State(*(np.zeros(components) for _ in method.State._fields)) for _ in range(agents)]
    for t, seen in enumerate(samples):
        now = coefficients_at(c, t)
        pairs = np.array([pair for pair in network.edges_at(t).tolist() if faults.up(t, *pair)], int).reshape(
            -1, 2
        )
        degree = np.bincount(pairs.ravel(), minlength=agents)
        told = [method.message(now, states[i], seen[i]) for i in range(agents)]
        mixed = np.zeros((agents, components))
        for i, j in pairs.tolist():
            for me, other in ((i, j), (j, i)):
                if links.heard(t, other, me):
                    mixed[me] += (told[me] - told[other]) / (1 + max(degree[i], degree[j]))
        states = [method.step(now, states[i], seen[i], mixed[i]) for i in range(agents)]
    return np.array([method.estimate(coefficients_at(c, rounds - 1), state) for state in states])


# -- the rules ------


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(Loss(0.4)), Faults(Bursts(6, 0.4)), EVERYTHING],
    ids=["nothing", "loss", "bursts", "everything"],
)
@pytest.mark.parametrize("network", CHANGING.values(), ids=list(CHANGING))
def test_the_compiled_rules_are_those_of_agents_that_meet(network, faults):
    obs, rounds = gaussian(12, 2), 160
    run = gs.simulate(LOCAL, network, obs, rounds, trials=3, seed=5, faults=faults)
    samples = obs.sample(5, range(rounds), range(3))
    for trial in range(3):
        expected = met_by_agents(LOCAL, network, samples[..., trial], faults, 5, trial)
        alive = run.alive
        np.testing.assert_allclose(run.estimates[trial][alive], expected[alive], rtol=1e-12, atol=1e-12)
    assert run.rule == "ledger"


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults", [None, Loss(0.4), Partition([1, 2], 20, 60)], ids=["nothing", "loss", "partition"]
)
@pytest.mark.parametrize("network", CHANGING.values(), ids=list(CHANGING))
def test_methods_without_a_ledger_have_the_metropolis_weights_of_the_round(network, faults):
    obs, rounds = gaussian(12, 2), 90
    run = gs.simulate("dsg", network, obs, rounds, trials=2, seed=5, faults=faults)
    samples = obs.sample(5, range(rounds), range(2))
    for trial in range(2):
        bound = Faults() if faults is None else Faults(faults)
        expected = mixed_by_round(gs.DSG(), network, samples[..., trial], bound, 5, trial)
        np.testing.assert_allclose(run.estimates[trial], expected, rtol=1e-12, atol=1e-12)
    assert run.rule == "skip"
    assert "Metropolis weights of each round" in run.records()[0]["note"]


@pytest.mark.parametrize(
    "method", [LOCAL, gs.DSG(), gs.SDA(step_size=0.5, momentum=0.8)], ids=lambda m: m.name
)
@pytest.mark.parametrize("faults", [None, Loss(0.3)], ids=["nothing", "loss"])
def test_a_network_that_never_changes_is_the_fixed_one(method, faults):
    base, obs = gs.Network.erdos_renyi(12, seed=3), gaussian(12, 2)
    never = gs.ChangingNetwork.from_function(lambda round: base.edges, 12)
    fixed = gs.simulate(method, base, obs, [40, 120], 4, seed=2, faults=faults)
    changing = gs.simulate(method, never, obs, [40, 120], 4, seed=2, faults=faults)
    np.testing.assert_allclose(changing.estimates, fixed.estimates, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(changing.total_error, fixed.total_error, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("network", CHANGING.values(), ids=list(CHANGING))
def test_one_ledger_per_edge_gives_the_same_bits_as_two(network):
    """Where nothing can get lost the ends share a ledger; a loss of probability zero makes each keep its own."""
    one = gs.simulate(LOCAL, network, gaussian(12, 2), 300, 5, keep="iterates")
    two = gs.simulate(LOCAL, network, gaussian(12, 2), 300, 5, keep="iterates", faults=Loss(0.0))
    for name, values in one.iterates.items():
        np.testing.assert_allclose(values, two.iterates[name], atol=1e-12)
    np.testing.assert_array_equal(one.estimates, two.estimates)


@pytest.mark.slow
def test_trials_do_not_depend_on_how_they_are_grouped(monkeypatch):
    """Also where some trials fold an edge and others cannot: loss."""
    network, obs = gs.ChangingNetwork.matchings(10, seed=1), gaussian(10)
    together = gs.simulate(LOCAL, network, obs, 400, 9, seed=3, faults=Loss(0.3))
    for block, at_once in ((1, 128), (4, 8)):
        monkeypatch.setattr(runs, "_BLOCK", block)
        monkeypatch.setattr(faulty_edges, "_AHEAD", 5 * at_once)
        apart = gs.simulate(LOCAL, network, obs, 400, 5, seed=3, faults=Loss(0.3), first_trial=4)
        np.testing.assert_array_equal(apart.estimates, together.estimates[4:])


def test_methods_without_a_ledger_survive_crashes():
    run = gs.simulate(
        "dsg", CHANGING["mobile"], gaussian(12), 60, 2, faults=Faults(Crash(3, 20), Join(5, 10))
    )
    assert np.isfinite(run.total_error)
    assert run.agents == 11


def test_iterates_and_horizons_are_those_of_one_run():
    network, obs = CHANGING["mobile"], gaussian(12)
    kept = gs.simulate(LOCAL, network, obs, [10, 60], 2, keep="iterates")
    assert kept.iterates["estimate"].shape == (2, 60, 12, 1)
    np.testing.assert_array_equal(kept.iterates["estimate"][:, [9, 59]].swapaxes(0, 1), kept.estimates)
    theta = kept.iterates["x"] + kept.iterates["smooth"]
    np.testing.assert_allclose(theta, kept.iterates["estimate"], atol=1e-12)


def test_flows_cancel_so_that_the_average_is_kept():
    network = gs.ChangingNetwork.matchings(30, seed=1)
    kept = gs.simulate(LOCAL, network, gaussian(30), 300, 2, keep="iterates")
    np.testing.assert_allclose(kept.iterates["x"].sum(axis=2), 0, atol=1e-9)


# -- memory ------


def places_used(network, rounds, faults=None):
    """The most edges that had a place at once, and how many there were in all."""
    found = []
    forget = faulty_edges.ChangingEdges.forget

    def watch(self, *args):
        found.append(int((self._book.key >= 0).sum()))
        forget(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faulty_edges.ChangingEdges, "forget", watch)
        patch.setattr(faulty_edges, "_AHEAD", 16 * network.agents // 2)
        gs.simulate(LOCAL, network, gaussian(network.agents), rounds, 2, faults=faults)
    pairs = network.edges_in(range(rounds))[1]
    return max(found), len(np.unique(pairs, axis=0))


def test_memory_is_bounded_by_the_edges_that_are_up():
    most, everything = places_used(gs.ChangingNetwork.matchings(60, seed=1), 600)
    assert everything > 1700
    assert most <= 30 * (16 + 2 * DOWN + 2)


def test_edges_are_kept_where_their_flow_may_have_to_return():
    most, everything = places_used(gs.ChangingNetwork.matchings(20, seed=1), 200, Crash(3, 100))
    assert most == everything


def test_many_edges_at_once_find_a_place():
    def bursts(round):
        return gs.Network.complete(20).edges if round % 50 == 49 else [(0, 1)]

    network = gs.ChangingNetwork.from_function(bursts, 20)
    run = gs.simulate(LOCAL, network, gaussian(20), 120, 2, seed=5)
    samples = gaussian(20).sample(5, range(120), range(2))
    expected = met_by_agents(LOCAL, network, samples[..., 1], Faults(), 5, 1)
    np.testing.assert_allclose(run.estimates[1], expected, rtol=1e-12, atol=1e-12)


# -- what is said ------


def test_instants_without_a_path_are_fine_and_a_union_in_parts_is_reported():
    halves = gs.ChangingNetwork.from_function(lambda round: [(0, 1)] if round % 2 else [(2, 3)], 4)
    run = gs.simulate(LOCAL, halves, gaussian(4), [1, 30], 3)
    assert run.parts.tolist() == [3, 2]
    assert "in 2 parts" in run.records()[1]["note"]
    joined = gs.ChangingNetwork.from_function(lambda round: [[(0, 1)], [(1, 2)], [(2, 3)]][round % 3], 4)
    run = gs.simulate(LOCAL, joined, gaussian(4), [1, 30], 3)
    assert run.parts.tolist() == [3, 1]
    assert run.records()[1]["note"] == ""


@pytest.mark.parametrize("method", ["anytime-sda", "sda", "ssda", gs.AnytimeSDA("chebyshev")])
def test_methods_that_need_a_spectrum_say_so(method):
    with pytest.raises(
        Unsupported, match=r"every round has another spectrum.*acceleration='local-heavy-ball'"
    ):
        gs.simulate(method, CHANGING["mobile"], gaussian(12), 30, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobile", "matchings"])  # on dropout its momentum makes D-MASG diverge
def test_rivals_without_a_ledger_run_with_the_weights_of_the_round(name):
    """D-MASG asks for the largest eigenvalue, and every round's is at most 2 - 2/N."""
    network, obs = CHANGING[name], gaussian(12)
    early, late = gs.simulate("d-masg", network, obs, [200, 3000], 4).total_error
    assert late < early / 10
    fixed = [gs.Network.cycle(12), gs.Network.complete(12), gs.Network.star(12), gs.Network.path(12)]
    assert all(each.lambda_max <= network.lambda_max for each in fixed)


def test_what_cannot_run_says_why():
    network, obs = CHANGING["mobile"], gaussian(12)
    with pytest.raises(Unsupported, match=r"or simulate it"):
        gs.exact(LOCAL, network, obs, 30_000)
    with pytest.raises(Unsupported, match="simulate it"):
        gs.plan(network, obs, 0.1)
    with pytest.raises(Unsupported, match="wakes agents at random"):
        gs.simulate("pairwise", network, obs, 30, 2)
    with pytest.raises(InvalidInput, match="has 12 agents, but the observations have 3"):
        gs.simulate(LOCAL, network, gaussian(3), 30, 2)
    with pytest.raises(InvalidInput, match="float64"):
        gs.simulate(LOCAL, network, obs, 30, 2, dtype=np.float32)


def test_results_can_be_shown():
    run = gs.simulate(LOCAL, CHANGING["mobile"], gaussian(12), [10, 30], 3)
    assert "mobile:12" in repr(run)
    assert [curve.label for curve in run.curves()] == ["anytime-sda, local", "centralized limit"]


# -- the table ------


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        gs.ChangingNetwork.mobile(60, radius=0.2, speed=0.01, seed=1),
        gs.ChangingNetwork.matchings(60, seed=1),
        gs.ChangingNetwork.dropout("grid:6x10", 0.2, seed=1),
    ],
    ids=lambda network: network.name,
)
def test_the_networks_share_of_the_error_is_small(network):
    """At most 0.045 at T = 3000. Trials on the complete graph with the same samples, whose error is known, take most of
    the noise away."""
    obs, complete = gaussian(60), gs.Network.complete(60)
    run = gs.simulate(LOCAL, network, obs, 3000, 64, seed=7)
    beside = gs.simulate(LOCAL, complete, obs, 3000, 64, seed=7)
    extra = (run.errors - beside.errors) / run.centralized_limit
    share = gs.exact(LOCAL, complete, obs, 3000).over_limit - 1 + extra.mean()
    assert extra.std() / 8 < 0.002
    assert share < 0.045


def test_both_local_forms_are_the_same_where_edges_change():
    network, obs = gs.ChangingNetwork.mobile(12, radius=0.4), gs.Gaussian(np.arange(12.0))
    one, other = (
        gs.simulate(gs.AnytimeSDA(form), network, obs, 60, trials=2).estimates
        for form in ("local", "local-heavy-ball")
    )
    np.testing.assert_array_equal(one, other)
