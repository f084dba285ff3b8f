"""Read graphs from files; the format is determined by the file's suffix or given by the user."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
import scipy.io

from gossamer import checks
from gossamer.errors import GossamerError, InvalidInput, InvalidNetwork
from gossamer.networks import sizes, tables


class Format(NamedTuple):
    """The suffixes of a format, and its reader."""

    suffixes: tuple[str, ...]
    read: Callable[[Path], nx.Graph]


def _gml(path: Path) -> nx.Graph:
    text = text_of(path)
    try:
        return nx.parse_gml(text)
    except nx.NetworkXError:  # its nodes have numbers and no labels
        return nx.parse_gml(text, label="id")


def _json(path: Path) -> nx.Graph:
    content = json.loads(text_of(path))
    if isinstance(content, dict) and "nodes" in content:
        if "adjacency" in content:
            return nx.adjacency_graph(content)
        if "links" in content or "edges" in content:
            return nx.node_link_graph(content, edges="links" if "links" in content else "edges")
    if isinstance(content, dict) and "elements" in content:
        return nx.cytoscape_graph(content)
    graph = nx.Graph()
    if isinstance(content, dict):
        for agent, neighbors in content.items():
            if not isinstance(neighbors, list):
                raise InvalidNetwork(f"the neighbors of {agent!r} must be a list, got {neighbors!r}")
            graph.add_node(str(agent))
            graph.add_edges_from((str(agent), str(other)) for other in neighbors)
        return graph
    if isinstance(content, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in content):
        graph.add_edges_from((str(a), str(b)) for a, b in content)
        return graph
    raise InvalidNetwork(
        'JSON must hold {"agent": ["neighbor", ...], ...}, a list of pairs, or node-link, adjacency or Cytoscape data '
        "as NetworkX writes them"
    )


def _several(read: Callable[[Path], nx.Graph | list[nx.Graph]]) -> Callable[[Path], nx.Graph]:
    """Return the graph of a graph6 or sparse6 file, which holds one graph per line."""

    def only_one(path: Path) -> nx.Graph:
        graphs = read(path)
        if isinstance(graphs, list):
            raise InvalidNetwork(f"one graph is needed, but the file holds {len(graphs)}; keep one line")
        return graphs

    return only_one


def _table(read: Callable[[list[tables.Row]], nx.Graph]) -> Callable[[Path], nx.Graph]:
    return lambda path: read(tables.rows_of(text_of(path)))


FORMATS: dict[str, Format] = {
    "edge-list": Format((".edgelist", ".edges"), _table(tables.edge_list)),
    "adjacency-list": Format((".adjlist",), _table(tables.adjacency_list)),
    "matrix": Format((".matrix",), _table(tables.matrix)),
    "npy": Format((".npy",), lambda path: tables.of_matrix(np.load(path, allow_pickle=False))),
    "mtx": Format((".mtx",), lambda path: tables.of_matrix(scipy.io.mmread(path))),
    "graphml": Format((".graphml",), nx.read_graphml),
    "gexf": Format((".gexf",), nx.read_gexf),
    "gml": Format((".gml",), _gml),
    "pajek": Format((".net", ".paj"), lambda path: nx.parse_pajek(text_of(path))),
    "graph6": Format((".g6",), _several(nx.read_graph6)),
    "sparse6": Format((".s6",), _several(nx.read_sparse6)),
    "json": Format((".json",), _json),
}
"""Every format by name."""


def read_graph(path: Path, format: str | None = None, most_agents: int | None = None) -> nx.Graph:
    """Read an undirected graph without parallel edges, in the given format or in that of the file's suffix.

    A file with an unknown suffix is read as an edge list if it clearly is one (`tables.is_edge_list`). A file that
    describes more than `most_agents` is refused before a graph is built (`sizes.py`).
    """
    if format is not None:
        checks.choice("format", format, FORMATS)
    known = format or next(
        (name for name, one in FORMATS.items() if path.suffix.lower() in one.suffixes), None
    )
    if not path.is_file():
        trouble = (
            "it is a folder that gossamer partition did not write"
            if path.is_dir()
            else "there is no such file"
        )
        raise InvalidInput(f"{path} must be a file that holds a network, but {trouble}")
    most = sizes.MOST_AGENTS.get() if most_agents is None else most_agents
    try:
        sizes.check_size(path, known or "edge-list", checks.whole_number("most_agents", most, least=2))
        graph = _undirected(FORMATS[known].read(path) if known else _edges(path))
        sizes.require_agents(len(graph), most)  # of most formats only the words were counted
        return graph
    except GossamerError as error:
        raise InvalidNetwork(f"{path} could not be read as a network: {error}") from None
    except Exception as error:  # any failure of a reader is caused by the file
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise InvalidNetwork(
            f"{path} could not be read as {known or 'a network'} ({what}); correct the file, or give its format: "
            f"{', '.join(FORMATS)}"
        ) from error


def _edges(path: Path) -> nx.Graph:
    rows = tables.rows_of(text_of(path))
    if rows and not tables.is_edge_list(rows):
        raise InvalidNetwork(
            "its format cannot be determined from its name, and it is not clearly an edge list, which has two "
            "agents per line or a header such as source,target,weight; give its format with format='edge-list', "
            "'adjacency-list', "
            "'matrix' or another one (on the command line, edge-list:FILE), or rename it to end in .edgelist, .adjlist "
            "or .matrix"
        )
    tables.check_counts(rows)
    return tables.edge_list(rows)


def text_of(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidNetwork(
            f"it must be text in UTF-8, or have an extension that names its format: "
            f"{', '.join(suffix for one in FORMATS.values() for suffix in one.suffixes)}"
        )
    return text


def _undirected(graph: nx.Graph) -> nx.Graph:
    """Return the same graph with a single edge between two agents, instead of two directions or duplicates."""
    if not (graph.is_directed() or graph.is_multigraph()):
        return graph
    if graph.is_directed():
        lonely = next(((a, b) for a, b in graph.edges() if not graph.has_edge(b, a)), None)
        if lonely is not None:
            raise InvalidNetwork(
                f"averaging needs an undirected graph, but the file's is directed and has {lonely[0]} -> {lonely[1]} "
                "alone; add the way back, or read it with NetworkX and pass graph.to_undirected(); for "
                "links that go one way see gs.DirectedNetwork and gs.PushSum"
            )
    plain = nx.Graph(name=graph.name)
    plain.add_nodes_from(graph.nodes(data=True))
    for a, b, weight in graph.edges(data="weight"):
        known = plain.edges[a, b]["weight"] if plain.has_edge(a, b) else weight
        plain.add_edge(a, b, weight=weight if known == weight else np.nan)
    return plain
