"""Which code a number depends on: found by following imports, and seen to change with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gossamer as gs
from gossamer.fingerprint import SourceTree

PACKAGE = Path(gs.__file__).parent
CONVERGENCE = "paper/figures/figure_2_convergence.py"
EVALUATION = "paper/shared/policy.py"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package in a folder of its own, where files can be edited."""
    place = tmp_path_factory.mktemp("source") / "gossamer"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def digest_after(copy, edited, module):
    """The digest of a module before a file is edited, and after."""
    before = SourceTree(copy).digest(copy / module)
    path = copy / edited
    text = path.read_text()
    path.write_text(text + "\n# a remark\n")
    try:
        return before, SourceTree(copy).digest(copy / module)
    finally:
        path.write_text(text)


@pytest.mark.parametrize(
    ("edited", "module"),
    [
        (CONVERGENCE, CONVERGENCE),
        ("numerics/philox.py", CONVERGENCE),
        ("numerics/vectors.py", CONVERGENCE),
        ("numerics/__init__.py", CONVERGENCE),
        ("checks.py", CONVERGENCE),
        ("paper/__init__.py", CONVERGENCE),
        ("paper/shared/complexity.py", "paper/figures/figure_3_larger_accuracies.py"),
        ("numerics/philox.py", EVALUATION),
        ("applications/policy/evaluation.py", EVALUATION),
    ],
)
@pytest.mark.slow
def test_editing_what_is_imported_changes_the_digest(copy, edited, module):
    before, after = digest_after(copy, edited, module)
    assert before != after


@pytest.mark.parametrize(
    ("edited", "module"),
    [
        ("agents/agent.py", CONVERGENCE),
        ("cli/core.py", CONVERGENCE),
        ("__init__.py", CONVERGENCE),
        ("paper/pipeline/report.py", CONVERGENCE),
        ("applications/policy/evaluation.py", CONVERGENCE),
        ("paper/figures/figure_3_larger_accuracies.py", CONVERGENCE),
        ("agents/agent.py", EVALUATION),
    ],
)
@pytest.mark.slow
def test_editing_anything_else_does_not(copy, edited, module):
    before, after = digest_after(copy, edited, module)
    assert before == after


@pytest.mark.slow
def test_keys_of_real_pieces_follow_the_code(tmp_path):
    """Each piece's key, asked for in a process of its own, before and after an edit deep below."""
    shutil.copytree(PACKAGE, tmp_path / "gossamer", ignore=shutil.ignore_patterns("__pycache__"))
    show = (
        "from gossamer.paper.registry import FIGURES; from gossamer.paper.pipeline.settings import Settings\n"
        "for f in FIGURES:\n    for p in f.pieces(Settings.quick()): print(p.name, p.key)"
    )

    def keys():
        done = subprocess.run(
            [sys.executable, "-c", show],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(line.split() for line in done.stdout.splitlines())

    first = keys()
    with (tmp_path / "gossamer/applications/linear/estimation.py").open("a") as stream:
        stream.write("# a remark\n")
    second = keys()
    changed = {name for name in first if first[name] != second[name]}
    assert {name for name in first if name.startswith("linear-estimation")} <= changed
    assert not any(name.startswith(("convergence", "samples", "star", "networks")) for name in changed)


def found(folder, start):
    package = folder / "gossamer"
    return {p.relative_to(folder).as_posix() for p in SourceTree(package).reachable(folder / start)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from gossamer.a import f", {"gossamer/a.py"}),
        ("import gossamer.a", {"gossamer/a.py"}),
        ("from gossamer import a", {"gossamer/a.py"}),
        ("from gossamer import __version__", set()),
        ("from gossamer.room import x", {"gossamer/room/__init__.py", "gossamer/room/x.py"}),
        ("from gossamer.room import name", {"gossamer/room/__init__.py"}),
        ("from gossamer.room.x import name", {"gossamer/room/__init__.py", "gossamer/room/x.py"}),
        ("def later():\n    from gossamer.a import f", {"gossamer/a.py"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from gossamer.a import f", set()),
        (
            "import typing\nif typing.TYPE_CHECKING:\n    from gossamer.a import f\nelse:\n    import gossamer.b",
            {"gossamer/b.py", "gossamer/a.py"},  # b imports a
        ),
        ("import numpy, a", set()),
        (
            "from gossamer import Something",  # imported on first use, from who knows where
            {f"gossamer/{n}.py" for n in ("a", "b", "room/__init__", "room/x", "room/y")},
        ),
        (
            "from gossamer.room.y import g",
            {"gossamer/room/__init__.py", "gossamer/room/y.py", "gossamer/room/x.py"},
        ),
    ],
)
def test_every_form_of_import_is_followed(tmp_path, text, expected):
    files = {
        "gossamer/__init__.py": "__version__ = '1'\ndef __getattr__(name): ...",
        "gossamer/a.py": "f = 1",
        "gossamer/b.py": "from .a import f",
        "gossamer/room/__init__.py": "name = 1",
        "gossamer/room/x.py": "",
        "gossamer/room/y.py": "from . import x",
        "start.py": text,
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert found(tmp_path, "start.py") == {"start.py", *expected}


def test_sources_beside_a_compiled_module_count(tmp_path):
    (tmp_path / "gossamer").mkdir()
    for name, text in {
        "fast.py": "",
        "fast.pyx": "",
        "fast.pxd": "",
        "slow.py": "from . import fast",
    }.items():
        (tmp_path / "gossamer" / name).write_text(text)
    assert found(tmp_path, "gossamer/slow.py") == {
        f"gossamer/{name}" for name in ("fast.py", "fast.pyx", "fast.pxd", "slow.py")
    }
