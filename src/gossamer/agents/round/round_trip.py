"""Round-trip times, and how long a round waits for a neighbor as a result."""

from __future__ import annotations

import math

from gossamer.agents.config.settings import AUTO, AgentSettings

_FIRST = 0.2
"""Seconds that a round waits for a neighbor whose round trip is not known yet."""

_LEAST, _MOST = 0.05, 2.0
"""Seconds that a round waits at least, because processes are not scheduled at once, and at most."""


class RoundTrip:
    """The round trip to one neighbor: its smoothed mean and mean deviation in seconds, as TCP keeps them (RFC 6298)."""

    def __init__(self) -> None:
        self.mean = math.nan
        self.deviation = math.nan

    def add(self, seconds: float) -> None:
        """Take in one measurement."""
        if math.isnan(self.mean):
            self.mean, self.deviation = seconds, seconds / 2
        else:
            self.deviation += (abs(seconds - self.mean) - self.deviation) / 4
            self.mean += (seconds - self.mean) / 8


def timeout_of(settings: AgentSettings, trip: RoundTrip | None = None) -> float:
    """Seconds that a round waits for a neighbor: `settings.timeout`, or what its round trip asks for.

    That is the mean and four deviations, as in TCP, but at most twice the pace or twice the mean, whichever is longer:
    a message that takes much longer than others is lost for its round, and the fleet keeps its pace.
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
