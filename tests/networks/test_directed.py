"""Networks with one-way links: their weights, and what is refused."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import gossamer as gs

RING = [(0, 1), (1, 2), (2, 0)]


def ring(agents=5):
    return gs.DirectedNetwork.from_links(agents, [(i, (i + 1) % agents) for i in range(agents)])


def test_an_agent_divides_equally_among_itself_and_those_to_whom_it_sends():
    net = gs.DirectedNetwork.from_links(3, [*RING, (0, 2)])
    expected = [[1 / 3, 0, 1 / 2], [1 / 3, 1 / 2, 0], [1 / 3, 1 / 2, 1 / 2]]
    np.testing.assert_allclose(net.weights.toarray(), expected, rtol=1e-15)
    assert net.links.tolist() == [[0, 1], [0, 2], [1, 2], [2, 0]]
    assert (net.agents, len(net)) == (3, 3)


def test_a_graph_keeps_its_names_and_an_undirected_one_goes_both_ways():
    net = gs.DirectedNetwork.from_networkx(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")], name="abc"))
    assert (net.labels, net.name, repr(net)) == (
        ["a", "b", "c"],
        "abc",
        "DirectedNetwork(abc, 3 agents, 3 links)",
    )
    both = gs.DirectedNetwork.from_networkx(nx.path_graph(3))
    assert both.links.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_weights_of_ones_own():
    shares = np.array([[0.0, 0.5], [1.0, 0.5]])  # one positive diagonal entry makes it aperiodic
    for matrix in (shares, sp.csr_array(shares), sp.coo_matrix(shares)):
        net = gs.DirectedNetwork.from_matrix(matrix)
        np.testing.assert_array_equal(net.weights.toarray(), shares)
    given = sp.csr_matrix(np.full((2, 2), 0.5))
    given.data[:2] = [0.0, 0.5]
    given.data[2] = 1.0
    assert gs.DirectedNetwork.from_matrix(given).weights.nnz == 3
    assert given.nnz == 4  # the caller's matrix stays as it is


def test_two_ways_around_of_different_lengths_need_no_diagonal():
    shares = np.zeros((3, 3))
    shares[1, 0] = shares[2, 1] = 0.5
    shares[2, 0] = shares[0, 1] = 0.5
    shares[0, 2] = 1.0  # ways around take 2 or 3 rounds
    assert gs.DirectedNetwork.from_matrix(shares).agents == 3


def test_equality_hash_and_pickle():
    net = ring()
    again = pickle.loads(pickle.dumps(net))
    assert net == again == ring()
    assert hash(net) == hash(again)
    assert net != gs.DirectedNetwork.from_networkx(nx.cycle_graph(5))
    assert net != "ring"
    graph = nx.relabel_nodes(nx.cycle_graph(5, create_using=nx.DiGraph), dict(enumerate("abcde")))
    assert net != gs.DirectedNetwork.from_networkx(graph)


WRONG = [
    (
        lambda: gs.DirectedNetwork.from_links(4, [*RING, (2, 3)]),
        r"strongly connected network, but here agent 0 cannot be reached from agent 3; add a link",
    ),
    (
        lambda: gs.DirectedNetwork.from_links(4, [*RING, (3, 0)]),
        r"strongly connected network, but here agent 3 cannot be reached from agent 0; add a link",
    ),
    (
        lambda: gs.DirectedNetwork.from_networkx(nx.DiGraph([("hub", str(i)) for i in range(8)])),
        r"agent 'hub' cannot be reached from agents '0', '1', '2', '3', '4' and 3 more",
    ),
    (lambda: gs.DirectedNetwork.from_matrix(np.eye(2)), "agent 1 cannot be reached from agent 0"),
    (lambda: gs.DirectedNetwork.from_links(3, [(0, 5)]), r"links must name agents 0..2, got 0..5"),
    (lambda: gs.DirectedNetwork.from_links(3, [(0, 1, 1)]), "links must be pairs of agent numbers"),
    (
        lambda: gs.DirectedNetwork.from_links(3, [("a", "b")]),
        r"for agents with names use DirectedNetwork.from_networkx",
    ),
    (lambda: gs.DirectedNetwork.from_links(3, [*RING, (0, 1)]), r"parallel edges; try nx.DiGraph\(G\)"),
    (lambda: gs.DirectedNetwork.from_links(3, [*RING, (1, 1)]), "no self-loops, but agent 1 has one"),
    (lambda: gs.DirectedNetwork.from_links(1, []), "agents must be a whole number of at least 2"),
    (
        lambda: gs.DirectedNetwork.from_networkx([(0, 1)]),
        "a NetworkX graph is needed, got list; .* try from_links",
    ),
    (lambda: gs.DirectedNetwork.from_networkx(nx.DiGraph()), "a network needs at least 2 agents, got 0"),
    (
        lambda: gs.DirectedNetwork.from_matrix(np.ones((2, 3))),
        r"a matrix of shares must be square, got shape \(2, 3\)",
    ),
    (
        lambda: gs.DirectedNetwork.from_matrix([["a"]]),
        "a matrix of shares must be a square table of real numbers",
    ),
    (lambda: gs.DirectedNetwork.from_matrix([[np.nan, 1], [1, 0]]), "finite entries"),
    (
        lambda: gs.DirectedNetwork.from_matrix([[1.5, 0.5], [-0.5, 0.5]]),
        "shares must be at least 0, got -0.5",
    ),
    (
        lambda: gs.DirectedNetwork.from_matrix([[0.5, 0.5], [0.25, 0.5]]),
        r"column 0 sums to 0.75; try A / A.sum\(axis=0\)",
    ),
    (
        lambda: gs.DirectedNetwork.from_matrix([[0.5, 0.5], [0.25, 0.75]]),
        r"column 0 sums to 0.75; its rows do: try A.T",
    ),
    (lambda: gs.DirectedNetwork.from_matrix([[0, 1], [1, 0]]), "multiple of 2 rounds.*a positive diagonal"),
]


@pytest.mark.parametrize(("make", "text"), WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_used(make, text):
    with pytest.raises(gs.InvalidInput, match=text):
        make()
