"""Who computes: threads, processes, or the workers of a Dask cluster, all through joblib."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import joblib

from gossamer import checks
from gossamer.errors import InvalidInput, require

BACKENDS = ("threads", "processes", "dask")

SECONDS_PER_BATCH = 1.0
"""What a batch should take: long beside the work of a scheduler, short beside the patience of its owner."""

Work = TypeVar("Work")
Outcome = TypeVar("Outcome")


class Batches(Iterator[list[Work]]):
    """Work cut into pieces: small ones first, then as many at a time as the measured speed allows."""

    def __init__(self, work: Sequence[Work]) -> None:
        self._work = work
        self._next = 0
        self._size = 1

    def __next__(self) -> list[Work]:
        batch = list(self._work[self._next : self._next + self._size])
        if not batch:
            raise StopIteration
        self._next += len(batch)
        return batch

    def learn(self, count: int, seconds: float) -> None:
        """This many took so long; batches at most double from one to the next."""
        fitting = int(SECONDS_PER_BATCH * count / max(seconds, 1e-6))
        self._size = max(1, min(fitting, 2 * max(count, self._size)))


def compute(
    function: Callable[[list[Work]], Outcome],
    work: Sequence[Work],
    *,
    backend: str = "threads",
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[Outcome]:
    """Yield function(batch) for all work, in whatever order it is finished."""
    checks.choice("backend", backend, BACKENDS)
    if address is not None and backend != "dask":
        raise InvalidInput(
            f"is that of a Dask scheduler, so backend must be 'dask', got {backend!r}", parameter="address"
        )
    if workers is not None:
        checks.whole_number("workers", workers, least=1)
        if address is not None:
            raise InvalidInput(
                "must be left out with an address: the scheduler there has its own", parameter="workers"
            )
    return _outcomes(function, work, backend, workers, address)


def _outcomes(
    function: Callable[[list[Work]], Outcome],
    work: Sequence[Work],
    backend: str,
    workers: int | None,
    address: str | None,
) -> Iterator[Outcome]:
    batches = Batches(work)
    with ExitStack() as stack:
        count = _enter(stack, backend, workers, address)
        parallel = joblib.Parallel(n_jobs=count, return_as="generator_unordered", batch_size=1)
        tasks = (joblib.delayed(_timed)(function, batch) for batch in batches)
        for outcome, seconds, size in parallel(tasks):
            batches.learn(size, seconds)
            yield outcome


def _enter(stack: ExitStack, backend: str, workers: int | None, address: str | None) -> int:
    """Make `backend` joblib's own for a while; return how many workers there are."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = workers or cores
    if backend == "threads":
        stack.enter_context(joblib.parallel_config("threading"))
    elif backend == "processes":
        share = max(1, cores // count)  # of the cores, so that the engines' own threads do not compete
        stack.enter_context(joblib.parallel_config("loky", inner_max_num_threads=share))
    else:
        client = stack.enter_context(dask_client(address, count))
        stack.enter_context(joblib.parallel_config("dask", client=client, wait_for_workers_timeout=30))
        count = sum(client.nthreads().values())
    return count


def dask_client(address: str | None, workers: int | None = None) -> Any:
    """A client of the Dask cluster at this address, or of one of our own, whose page is for this machine alone."""
    distributed: Any = require("distributed", "dask")
    if address is None:
        client = distributed.Client(n_workers=workers, dashboard_address="127.0.0.1:0")
        client.run(_leave_interrupts)
        return client
    try:
        return distributed.Client(address)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"no Dask scheduler answers at {address!r} ({error}); start one with `dask scheduler`, "
            "or leave the address out for a local cluster"
        ) from error


def _leave_interrupts() -> None:
    """A worker of ours leaves Ctrl-C to us, who end it, instead of dying aloud."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def carry_along(modules: Iterable[ModuleType]) -> None:
    """Let workers get these modules with their work: they may not find the files of a user."""
    found = {module.__name__: module for module in modules}
    found.pop("__main__", None)  # it travels anyway
    # The picklers of joblib's processes and of Dask.
    for name in ("joblib.externals.cloudpickle", "cloudpickle"):
        with suppress(ImportError):
            pickler = import_module(name)
            for module in found.values():
                pickler.register_pickle_by_value(module)


def _timed(function: Callable[[list[Work]], Outcome], batch: list[Work]) -> tuple[Outcome, float, int]:
    start = time.perf_counter()
    return function(batch), time.perf_counter() - start, len(batch)
