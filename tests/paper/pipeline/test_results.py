"""Rows by column."""

from __future__ import annotations

import pytest

from gossamer.paper.pipeline.results import Results


def test_results_select_sort_and_read():
    results = Results(
        [{"graph": g, "rounds": t, "value": 10 * i + t} for i, g in enumerate("ba") for t in (2, 1)]
    )
    assert results.where(graph="a").sort("rounds").column("value").tolist() == [11, 12]
    assert results.grid("graph", "rounds").tolist() == [[11, 12], [1, 2]]
    assert results.where(rounds=(1,)).distinct("graph") == ["b", "a"]
    with pytest.raises(LookupError, match="2 rows"):
        results.value(graph="a")
