"""What a simulation with faults returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gossamer import plotting
from gossamer.arrays import Booleans, Floats
from gossamer.engines.results import TrialResult


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FaultySimulation(TrialResult[int, float]):
    """Trials in which messages get lost and agents crash; the errors are those of the agents alive at the end.

    alive   (N,) who is alive at the end; the estimates and errors of the others are NaN
    target  (n,) the average of the means of the agents alive, against which their errors are measured
    parts   into how many pieces the crashes cut those alive; agents of two pieces cannot reach each other
    """

    alive: Booleans
    target: Floats
    parts: int

    def notes(self, which: int) -> Iterator[str]:
        yield from super().notes(which)
        if self.agents < len(self.alive):
            yield f"{self.agents} of {len(self.alive)} agents alive; errors are against the average of their means"
        if self.parts > 1:
            yield f"the crashes cut them into {self.parts} parts, which cannot reach each other"

    def curves(self) -> list[plotting.Curve]:
        return [curve for curve in super().curves() if curve.label != "network limit"]
