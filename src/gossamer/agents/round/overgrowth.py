"""Flows that dwarf all values: what a lie leaves behind in a fleet without a range, and how agents get rid of it.

Without a range nothing bounds what a member claims. When it is gone its flow returns, but with lost messages a lie
also leaves currents in circles, which nothing drains. They do not move the average; but answers are sums of flows, with
their rounding errors, and a current of 1e20 costs all digits. So an agent whose flows have outgrown its values begins
anew: it drops all its edges at once, so that its answer is its own mean. Its neighbors hear that, and those with such
flows do the same in that round, so that none of these flows returns into the network.

Flows have outgrown the values of an agent if they are more than `OVERGROWN` times as large as both its own mean and

- its answer, at two looks in a row. An agent whose own mean is zero does not judge this, because answers near zero may
  be those of an honest fleet. Nor does one whose flows were as large again after it had begun anew: they are needed;
- or, when an edge is dropped, the usual size of its answers and flows. That size follows what the agent sees, but grows
  by `_GROWTH` per look at most: a lie of 1e20 must last for three hours, at ten rounds per second, to become usual.

To begin anew in vain costs a while of mixing, and nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Floats

OVERGROWN = 2.0**26
"""How many times larger than an agent's values its flows must be. Honest flows are at most N/4 times as large as the
largest difference between two agents' means."""

LOOK = 64
"""Rounds between two looks."""

_GROWTH = 1.1
_MOST_RESETS = 8
_REGAINED = 4096
"""An agent may begin anew so many times; after so many rounds, once more."""

_NEEDED = 16.0
"""How many times larger than flows that grew back they may become."""


class Overgrowth:
    """Watches the flows of one agent with vectors of `dimension` components.

    resets   how often flows had outgrown the values
    doubted  whether flows dwarf the answers now
    """

    def __init__(self, dimension: int) -> None:
        self.resets = 0
        self.doubted = False
        self._overgrown = False
        self._credit = float(_MOST_RESETS)
        self._usual = np.full(dimension, np.inf)  # infinite: unknown
        self._before = np.full(dimension, np.inf)  # size of the flows when the agent began anew last
        self._needed = np.zeros(dimension)  # size of flows that grew back

    def note_drop(self, flow: Floats, own: Floats, answer: Floats) -> None:
        """Judge the flow (edge registers, n) of an edge that is dropped, of an agent with this mean and answer."""
        size = np.minimum(self._usual, self._size(own, answer))
        self._overgrown = self._overgrown or bool(_dwarfs(np.abs(flow).max(axis=0), own, size).any())

    def look(self, flows: Floats, own: Floats, answer: Floats) -> None:
        """Judge all flows, shape (edges, edge registers, n)."""
        largest = np.abs(flows).max(axis=(0, 1))
        dwarfs = _dwarfs(largest, own, self._size(own, answer))
        grown = dwarfs & (largest > self._before / 2)
        self._needed = np.where(grown, _NEEDED * largest, self._needed)
        doubted = bool((dwarfs & (largest > self._needed)).any())
        self._overgrown = self._overgrown or (doubted and self.doubted)
        self.doubted = doubted
        known = np.where(self._usual > 0.0, _GROWTH * self._usual, np.inf)
        self._usual = np.minimum(known, np.maximum(np.abs(answer), largest))
        self._credit = min(self._credit + LOOK / _REGAINED, _MOST_RESETS)

    def begins_anew(self, flows: Floats) -> bool:
        """Whether the agent begins anew now."""
        overgrown, self._overgrown = self._overgrown, False
        if not overgrown or self._credit < 1.0:
            return False
        self._credit -= 1.0
        self.resets += 1
        self._before = np.abs(flows).max(axis=(0, 1))
        self.doubted = False
        return True

    @staticmethod
    def _size(own: Floats, answer: Floats) -> Floats:
        size: Floats = np.where(own == 0.0, np.inf, np.abs(answer))
        return size


def _dwarfs(flow: Floats, own: Floats, size: Floats) -> NDArray[np.bool]:
    """Where a flow dwarfs both the agent's own mean and this size."""
    most = OVERGROWN * np.maximum(np.abs(own), size)
    return (flow > most) & (most > 0.0)
