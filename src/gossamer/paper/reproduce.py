"""The whole reproduction: run or read the pieces, draw the figures, judge the claims, all into one folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gossamer.errors import InvalidInput, OutputError, nearest
from gossamer.paper.pipeline import report
from gossamer.paper.pipeline.cache import PieceCache
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.report import Judged, Times
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.run import run_pieces
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.registry import FIGURES


@dataclass(frozen=True)
class Reproduction:
    """What came out: the page, the claims, the times, and the rows of every figure."""

    page: Path
    judged: list[Judged]
    times: Times
    results: dict[str, Results]


class Watcher(Protocol):
    """What `reproduce` reports to a progress display."""

    def begin(self, pieces: Sequence[Piece]) -> None:
        """These pieces are needed."""

    def done(self, piece: Piece, fresh: bool) -> None:
        """One of them is there: computed now, or read from disk."""

    def stage(self, text: str) -> None:
        """What comes after the pieces."""


def choose(names: Sequence[str] | None) -> list[Figure]:
    """The figures with these names, in the order of the report; all of them for None."""
    if not names:
        return list(FIGURES)
    known = [figure.name for figure in FIGURES]
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"there is no figure {name!r}{nearest(name, known)}; the figures are {', '.join(known)}"
            )
    return [figure for figure in FIGURES if figure.name in names]


def reproduce(
    settings: Settings,
    out: Path,
    figures: Sequence[str] | None = None,
    *,
    backend: str = "threading",
    jobs: int = -1,
    address: str | None = None,
    watcher: Watcher | None = None,
) -> Reproduction:
    """Run what is missing, then write figures, numbers, claims and the page into `out`.

    After an interrupt, call it again: it continues with the pieces that are not in `out`/pieces yet.
    """
    started = time.perf_counter()
    chosen = choose(figures)
    cache = PieceCache(out / "pieces")
    keys: dict[str, list[str]] = {}
    pieces: dict[str, Piece] = {}
    for figure in chosen:
        parts = {piece.key: piece for piece in figure.pieces(settings)}
        keys[figure.name] = list(parts)
        pieces |= parts
    if watcher:
        watcher.begin(list(pieces.values()))
    fresh: set[str] = set()

    def done(piece: Piece, computed: bool) -> None:
        if computed:
            fresh.add(piece.key)
        if watcher:
            watcher.done(piece, computed)

    finished = run_pieces(
        list(pieces.values()), cache, backend=backend, jobs=jobs, address=address, done=done
    )
    results = {name: Results(row for key in own for row in finished[key][0]) for name, own in keys.items()}
    try:
        drawing = time.perf_counter()
        for figure in chosen:
            if watcher:
                watcher.stage(f"drawing figure {figure.name}")
            report.draw(figure, results[figure.name], settings, out / "figures")
        drawn = time.perf_counter() - drawing
        judged = report.judge(chosen, results, settings)
        report.write_numbers(Results(row for key in pieces for row in finished[key][0]), out / "numbers")
        report.write_claims(judged, out / "claims.csv")
        split = _split(pieces.values(), {key: seconds for key, (_, seconds) in finished.items()})
        cores = os.cpu_count() if jobs == -1 else jobs
        times = Times(
            time.perf_counter() - started, {**split, "drawing": drawn}, len(fresh), len(pieces) - len(fresh),
            f"{backend}, {cores} jobs",
        )  # fmt: skip
        page = report.write_page(chosen, results, judged, settings, times, out)
    except OSError as error:
        raise OutputError(
            f"the report could not be written to {out} ({error.strerror}); free some space or choose another folder"
        ) from error
    return Reproduction(page, judged, times, results)


def _split(pieces: Iterable[Piece], seconds: dict[str, float]) -> dict[str, float]:
    """Seconds of work by kind of piece."""
    split: dict[str, float] = {}
    for piece in pieces:
        split[piece.kind] = split.get(piece.kind, 0.0) + seconds[piece.key]
    return split
