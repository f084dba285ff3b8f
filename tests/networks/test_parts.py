"""Networks whose parts are had without the rest: generated, drawn from counters, and read from shards."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from unittest.mock import Mock

import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.networks import iterative, topologies
from gossamer.networks import network as networks
from gossamer.networks.names import named_topology
from gossamer.networks.partitioning import cut_edges, partition, renumbered
from gossamer.networks.parts import HeldParts, NamedParts, ShardedParts, parts_of
from gossamer.networks.spectrum import product_facts
from gossamer.numerics.blocks import BLOCK

NAMES = [
    "path:9",
    "cycle:7",
    "grid:1x6",
    "grid:5x8",
    "torus:3x6",
    "hypercube:6",
    "geometric:300",
    "geometric:60,0.9",
    "erdos-renyi:400",
    "erdos-renyi:40,1",
    "expander:300x4",
    "expander:300x5",
]


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    monkeypatch.setattr(topologies, "COUNTED", 30)


def graph_of(rows):
    agents = np.repeat(np.arange(rows.agents), rows.degrees)
    graph = nx.DiGraph(list(zip(agents.tolist(), rows.neighbors.tolist(), strict=True)))
    graph.add_nodes_from(range(rows.agents))
    return graph


@pytest.mark.parametrize("name", NAMES)
def test_any_range_of_agents_has_the_rows_of_the_whole(name):
    topology = named_topology(name, seed=3)
    whole, places = topology.rows()
    for bounds in ([0, 1, 2, topology.agents], np.linspace(0, topology.agents, 5).astype(int).tolist()):
        for first, last in pairwise(bounds):
            part, where = topology.rows(first, last)
            begin, end = whole.starts[[first, last]]
            np.testing.assert_array_equal(part.neighbors, whole.neighbors[begin:end])
            np.testing.assert_array_equal(part.starts, whole.starts[first : last + 1] - begin)
            if places is not None:
                np.testing.assert_array_equal(where, places[first:last])


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_ascending_and_both_ends_know_an_edge(name):
    rows, _ = named_topology(name, seed=3).rows()
    graph = graph_of(rows)
    assert graph.number_of_edges() == len(rows.neighbors)  # no pair twice
    assert nx.number_of_selfloops(graph) == 0
    assert all(graph.has_edge(j, i) for i, j in graph.edges)
    for i in range(rows.agents):
        assert np.all(np.diff(rows.neighbors[rows.starts[i] : rows.starts[i + 1]].astype(int)) > 0)


def test_lattices_are_those_of_networkx():
    assert nx.utils.graphs_equal(
        nx.Graph(graph_of(named_topology("hypercube:5").rows()[0])),
        nx.Graph([(i, i ^ bit) for i in range(32) for bit in (1, 2, 4, 8, 16)]),
    )
    for name, graph in {
        "grid:4x7": nx.grid_2d_graph(4, 7),
        "torus:4x7": nx.grid_2d_graph(4, 7, periodic=True),
    }.items():
        numbered = nx.convert_node_labels_to_integers(graph, ordering="sorted")
        assert set(map(frozenset, graph_of(named_topology(name).rows()[0]).edges)) == set(
            map(frozenset, numbered.edges)
        )


def test_geometric_neighbors_are_those_within_the_radius():
    topology = topologies.random_geometric(500, 0.11, seed=8)
    rows, places = topology.rows()
    near = np.linalg.norm(places[:, None] - places, axis=2) <= 0.11
    np.fill_diagonal(near, False)
    np.testing.assert_array_equal(nx.to_numpy_array(graph_of(rows), nodelist=range(500)).astype(bool), near)


def test_drawn_networks_have_the_statistics_of_their_kind():
    places = topologies.random_geometric(20_000, seed=1).rows()[1]
    cells = np.histogram2d(*places.T, bins=8, range=[[0, 1], [0, 1]])[0].ravel()
    # Chi-squared with 63 degrees of freedom, of standard deviation sqrt(126): within four of its mean.
    statistic = ((cells - 20_000 / 64) ** 2 / (20_000 / 64)).sum()
    assert abs(statistic - 63) < 4 * math.sqrt(126)
    edges = len(topologies.erdos_renyi(20_000, 0.001, seed=1).rows()[0].neighbors) / 2
    expected = 0.001 * 20_000 * 19_999 / 2
    assert abs(edges - expected) < 4 * math.sqrt(expected)
    degrees = topologies.expander(5000, 4, seed=1).rows()[0].degrees
    assert degrees.max() == 4
    assert (4 - degrees).sum() < 20  # about two shared edges, with two ends each
    assert (
        gs.Network.expander(5000, 4, seed=1).lambda_2 > 0.05
    )  # Alon and Boppana: 1 - 2 sqrt(3)/5 = 0.3 at best


def test_a_seed_is_a_graph_and_small_ones_stay_those_of_networkx(monkeypatch):
    one, again, other = (gs.Network.random_geometric(200, seed=s) for s in (1, 1, 2))
    assert one == again
    assert one != other
    monkeypatch.setattr(topologies, "COUNTED", 100_000)
    # The seeds of the draws are NumPy's; the graph is the first connected one.
    seeds = np.random.default_rng(1).integers(2**31, size=topologies.DRAWS)
    radius = math.sqrt(2 * math.log(200) / (math.pi * 200))
    drawn = (nx.random_geometric_graph(200, radius, seed=int(s)) for s in seeds)
    expected = next(graph for graph in drawn if nx.is_connected(graph))
    assert gs.Network.random_geometric(200, seed=1) == gs.Network.from_networkx(expected)


@pytest.mark.slow
def test_networks_drawn_from_counters_are_redrawn_until_connected():
    topology = topologies.random_geometric(100, 0.14, seed=0)
    assert topologies.components(topology.rows()[0])[0] > 1
    assert topologies.components(topology.connected()[0])[0] == 1
    with pytest.raises(gs.InvalidNetwork, match=r"none of 200 random draws .* raise radius=0.02"):
        gs.Network.random_geometric(100, 0.02)


def test_matrix_edges_and_labels_are_made_when_they_are_asked_for():
    network = gs.Network.grid(5, 6)
    network.links, network.lambda_bound  # noqa: B018
    assert not {"gossip", "edges", "labels"} & set(vars(network))
    assert gs.Network.from_gossip_matrix(network.gossip) == network


@pytest.mark.slow
def test_facts_of_large_lattices_need_no_array_of_eigenvalues(monkeypatch):
    exact = {name: gs.Network.named(name) for name in ("torus:30x41", "path:70", "hypercube:7", "grid:30x40")}
    monkeypatch.setattr(networks, "LATTICE", 50)
    for name, known in exact.items():
        large = gs.Network.named(name)
        assert large.has_large_facts
        side = (
            1e-9 if known._closed_form else 1 / 40
        )  # a grid's are those of the least weight, on the safe side
        assert known.lambda_2 * (1 - side) <= large.lambda_2 <= known.lambda_2 * (1 + 1e-12)
        assert known.lambda_max * (1 - 1e-12) <= large.lambda_max <= known.lambda_max * (1 + side)
        assert large.inverse_square_trace == pytest.approx(
            known.inverse_square_trace, rel=max(side, 1e-9) * 2
        )
        assert large.lambda_bound == known.lambda_bound == 2


@pytest.mark.slow
def test_facts_of_many_agents_take_a_moment():
    facts = product_facts([("cycle", 10_000), ("cycle", 5_000)], [0.2], 1.6)
    assert facts.agents == 5 * 10**7
    assert facts.lambda_2 == pytest.approx(0.2 * (2 * np.pi / 10_000) ** 2, rel=1e-6)
    for sides in ([10**6], [10**6, 3], [3, 10**6]):  # long ones, too: not a step of Python for each agent
        facts = product_facts([("path", side) for side in sides], [0.2], 1.6)
        assert facts.lambda_2 == pytest.approx(0.2 * (np.pi / 10**6) ** 2, rel=1e-6)
        assert facts.inverse_square_trace == pytest.approx(
            25 * 10**24 / 90, rel=1e-6
        )  # sum of 1/k^4 is pi^4/90


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(12, 34), (24, 24), (3, 100), (4, 60), (2, 90)])
def test_lambda_max_of_a_grid_is_a_close_bound(sides):
    """How close falls with the sixth power of the sides, so grids of more than 2^16 agents have it to 1e-6."""
    grid = gs.Network.grid(*sides)
    truth = np.linalg.eigvalsh(grid.gossip.toarray())[-1]
    factors = [("path", side) for side in sides]
    found = product_facts(factors, [0.2, 0.25, 1 / 3], grid.links.eigenvalue_bound).lambda_max
    assert truth * (1 - 1e-14) <= found <= truth * (1 + 2e-5)
    if np.prod(sides) > 500:
        assert found <= truth * (1 + 1e-6)
    assert product_facts([("path", 1000)] * 2, [0.2, 0.25], 1.6).lambda_max < 1.6 * (1 - 2.4e-6)


@pytest.mark.slow
def test_methods_need_no_iteration_to_know_a_large_lattice(monkeypatch):
    for name in ("largest_eigenvalue", "smallest", "inverse_square_trace"):
        monkeypatch.setattr(iterative, name, Mock(side_effect=AssertionError("minutes of work")))
    network = gs.Network.grid(257, 256)
    run = gs.simulate("anytime-sda", network, gs.Gaussian(np.zeros(257 * 256)), 1, 1)
    assert (
        run.quick_expected is None
    )  # its exact error would take long as well, and is computed for those who ask


def test_parts_are_whole_blocks():
    bounds = NamedParts("grid:100x100").bounds(3)
    assert bounds[0] == 0
    assert bounds[-1] == 10_000
    assert all(bound % BLOCK == 0 for bound in bounds[:-1])
    assert NamedParts("grid:10x10").bounds(3) == [0, 0, 0, 100]


def test_what_is_in_parts():
    assert isinstance(parts_of("grid:10x10"), NamedParts)
    assert isinstance(parts_of(gs.Network.path(5)), HeldParts)
    with pytest.raises(gs.Unsupported, match="is stored in parts, so its gossip matrix"):
        gs.Network.of(parts_of("grid:10x10"))
    with pytest.raises(gs.Unsupported, match=r"gossip matrix.*simulate it"):
        gs.exact("sda", parts_of("grid:10x10"), gs.Gaussian(np.zeros(100)), 9)
    with pytest.raises(gs.InvalidInput, match="or 'max-degree' on a cluster, got 'best-constant'"):
        NamedParts("grid:10x10", "best-constant")
    with pytest.raises(gs.InvalidInput, match="did you mean 'grid'"):
        parts_of("gird:10x10")


def test_a_file_is_to_be_partitioned_first(tmp_path):
    (tmp_path / "ring.txt").write_text("0 1\n1 2\n2 0\n")
    with pytest.raises(gs.InvalidInput, match="write parts of it with gossamer partition"):
        parts_of(tmp_path / "ring.txt")


def test_spectra_that_nobody_knows_say_what_to_do(monkeypatch):
    monkeypatch.setattr("gossamer.networks.parts.LARGE", 100)
    facts = NamedParts("geometric:500").facts([0.1], 1.9)
    assert facts.lambda_bound == 2
    with pytest.raises(
        gs.Unsupported, match="acceleration='local-heavy-ball', which needs the weights alone"
    ):
        _ = facts.lambda_2


@pytest.mark.slow
@pytest.mark.parametrize("by", ["metis", "curve", "blocks"])
def test_a_folder_of_parts_is_the_network_with_other_numbers(tmp_path, by):
    if by == "metis":
        pytest.importorskip("pymetis")
    network = gs.Network.random_geometric(1100, seed=2)
    shards = partition(network, 3, tmp_path, by)
    again = gs.Network.read(tmp_path)
    for read in (gs.Network.read, parts_of):
        with pytest.raises(gs.InvalidInput, match="was written with, got 'laplacian'; leave them out"):
            read(tmp_path, "laplacian")
    assert nx.utils.graphs_equal(again.to_networkx(), network.to_networkx())
    assert (again.lambda_2, again.lambda_max) == (network.lambda_2, network.lambda_max)
    parts = ShardedParts(tmp_path)
    assert parts.bounds(2) == [0, shards.bounds[1], 1100]
    assert shards.cut == cut_edges(again.links, shards.bounds)
    if by != "blocks":
        scattered = renumbered(network.links, np.random.default_rng(0).permutation(1100))
        assert shards.cut < cut_edges(scattered, shards.bounds) / 3
    for first, last in pairwise(parts.bounds(2)):
        held = HeldParts(again).read(first, last, 0)
        for stored, expected in zip(parts.read(first, last, 0)[:3], held[:3], strict=True):
            np.testing.assert_array_equal(stored, expected)


@pytest.mark.slow
def test_metis_is_not_beaten_by_blocks(tmp_path):
    pytest.importorskip("pymetis")
    network = gs.Network.grid(64, 16)  # two halves of 512 agents, 16 edges between them
    assert partition(network, 2, tmp_path / "blocks", "blocks").cut == 16
    assert partition(network, 2, tmp_path / "metis").cut <= 16
    long = gs.Network.path(1500)  # METIS cuts at 500 and 1000, which no part can have
    assert partition(long, 3, tmp_path / "long").cut == 2


@pytest.mark.slow
def test_what_a_partition_refuses(tmp_path):
    network = gs.Network.grid(30, 30)
    with pytest.raises(gs.InvalidInput, match="parts must be at most 2 here"):
        partition(network, 3, tmp_path, "blocks")
    with pytest.raises(gs.InvalidInput, match="by='curve' needs agents with positions"):
        partition(gs.Network.erdos_renyi(900), 2, tmp_path, "curve")
    partition(network, 2, tmp_path, "blocks")
    with pytest.raises(
        gs.InvalidInput, match=r"folder must be a new or an empty folder, got .*, which has content"
    ):
        partition(network, 2, tmp_path, "blocks")
    with pytest.raises(gs.InvalidInput, match="has 2 parts, too few for 3 ranks; start at most 2 ranks"):
        ShardedParts(tmp_path).bounds(3)
    (tmp_path / "part-0001.npz").write_bytes(b"")
    with pytest.raises(gs.InvalidInput, match=r"part-0001\.npz cannot be read as a part of a network"):
        gs.Network.read(tmp_path)
    (tmp_path / "partition.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(gs.InvalidInput, match="is not the manifest of a network in parts"):
        gs.Network.read(tmp_path)
