"""The public names: one list, all of them there, none of them heavy until it is used."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import networkx as nx
import pytest

import gossamer as gs

ROOT = Path(__file__).parents[1]
HEAVY = ("numpy", "scipy", "numba", "networkx", "matplotlib", "typer", "rich")


def python(code: str) -> str:
    """What a fresh interpreter prints that runs `code` with this package."""
    found = os.pathsep.join(filter(None, [str(Path(gs.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": found},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", gs.__all__)
def test_every_public_name_is_there(name):
    assert getattr(gs, name) is not None
    assert name in dir(gs)


def test_the_list_is_that_of_the_stub():
    stub = ast.parse(Path(gs.__file__).with_suffix(".pyi").read_text())
    names = [
        (node.module, alias.name, alias.asname)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(name for _, name, _ in names) == gs.__all__
    for module, name, exported in names:
        assert name == exported, f"{name} would be private to a type checker; write `{name} as {name}`"
        if module is not None:
            assert getattr(gs, name) is getattr(import_module(f"gossamer.{module}"), name)


def test_what_callers_hold_in_their_hands_is_public():
    results = {"Exact", "Simulation", "FaultySimulation", "Plan", "Plans", "Tuned"}
    rooms = {"agents", "applications", "faults", "methods", "networks", "theory"}
    assert results | rooms <= set(gs.__all__)


@pytest.mark.slow
def test_a_star_import_brings_the_list_and_no_more():
    code = "from gossamer import *; print(*sorted(n for n in globals() if not n.startswith('_')))"
    assert python(code).split() == gs.__all__


@pytest.mark.slow
def test_rooms_need_no_second_import():
    python("import gossamer as gs; gs.applications.Alone, gs.agents.Limits, gs.methods.Table, gs.faults.Loss")


def test_importing_the_package_loads_nothing_heavy():
    code = f"import sys, gossamer; dir(gossamer); print(*(m for m in {HEAVY} if m in sys.modules))"
    assert python(code).split() == []


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Netwrk"):
        _ = gs.Netwrk


def _pages() -> list[Path]:
    """The Markdown pages of the site that are written by hand."""
    made = {"_build", "_generated", "auto_gallery"}
    return [
        page for page in ROOT.glob("docs/**/*.md") if not made & set(page.relative_to(ROOT / "docs").parts)
    ]


def test_names_in_the_documentation_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *_pages()]
    for page in pages:
        for path in re.findall(r"\bgs((?:\.[A-Za-z_]\w*)+)", page.read_text()):
            thing: object = gs
            for part in path.strip(".").split("."):
                # Attributes of results (gs.exact(...).mse) are not names of the package; a call ends the path.
                assert hasattr(thing, part), f"{page.name} names gs{path}"
                thing = getattr(thing, part)


def _imported(text: str) -> list[tuple[str, str]]:
    """What a text imports of this package, as (module, name); the name is empty for a whole module."""
    code = r"^[ >.]*from (gossamer[\w.]*) import (\([^)]*\)|[^#\n]*)"
    names = [
        (module, name.split(" as ")[0].strip())
        for module, listed in re.findall(code, text, re.MULTILINE)
        for name in listed.strip("()").split(",")
        if name.strip()
    ]
    return names + [
        (module, "") for module in re.findall(r"^[ >.]*import (gossamer[\w.]*)", text, re.MULTILINE)
    ]


def _is_public(module: str, name: str) -> bool:
    """Whether a name is among those that docs/stability.md calls public."""
    if module == "gossamer":
        return not name or name in gs.__all__
    room = module.removeprefix("gossamer.")
    return room in {*gs.__all__, "sklearn"} and name in import_module(module).__all__


SHOWN = [
    *ROOT.glob("examples/*.py"),
    *ROOT.glob("docs/gallery/**/*.py"),
    *ROOT.glob("docs/**/*.ipynb"),
    *_pages(),
    ROOT / "README.md",
]


def test_examples_and_pages_import_public_names_only():
    private = {
        (path.relative_to(ROOT).as_posix(), *imported)
        for path in SHOWN
        for imported in _imported(path.read_text())
        if not _is_public(*imported)
    }
    assert not private


def test_examples_in_docstrings_import_public_names_only():
    rooms = [gs, *(room for name in gs.__all__ if inspect.ismodule(room := getattr(gs, name)))]
    private = {
        (name, *imported)
        for room in rooms
        for name in room.__all__
        for imported in _imported(inspect.getdoc(getattr(room, name)) or "")
        if not _is_public(*imported)
    }
    assert not private


def test_what_imports_are_found_and_which_are_public():
    text = ">>> from gossamer.agents.agent import Agent\nfrom gossamer import (\n    exact,\n)\nimport gossamer as gs\n"
    found = _imported(text)
    assert found == [("gossamer.agents.agent", "Agent"), ("gossamer", "exact"), ("gossamer", "")]
    assert [_is_public(*imported) for imported in found] == [False, True, True]


def test_the_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "gossamer.__version__"}
    assert metadata.version("gossamer") == gs.__version__


@pytest.mark.slow
def test_a_type_checker_sees_through_the_stub(tmp_path):
    (tmp_path / "user.py").write_text(
        "import gossamer as gs\n"
        "net = gs.Network.grid(3, 3)\n"
        "obs = gs.Gaussian([0.0] * 9)\n"
        "reveal_type(net)\n"
        "reveal_type(gs.exact(gs.SDA(), net, obs, 10))\n"
        "reveal_type(gs.theory.k_star(net))\n"
        "reveal_type(gs.simulate('dsg', net, obs, 10, faults=gs.faults.Loss(0.1)).total_error)\n"
        "reveal_type(gs.simulate('dsg', net, obs, [5, 10], faults=gs.faults.Loss(0.1)).mse)\n"
        "gs.nothing\n"
    )
    known = ROOT / ".mypy_cache"  # what `make lint` has found out, in a copy that nobody else writes to
    if known.is_dir():
        shutil.copytree(known, tmp_path / "cache")
    words = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "user.py")]
    environment = {**os.environ, "MYPYPATH": "src"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert '"gossamer.networks.network.Network"' in done.stdout
    assert "gossamer.engines.exact.result.Exact[" in done.stdout
    assert 'Revealed type is "int"' in done.stdout.replace("builtins.", "")
    assert 'Revealed type is "float"' in done.stdout.replace("builtins.", "")
    assert 'Revealed type is "numpy.ndarray[' in done.stdout
    assert done.stdout.count("error:") == 1, done.stdout
    assert 'Module has no attribute "nothing"' in done.stdout


def test_a_misspelled_name_is_corrected():
    with pytest.raises(
        AttributeError, match=r"gossamer has no attribute 'Gausian' \(did you mean 'Gaussian'\?\)"
    ):
        gs.Gausian  # noqa: B018


def test_a_graph_is_not_a_gossip_matrix():
    with pytest.raises(gs.InvalidInput, match=r"gossip must be a sparse gossip matrix, .* gs.Network.of"):
        gs.Network(nx.path_graph(4))


@pytest.mark.parametrize("std", ["1", ["1", "2"]])
def test_text_is_not_a_number(std):
    with pytest.raises(gs.InvalidInput, match="std must be numbers"):
        gs.Gaussian([1.0, 2.0], std=std)
