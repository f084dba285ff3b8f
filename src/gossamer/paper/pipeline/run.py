"""Run pieces of work: read the finished ones from the store, compute the others, and store each as it finishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import numba
from threadpoolctl import threadpool_limits

from gossamer.comparison.backends import compute, threads_must_take_turns
from gossamer.comparison.store import Store
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import COLUMNS, Results, Row


class Finished(NamedTuple):
    """The rows of a piece, and how many seconds it took to compute them."""

    rows: list[Row]
    seconds: float


def run_pieces(
    pieces: Sequence[Piece],
    store: Store,
    *,
    backend: str = "threads",
    workers: int | None = None,
    address: str | None = None,
    done: Callable[[Piece, bool], None] = lambda piece, fresh: None,
) -> dict[str, Finished]:
    """Return all pieces by key. `done` is called for each, and told whether it was computed now."""
    results: dict[str, Finished] = {}
    missing: dict[str, Piece] = {}
    for piece in {piece.key: piece for piece in pieces}.values():
        stored = store.read(piece.key)
        if stored is None:
            missing[piece.key] = piece
        else:
            rows = [
                {name: value for name, value in zip(COLUMNS, row, strict=True) if value is not None}
                for row in stored.rows
            ]
            results[piece.key] = Finished(rows, stored.metadata["seconds"])
            done(piece, False)
    # The longest first, so that no core ends up alone with a long piece.
    order = sorted(missing.values(), key=lambda piece: -piece.weight)
    alone = workers == 1 or (backend == "threads" and threads_must_take_turns())
    work = partial(_compute, alone=alone)
    # Matrices are small here: with one piece per core, BLAS threads only wait for each other (60 times slower).
    with (
        threadpool_limits(1, user_api="blas"),
        closing(compute(work, order, backend=backend, workers=workers, address=address)) as batches,
    ):
        for batch in batches:
            for key, finished in batch.items():
                about = {"piece": missing[key].identity, "seconds": finished.seconds}
                store.write(key, list(Results(finished.rows).records()), about)
            results |= batch
            for key in batch:
                done(missing[key], True)
    return results


def _compute(pieces: Sequence[Piece], alone: bool) -> dict[str, Finished]:
    """Run pieces one after the other, with one thread unless they run alone: every core has pieces of its own."""
    results = {}
    threads = numba.get_num_threads()
    threadpool_limits(1, user_api="blas")  # again, because this may be another process
    for piece in pieces:
        started = time.perf_counter()
        try:
            if not alone:
                numba.set_num_threads(1)
            rows = piece.work(**piece.settings)
        finally:
            numba.set_num_threads(threads)
        results[piece.key] = Finished(rows, time.perf_counter() - started)
    return results
