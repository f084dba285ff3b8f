"""The folder of results: figures, numbers, claims, and the report."""

from __future__ import annotations

import base64
import csv
import html
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template

from gossamer import __version__
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import Claim, Finding, Verdict
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.results import Results, write_csv
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.pipeline.thresholds import THRESHOLDS

PAPER = (
    "Sheng Zhang, Ashwin Pananjady, Justin Romberg: A Dual Accelerated Method for Online Stochastic Distributed "
    "Averaging: From Consensus to Decentralized Policy Evaluation"
)
"""As in CITATION.cff; a test compares the two."""

PACKAGES = ("numpy", "scipy", "numba", "networkx", "matplotlib", "joblib")


@dataclass(frozen=True)
class Judged:
    """A claim, its finding, and the figure that it belongs to."""

    claim: Claim
    finding: Finding
    figure: str


@dataclass(frozen=True)
class Times:
    """Seconds of this run, and of the pieces when they were computed, by kind of work."""

    wall: float
    pieces: dict[str, float]
    computed: int
    reused: int
    workers: str


def judge(figures: Sequence[Figure], results: dict[str, Results], settings: Settings) -> list[Judged]:
    """Return every claim that the rows of these figures can decide."""
    judged = []
    for figure in figures:
        for claim in figure.claims:
            finding = claim.judge(results[figure.name], settings)
            if finding is not None:
                judged.append(Judged(claim, finding, figure.name))
    return judged


def draw(figure: Figure, results: Results, settings: Settings, folder: Path) -> None:
    """Write a figure as PNG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    with style.paper_style():
        style.save(figure.draw(results, settings), folder / f"figure-{figure.name}")


def write_numbers(results: Results, folder: Path) -> None:
    """Write one tidy CSV file per experiment."""
    folder.mkdir(parents=True, exist_ok=True)
    for experiment in results.distinct("experiment"):
        write_csv(folder / f"{experiment.replace(' ', '-')}.csv", results.where(experiment=experiment))


def write_claims(judged: Sequence[Judged], path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(
            ["claim", "place", "sentence", "verdict", "value", "low", "high", "measured", "reason", "figure"]
        )
        for j in judged:
            f = j.finding
            writer.writerow(
                [j.claim.name, j.claim.section, j.claim.sentence, f.verdict.value, f.value, f.low, f.high,
                 f.measured, f.reason, j.figure]
            )  # fmt: skip


def write_page(
    figures: Sequence[Figure],
    results: dict[str, Results],
    judged: Sequence[Judged],
    settings: Settings,
    times: Times,
    folder: Path,
) -> Path:
    """Write report.html as one self-contained file."""
    template = Template((Path(__file__).parent / "report.html.template").read_text())
    counts = {v: sum(j.finding.verdict is v for j in judged) for v in Verdict}
    page = template.substitute(
        title="The paper, reproduced" if settings.is_paper else "The paper's experiments, at other sizes",
        paper=html.escape(PAPER),
        lead=html.escape(_lead(judged, settings)),
        counts="".join(f'<li class="{_css(v)}">{_counted(v, n)}</li>' for v, n in counts.items() if judged),
        claims="\n".join(_claim_row(j) for j in judged),
        figures="\n".join(_figure(figure, results[figure.name], settings, folder) for figure in figures),
        settings="".join(
            _pair(name.replace("_", " "), _plain(value)) for name, value in asdict(settings).items()
        ),
        versions="".join(_pair(name, value) for name, value in versions().items()),
        times="".join(_pair(name, value) for name, value in _times(times).items()),
    )
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def versions() -> dict[str, str]:
    by_name = {"gossamer": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            by_name[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**by_name, "system": f"{platform.system()} {platform.machine()}"}


def _lead(judged: Sequence[Judged], settings: Settings) -> str:
    text = (
        f"Every number below was computed: exactly, over {settings.draws} draws of means and random graphs, and by "
        f"simulation with up to {settings.trials} runs per point. "
    )
    if not judged:
        return text + "The chosen figures do not judge any claim of the paper."
    if not settings.is_paper:
        return text + "These are not the paper's sizes, so the verdicts apply only to these settings."
    return text + "The verdicts follow from the numbers by stated thresholds; none is written by hand."


def _counted(verdict: Verdict, count: int) -> str:
    """Return "1 claim holds", "17 claims hold"."""
    words = verdict.value if count == 1 else verdict.value.replace("holds", "hold").replace("does", "do")
    return f"<b>{count}</b> claim{'' if count == 1 else 's'} {words}"


def _math(text: str) -> str:
    """Return text as HTML in which powers, indices and letters are set as in a formula."""
    text = html.escape(text)
    power = re.compile(r"\^\(([^)]+)\)|\^([−-]?[\d.]*\d)")
    text = power.sub(lambda m: f"<sup>{(m[1] or m[2]).replace('-', '−')}</sup>", text)
    text = re.sub(
        r"\b(\d[\d.]*)e([−-]?\d+)\b",
        lambda m: f"{'' if m[1] == '1' else m[1] + ' × '}10<sup>{m[2]}</sup>",
        text,
    )
    text = re.sub(r"(?<=\w)_(\w+)", r"<sub>\1</sub>", text)
    return re.sub(r"(?<![A-Za-zÀ-ɏ&-])([TKNkεκλμσγ])(?![A-Za-zÀ-ɏ])", r"<i>\1</i>", text)


def _css(verdict: Verdict) -> str:
    return {Verdict.HOLDS: "holds", Verdict.CAVEAT: "caveat", Verdict.FAILS: "fails"}[verdict]


def _claim_row(judged: Judged) -> str:
    claim, finding = judged.claim, judged.finding
    mark = {Verdict.HOLDS: "✓", Verdict.CAVEAT: "◐", Verdict.FAILS: "✗"}[finding.verdict]
    return (
        f'<tr class="{_css(finding.verdict)}"><td data-label="Claim"><p>{_math(claim.sentence)}</p>'
        f"<small>{html.escape(claim.section)} · "
        f'<a href="#figure-{judged.figure}">Figure {judged.figure}</a></small></td>'
        f'<td data-label="Measured">{_math(finding.measured)}</td>'
        f'<td data-label="Verdict"><span class="verdict">{mark} {finding.verdict.value}</span>'
        f"<small>{_math(finding.reason)}</small>"
        f"<small>Holds if: {_math(THRESHOLDS[claim.name])}.</small></td></tr>"
    )


def _figure(figure: Figure, results: Results, settings: Settings, folder: Path) -> str:
    stem = f"figures/figure-{figure.name}"
    picture = base64.b64encode((folder / f"{stem}.png").read_bytes()).decode()
    ours = " <em>ours</em>" if figure.ours else ""
    return (
        f'<figure id="figure-{figure.name}"><h3>Figure {figure.name}: {_math(figure.title)}{ours}</h3>'
        f'<div class="picture"><img alt="{html.escape(figure.title)}" src="data:image/png;base64,{picture}"></div>'
        f"<figcaption>{_math(figure.explain(results, settings))} "
        f'<small><a href="{stem}.pdf">PDF</a> <a href="{stem}.png">PNG</a></small></figcaption></figure>'
    )


def _pair(name: str, value: str) -> str:
    return f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>"


def _plain(value: object) -> str:
    return ", ".join(f"{v:g}" for v in value) if isinstance(value, tuple) else f"{value:g}"


def _times(times: Times) -> dict[str, str]:
    split = {name: f"{seconds:.1f} s" for name, seconds in times.pieces.items()}
    return {
        "this run": f"{times.wall:.1f} s, {times.workers}",
        "pieces": f"{times.computed} computed, {times.reused} read from disk",
        **{f"work: {name}": seconds for name, seconds in split.items()},
    }
