"""Simulation over MPI ranks: the bits of one process, checkpoints, and ends with one message."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from tests.engines import cluster_program

import gossamer as gs
from gossamer.networks import partitioning, topologies

PROGRAM = Path(cluster_program.__file__)
MPIEXEC = shutil.which(
    "mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
]


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    pytest.importorskip("mpi4py.MPI", exc_type=ImportError)
    monkeypatch.setattr(topologies, "COUNTED", 1000)


def ranks(count: int, *words: object, module: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program, or a module of ours, on some ranks, more than there are cores if need be."""
    settings = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm",
        "PYTHONPATH": os.pathsep.join([str(Path(gs.__file__).parents[1]), str(PROGRAM.parents[2])]),
    }
    program = [str(PROGRAM)] if module is None else ["-m", module]
    return subprocess.run(
        [str(MPIEXEC), "-n", str(count), sys.executable, *program, *map(str, words)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=300,
    )


def answer(done: subprocess.CompletedProcess[str]):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def one_process():
    before, topologies.COUNTED = topologies.COUNTED, 1000
    found = {
        name: cluster_program.hexed(run(keep="errors", progress=False))
        for name, run in cluster_program.CASES.items()
    }
    topologies.COUNTED = before
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_number_of_ranks_gives_the_bits_of_one_process(count, one_process):
    found = answer(ranks(count, "cases"))
    assert {name: tuple(map(tuple, each)) for name, each in found.items()} == {
        name: tuple(map(tuple, each)) for name, each in one_process.items()
    }


def test_a_killed_job_goes_on_from_its_last_checkpoint_with_any_number_of_ranks(tmp_path):
    whole = answer(ranks(2, "long", tmp_path / "whole"))
    killed = ranks(3, "long", tmp_path / "killed", 100)
    assert killed.returncode != 0
    assert "the last checkpoint in" in killed.stderr
    assert "is that of round 90; the same command goes on there" in killed.stderr
    manifest = json.loads((tmp_path / "killed/checkpoint.json").read_text())
    assert manifest["round"] == 90
    assert all((tmp_path / "killed" / name).exists() for name, _, _ in manifest["shards"])
    for count in (2, 1):
        shutil.copytree(tmp_path / "killed", tmp_path / f"again-{count}")
        assert answer(ranks(count, "long", tmp_path / f"again-{count}")) == whole


def test_a_checkpoint_of_another_simulation_is_refused(tmp_path):
    (tmp_path / "checkpoint.json").write_text(json.dumps({"identity": {"network": "grid:9x9"}}))
    done = ranks(2, "long", tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("Traceback") == 1
    assert "holds one with network = 'grid:9x9', and this one has 'grid:37x45'" in done.stderr


def test_an_error_on_one_rank_ends_all_with_one_message():
    done = ranks(3, "error")
    assert done.returncode != 0
    assert done.stderr.count("Traceback") == 1
    assert "rank 1 of 3: these streams are broken" in done.stderr


def test_what_all_ranks_refuse_is_said_once():
    done = ranks(3, "pairwise")
    assert done.stderr.count("Traceback") == 1
    assert "a cluster simulates methods that mix with a gossip matrix" in done.stderr


def folder_of(tmp_path, by):
    network = gs.Network.named("geometric:1700", seed=1)
    partitioning.partition(network, 3, tmp_path / by, by)
    return tmp_path / by


@pytest.mark.parametrize("by", ["metis", "curve"])
def test_parts_from_a_folder_give_the_bits_of_one_process(tmp_path, by):
    if by == "metis":
        pytest.importorskip("pymetis")
    folder = folder_of(tmp_path, by)
    network = gs.Network.read(folder)
    one = gs.simulate("anytime-sda", network, cluster_program.streams(range(1700)), 40, 3, keep="errors")
    for count in (2, 3):
        assert answer(ranks(count, "folder", folder))[0] == cluster_program.hexed(one)[0]
    done = ranks(4, "folder", folder)
    assert "has 3 parts, too few for 4 ranks" in done.stderr


def test_the_command_line_gives_one_table_and_the_numbers_of_one_process():
    words = (
        "simulate",
        "grid:40x40",
        "--rounds",
        "10,30",
        "--trials",
        "1",
        "--weights",
        "max-degree",
        "--json",
    )
    one = answer(ranks(1, *words, module="gossamer"))
    many = answer(ranks(3, *words, "--cluster", module="gossamer"))
    assert [row["total_error"] for row in many] == [row["total_error"] for row in one]
    assert [row["centralized_limit"] for row in many] == [row["centralized_limit"] for row in one]
    few = answer(ranks(3, "simulate", "grid:5x5", "--rounds", "9", "--json", "--cluster", module="gossamer"))
    streams = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 25))
    assert few[0]["total_error"] == gs.simulate("anytime-sda", "grid:5x5", streams, 9, 1).total_error
    wrong = ranks(2, "simulate", "gird:40x40", "--cluster", module="gossamer")
    assert wrong.returncode != 0
    assert wrong.stderr.count("error:") == 1
    assert "did you mean 'grid'?" in wrong.stderr


def test_one_rank_is_any_communicator():
    mpi = pytest.importorskip("mpi4py.MPI")
    run = cluster_program.CASES["grid"]
    threads = numba.get_num_threads()
    alone = run(cluster=mpi.COMM_SELF)
    assert numba.get_num_threads() == threads
    np.testing.assert_array_equal(alone.errors, run(keep="errors").errors)
    assert alone.per_agent.shape == (3, 0)
    with pytest.raises(gs.InvalidInput, match="kept no estimates"):
        _ = alone.estimates
    with pytest.raises(gs.Unsupported, match="keep must be 'errors', got 'iterates'"):
        run(cluster=mpi.COMM_SELF, keep="iterates")
