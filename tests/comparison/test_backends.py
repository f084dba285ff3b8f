"""Threads, processes and Dask give the same rows, also when a worker is killed on the way."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from tests.support.waiting import until

import gossamer as gs
from gossamer.comparison.backends import Batches, compute
from gossamer.methods.loading import load_class

NETS = {f"er{k}": gs.Network.erdos_renyi(10, seed=k) for k in range(12)}


def streams(network):
    return gs.Gaussian(np.random.default_rng(3).uniform(0, 10, network.agents), 1.0)


def test_batches_grow_with_the_speed_and_hold_everything():
    batches, seen = Batches(list(range(100_000))), 0
    count = 0
    for batch in batches:
        assert batch == list(range(seen, seen + len(batch)))
        seen += len(batch)
        count += 1
        batches.learn(len(batch), 0.0002 * len(batch))
    assert seen == 100_000
    assert count < 50  # 5000 a second: about one batch a second
    slow = Batches(list(range(50)))
    for batch in slow:
        assert len(batch) == 1
        slow.learn(1, 3.0)


def test_one_thread_where_numba_has_only_its_own_pool(monkeypatch):
    """Two threads that use this pool at once abort the process."""
    running, most = [], []

    def overlap(batch):
        running.append(batch)
        most.append(len(running))
        threading.Event().wait(0.01)
        running.remove(batch)

    monkeypatch.setattr("gossamer.comparison.backends.numba.threading_layer", lambda: "workqueue")
    list(compute(overlap, range(4), workers=2))
    assert max(most) == 1


def test_threads_where_nothing_is_compiled(monkeypatch):
    """With NUMBA_DISABLE_JIT=1 Numba starts no threads of its own, and cannot name their layer."""

    def uninitialized():
        raise ValueError("Threading layer is not initialized.")

    monkeypatch.setattr("gossamer.comparison.backends.numba.threading_layer", uninitialized)
    monkeypatch.setattr("gossamer.comparison.backends.numba.config.DISABLE_JIT", True)
    assert sum(compute(sum, range(10), workers=2)) == 45


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_processes_give_what_threads_give(workers):
    threads = gs.compare(["sda", "dsg"], NETS, streams, [20, 50], trials=4)
    processes = {"backend": "processes", "workers": workers}
    assert gs.compare(["sda", "dsg"], NETS, streams, [20, 50], trials=4, **processes) == threads


@pytest.mark.slow
def test_own_methods_travel_to_processes(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nimport gossamer as gs\n"
        "@dataclass(frozen=True)\nclass Mine(gs.SDA):\n    name = 'mine'\n"
    )
    mine = load_class(f"{tmp_path / 'mine.py'}:Mine")()
    found = gs.compare(mine, NETS, streams, 20, backend="processes", workers=2)
    assert found.column("total_error") == gs.compare("sda", NETS, streams, 20).column("total_error")


@pytest.mark.slow
def test_workers_of_a_cluster_of_our_own_leave_interrupts_to_us():
    """A terminal sends Ctrl-C to them as well."""
    pytest.importorskip("distributed")

    def handlers(batch):
        return [signal.getsignal(signal.SIGINT) == signal.SIG_IGN for _ in batch]

    assert list(compute(handlers, [0], backend="dask", workers=1)) == [[True]]


@pytest.mark.slow
def test_a_dask_cluster_survives_a_killed_worker(tmp_path):
    distributed = pytest.importorskip("distributed")
    methods = {f"burn-in {b}": gs.SDA(burn_in=b) for b in range(10)}
    expected = gs.compare(methods, NETS, streams, [40, 80], trials=40)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        killed = []

        def kill():
            until(lambda: len(list(tmp_path.glob("*.parquet"))) >= 3, "three results")
            os.kill(victim, signal.SIGKILL)
            killed.append(len(list(tmp_path.glob("*.parquet"))))

        killer = threading.Thread(target=kill)
        killer.start()
        there = {"backend": "dask", "address": cluster.scheduler_address}
        found = gs.compare(methods, NETS, streams, [40, 80], trials=40, store=tmp_path, **there)
        killer.join()
    assert killed
    assert 3 <= killed[0] < len(methods) * len(NETS)  # in the middle of the work
    assert found == expected
    assert len(list(tmp_path.glob("*.parquet"))) == len(methods) * len(NETS)


def test_a_scheduler_that_does_not_answer(monkeypatch):
    distributed = pytest.importorskip("distributed")

    def refuse(*args, **kwargs):
        raise OSError("timed out")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(gs.InvalidInput, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:1'"):
        gs.compare("sda", NETS, streams, 20, backend="dask", address="tcp://127.0.0.1:1")
