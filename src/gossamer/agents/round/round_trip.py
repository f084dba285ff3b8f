"""Round-trip times, and the time that a round waits for a neighbor as a result."""

from __future__ import annotations

import math

from gossamer.agents.config.settings import AUTO, AgentSettings

_FIRST = 0.2
"""Seconds that a round waits for a neighbor whose round-trip time is not known yet."""

_LEAST, _MOST = 0.05, 2.0
"""Shortest and longest wait of a round in seconds; shorter waits would be missed because of process scheduling."""


class RoundTrip:
    """The round trip to one neighbor: its smoothed mean and mean deviation in seconds, as TCP keeps them (RFC 6298)."""

    def __init__(self) -> None:
        self.mean = math.nan
        self.deviation = math.nan

    def add(self, seconds: float) -> None:
        """Add a measurement."""
        if math.isnan(self.mean):
            self.mean, self.deviation = seconds, seconds / 2
        else:
            self.deviation += (abs(seconds - self.mean) - self.deviation) / 4
            self.mean += (seconds - self.mean) / 8


def timeout_of(settings: AgentSettings, trip: RoundTrip | None = None) -> float:
    """Return the seconds that a round waits for a neighbor: `settings.timeout`, or a time based on its round trips.

    This is the mean plus four deviations, as in TCP, but at most twice the pace or twice the mean, whichever is longer.
    A message that takes much longer than the others is lost for its round, so that the fleet keeps its pace.
    """
    if settings.timeout != AUTO:
        return float(settings.timeout)
    most = min(_MOST, settings.death / 2)
    if trip is None or math.isnan(trip.mean):
        return min(_FIRST, most)
    wanted = max(trip.mean + 4 * trip.deviation, _LEAST)
    if settings.pace is not None:
        wanted = min(wanted, max(2 * settings.pace, 2 * trip.mean, _LEAST))
    return min(wanted, most)
