"""The whole way: pieces, figures, report, command line; an interrupt and what follows."""

from __future__ import annotations

import csv
import html
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from tests.support.commands import invoke
from tests.support.small_runs import TINY

import gossamer as gs
from gossamer.paper import reproduce
from gossamer.paper.pipeline.report import PAPER, _math
from gossamer.paper.pipeline.results import COLUMNS
from gossamer.paper.pipeline.thresholds import THRESHOLDS
from gossamer.paper.registry import FIGURES


def command(*arguments):
    return invoke("reproduce", *arguments)


@pytest.mark.slow
def test_command_writes_everything_into_one_folder(tmp_path):
    tiny = [
        "--trials",
        "4",
        "--star-agents",
        "9,16,25",
        "--seed",
        "7",
        "--out",
        str(tmp_path),
        "--workers",
        "1",
    ]
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
    assert html.escape(PAPER) in page
    assert page.count("Holds if: ") == len(claims)
    assert re.search(r"<b>1</b> claim (holds|does not hold)|<b>[02-9]</b> claims (hold|do not hold)", page)
    assert "T</i> = √<i>N</i> rounds on stars" in page
    assert re.search(r"^drawing figure 5$", result.output, re.MULTILINE)  # where there is no terminal
    assert "numpy" in page
    assert "1 computed, 0 read from disk" in page
    # Again: nothing is computed. With another setting: everything is.
    assert "0 pieces computed, 1 read from disk" in command("--figure", "5", *tiny).output
    assert "1 pieces computed, 0 read from disk" in command("--figure", "5", *tiny, "--trials", "5").output


def test_command_names_what_is_wrong():
    with pytest.raises(gs.InvalidInput, match=r"no figure '99'.*the figures are 1, 2, 3"):
        invoke("reproduce", "--figure", 99, catch=False)
    with pytest.raises(gs.InvalidInput, match="--stages must be numbers separated by commas"):
        invoke("reproduce", "--stages", "3;4", catch=False)


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
def test_interrupted_reproduction_resumes_and_ends_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "draw_without_rendering", lambda self: None)  # pictures are not compared
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: path.write_bytes(b""))
    chosen = ["1", "5"]
    whole = reproduce.reproduce(TINY, tmp_path / "whole", chosen, workers=2)
    first = Interrupt(after=3)
    with pytest.raises(KeyboardInterrupt):
        reproduce.reproduce(TINY, tmp_path / "parts", chosen, workers=2, watcher=first)
    assert not (tmp_path / "parts" / "report.html").exists()
    second = Interrupt()
    resumed = reproduce.reproduce(TINY, tmp_path / "parts", chosen, workers=2, watcher=second)
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
    result = reproduce.reproduce(TINY, tmp_path, ["7", "4"], workers=2, watcher=watcher)
    assert list(result.results) == ["4", "7"]
    names = [piece.key for figure in FIGURES if figure.name in ("4", "7") for piece in figure.pieces(TINY)]
    assert watcher.computed == len(set(names))
    page = html.unescape(result.page.read_text())
    assert page.count("data:image/png") == 2
    assert "These are not the paper's sizes" in page


def test_the_report_names_the_paper_and_sets_its_formulas():
    cited = " ".join((Path(__file__).parents[2] / "CITATION.cff").read_text().split())
    authors, title = PAPER.split(": ", 1)
    assert title in cited
    for name in authors.split(", "):
        given, family = name.split()
        assert f"family-names: {family} given-names: {given}" in cited
    assert _math("falls like T^(-1/2) & κ^0.52, T^−3.9") == (
        "falls like <i>T</i><sup>−1/2</sup> &amp; <i>κ</i><sup>0.52</sup>, <i>T</i><sup>−3.9</sup>"
    )
    assert _math("SSTM_sc at T/2 ≥ k*: T's") == (
        "SSTM<sub>sc</sub> at <i>T</i>/2 ≥ <i>k</i>*: <i>T</i>&#x27;s"
    )
    assert _math("at every ε; 2σ²/T, λ₂ and (1 − γ)^(-3/2)") == (
        "at every <i>ε</i>; 2<i>σ</i>²/<i>T</i>, <i>λ</i>₂ and (1 − <i>γ</i>)<sup>−3/2</sup>"
    )
    assert _math("1.7e6 times, below 1e−12") == "1.7 × 10<sup>6</sup> times, below 10<sup>−12</sup>"
    assert _math("A center") == "A center"
    assert set(THRESHOLDS) == {claim.name for figure in FIGURES for claim in figure.claims}
