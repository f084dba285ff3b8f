from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from tests.support.networks import connected_networks
from threadpoolctl import threadpool_limits

import gossamer as gs
from gossamer.engines.exact import weights
from gossamer.networks import DENSE_LIMIT, iterative
from gossamer.networks.reading import parse_network
from gossamer.networks.spectrum import DenseSpectrum

CLOSED = [
    gs.Network.path(7),
    gs.Network.path(8),
    gs.Network.path(2),
    gs.Network.cycle(9),
    gs.Network.cycle(8),
    gs.Network.star(3),
    gs.Network.star(12),
    gs.Network.complete(6),
    gs.Network.torus(3, 5),
    gs.Network.hypercube(4),
    gs.Network.grid(4, 5, weights="laplacian"),
    gs.Network.grid(3, 4, weights="best-constant"),
    gs.Network.star(9, weights="best-constant"),
]


@pytest.mark.parametrize("net", CLOSED, ids=repr)
def test_closed_form_spectra_diagonalize_the_gossip_matrix(net):
    assert net._closed_form is not None
    spectrum, n = net.spectrum, net.agents
    basis = spectrum.analyze(np.eye(n))
    gossip = net.gossip.toarray()
    np.testing.assert_allclose(basis.conj().T @ (spectrum.eigenvalues[:, None] * basis), gossip, atol=1e-12)
    np.testing.assert_allclose(spectrum.synthesize(basis), np.eye(n), atol=1e-12)
    v = np.random.default_rng(0).random((n, 2))
    np.testing.assert_allclose(spectrum.energy(v), np.abs(basis) ** 2 @ v, atol=1e-12)
    np.testing.assert_allclose(spectrum.spread(v), np.abs(basis.conj().T) ** 2 @ v, atol=1e-12)
    dense = DenseSpectrum(gossip)
    np.testing.assert_allclose(np.sort(spectrum.eigenvalues), dense.eigenvalues, atol=1e-12)
    assert net.condition_number == pytest.approx(dense.eigenvalues[-1] / dense.eigenvalues[1])


def test_condition_numbers_of_the_paper(five_networks):
    kappa = {name: net.condition_number for name, net in five_networks.items()}
    assert int(kappa["path"]) == 4052
    assert int(kappa["cycle"]) == 1013
    assert round(kappa["star"]) == 100
    assert round(kappa["grid"]) == 76
    assert 4 < kappa["erdos-renyi"] < 16


@given(connected_networks())
def test_every_network_satisfies_the_three_assumptions(net):
    gossip = net.gossip.toarray()
    np.testing.assert_allclose(gossip, gossip.T)
    values = np.linalg.eigvalsh(gossip)
    assert values[0] > -1e-12
    assert values[1] > 1e-9  # the kernel is the constants alone
    np.testing.assert_allclose(gossip @ np.ones(net.agents), 0, atol=1e-12)
    edges = {tuple(e) for e in net.edges.tolist()}
    assert {(i, j) for i, j in zip(*np.nonzero(gossip), strict=True) if i < j} == edges
    again = gs.Network.from_gossip_matrix(gossip)
    np.testing.assert_array_equal(again.edges, net.edges)


def test_metropolis_weights_by_hand():
    net = gs.Network.from_networkx(nx.star_graph(3))
    expected = np.diag([0.75, 0.25, 0.25, 0.25])
    expected[0, 1:] = expected[1:, 0] = -0.25
    np.testing.assert_allclose(net.gossip.toarray(), expected)


def test_networkx_round_trip_keeps_names_and_weights():
    graph = nx.Graph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    net = gs.Network.from_networkx(graph)
    back = net.to_networkx()
    assert set(back.nodes) == set("abcd")
    assert {frozenset(e) for e in back.edges} == {frozenset(e) for e in graph.edges}
    i, j = net.labels.index("c"), net.labels.index("d")
    assert back["c"]["d"]["weight"] == pytest.approx(-net.gossip[i, j])


@pytest.mark.slow
def test_iterative_eigenvalues_agree_with_dense_ones():
    net = gs.Network.grid(20, 30)
    values, vectors = iterative.smallest(net.gossip)
    assert values[0] == pytest.approx(net.lambda_2, rel=1e-3)
    assert (
        net.lambda_max <= iterative.largest_eigenvalue(net.gossip) * (1 + 1e-6) < net.lambda_max * (1 + 1e-3)
    )
    trace = iterative.inverse_square_trace(net.gossip, values, vectors)
    assert trace == pytest.approx(net.inverse_square_trace, rel=0.1)


@pytest.mark.slow
def test_iterative_eigenvalues_are_the_same_every_time():
    found = {gs.Network.grid(56, 56).lambda_2 for _ in range(2)}
    assert len(found) == 1


def test_large_graphs_find_their_spectrum_iteratively():
    net = gs.Network.grid(70, 70)
    assert net.agents > DENSE_LIMIT
    assert net.spectrum is None
    width = gs.Network.grid(70, 70, weights="laplacian").lambda_2 / 5  # inside weights are all 1/5
    assert net.lambda_2 == pytest.approx(width, rel=0.05)


@pytest.mark.parametrize(
    ("spec", "agents", "edges"),
    [
        ("path:10", 10, 9),
        ("grid:3x4", 12, 17),
        ("torus:3x4", 12, 24),
        ("hypercube:3", 8, 12),
        ("expander:20x4", 20, 40),
        ("complete:5", 5, 10),
        ("star:6", 6, 5),
    ],
)
def test_networks_by_name(spec, agents, edges):
    net = parse_network(spec)
    assert (net.agents, len(net.edges)) == (agents, edges)


def test_random_networks_depend_on_the_seed_alone():
    a, b, c = (gs.Network.erdos_renyi(30, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.edges, b.edges)
    assert a.edges.shape != c.edges.shape or np.any(a.edges != c.edges)
    assert gs.Network.random_geometric(40, seed=3).positions.shape == (40, 2)


def test_files(tmp_path):
    edges = tmp_path / "e.txt"
    edges.write_text("# a triangle with a tail\na b\nb,c\nc a\nc d\n")
    json_file = tmp_path / "g.json"
    json_file.write_text('{"a": ["b", "c"], "b": ["c"], "c": ["d"]}')
    graphml = tmp_path / "g.graphml"
    nx.write_graphml(nx.Graph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]), graphml)
    for file in (edges, json_file, graphml):
        net = gs.Network.read(file)
        assert (net.agents, len(net.edges)) == (4, 4)


def test_a_graph_in_json_with_a_string_is_refused(tmp_path):
    file = tmp_path / "g.json"
    file.write_text('{"a": "bcd"}')
    with pytest.raises(gs.InvalidNetwork, match="must be a list, got 'bcd'"):
        gs.Network.read(file)
    file.write_text('{"a": 5}')
    with pytest.raises(gs.InvalidNetwork):
        gs.Network.read(file)


def bad_matrices():
    path = gs.Network.path(3).gossip.toarray()
    asymmetric = path.copy()
    asymmetric[0, 1] = -0.5
    yield asymmetric, r"symmetric, but L\[0,1\] = -0.5 and L\[1,0\] = -0.33"
    yield path + np.eye(3), r"rows must sum to zero, but row \d sums to 1; .*L = I - W"
    yield -path, "positive semi-definite, but this one has the eigenvalue -1"
    yield np.full((3, 3), np.nan), "finite entries"
    yield np.ones((2, 3)), r"square, got shape \(2, 3\)"
    yield np.zeros((1, 1)), "at least 2 agents, got 1"
    yield np.diag([0.0, 0.0]), r"2 components \(sizes 1, 1\)"
    v = np.array([1.0, -2.0, 1.0])
    yield np.outer(v, v), "second smallest eigenvalue"


@pytest.mark.parametrize(("matrix", "text"), list(bad_matrices()))
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_matrices_that_are_no_gossip_matrices(matrix, text, kind):
    with pytest.raises(gs.InvalidNetwork, match=text):
        gs.Network.from_gossip_matrix(kind(matrix))


def test_entries_off_the_graph_are_refused():
    gossip = gs.Network.cycle(4).gossip
    with pytest.raises(gs.InvalidNetwork, match=r"L\[0,3\] = -0.3.* has no such edge"):
        gs.Network.from_gossip_matrix(gossip, graph=nx.path_graph(4))
    assert gs.Network.from_gossip_matrix(gossip, graph=nx.cycle_graph(4)).agents == 4


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (
            nx.Graph([(0, 1), (2, 3)]),
            r"has 2 components \(sizes 2, 2\); add an edge or use Network.components",
        ),
        (nx.Graph(), "the graph is empty"),
        (nx.path_graph(1), "at least 2 agents, got 1"),
        (nx.Graph([(0, 1), (1, 1)]), "no self-loops, but agent 1 has one"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "parallel edges"),
        (nx.DiGraph([(0, 1)]), "undirected"),
    ],
)
def test_graphs_that_are_no_networks(graph, text):
    with pytest.raises(gs.InvalidNetwork, match=text):
        gs.Network.from_networkx(graph)


def test_networks_are_equal_by_matrix_and_labels_whatever_their_name():
    net = gs.Network.grid(3, 4)
    again = gs.Network.from_gossip_matrix(net.gossip)
    assert net == again
    assert hash(net) == hash(again)
    assert net.name != again.name
    assert net != gs.Network.grid(4, 3)
    assert net != gs.Network.grid(3, 4, weights="laplacian")
    assert net != gs.Network.from_networkx(nx.relabel_nodes(net.to_networkx(), str))
    assert net != "grid:3x4"
    assert len({net, again, gs.Network.path(12)}) == 2
    assert len(net) == 12


@pytest.mark.parametrize("net", [*CLOSED, gs.Network.erdos_renyi(9), gs.Network.grid(3, 4)], ids=repr)
@pytest.mark.parametrize("copied", [lambda net: pickle.loads(pickle.dumps(net)), copy.deepcopy])
def test_networks_survive_pickling_and_copying(net, copied):
    again = copied(net)
    assert again == net
    assert again.name == net.name
    np.testing.assert_array_equal(again.spectrum.eigenvalues, net.spectrum.eigenvalues)


def test_names_of_networks():
    assert gs.Network.named("grid:3x4") == gs.Network.grid(3, 4)
    assert gs.Network.named("Erdos_Renyi:30,0.3", weights="laplacian", seed=5) == gs.Network.erdos_renyi(
        30, 0.3, seed=5, weights="laplacian"
    )
    assert repr(gs.Network.named("grid:3x4")) == "Network(grid:3x4, 12 agents, 17 edges)"


LIKE = [nx.cycle_graph(5), "cycle:5", gs.Network.cycle(5)]


@pytest.mark.slow
@pytest.mark.parametrize("like", LIKE, ids=lambda like: type(like).__name__)
def test_a_graph_or_a_name_serves_wherever_a_network_does(like):
    cycle, obs = gs.Network.from_networkx(nx.cycle_graph(5)), gs.Gaussian(np.arange(5.0))
    assert gs.Network.of(like).agents == 5
    assert gs.Network.of(cycle) is cycle
    error = gs.exact("sda", cycle, obs, 20).total_error
    assert gs.exact("sda", like, obs, 20).total_error == pytest.approx(error)
    assert gs.exact("sda", like, obs, 20).network.agents == 5
    np.testing.assert_allclose(weights("sda", like, 6), weights("sda", cycle, 6), atol=1e-12)
    alike = {"trials": 3, "seed": 1}
    for faults in (None, gs.faults.Loss(0.2)):
        found, expected = (gs.simulate("sda", n, obs, 20, faults=faults, **alike) for n in (like, cycle))
        np.testing.assert_allclose(found.estimates, expected.estimates)
    assert gs.plan(like, obs, 5.0).rounds == gs.plan(cycle, obs, 5.0).rounds
    assert [plan.network.agents for plan in gs.plan([like, cycle], obs, 5.0)] == [5, 5]
    assert (
        gs.tune("sda", like, obs, 20, ["burn_in"]).method
        == gs.tune("sda", cycle, obs, 20, ["burn_in"]).method
    )
    for bound in (gs.theory.theorem_1, gs.theory.theorem_2, gs.theory.network_limit):
        total = [
            found if isinstance(found, float) else found.total
            for found in (bound(n, obs, 20) for n in (like, cycle))
        ]
        assert total[0] == pytest.approx(total[1])
    assert gs.theory.k_star(like) == gs.theory.k_star(cycle)
    assert gs.LinearEstimation.random(like).bound(9).total == pytest.approx(
        gs.LinearEstimation.random(cycle).bound(9).total
    )
    assert gs.LinearEstimation(like, np.ones((5, 1, 1)), [1.0]).network.agents == 5
    data = np.random.default_rng(0).normal(size=(15, 2))
    assert gs.LinearEstimation.from_data(data, data[:, 0], like).network.agents == 5
    problem = gs.applications.problems.garnet(4, 2)
    assert gs.PolicyEvaluation.from_problem(like, problem).bound(9).total > 0
    assert gs.PolicyEvaluation(like, np.eye(3), np.ones((5, 3)), 0.5).online().rounds == 0
    assert gs.applications.streams.Stream(like, 2).network.agents == 5


def test_components_gives_the_parts():
    parts = gs.Network.components(nx.Graph([(0, 1), (1, 2), (5, 6)]))
    assert [part.agents for part in parts] == [3, 2]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gs.Network.path(1), "at least 2 agents, got 1"),
        (lambda: gs.Network.path(5, weights="metropolos"), "did you mean 'metropolis'"),
        (lambda: gs.Network.erdos_renyi(50, p=0.001), "none of 200 random draws .* raise p"),
        (lambda: gs.Network.erdos_renyi(50, p=1.5), "0 < p <= 1"),
        (lambda: gs.Network.expander(7, 3), "n \\* degree even"),
        (lambda: parse_network("gird:3x3"), "did you mean 'grid'"),
        (lambda: parse_network("grid:3"), "grid takes rows x cols, got 1 number in"),
        (lambda: parse_network("path:x"), "whole numbers after the colon"),
        (lambda: parse_network("path"), "needs a size"),
        (lambda: gs.Network.from_edges(3, [(0, 5)]), "agents 0..2"),
        (
            lambda: gs.Network.from_edges(4, [(0, 1, 2), (1, 2, 3)]),
            r"shape \(E, 2\), got shape \(2, 3\)",
        ),
        (lambda: gs.Network.from_edges(4, [(0.9, 1.9), (1, 2)]), "pairs of agent numbers"),
        (lambda: gs.Network.path("abc"), "got 'abc'"),
        (lambda: gs.Network.path(5, weights=None), "weights must be 'metropolis', .* got None"),
        (lambda: gs.Network.from_networkx([(0, 1)]), "a NetworkX graph is needed, got list"),
        (lambda: gs.Network.grid(-2, -3), "rows must be a whole number of at least 1, got -2"),
        (lambda: gs.Network.erdos_renyi(20, seed=-1), "at least 0, got -1"),
        (lambda: gs.Network.erdos_renyi(20, p="a"), "p must be an edge probability, 0 < p <= 1, got 'a'"),
        (lambda: gs.Network.path(2.5), "n, how many agents there are, must be a whole number, got 2.5"),
        (lambda: gs.Network.complete(1e200), "at most 268,435,456 edges, but this one would have 1e"),
        (
            lambda: gs.Network.from_edges(2, [("a", "b")]),
            r"pairs of agent numbers, got 'a'; .*from_networkx\(nx.Graph",
        ),
        (
            lambda: gs.Network.from_edges(3, [(0, 1), (1,)]),
            "pairs of agent numbers, got rows of different lengths",
        ),
        (
            lambda: gs.Network.from_gossip_matrix("abc"),
            "a square table of real numbers, dense or sparse, got 'abc'",
        ),
        (lambda: gs.Network.from_gossip_matrix(np.eye(3) * 1j), "must be real"),
        (
            lambda: gs.Network.from_gossip_matrix(gs.Network.path(3).gossip, "a"),
            "graph must be a NetworkX graph",
        ),
        (lambda: gs.Network.components("a"), "an undirected NetworkX graph is needed, got str"),
        (
            lambda: gs.Network.path(3).neighbors(3),
            "agent must be a whole number of at least 0 and at most 2, got 3",
        ),
        (lambda: gs.Network.named(5), "a name is needed, such as 'path:100', got 5"),
        (lambda: gs.Network.named("file.txt"), "is not a network by name"),
        (lambda: gs.Network.of(None), "a NetworkX graph or a name such as 'grid:10x10', got None"),
    ],
)
def test_wrong_topologies_say_what_was_wrong(call, text):
    with pytest.raises(gs.InvalidInput, match=text):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("agents", [600, 3500])
def test_facts_do_not_depend_on_the_number_of_threads(agents):
    """Or a cluster, whose ranks have one each, would not give the bits of one process."""
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            network = gs.Network.random_geometric(agents, seed=3)
            found.append((network.lambda_max, network.lambda_2, network.inverse_square_trace))
    assert found[0] == found[1]
