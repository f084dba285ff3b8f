"""Exact errors of networks too large to decompose: the bias is exact, the variance is within its standard error."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.exact import evaluate, measures, sampling
from gossamer.engines.exact.measure import Sampled
from gossamer.engines.exact.moments import Interval, Operator, filtered_by, moments_of, panels_of

FACTS = ("lambda_max", "lambda_2", "inverse_square_trace")

GRAPHS = {
    "tree": lambda: nx.random_labeled_tree(300, seed=3),
    "path": lambda: nx.path_graph(250),
    "lollipop": lambda: nx.lollipop_graph(20, 230),
    "caterpillar": lambda: nx.Graph(
        [(i, i + 1) for i in range(99)] + [(i, 100 * k + i) for i in range(100) for k in (1, 2)]
    ),
    "grid": lambda: nx.convert_node_labels_to_integers(nx.grid_2d_graph(15, 20)),
    "geometric": lambda: gs.Network.random_geometric(300, seed=2).to_networkx(),
    "scale-free": lambda: nx.barabasi_albert_graph(300, 2, seed=1),
}


def undecomposed(net):
    """The same network, with the facts but without the full spectrum."""
    other = gs.Network.from_gossip_matrix(net.gossip)
    other.__dict__.update({name: getattr(net, name) for name in FACTS}, spectrum=None)
    return other


def assert_agrees(method, net, obs, horizons, known):
    """The bias to rounding, the total error within four standard errors, and these are small."""
    found = gs.exact(method, net, obs, horizons)
    np.testing.assert_allclose(found.bias, known.bias, rtol=1e-7, atol=1e-5 * known.total_error.min())
    assert np.all(np.abs(found.total_error - known.total_error) < 4 * found.uncertainty)
    assert np.all(found.uncertainty < 0.0101 * found.total_error)
    assert np.all(found.uncertainty > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_slow_modes_are_not_missed(name):
    """They matter most where the rounds are few, and where there is nothing but noise."""
    net = gs.Network.from_networkx(GRAPHS[name]())
    rng = np.random.default_rng(1)
    around = np.sqrt(net.condition_number)
    horizons = np.unique(np.maximum(2, around * np.array([0.1, 0.3, 1, 3, 10])).astype(int))
    means, noise = rng.uniform(0, 10, (net.agents, 2)), rng.uniform(0.5, 1.5, (net.agents, 2))
    other = undecomposed(net)
    for obs in (gs.Gaussian(means, noise), gs.Gaussian(np.zeros(net.agents), noise[:, 0])):
        for method in (gs.SDA(), gs.AnytimeSDA("chebyshev"), gs.DSG()):
            assert_agrees(method, other, obs, horizons, gs.exact(method, net, obs, horizons))


def test_few_slow_modes_are_taken_out_of_the_sample(monkeypatch):
    net = gs.Network.path(250)
    obs = gs.Gaussian(np.zeros(250))
    known = gs.exact("anytime-sda", net, obs, [160])
    source = measures(undecomposed(net), obs)
    found = evaluate(gs.AnytimeSDA(), source.network, obs, [160], source)
    assert source.basis.shape[1] >= sampling.DEFLATED
    np.testing.assert_allclose(source.basis.T @ source.basis, np.eye(source.basis.shape[1]), atol=1e-12)
    assert abs(found.total_error - known.total_error)[0] < 4 * found.uncertainty[0]
    monkeypatch.setattr(
        sampling, "WORK", 0
    )  # no time for more than the first probes: then the uncertainty says so
    hasty = gs.exact("anytime-sda", undecomposed(net), obs, [160])
    assert hasty.uncertainty[0] > 0.05 * hasty.total_error[0]
    assert abs(hasty.total_error - known.total_error)[0] < 4 * hasty.uncertainty[0]
    assert "its standard error is" in hasty.records()[0]["note"]


def test_few_probes_have_a_bound_instead_of_an_estimate(monkeypatch):
    monkeypatch.setattr(sampling, "LARGE", 100)  # as if the network were huge: a single probe first
    net = gs.Network.grid(15, 20)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 100, 300))
    known = gs.exact("anytime-sda", net, obs, [20])
    source = measures(undecomposed(net), obs)
    found = evaluate(gs.AnytimeSDA(), source.network, obs, [20], source)
    assert source.count == 1
    assert not source.pilot
    assert abs(found.total_error - known.total_error)[0] < found.uncertainty[0] < 0.01 * known.total_error[0]


def test_standard_errors_come_from_a_pilot_that_is_not_part_of_the_mean():
    values = np.random.default_rng(0).normal(10, 1, (2, 8))
    over = Sampled(
        nodes=np.ones(1),
        constant=np.zeros(1),
        signal=np.zeros((1, 1, 1)),
        power=np.ones(1),
        known=np.zeros(1),
        probes=values[:1],
        pilot=values[1:],
        scales=np.zeros((1, 2)),
    )
    found = over.integral(over.sums(np.zeros((1, 1, 2)), np.ones((1, 1)), np.array([5])))
    assert found.variance[0] == pytest.approx(values[0].mean())
    pilot, everything = values[1].std(ddof=1) * np.sqrt(7 / 5), values.std(ddof=1) * np.sqrt(15 / 13)
    assert found.uncertainty[0] == pytest.approx(max(pilot, everything) / np.sqrt(8))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rounds"), [("tree", 60), ("geometric", 30), ("scale-free", 20)])
def test_standard_errors_are_neither_too_small_nor_too_large(name, rounds):
    """Over fresh probes, errors in standard errors have a root mean square of about 1, and the upper end holds."""
    net = gs.Network.from_networkx(GRAPHS[name]())
    obs = gs.Gaussian(np.zeros(net.agents))
    known, other = gs.exact("anytime-sda", net, obs, [rounds]), undecomposed(net)
    scores = []
    for seed in range(24):
        source = measures(other, obs)
        source.random = np.random.default_rng(seed)
        found = evaluate(gs.AnytimeSDA(), other, obs, [rounds], source)
        scores.append((found.total_error - known.total_error)[0] / found.uncertainty[0])
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.5
    assert np.mean(np.array(scores) < -2) < 0.15


@pytest.mark.slow
def test_long_runs_need_fewer_moments_than_rounds():
    net = gs.Network.random_geometric(300, seed=2)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 300))
    source = measures(undecomposed(net), obs)
    horizons = [20, 200, 20_000]
    found = evaluate(gs.AnytimeSDA(), source.network, obs, horizons, source)
    known = gs.exact("anytime-sda", net, obs, horizons)
    assert len(source.probes[0].moments) < 2000
    assert np.all(np.abs(found.total_error - known.total_error) < 4 * found.uncertainty)


def test_biases_without_noise_are_exact_and_have_no_probes():
    net = gs.Network.from_networkx(GRAPHS["tree"]())
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, net.agents), 0.0)
    horizons = [10, 100, 1000]
    found, known = (gs.exact("ssda", each, obs, horizons) for each in (undecomposed(net), net))
    assert np.all(np.abs(found.total_error - known.total_error) <= found.uncertainty)
    assert np.all(found.uncertainty < 1e-5 * found.total_error)


def test_a_method_that_diverges_has_an_infinite_error():
    obs = gs.Gaussian(np.arange(300.0))
    net = undecomposed(gs.Network.random_geometric(300, seed=2))
    found = gs.exact(gs.SDA(step_size=5.0), net, obs, [10, 3000])
    assert np.isinf(found.total_error[1])
    assert "diverges" in found.records()[1]["note"]


@pytest.mark.slow
def test_plans_count_on_the_upper_end_and_say_so():
    net = gs.Network.from_networkx(GRAPHS["tree"]())
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, net.agents))
    for method in ("anytime-sda", "sda"):
        known = gs.plan(net, obs, 0.01, method)
        plan = gs.plan(undecomposed(net), obs, 0.01, method)
        truth = gs.exact(method, net, obs, plan.rounds).total_error
        assert truth <= plan.total_error <= 0.01
        assert known.rounds <= plan.rounds <= 1.1 * known.rounds
        assert "upper end" in plan.note
        assert "upper end" not in known.note


def test_comparisons_count_on_the_upper_end_and_say_so():
    net = gs.Network.random_geometric(300, seed=2)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 300))
    found = gs.exact("sda", undecomposed(net), obs, 300)
    (row,) = gs.compare("sda", undecomposed(net), obs, 300).records()
    assert row["total_error"] == pytest.approx(found.total_error + 2 * found.uncertainty, rel=1e-12)
    assert row["uncertainty"] == found.uncertainty
    assert "upper end" in row["note"]
    (row,) = gs.compare("sda", net, obs, 300).records()
    assert "upper end" not in row["note"]


@pytest.mark.slow
def test_tuning_looks_at_all_modes():
    net = gs.Network.from_networkx(GRAPHS["path"]())
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 250))
    known, found = (gs.tune("anytime-sda", each, obs, 200) for each in (net, undecomposed(net)))
    truth = gs.exact(found.method, net, obs, 200).total_error
    assert truth <= found.total_error < found.before
    assert truth < 1.1 * known.total_error


def test_moments_are_those_of_the_spectrum():
    net = gs.Network.random_geometric(200, seed=2)
    values, modes = net.spectrum.eigenvalues, net.spectrum.vectors
    vectors = np.random.default_rng(0).normal(size=(200, 9))
    vectors -= vectors.mean(axis=0)
    interval = Interval(0.98 * net.lambda_2, net.lambda_max)
    operator = Operator.of(net.links, interval)
    panels = panels_of(operator, interval, vectors)
    moments_of(panels, 7)  # and further on
    angles = np.arccos(2 * (values[1:] - interval.low) / (interval.high - interval.low) - 1)
    waves = np.cos(np.arange(302)[:, None] * angles)
    weights = (modes.T @ vectors)[1:]
    np.testing.assert_allclose(moments_of(panels, 301), waves @ weights**2, atol=1e-9)
    series = 0.9 ** np.arange(50)
    filtered = filtered_by(panels_of(operator, interval, vectors), series) + vectors
    np.testing.assert_allclose(filtered, modes[:, 1:] @ ((series @ waves[:50])[:, None] * weights), atol=1e-9)


def test_what_a_sample_cannot_give():
    net = undecomposed(gs.Network.path(20))
    obs = gs.Gaussian(np.zeros(20))
    with pytest.raises(gs.Unsupported, match=r"errors per agent need a full spectrum.*gs.simulate"):
        _ = gs.exact("sda", net, obs, 10).per_agent
    with pytest.raises(gs.Unsupported, match=r"drifting means.*use gs.simulate"):
        gs.exact("sda", net, gs.Drifting(obs, 0.1), 10)
