"""Networks by name (`grid:10x10`) or from a file (edge list, GraphML, adjacency JSON)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx

from gossamer import checks
from gossamer.errors import InvalidInput, InvalidNetwork, nearest
from gossamer.networks import Network

_NAMED: dict[str, Callable[..., Network]] = {
    "path": Network.path,
    "cycle": Network.cycle,
    "star": Network.star,
    "complete": Network.complete,
    "grid": Network.grid,
    "torus": Network.torus,
    "hypercube": Network.hypercube,
    "erdos-renyi": Network.erdos_renyi,
    "geometric": Network.random_geometric,
    "expander": Network.expander,
}

EXAMPLES = (
    "path:100, cycle:100, star:100, complete:20, grid:10x10, torus:8x8, hypercube:7, "
    "erdos-renyi:100, geometric:100, expander:100x4"
)


def parse_network(text: str, weights: str = "metropolis", seed: int = 0) -> Network:
    """Return the network that `text` names, such as `path:100` or `grid:10x10`, or that the file `text` holds."""
    checks.seed(seed)
    kind, colon, numbers = text.partition(":")
    kind = kind.strip().lower().replace("_", "-")
    if kind in _NAMED and colon:
        return _named(text, kind, numbers, weights, seed)
    path = Path(text)
    if path.exists():
        return read_network(path, weights)
    if kind in _NAMED:
        raise InvalidInput(f"{text!r} needs a size; examples: {EXAMPLES}")
    raise InvalidInput(
        f"{text!r} is neither a network by name{nearest(kind, _NAMED)} nor a file; examples: {EXAMPLES}"
    )


def _named(text: str, kind: str, numbers: str, weights: str, seed: int) -> Network:
    build = _NAMED[kind]
    parameters = inspect.signature(build).parameters
    try:
        sizes = [
            float(part) if "." in part else int(part) for part in numbers.lower().replace(",", "x").split("x")
        ]
    except ValueError:
        raise InvalidInput(f"{text!r} needs whole numbers after the colon; examples: {EXAMPLES}") from None
    places = [name for name in parameters if name not in ("weights", "seed")]
    required = [name for name in places if parameters[name].default is inspect.Parameter.empty]
    if not len(required) <= len(sizes) <= len(places):
        wanted = " x ".join(places)
        raise InvalidInput(f"{kind} takes {wanted}, got {len(sizes)} numbers in {text!r}")
    extra: dict[str, Any] = {"seed": seed} if "seed" in parameters else {}
    return build(*sizes, weights=weights, **extra)


def read_network(path: Path, weights: str = "metropolis") -> Network:
    """Read GraphML (.graphml), adjacency JSON (.json: {"a": ["b", "c"], ...} or a list of pairs) or an edge list.

    An edge list has two agent names per line, separated by spaces or a comma; # starts a comment.
    """
    try:
        if path.suffix.lower() == ".graphml":
            graph = nx.read_graphml(path)
        elif path.suffix.lower() == ".json":
            graph = _from_json(path)
        else:
            graph = _from_edge_list(path)
    except (
        OSError,
        UnicodeDecodeError,
        json.JSONDecodeError,
        nx.NetworkXError,
        SyntaxError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise InvalidNetwork(f"{path} could not be read as a network: {error}") from error
    return Network.from_networkx(graph, weights, name=path.stem)


def _from_json(path: Path) -> nx.Graph:
    content = json.loads(path.read_text())
    if isinstance(content, dict) and "nodes" in content and ("links" in content or "edges" in content):
        return nx.node_link_graph(content, edges="links" if "links" in content else "edges")
    graph = nx.Graph()
    if isinstance(content, dict):
        for agent, neighbors in content.items():
            if not isinstance(neighbors, list):
                raise InvalidNetwork(f"{path}: the neighbors of {agent!r} must be a list, got {neighbors!r}")
            graph.add_node(str(agent))
            graph.add_edges_from((str(agent), str(other)) for other in neighbors)
        return graph
    if isinstance(content, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in content):
        graph.add_edges_from((str(a), str(b)) for a, b in content)
        return graph
    raise InvalidNetwork(
        f'{path} holds neither {{"agent": ["neighbor", ...], ...}}, a list of pairs, nor node-link data'
    )


def _from_edge_list(path: Path) -> nx.Graph:
    graph = nx.Graph()  # both directions of an edge, or the same line twice, are one edge
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) < 2:
            raise InvalidNetwork(f"{path}, line {number}: two agent names are needed, got {line.strip()!r}")
        graph.add_edge(words[0], words[1])
    return graph
