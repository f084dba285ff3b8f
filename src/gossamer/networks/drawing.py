"""Pictures of networks: with Matplotlib, and as SVG for notebooks."""

from __future__ import annotations

import html
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from gossamer import plotting
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.networks import layout

DRAWN = 20_000
"""Largest number of agents in a picture."""

SKETCHED = 400
"""Largest number of agents in a notebook's sketch."""

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Drawn:
    """Base of networks that can be drawn: they have agents, edges and a name."""

    agents: int
    name: str

    if TYPE_CHECKING:

        @property
        def edges(self) -> Integers: ...
        @property
        def labels(self) -> list[Hashable]: ...
        @property
        def positions(self) -> Floats | None: ...

    def _repr_html_(self) -> str:
        return f"{sketch(self)}<br><code>{html.escape(repr(self))}</code>"

    def plot(
        self,
        values: ArrayLike | None = None,
        ax: Axes | None = None,
        *,
        with_labels: bool = False,
        limits: tuple[float, float] | None = None,
        label: str | None = "",
    ) -> Axes:
        """Plot the network: grids as grids, cycles as circles, trees as rings, other graphs by a stable layout.

        Parameters
        ----------
        values : array_like, optional
            (N,) a number for each agent, shown as its color, for example `gs.exact(...).per_agent`.
        ax : Axes, optional
            Matplotlib axes; by default those of a new figure.
        with_labels : bool
            Whether to write the name of each agent next to it.
        limits : (float, float), optional
            The values at the two ends of the color scale; by default the smallest and the largest.
        label : str, optional
            The label of the color bar; None omits the bar.

        Returns
        -------
        Axes
            The axes.
        """
        if self.agents > DRAWN:
            raise InvalidInput(
                parameter="network",
                required=f"at most {DRAWN} agents in a picture",
                got=f"{self.agents} agents",
            )
        colors = None if values is None else _one_per_agent(values, self.agents)
        from matplotlib.collections import LineCollection

        (ax,) = plotting.axes_for([self.name], ax)
        positions = layout.fitted(positions_of(self))
        size = dot_size(positions, ax)
        width = float(np.clip(20 / np.sqrt(max(len(self.edges), 1)), 0.1, 0.9))
        lines: Any = positions[self.edges]
        ax.add_collection(LineCollection(lines, colors="0.65", linewidths=width, zorder=1))
        low, high = limits if colors is not None and limits else (None, None)
        shade = plotting.COLORS[0] if colors is None else colors
        x, y = positions.T
        dots = ax.scatter(x, y, c=shade, vmin=low, vmax=high, s=size, linewidths=0, zorder=2, clip_on=False)
        if colors is not None and label is not None:
            ax.figure.colorbar(dots, ax=ax, shrink=0.8, label=label).outline.set_visible(False)
        if with_labels:
            above: Any = {"xytext": (0, 3 + np.sqrt(size) / 2), "textcoords": "offset points", "ha": "center"}
            for position, name in zip(positions, self.labels, strict=True):
                ax.annotate(str(name), position, fontsize=7, zorder=3, **above)
        ax.set_axis_off()
        ax.set_aspect("equal", adjustable="datalim")  # a path keeps some height
        ax.margins(0.06)
        return ax


def positions_of(network: Drawn) -> Floats:
    """Return (N, 2) the positions of the agents in a picture: the network's own, or computed ones."""
    if network.positions is not None:
        return network.positions
    return layout.computed(network.agents, network.edges)


def dot_size(positions: Floats, ax: Axes) -> float:
    """Return the area of a dot, in square points, such that neighbors in the picture rarely touch."""
    extent = ax.get_window_extent()
    side = min(extent.width, extent.height) * 72 / ax.figure.dpi
    nearest = cKDTree(positions).query(positions, k=2)[0][:, 1]
    return float(np.clip(0.65 * side * np.median(nearest), 1.2, 14) ** 2)


def _one_per_agent(values: ArrayLike, agents: int) -> Floats:
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape not in ((agents,), (agents, 1)):
        raise InvalidInput(
            parameter="values",
            required=f"one number for each of the {agents} agents",
            got=f"an array of shape {np.shape(values)}",
        )
    return numbers.reshape(agents)


def sketch(network: Drawn, side: int = 150) -> str:
    """Return a small SVG picture, which takes the colors of the page; empty if there are too many agents."""
    if network.agents > SKETCHED or len(network.edges) > 10 * SKETCHED:
        return ""
    margin = 8
    places = (
        margin + (side - 2 * margin) * layout.fitted(positions_of(network)) * [1, -1] + [0, side - 2 * margin]
    ).round(1)
    radius = max(1.5, min(5.0, 40 / np.sqrt(network.agents)))
    lines = "".join(
        f"M{places[a, 0]:g} {places[a, 1]:g}L{places[b, 0]:g} {places[b, 1]:g}"
        for a, b in network.edges.tolist()
    )
    dots = "".join(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:.2g}"/>' for x, y in places)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{side}" height="{side}" role="img" '
        f'aria-label="{html.escape(network.name)}"><path d="{lines}" stroke="currentColor" stroke-opacity="0.35" '
        f'fill="none"/><g fill="#0072b2">{dots}</g></svg>'
    )
