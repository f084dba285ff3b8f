"""End all processes that a test started, also if the test fails or pytest is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

_MARK = "GOSSAMER_TESTS"
"""The variable of the environment by which a process is known to descend from a run of pytest."""

_LASTING = (
    *("resource_tracker", "loky", "forkserver", "multiprocessing", "chrom", "playwright"),
    "gossamer.dashboard",
)
"""Words in the command lines of processes that libraries start once and keep for the tests to come, and of the workers
of a dashboard that several tests share: they end with its server, or with pytest (`guard`)."""

_ADOPTS = 36  # PR_SET_CHILD_SUBREAPER: orphans become children of this process, so that none is missed

_guards: list[subprocess.Popen[bytes]] = []  # whose pipes are open as long as this process lives

_GUARD = """
import os, signal, sys
mark = sys.argv[1].encode()
if os.fork():
    os._exit(0)
os.setsid()
sys.stdin.buffer.read()  # until pytest has ended, however that happened
for process in filter(str.isdigit, os.listdir("/proc")):
    try:
        if int(process) != os.getpid() and mark in open(f"/proc/{process}/environ", "rb").read():
            os.kill(int(process), signal.SIGKILL)
    except OSError:
        pass
"""


def guard() -> None:
    """End all descendants of this process when it ends, even by SIGKILL."""
    if sys.platform != "linux":
        return
    mark = os.environ[_MARK] = f"{os.getpid()}-{time.time_ns()}"
    # It holds the pipe as long as pytest lives; what pytest starts does not inherit its end.
    guarding = subprocess.Popen(
        [sys.executable, "-S", "-c", _GUARD, f"{_MARK}={mark}"], stdin=subprocess.PIPE, start_new_session=True
    )
    guarding.wait()
    _guards.append(guarding)
    ctypes.CDLL(None).prctl(_ADOPTS, 1, 0, 0, 0)


def children() -> set[int]:
    """The children of this process that it has not waited for; orphaned descendants are among them."""
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # fails at once if there are none
        own = str(os.getpid())
        return {pid for pid, parent in _parents() if parent == own}
    return set()


def _parents() -> Iterator[tuple[int, str]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            yield int(name), Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]


def runs(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def end(before: set[int]) -> None:
    """Kill the children that did not exist before, with their process groups, until none of their orphans is left."""
    while left := {pid for pid in children() - before if not _lasts(pid)}:
        for pid in left:
            with suppress(OSError):
                if (group := os.getpgid(pid)) != os.getpgrp():
                    os.killpg(group, signal.SIGKILL)
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with suppress(OSError):
                os.waitpid(pid, 0)


def _lasts(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text().lower()
    except OSError:
        return False
    return (
        any(word in command for word in _LASTING) or command == Path("/proc/self/cmdline").read_text().lower()
    )


@pytest.fixture(autouse=True)
def processes_end() -> Iterator[None]:
    """End the processes that a test left; earlier ones, and those that libraries keep, continue."""
    if sys.platform != "linux":
        yield
        return
    before = children()
    yield
    end(before)
