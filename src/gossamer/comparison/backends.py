"""Where points of a comparison and pieces of the paper are computed: threads, processes or a Dask cluster."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import joblib
import numba

from gossamer import checks
from gossamer.errors import InvalidInput, require
from gossamer.numerics.compiling import parallel

if TYPE_CHECKING:
    from distributed import Client

BACKENDS = ("threads", "processes", "dask")

MOST_WORKERS = 10_000

SECONDS_PER_BATCH = 1.0
"""Target duration of a batch in seconds: long compared with the overhead of a scheduler, short for the user."""

Work = TypeVar("Work")
Outcome = TypeVar("Outcome")


class Batches(Iterator[list[Work]]):
    """Work divided into batches: small ones first, then sized by the measured speed."""

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
        """Record how long a batch of this size took; batches at most double from one to the next."""
        fitting = int(SECONDS_PER_BATCH * count / max(seconds, 1e-6))
        self._size = max(1, min(fitting, 2 * max(count, self._size)))


def compute(
    function: Callable[[list[Work]], Outcome],
    work: Sequence[Work],
    *,
    backend: str = "threads",
    workers: int | None = None,
    address: str | None = None,
) -> Generator[Outcome]:
    """Yield function(batch) for all work, in the order of completion; closing the generator cancels the rest."""
    checks.choice("backend", backend, BACKENDS)
    if address is not None and backend != "dask":
        raise InvalidInput(
            f"is that of a Dask scheduler, so backend must be 'dask', got {backend!r}", parameter="address"
        )
    if workers is not None:
        checks.whole_number("workers", workers, least=1, most=MOST_WORKERS)
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
) -> Generator[Outcome]:
    if not work:
        return
    batches = Batches(work)
    with ExitStack() as stack:
        count = _enter(stack, backend, workers, address)
        pool = joblib.Parallel(n_jobs=count, return_as="generator_unordered", batch_size=1)
        finished = pool(joblib.delayed(_timed)(function, batch) for batch in batches)
        try:
            for outcome, seconds, size in finished:
                batches.learn(size, seconds)
                yield outcome
        finally:  # after an interrupt, joblib warns about the work that it cancels, which is intended
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                finished.close()


def _enter(stack: ExitStack, backend: str, workers: int | None, address: str | None) -> int:
    """Make `backend` joblib's default until the stack is closed, and return the number of workers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = workers or cores
    if backend == "threads":
        if count > 1 and threads_must_take_turns():
            count = 1
        stack.enter_context(joblib.parallel_config("threading"))
    elif backend == "processes":
        share = max(1, cores // count)  # of the cores, so that the engines' own threads do not compete
        stack.enter_context(joblib.parallel_config("loky", inner_max_num_threads=share))
    else:
        client = stack.enter_context(dask_client(address, count))
        stack.enter_context(joblib.parallel_config("dask", client=client, wait_for_workers_timeout=30))
        count = sum(client.nthreads().values())
    return count


def threads_must_take_turns() -> bool:
    """Return whether Numba has only its own thread pool, which aborts the process if two threads use it at once.

    Where compiling is disabled (NUMBA_DISABLE_JIT), it has no pool.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined, unused-ignore]
        return False
    _parallel_nothing(1)
    return bool(numba.threading_layer() == "workqueue")  # type: ignore[attr-defined, unused-ignore]


@parallel
def _parallel_nothing(n: int) -> int:
    total = 0
    for k in numba.prange(n):
        total += k
    return total


def dask_client(address: str | None, workers: int | None = None) -> Client:
    """Yield a client of the Dask cluster at this address, or of a local one whose dashboard is only on this machine."""
    start: Callable[..., Client] = require("distributed", "dask").Client
    if address is None:
        client = start(n_workers=workers, dashboard_address="127.0.0.1:0")
        client.run(_leave_interrupts)
        return client
    try:
        return start(address)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"no Dask scheduler answers at {address!r} ({error}); start one with `dask scheduler`, "
            "or leave the address out for a local cluster"
        ) from error


def _leave_interrupts() -> None:
    """Ignore Ctrl-C in a local worker, which the main process stops, instead of printing a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def carry_along(modules: Iterable[ModuleType]) -> None:
    """Send these modules to the workers along with their work, because they may not find the user's files."""
    by_name = {module.__name__: module for module in modules}
    by_name.pop("__main__", None)  # always sent with the work
    # The picklers of joblib's processes and of Dask.
    for name in ("joblib.externals.cloudpickle", "cloudpickle"):
        with suppress(ImportError):
            pickler = import_module(name)
            for module in by_name.values():
                pickler.register_pickle_by_value(module)


def _timed(function: Callable[[list[Work]], Outcome], batch: list[Work]) -> tuple[Outcome, float, int]:
    start = time.perf_counter()
    return function(batch), time.perf_counter() - start, len(batch)
