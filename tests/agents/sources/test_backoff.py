"""How long to wait before starting again what has failed."""

from __future__ import annotations

from gossamer.agents.sources.backoff import Backoff


def test_delays_grow_to_a_minute_and_start_over_after_a_good_run() -> None:
    backoff = Backoff()
    assert [backoff.after(0.5) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.after(59.9) == 60
    assert [backoff.after(seconds) for seconds in (60, 0, 0)] == [1, 2, 4]
