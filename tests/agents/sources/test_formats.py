"""Readings as text: fields, units, times."""

from __future__ import annotations

import math

import pytest

from gossamer.agents.config.urls import Url
from gossamer.agents.sources.formats import ReadingFormat
from gossamer.agents.statistics.readings import BadObservation
from gossamer.errors import InvalidInput

NOW = 1_700_000_000.0


def format_of(options: str, dimension: int = 1) -> ReadingFormat:
    url = Url(f"-?{options}")
    made = ReadingFormat.of(url, dimension, sequence=True)
    url.finish()
    return made


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ("", "21.5", [21.5]),
        ("scale=0.1&offset=-40", "615", [21.5]),
        ("scale=0.1&offset=-40", '{"value": 615}', [21.5]),
        ("field=a.b.value", '{"a": {"b": {"value": 3, "unit": "K"}}}', [3]),
        ("field=a.b.value", '{"a.b": {"value": 3}}', [3]),
        ("field=a%2Cb.c%20d", '{"a,b": {"c d": 3}}', [3]),
        ("field=samples.1", '{"samples": [1, 2]}', [2]),
        ("field=value", '{"value": "3.5"}', [3.5]),
        ("time=t", '{"value": 1, "t": 1700000000}', [1]),
    ],
)
def test_one_number(options: str, text: str, expected: list[float]) -> None:
    reading = format_of(options).read(text, 1, now=NOW)
    assert reading is not None
    assert reading.value.tolist() == expected


def test_several_numbers_with_their_units() -> None:
    several = format_of("field=air.t,air.h&scale=0.1,1&offset=0,-1", 2)
    reading = several.read('{"air": {"t": 215, "h": 41}}', 2)
    assert reading is not None
    assert reading.value.tolist() == [21.5, 40]
    assert several.component(1).read('{"air": {"h": 41}}', 1).value.tolist() == [40]  # type: ignore[union-attr]
    reading = format_of("field=v", 2).read('{"v": [1, 2]}', 2)
    assert reading is not None
    assert reading.value.tolist() == [1, 2]


@pytest.mark.parametrize(
    "time",
    ["1700000000", "1700000000000", '"2023-11-14T22:13:20Z"', '"2023-11-14T22:13:20"', '"1700000000.0"'],
)
def test_a_time_in_any_of_these_ways(time: str) -> None:
    reading = format_of("time=at.t&sequence=n").read(f'{{"value": 1, "n": 7, "at": {{"t": {time}}}}}', 1)
    assert reading is not None
    assert (reading.time, reading.sequence) == (NOW, "7")


@pytest.mark.parametrize(
    ("options", "text", "why"),
    [
        ("field=a.b", '{"a": 1}', "a reading needs the field 'b', got 1"),
        ("field=a.b", '{"a": {}}', "a reading needs the field 'b'"),
        ("field=a", "17", "needs the field 'a', got 17"),
        ("field=a", "warm", "a reading must be JSON, because it has fields, got 'warm'"),
        ("field=a", '{"a": null}', "finite"),
        ("field=a", '{"a": true}', "made of numbers"),
        ("field=a&scale=1e90", '{"a": 1e10}', "at most 1e[+]94"),
        ("time=t", '{"value": 1, "t": "noon"}', "a time must be seconds since 1970 or ISO 8601, got 'noon'"),
        ("time=t", '{"value": 1, "t": true}', "a time must be"),
        ("sequence=n", '{"value": 1, "n": null}', "a sequence number must be a number or a text, got None"),
        ("time=t&max_age=1m", '{"value": 1, "t": 1699999900}', "at most 60 s old, got one of 100 s"),
    ],
)
def test_anything_else_is_bad_and_says_why(options: str, text: str, why: str) -> None:
    with pytest.raises(BadObservation, match=why):
        format_of(options).read(text, 1, now=NOW)


def test_nothing_is_no_reading_and_without_a_time_it_has_no_age() -> None:
    assert format_of("field=a").read(" \n", 1) is None
    assert format_of("").read("# comment", 1) is None
    assert math.isnan(format_of("field=a").read('{"a": 1}', 1).time)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("field=a,b,c", "field must have 1 or 2 entries, one per component, got 3"),
        ("scale=1,2,3", "scale must have 1 or 2 entries"),
        ("max_age=1m", "max_age needs the time of a reading; give time=PATH"),
    ],
)
def test_options_that_do_not_fit(options: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        format_of(options, 2)
