"""Push-sum in simulation: against an obvious loop, without bias, near the center's error, and what is refused."""

from __future__ import annotations

import math
import pickle

import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.simulate import directed

ONE_WAY = (
    "(for links that go one way see gs.DirectedNetwork and gs.PushSum, which gs.simulate and gs.compare run|"
    "on one-way links use gs.PushSum, in trials)"
)
DECAYS = (1.0, 1.25, math.inf)


def ring(agents):
    return gs.DirectedNetwork.from_networkx(nx.cycle_graph(agents, create_using=nx.DiGraph), name="ring")


def digraph(agents, p, seed=0):
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(agents, p, seed=int(rng.integers(2**31)), directed=True)
    nx.add_cycle(graph, rng.permutation(agents).tolist())
    return gs.DirectedNetwork.from_networkx(graph, name="digraph")


def streams(agents, components=1):
    means = np.linspace(0, 4, agents * components).reshape(agents, components)
    return gs.Gaussian(means[::-1], 1.0)


def obvious(net, seen, decay):
    """(T, N) estimates after every round, for observations (T, N), link by link."""
    sends = {j: [j, *(int(b) for a, b in net.links if a == j)] for j in range(net.agents)}
    x, w, mean = np.zeros(net.agents), np.zeros(net.agents), np.zeros(net.agents)
    estimates = []
    for t, values in enumerate(seen):
        fresh = (t + 1.0) ** -decay
        new = mean + (values - mean) / (t + 1)
        sums, weights = np.zeros(net.agents), np.zeros(net.agents)
        for j, receivers in sends.items():
            for i in receivers:
                sums[i] += ((1 - fresh) * x[j] + new[j] - (1 - fresh) * mean[j]) / len(receivers)
                weights[i] += ((1 - fresh) * w[j] + fresh) / len(receivers)
        x, w, mean = sums, weights, new
        estimates.append(x / w)
    return np.array(estimates)


@pytest.mark.parametrize("decay", DECAYS)
def test_a_run_is_that_of_an_obvious_loop(decay):
    net, obs = digraph(9, 0.2), streams(9, components=2)
    found = gs.simulate(gs.PushSum(decay), net, obs, [7, 40], trials=3, seed=5, keep="iterates")
    for trial in range(3):
        seen = obs.sample(5, range(40), range(trial, trial + 1))[..., 0]
        for c in range(2):
            expected = obvious(net, seen[:, :, c], decay)
            np.testing.assert_allclose(
                found.iterates["estimate"][trial, :, :, c], expected, rtol=1e-12, atol=1e-13
            )
            np.testing.assert_allclose(
                found.estimates[:, trial, :, c], expected[[6, 39]], rtol=1e-12, atol=1e-13
            )
    errors = ((found.estimates - obs.target(1)) ** 2).sum(axis=3)
    np.testing.assert_allclose(found.errors, errors.sum(axis=2), rtol=1e-12)
    np.testing.assert_allclose(found.per_agent, errors.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.total_error, errors.sum(axis=2).mean(axis=1), rtol=1e-12)


def test_with_decay_1_it_is_the_push_sum_of_the_books():
    net, obs = digraph(8, 0.2), streams(8)
    x, w, a = np.zeros(8), np.zeros(8), net.weights.toarray()
    for values in obs.sample(2, range(30), range(1))[:, :, 0, 0]:
        x, w = a @ (x + values), a @ (w + 1)
    found = gs.simulate(gs.PushSum(decay=1), net, obs, 30, trials=1, seed=2)
    np.testing.assert_allclose(found.estimates[0, :, 0], x / w, rtol=1e-12)


def test_sums_and_weights_are_conserved():
    net, obs = digraph(12, 0.1), streams(12)
    kept = gs.simulate(gs.PushSum(), net, obs, 50, trials=1, keep="iterates").iterates
    x, mean, estimate = (kept[name][0, :, :, 0] for name in ("x", "mean", "estimate"))
    np.testing.assert_allclose(x.sum(axis=1), mean.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose((x / estimate).sum(axis=1), 12, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("net", [ring(12), digraph(20, 0.1), digraph(20, 0.3, seed=1)], ids=repr)
def test_in_the_end_there_is_no_bias(net, decay):
    """Without noise every estimate tends to the average of the means, like 1/T with decay 1 and faster otherwise."""
    obs = gs.Gaussian(np.linspace(-1, 3, net.agents), 0.0)
    found = gs.simulate(gs.PushSum(decay), net, obs, [500, 4000], trials=1).total_error
    assert found[1] < 1e-3 * net.agents
    slope = math.log(found[0] / found[1]) / math.log(8) if found[1] > 1e-20 else math.inf
    assert slope > min(2 * decay, 10) - 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "factor"), [(ring(10), 1.5), (digraph(20, 0.3), 1.2)], ids=["ring", "digraph"]
)
def test_errors_are_unbiased_and_fall_like_those_of_a_center(net, factor):
    obs = streams(net.agents)
    found = gs.simulate(gs.PushSum(), net, obs, [400, 1600], trials=400, seed=1)
    spread = found.estimates.mean(axis=1)[1, :, 0] - obs.mean.mean()
    noise = found.estimates[1, :, :, 0].std(axis=0) / 20
    assert np.all(np.abs(spread) < 5 * noise)
    assert np.all(found.over_limit < factor + 4 * found.stderr / found.centralized_limit)
    assert np.all(found.total_error > found.network_limit - 4 * found.stderr)


def test_the_network_limit_follows_the_links():
    net, obs = ring(4), gs.Gaussian(np.zeros(4), [1.0, 2.0, 3.0, 4.0])
    # Agent i hears of i - 1 after 1 round, of i - 2 after 2, of i - 3 after 3, and sends first: 10, 10, 9, 8 samples.
    samples = np.array([10, 10, 9, 8])
    expected = [sum(obs.variance[(i - d) % 4, 0] / samples[d] for d in range(4)) / 16 for i in range(4)]
    np.testing.assert_allclose(gs.theory.network_limit(net, obs, 10, per_agent=True), expected, rtol=1e-14)
    assert gs.theory.network_limit(net, obs, 2) == math.inf


def test_the_network_limit_is_that_of_the_news_on_undirected_networks_too():
    net, obs = gs.Network.grid(3, 4), streams(12)
    both = directed.directed(net)
    assert gs.theory.network_limit(net, obs, 9) == gs.theory.network_limit(both, obs, 9)


def test_blocks_and_splits_change_nothing(monkeypatch):
    net, obs = digraph(9, 0.2), gs.Uniform(np.zeros(9), np.linspace(1, 2, 9))
    whole = gs.simulate(gs.PushSum(), net, obs, [3, 20], trials=5, seed=4, keep="iterates")
    monkeypatch.setattr(directed, "IN_FLIGHT", 150)
    monkeypatch.setattr(directed, "GIVEN", 40)
    blocks = gs.simulate(gs.PushSum(), net, obs, [3, 20], trials=5, seed=4, keep="iterates")
    np.testing.assert_allclose(blocks.estimates, whole.estimates, rtol=1e-13)
    np.testing.assert_allclose(blocks.iterates["x"], whole.iterates["x"], rtol=1e-13)
    np.testing.assert_allclose(blocks.errors, whole.errors, rtol=1e-12)
    rest = gs.simulate(gs.PushSum(), net, obs, [20, 3], trials=3, seed=4, first_trial=2)
    np.testing.assert_allclose(rest.estimates, whole.estimates[::-1, 2:], rtol=1e-13)


def test_an_interrupted_run_has_its_finished_trials(monkeypatch):
    net, obs = ring(5), streams(5)
    whole = gs.simulate(gs.PushSum(), net, obs, 20, trials=5)
    monkeypatch.setattr(directed, "IN_FLIGHT", 2 * 5 * 8)
    draw = obs.sample

    def sample(seed, rounds, trials, **options):
        if 4 in trials:
            raise KeyboardInterrupt
        return draw(seed, rounds, trials, **options)

    monkeypatch.setattr(obs, "sample", sample)
    found = gs.simulate(gs.PushSum(), net, obs, 20, trials=5)
    assert (found.partial, found.trials) == (True, 4)
    np.testing.assert_allclose(found.errors, whole.errors[:4], rtol=1e-12)
    assert "interrupted: 4 trials" in found.records()[0]["note"]


def test_half_the_precision():
    net, obs = digraph(9, 0.2), streams(9)
    single = gs.simulate(gs.PushSum(), net, obs, 50, trials=3, dtype=np.float32)
    assert single.estimates.dtype == np.float32
    np.testing.assert_allclose(
        single.estimates, gs.simulate(gs.PushSum(), net, obs, 50, trials=3).estimates, rtol=1e-4
    )


def test_means_that_move_are_followed():
    net = digraph(9, 0.3)
    obs = gs.Drifting(gs.Gaussian(np.zeros(9), 0.0), 0.5)
    found = gs.simulate(gs.PushSum(), net, obs, 200, trials=1)
    np.testing.assert_allclose(found.estimates, 0.5 * 199 / 2, rtol=0.02)  # the running mean of a line
    np.testing.assert_allclose(found.total_error, 9 * (0.5 * 199 / 2) ** 2, rtol=0.05)


def test_the_result_is_a_simulation_like_any_other():
    net, obs = ring(6), streams(6)
    found = gs.simulate("push-sum", net, obs, [10, 20], trials=50)
    assert isinstance(found, gs.Simulation)
    assert found.expected is None
    rows = found.records()
    assert [(row["network"], row["method"], row["rounds"], row["trials"]) for row in rows] == [
        ("ring", "push-sum", 10, 50),
        ("ring", "push-sum", 20, 50),
    ]
    np.testing.assert_allclose(found.centralized_limit, gs.theory.centralized_limit(obs, np.array([10, 20])))
    assert len(found.to_frame()) == 2
    assert {line.get_label() for line in found.plot().get_lines()} >= {"centralized limit", "network limit"}
    assert "push-sum on ring" in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found
    one = gs.simulate(gs.PushSum(), net, obs, 20, trials=50, keep="errors")
    assert one.total_error == found.total_error[1]
    with pytest.raises(gs.InvalidInput, match="kept no estimates"):
        _ = one.estimates


def test_undirected_networks_are_links_both_ways():
    obs = streams(6)
    graph = nx.DiGraph(nx.cycle_graph(6, create_using=nx.DiGraph))
    assert gs.simulate(gs.PushSum(), graph, obs, 9, trials=2).network == ring(6)
    both = gs.simulate(gs.PushSum(), gs.DirectedNetwork.from_networkx(nx.path_graph(6)), obs, 9, trials=2)
    for network in (gs.Network.path(6), nx.path_graph(6), "path:6"):
        np.testing.assert_array_equal(
            gs.simulate(gs.PushSum(), network, obs, 9, trials=2).estimates, both.estimates
        )


def test_applications_run_with_it():
    problem = gs.LinearEstimation.random("cycle:6", 2, seed=1)
    found = problem.simulate(gs.PushSum(), rounds=400, trials=20)
    assert found.total_error < 2 * problem.centralized_error(400)


def test_a_comparison_on_an_undirected_network_has_its_trials():
    obs = streams(6)
    found = gs.compare([gs.PushSum(), gs.DSG()], gs.Network.cycle(6), obs, 50, trials=40)
    push, dsg = found.records()
    assert (
        push["simulated_error"]
        == gs.simulate(gs.PushSum(), gs.Network.cycle(6), obs, 50, trials=40).total_error
    )
    assert (push["note"], dsg["note"]) == ("", "")
    assert "push-sum divides" in gs.compare(gs.PushSum(), gs.Network.cycle(6), obs, 50).records()[0]["note"]


REFUSED = [
    lambda net, obs: gs.simulate(gs.AnytimeSDA(), net, obs, 9),
    lambda net, obs: gs.simulate("dsg", net, obs, 9, faults=gs.faults.Loss(0.1)),
    lambda net, obs: gs.exact(gs.SDA(), net, obs, 9),
    lambda net, obs: gs.plan(net, obs, 1.0),
    lambda net, obs: gs.tune("anytime-sda", net, obs, 9),
    lambda net, obs: gs.Network.of(net),
    lambda net, obs: gs.Network.from_networkx(nx.DiGraph([(0, 1), (1, 0)])),
    lambda net, obs: gs.exact("dsg", nx.DiGraph([(0, 1), (1, 0)]), obs, 9),
]


@pytest.mark.parametrize("call", REFUSED, ids=range(len(REFUSED)))
def test_undirected_methods_point_to_push_sum(call):
    with pytest.raises(gs.InvalidNetwork, match=f"averaging needs an undirected graph, got .*{ONE_WAY}"):
        call(ring(5), streams(5))


def test_a_file_with_one_way_links_points_to_push_sum(tmp_path):
    path = tmp_path / "ring.gml"
    nx.write_gml(nx.cycle_graph(4, create_using=nx.DiGraph), path)
    with pytest.raises(
        gs.InvalidNetwork, match=r"links that go one way see gs.DirectedNetwork and gs.PushSum"
    ):
        gs.Network.read(path)


UNSUPPORTED = [
    (
        lambda net, obs: gs.exact(gs.PushSum(), net, obs, 9),
        "but push-sum divides what one-way links push; simulate it",
    ),
    (lambda net, obs: gs.tune(gs.PushSum(), net, obs, 9), "push-sum divides"),
    (lambda net, obs: gs.plan("path:5", obs, 1.0, gs.PushSum()), "push-sum divides"),
    (
        lambda net, obs: gs.simulate(gs.PushSum(), net, obs, 9, faults=gs.faults.Loss(0.1)),
        "push-sum cannot run with faults: .*one-way links",
    ),
]


@pytest.mark.parametrize(("call", "text"), UNSUPPORTED, ids=range(len(UNSUPPORTED)))
def test_what_push_sum_cannot_do(call, text):
    with pytest.raises(gs.Unsupported, match=text):
        call(ring(5), streams(5))


def test_wrong_values():
    with pytest.raises(gs.InvalidInput, match=r"decay must be a finite number of at least 1, got 0.5"):
        gs.PushSum(decay=0.5)
    with pytest.raises(gs.InvalidInput, match="the network has 5 agents, but the observations have 6"):
        gs.simulate(gs.PushSum(), ring(5), streams(6), 9)
    with pytest.raises(gs.InvalidInput, match="observations must be streams"):
        gs.simulate(gs.PushSum(), ring(5), [1, 2], 9)
