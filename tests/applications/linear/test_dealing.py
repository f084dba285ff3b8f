"""Columns that would be misread are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from gossamer.applications.linear.dealing import deal
from gossamer.errors import InvalidInput

Y = np.arange(6.0)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_dates_are_not_numbers(frame):
    days = np.arange("2024-01-01", "2024-01-07", dtype="datetime64[D]").astype("datetime64[ns]")
    with pytest.raises(InvalidInput, match="column 'day' must hold numbers, got dates"):
        deal(frame({"day": days, "a": Y}), Y, 2, "contiguous", False, 0)
    with pytest.raises(InvalidInput, match="column 'age' must hold numbers, got durations"):
        deal(frame({"age": days - days[0]}), Y, 2, "contiguous", False, 0)
    with pytest.raises(InvalidInput, match="column 'y' must hold numbers, got dates"):
        deal(frame({"a": Y}), days, 2, "contiguous", False, 0)


def test_dates_in_an_array_are_not_numbers():
    days = np.arange("2024-01-01", "2024-01-07", dtype="datetime64[D]")
    with pytest.raises(InvalidInput, match="column 'x0' must hold numbers, got dates"):
        deal(days[:, None], Y, 2, "contiguous", False, 0)


def test_two_columns_of_one_name():
    twice = pd.DataFrame(np.ones((6, 2)), columns=["a", "a"])
    with pytest.raises(InvalidInput, match="'a' is the name of 2 columns; rename or drop"):
        deal(twice, Y, 2, "contiguous", False, 0)
    with pytest.raises(InvalidInput, match="'1' is the name of 2 columns"):
        deal({1: Y, "1": Y}, Y, 2, "contiguous", False, 0)


def test_a_column_called_intercept():
    with pytest.raises(InvalidInput, match=r"a column is called 'intercept'.*intercept=False"):
        deal({"intercept": Y}, Y, 2, "contiguous", True, 0)
    assert deal({"intercept": Y}, Y, 2, "contiguous", False, 0).names == ["intercept"]


def test_an_array_keeps_its_memory_and_missing_values_are_noticed():
    x = np.arange(14.0).reshape(7, 2)
    rows = deal(x, np.arange(7.0), 3, "contiguous", False, 0)
    assert [len(part) for part in rows.features] == [3, 2, 2]
    assert all(np.shares_memory(part, x) for part in rows.features)
    np.testing.assert_array_equal(np.concatenate(rows.features), x)
    x[3, 1] = np.nan
    with pytest.raises(InvalidInput, match="column 'x1' must be finite, but 1 of 7"):
        deal(x, np.arange(7.0), 3, "contiguous", False, 0)
