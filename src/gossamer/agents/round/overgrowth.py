"""Flows far larger than all values, which a lying member leaves behind in a fleet without a range, and their removal.

Without a range, nothing bounds what a member claims. When the member is gone, its flow returns; but if messages were
lost, its claims also leave circular flows, which never drain. These do not change the average, but answers are sums of
flows and have their rounding errors: a circular flow of 1e20 destroys all digits. An agent whose flows have outgrown
its values therefore resets itself. It drops all its edges at once, so that its answer is its own mean. Its neighbors
notice this, and those with overgrown flows reset in the same round, so that none of these flows returns to the network.

The flows of an agent have outgrown its values if they are more than `OVERGROWN` times as large as its own mean, and
also more than `OVERGROWN` times as large as one of these:

- its answer, in two checks in a row. This is not checked if the agent's own mean is zero, because an honest fleet can
  have answers near zero, nor if the flows grew back to the same size after a reset, because then they are needed.
- the typical size of its answers and flows, when an edge is dropped. The typical size follows what the agent sees, but
  grows by at most a factor `_GROWTH` per check: at ten rounds per second, claims of 1e20 must last for three hours to
  become typical.

An unnecessary reset costs only the time until the values have mixed again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Floats

OVERGROWN = 2.0**26
"""How many times larger than an agent's values its flows must be. Honest flows are at most N/4 times as large as the
largest difference between two agents' means."""

LOOK = 64
"""Number of rounds between two checks."""

_GROWTH = 1.1
_MOST_RESETS = 8
_REGAINED = 4096
"""An agent may reset `_MOST_RESETS` times, and once more after every `_REGAINED` rounds."""

_NEEDED = 16.0
"""Factor by which flows that grew back after a reset may grow further before they count as overgrown."""


class Overgrowth:
    """Checks the flows of one agent, whose vectors have `dimension` components, and masks of these `scales`, if any.

    resets   number of resets so far
    doubted  whether the flows were far larger than the answers in the last check
    """

    def __init__(self, dimension: int, scales: Floats | None = None) -> None:
        self._masks = np.zeros(dimension) if scales is None else scales
        self.resets = 0
        self.doubted = False
        self._overgrown = False
        self._credit = float(_MOST_RESETS)
        self._usual = np.full(dimension, np.inf)  # infinite: unknown
        self._before = np.full(dimension, np.inf)  # size of the flows at the last reset
        self._needed = np.zeros(dimension)  # size of flows that grew back

    def note_drop(self, flow: Floats, own: Floats, answer: Floats) -> None:
        """Check the flow (edge registers, n) of an edge that is dropped, given the agent's own mean and answer."""
        own = np.maximum(np.abs(own), self._masks)
        size = np.minimum(self._usual, self._size(own, answer))
        self._overgrown = self._overgrown or bool(_dwarfs(np.abs(flow).max(axis=0), own, size).any())

    def look(self, flows: Floats, own: Floats, answer: Floats) -> None:
        """Check all flows, shape (edges, edge registers, n)."""
        largest, own = np.abs(flows).max(axis=(0, 1)), np.maximum(np.abs(own), self._masks)
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
        """Whether the agent must reset now."""
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
    """Return the components in which a flow is far larger than the agent's own mean and `size`."""
    most = OVERGROWN * np.maximum(np.abs(own), size)
    return (flow > most) & (most > 0.0)
