"""The whole way: pieces, store, figures, report, command line; resuming, and never mixing settings."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import gossamer as gs
from gossamer.cli import build
from gossamer.paper import problem
from gossamer.paper.pipeline import reproduce, style
from gossamer.paper.pipeline.cache import COLUMNS, Piece, Store, Table
from gossamer.paper.pipeline.registry import FIGURES
from gossamer.paper.pipeline.report import judge
from gossamer.paper.pipeline.run import run_pieces
from gossamer.paper.pipeline.settings import Settings

TINY = Settings(
    agents=9,
    trials=16,
    draws=3,
    stages=(2, 3),
    large=(0.1, 0.05),
    small=(0.03, 0.02),
    star_agents=(9, 16, 25),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("pieces"))


def rows_of(figure, settings, store):
    results = run_pieces(figure.pieces(settings), store, jobs=1)
    return Table(row for piece in figure.pieces(settings) for row in results[piece.key][0])


@pytest.mark.parametrize(
    "figure",
    [pytest.param(f, id=f.name, marks=pytest.mark.slow if f.ours else ()) for f in FIGURES],
)
def test_figure_at_small_size(figure, store):
    table = rows_of(figure, TINY, store)
    assert np.all(np.isfinite(table.column("value")))
    with style.paper_style():
        drawn = figure.draw(table, TINY)
        drawn.savefig(io.BytesIO(), format="png")
    panels = [ax for ax in drawn.axes if ax.lines or ax.collections]
    assert len(panels) >= {"5": 1, "6": 10, "8": 3, "10": 3}.get(figure.name, 5)
    sentences = re.findall(r"[.!](?= [A-Z0-9]|$)", figure.explain(table, TINY))
    assert len(sentences) == 2
    judged = judge([figure], {figure.name: table}, TINY)
    assert all(np.isfinite([j.finding.value, j.finding.low, j.finding.high]).all() for j in judged)
    assert all(j.finding.measured and j.finding.reason for j in judged)


def test_simulations_agree_with_exact_errors(store):
    """Of the marks in Figures 2 and 5, most lie within four standard errors of their line (fixed seed)."""
    for figure in (FIGURES[1], FIGURES[4]):
        table = rows_of(figure, TINY, store)
        runs = table.where(source="simulation", quantity="total_error").sort(
            "graph", "method", "agents", "rounds"
        )
        keep = tuple(runs.distinct("method"))
        truth = table.where(source="exact", quantity="total_error", method=keep).sort(
            "graph", "method", "agents", "rounds"
        )
        error = (runs.column("high") - runs.column("low")) / 2 / problem.NORMAL_95
        off = np.abs(runs.column("value") - truth.column("value")) / error
        assert np.mean(off < 4) > 0.9


# -- the store ----------------------------------------------------------------------------------------------


CALLS = []


def work(size: int, label: str = "a"):
    CALLS.append((size, label))
    return [{"experiment": "test", "quantity": label, "value": float(k)} for k in range(size)]


def test_finished_pieces_are_read_back_and_not_computed_again(tmp_path):
    CALLS.clear()
    pieces = [Piece("one", work, {"size": 2}), Piece("two", work, {"size": 3})]
    first = run_pieces(pieces, Store(tmp_path), jobs=1)
    told = []
    again = run_pieces(
        pieces, Store(tmp_path), jobs=1, done=lambda piece, fresh: told.append((piece.name, fresh))
    )
    assert len(CALLS) == 2
    assert told == [("one", False), ("two", False)]
    assert {k: v[0] for k, v in first.items()} == {k: v[0] for k, v in again.items()}


def test_changed_setting_does_not_reuse_results(tmp_path):
    CALLS.clear()
    store = Store(tmp_path)
    run_pieces([Piece("one", work, {"size": 2, "label": "a"})], store, jobs=1)
    other = Piece("one", work, {"size": 2, "label": "b"})
    assert store.load(other) is None
    found = run_pieces([other], store, jobs=1)
    assert CALLS == [(2, "a"), (2, "b")]
    assert found[other.key][0][0]["quantity"] == "b"


def test_changed_code_or_schema_does_not_reuse_results(tmp_path, monkeypatch):
    store, piece = Store(tmp_path), Piece("one", work, {"size": 1})
    run_pieces([piece], store, jobs=1)
    assert store.load(piece) is not None
    monkeypatch.setattr("gossamer.paper.pipeline.cache._code", lambda module: "other")
    assert store.load(piece) is None
    monkeypatch.undo()
    monkeypatch.setattr("gossamer.paper.pipeline.cache.SCHEMA", 99)
    assert store.load(piece) is None


def test_file_under_the_right_name_with_other_settings_is_refused(tmp_path):
    store, piece, other = Store(tmp_path), Piece("one", work, {"size": 1}), Piece("one", work, {"size": 2})
    run_pieces([other], store, jobs=1)
    store.path(other).rename(store.path(piece))
    assert store.load(piece) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"identity": 1}'])
def test_damaged_file_is_computed_again(tmp_path, damage):
    CALLS.clear()
    store, piece = Store(tmp_path), Piece("one", work, {"size": 1})
    run_pieces([piece], store, jobs=1)
    store.path(piece).write_text(damage)
    run_pieces([piece], store, jobs=1)
    assert len(CALLS) == 2
    assert json.loads(store.path(piece).read_text())["rows"]


def test_interrupted_run_continues_with_what_is_missing(tmp_path):
    CALLS.clear()
    pieces = [Piece(f"p{k}", work, {"size": k}, weight=10 - k) for k in range(1, 6)]

    def interrupt(piece, fresh):
        if len(CALLS) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pieces(pieces, Store(tmp_path), jobs=1, done=interrupt)
    before = len(CALLS)
    assert before < 5
    run_pieces(pieces, Store(tmp_path), jobs=1)
    assert sorted(size for size, _ in CALLS[before:]) == [4, 5][-(5 - before) :]
    assert not list(tmp_path.glob("*.part"))


def test_shared_pieces_run_once(tmp_path):
    CALLS.clear()
    run_pieces([Piece("one", work, {"size": 1})] * 3, Store(tmp_path), jobs=1)
    assert len(CALLS) == 1


def test_unknown_column_is_an_error(tmp_path):
    with pytest.raises(LookupError, match=r"unknown columns \['color'\]"):
        Store(tmp_path).save(Piece("one", work), [{"color": 1}], 0.0)


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(gs.OutputError, match="choose another --out"):
        Store(tmp_path / "file" / "below")


def test_table_selects_sorts_and_reads():
    table = Table(
        [{"graph": g, "rounds": t, "value": 10 * i + t} for i, g in enumerate("ba") for t in (2, 1)]
    )
    assert table.where(graph="a").sort("rounds").column("value").tolist() == [11, 12]
    assert table.grid("graph", "rounds").tolist() == [[11, 12], [1, 2]]
    assert table.where(rounds=(1,)).distinct("graph") == ["b", "a"]
    with pytest.raises(LookupError, match="2 rows"):
        table.value(graph="a")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": 99}, "square number.*got 99; the nearest is 100"),
        ({"trials": 1}, "trials must be at least 2"),
        ({"spread": 0.0}, "spread must be a number above 0"),
        ({"stages": (1, 2)}, "stages needs two or more"),
        ({"large": (0.1,)}, "large needs two or more accuracies"),
        ({"star_agents": (3, 9)}, "star_agents needs two or more sizes"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(gs.InvalidInput, match=message):
        Settings(**changes)


def test_bad_backend(tmp_path):
    with pytest.raises(gs.InvalidInput, match="threading, loky, dask"):
        run_pieces([], Store(tmp_path), backend="ray")
    with pytest.raises(gs.InvalidInput, match="--address is for --backend dask"):
        run_pieces([], Store(tmp_path), address="tcp://127.0.0.1:1")


# -- the command and the report ---------------------------------------------------------------------------------


def command(*arguments):
    return CliRunner().invoke(build(), ["reproduce", *arguments])


@pytest.mark.slow
def test_command_writes_everything_into_one_folder(tmp_path):
    tiny = ["--trials", "4", "--star-agents", "9,16,25", "--seed", "7", "--out", str(tmp_path), "--jobs", "1"]
    result = command("--figure", "5", *tiny)
    assert result.exit_code == 0, result.output
    assert "1 pieces computed, 0 read from disk" in result.output
    for kind in ("png", "pdf"):
        assert (tmp_path / "figures" / f"figure-5.{kind}").stat().st_size > 1000
    assert b"/Type3" not in (tmp_path / "figures" / "figure-5.pdf").read_bytes()
    numbers = list(csv.DictReader((tmp_path / "numbers" / "star.csv").read_text().splitlines()))
    assert set(numbers[0]) == set(COLUMNS)
    assert {row["seed"] for row in numbers} == {"7"}
    assert {row["agents"] for row in numbers if row["quantity"] == "total_error"} == {"9", "16", "25"}
    claims = list(csv.DictReader((tmp_path / "claims.csv").read_text().splitlines()))
    assert [row["claim"] for row in claims] == [claim.name for claim in FIGURES[4].claims]
    page = (tmp_path / "report.html").read_text()
    assert page.index("<h2>Claims</h2>") < page.index("<h2>Figures</h2>")
    assert "data:image/png;base64," in page
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert "9, 16, 25" in page
    assert "numpy" in page
    assert "1 computed, 0 read from disk" in page
    # Again: nothing is computed. With another setting: everything is.
    assert "0 pieces computed, 1 read from disk" in command("--figure", "5", *tiny).output
    assert "1 pieces computed, 0 read from disk" in command("--figure", "5", *tiny, "--trials", "5").output


def test_command_names_what_is_wrong():
    with pytest.raises(gs.InvalidInput, match=r"no figure '99'.*there are 1, 2, 3"):
        CliRunner().invoke(build(), ["reproduce", "--figure", "99"], catch_exceptions=False)
    with pytest.raises(gs.InvalidInput, match="--stages takes numbers separated by commas"):
        CliRunner().invoke(build(), ["reproduce", "--stages", "3;4"], catch_exceptions=False)


class Interrupt:
    """Counts pieces; interrupts after `after` of them."""

    def __init__(self, after=10**9):
        self.after, self.computed, self.read = after, 0, 0

    def begin(self, pieces):
        self.needed = len(pieces)

    def done(self, piece, fresh):
        self.computed, self.read = self.computed + fresh, self.read + (not fresh)
        if self.computed == self.after:
            raise KeyboardInterrupt

    def stage(self, text):
        pass


@pytest.mark.slow
def test_interrupted_reproduction_resumes_and_ends_the_same(tmp_path):
    chosen = ["1", "5"]
    whole = reproduce.reproduce(TINY, tmp_path / "whole", chosen, jobs=2)
    first = Interrupt(after=3)
    with pytest.raises(KeyboardInterrupt):
        reproduce.reproduce(TINY, tmp_path / "parts", chosen, jobs=2, watcher=first)
    assert not (tmp_path / "parts" / "report.html").exists()
    second = Interrupt()
    resumed = reproduce.reproduce(TINY, tmp_path / "parts", chosen, jobs=2, watcher=second)
    assert second.read >= 3
    assert second.read + second.computed == second.needed
    assert [j.finding for j in resumed.judged] == [j.finding for j in whole.judged]
    for name in ("networks", "star"):
        one, other = (
            (tmp_path / part / "numbers" / f"{name}.csv").read_text() for part in ("whole", "parts")
        )
        assert one == other


@pytest.mark.slow
def test_figures_share_pieces_and_one_page(tmp_path):
    watcher = Interrupt()
    result = reproduce.reproduce(TINY, tmp_path, ["7", "4"], jobs=2, watcher=watcher)
    assert list(result.tables) == ["4", "7"]
    names = [piece.key for figure in FIGURES if figure.name in ("4", "7") for piece in figure.pieces(TINY)]
    assert watcher.computed == len(set(names))
    page = html.unescape(result.page.read_text())
    assert page.count("data:image/png") == 2
    assert "These are not the paper's sizes" in page


@pytest.mark.slow
def test_processes_and_a_dask_cluster_give_the_same_numbers(tmp_path):
    distributed = pytest.importorskip("distributed")
    pieces = FIGURES[4].pieces(TINY) + FIGURES[0].pieces(TINY)
    here = run_pieces(pieces, Store(tmp_path / "threading"), jobs=1)
    loky = run_pieces(pieces, Store(tmp_path / "loky"), backend="loky", jobs=2)
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address=None,
    )
    with cluster:
        remote = run_pieces(
            pieces, Store(tmp_path / "dask"), backend="dask", address=cluster.scheduler_address, jobs=2
        )
    for other in (loky, remote):
        assert {key: rows for key, (rows, _) in here.items()} == {
            key: rows for key, (rows, _) in other.items()
        }
