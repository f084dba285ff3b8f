"""Pictures of the command line: errors against rounds, costs against targets, a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.figure import Figure

from gossamer.errors import OutputError
from gossamer.networks import Network

# Okabe and Ito's colors, which color-blind readers tell apart; markers and dashes for print in gray.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = (
    "o",
    "s",
    "^",
    "D",
    "v",
    "P",
    "X",
    "*",
)  # one more than colors: the eighth line differs from the first
DASHES = ("-", "--", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), ":", "-")

STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "figure.dpi": 150,
}


def draw_errors(
    curves: Mapping[str, Any],
    horizons: Sequence[int],
    limits: Sequence[float],
    title: str,
    path: Path,
    quantity: str = r"$E\,\sum_i\|\hat\theta_i-\bar\mu\|^2$",
) -> None:
    """Errors against rounds on log scales, with the centralized limit."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.subplots()
        looks = zip(cycle(COLORS), cycle(MARKERS), cycle(DASHES), strict=False)
        for (name, (x, y)), (color, marker, dash) in zip(curves.items(), looks, strict=False):
            every = max(1, len(x) // 8)
            axes.plot(
                x, y, color=color, linestyle=dash, marker=marker, markevery=every, markersize=5, label=name
            )
        if np.any(np.isfinite(limits)):
            axes.plot(horizons, limits, color="0.4", linewidth=1, linestyle=":", label="centralized limit")
        axes.set(xscale="log" if len(horizons) > 1 else "linear", yscale="log")
        axes.set(xlabel="rounds $T$", ylabel=quantity)
        axes.set_title(title, loc="left")
        figure.legend(loc="outside right upper")
        _save(figure, path)


def draw_costs(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Rounds needed against the target, a panel per network."""
    networks = list(dict.fromkeys(record["network"] for record in records))
    methods = list(dict.fromkeys(record["method"] for record in records))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.4 * len(networks) + 2.2, 3.6), layout="constrained")
        panels = figure.subplots(1, len(networks), squeeze=False, sharey=True)[0]
        for axes, name in zip(panels, networks, strict=True):
            for k, method in enumerate(methods):
                points = [
                    (r["target"], r["rounds"])
                    for r in records
                    if (r["network"], r["method"]) == (name, method)
                ]
                x, y = np.array([(a, np.nan if b is None else b) for a, b in sorted(points)], dtype=float).T
                look = {"color": COLORS[k % 7], "marker": MARKERS[k % 7], "linestyle": DASHES[k % 7]}
                axes.plot(x, y, label=method if axes is panels[0] else None, **look)
            axes.set(xscale="log", yscale="log", xlabel="target error")
            axes.set_title(name, loc="left")
        panels[0].set_ylabel("rounds needed")
        figure.legend(loc="outside right upper")
        _save(figure, path)


def draw_network(network: Network, path: Path) -> None:
    """The graph itself, laid out by its own shape."""
    if network.agents > 2000:
        raise OutputError(f"a picture of {network.agents} agents shows nothing; draw at most 2000")
    graph = nx.Graph([tuple(edge) for edge in network.edges.tolist()])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5, 5), layout="constrained")
        axes = figure.subplots()
        nx.draw_networkx_edges(graph, layout(network), ax=axes, edge_color="0.6", width=0.9)
        nx.draw_networkx_nodes(
            graph, layout(network), ax=axes, node_color=COLORS[0], node_size=max(8, 2400 / network.agents)
        )
        axes.set_title(network.name, loc="left")
        axes.set_axis_off()
        axes.set_aspect("equal")
        _save(figure, path)


def layout(network: Network) -> dict[int, Any]:
    """Places for the agents: their own, if the network has them; otherwise what suits its kind."""
    if network.positions is not None:
        return dict(enumerate(network.positions))
    # Networks of ours are called kind:size; one from a file is called like the file, whatever it holds.
    kind, colon, size = network.name.partition(":")
    kind = kind if colon else ""
    graph = nx.Graph([tuple(edge) for edge in network.edges.tolist()])
    if kind == "grid":
        cols = int(size.split("x")[1])
        return {i: (i % cols, -(i // cols)) for i in range(network.agents)}
    if kind == "path":
        return {i: (i, 0) for i in range(network.agents)}
    if kind in ("cycle", "complete"):
        return dict(nx.circular_layout(sorted(graph)))
    if kind == "star":
        return {0: np.zeros(2), **nx.circular_layout(range(1, network.agents))}
    return dict(nx.kamada_kawai_layout(graph) if network.agents <= 300 else nx.spring_layout(graph, seed=0))


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path)
