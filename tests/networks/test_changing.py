"""Networks that change: who is in contact when, and what is refused."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.errors import InvalidInput, InvalidNetwork
from gossamer.networks.changing import parse_changing

Changing = gs.ChangingNetwork


def edges_of_a_round(round):
    return [(0, 1)] if round % 2 else [(1, 2), (2, 0)]


def all_kinds():
    return [
        Changing.mobile(20, radius=0.25, speed=0.03, seed=3),
        Changing.matchings(20, seed=3),
        Changing.dropout("grid:4x5", 0.3, seed=3),
        Changing.switching(["path:6", "cycle:6", "star:6"], every=4),
        Changing.from_contacts([(0, "a", "b"), (1, "b", "c", 3), (5, "a", "c")]),
        Changing.from_function(edges_of_a_round, 3),
    ]


@pytest.mark.parametrize("network", all_kinds(), ids=lambda network: network.name)
def test_every_round_is_a_pure_function(network):
    indptr, pairs = network.edges_in(range(30))
    assert indptr[0] == 0
    assert indptr[-1] == len(pairs)
    for t in (29, 0, 7, 16):
        edges = network.edges_at(t)
        assert edges.shape[1] == 2
        assert edges.dtype == np.int64
        assert np.all(edges[:, 0] < edges[:, 1])
        assert len(np.unique(edges, axis=0)) == len(edges)
        assert edges.size == 0 or (edges.min() >= 0 and edges.max() < network.agents)
        np.testing.assert_array_equal(pairs[indptr[t] : indptr[t + 1]], edges)
    _later, pairs_later = network.edges_in(range(13, 20))
    np.testing.assert_array_equal(pairs_later, pairs[indptr[13] : indptr[20]])
    assert len(network) == network.agents == len(network.labels)


def test_equal_content_is_equal():
    for one, same in zip(all_kinds(), all_kinds(), strict=True):
        assert one == same
        assert hash(one) == hash(same)
        assert pickle.loads(pickle.dumps(one)) == one
    kinds = all_kinds()
    assert all(one != other for one in kinds for other in kinds if one is not other)
    assert Changing.matchings(20, seed=3) != Changing.matchings(20, seed=4)
    assert Changing.dropout("path:5", 0.3) != Changing.dropout("cycle:5", 0.3)


def test_mobile_agents_move_at_their_speed_and_meet_within_the_radius():
    network = Changing.mobile(30, radius=0.2, speed=0.01, seed=1)
    places = network.contacts.positions(range(3000))
    assert places.min() >= 0
    assert places.max() <= 1
    steps = np.linalg.norm(np.diff(places, axis=0), axis=2)
    assert steps.max() <= 0.01 + 1e-12  # a turn makes the straight line shorter
    assert np.median(steps) == pytest.approx(0.01)
    for t in (0, 1234):
        distance = np.linalg.norm(places[t][:, None] - places[t], axis=2)
        expected = np.argwhere(np.triu(distance <= 0.2, k=1))
        np.testing.assert_array_equal(network.edges_at(t), expected)


def test_in_a_matching_everybody_meets_one_other():
    assert all(sorted(Changing.matchings(8, seed=2).edges_at(t).ravel()) == list(range(8)) for t in range(20))
    assert len(set(Changing.matchings(9).edges_at(3).ravel().tolist())) == 8
    pairs = Changing.matchings(6, seed=2).edges_in(range(3000))[1]
    _, counts = np.unique(pairs, axis=0, return_counts=True)
    assert len(counts) == 15
    assert abs(counts - 600).max() < 5 * np.sqrt(3000 * 0.2 * 0.8)


def test_dropout_keeps_each_edge_with_its_probability():
    base = gs.Network.grid(5, 5)
    pairs = Changing.dropout(base, 0.3, seed=2).edges_in(range(2000))[1]
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, base.edges)
    assert abs(counts - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)
    assert len(Changing.dropout(base, 0.0).edges_at(0)) == 0
    np.testing.assert_array_equal(Changing.dropout(base, 1.0).edges_at(5), base.edges)


def test_switching_goes_round():
    network = Changing.switching([gs.Network.path(5), nx.star_graph(4)], every=3)
    path, star = gs.Network.path(5).edges, gs.Network.star(5).edges
    for t, expected in enumerate([path] * 3 + [star] * 3 + [path] * 3):
        np.testing.assert_array_equal(network.edges_at(t), expected)
    with pytest.raises(InvalidInput, match=r"the same agents, got \[4, 5\]"):
        Changing.switching(["path:4", "path:5"])
    with pytest.raises(InvalidInput, match="at least one network"):
        Changing.switching([])


def test_functions_may_return_pairs_or_graphs():
    network = Changing.from_function(lambda round: nx.path_graph(4) if round else [[3, 1], [1, 3]], 4)
    assert network.edges_at(0).tolist() == [[1, 3]]
    assert network.edges_at(1).tolist() == [[0, 1], [1, 2], [2, 3]]
    for wrong, text in (
        ([(0, 4)], r"must name agents 0..3, got 0..4"),
        ([(1, 1)], "agent 1 to itself"),
        ([(0, 1, 2)], r"pairs of agent numbers.*got shape \(1, 3\)"),
        ([("a", "b")], "pairs of agent numbers"),
    ):
        with pytest.raises(InvalidNetwork, match=text):
            Changing.from_function(lambda round, wrong=wrong: wrong, 4).edges_at(7)
    with pytest.raises(InvalidInput, match="function of the round"):
        Changing.from_function([(0, 1)], 4)


# -- recorded contacts ------

TRACE = """\
# seconds, badge, badge
20 1042 7
20 7 300
40 7 1042
80 300 1042
"""


def stages(network, rounds):
    return [network.edges_at(t).tolist() for t in range(rounds)]


def test_contacts_from_a_file(tmp_path):
    (tmp_path / "school.txt").write_text(TRACE)
    network = Changing.from_contacts(tmp_path / "school.txt")
    assert network.labels == ("7", "300", "1042")
    assert network.name == "school"
    assert stages(network, 5) == [[[0, 1], [0, 2]], [[0, 2]], [], [[1, 2]], []]
    again = Changing.from_contacts(str(tmp_path / "school.txt"), repeat=True)
    assert stages(again, 6)[4:] == [[[0, 1], [0, 2]], [[0, 2]]]
    slower = Changing.from_contacts(tmp_path / "school.txt", every=40)
    assert stages(slower, 3) == [[[0, 1], [0, 2]], [[1, 2]], []]


def test_contacts_with_durations_and_a_header(tmp_path):
    (tmp_path / "c.csv").write_text("time,a,b,duration\n0,x,y,2.5\n1,y,z,0\n1,x,y,1\n")
    network = Changing.from_contacts(tmp_path / "c.csv")
    assert stages(network, 4) == [[[0, 1]], [[0, 1], [1, 2]], [[0, 1]], []]


def test_contacts_from_arrays_and_frames(tmp_path):
    rows = np.array([[0, 3, 4], [1, 4, 5], [1, 5, 4]])
    expected = [[[0, 1]], [[1, 2]], []]
    assert stages(Changing.from_contacts(rows), 3) == expected
    pandas = pytest.importorskip("pandas")
    assert stages(Changing.from_contacts(pandas.DataFrame(rows)), 3) == expected


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ([], "got none"),
        ([(0, "a")], "row 1 of the contacts"),
        ([("noon", "a", "b")], "numbers for their times"),
        ([(0, "a", "a"), (0, "a", "b")], "joins 'a' to itself"),
        ([(0, "a", "b", -1)], "durations of at least 0"),
        ([(np.nan, "a", "b")], "finite times"),
    ],
)
def test_contacts_that_make_no_sense(table, text):
    with pytest.raises(InvalidInput, match=text):
        Changing.from_contacts(table)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"nothing\.csv cannot be read"):
        Changing.from_contacts(tmp_path / "nothing.csv")


# -- what is typed ------


def test_names(tmp_path):
    assert parse_changing("mobile:60,radius=0.3,speed=0.02", 5) == Changing.mobile(60, 0.3, 0.02, seed=5)
    assert parse_changing("Matchings:10", 2) == Changing.matchings(10, seed=2)
    (tmp_path / "t.txt").write_text(TRACE)
    assert parse_changing(f"contacts:{tmp_path / 't.txt'},every=40") == Changing.from_contacts(
        tmp_path / "t.txt", every=40
    )
    assert parse_changing("grid:3x4") is None
    for wrong, text in (
        ("mobile:60,fast=1", "mobile takes radius, speed, got 'fast=1'"),
        ("mobile:many", "needs a number where 'many' is"),
        ("matchings:1", "of at least 2"),
        ("mobile:20,radius=-1", "radius must be"),
    ):
        with pytest.raises(InvalidInput, match=text):
            parse_changing(wrong)


def test_a_summary_tells_the_parts():
    halves = Changing.from_function(lambda round: [(0, 1), (2, 3)], 4)
    found = halves.summary(10)
    assert (found["mean_edges"], found["mean_degree"], found["connected_rounds"], found["parts"]) == (
        2,
        1,
        0,
        2,
    )
