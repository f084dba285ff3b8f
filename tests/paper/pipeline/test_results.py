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


def test_unknown_column_is_an_error():
    with pytest.raises(LookupError, match=r"unknown columns \['color'\]; the columns are experiment, graph"):
        Results([{"value": 1.0, "color": 1}])
