"""What a user installs: a wheel that works away from the sources, and a project whose files agree with each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import gossamer as gs
from gossamer.fingerprint import full_version

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


def run(*words: object, cwd: Path, **changes: str) -> str:
    """Run a program without the sources on its path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | changes
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lint_commands() -> list[str]:
    """What `make lint` runs, without the folder of the programs."""
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    return [line.strip().removeprefix("$(BIN)/") for line in recipe[1].splitlines()]


def build(folder: Path) -> Path:
    """An sdist and a wheel, made from a copy of the sources as `make dist` makes them, on a machine without compiler.

    Compiling is left to `make setup`, which builds the same extensions, because it takes a while. So does making the
    wheel from the sdist, whose files are looked at instead.
    """
    for name in SOURCES:
        shutil.copy(ROOT / name, folder)
    left_out = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=left_out)
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--wheel", cwd=folder, CC="false")
    return folder / "dist"


def install(wheel: Path, place: Path) -> Path:
    """A fresh environment with the wheel; its dependencies are found where the running Python has them."""
    venv.create(place, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", place / "bin/python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=place)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(place / "bin/python", "-c", ask, cwd=place).strip())
    # After the environment's own packages, and without the links of an editable installation.
    shared = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (site / "dependencies.pth").write_text("\n".join(shared))
    return place / "bin"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("sources"))


def five_lines() -> tuple[str, str, str]:
    """The README's first example, and how the two numbers that it prints begin."""
    pattern = r"## Five lines\n+```python\n(.*?)```\n+prints `([\d.]+)\.\.\. ([\d.]+)\.\.\.`"
    example = re.search(pattern, README, re.DOTALL)
    assert example
    return example[1], example[2], example[3]


@pytest.mark.slow
@pytest.mark.xdist_group("packaging")
def test_what_is_built_can_be_installed_and_used(tmp_path, built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    check_archives(wheel, sdist)
    programs = install(wheel, tmp_path / "venv")
    assert run(programs / "gossamer", "--version", cwd=tmp_path).strip() == full_version()
    code = "import gossamer, importlib.metadata as m; print(gossamer.__file__, m.version('gossamer'))"
    place, version = run(programs / "python", "-c", code, cwd=tmp_path).split()
    assert Path(place).is_relative_to(tmp_path / "venv")
    assert version == gs.__version__
    code, *beginnings = five_lines()
    (tmp_path / "example.py").write_text(code)
    for number, beginning in zip(
        run(programs / "python", "example.py", cwd=tmp_path, NUMBA_DISABLE_JIT="1").split(),
        beginnings,
        strict=True,
    ):
        assert number.startswith(beginning)


@pytest.mark.slow
@pytest.mark.xdist_group("packaging")
def test_the_oldest_versions_that_are_claimed_run_the_five_lines(tmp_path, built):
    """With nothing but the hard dependencies, each in the oldest version that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    if f"{sys.version_info.major}.{sys.version_info.minor}" != oldest:
        pytest.skip(f"the oldest versions are those for Python {oldest}")
    wanted = [f"{requirement.replace('>=', '==')}.*" for requirement in project["dependencies"]]
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "-q"]
    try:
        run(*pip, "--no-compile", *wanted, cwd=tmp_path)
    except AssertionError as error:
        if re.search("connection|network|resolution", str(error), re.IGNORECASE):
            pytest.skip("the package index cannot be reached")
        raise
    (wheel,) = built.glob("*.whl")
    run(*pip, "--no-deps", wheel, cwd=tmp_path)
    code, *beginnings = five_lines()
    plot = "gs.exact('sda', net, obs, rounds=[5, 10]).plot()"
    (tmp_path / "example.py").write_text(
        f"{code}\ntry:\n    {plot}\nexcept gs.MissingExtra as error:\n    print(error)\n"
    )
    numbers, message = run(python, "example.py", cwd=tmp_path).splitlines()
    assert all(n.startswith(b) for n, b in zip(numbers.split(), beginnings, strict=True))
    assert message.endswith("run: pip install 'gossamer[plot]'")
    command = subprocess.run(
        [tmp_path / "venv/bin/gossamer", "network", "grid:3x3"], capture_output=True, text=True, timeout=60
    )
    assert command.returncode == 2
    assert "run: pip install 'gossamer[cli]'" in command.stderr


@pytest.mark.slow
def test_the_comparison_of_the_readme_runs(tmp_path):
    example = re.search(r"## Fifteen lines.*?```python\n(.*?)```", README, re.DOTALL)
    assert example
    assert len([line for line in example[1].splitlines() if line]) <= 15
    (tmp_path / "example.py").write_text(example[1])
    out = run(Path(sys.executable), "example.py", cwd=tmp_path)
    assert "karate club" in out
    assert "anytime-sda" in out
    assert (tmp_path / "comparison.png").stat().st_size > 10_000


def check_archives(wheel: Path, sdist: Path) -> None:
    """Both hold what the package reads at run time; the sdist also holds all that a wheel is made from."""
    needed = {"gossamer/__init__.pyi", "gossamer/py.typed"}
    needed |= {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*.template")}
    static = ROOT / "src/gossamer/dashboard/static"
    needed |= {p.relative_to(ROOT / "src").as_posix() for p in static.rglob("*") if p.is_file()}
    assert "gossamer/dashboard/static/vendor/uplot/LICENSE" in needed
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert needed <= names
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests")]
    with tarfile.open(sdist) as archive:
        kept = {name.partition("/")[2] for name in archive.getnames()}
    copied = sdist.parents[1] / "src/gossamer"
    sources = {p.relative_to(sdist.parents[1]).as_posix() for p in copied.rglob("*") if p.is_file()}
    assert sources | set(SOURCES) <= kept
    assert "src/gossamer/agents/round/numbers.pyx" in sources
    assert {f"src/{name}" for name in needed} <= sources


@pytest.mark.parametrize("program", ["chromium", "mosquitto"])
@pytest.mark.parametrize("user", [0, 1000])
def test_make_goes_on_where_a_program_is_missing(tmp_path, user, program):
    """Whether nobody may install one or the installation fails: a line says how, and nothing breaks."""
    if program == "mosquitto" and Path("/usr/sbin/mosquitto").exists():
        pytest.skip("Mosquitto is installed outside PATH")
    for name, line in (("id", f"echo {user}"), ("apt-get", "exit 100")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    make = shutil.which("make")
    said = run(make, "-s", "-f", ROOT / "Makefile", program, cwd=tmp_path, PATH=str(tmp_path))
    assert said.strip().endswith(f"apt-get install {program}")
    (tmp_path / program).symlink_to(tmp_path / "id")
    assert run(make, "-s", "-f", ROOT / "Makefile", program, cwd=tmp_path, PATH=str(tmp_path)) == ""


def test_make_help_names_every_target(tmp_path):
    targets = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    said = run(shutil.which("make"), "-s", "-f", ROOT / "Makefile", "help", cwd=tmp_path)
    assert re.findall(r"^  make (\w+)  +\w", said, re.MULTILINE) == targets[1].split()


@pytest.mark.parametrize("status", [0, 3])
def test_make_stops_with_the_status_of_pip(tmp_path, status):
    """Its output is piped, and a pipe has the status of its last command."""
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho Collecting numpy\necho no numpy >&2\nexit {status}\n")
    python.chmod(0o755)
    make = [shutil.which("make"), "-s", "-f", ROOT / "Makefile", ".venv/.ready"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0, (tmp_path / ".venv/.ready").exists()) == (status == 0, status == 0)
    assert ("no numpy" in done.stdout) == (status != 0)


def test_make_dist_builds_both_archives():
    assert "\n\t$(BIN)/python -m build --no-isolation\n" in (ROOT / "Makefile").read_text()


def test_pre_commit_runs_what_make_lint_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    assert [hook["entry"].removeprefix(".venv/bin/") for hook in hooks[0]["hooks"]] == lint_commands()
    for hook in hooks[0]["hooks"]:
        assert hook["entry"].startswith(".venv/bin/")
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)


def test_the_citation_names_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["title"] == "Gossamer"
    assert "version" not in citation  # it is written once, in the package
    assert citation["license"] == "Apache-2.0"
    paper = citation["preferred-citation"]
    assert paper["title"] in " ".join(README.split())
    assert [author["family-names"] for author in paper["authors"]] == ["Zhang", "Pananjady", "Romberg"]


def test_the_page_on_stability_lists_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (ROOT / "docs" / "stability.md").read_text().partition("| extra |")[2]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert set(project["optional-dependencies"]) - {"docs", "dev"} == listed
