"""Pieces of work on several threads.

Compiled functions release Python's lock, so plain threads are enough. A compiled loop over `prange` would hold
a second copy of the code of its piece, and compiling that takes ten seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from numba import get_num_threads


def spread(work: Callable[[int], None], count: int) -> None:
    """Call work(0) .. work(count - 1) on as many threads as Numba would take, the caller's own among them."""
    pieces = iter(range(count))

    def play() -> None:
        for k in pieces:  # any free thread takes the next one
            work(k)

    more = min(get_num_threads(), count) - 1
    helpers = [_pool(more, os.getpid()).submit(play) for _ in range(more)]
    try:
        play()
    finally:
        for helper in helpers:
            if not helper.cancel():  # one that has not begun by now has nothing left to do
                helper.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that wait for work; a forked process does not inherit them, so it has its own."""
    return ThreadPoolExecutor(threads)
