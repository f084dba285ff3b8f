"""The whole reproduction: compute or read the pieces, draw the figures and judge the claims, all into one folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gossamer.comparison.store import Store
from gossamer.errors import InvalidInput, OutputError, nearest
from gossamer.paper.pipeline import report
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.report import Judged, Times
from gossamer.paper.pipeline.results import COLUMNS, Results
from gossamer.paper.pipeline.run import run_pieces
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.registry import FIGURES


@dataclass(frozen=True)
class Reproduction:
    """The result: the report, the judged claims, the times, and the rows of every figure."""

    page: Path
    judged: list[Judged]
    times: Times
    results: dict[str, Results]


class Watcher(Protocol):
    """A progress display, which `reproduce` calls."""

    def begin(self, pieces: Sequence[Piece]) -> None:
        """Called once, with all pieces that are needed."""

    def done(self, piece: Piece, fresh: bool) -> None:
        """Called when a piece was computed (`fresh`) or read from the store."""

    def stage(self, text: str) -> None:
        """Called with a description of each step after the pieces."""


def choose(names: Sequence[str] | None) -> list[Figure]:
    """Return the figures with these names, in the order of the report, or all figures."""
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
    backend: str = "threads",
    workers: int | None = None,
    address: str | None = None,
    watcher: Watcher | None = None,
) -> Reproduction:
    """Compute the missing pieces, then write figures, numbers, claims and the report into `out`.

    After an interrupt, the next call continues with the pieces that are not in `out`/pieces yet.
    """
    started = time.perf_counter()
    chosen = choose(figures)
    store = Store(out / "pieces", COLUMNS)
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
        list(pieces.values()), store, backend=backend, workers=workers, address=address, done=done
    )
    results = {name: Results(row for key in own for row in finished[key].rows) for name, own in keys.items()}
    try:
        drawing = time.perf_counter()
        for figure in chosen:
            if watcher:
                watcher.stage(f"drawing figure {figure.name}")
            report.draw(figure, results[figure.name], settings, out / "figures")
        drawn = time.perf_counter() - drawing
        judged = report.judge(chosen, results, settings)
        report.write_numbers(Results(row for key in pieces for row in finished[key].rows), out / "numbers")
        report.write_claims(judged, out / "claims.csv")
        split = _split(pieces.values(), {key: piece.seconds for key, piece in finished.items()})
        times = Times(
            time.perf_counter() - started, {**split, "drawing": drawn}, len(fresh), len(pieces) - len(fresh),
            f"{backend}, {workers or os.cpu_count()} workers" if address is None else f"{backend} at {address}",
        )  # fmt: skip
        page = report.write_page(chosen, results, judged, settings, times, out)
    except OSError as error:
        raise OutputError(
            f"the report could not be written to {out} ({error.strerror}); free some space or choose another folder"
        ) from error
    return Reproduction(page, judged, times, results)


def _split(pieces: Iterable[Piece], seconds: dict[str, float]) -> dict[str, float]:
    """Return the seconds of work by kind of piece."""
    split: dict[str, float] = {}
    for piece in pieces:
        split[piece.kind] = split.get(piece.kind, 0.0) + seconds[piece.key]
    return split
