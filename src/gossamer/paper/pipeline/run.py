"""Run pieces of work: what is on disk is read, the rest runs in parallel through joblib and is stored at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import joblib
import numba
from threadpoolctl import threadpool_limits

from gossamer.comparison.backends import dask_client
from gossamer.errors import InvalidInput
from gossamer.numerics.compiling import parallel
from gossamer.paper.pipeline.cache import PieceCache
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Row

BACKENDS = ("threading", "loky", "dask")


def run_pieces(
    pieces: Sequence[Piece],
    cache: PieceCache,
    *,
    backend: str = "threading",
    jobs: int = -1,
    address: str | None = None,
    done: Callable[[Piece, bool], None] = lambda piece, fresh: None,
) -> dict[str, tuple[list[Row], float]]:
    """Return rows and seconds of every piece by key. `done` is told of each, and whether it was computed now."""
    if backend not in BACKENDS:
        raise InvalidInput(parameter="backend", required=f"one of {', '.join(BACKENDS)}", got=repr(backend))
    if address is not None and backend != "dask":
        raise InvalidInput(f"needs the backend dask, got {backend!r}", parameter="address")
    results: dict[str, tuple[list[Row], float]] = {}
    missing: dict[str, Piece] = {}
    for piece in pieces:
        if piece.key in results or piece.key in missing:
            continue
        stored = cache.load(piece)
        if stored is None:
            missing[piece.key] = piece
        else:
            results[piece.key] = stored
            done(piece, False)
    if not missing:
        return results
    if backend == "threading" and one_caller_at_a_time():
        jobs = 1
    # The longest first, so that no core ends up alone with a long piece.
    order = sorted(missing.values(), key=lambda piece: -piece.weight)
    # Matrices here are small: BLAS threads beside one piece per core only wait for each other (60 times slower).
    with threadpool_limits(1, user_api="blas"), _pool(backend, jobs, address) as pool:
        finished = pool(joblib.delayed(_work)(piece.key, piece, jobs != 1) for piece in order)
        try:
            for key, rows, seconds in finished:
                cache.save(missing[key], rows, seconds)
                results[key] = rows, seconds
                done(missing[key], True)
        finally:  # after an interrupt, joblib warns about the pieces that it cancels; that is what was asked for
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                finished.close()
    return results


def _work(key: str, piece: Piece, beside_others: bool) -> tuple[str, list[Row], float]:
    """One piece; beside other pieces it keeps to one thread, since every core has its own piece."""
    threads = numba.get_num_threads()
    threadpool_limits(1, user_api="blas")  # again, because this may be another process
    started = time.perf_counter()
    try:
        if beside_others:
            numba.set_num_threads(1)
        rows = piece.work(**piece.settings)
    finally:
        numba.set_num_threads(threads)
    return key, rows, time.perf_counter() - started


def one_caller_at_a_time() -> bool:
    """Whether Numba has nothing but its own pool of threads here, which aborts if two threads call it at once."""
    _nothing(1)
    return bool(numba.threading_layer() == "workqueue")  # type: ignore[attr-defined, unused-ignore]


@parallel
def _nothing(n: int) -> int:
    total = 0
    for k in numba.prange(n):
        total += k
    return total


@contextmanager
def _pool(backend: str, jobs: int, address: str | None) -> Iterator[Any]:
    if backend != "dask":
        yield joblib.Parallel(n_jobs=jobs, backend=backend, return_as="generator_unordered")
        return
    with dask_client(address), joblib.parallel_config(backend="dask"):
        yield joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
