"""Rules of the house that no linter knows: one owner per name, functions one can call, files one can read."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import networkx as nx
import pytest

import gossamer as gs

ROOT = Path(__file__).parents[1]
PACKAGE = Path(gs.__file__).parent

MOST_LINES = 500
MOST_POSITIONAL = 8

pytestmark = pytest.mark.xdist_group("architecture")  # one worker, so that the package is parsed once


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its path inside it."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in paths}


def outside_cli() -> Iterator[tuple[str, ast.Module]]:
    return ((path, tree) for path, tree in modules().items() if not path.startswith("cli/"))


@pytest.mark.slow
def test_a_class_name_has_one_owner():
    owners = defaultdict(list)
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                owners[node.name].append(path)
    assert {name for name, paths in owners.items() if len(paths) > 1} == set()


@pytest.mark.slow
def test_functions_take_few_positional_parameters():
    """Public functions of the command line are exempt: their parameters are the flags."""
    found = set()
    for path, tree in outside_cli():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                if len(names) - (names[:1] in (["self"], ["cls"])) > MOST_POSITIONAL:
                    found.add(f"{path}:{node.name}")
    assert found == set()


def test_files_are_short():
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pyi")]
    sources += (ROOT / "tests").rglob("*.py")
    long = {p.relative_to(ROOT).as_posix() for p in sources if len(p.read_text().splitlines()) > MOST_LINES}
    assert long == set()


TESTS = ROOT / "tests"

NO_MODULES = {"chaos", "docs", "examples", "support"}
"""Folders of tests that are of no module."""

WHOLE = {"architecture", "deploy", "moving", "packaging", "processes", "public", "wrong_input"}
"""Test modules of the whole project."""


def test_tests_mirror_the_source_tree():
    """A folder of tests is that of a package, and at the top a test module is that of a module or package."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        here = path.relative_to(TESTS)
        name = here.stem.removeprefix("test_")
        if here.parts[0] in NO_MODULES or (len(here.parts) == 1 and name in WHOLE):
            continue
        place = PACKAGE / here.parent if len(here.parts) > 1 else PACKAGE / name
        if not place.is_dir() and not place.with_suffix(".py").exists():
            found.add(here.as_posix())
    assert found == set()


@pytest.mark.slow
def test_test_modules_share_through_support_alone():
    found = set()
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
                names = [*(node.module or "").split("."), *(name.name for name in node.names)]
                if any(name == "conftest" or name.startswith("test_") for name in names):
                    found.add(f"{path.relative_to(TESTS)}: {node.module}")
    assert found == set()


@pytest.mark.slow
def test_private_names_stay_in_their_package():
    """`_name` may be imported by a module of the same folder, and a private module by its folder alone."""
    found = set()
    for path, tree in modules().items():
        here = ("gossamer", *Path(path).parts[:-1])
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("gossamer"):
                continue
            target = tuple((node.module or "").split("."))
            folder = target if PACKAGE.joinpath(*target[1:]).is_dir() else target[:-1]
            private = [a.name for a in node.names if re.match(r"_(?!_)", a.name)]
            private += [part for part in target if part.startswith("_")]
            if private and folder != here:
                found.add(f"{path}: {', '.join(private)} from {node.module}")
    assert found == set()


@pytest.mark.slow
def test_flags_are_named_in_the_command_line_alone():
    """Lower rooms name parameters; the command line translates them (see `cli/commands.py`)."""
    found = set()
    for path, tree in outside_cli():
        documentation = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in documentation
            ):
                found |= {
                    f"{path}: {flag}" for flag in re.findall(r"(?:^|[\s(`])(--[a-z][\w-]*)", node.value)
                }
    assert found == set()


def test_no_modules_import_each_other():
    """Imports inside functions count too: a cycle that is deferred is still a cycle."""
    graph = grimp.build_graph("gossamer", exclude_type_checking_imports=True)
    imports = nx.DiGraph()
    for module in graph.modules:
        # A package imports the modules whose names it offers, and they are part of it.
        for imported in graph.find_modules_directly_imported_by(module):
            if not module.startswith(f"{imported}.") and not imported.startswith(f"{module}."):
                imports.add_edge(module, imported)
    assert [sorted(found) for found in nx.strongly_connected_components(imports) if len(found) > 1] == []


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    words = [str(Path(sys.executable).parent / "lint-imports"), "--config", str(folder / "pyproject.toml")]
    environment = {"PYTHONPATH": str(folder / "src"), "PATH": "", "HOME": str(folder)}
    return subprocess.run(
        [*words, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def copy(tmp_path):
    """The package's sources where a test may spoil them."""
    only = shutil.ignore_patterns("*.so", "__pycache__", "*.pyc", "*.egg-info")
    shutil.copytree(PACKAGE, tmp_path / "src" / "gossamer", ignore=only)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_import_contract_knows_every_module(copy):
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout
    (copy / "src/gossamer/novelty.py").write_text("")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "novelty" in done.stdout


@pytest.mark.slow
def test_the_import_contract_notices_an_import_that_points_the_wrong_way(copy):
    with (copy / "src/gossamer/errors.py").open("a") as file:
        file.write("\nfrom gossamer import checks\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "gossamer.errors is not allowed to import gossamer.checks" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_agents_cannot_import_what_costs_memory(copy):
    with (copy / "src/gossamer/agents/config/settings.py").open("a") as file:
        file.write("\nimport scipy\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "scipy" in done.stdout
