"""Small files that describe something huge are refused before anything is built."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from tests.support.commands import invoke

import gossamer as gs
from gossamer.errors import InvalidInput, InvalidNetwork
from gossamer.networks.sizes import MOST_AGENTS


def many(n: int) -> bytes:
    """The number of agents at the beginning of graph6 data."""
    return b"~~" + bytes(63 + ((n >> shift) & 63) for shift in (30, 24, 18, 12, 6, 0))


MATRIX = b"%%MatrixMarket matrix coordinate real general\n"
XML = b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (
            "a.s6",
            b":" + many(20_000_000),
            "at least 20,000,000 agents, and 250,000 are allowed; allow more with most_agents",
        ),
        (
            "b.s6",
            b":" + many(200_000),
            "declares 200,000 agents, but has room for at most .* links: it is not conn",
        ),
        ("c.s6", b"\n".join([b":" + many(10_000)] * 300), "one graph is needed, but the file holds 300"),
        ("d.s6", b":A" + b"~" * 3_100_000, "more than 3,000,000 bytes"),
        ("a.g6", many(20_000_000), "at least 20,000,000 agents"),
        ("a.mtx", MATRIX + b"20000000 20000000 1\n1 2 1\n", "at least 20,000,000 agents"),
        (
            "b.mtx",
            MATRIX + b"200000 200000 1\n1 2 1\n",
            "declares 200,000 agents, but has room for at most 11 links",
        ),
        ("c.mtx", MATRIX + b"3 3 900000000\n1 2 1\n", "declares 900,000,000 entries, but it has 11 words"),
        (
            "d.mtx",
            MATRIX.replace(b"coordinate", b"array") + b"30000 30000\n1\n",
            "declares 900,000,000 entries",
        ),
        ("a.edgelist", b"1 2\n" * 1_600_000, "more than 3,000,000 words, too many for 250,000 agents"),
        ("a.json", b"[" + b"[1,2]," * 1_600_000, "more than 3,000,000 words"),
        ("a.graphml", XML + b'<node id="1"/>' * 260_000, "describes at least 2[0-9]{2},[0-9]{3} agents"),
        (
            "b.graphml",
            XML.replace(b"<", b"<g:") + b"<g:node/>" * 260_000,
            "describes at least 2[0-9]{2},[0-9]{3} agen",
        ),
        ("c.graphml", XML + b"x" * 80_000_000, "more than 3,000,000 words"),
        ("a.gexf", b"<gexf>" + b"<node/>" * 260_000, "describes at least 2[0-9]{2},[0-9]{3} agents"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "",
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
def test_what_is_huge_is_refused_before_it_is_built(
    tmp_path: Path, name: str, content: bytes, why: str, packed: bool
) -> None:
    formats = {".s6": "sparse6", ".g6": "graph6", ".edgelist": "edge-list"}
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    suffix = Path(name).suffix
    tracemalloc.start()
    try:
        with pytest.raises(InvalidNetwork, match=why):
            gs.Network.read(path, format=formats.get(suffix, suffix[1:]))
        assert tracemalloc.get_traced_memory()[1] < 120e6  # a piece and its words
    finally:
        tracemalloc.stop()


def test_a_matrix_that_is_shorter_than_its_header_says_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((30, 30)))
    content = (tmp_path / "a.npy").read_bytes().replace(b"(30, 30), }    ", b"(90000, 90000), }"[:15])
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InvalidNetwork, match="could not be read"):
        gs.Network.read(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "suffix", ["s6", "g6", "graphml", "gexf", "gml", "edgelist", "adjlist", "net", "mtx"]
)
def test_the_number_of_agents_is_counted_exactly_enough(tmp_path: Path, suffix: str) -> None:
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 8))
    path = tmp_path / f"a.{suffix}"
    if suffix == "mtx":
        entries = [(a + 1, b + 1) for a, b in graph.edges] + [(b + 1, a + 1) for a, b in graph.edges]
        rows = "".join(f"{a} {b} 1\n" for a, b in entries)
        path.write_text(f"{MATRIX.decode()}40 40 {len(entries)}\n{rows}")
    else:
        writers = {"s6": nx.write_sparse6, "g6": nx.write_graph6, "net": nx.write_pajek}
        writers.get(suffix, getattr(nx, f"write_{suffix}", None))(graph, path)
    assert gs.Network.read(path, most_agents=40).agents == 40
    with pytest.raises(InvalidNetwork, match=r"at least (39|40) agents, and 38 are allowed"):
        gs.Network.read(path, most_agents=38)


def test_the_command_line_can_allow_more(tmp_path: Path) -> None:
    nx.write_sparse6(nx.path_graph(30), tmp_path / "a.s6")
    kept = MOST_AGENTS.get()
    try:
        refused = invoke("--most-agents", "20", "network", tmp_path / "a.s6")
        assert "at least 30 agents, and 20 are allowed" in str(refused.exception)
        assert invoke("--most-agents", "30", "network", tmp_path / "a.s6").exit_code == 0
    finally:
        MOST_AGENTS.set(kept)
    with pytest.raises(InvalidInput, match="most_agents must be a whole number of at least 2, got 1"):
        gs.Network.read(tmp_path / "a.s6", most_agents=1)
