"""Which code a number depends on: found by following imports, and seen to change with them."""

from __future__ import annotations

from pathlib import Path

import pytest

import gossamer as gs
from gossamer import fingerprint
from gossamer.fingerprint import SourceTree
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.registry import FIGURES

PACKAGE = Path(gs.__file__).parent
CONVERGENCE = "paper/figures/figure_2_convergence.py"
EVALUATION = "paper/shared/policy.py"


REMARK = b"\n# a remark\n"


@pytest.fixture(scope="module")
def tree():
    """The package, parsed once for all tests."""
    return SourceTree(PACKAGE)


def edited_tree(tree, edited):
    """The same files, one of them with a remark at its end."""
    path, after = PACKAGE / edited, SourceTree(PACKAGE)
    after._imports = {known: files for known, files in tree._imports.items() if known != path}
    after._contents = {**tree._contents, path: path.read_bytes() + REMARK}
    return after


def digest_after(tree, edited, module):
    """The digest of a module before a file is edited, and after."""
    return tree.digest(PACKAGE / module), edited_tree(tree, edited).digest(PACKAGE / module)


def test_a_tree_reads_the_files_as_they_are(tmp_path):
    (tmp_path / "gossamer").mkdir()
    (tmp_path / "gossamer/a.py").write_text("")
    (tmp_path / "gossamer/b.py").write_text("from gossamer import a")

    def digest():
        return SourceTree(tmp_path / "gossamer").digest(tmp_path / "gossamer/b.py")

    before = digest()
    assert digest() == before
    (tmp_path / "gossamer/a.py").write_bytes(REMARK)
    assert digest() != before


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
def test_editing_what_is_imported_changes_the_digest(tree, edited, module):
    before, after = digest_after(tree, edited, module)
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
def test_editing_anything_else_does_not(tree, edited, module):
    before, after = digest_after(tree, edited, module)
    assert before == after


@pytest.mark.slow
def test_keys_of_real_pieces_follow_the_code(tree, monkeypatch):
    def keys(files):
        monkeypatch.setattr(fingerprint, "_tree", lambda: files)
        fingerprint.fingerprint.cache_clear()
        return {piece.name: piece.key for figure in FIGURES for piece in figure.pieces(Settings.quick())}

    try:
        first, second = keys(tree), keys(edited_tree(tree, "applications/linear/estimation.py"))
    finally:
        fingerprint.fingerprint.cache_clear()
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
