"""Pictures of networks: natural positions, colors, labels, and sketches for notebooks."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
from scipy.spatial import cKDTree

import gossamer as gs
from gossamer.networks import layout
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


@pytest.mark.parametrize("dimension", [3, 4, 5, 6])
def test_agents_of_a_hypercube_are_apart(dimension):
    net = gs.Network.hypercube(dimension)
    nearest = cKDTree(layout.fitted(net.positions)).query(layout.fitted(net.positions), k=2)[0][:, 1]
    assert nearest.min() > 0.2 / np.sqrt(net.agents)


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


@pytest.mark.parametrize("name", ["grid:40x40", "cycle:600", "complete:200", "expander:2000x4"])
def test_many_agents_are_near_their_neighbors_and_apart_from_others(name):
    net = gs.Network.of(name)
    place = layout.fitted(layout.computed(net.agents, net.edges))
    nearest = cKDTree(place).query(place, k=2)[0][:, 1]
    assert np.quantile(nearest, 0.1) > 0.1 / np.sqrt(net.agents)
    lengths = np.linalg.norm(place[net.edges[:, 0]] - place[net.edges[:, 1]], axis=1)
    if name.startswith(("grid", "cycle")):
        assert np.quantile(lengths, 0.95) < 3.5 / np.sqrt(net.agents)


def test_parts_that_are_not_connected_are_drawn_apart():
    edges = np.array([[k, k + 1] for k in range(40) if k != 20])
    place = layout.fitted(layout.computed(41, edges))
    assert min(np.linalg.norm(place[:21, None] - place[21:], axis=2).ravel()) > 0.1


@pytest.mark.slow
def test_a_layout_does_not_depend_on_the_machine():
    names = ["cycle:600", "torus:20x20", "expander:500x3"]
    code = (
        "import gossamer as gs; from gossamer.networks.layout import computed\n"
        f"for name in {names}: net = gs.Network.of(name); print(computed(net.agents, net.edges).sum().hex())"
    )
    pictures = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for kernel in ("Prescott", "Sandybridge")  # which add numbers in different orders
    ]
    assert pictures[0] == pictures[1]
    assert len(pictures[0].split()) == len(names)


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


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_agents_without_a_value_are_empty_circles(style):
    values = np.ma.masked_equal([0.0, 1.0, np.nan, np.inf, 4.0, 5.0], 5.0)
    with plt.style.context(style):
        dots = gs.Network.path(6).plot(values).collections[1]
        dots.update_scalarmappable()
        paper = np.array(dots.figure.get_facecolor())
    empty = (dots.get_facecolors() == paper).all(axis=1)
    assert empty.tolist() == [False, False, True, True, False, True]
    assert not (dots.get_edgecolors() == paper).all(axis=1).any()
    assert dots.get_clim() == (0.0, 4.0)


def test_many_links_become_lighter_and_many_names_smaller():
    def links(name):
        return gs.Network.of(name).plot().collections[0].get_alpha()

    assert links("grid:30x30") == 1.0
    assert links("complete:100") < 0.3
    sizes = [gs.Network.of(f"grid:{n}x{n}").plot(with_labels=True).texts[-1].get_fontsize() for n in (3, 40)]
    assert sizes[0] == 7.0
    assert sizes[1] < 4.0


def test_one_way_links_have_heads_from_sender_to_receiver():
    net = gs.DirectedNetwork.from_links(4, [(0, 1), (1, 2), (2, 3), (3, 0), (1, 0)])
    lines, _, heads = net.plot(with_labels=True).collections
    assert len(lines.get_segments()) == 4
    place = layout.fitted(positions_of(net))
    found = [path.vertices[:3] for path in heads.get_paths()]
    one_way = net._drawn()[1].tolist()
    assert sorted(one_way) == [[1, 2], [2, 3], [3, 0]]
    for (tip, *back), (sender, receiver) in zip(found, one_way, strict=True):
        along = place[receiver] - place[sender]
        assert all((tip - corner) @ along > 0 for corner in back)
        np.testing.assert_allclose(
            np.cross(np.append(along, 0), np.append(tip - place[sender], 0)), 0, atol=1e-12
        )
    assert net._repr_html_().count("Z") == 3
    graph = nx.DiGraph([("a", "b"), ("b", "a")])
    nx.set_node_attributes(graph, {"a": (0, 1), "b": (2, 3)}, "pos")
    assert gs.DirectedNetwork.from_networkx(graph).positions.tolist() == [[0, 1], [2, 3]]


def test_changing_networks_are_drawn_in_their_first_round():
    grid = gs.Network.grid(3, 3)
    swarm = gs.ChangingNetwork.mobile(9, 0.4)
    np.testing.assert_array_equal(swarm.positions, swarm.contacts.positions(range(1))[0])
    assert gs.ChangingNetwork.matchings(9).positions is not None
    for net in (gs.ChangingNetwork.dropout(grid, 0.5), gs.ChangingNetwork.switching([grid, "path:9"]), swarm):
        assert len(net.plot().collections[0].get_segments()) == len(net.edges_at(0))
        assert net._repr_html_().count("<circle") == 9
        assert net == pickle.loads(pickle.dumps(net))
        if net is not swarm:
            np.testing.assert_array_equal(net.positions, grid.positions)


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
    for wrong in ([1j] * 4, ["1"] * 4, np.array([1j] * 4)):
        with pytest.raises(gs.InvalidInput, match=r"one number for each of the 4 agents, got .*1"):
            gs.Network.cycle(4).plot(wrong)
    with pytest.raises(gs.InvalidInput, match="at most 20000 agents in a picture, got 30000 agents"):
        gs.Network.path(30_000).plot()


def test_a_notebook_shows_a_sketch():
    net = gs.Network.grid(3, 3)
    text = net._repr_html_()
    svg = ET.fromstring(text.partition("<br>")[0])
    assert len(svg.findall(".//{*}circle")) == net.agents
    assert svg.find(".//{*}path").get("d").count("M") == len(net.edges)
    assert "Network(grid:3x3, 9 agents, 12 edges)" in text
    large = gs.Network.path(10_000)._repr_html_()
    assert "<svg" not in large
    assert "<td>10,000</td><td>1 to 2</td>" in large
    assert len(large) < 500
