"""Compiling ahead of time: nothing is left for later runs, and outdated code does not survive an edit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest

import gossamer as gs
from gossamer import warmup
from gossamer.fingerprint import SourceTree
from tests.support.commands import invoke

pytestmark = pytest.mark.slow

WATCHED = """
import os, shlex, sys
from pathlib import Path
from matplotlib.figure import Figure
from numba.core import caching, event
from typer.testing import CliRunner
from gossamer import warmup

warmed = warmup._stamp().stat().st_mtime_ns
read = caching.IndexDataCacheFile._load_data

def what_the_warmup_left(self, name):  # anything newer was compiled by others since: it does not count
    if os.stat(self._data_path(name)).st_mtime_ns > warmed:
        raise FileNotFoundError(name)
    print("loaded", name, file=sys.__stdout__)
    return read(self, name)

caching.IndexDataCacheFile._load_data = what_the_warmup_left

class Compiling(event.Listener):
    def on_start(self, happening):
        function = happening.data["dispatcher"].py_func
        where = sys.__stdout__  # CliRunner takes sys.stdout away
        print("compiled", function.__module__, function.__qualname__, happening.data["args"], file=where)
    def on_end(self, happening):
        pass

event.register("numba:compile", Compiling())
Figure.draw_without_rendering = lambda self: None  # the layout takes long and compiles nothing, as do the pictures
Figure.savefig = lambda self, path, **options: Path(path).write_bytes(b"")
from gossamer.cli import build
for line in sys.argv[1:]:
    result = CliRunner().invoke(build(), shlex.split(line))
    assert result.exit_code == 0, (line, result.output, result.exception)
    print("ran", line)
"""

SMALL_REPRODUCTION = (
    "reproduce --agents 9 --trials 4 --draws 2 --stages 2,3 --large 0.1,0.05 --small 0.03,0.02 "
    "--star-agents 9,16,25"
)

EVERYDAY = [
    "exact grid:5x5 --rounds 20",
    "exact path:9 --rounds 5,20 --method sda",
    "simulate grid:5x5 --rounds 20 --trials 20",
    "simulate path:9 --rounds 5,20 --trials 2",
    "simulate cycle:20000 --rounds 3 --trials 1",
    "simulate grid:5x5 --rounds 20 --loss 0.2 --burst 4,0.2 --crash 1@3",
    "simulate grid:3x3 --method pairwise --rounds 20 --trials 20",
    "compare grid:3x3 --rounds 5,20",
    "plan grid:3x3 --target 0.1",
    "estimate grid:3x3 --rounds 20,40 --trials 20",
    "evaluate-policy grid:3x3 --rounds 20,40 --trials 5",
    "learn grid:3x3 --rounds 20,40 --trials 5 --intercept",
    "learn grid:3x3 --family softmax --rounds 20 --trials 5 --loss 0.2 --no-rivals",
]

CLUSTER = [
    "simulate grid:40x40 --rounds 3,5 --cluster",
    "simulate torus:40x40 --rounds 3 --trials 2 --cluster",
    "simulate expander:100000x4 --method anytime-sda:acceleration=local-heavy-ball --rounds 3 --cluster",
]


def run(*command, **variables):
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_is_compiled_after_a_warmup(tmp_path):
    """The paper's reproduction and the everyday commands find all of their code where the last warmup left it."""
    run("-m", "gossamer", "warmup")  # a matter of a second after `make setup`
    lines = [f"{SMALL_REPRODUCTION} --out {tmp_path / 'paper'}", *EVERYDAY]
    if find_spec("mpi4py"):
        lines += CLUSTER
    told = run("-c", WATCHED, *lines).splitlines()
    assert [line for line in told if line.startswith("ran")] == [f"ran {line}" for line in lines]
    assert [line for line in told if line.startswith("compiled")] == []
    assert any(line.startswith("loaded") for line in told)


# -- the stamp ------------------------------------------------------------------------------------------------------


class Threads(ThreadPoolExecutor):
    """Threads in place of processes: quick, and they see what a test has replaced."""

    def __init__(self, workers, mp_context):
        super().__init__(workers)


@pytest.fixture(scope="module")
def sources():
    """The files of the package, parsed once."""
    return SourceTree(warmup.PACKAGE)


@pytest.fixture
def small_tasks(tmp_path, monkeypatch, sources):
    """Two tasks that only note that they ran, and a stamp in a folder of its own."""
    ran = []
    monkeypatch.setattr(warmup, "TASKS", {"one": lambda: ran.append("one"), "two": lambda: ran.append("two")})
    monkeypatch.setattr(warmup, "ProcessPoolExecutor", Threads)
    monkeypatch.setattr(warmup, "SourceTree", lambda package: sources)
    monkeypatch.setattr(warmup, "_stamp", lambda: tmp_path / "cache" / "warmup.json")
    monkeypatch.setattr(warmup, "_forget_everything", lambda: None)  # the code that the other tests run on
    return ran


def test_tasks_run_once(small_tasks):
    begun, done = [], []
    assert warmup.warm_up(2, begin=begun.extend, done=done.append)
    assert begun == ["one", "two"]
    assert sorted(done) == sorted(small_tasks) == ["one", "two"]
    assert not warmup.warm_up(2, begin=begun.extend)
    assert len(small_tasks) == 2
    assert warmup.warm_up(2, force=True)
    assert len(small_tasks) == 4


@pytest.mark.parametrize("damage", ["", "[]", '{"identity": {}}'])
def test_a_stamp_that_does_not_fit_is_not_believed(small_tasks, damage):
    warmup.warm_up(1)
    warmup._stamp().write_text(damage)
    assert warmup.warm_up(1)
    assert not warmup.warm_up(1)


def test_a_failed_task_leaves_no_stamp(small_tasks, monkeypatch):
    def broken():
        raise gs.InvalidInput("broken")

    monkeypatch.setitem(warmup.TASKS, "two", broken)
    with pytest.raises(gs.InvalidInput, match="broken"):
        warmup.warm_up(1)
    assert not warmup._stamp().exists()


def test_command_says_what_it_does(small_tasks):
    first, again = (invoke("warmup", "--jobs", 1) for _ in range(2))
    assert "compiling" in first.output
    assert "later runs find it on disk" in first.output
    assert again.output.strip() == "everything is compiled already"
    with pytest.raises(gs.InvalidInput, match="--jobs must be a whole number of at least 1, got 0"):
        invoke("warmup", "--jobs", 0, catch=False)


def test_compiled_modules_are_noted_with_their_sources(small_tasks):
    """What the tasks have loaded; here, what this process has."""
    gs.exact(gs.SDA(), gs.Network.path(3), gs.Gaussian([0.0, 1.0, 2.0]), 2)
    warmup.warm_up(1)
    noted = json.loads(warmup._stamp().read_text())["compiled"]
    assert any(source.endswith("recursions.py") for source, _, _ in noted)
    assert all(folder for _, folder, _ in noted)


def test_compiled_code_goes_when_something_it_imports_changes(tmp_path):
    """Numba would keep it: it looks only at the file that a compiled function stands in."""
    package, folder = tmp_path / "gossamer", tmp_path / "compiled"
    folder.mkdir()
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "below.py").write_text("x = 1")
    (package / "kernels.py").write_text("from gossamer.below import x")
    (package / "other.py").write_text("")
    names = ["kernels.run-3.py311.nbi", "kernels.run-3.py311.1.nbc", "other.run-3.py311.nbi"]
    for name in names:
        (folder / name).write_text("")
    tree = SourceTree(package)
    recorded = [
        (str(package / f"{m}.py"), str(folder), tree.digest(package / f"{m}.py"))
        for m in ("kernels", "other")
    ]
    warmup._forget_outdated(SourceTree(package), recorded)
    assert sorted(p.name for p in folder.iterdir()) == sorted(names)
    (package / "below.py").write_text("x = 2")
    warmup._forget_outdated(SourceTree(package), recorded)
    assert [p.name for p in folder.iterdir()] == ["other.run-3.py311.nbi"]
