"""Networks from files: every format, and what is refused."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.support.networks import connected_networks

import gossamer as gs
from gossamer.networks import files, tables
from gossamer.networks.reading import parse_network

TAILED = nx.Graph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])  # a triangle with a tail


def edges(network: gs.Network) -> set[frozenset[str]]:
    return {frozenset(str(network.labels[i]) for i in pair) for pair in network.edges.tolist()}


def pairs(*words: str) -> set[frozenset[str]]:
    return {frozenset(word.split("-")) for word in words}


@pytest.fixture
def read(tmp_path):
    def write_and_read(content: str | bytes, name: str = "g.txt", **options) -> gs.Network:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return gs.Network.read(path, **options)

    return write_and_read


def node_link(graph: nx.Graph) -> str:
    return json.dumps(nx.node_link_data(graph, edges="links"))


WRITERS = {
    ".graphml": nx.write_graphml,
    ".gml": nx.write_gml,
    ".gexf": nx.write_gexf,
    ".net": nx.write_pajek,
    ".edgelist": nx.write_edgelist,
    ".edges": nx.write_edgelist,
    ".adjlist": nx.write_adjlist,
    ".json": lambda graph, path: path.write_text(node_link(graph)),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_what_networkx_writes_is_read_with_its_names(suffix, tmp_path):
    path = tmp_path / f"tailed{suffix}"
    WRITERS[suffix](TAILED, path)
    network = gs.Network.read(path)
    assert edges(network) == pairs("a-b", "b-c", "c-a", "c-d")
    assert network.name == "tailed"
    np.testing.assert_allclose(
        network.gossip.toarray(),
        gs.Network.from_networkx(nx.relabel_nodes(TAILED, str)).gossip.toarray()[
            np.ix_(*[["abcd".index(name) for name in network.labels]] * 2)
        ],
    )


@pytest.mark.parametrize(
    "content", [nx.adjacency_data, nx.cytoscape_data, lambda g: nx.node_link_data(g, edges="edges")]
)
def test_the_other_json_of_networkx(content, read):
    assert edges(read(json.dumps(content(TAILED)), "g.json")) == pairs("a-b", "b-c", "c-a", "c-d")


@pytest.mark.parametrize(
    "content", ['{"a": ["b", "c"], "b": ["c"], "c": ["d"]}', '[["a","b"],["b","c"],["c","a"],["c","d"]]']
)
def test_plain_json(content, read):
    assert edges(read(content, "g.json")) == pairs("a-b", "b-c", "c-a", "c-d")


def test_numbered_graphs(tmp_path):
    graph = nx.petersen_graph()
    nx.write_graph6(graph, tmp_path / "p.g6")
    nx.write_sparse6(graph, tmp_path / "p.s6")
    np.save(tmp_path / "p.npy", nx.to_numpy_array(graph))
    scipy.io.mmwrite(tmp_path / "p.mtx", nx.to_scipy_sparse_array(graph))
    np.savetxt(tmp_path / "p.matrix", nx.to_numpy_array(graph), fmt="%d")
    (tmp_path / "p.gml").write_text("".join(nx.generate_gml(graph)).replace("label", "caption"))
    for suffix in (".g6", ".s6", ".npy", ".mtx", ".matrix", ".gml"):
        network = gs.Network.read(tmp_path / f"p{suffix}")
        assert network == gs.Network.from_networkx(graph), suffix


@pytest.mark.parametrize(
    ("content", "format"),
    [
        ("0 1 3\n1 0 2\n2 1 3\n3 2 0", "adjacency-list"),
        ("0 1 0 1\n1 0 1 0\n0 1 0 1\n1 0 1 0", "matrix"),
        ("0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0", "matrix"),
        ("0 1 1\n1 2 1\n2 3 1\n3 0 1", "edge-list"),
        ("from there minutes\n0 1 5\n1 2 2\n2 3 1\n3 0 1", "edge-list"),
    ],
)
def test_text_that_may_be_several_things_is_read_as_what_the_user_says(content, format, read):
    with pytest.raises(
        gs.InvalidNetwork, match=r"not clearly an edge list.*give its format with format='edge-list'"
    ):
        read(content)
    network = read(content, format=format)
    assert edges(network) == pairs("0-1", "1-2", "2-3", "3-0")


@pytest.mark.parametrize("content", ["% nothing", "", "\n\n", "# nothing\n%\n"])
def test_a_file_without_agents_is_refused(content, read):
    with pytest.raises(gs.InvalidNetwork, match="holds no agents"):
        read(content)


EDGE_LISTS = {
    "spaces, comments": "# a tail\na b\n% more\nb c  # here\n\nc a\nc d\n",
    "commas": "a,b\nb,c\nc,a\nc,d",
    "semicolons": "a; b\nb; c\nc; a\nc; d",
    "tabs": "a\tb\nb\tc\nc\ta\nc\td",
    "a mixture": "a b\nb,c\nc;a\nc\td",
    "heading": "source,target\na,b\nb,c\nc,a\nc,d",
    "heading and weights": "source,target,weight\na,b,0.5\nb,c,0.25\nc,a,1\nc,d,2",
    "both directions": "a b\nb a\nb c\nc b\nc a\na c\nc d\nd c",
    "byte order mark": "\ufeffa b\nb c\nc a\nc d",
    "dictionaries": "a b {}\nb c {}\nc a {'weight': 2}\nc d {}",
    "Windows": "a b\r\nb c\r\nc a\r\nc d\r\n",
    "Gephi": "Source,Target,Type,Weight\na,b,Undirected,1\nb,c,Undirected,1\nc,a,Undirected,1\nc,d,Undirected,1",
}  # fmt: skip


@pytest.mark.parametrize("content", EDGE_LISTS.values(), ids=EDGE_LISTS)
def test_edge_lists(content, read):
    network = read(content)
    assert edges(network) == pairs("a-b", "b-c", "c-a", "c-d")


@pytest.mark.parametrize("content", ["1 2\n2 3", "from,to\n1,2\n2,3", "% two edges\n1 2\n2 3"])
def test_the_smallest_edge_list(content, read):
    assert edges(read(content)) == pairs("1-2", "2-3")


def test_below_a_heading_there_are_no_counts(read):
    assert edges(read("from,to\n4,3\n0,4\n4,2\n2,3")) == pairs("4-3", "0-4", "4-2", "2-3")


def test_names_with_spaces(read):
    for content in (
        '"New York" "Los Angeles"\n"Los Angeles" Boston',
        "New York,Los Angeles\nLos Angeles,Boston",
        '"New York";"Los Angeles"\n"Los Angeles";"Boston"',
    ):
        assert read(content).labels == ["New York", "Los Angeles", "Boston"]


def test_a_first_edge_whose_agents_appear_again_is_not_a_heading(read):
    assert edges(read("i j\nj k\nk i")) == pairs("i-j", "j-k", "k-i")
    assert edges(read("hub b\nb 1\nb 2")) == pairs("hub-b", "b-1", "b-2")


def test_matrices_with_names(read):
    for content in (
        ",a,b,c\na,0,1,0\nb,1,0,1\nc,0,1,0",
        "a b c\n0 1 0\n1 0 1\n0 1 0",
        "a b c\na 0 1 0\nb 1 0 1\nc 0 1 0",
    ):
        network = read(content, format="matrix")
        assert (network.labels, edges(network)) == (["a", "b", "c"], pairs("a-b", "b-c"))


def test_adjacency_lists_with_colons_and_with_every_edge_once(read):
    assert edges(read("0: 1 2\n1: 0\n2: 0", "g.adjlist")) == pairs("0-1", "0-2")
    assert edges(read("a b c d\nb c d\nc\nd", "g.adjlist")) == pairs("a-b", "a-c", "a-d", "b-c", "b-d")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("0 1 2 3\n3 4 5", "not clearly an edge list"),
        ("a a\na b", "self-loops"),
        ("4 3\n0 1\n1 2\n2 3", "line 1: '4 3' may be an edge, or the numbers of agents and edges"),
        ("what is this\nit is prose, that is all", "not clearly an edge list"),
        (b"\x00\x01\xff\xfe", "must be text in UTF-8, or have an extension"),
        ("a b\nc d", r"2 components \(sizes 2, 2\)"),
        ("a b\nc", "not clearly an edge list"),
    ],
)
def test_files_that_are_refused(content, text, read):
    with pytest.raises(gs.InvalidNetwork, match=text):
        read(content)


@pytest.mark.parametrize("suffix", [one for row in files.FORMATS.values() for one in row.suffixes])
def test_garbage_is_refused_whatever_it_is_called(suffix, read):
    for garbage in (b"\x00\x01\xff", b"", b"{", b"<x", b"*Vertices", b"garbage"):
        with pytest.raises(gs.InvalidNetwork):
            read(garbage, f"g{suffix}")


def test_the_format_can_be_said(read):
    network = read("1 2 3\n2 1 3\n3 1 2", format="adjacency-list")
    assert edges(network) == pairs("1-2", "1-3", "2-3")
    assert edges(read("1 2 3\n2 1 3\n3 1 2", format="edge-list")) == pairs("1-2", "1-3")
    assert edges(read("0 1 2 3\n3 4 5", format="adjacency-list")) == pairs("0-1", "0-2", "0-3", "3-4", "3-5")
    assert read(node_link(TAILED), "g.data", format="json").agents == 4
    with pytest.raises(
        gs.InvalidInput, match=r"format must be 'edge-list', .* got 'edgelist'.*did you mean 'edge-list'"
    ):
        read("a b", format="edgelist")


def test_weights_of_the_file_on_request(read, tmp_path):
    expected = np.array([[0.5, -0.5, 0], [-0.5, 0.75, -0.25], [0, -0.25, 0.25]])
    for content, name in (
        ("a b 0.5\nb c 0.25", "g.edges"),
        ("source;target;weight\na;b;0.5\nb;c;0.25", "g.csv"),
        (",a,b,c\na,0,0.5,0\nb,0.5,0,0.25\nc,0,0.25,0", "g.matrix"),
    ):
        network = read(content, name, weights="file")
        np.testing.assert_allclose(network.gossip.toarray(), expected)
        assert network.labels == ["a", "b", "c"]
        assert read(content, name) == gs.Network.from_networkx(nx.Graph([("a", "b"), ("b", "c")]))
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 0.5), ("b", "c", 0.25)])
    nx.write_graphml(graph, tmp_path / "g.graphml")
    np.testing.assert_allclose(gs.Network.read(tmp_path / "g.graphml", "file").gossip.toarray(), expected)
    whole = np.eye(3) - expected  # W = I - L: what agents give themselves follows from the rest
    np.save(tmp_path / "w.npy", whole)
    np.testing.assert_allclose(gs.Network.read(tmp_path / "w.npy", "file").gossip.toarray(), expected)


@pytest.mark.parametrize(
    ("content", "options", "text"),
    [
        ("a b\nb c", {}, "a weight for every edge, .* but a-b has none"),
        ("a b 1\na b 2\nb c 1", {"format": "edge-list"}, "a-b has none, or several"),
        ("a b 1\nb c 0", {"format": "edge-list"}, "b-c has 0.0"),
        ("a b 1\nb c -1", {"format": "edge-list"}, "positive semi-definite"),
    ],
)
def test_weights_that_cannot_be_used(content, options, text, read):
    with pytest.raises(gs.InvalidNetwork, match=text):
        read(content, weights="file", **options)


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (np.array([[0, 1], [0, 0]]), r"symmetric, but \[0,1\] is 1 and \[1,0\] is 0; an edge needs both"),
        (np.ones((2, 3)), r"square, got shape \(2, 3\)"),
        (gs.Network.path(3).gossip.toarray(), "no negative entries.*from_gossip_matrix"),
        (np.array([[0, np.nan], [np.nan, 0]]), "finite real numbers"),
        (np.ones((2, 2)), "no self-loops"),
        (np.array(["a"]), "a square table of numbers is needed"),
    ],
)
def test_matrices_that_are_refused(matrix, text, tmp_path):
    np.save(tmp_path / "m.npy", matrix)
    with pytest.raises(gs.InvalidNetwork, match=text):
        gs.Network.read(tmp_path / "m.npy")


@pytest.mark.parametrize("suffix", [".graphml", ".gexf", ".gml", ".net", ".json"])
def test_directed_files_need_both_directions(suffix, tmp_path):
    path = tmp_path / f"g{suffix}"
    WRITERS[suffix](TAILED.to_directed(), path)
    assert edges(gs.Network.read(path)) == pairs("a-b", "b-c", "c-a", "c-d")
    WRITERS[suffix](nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")]), path)
    with pytest.raises(gs.InvalidNetwork, match="directed and has b -> c alone; add the way back"):
        gs.Network.read(path)


def test_several_graphs_in_one_file_are_refused(read):
    two = b"".join(nx.to_graph6_bytes(nx.path_graph(n)) for n in (3, 4))
    with pytest.raises(gs.InvalidNetwork, match="one graph is needed, but the file holds 2"):
        read(two, "g.g6")


def test_a_position_that_is_somebody_elses_is_left_alone(tmp_path):
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, "verb", "pos")
    assert gs.Network.from_networkx(graph).positions is None


def test_no_file(tmp_path):
    with pytest.raises(gs.InvalidInput, match="there is no such file"):
        gs.Network.read(tmp_path / "none.txt")
    with pytest.raises(gs.InvalidInput, match="path must name a file, got 5"):
        gs.Network.read(5)


def test_the_command_line_says_names_files_and_formats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.txt").write_text("1 2 3\n2 1 3\n3 1 2")
    assert len(parse_network("adjacency-list:g.txt").edges) == 3
    assert len(parse_network("edge-list:g.txt").edges) == 2
    with pytest.raises(gs.InvalidNetwork, match=r"not clearly an edge list.*edge-list:FILE"):
        parse_network("g.txt")
    assert parse_network("grid:3x4") == gs.Network.named("grid:3x4")


@given(connected_networks(), st.sampled_from(["edge-list", "adjacency-list", "matrix"]))
def test_text_without_a_format_is_read_as_the_network_it_is_or_refused(network, name):
    """Any connected network, written in any of the three ways."""
    graph = nx.relabel_nodes(nx.Graph(network.to_networkx()), str)
    if name == "edge-list":
        text = "\n".join(f"{a} {b}" for a, b in graph.edges)
    elif name == "adjacency-list":
        text = "\n".join(" ".join([a, *graph[a]]) for a in graph)
    else:
        text = "\n".join(" ".join(str(int(x)) for x in row) for row in nx.to_numpy_array(graph, weight=None))
    rows = tables.rows_of(text)
    if not tables.is_edge_list(rows):
        assert name != "edge-list"
        return
    if rows[0].words == [str(len(graph)), str(len(rows) - 1)]:
        with pytest.raises(gs.InvalidNetwork, match="how many agents and edges"):
            tables.check_counts(rows)
        return
    read = tables.edge_list(rows)
    assert {frozenset(edge) for edge in read.edges} == {frozenset(edge) for edge in graph.edges}


@pytest.mark.slow
def test_large_sparse_matrices_stay_sparse(tmp_path):
    ring = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(20_000, 20_000))
    scipy.io.mmwrite(tmp_path / "line.mtx", ring)
    assert gs.Network.read(tmp_path / "line.mtx").agents == 20_000


def test_comments_are_not_words():
    assert tables.rows_of('a b # c\n"x # y" z\n  % d\n') == [(1, ["a", "b"]), (2, ["x # y", "z"])]
