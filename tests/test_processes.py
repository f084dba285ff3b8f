"""No process outlives the test, or the pytest, that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import runs
from tests.support.waiting import PATIENCE, until

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

LEAVES = """
import os, subprocess, sys
from pathlib import Path
from tests.support.processes import guard
from tests.support.processes import processes_end as processes_end

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
        timeout=PATIENCE,
        check=False,
    )
    if ending.startswith("assert"):
        assert b"1 failed, 1 passed" in done.stdout, done.stdout
    else:
        assert done.returncode == -signal.SIGKILL, done.stdout
    left = [int(pid) for pid in file.read_text().split()]
    until(lambda: not any(map(runs, left)), f"the end of {left}")
    assert len(left) == 3
