"""Pictures of networks: with Matplotlib, and as SVG for notebooks."""

from __future__ import annotations

import html
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from gossamer import checks, plotting
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.networks import layout
from gossamer.results import html_table

DRAWN = 20_000
"""Largest number of agents in a picture."""

SKETCHED = 400
"""Largest number of agents in a notebook's sketch."""

INK = 0.5
"""Largest share of a picture that links cover; if there are more links, they become lighter."""

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection


class Drawn:
    """Base of networks that can be drawn: they have agents, a name, labels, positions if they are known, and links."""

    agents: int
    name: str

    if TYPE_CHECKING:

        @property
        def edges(self) -> Integers: ...
        @property
        def degrees(self) -> Integers: ...
        @property
        def labels(self) -> Sequence[Hashable]: ...
        @property
        def positions(self) -> Floats | None: ...

    def _drawn(self) -> tuple[Integers, Integers]:
        """Return (E, 2) the pairs of agents that lines join, and (K, 2) sender and receiver of one-way links."""
        return self.edges, np.empty((0, 2), dtype=np.int64)

    def _degrees(self) -> Integers:
        """Return (N,) how many lines end at each agent."""
        return self.degrees

    def _repr_html_(self) -> str:
        return f"{sketch(self)}<code>{html.escape(repr(self))}</code>"

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

        One-way links have an arrowhead. A changing network is drawn with the links of its first round.

        Parameters
        ----------
        values : array_like, optional
            (N,) a number for each agent, shown as its color, for example `gs.exact(...).per_agent`. Agents whose number
            is missing (NaN, masked) or infinite are drawn as empty circles.
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
        from matplotlib import colormaps, patheffects, rcParams
        from matplotlib.collections import PolyCollection

        (ax,) = plotting.axes_for([self.name], ax)
        positions = layout.fitted(positions_of(self))
        edges, one_way = self._drawn()
        size = dot_size(positions, ax)
        paper: Any = ax.figure.get_facecolor()
        ax.add_collection(drawn_links(positions, edges, ax))
        low, high = limits if colors is not None and limits else (None, None)
        shade = plotting.COLORS[0] if colors is None else colors
        x, y = positions.T
        dots = ax.scatter(
            x,
            y,
            c=shade,
            cmap=None if colors is None else colormaps[rcParams["image.cmap"]].with_extremes(bad=paper),
            plotnonfinite=True,
            vmin=low,
            vmax=high,
            s=size,
            edgecolors="0.5",
            linewidths=outline(size),
            zorder=2,
            clip_on=False,
        )
        if len(one_way):
            heads: Any = _heads(positions, one_way, 0.5 * np.sqrt(size) / _side(ax))
            ax.add_collection(PolyCollection(heads, facecolors="0.5", linewidths=0, zorder=1.5))
        if colors is not None and label is not None:
            ax.figure.colorbar(dots, ax=ax, shrink=0.8, label=label).outline.set_visible(False)
        if with_labels:
            names = [str(name) for name in self.labels]
            # Small enough for names to stand next to each other, if they can.
            font = float(np.clip(2 * np.sqrt(size) / max(map(len, names)), 2, 7))
            above: Any = {
                "xytext": (0, 0.4 * font + np.sqrt(size) / 2),
                "textcoords": "offset points",
                "ha": "center",
            }
            halo = [patheffects.withStroke(linewidth=0.45 * font, foreground=paper)]
            for position, name in zip(positions, names, strict=True):
                ax.annotate(
                    name, position, fontsize=font, zorder=3, path_effects=halo, parse_math=False, **above
                )
        ax.set_axis_off()
        ax.set_aspect("equal", adjustable="datalim")  # a path keeps some height
        ax.margins(0.06)
        return ax


def positions_of(network: Drawn) -> Floats:
    """Return (N, 2) the positions of the agents in a picture: the network's own, or computed ones."""
    if network.positions is not None:
        return network.positions
    return layout.computed(network.agents, network._drawn()[0])


def dot_size(positions: Floats, ax: Axes) -> float:
    """Return the area of a dot, in square points, such that neighbors in the picture rarely touch."""
    near = cKDTree(positions).query(positions, k=min(3, len(positions)))[0][:, -1]
    return float(np.clip(0.65 * _side(ax) * np.median(near), 1.2, min(14, _side(ax) / 15)) ** 2)


def outline(size: float) -> float:
    """Return the width of the outline of a dot of this size, in points; it shows dots in the color of the paper."""
    return float(np.clip(0.06 * np.sqrt(size), 0.15, 0.6))


def drawn_links(positions: Floats, edges: Integers, ax: Axes) -> LineCollection:
    """Return gray lines, the lighter the more there are, so that dots stay visible on top of them."""
    from matplotlib.collections import LineCollection

    ends: Any = positions[edges]
    width = float(np.clip(20 / np.sqrt(max(len(edges), 1)), 0.1, 0.9))
    ink = width / _side(ax) * float(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1).sum())
    alpha = float(np.clip(INK / max(ink, 1e-9), 0.02, 1))
    return LineCollection(ends, colors="0.65", linewidths=width, alpha=alpha, zorder=1)


def _side(ax: Axes) -> float:
    """Return the shorter side of the axes in points."""
    extent = ax.get_window_extent()
    return min(extent.width, extent.height) * 72 / ax.figure.dpi


def _heads(positions: Floats, links: Integers, size: float) -> Floats:
    """Return (K, 3, 2) triangles in the middle of links that point from senders to receivers."""
    start, end = positions[links[:, 0]], positions[links[:, 1]]
    along = (end - start) / np.maximum(np.linalg.norm(end - start, axis=1, keepdims=True), 1e-9) * size
    across = along[:, ::-1] * [-0.4, 0.4]
    tip = (start + end + along) / 2
    return np.stack([tip, tip - along + across, tip - along - across], axis=1)


def _one_per_agent(values: ArrayLike, agents: int) -> Floats:
    got = checks.brief(values)
    numbers = np.empty(0)
    try:
        given: Any = np.ma.asarray(values)
        if given.dtype.kind in "biufO":
            got, numbers = f"an array of shape {given.shape}", given.astype(float).filled(np.nan)
    except (TypeError, ValueError, OverflowError):
        pass
    if numbers.shape not in ((agents,), (agents, 1)):
        raise InvalidInput(
            parameter="values",
            required=f"one number for each of the {agents} agents",
            got=got,
        )
    return numbers.reshape(agents)


def sketch(network: Drawn, side: int = 150) -> str:
    """Return a small SVG picture, which takes the colors of the page; a table if there are too many agents or links."""
    if network.agents > SKETCHED:
        return _table(network)
    edges, one_way = network._drawn()
    if len(edges) > 10 * SKETCHED:
        return _table(network)
    margin = 8
    places = (
        margin + (side - 2 * margin) * layout.fitted(positions_of(network)) * [1, -1] + [0, side - 2 * margin]
    )
    radius = max(1.5, min(5.0, 40 / np.sqrt(network.agents)))
    lines = "".join(f"M{a[0]:g} {a[1]:g}L{b[0]:g} {b[1]:g}" for a, b in places.round(1)[edges].tolist())
    heads = "".join(
        "M" + "L".join(f"{x:g} {y:g}" for x, y in head) + "Z"
        for head in _heads(places, one_way, 1.2 * radius).round(1).tolist()
    )
    dots = "".join(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:.2g}"/>' for x, y in places.round(1))
    length = float(np.linalg.norm(np.diff(places[edges], axis=1), axis=2).sum())
    opacity = np.clip(INK * side**2 / max(length, 1e-9), 0.03, 0.35)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{side}" height="{side}" role="img" '
        f'aria-label="{html.escape(network.name)}"><path d="{lines}" stroke="currentColor" '
        f'stroke-opacity="{opacity:.2g}" fill="none"/><path d="{heads}" fill="currentColor" fill-opacity="0.6"/>'
        f'<g fill="#0072b2">{dots}</g></svg><br>'
    )


def _table(network: Drawn) -> str:
    degrees = network._degrees()
    row = f"{len(degrees):,}", f"{degrees.min()} to {degrees.max()}", float(degrees.mean())
    return html_table(network.name, ("agents", "links of an agent", "on average"), [row])
