"""How commands are made: help pages that load nothing heavy, and errors that name flags."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len
from tests.support.commands import invoke
from tests.support.terminal import Terminal

import gossamer as gs
from gossamer.cli import COMMANDS, main, options
from gossamer.cli.commands import FlagCommand
from gossamer.cli.fleet import EXAMPLES_OF, fleet_app
from gossamer.errors import InvalidInput, OutputError
from gossamer.fingerprint import full_version
from gossamer.networks import reading

HEAVY = ("numba", "scipy", "networkx", "numpy", "matplotlib", "joblib", "pandas", "dask")
PAGES = [
    ["--help"],
    ["--version"],
    [],
    *([name, "--help"] for name in COMMANDS),
    *(["fleet", name, "--help"] for name in EXAMPLES_OF),
    *(["store", name, "--help"] for name in ("check", "backup", "restore")),
]


@pytest.mark.slow
def test_help_pages_load_nothing_heavy():
    # One interpreter for all pages: what one of them loads is there for the test at the end to find.
    code = f"""if True:
        import contextlib, io, json, sys
        from gossamer.cli import main
        found = {{}}
        for words in {PAGES}:
            sys.argv = ["gossamer", *words]
            page = io.StringIO()
            try:
                with contextlib.redirect_stdout(page), contextlib.redirect_stderr(page):
                    main()
            except SystemExit:
                pass
            loaded = [name for name in {HEAVY} if name in sys.modules]
            found[" ".join(words)] = [loaded, len(page.getvalue())]
        print(json.dumps(found))
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(gs.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    found = json.loads(done.stdout)
    assert {page: loaded for page, (loaded, _) in found.items() if loaded} == {}, done.stderr
    assert all(length > (300 if page != "--version" else 4) for page, (_, length) in found.items())


@pytest.mark.slow
@pytest.mark.parametrize("words", [page for page in PAGES if page and page != ["--version"]])
def test_every_command_has_help(words):
    result = invoke(*words[:-1], "-h")
    assert result.exit_code == 0, result.output
    assert "Usage: gossamer" in result.output or "Usage: root" in result.output
    assert " ".join(words[:-1]) in result.output
    assert not re.search(r"<(bool|str|int|float|path|list)|list\[", result.output)  # no types of Python


@pytest.mark.parametrize("words", [page[:-1] for page in PAGES if page and page != ["--version"]])
def test_help_is_whole_on_narrow_screens_and_ends_with_examples_in_one_line(words, monkeypatch):
    for width in (60, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        page = invoke(*words, "--help").output
        assert "…" not in page
        assert max(map(cell_len, page.splitlines())) <= width
    _, _, examples = page.partition("Examples:")
    lines = examples.split("\n")
    assert all(line.startswith(f" gossamer {' '.join(words)}") for line in lines if line.strip())
    assert len([line for line in lines if line.strip()]) >= 2


def test_help_breaks_paragraphs_only_where_the_screen_ends(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = "The compiled code is kept on disk; run this after installing and after an edit, as `make setup` does."
    assert text in invoke("warmup", "--help").output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_command_says(name):
    command = COMMANDS[name].load(name)
    assert command.help.splitlines()[0] == COMMANDS[name].summary
    assert command.name == name


def test_a_misspelled_command_is_refused_with_a_suggestion():
    result = invoke("simulte")
    assert result.exit_code == 2
    assert "simulate" in result.output


def test_help_lists_the_networks_that_can_be_read():
    assert options.EXAMPLES == reading.EXAMPLES
    for example in options.EXAMPLES.split(", "):
        assert reading.parse_network(example).agents >= 20


def test_the_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gossamer", "--version"])
    main()
    assert capsys.readouterr().out.strip() == full_version()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is a device of Linux")
@pytest.mark.parametrize("words", ["--version", "--help", "sources", "fleet edges --topology path:4"])
def test_a_full_disk_and_a_closed_pipe_print_no_traceback(words, tmp_path):
    shell = Terminal(tmp_path)
    done = shell.ended(f"gossamer {words} > /dev/full")
    assert (done.returncode, done.stderr) == (3, "error: the output: No space left on device\n")
    done = shell.ended(f"gossamer {words} | head -c 1 > /dev/null")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (InvalidInput(parameter="metrics_port", required="at most 9"), "--metrics-port must be at most 9"),
        (InvalidInput(": no unit in '3'", parameter="every"), "--every: no unit in '3'"),
        (InvalidInput("takes a time", parameter="for"), "--for takes a time"),
        (InvalidInput("every agent must have a name"), "every agent must have a name"),
        (InvalidInput("must be connected", parameter="graph"), "graph must be connected"),
        (InvalidInput("must be", parameter="metrics_ports"), "metrics_ports must be"),
        (InvalidInput("must be a time", parameter="rounds.every"), "--every must be a time"),
        (InvalidInput("must be a time", parameter="agents[0].every"), "--every must be a time"),
        (InvalidInput("fleet.toml: rounds.every must be a time"), "fleet.toml: rounds.every must be a time"),
        (InvalidInput(), ""),
    ],
)  # fmt: skip
def test_the_parameter_of_an_error_becomes_its_flag(error, shown):
    app = typer.Typer()

    @app.command(cls=FlagCommand)
    def go(
        graph: str = typer.Argument("x"),
        metrics_port: int = 1,
        every: str = "",
        for_: str = typer.Option("", "--for"),
    ) -> None:
        raise error

    assert str(invoke(app=app).exception) == shown


def test_an_error_keeps_its_kind_and_its_cause():
    app = typer.Typer()

    @app.command(cls=FlagCommand)
    def go(out: str = "x") -> None:
        raise OutputError(parameter="out", required="a folder", got="x") from KeyError("why")

    result = invoke(app=app)
    assert isinstance(result.exception, OutputError)
    assert str(result.exception) == "--out must be a folder, got x"
    assert isinstance(result.exception.__cause__, KeyError)


def test_commands_translate_and_nested_commands_do(tmp_path):
    result = invoke("exact", "path:4", "--spread", -1)
    assert isinstance(result.exception, InvalidInput)
    assert str(result.exception) == "--spread must be a finite number of at least 0, got -1.0"
    result = invoke("plan", "path:4", "--most-rounds", 0)
    assert str(result.exception) == "--most-rounds must be a whole number of at least 1, got 0"
    out = tmp_path / "fleet"
    words = ["fleet", "init", "--topology", "path:2", "--out", str(out), "--weights", "heavy"]
    result = invoke(*words)
    assert str(result.exception).startswith("--weights must be")


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_on_help_pages_are_valid(name):
    for example in COMMANDS[name].examples:
        COMMANDS[name].load(name).make_context(name, shlex.split(example))


@pytest.mark.parametrize("name", EXAMPLES_OF)
def test_examples_of_commands_of_fleets_are_valid(name):
    commands = typer.main.get_command(fleet_app).commands
    assert sorted(commands) == sorted(EXAMPLES_OF)
    for example in EXAMPLES_OF[name]:
        commands[name].make_context(name, shlex.split(example))


def test_only_the_top_level_installs_completion():
    assert "--install-completion" in invoke("--help").output
    assert "--install-completion" not in invoke("fleet", "--help").output + invoke("store", "--help").output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "place", "completions"),
    [
        ("gossamer tu", 1, ["tune"]),
        ("gossamer exact gri", 2, ["grid:10x10"]),
        ("gossamer exact grid:3x3 -m anyt", 4, ["anytime-sda"]),
        ("gossamer learn grid:3x3 -m anyt", 4, ["anytime-sda"]),
        ("gossamer estimate grid:3x3 --methods anyt", 4, ["anytime-sda"]),
        ("gossamer evaluate-policy cartpole --network gri", 4, ["grid:10x10"]),
        ("gossamer fleet init --topology gri", 4, ["grid:10x10"]),
        ("gossamer fleet init --method anyt", 4, ["anytime-sda"]),
        ("gossamer fleet edges --topology gri", 4, ["grid:10x10"]),
        ("gossamer exact mine", 2, []),  # then the shell completes files
        ("gossamer exact /", 2, []),
        ("gossamer exact grid:3x3 -m ./mi", 4, []),
    ],
)
def test_shells_complete_commands_networks_and_methods(words, place, completions, tmp_path):
    (tmp_path / "mine.py").touch()
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(place), "_GOSSAMER_COMPLETE": "complete_bash"}
    program = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['gossamer']; from gossamer.cli import main; main()",
    ]
    done = subprocess.run(
        program, cwd=tmp_path, env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == completions


def test_the_last_of_several_methods_is_completed():
    assert options.complete_methods("sda d-m") == ["sda d-masg"]


@pytest.mark.slow
def test_bash_completes_networks_and_files_on_a_terminal(tmp_path):
    shell = Terminal(tmp_path)
    program = tmp_path / "bin" / "gossamer"  # named as what is completed
    program.write_text(f"#!{sys.executable}\nfrom gossamer.cli import main\nmain()\n")
    (tmp_path / "roads of gold.txt").touch()
    (tmp_path / "folder").mkdir()
    # The function prints its words; completion calls the program of this name.
    shell.environment |= {"PS1": "", "TERM": "dumb", "_GOSSAMER_COMPLETE": "source_bash"}
    (tmp_path / "setup.sh").write_text(
        shell.run("gossamer") + "\ngossamer() { printf '<%s>' \"$@\"; echo; }\nunset _GOSSAMER_COMPLETE\n"
    )
    ours, theirs = pty.openpty()
    words = ["bash", "--noprofile", "--rcfile", "setup.sh", "-i"]
    options = {"cwd": tmp_path, "env": shell.environment, "start_new_session": True}
    running = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, **options)
    os.close(theirs)
    try:
        for typed in ("gri\t", "roa\t", "fol\tx", f"{tmp_path}/roa\t"):
            os.write(ours, f"gossamer exact {typed}\n".encode())
        os.write(ours, b"exit\n")
        screen = b""
        with contextlib.suppress(OSError):  # what Linux raises when the other end is closed
            while part := os.read(ours, 4096):
                screen += part
    finally:
        running.kill()
        running.wait()
        os.close(ours)
    for found in ("grid:10x10", "roads of gold.txt", "folder/x", f"{tmp_path}/roads of gold.txt"):
        assert f"<exact><{found}>" in screen.decode(), screen.decode()
