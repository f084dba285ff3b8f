"""Plot a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.figure import Figure

from gossamer.errors import OutputError
from gossamer.networks import Network
from gossamer.plotting import COLORS, STYLE


def draw_network(network: Network, path: Path) -> None:
    """Draw the graph, laid out according to its topology."""
    if network.agents > 2000:
        raise OutputError(f"a plot must have at most 2000 agents to show anything, got {network.agents}")
    graph = nx.Graph([tuple(edge) for edge in network.edges.tolist()])
    places = layout(network)
    size = float(np.clip(2400 / network.agents, 8, 200))
    width = min(0.9, 20 / np.sqrt(len(network.edges)))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5, 5), layout="constrained")
        axes = figure.subplots()
        nx.draw_networkx_edges(graph, places, ax=axes, edge_color="0.6", width=width)
        nx.draw_networkx_nodes(graph, places, ax=axes, node_color=COLORS[0], node_size=size)
        axes.set_title(network.name, loc="left", parse_math=False)
        axes.set_axis_off()
        axes.set_aspect("equal", adjustable="datalim")  # a path keeps some height
        figure.savefig(path)


def layout(network: Network) -> dict[int, Any]:
    """Return positions for the agents: their own if the network has them, otherwise a layout that suits its
    topology."""
    if network.positions is not None:
        return dict(enumerate(network.positions))
    # Networks by name are called kind:size; a network from a file has the name of the file.
    kind, colon, size = network.name.partition(":")
    kind = kind if colon else ""
    graph = nx.Graph([tuple(edge) for edge in network.edges.tolist()])
    if kind == "grid":
        cols = int(size.split("x")[1])
        return {i: (i % cols, -(i // cols)) for i in range(network.agents)}
    if kind == "path" and network.agents <= 30:
        return {i: (i, 0) for i in range(network.agents)}
    if kind == "path":  # an open circle: more agents on a line would touch
        return dict(nx.circular_layout(range(network.agents + network.agents // 10)))
    if kind in ("cycle", "complete"):
        return dict(nx.circular_layout(sorted(graph)))
    if kind == "star":
        return {0: np.zeros(2), **nx.circular_layout(range(1, network.agents))}
    return dict(nx.kamada_kawai_layout(graph) if network.agents <= 300 else nx.spring_layout(graph, seed=0))
