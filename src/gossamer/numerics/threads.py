"""Pieces of work on several threads.

Compiled functions release the GIL, so plain threads are enough. A compiled loop over `prange` would contain a second
copy of the code of its piece, which takes ten seconds to compile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from numba import get_num_threads


def spread(work: Callable[[int], None], count: int) -> None:
    """Call work(0) .. work(count - 1) on as many threads as Numba would use, including the caller's."""
    pieces = iter(range(count))

    def run() -> None:
        for k in pieces:  # a free thread takes the next piece
            work(k)

    more = min(get_num_threads(), count) - 1
    helpers = [_pool(more, os.getpid()).submit(run) for _ in range(more)]
    try:
        run()
    finally:
        for helper in helpers:
            if not helper.cancel():  # one that has not begun by now has nothing left to do
                helper.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return the pool of worker threads. A forked process does not inherit threads, so it has its own pool."""
    return ThreadPoolExecutor(threads)
