"""Work on several threads."""

from __future__ import annotations

import threading

import numba
import pytest

from gossamer.numerics import threads as pools
from gossamer.numerics.threads import spread


def test_work_is_spread_over_as_many_threads_as_numba_takes(monkeypatch):
    threads = numba.get_num_threads()
    everyone = threading.Barrier(threads, timeout=60)
    done = []

    def meet(k):
        everyone.wait()
        done.append((k, threading.get_ident()))

    spread(meet, threads)
    assert sorted(k for k, _ in done) == list(range(threads))
    assert len({thread for _, thread in done}) == threads
    done.clear()
    monkeypatch.setattr(pools, "_pool", None)  # of one thread, the caller's own, nobody else is asked
    numba.set_num_threads(1)
    try:
        spread(done.append, 3)
    finally:
        numba.set_num_threads(threads)
    assert done == [0, 1, 2]


@pytest.mark.skipif(numba.get_num_threads() == 1, reason="needs a second thread")
def test_what_fails_in_another_thread_reaches_the_caller():
    caller, both = threading.get_ident(), threading.Barrier(2, timeout=60)

    def fail_elsewhere(k):
        both.wait()
        if threading.get_ident() != caller:
            raise LookupError("elsewhere")

    with pytest.raises(LookupError, match="elsewhere"):
        spread(fail_elsewhere, 2)
