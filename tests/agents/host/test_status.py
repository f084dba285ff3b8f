"""How often an agent writes its status, and when a reader finds it old."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.reading import parse_source
from tests.support.small_fleets import free_ports
from tests.support.snapshots import some_snapshot

from gossamer.agents.host.hosting import _next
from gossamer.agents.host.status import STATUS, Status, StatusReport, cadence, read_status
from gossamer.agents.membership.fleet import Fleet
from gossamer.errors import InvalidInput
from gossamer.networks import Network


@pytest.mark.parametrize(
    ("pace", "seconds"),
    [(None, 0.5), (0.01, 0.5), (0.1, 0.5), (1.0, 1.0), (3.0, 3.0), (10.0, 5.0), (3600.0, 5.0)],
)
def test_a_status_is_written_as_often_as_it_changes(pace: float | None, seconds: float) -> None:
    """But not faster than a reader could follow, nor so seldom that a hanging agent goes unnoticed."""
    assert cadence(pace) == seconds


def test_an_agent_that_has_just_started_writes_more_often() -> None:
    status = StatusReport("a", parse_source("sim:0,1,0", 1, 0), pace=10.0)
    due, times = 0.0, []
    while due < 30:
        times.append(due)
        due = _next(due, status.pause(due), due)
    assert times == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 13.0, 18.0, 23.0, 28.0]


def test_a_late_wake_up_returns_to_the_beat() -> None:
    """So what is due every second and what is due every two wake the agent up together."""
    assert _next(10.0, 2.0, 10.3) == 12.0
    assert _next(10.0, 1.0, 13.5) == 14.0  # suspended meanwhile: what was missed is not made up for
    assert _next(10.0, 1.0, 13.0) == 14.0


@pytest.mark.parametrize(
    ("every", "age", "state"),
    [
        (0.5, 2.9, "running"),
        (0.5, 3.1, "silent"),
        (1.0, 3.9, "running"),
        (5.0, 11.0, "running"),
        (5.0, 13.0, "silent"),
        (None, 2.9, "running"),  # written by an earlier version
        (None, 3.1, "silent"),
    ],
)
def test_a_reader_knows_when_a_status_is_old(
    tmp_path: Path, every: float | None, age: float, state: str
) -> None:
    fleet = Fleet.create(Network.path(2), endpoints=[f"127.0.0.1:{port}" for port in free_ports(2)])
    facts: dict[str, Any] = dict.fromkeys(
        ("rounds", "samples", "sent", "received", "lost", "estimate", "standard_error", "distance"), 0
    )
    facts |= {"at": 1000.0, "state": "running", "neighbors_alive": 1, "pid": os.getpid()}
    facts |= {"rejected": {}, "problem": ""}
    if every is not None:
        facts["every"] = every
    (tmp_path / STATUS).mkdir()
    (tmp_path / STATUS / f"{fleet.agents[0].name}.json").write_text(json.dumps(facts))
    assert [s.state for s in read_status(fleet, tmp_path, now=1000.0 + age)] == [state, "unknown"]


def test_what_an_agent_writes_can_be_parsed() -> None:
    """With a vector, an estimate that is not known yet, and a model's keys that no reader needs."""
    report = StatusReport("pump", parse_source("sim:0,1,0", 1, 0), restarts=2)
    now = some_snapshot(
        estimate=np.array([1.0, np.nan]), standard_error=np.array([0.1, np.nan]), state="degraded"
    )
    status, details = Status.parse(report.content(now).encode())
    assert details == json.loads(report.content(now))
    assert status.estimate == [1.0, None]
    assert (status.name, status.restarts, status.every, status.pid) == ("pump", 2, 0.5, os.getpid())
    assert status.neighbors["valve"].state == "alive"


WRITTEN = json.loads(StatusReport("pump", parse_source("sim:0,1,0", 1, 0)).content(some_snapshot()))
INFINITE = (math.inf, -math.inf, math.nan)


@pytest.mark.parametrize(
    "change",
    [
        *({"rounds": -1}, {"rounds": 2**63}, {"rounds": 1.5}, {"estimate": 1e301}, {"estimate": 10**400}),
        *({"estimate": "5"}, {"at": None}, {"at": 1e301}, {"every": 0}, {"every": 1e300}, {"pid": -1}),
        *({"pid": 2**31}, {"state": 3}, {"state": ""}, {"state": "unreachable"}, {"state": "x" * 10**6}),
        *({"problem": None}, {"problem": 5}, {"settled": "yes"}, {"neighbors": []}, {"neighbors": {"a": 1}}),
        *({"neighbors": {"a": {"lost": -1}}}, {"rejected": {"my own reason": 1}}, {"rejected": {"size": -1}}),
        *({"coefficients": ["a"] * 1001}, {"coefficients": [1]}, {"name": 7}, {"restarts": "\x1b[2J"}),
        *({key: value} for key in ("estimate", "distance", "at", "observing") for value in INFINITE),
        {"fit": {"deviance": math.nan}},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_status_that_no_agent_writes_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="not the status of an agent"):
        Status.parse(json.dumps(WRITTEN | change).encode())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff",
        b"null",
        b"[]",
        b"1e999",
        b'{"at": 1, "at": 2}',
        b"[" * 10**5,
        b'"\\ud800"',
        b"x" * 4_000_001,
    ],
    ids=lambda content: repr(content[:20]),
)
def test_text_that_is_no_status_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match="not the status of an agent"):
        Status.parse(content)


def test_texts_of_a_status_are_short_and_printable() -> None:
    status, details = Status.parse(
        json.dumps(WRITTEN | {"problem": "\x1b]0;x\x07" * 10**5, "mine": ["\u202e"]}).encode()
    )
    assert len(status.problem) == 2000
    assert status.problem.isprintable()
    assert details["mine"] == [" "]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device", "long"])
def test_a_status_file_that_is_something_else_is_not_read(tmp_path: Path, kind: str) -> None:
    fleet = Fleet.create(Network.path(2))
    (tmp_path / STATUS).mkdir()
    path = tmp_path / STATUS / "agent0.json"
    if kind == "pipe":
        os.mkfifo(path)  # opening it would block until somebody writes
    elif kind == "folder":
        path.mkdir()
    elif kind == "long":
        path.touch()
        os.truncate(path, 10**12)
    else:
        path.symlink_to("/dev/zero")
    found = read_status(fleet, tmp_path)[0]
    assert found.state == "unknown"
    assert found.problem.startswith(f"{path} cannot be read: ")


def test_a_status_from_the_future_is_not_current(tmp_path: Path) -> None:
    fleet = Fleet.create(Network.path(2))
    (tmp_path / STATUS).mkdir()
    (tmp_path / STATUS / "agent0.json").write_text(json.dumps(WRITTEN | {"at": 1e12}))
    assert read_status(fleet, tmp_path)[0].state == "silent"


FIRST_USES = """
import os, sys, threading
from pathlib import Path
from gossamer.agents.host.status import Status
from gossamer.agents.membership.fleet import Fleet

path, content = sys.argv[1:]
sys.setswitchinterval(1e-6)
threading.excepthook = lambda problem: os._exit(1)
for use in (lambda: Status.parse(content.encode()), lambda: Fleet.read(Path(path))):
    for _ in range(15):
        child = os.fork()
        if child == 0:
            gate = threading.Barrier(16)
            threads = [threading.Thread(target=lambda: (gate.wait(), use())) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test needs fork")
def test_many_threads_may_read_statuses_and_fleets_at_once(tmp_path: Path) -> None:
    """Also for the first time: each child of a fresh process is one, in which nothing was read before."""
    content = StatusReport("pump", parse_source("sim:0,1,0", 1, 0)).content(some_snapshot())
    path = Fleet.create(Network.path(2)).write(tmp_path)
    command = [sys.executable, "-W", "ignore", "-c", FIRST_USES, str(path), content]
    assert subprocess.run(command, timeout=300).returncode == 0
