"""Every gallery script starts with the look of the package's own plots."""

from __future__ import annotations

from typing import Any


def reset(_conf: Any, _name: str) -> None:
    import matplotlib as mpl

    from gossamer import plotting

    mpl.rcParams.update(plotting.STYLE)
    mpl.rcParams.update(
        {
            "figure.figsize": (6.0, 4.0),
            "figure.dpi": 110,
            "savefig.dpi": 110,
            "savefig.bbox": "tight",
            "axes.prop_cycle": mpl.cycler(color=plotting.COLORS),
            "axes.axisbelow": True,
        }
    )
