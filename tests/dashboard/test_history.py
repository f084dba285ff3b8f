"""What is kept over time is bounded, and older rows are coarser."""

from __future__ import annotations

import numpy as np

from gossamer.dashboard.history import MERGED, ROWS, TIERS, History


def filled(rows: int) -> History:
    history = History()
    for k in range(rows):
        history.add(np.array([float(k), 1.0]))
    return history


def test_the_newest_rows_are_kept_as_they_are() -> None:
    rows = filled(1000).rows()
    assert rows[-ROWS + MERGED :, 0].tolist() == list(range(1000 - ROWS + MERGED, 1000))


def test_older_rows_are_means_in_order_and_none_is_lost() -> None:
    rows = filled(1000).rows()
    steps = np.diff(rows[:, 0])
    assert (steps > 0).all()
    assert steps[0] > steps[-1] == 1.0
    assert rows[0, 0] < 40  # the start is still there
    assert (rows[:, 1] == 1.0).all()


def test_however_long_it_runs_it_stays_small() -> None:
    """All tiers are full after days, ROWS * MERGED**(TIERS - 1) rows; the first ones show the same."""
    sizes = [len(filled(rows)) for rows in (100, 1000, 10_000)]
    assert max(sizes) <= ROWS * TIERS
    assert sizes[2] - sizes[1] <= 2 * ROWS  # ten times the rows fill at most two more tiers


def test_the_last_tier_forgets() -> None:
    history = History()
    history._tiers = history._tiers[:2]  # or this would take a million rows
    for k in range(5000):
        history.add(np.array([float(k)]))
    assert len(history) <= 2 * ROWS
    assert history.rows()[0, 0] > 4000


def test_means_are_of_what_is_known() -> None:
    history = History()
    for k in range(ROWS + 1):
        history.add(np.array([float(k) if k % 2 else np.nan, np.nan]))
    first = history.rows()[0]
    assert first[0] == 2.0  # of 1 and 3
    assert np.isnan(first[1])


def test_columns_follow_those_who_come_and_go() -> None:
    history = History()
    for k in range(ROWS + 10):
        history.add(np.array([[10.0 + k, 20.0, 30.0]]))
    history.rearrange(np.array([2, -1, 0]))
    rows = history.rows()
    assert (rows[:, 0, 0] == 30.0).all()
    assert np.isnan(rows[:, 0, 1]).all()
    assert rows[-1, 0, 2] == 10.0 + ROWS + 9
