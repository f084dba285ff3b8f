"""Plots of the command line: errors against rounds, costs against targets, a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.figure import Figure

from gossamer.errors import OutputError
from gossamer.networks import Network
from gossamer.plotting import BASE, COLORS, DASHES, GRAY, MARKERS

STYLE: Any = {**BASE, "font.size": 10, "grid.alpha": 0.25, "svg.fonttype": "none", "figure.dpi": 150}


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
        for k, (name, (x, y)) in enumerate(curves.items()):
            every = max(1, len(x) // 8)
            axes.plot(x, y, markevery=every, markersize=5, label=name, **_look(k))
        if np.any(np.isfinite(limits)):
            axes.plot(horizons, limits, color=GRAY, linewidth=1, linestyle=":", label="centralized limit")
        axes.set(xscale="log" if len(horizons) > 1 else "linear", yscale="log")
        axes.set(xlabel="rounds $T$", ylabel=quantity)
        axes.set_title(title, loc="left")
        figure.legend(loc="outside right upper")
        _save(figure, path)


def draw_costs(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Rounds needed against the target, one panel per network."""
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
                axes.plot(x, y, label=method if axes is panels[0] else None, **_look(k))
            axes.set(xscale="log", yscale="log", xlabel="target error")
            axes.set_title(name, loc="left")
        panels[0].set_ylabel("rounds needed")
        figure.legend(loc="outside right upper")
        _save(figure, path)


def draw_network(network: Network, path: Path) -> None:
    """The graph itself, laid out by its own shape."""
    if network.agents > 2000:
        raise OutputError(f"a plot must have at most 2000 agents to show anything, got {network.agents}")
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
    """Positions for the agents: their own, if the network has them; otherwise what suits its topology."""
    if network.positions is not None:
        return dict(enumerate(network.positions))
    # Networks by name are called kind:size; one from a file has the name of the file, whatever it holds.
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


def _look(k: int) -> dict[str, Any]:
    """How the k-th line is drawn, so that neighbors differ in color, marker and dashes."""
    return {
        "color": COLORS[k % len(COLORS)],
        "marker": MARKERS[k % len(MARKERS)],
        "linestyle": DASHES[k % len(DASHES)],
    }


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path)
