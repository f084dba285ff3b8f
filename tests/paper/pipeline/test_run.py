"""Where pieces run: threads, processes, a cluster."""

from __future__ import annotations

import pytest
from tests.support.small_runs import TINY

import gossamer as gs
from gossamer.paper.pipeline.cache import PieceCache
from gossamer.paper.pipeline.run import run_pieces
from gossamer.paper.registry import FIGURES


def test_bad_backend(tmp_path):
    with pytest.raises(gs.InvalidInput, match="threading, loky, dask"):
        run_pieces([], PieceCache(tmp_path), backend="ray")
    with pytest.raises(gs.InvalidInput, match="address needs the backend dask"):
        run_pieces([], PieceCache(tmp_path), address="tcp://127.0.0.1:1")


@pytest.mark.slow
def test_processes_and_a_dask_cluster_give_the_same_numbers(tmp_path):
    distributed = pytest.importorskip("distributed")
    pieces = FIGURES[4].pieces(TINY) + FIGURES[0].pieces(TINY)
    here = run_pieces(pieces, PieceCache(tmp_path / "threading"), jobs=1)
    loky = run_pieces(pieces, PieceCache(tmp_path / "loky"), backend="loky", jobs=2)
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
            pieces, PieceCache(tmp_path / "dask"), backend="dask", address=cluster.scheduler_address, jobs=2
        )
    for other in (loky, remote):
        assert {key: rows for key, (rows, _) in here.items()} == {
            key: rows for key, (rows, _) in other.items()
        }
