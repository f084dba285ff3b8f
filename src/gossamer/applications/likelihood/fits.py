"""What fitting data at rest returns: estimates, errors, rounds and bytes of Newton's method and of its rivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer import plotting
from gossamer.arrays import Floats, Integers
from gossamer.networks import Network
from gossamer.results import Record, Result

_ERROR = r"$\max_i\|\hat\theta_i-\theta^*\|_\infty$"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(Result):
    """How a method came to its fit: one entry per step, or per round that was looked at.

    method     what it is called
    estimates  (N, p) every agent's parameters in the end, in the order of `names`
    rounds     exchanges with the neighbors so far
    bytes      sent so far by all agents together, at 8 bytes per number
    error      the largest difference, over agents and parameters, from the fit of all rows in one place
    scale      (N,) the scale of a `ScaledHuber`
    note       what a reader should know
    """

    method: str
    network: Network
    names: Sequence[str]
    estimates: Floats
    rounds: Integers
    bytes: Integers
    error: Floats
    scale: Floats | None = None
    note: str = ""

    shown = ("method", "rounds", "bytes", "error", "note")

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.method} on {self.network.name}"

    @property
    def disagreement(self) -> float:
        """The largest difference between two agents' parameters."""
        return float(np.ptp(self.estimates, axis=0).max())

    def reached(self, error: float) -> tuple[int, int] | None:
        """Rounds and bytes after which the error is at most `error`, and stays so; None: never."""
        later = np.flatnonzero(~(self.error <= error))
        first = int(later[-1]) + 1 if len(later) else 0
        return None if first == len(self.error) else (int(self.rounds[first]), int(self.bytes[first]))

    def records(self) -> list[Record]:
        rows = zip(self.rounds.tolist(), self.bytes.tolist(), self.error.tolist(), strict=True)
        return [
            {
                "network": self.network.name,
                "method": self.method,
                "rounds": rounds,
                "bytes": sent,
                "error": error if np.isfinite(error) else None,
                "note": self.note,
            }
            for rounds, sent, error in rows
        ]

    def plot(self, ax: Any = None) -> Any:
        """The error against rounds."""
        return plotting.draw_errors(ax, [self.curve()], self.title, _ERROR)

    def curve(self, against: str = "rounds") -> plotting.Curve:
        """The error against "rounds" or "bytes"."""
        used = getattr(self, against)
        drawn = (used > 0) & (self.error > 0) & np.isfinite(self.error)
        return plotting.Curve(self.method, used[drawn], self.error[drawn])


@dataclass(frozen=True, eq=False, repr=False)
class Fits(Result):
    """Several methods on the same rows: what each reached, and what it had sent when its error was `target`."""

    fits: tuple[Fit, ...]
    target: float = 1e-6

    shown = ("method", "error", "rounds", "rounds_to_target", "bytes_to_target", "note")

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{len(self.fits)} methods on {self.fits[0].network.name}"

    def __getitem__(self, method: str) -> Fit:
        return {fit.method: fit for fit in self.fits}[method]

    def records(self) -> list[Record]:
        rows = []
        for fit in self.fits:
            last, reached = fit.records()[-1], fit.reached(self.target)
            costs = dict(zip(("rounds_to_target", "bytes_to_target"), reached or (None, None), strict=True))
            rows.append(last | costs | {"note": last.pop("note")})
        return rows

    def plot(self, ax: Any = None) -> Any:
        """The error against rounds, and against bytes (then `ax` is two axes)."""
        axes = plotting.axes_for(["by rounds", "by bytes"], ax)
        for panel, against, label in zip(
            axes, ("rounds", "bytes"), ("rounds", "bytes, all agents"), strict=True
        ):
            curves = [curve for fit in self.fits if len((curve := fit.curve(against)).x)]
            plotting.draw_curves(panel, curves, _ERROR, label)
        plotting.legend(axes)
        return axes
