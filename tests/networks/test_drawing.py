"""Pictures of networks: natural positions, colors, labels, and sketches for notebooks."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.networks.drawing import positions_of

NATURAL = ["path:2", "path:100", "cycle:9", "star:5", "grid:3x4", "torus:4x5", "complete:6", "hypercube:4"]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NATURAL, "geometric:20", "erdos-renyi:30", "expander:20x3"])
def test_no_two_agents_have_the_same_position(name):
    net = gs.Network.of(name)
    positions = positions_of(net)
    assert positions.shape == (net.agents, 2)
    assert len({tuple(np.round(place, 9)) for place in positions}) == net.agents


@pytest.mark.parametrize("name", [*NATURAL, "geometric:20"])
def test_topologies_have_their_natural_positions(name):
    assert gs.Network.of(name).positions is not None


def test_a_grid_is_a_grid_and_a_cycle_a_circle():
    grid = gs.Network.grid(3, 4)
    lengths = np.linalg.norm(np.diff(grid.positions[grid.edges], axis=1)[:, 0], axis=1)
    np.testing.assert_allclose(lengths, 1.0)
    cycle = gs.Network.cycle(12)
    np.testing.assert_allclose(np.linalg.norm(cycle.positions, axis=1), 1.0)
    sides = np.linalg.norm(np.diff(cycle.positions[cycle.edges], axis=1)[:, 0], axis=1)
    np.testing.assert_allclose(sides, sides[0])


def test_edges_of_a_tree_do_not_cross():
    net = gs.Network.of(nx.random_labeled_tree(60, seed=2))
    ends = positions_of(net)[net.edges]

    def side(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    for k, (a, b) in enumerate(ends):
        for j, (c, d) in enumerate(ends[:k]):
            if set(net.edges[k]) & set(net.edges[j]):
                continue
            assert not (side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0)


def test_a_graph_called_like_a_topology_is_not_taken_for_one():
    graph = nx.star_graph(5)
    assert gs.Network.from_networkx(graph, name="grid:2x3").positions is None


def test_values_are_colors_with_a_bar():
    net = gs.Network.grid(3, 3)
    ax = net.plot(np.arange(9.0), label="degrees")
    assert ax.collections[1].get_array().tolist() == list(range(9))
    assert [other.get_ylabel() for other in ax.figure.axes] == ["", "degrees"]
    low, high = net.plot(np.arange(9.0), limits=(0, 100), label=None).collections[1].get_clim()
    assert (low, high) == (0, 100)


def test_labels_are_those_of_the_graph():
    net = gs.Network.of(nx.relabel_nodes(nx.path_graph(3), {0: "a", 1: "b", 2: "c"}))
    _, ax = plt.subplots()
    assert net.plot(ax=ax, with_labels=True) is ax
    assert [text.get_text() for text in ax.texts] == ["a", "b", "c"]


def test_values_of_the_wrong_shape_are_refused():
    with pytest.raises(
        gs.InvalidInput, match=r"values must be one number for each of the 4 agents, got .*\(3,\)"
    ):
        gs.Network.cycle(4).plot([1, 2, 3])
    with pytest.raises(gs.InvalidInput, match="at most 20000 agents in a picture, got 30000 agents"):
        gs.Network.path(30_000).plot()


def test_a_notebook_shows_a_sketch():
    net = gs.Network.grid(3, 3)
    text = net._repr_html_()
    svg = ET.fromstring(text.partition("<br>")[0])
    assert len(svg.findall(".//{*}circle")) == net.agents
    assert svg.find(".//{*}path").get("d").count("M") == len(net.edges)
    assert "Network(grid:3x3, 9 agents, 12 edges)" in text
    assert "<svg" not in gs.Network.path(1000)._repr_html_()
