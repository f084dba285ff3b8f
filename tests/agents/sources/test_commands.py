"""Observations from shell commands: what their lines are, how they end, and what that means."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.processes import runs
from tests.support.reading import collect, parse_source
from tests.support.terminal import ROOT
from tests.support.waiting import PATIENCE, until, until_true

from gossamer.agents.sources import backoff
from gossamer.agents.sources import opening as sources
from gossamer.agents.sources.kinds import LiveSource
from gossamer.errors import InvalidInput


def test_a_command_gives_its_lines() -> None:
    source = parse_source("cmd:echo 1; echo x; printf 2", 1, 0)
    assert isinstance(source, LiveSource)
    assert collect(source) == [[1], [2]]
    assert source.bad == 1


ROS2 = """
import argparse, signal, sys

MESSAGES = {
    "std_msgs/msg/Float64": {"data": 0.75},
    "geometry_msgs/msg/PoseStamped": {
        "header": {"stamp": {"sec": 1700000000, "nanosec": 5}, "frame_id": "map"},
        "pose": {
            "position": {"x": 1.0, "y": 2.0, "z": 3.0},
            "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0},
        },
    },
    "sensor_msgs/msg/Temperature": {
        "header": {"stamp": {"sec": 1700000000, "nanosec": 5}, "frame_id": "duct"},
        "temperature": 21.5,
        "variance": 0.0,
    },
}

def leaves(part):
    return [leaf for inner in part.values() for leaf in leaves(inner)] if isinstance(part, dict) else [str(part)]

parser = argparse.ArgumentParser()
for name in ("topic", "echo", "name", "type"):
    parser.add_argument(name)
parser.add_argument("--csv", action="store_true")
parser.add_argument("--field", default="")
given = parser.parse_args()
part = MESSAGES[given.type]
for name in filter(None, given.field.split(".")):
    part = part[name]
sys.stdout.reconfigure(line_buffering=True)
for _ in range(3):
    if not isinstance(part, dict):
        print(part, end="\\n---\\n")
    elif given.csv:
        print(",".join(leaves(part)))
    else:
        print("\\n".join(f"{key}: {value}" for key, value in part.items()), end="\\n---\\n")
signal.pause()
"""
"""A stand-in for `ros2 topic echo`. As in the real one (ros2topic/verb/echo.py and ros2cli/cli.py), a field that is
a number is printed with a separator, also with --csv, and standard output is line buffered."""


@pytest.mark.parametrize(
    ("message", "observation"),
    [("Float64", [0.75]), ("PoseStamped", [1.0, 2.0, 3.0]), ("Temperature", [21.5])],
)
def test_the_recipes_for_ros2(
    message: str, observation: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ros2"
    program.write_text(f"#!{sys.executable}{ROS2}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    page = (ROOT / "docs" / "plugins.md").read_text()
    [recipe] = [line for line in re.findall("^cmd:ros2 .*", page, re.MULTILINE) if message in line]
    source = parse_source(recipe, len(observation), 0)
    assert collect(source, 3) == [observation] * 3
    assert source.bad == 0


def test_a_command_that_ends_is_a_failure_unless_it_is_meant_to(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.01)
    source = parse_source("cmd:echo 1", 1, 0)
    assert collect(source) == [[1]]
    assert source.failing == "the source failed: the command 'echo 1' ended with code 0"
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", f"{source.failing}; if it is meant to end, or to be restarted, set `end`")
    ]
    source = parse_source("cmd:echo 1", 1, 0, end="stop")
    assert collect(source) == [[1]]
    assert source.failing == ""
    source = parse_source("cmd:echo 1", 1, 0, end="restart")
    assert collect(source, 3) == [[1]] * 3
    assert len(caplog.records) == 3  # after the first and the second run
    with pytest.raises(InvalidInput, match="end must be 'fail', 'restart' or 'stop', got 'again'"):
        parse_source("cmd:echo 1", 1, 0, end="again")


@pytest.mark.skipif(shutil.which("bash") is None, reason="/bin/sh may not know pipefail")
def test_a_pipe_fails_with_any_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the filter that is still there does not hide that the sensor is gone."""
    monkeypatch.setattr(backoff, "FIRST", 0.01)
    source = parse_source("cmd:(echo 1; exit 4) | cat", 1, 0, end="stop")
    assert collect(source, 2) == [[1], [1]]
    assert "ended with code 4" in source.failing


def test_a_command_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    source = parse_source(f"cmd:sh -c 'echo $$ > {pid_file}; echo 1; exec sleep 60' & wait", 1, 0)
    assert collect(source, 1) == [[1]]
    pid = int(pid_file.read_text())
    until(
        lambda: not runs(pid), f"the end of process {pid}"
    )  # the signal is sent; the kernel may take a moment


def test_a_command_that_ignores_the_request_to_end_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sources, "_GRACE", 0.2)
    pid_file = tmp_path / "pid"
    loop = f"trap '' TERM; echo $$ > {pid_file}; echo 1; while :; do sleep 0.1; done"
    assert collect(parse_source(f"cmd:{loop}", 1, 0), 1) == [[1]]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_command_that_fails_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says why, waits ever longer, and is well as soon as it delivers."""
    monkeypatch.setattr(backoff, "FIRST", 0.01)
    source = parse_source("cmd:echo 1; exit 3", 1, 0)
    why = "the source failed: the command 'echo 1; exit 3' ended with code 3"
    seen = []

    async def follow() -> None:
        async with contextlib.aclosing(aiter(source)) as values:  # type: ignore[type-var]
            async for _ in values:
                seen.append(source.failing)
                if len(seen) == 4:
                    break

    asyncio.run(asyncio.wait_for(follow(), PATIENCE))
    assert seen == ["", why, why, why]  # when the first line of each run arrives
    assert [record.getMessage() for record in caplog.records] == [f"{why}; it is restarted in 0 s"] * 3


def test_a_command_that_delivers_again_is_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.01)
    flag = tmp_path / "flag"
    command = f"cmd:if [ -e {flag} ]; then echo 1; else touch {flag}; exit 7; fi"
    source = parse_source(command, 1, 0, end="stop")
    assert collect(source) == [[1]]  # and the second run, which ended with code 0, was the last
    assert source.failing == ""


def test_garbage_does_not_make_a_failed_command_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.01)
    source = parse_source("cmd:echo oops; exit 1", 1, 0)

    async def read() -> None:
        reading = asyncio.ensure_future(anext(aiter(source)))  # type: ignore[type-var, arg-type]
        await until_true(lambda: source.bad > 1 or reading.done(), "a second run of the command")
        assert not reading.done()
        assert "ended with code 1" in source.failing
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(read())
