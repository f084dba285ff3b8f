"""Graphs from files: which format a file has, and who reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import scipy.io

from gossamer import checks
from gossamer.errors import GossamerError, InvalidInput, InvalidNetwork
from gossamer.networks import tables


class Format(NamedTuple):
    """How files of a format are called, how they begin, and who reads them."""

    suffixes: tuple[str, ...]
    start: str  #: a regular expression for the first bytes; "": nothing in particular
    read: Callable[[Path], nx.Graph]


class FileGraph(NamedTuple):
    """What a file holds: an undirected graph without parallel edges, and its format if that was a guess."""

    graph: nx.Graph
    guess: str | None


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


def _several(read: Callable[[Path], Any]) -> Callable[[Path], nx.Graph]:
    """graph6 and sparse6 files hold one graph per line."""

    def only_one(path: Path) -> nx.Graph:
        found = read(path)
        if isinstance(found, list):
            raise InvalidNetwork(f"one graph is needed, but the file holds {len(found)}; keep one line")
        return found

    return only_one


_TABLES: dict[str, Callable[[list[tables.Row], bool], nx.Graph]] = {
    "edge-list": tables.edge_list,
    "adjacency-list": tables.adjacency_list,
    "matrix": tables.matrix,
}


def _table(name: str) -> Callable[[Path], nx.Graph]:
    return lambda path: _TABLES[name](tables.rows_of(text_of(path)), False)


FORMATS: dict[str, Format] = {
    "edge-list": Format((".edgelist", ".edges"), "", _table("edge-list")),
    "adjacency-list": Format((".adjlist",), "", _table("adjacency-list")),
    "matrix": Format((), "", _table("matrix")),
    "npy": Format((".npy",), r"\x93NUMPY", lambda path: tables.of_matrix(np.load(path, allow_pickle=False))),
    "mtx": Format((".mtx",), r"%%MatrixMarket", lambda path: tables.of_matrix(scipy.io.mmread(path))),
    "graphml": Format((".graphml",), r"\s*<[^\0]*?<graphml", nx.read_graphml),
    "gexf": Format((".gexf",), r"\s*<[^\0]*?<?gexf", nx.read_gexf),
    "gml": Format((".gml",), r"(\s*(#|Creator|Version).*\n)*\s*graph\s*\[", _gml),
    "pajek": Format((".net", ".paj"), r"\s*\*(network|vertices)", lambda path: nx.parse_pajek(text_of(path))),
    "graph6": Format((".g6",), r">>graph6<<", _several(nx.read_graph6)),
    "sparse6": Format((".s6",), r">>sparse6<<", _several(nx.read_sparse6)),
    "json": Format((".json",), r"\s*[\[{]", _json),
}
"""Every format by name."""


def read_graph(path: Path, format: str | None = None) -> FileGraph:
    """Read a file in the given format, or in the one that its name or else its content tells."""
    if format is not None:
        checks.choice("format", format, FORMATS)
    known = format or next(
        (name for name, one in FORMATS.items() if path.suffix.lower() in one.suffixes), None
    )
    if not path.is_file():
        found = (
            "it is a folder that gossamer partition did not write"
            if path.is_dir()
            else "there is no such file"
        )
        raise InvalidInput(f"{path} must be a file that holds a network, but {found}")
    try:
        guess = None if known else _by_start(path)
        name = known or guess
        graph = FORMATS[name].read(path) if name else None
        if graph is None:
            guess, graph = _by_content(text_of(path))
        return FileGraph(_undirected(graph), guess)
    except GossamerError as error:
        raise InvalidNetwork(f"{path} could not be read as a network: {error}") from None
    except Exception as error:  # whatever a reader stumbles over is in the file
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise InvalidNetwork(
            f"{path} could not be read as {known or 'a network'} ({what}); correct the file, "
            f"or say its format: {', '.join(FORMATS)}"
        ) from error


def text_of(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
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


def _by_start(path: Path) -> str | None:
    with path.open("rb") as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    return next(
        (name for name, one in FORMATS.items() if one.start and re.match(one.start, start, re.IGNORECASE)),
        None,
    )


def _by_content(text: str) -> tuple[str, nx.Graph]:
    """Read a table in every way that fits; ways that give different graphs are a question to the user."""
    rows = tables.rows_of(text)
    if not rows:
        raise InvalidNetwork("it holds no agents; an edge list has two agent names per line")
    fits, reasons = {}, []
    for name, read in _TABLES.items():
        try:
            fits[name] = read(rows, True)
        except InvalidNetwork as error:
            reasons.append(f"as {name}: {error}")
    if not fits:
        raise InvalidNetwork(
            f"it fits no format ({'; '.join(reasons)}); correct it, or say what it is: "
            f"format='edge-list', 'adjacency-list' or 'matrix'"
        )
    if "edge-list" in fits and tables.may_be_neighbors(
        rows
    ):  # agents without a line of their own are forgiven
        fits.setdefault("adjacency-list", tables.adjacency_list(rows, False))
    (chosen, graph), *others = fits.items()
    for name, other in others:
        if _plain(other) != _plain(graph):
            raise InvalidNetwork(
                f"it can be read as {_described(chosen, graph)} and as {_described(name, other)}; "
                f"say which it is: format={chosen!r} or {name!r}"
            )
    return chosen, graph


def _plain(graph: nx.Graph) -> tuple[set[str], set[frozenset[str]]]:
    return {str(node) for node in graph}, {frozenset((str(a), str(b))) for a, b in graph.edges}


def _described(name: str, graph: nx.Graph) -> str:
    return f"{name} ({len(graph)} agents, {graph.number_of_edges()} edges)"


def _undirected(graph: nx.Graph) -> nx.Graph:
    """The same graph with one edge between two agents: for both directions, and for an edge that is there twice."""
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
