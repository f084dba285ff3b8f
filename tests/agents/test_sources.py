"""Sources of observations: what they yield, what they skip, how they end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.agents.sources import (
    BadObservation,
    FromIterator,
    LiveSource,
    PacedSource,
    parse_line,
    parse_source,
    vector,
)
from gossamer.errors import InvalidInput
from gossamer.observations import Gaussian


def collect(source: PacedSource | LiveSource, count: int | None = None) -> list[list[float]]:
    """The first `count` observations of a source, or all of them, within ten seconds."""
    if isinstance(source, PacedSource):
        return [value.tolist() for value in itertools.islice(source, count)]

    async def gather() -> list[list[float]]:
        found: list[list[float]] = []
        async with contextlib.aclosing(aiter(source)) as values:  # type: ignore[type-var]
            async for value in values:
                found.append(value.tolist())
                if len(found) == count:
                    break
        return found

    return asyncio.run(asyncio.wait_for(gather(), 10))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1.5", [1.5]),
        (" -2e3 \n", [-2000.0]),
        ("[4]", [4.0]),
        ('{"value": 7, "at": "now"}', [7.0]),
        ('{"value": [8]}', [8.0]),
    ],
)
def test_a_line_is_a_number_or_json(line: str, expected: list[float]) -> None:
    value = parse_line(line, 1)
    assert value is not None
    assert value.tolist() == expected


@pytest.mark.parametrize("line", ["1 2 3", "1,2,3", "1, 2, 3", "[1,2,3]", '{"value": [1, 2, 3]}'])
def test_a_vector_is_written_in_any_of_these_ways(line: str) -> None:
    value = parse_line(line, 3)
    assert value is not None
    assert value.tolist() == [1, 2, 3]


@pytest.mark.parametrize("line", ["", "  \n", "# a comment"])
def test_empty_lines_and_comments_are_nothing(line: str) -> None:
    assert parse_line(line, 1) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("warm", "made of numbers"),
        ("1 2", r"has 1 number\(s\), but 2 came"),
        ("nan", "finite"),
        ("[1e999]", "finite"),
        ("[1", "numbers or JSON"),
        ('{"x": 1}', '"value"'),
        ('{"value": null}', "finite"),
        ('[[1], "a"]', "made of numbers"),
    ],
)
def test_anything_else_is_bad_and_says_why(line: str, why: str) -> None:
    with pytest.raises(BadObservation, match=why):
        parse_line(line, 1)


@settings(deadline=None)
@given(st.text(), st.integers(1, 4))
def test_no_line_whatsoever_breaks_the_parser(line: str, dimension: int) -> None:
    try:
        value = parse_line(line, dimension)
    except BadObservation:
        return
    assert value is None or (value.shape == (dimension,) and np.all(np.isfinite(value)))


def test_a_simulated_sensor_draws_what_a_simulation_draws() -> None:
    truth = Gaussian(np.arange(24.0).reshape(8, 3), 0.5).sample(7, range(300), range(1))[:, 5, :, 0]
    sensor = parse_source("sim:15:16:17,0.5,7", 3, agent=5)
    assert isinstance(sensor, PacedSource)
    np.testing.assert_allclose(collect(sensor, 300), truth, rtol=0, atol=1e-13)
    sensor = parse_source("sim:15:16:17,0.5,7", 3, agent=5)
    sensor.skip = 290  # an agent restarted with 290 observations in its store
    np.testing.assert_allclose(collect(sensor, 10), truth[290:], rtol=0, atol=1e-13)


def test_a_csv_file_is_replayed_and_bad_rows_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("temperature\n1\n2\noops\n\nnan\n3")
    source = parse_source(f"csv:{file}", 1, 0)
    assert isinstance(source, PacedSource)
    assert collect(source) == [[1], [2], [3]]
    assert source.bad == 2
    assert source.last_problem == "an observation is finite, but ['nan'] came"


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('time,"a",b\n09:00,1,2\n09:01,3,4\n09:02\n09:03,5,6\n')
    source = parse_source(f"csv:{file},columns=b+a", 2, 0)
    assert collect(source) == [[2, 1], [4, 3], [6, 5]]
    assert source.bad == 1
    with pytest.raises(InvalidInput, match=r"has the columns time, a, b, but columns= asks for 'c'"):
        parse_source(f"csv:{file},columns=c", 1, 0)


def test_a_followed_file_gives_its_rows_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1\n2\n")

    async def follow() -> list[float]:
        source = aiter(parse_source(f"csv:{file},follow", 1, 0))
        seen = [float((await anext(source))[0]) for _ in range(2)]
        with file.open("a") as more:
            more.write("3")  # half a row is no row
            more.flush()
            waiting = asyncio.ensure_future(anext(source))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            more.write("3\n4\n")
        seen += [float((await waiting)[0]), float((await anext(source))[0])]
        file.write_text("5\n")  # rotated
        seen.append(float((await anext(source))[0]))
        await source.aclose()  # type: ignore[attr-defined]
        return seen

    assert asyncio.run(asyncio.wait_for(follow(), 10)) == [1, 2, 33, 4, 5]


def test_a_command_gives_its_lines() -> None:
    source = parse_source("cmd:echo 1; echo x; printf 2", 1, 0)
    assert isinstance(source, LiveSource)
    assert collect(source) == [[1], [2]]
    assert source.bad == 1


def test_a_command_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    source = parse_source(f"cmd:sh -c 'echo $$ > {pid_file}; echo 1; exec sleep 60' & wait", 1, 0)
    assert collect(source, 1) == [[1]]
    pid = int(pid_file.read_text())
    for _ in range(100):  # the signal is sent; the kernel may take a moment
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} of the command is still there")


def test_standard_input_gives_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    lines = b"1\n\xff\xfe\n[2]\n" + b"9" * (1 << 21) + b"\n3\n"

    def speak() -> None:
        with os.fdopen(write, "wb") as pipe:
            pipe.write(lines)

    threading.Thread(target=speak, daemon=True).start()  # a pipe holds less than that long line
    with os.fdopen(read, "rb") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        source = parse_source("-", 1, 0)
        assert collect(source) == [[1], [2], [3]]
    assert source.bad >= 2


def test_an_iterator_of_a_program_is_a_source() -> None:
    async def numbers() -> AsyncIterator[object]:
        for value in (1, [2.5], "no", float("inf"), np.float32(3)):
            yield value

    source = FromIterator(1, numbers())  # type: ignore[arg-type]
    assert collect(source) == [[1], [2.5], [3]]
    assert source.bad == 2


def test_a_broken_sensor_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    source = parse_source("cmd:yes broken | head -1000", 1, 0)
    assert collect(source) == []
    assert source.bad == 1000
    skipped = [record for record in caplog.records if "skipped" in record.getMessage()]
    assert len(skipped) == 11  # 1, 2, 3, 4, 8, ..., 512


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("stdin", "a source is -, csv:FILE"),
        ("csv:", "a source is"),
        ("csv:nowhere.csv", "no file nowhere.csv"),
        ("sim:1,2", "sim:MEAN,STD,SEED"),
        ("sim:a,1,0", "sim:MEAN,STD,SEED"),
        ("sim:1,-1,0", "STD >= 0"),
        ("sim:1:2,1,0", "1 or 1 numbers"),
        ("sim:1,1,-3", "SEED"),
    ],
)
def test_a_source_that_is_none_says_what_was_required(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_source(text, 1, 0)


def test_csv_options_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1\n")
    with pytest.raises(InvalidInput, match="options follow and columns"):
        parse_source(f"csv:{file},fast", 1, 0)
    with pytest.raises(InvalidInput, match=r"must name 1 column\(s\), but it names 2"):
        parse_source(f"csv:{file},columns=a+b", 1, 0)


def test_vector_accepts_scalars() -> None:
    assert vector(3, 1).tolist() == [3.0]
