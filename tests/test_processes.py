"""No process outlives the test, or the pytest, that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

LEAVES = """
import os, subprocess, sys
from pathlib import Path
from tests.processes import guard
from tests.processes import processes_end as processes_end

guard()
COMMAND = ["sh", "-c", "sleep 600 & echo $$ $! > {file}; exec setsid sh -c 'echo $$ >> {file}; exec sleep 601'"]

def test_leaves_processes():
    subprocess.Popen(COMMAND, start_new_session=True)
    while not Path("{file}").exists() or len(Path("{file}").read_text().split()) < 3:
        pass
    {ending}

def test_they_are_gone():
    assert not any(Path("/proc", pid).exists() for pid in Path("{file}").read_text().split())
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@linux
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["assert False", "os.kill(os.getpid(), 9)"], ids=["failure", "kill"])
def test_what_a_test_started_ends_with_it(tmp_path: Path, ending: str) -> None:
    """Whether the test fails or pytest is killed; those in sessions and groups of their own, too."""
    test, file = tmp_path / "test_leaving.py", tmp_path / "pids"
    test.write_text(LEAVES.format(file=file, ending=ending))
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            tmp_path,
            "-c",
            os.devnull,
            test,
        ],
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    if ending.startswith("assert"):
        assert b"1 failed, 1 passed" in done.stdout, done.stdout
    else:
        assert done.returncode == -signal.SIGKILL, done.stdout
    left = [int(pid) for pid in file.read_text().split()]
    deadline = time.monotonic() + 60
    while any(runs(pid) for pid in left):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
    assert len(left) == 3
