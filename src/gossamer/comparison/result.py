"""The result of `gs.compare`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gossamer import checks, plotting
from gossamer.comparison.points import COLUMNS, Row
from gossamer.results import Record, Result


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """One row per network, streams, method and number of rounds.

    Attributes
    ----------
    rows : list of tuple
        The values of every row, in the order of `points.COLUMNS`; `records` returns them as dictionaries.
    partial : bool
        Whether the comparison was interrupted, in which case it contains only the finished points.
    remarks : list of str
        Remarks on rows that come from a store.

    See Also
    --------
    compare : Computes it.
    Plans : The result of planning several methods.

    Examples
    --------
    >>> comparison = gs.compare("dsg", "cycle:6", gs.Gaussian(np.zeros(6)), rounds=[10, 100])
    >>> comparison.column("rounds"), len(comparison.to_frame())
    ([10, 100], 2)
    """

    rows: list[Row]
    partial: bool = False
    remarks: list[str] = field(default_factory=list, compare=False)

    shown = ("network", "method", "rounds", "total_error", "stderr", "over_limit", "note")

    @property
    def title(self) -> str:
        methods, networks = (len(dict.fromkeys(self.column(name))) for name in ("method", "network"))
        return f"{methods} method{'s'[: methods != 1]} on {networks} network{'s'[: networks != 1]}"

    def column(self, name: str) -> list[Any]:
        """Return the values of one column, in the order of the rows."""
        index = list(COLUMNS).index(checks.choice("name", name, COLUMNS))
        return [row[index] for row in self.rows]

    def records(self) -> list[Record]:
        return [dict(zip(COLUMNS, row, strict=True)) for row in self.rows]

    @property
    def notes(self) -> list[str]:
        """Return the notes for each method on each network: "sda on path:100: ...", or shorter for a single network."""
        said = dict.fromkeys(zip(*map(self.column, ("network", "method", "note")), strict=True))
        one = len({network for network, _, _ in said}) == 1
        by_method = [
            f"{method}: {note}" if one else f"{method} on {network}: {note}"
            for network, method, note in said
            if note
        ]
        return [*by_method, *self.remarks]

    def plot(self, ax: plotting.Panels | None = None) -> plotting.Panels:
        """Plot errors against rounds with both limits, one panel per network (`ax` then has one axes for each).

        Lines are exact, points with 95% intervals are simulated.
        """
        networks = list(dict.fromkeys(self.column("network")))
        axes = plotting.axes_for(networks, ax)
        for panel, name in zip(axes, networks, strict=True):
            plotting.draw_curves(panel, _curves([row for row in self.records() if row["network"] == name]))
        plotting.legend(axes)
        return axes[0] if len(axes) == 1 else axes


def _curves(rows: list[Record]) -> list[plotting.Curve]:
    """Return a curve for each method, or for each method with each kind of streams."""
    curves = []
    several = len({row["streams"] for row in rows}) > 1
    for name, streams in dict.fromkeys((row["method"], row["streams"]) for row in rows):
        method = f"{name}, {streams}" if several else str(name)
        mine = [
            row
            for row in rows
            if (row["method"], row["streams"]) == (name, streams) and row["total_error"] is not None
        ]
        exact = [row for row in mine if row["bias"] is not None]
        tried = [row for row in mine if row["simulated_error"] is not None]
        if exact:
            curves.append(_curve(method, exact, "total_error"))
        if tried:
            curves.append(_curve(method, tried, "simulated_error", simulated=True))
    # Limits of several kinds of streams would be several lines in one gray.
    shared = {} if several else {row["rounds"]: row for row in rows}
    for limit in ("centralized_limit", "network_limit"):
        known = [row for _, row in sorted(shared.items()) if row[limit] is not None]
        if known:
            curves.append(_curve(limit.replace("_", " "), known, limit, limit=True))
    return curves


def _curve(
    label: str, rows: list[Record], error: str, *, simulated: bool = False, limit: bool = False
) -> plotting.Curve:
    x, y = ([float(row[name]) for row in rows] for name in ("rounds", error))
    half = [float(plotting.half_width(row["stderr"], row["trials"])) for row in rows] if simulated else None
    return plotting.Curve(label, x, y, half, limit)
