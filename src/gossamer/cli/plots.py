"""Plot a network."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from gossamer.networks import Network
from gossamer.plotting import STYLE


def draw_network(network: Network, path: Path) -> None:
    """Draw the graph, laid out according to its topology."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5, 5), layout="constrained")
        axes = figure.subplots()
        network.plot(ax=axes)
        axes.set_title(network.name, loc="left", parse_math=False)
        figure.savefig(path)
