"""No text of a user is markup, emoji or a formula, wherever it is shown."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tests.support.commands import invoke, run

from gossamer import progress
from gossamer.cli import main, output, reproduce
from gossamer.cli.fleet_table import fleet_table
from gossamer.cli.output import write_csv
from gossamer.cli.warmup import Steps

NASTY = "10:100:10 [kg] [/s] [bold]x[/bold] :smile:"


def test_headings_titles_cells_and_notes(capsys):
    output.emit([{NASTY: NASTY, "b": 1}], title=NASTY, notes=[NASTY], headings={"b": f"b {NASTY}"})
    assert capsys.readouterr().out.count(NASTY) == 5


def test_a_console_takes_plain_strings_as_they_are(capsys):
    table = Table(NASTY, title=NASTY)
    table.add_row(NASTY)
    output.console(width=200).print(table)
    output.console(width=200).print(NASTY)
    assert capsys.readouterr().out.count(NASTY) == 4


def test_every_console_is_made_in_one_place():
    modules = Path(output.__file__).parent.glob("*.py")
    found = {path.name for path in modules if re.search(r"\bConsole\(|\bTextColumn\(.\{", path.read_text())}
    assert found == {"output.py"}


@pytest.fixture
def edges(tmp_path, monkeypatch):
    """A network in a file with a name that could be markup, in a folder with such a name."""
    folder = tmp_path / "10:100:10 [red]"
    (folder / "[").mkdir(parents=True)  # so that there is a path [/b]
    monkeypatch.chdir(folder)
    (folder / "[kg] :100: $x_{.txt").write_text("a b\nb c\n")
    return "[kg] :100: $x_{.txt"


@pytest.mark.slow
def test_names_of_files_and_the_paths_written(edges):
    name = edges.removesuffix(".txt")
    assert name in run("network", edges, "--plot", "[/b] 10:100:10.png")
    for words in (("exact", "-T", 5), ("compare", "-T", "5,9"), ("compare", "-T", 5)):
        plot, table = f"[/b] {words[0]} 10:100:10 $x_{{.png", f"[/b]{words[0]} :100:[b].csv"
        found = run(words[0], edges, *words[1:], "-m", "sda", "--plot", plot, "--csv", table)
        assert name in found
        assert f"written to {plot}" in found
        assert f"written to {table}" in found
        assert Path(plot).read_bytes().startswith(b"\x89PNG")


def test_columns_of_data(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text(
        "rate [/s],[kg],10:100:10,y\n" + "".join(f"{k},{k % 3},{k**2},{k}\n" for k in range(1, 21))
    )
    found = run("estimate", "path:4", "--data", file, "--rounds", 300, "-m", "sda")
    lines = [line.strip() for line in found.splitlines()]
    for name in ("rate [/s]", "[kg]", "10:100:10"):
        assert any(line.startswith(f"{name} ") for line in lines), found


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["compare", "path[/b]:5"], "path[/b]:5"),
        (["compare", "path:5", "--rounds", "[/x]"], "'[/x]'"),
        (["compare", "path:5", "--rounds", "10:100:10"], "'10:100:10'"),
        (["compare", "path:5", "-m", "sda:[/x]=:100:"], "'[/x]'"),
        (["exact", "path:5", "--data", "10:100:10[/b].csv"], "10:100:10[/b].csv cannot be read"),
        (["exact", "path:5", "--csv", "[/b]/10:100:10.csv"], "[/b]/10:100:10.csv cannot be written"),
        (["exact", "path:5", "--rou[/b]nds", "3"], "No such option: --rou[/b]nds"),
        (["[/b]:100:"], "No such command '[/b]:100:'"),
        (["exact", "path:5", "[/b]:100:"], "[/b]:100:"),
        (["simulate", "path:5", "--trials", "[/b]"], "--trials"),
        (["fleet", "status", "[/b]:100:.toml"], "[/b]:100:.toml"),
        (["reproduce", "--stages", "[/b]:100:"], "'[/b]:100:'"),
    ],
)
def test_mistakes_are_quoted_as_they_were_typed(words, quoted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gossamer", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (2, 3)
    assert quoted in " ".join(capsys.readouterr().err.split())


def test_bars_show_what_is_done_as_it_is(monkeypatch):
    page = io.StringIO()
    with Progress(output.task_text(), console=Console(file=page, force_terminal=True, width=200)) as bar:
        bar.add_task(NASTY)
    assert NASTY in page.getvalue()
    page = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda **_: Console(file=page, force_terminal=True, width=200)
    )
    with progress.progress_bar(True, NASTY, 3) as advance:
        advance(3)
    assert NASTY in page.getvalue()
    page = io.StringIO()
    with Steps(Console(file=page, force_terminal=True, width=200)) as steps:
        steps.begin([NASTY])
    assert NASTY in page.getvalue()


def test_fleets_and_reproductions(capsys):
    output.console(width=300).print(fleet_table(NASTY, []))
    assert NASTY in capsys.readouterr().out
    verdict = SimpleNamespace(value="holds")
    judged = SimpleNamespace(
        claim=SimpleNamespace(sentence="[b]1[/b]"),
        finding=SimpleNamespace(measured="[/c]", verdict=verdict),
    )
    times = SimpleNamespace(computed=1, reused=2, wall=3.0)
    reproduce._show(SimpleNamespace(judged=[judged], times=times, page=NASTY))
    found = capsys.readouterr().out
    assert "[b]1[/b]" in found
    assert "[/c]" in found
    assert f"Open {NASTY}" in found


@pytest.mark.slow
def test_in_json_mode_the_path_is_confirmed_on_standard_error(tmp_path):
    words = [
        "network",
        "path:5",
        "--json",
        "--plot",
        str(tmp_path / "n.png"),
        "--csv",
        str(tmp_path / "n.csv"),
    ]
    result = invoke(*words)
    assert json.loads(result.stdout)[0]["agents"] == 5
    for name in ("n.png", "n.csv"):
        assert f"written to {tmp_path / name}" in result.stderr
    words = ["evaluate-policy", "path:4", "--json", "-T", "20", "--trials", "2", "--no-rivals", "-m", "sda"]
    result = invoke(*words, "--plot", tmp_path / "p.png")
    assert json.loads(result.stdout)[0]["rounds"] == 20
    assert f"written to {tmp_path / 'p.png'}" in result.stderr


def test_no_cell_of_an_exported_table_is_a_formula(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_csv(
        [{"name": "=cmd|' /C calc'!A1", "loss": -0.5, "note": "-"}, {"name": "@x", "loss": 1, "note": "a"}],
        path,
    )
    assert path.read_text().splitlines() == ["name,loss,note", "'=cmd|' /C calc'!A1,-0.5,-", "'@x,1,a"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_every_start_of_a_formula_is_quoted_in_cells_and_headers(tmp_path: Path, start: str) -> None:
    path = tmp_path / "runs.csv"
    write_csv([{f"{start}1+1": f"{start}2"}], path)
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [[f"'{start}1+1"], [f"'{start}2"]]
