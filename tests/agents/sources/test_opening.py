"""Sources of observations: what they yield, what they skip, how they end."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.reading import collect, parse_source
from tests.support.waiting import PATIENCE, until

from gossamer.agents.sources import csv_files
from gossamer.agents.sources.csv_files import GrowingCsvFile
from gossamer.agents.sources.kinds import LiveSource, PacedSource
from gossamer.agents.sources.opening import FromIterable, FromIterator
from gossamer.agents.statistics.readings import LINE_LIMIT, BadObservation, Splitter, parse_line, vector
from gossamer.errors import InvalidInput
from gossamer.observations import Gaussian


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
        ("1 2", r"must have 1 number\(s\), got 2"),
        ("nan", "finite"),
        ("[1e999]", "finite"),
        ("[1", "numbers or JSON"),
        ('{"x": 1}', '"value"'),
        ('{"value": null}', "finite"),
        ('[[1], "a"]', "made of numbers"),
        ("[[1]]", "shape"),
        ("1_000", "made of numbers"),
        ('{"value": "1_000"}', "made of numbers"),
        ('{"value": true}', "made of numbers"),
        ("[true]", "made of numbers"),
        pytest.param("[" * 100_000, "numbers or JSON", id="nested too deep"),
        pytest.param("[1" + "0" * 400 + "]", "made of numbers", id="a whole number too large"),
        ("-2e94", r"at most 1e\+94 in size"),
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
    assert source.last_problem == "an observation must be finite, got ['nan']; leave it out"


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('time,"a",b\n09:00,1,2\n09:01,3,4\n09:02\n09:03,5,6\n')
    source = parse_source(f"csv:{file},columns=b+a", 2, 0)
    assert collect(source) == [[2, 1], [4, 3], [6, 5]]
    assert source.bad == 1
    with pytest.raises(InvalidInput, match=r"columns= and target= must be among time, a, b of .*, got 'c'"):
        parse_source(f"csv:{file},columns=c", 1, 0)


@pytest.mark.parametrize("option", ["", ",follow"])
def test_csv_files_as_spreadsheets_write_them(tmp_path: Path, option: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(
        '\ufeff"a, b",c,d\n"1",9,"2"\n# a comment\n"x, y",8,7\n3,"p, q",4\n"5,6",1,2\n', encoding="utf-8"
    )
    source = parse_source(f"csv:{file}{option},columns=d", 1, 0)
    assert collect(source, 4) == [[2], [7], [4], [2]]
    assert source.bad == 0
    file.write_text('\ufeff1,2\n"3","4"\n"5,6"\n[7,8]\n', encoding="utf-8")  # no names, and no columns chosen
    source = parse_source(f"csv:{file}{option}", 2, 0)
    assert collect(source, 3) == [[1, 2], [3, 4], [7, 8]]
    assert source.bad == 1
    file.write_text("\ufefft\n5\n", encoding="utf-8")
    assert collect(parse_source(f"csv:{file}{option},columns=t", 1, 0), 1) == [[5]]


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

    assert asyncio.run(asyncio.wait_for(follow(), PATIENCE)) == [1, 2, 33, 4, 5]


def test_a_followed_file_is_rotated_by_renaming(tmp_path: Path) -> None:
    file, old = tmp_path / "a.csv", tmp_path / "a.csv.1"
    file.write_text("time,a\n0,1\n0,2\n")

    async def follow() -> list[float]:
        source = parse_source(f"csv:{file},follow,columns=a", 1, 0)
        rows = aiter(source)
        seen = [float((await anext(rows))[0]) for _ in range(2)]
        file.rename(old)
        with old.open("a") as last:
            last.write("0,3\n0,")
        file.write_text("time,a\n0,4\n" + "0,5\n" * 10)  # longer than the first, and with names
        seen += [float((await anext(rows))[0]) for _ in range(12)]
        file.unlink()
        waiting = asyncio.ensure_future(anext(rows))
        await asyncio.sleep(0.3)  # no file at all for a moment
        file.write_text("0,6\n")  # without names
        seen.append(float((await waiting)[0]))
        await rows.aclose()  # type: ignore[attr-defined]
        assert source.bad == 1
        assert "a row must be complete" in source.last_problem
        return seen

    assert asyncio.run(asyncio.wait_for(follow(), PATIENCE)) == [1, 2, 3, 4, *[5] * 10, 6]


def test_a_followed_file_that_was_rotated_before_a_restart_counts_from_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1\n2\n")

    async def follow(stored: int) -> float:
        source = parse_source(f"csv:{file},follow", 1, 0)
        source.begin(stored, 1e9)
        rows = aiter(source)
        waiting = asyncio.ensure_future(anext(rows))
        await asyncio.sleep(0.05)
        with file.open("a") as more:
            more.write("3\n")
        value = float((await waiting)[0])
        await rows.aclose()  # type: ignore[attr-defined]
        return value

    assert asyncio.run(asyncio.wait_for(follow(2), PATIENCE)) == 3  # the file that was read before
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert asyncio.run(asyncio.wait_for(follow(1000), PATIENCE)) == 3
    assert "has 3 observations, but 1000 are stored: it was replaced or truncated" in caplog.text


def rename_to(file: Path, rotated: str, rows: str) -> None:
    file.rename(file.with_name(rotated))
    file.write_text(rows)


def copy_and_truncate(file: Path, rows: str) -> None:
    shutil.copy(file, file.with_name(file.name + ".1"))
    file.write_text(rows)


def rotate_twice(file: Path) -> None:
    rename_to(file, "a.csv.2", "t,a\n0,5\n")
    os.utime(file.with_name("a.csv.2"), ns=(1, 1))
    rename_to(file, "a.csv.1", "t,a\n0,6\n0,7\n")
    file.with_name("a.csv.bak").write_text("0,99\n")  # no rotation makes that name


ROTATIONS: dict[str, tuple[Callable[[Path], object], list[float]]] = {
    "nothing": (lambda file: None, []),
    "renamed": (lambda file: rename_to(file, "a.csv.1", "t,a\n0,5\n0,6\n"), [5, 6]),
    "dated": (lambda file: rename_to(file, "a.csv-20260102", "t,a\n" + "0,5\n" * 9), [5] * 9),
    "twice": (rotate_twice, [5, 6, 7]),
    "copied": (lambda file: copy_and_truncate(file, "t,a\n0,5\n"), [5]),
    "saved": (lambda file: (shutil.copy(file, "new"), Path("new").rename(file)), []),
}


@pytest.mark.parametrize("how", ROTATIONS)
def test_rotation_while_the_agent_is_down_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a.csv"
    file.write_text("t,a\n0,1\nbad\n0,2\n0,3\n0,")
    first = parse_source(f"csv:{file},follow,columns=a", 1, 0)
    assert collect(first, 2) == [[1], [2]]
    with file.open("a") as more:  # the agent is down, and the half row is completed
        more.write("4\n")
    rotate, new = ROTATIONS[how]
    rotate(file)
    again = parse_source(f"csv:{file},follow,columns=a", 1, 0)
    again.resume(first.position)
    again.begin(2, 1e9)
    expected = [3, 4, *new]
    assert collect(again, len(expected)) == [[value] for value in expected]
    assert again.bad == 0


def test_a_followed_file_that_is_gone_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1\n2\n")
    first = parse_source(f"csv:{file},follow", 1, 0)
    assert collect(first, 2) == [[1], [2]]
    file.write_text("3\n4\n5\n")
    again = parse_source(f"csv:{file},follow", 1, 0)
    again.resume(first.position)
    again.begin(2, 1e9)
    assert collect(again, 3) == [[3], [4], [5]]
    assert "rows added after it are lost" in caplog.text


@pytest.mark.parametrize(("option", "rows"), [("", "1\n2\n"), (",columns=b", "a,b\n7,1\n7,2\n")])
def test_a_followed_file_may_come_later(tmp_path: Path, option: str, rows: str) -> None:
    file = tmp_path / "later.csv"
    source = parse_source(f"csv:{file},follow{option}", 1, 0)
    assert isinstance(source, LiveSource)
    source.begin(0, 1e9)
    why: list[str] = []

    def write() -> None:
        until(lambda: source.failing, "a word about the file")
        why.append(source.failing)
        file.write_text(rows[:1])  # not even one row
        time.sleep(0.3)
        file.write_text(rows)

    writer = threading.Thread(target=write)
    writer.start()
    assert collect(source, 2) == [[1], [2]]
    writer.join()
    assert why == [f"the source waits for the file {file}, which does not exist yet"]
    assert source.failing == ""
    with pytest.raises(InvalidInput, match="needs an existing file"):
        parse_source(f"csv:{tmp_path / 'no.csv'}", 1, 0)  # which is read as it is


def test_a_named_pipe_is_not_followed(tmp_path: Path) -> None:
    """Opening one without a writer would block the agent, even its stop."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match=r"cannot be read \(it is not a regular file\); .* cmd:cat PIPE"):
        parse_source(f"csv:{tmp_path / 'pipe'},follow", 1, 0)
    file = tmp_path / "a.csv"
    file.write_text("1\n")
    source = parse_source(f"csv:{file},follow", 1, 0)
    assert isinstance(source, GrowingCsvFile)
    reader = csv_files._Reader(file)
    (tmp_path / "pipe").replace(file)
    assert source._next(reader) is None
    assert source.failing.startswith(f"the source {file} cannot be read now (it is not a regular file")
    reader.close()


@pytest.mark.parametrize("content", [b"1\nno\n2\n3", b""])
def test_standard_input_may_be_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "numbers"
    file.write_bytes(content)
    with file.open("rb") if content else open(os.devnull, "rb") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert collect(parse_source("-", 1, 0)) == ([[1], [2], [3]] if content else [])


def test_a_closed_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    source = parse_source("-", 1, 0)
    with open(os.devnull) as closed:
        pass
    for stdin in (None, closed):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(InvalidInput, match=r"standard input that can be read, but it is closed; give"):
            source.begin(0, 1.0)


def test_a_line_that_is_too_long_is_one_bad_line() -> None:
    splitter = Splitter()
    pieces = [b"1\n" + b"9" * LINE_LIMIT, b"9", b"9" * LINE_LIMIT, b"9" * 10, b"7\n2\n", b"3"]
    lines = [line for piece in pieces for line in splitter.lines(piece)] + splitter.rest() + splitter.rest()
    assert lines == ["1", "<a line of more than a million characters>", "2", "3"]
    assert splitter.lines(b"9" * (LINE_LIMIT + 1) + b"\n4\n")[1:] == ["4"]


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
    assert source.bad == 2


def test_an_iterator_of_a_program_is_a_source() -> None:
    async def numbers() -> AsyncIterator[object]:
        for value in (1, [2.5], "no", float("inf"), np.float32(3)):
            yield value

    source = FromIterator(1, numbers())  # type: ignore[arg-type]
    assert collect(source) == [[1], [2.5], [3]]
    assert source.bad == 2


def test_a_bad_value_of_an_iterable_costs_its_round() -> None:
    source = FromIterable(1, [1.0, float("nan"), True, 2])
    assert [None if value is None else value.tolist() for value in source.rounds()] == [[1], None, None, [2]]
    assert source.bad == 2


def test_a_broken_sensor_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    source = parse_source("cmd:for k in $(seq 1000); do echo broken; done", 1, 0)
    assert collect(source) == []
    assert source.bad == 1000
    skipped = [record for record in caplog.records if "skipped" in record.getMessage()]
    assert len(skipped) == 11  # 1, 2, 3, 4, 8, ..., 512


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("stdin", "source must be one of .*csv:FILE.*`gossamer sources` lists"),
        ("csv:", "source must be"),
        ("csv:nowhere.csv", "there is no nowhere.csv"),
        ("sim:1,2", "sim:MEAN,STD,SEED"),
        ("sim:a,1,0", "sim:MEAN,STD,SEED"),
        ("sim:1,-1,0", "STD >= 0"),
        ("sim:1:2,1,0", "1 or 1 numbers"),
        ("sim:1,1,-3", "SEED"),
        ("sim:1e95,1,0", r"at most 1e\+94"),
        ("sim:0,1e94,0", r"at most 1e\+94"),
    ],
)
def test_a_source_that_is_none_says_what_was_required(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_source(text, 1, 0)


def test_csv_options_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1\n")
    with pytest.raises(InvalidInput, match=r"options follow, columns=a\+b and target=y"):
        parse_source(f"csv:{file},fast", 1, 0)
    with pytest.raises(InvalidInput, match=r"must name 1 column\(s\), got 2"):
        parse_source(f"csv:{file},columns=a+b", 1, 0)


def test_vector_accepts_scalars() -> None:
    assert vector(3, 1).tolist() == [3.0]


def test_a_vector_is_the_agents_own() -> None:
    mine = np.array([1.0, 2.0])
    taken = vector(mine, 2)
    mine[:] = 9
    assert taken.tolist() == [1, 2]
