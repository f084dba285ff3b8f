"""Where pieces run: threads, processes, a cluster."""

from __future__ import annotations

import pytest
from tests.support.small_runs import TINY

import gossamer as gs
from gossamer.comparison.store import Store
from gossamer.paper.pipeline.results import COLUMNS
from gossamer.paper.pipeline.run import run_pieces
from gossamer.paper.registry import FIGURES


def test_bad_backend(tmp_path):
    with pytest.raises(gs.InvalidInput, match="backend must be 'threads', 'processes' or 'dask'"):
        run_pieces([], Store(tmp_path, COLUMNS), backend="ray")


@pytest.mark.slow
def test_processes_and_a_dask_cluster_give_the_same_numbers(tmp_path):
    distributed = pytest.importorskip("distributed")
    pieces = FIGURES[4].pieces(TINY) + FIGURES[0].pieces(TINY)
    here = run_pieces(pieces, Store(tmp_path / "threads", COLUMNS), workers=1)
    there = run_pieces(pieces, Store(tmp_path / "processes", COLUMNS), backend="processes", workers=2)
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address=None,
    )
    with cluster:
        remote = run_pieces(
            pieces, Store(tmp_path / "dask", COLUMNS), backend="dask", address=cluster.scheduler_address
        )
    for other in (there, remote):
        assert {key: piece.rows for key, piece in here.items()} == {
            key: piece.rows for key, piece in other.items()
        }
