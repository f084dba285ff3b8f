"""Simulation over MPI ranks: the bits of one process, checkpoints, and ends with one message."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import numba
import numpy as np
import pytest
from tests.support import cluster_program

import gossamer as gs
from gossamer.engines.simulate.checkpoints import Checkpoints, Position
from gossamer.engines.simulate.collective import on_all_ranks
from gossamer.networks import partitioning, topologies

PROGRAM = Path(cluster_program.__file__)
MPIEXEC = shutil.which(
    "mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),  # one worker, so that what the tests share is made once
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
]


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    pytest.importorskip("mpi4py.MPI", exc_type=ImportError)
    monkeypatch.setattr(topologies, "COUNTED", 1000)


def ranks(
    count: int, *words: object, module: str | None = None, launcher: Sequence[str] = ("-m", "mpi4py")
) -> subprocess.CompletedProcess[str]:
    """Run the program, or a module of ours, on some ranks, more than there are cores if need be."""
    settings = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm",
        "PYTHONPATH": os.pathsep.join([str(Path(gs.__file__).parents[1]), str(PROGRAM.parents[2])]),
    }
    # Run by mpi4py, an error that only one rank meets ends the others, too, instead of leaving them waiting.
    program = [*launcher, str(PROGRAM)] if module is None else ["-m", module]
    return subprocess.run(
        [str(MPIEXEC), "-n", str(count), sys.executable, *program, *map(str, words)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=500,  # far more than it takes, also where many others compute
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


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A geometric network in three parts, cut in two ways, as `gossamer partition` writes it."""
    pytest.importorskip("pymetis")
    network = gs.Network.named("geometric:1100", seed=1)
    made = [tmp_path_factory.mktemp(by) for by in ("metis", "curve")]
    for folder in made:
        partitioning.partition(network, 3, folder / "parts", folder.name.rstrip("0"))
    return [folder / "parts" for folder in made]


@pytest.fixture(scope="module")
def job(folders):
    """What communicators of 2, 3 and 4 ranks gave, in one job: starting ranks takes longer than their work."""
    return answer(ranks(4, "everything", *folders))


def pairs(found):
    return {name: tuple(map(tuple, each)) for name, each in found.items()}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_number_of_ranks_gives_the_bits_of_one_process(count, one_process, request):
    if count == 1:
        alone = pytest.importorskip("mpi4py.MPI").COMM_SELF
        found = {
            name: cluster_program.hexed(run(cluster=alone)) for name, run in cluster_program.CASES.items()
        }
    else:
        found = request.getfixturevalue("job")[str(count)]
    assert pairs({name: found[name] for name in one_process}) == pairs(one_process)


@pytest.mark.parametrize("by", [0, 1], ids=["metis", "curve"])
def test_parts_from_a_folder_give_the_bits_of_one_process(by, folders, job):
    network = gs.Network.read(folders[by])
    one = gs.simulate("anytime-sda", network, cluster_program.streams(range(1100)), 40, 3, keep="errors")
    for count in ("2", "3"):
        assert job[count][str(folders[by])][0] == cluster_program.hexed(one)[0]
    assert "has 3 parts, too few for 4 ranks" in job["4"][str(folders[by])]


def test_ranks_play_several_rounds_while_a_chunk_is_in_the_cache(job):
    """The bits of these cases are compared above; here, that they came from waves."""
    assert [min(job[count]["depths"]) > 1 for count in ("2", "3", "4")] == [True] * 3


def test_what_all_ranks_refuse_is_said_by_the_first(job):
    for count in job:
        assert "a cluster simulates methods that mix with a gossip matrix" in job[count]["pairwise"]


def test_a_killed_job_goes_on_from_its_last_checkpoint_with_any_number_of_ranks(tmp_path):
    alone = pytest.importorskip("mpi4py.MPI").COMM_SELF
    whole = cluster_program.hexed(cluster_program.long_run(alone, tmp_path / "whole"))
    killed = ranks(3, "long", tmp_path / "killed", 100)
    assert killed.returncode != 0
    assert "the last checkpoint in" in killed.stderr
    assert "is that of round 90; the same command resumes from there" in killed.stderr
    manifest = json.loads((tmp_path / "killed/checkpoint.json").read_text())
    assert manifest["round"] == 90
    assert all((tmp_path / "killed" / name).exists() for name, _, _ in manifest["shards"])
    shutil.copytree(tmp_path / "killed", tmp_path / "again")
    assert tuple(answer(ranks(2, "long", tmp_path / "killed"))) == whole
    assert cluster_program.hexed(cluster_program.long_run(alone, tmp_path / "again")) == whole


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"identity": {"network": "grid:9x9"}}',
            "holds one with network = 'grid:9x9', and this one has 'grid:37x45'",
        ),
        ('{"identity": {"netw', "is not the manifest of a checkpoint"),
        ("[1, 2]", "is not the manifest of a checkpoint"),
        ('{"a": 1}', r"is not the manifest of a checkpoint \(KeyError\('identity'\)\)"),
    ],
)
def test_a_checkpoint_of_another_simulation_is_refused(tmp_path, content, message):
    (tmp_path / "checkpoint.json").write_text(content)
    with pytest.raises(gs.InvalidInput, match=message):
        cluster_program.long_run(pytest.importorskip("mpi4py.MPI").COMM_SELF, tmp_path)


def test_a_checkpoint_of_other_streams_is_refused(tmp_path):
    """Also where their sums are the same."""
    alone = pytest.importorskip("mpi4py.MPI").COMM_SELF
    means = np.arange(100.0)
    given = {"cluster": alone, "checkpoint": tmp_path, "every": 4}
    first = gs.simulate(cluster_program.SDA, "grid:10x10", gs.Gaussian(means), 9, 1, **given)
    again = gs.simulate(cluster_program.SDA, "grid:10x10", gs.Gaussian(means), 9, 1, **given)
    assert again.total_error == first.total_error
    with pytest.raises(gs.InvalidInput, match="holds one with digest of the streams"):
        gs.simulate(cluster_program.SDA, "grid:10x10", gs.Gaussian(means[::-1]), 9, 1, **given)


def test_a_checkpoint_that_lacks_a_file_is_refused(tmp_path):
    alone = pytest.importorskip("mpi4py.MPI").COMM_SELF
    cluster_program.long_run(alone, tmp_path)
    (shard,) = tmp_path.glob("*.npy")
    os.truncate(shard, 1000)
    with pytest.raises(gs.InvalidInput, match=f"{shard.name} cannot be read, and the checkpoint needs it"):
        cluster_program.long_run(alone, tmp_path)
    shard.unlink()
    with pytest.raises(gs.InvalidInput, match="No such file or directory"):
        cluster_program.long_run(alone, tmp_path)


def test_a_folder_that_cannot_be_written_is_found_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(gs.OutputError, match=r"that can be written: .Errno 13. Permission denied"):
        cluster_program.long_run(pytest.importorskip("mpi4py.MPI").COMM_SELF, tmp_path)


def test_what_was_never_finished_is_removed(tmp_path):
    (tmp_path / "task-0-round-30-agents-0-512.npy.part").write_text("killed while it was written")
    cluster_program.long_run(pytest.importorskip("mpi4py.MPI").COMM_SELF, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2  # the manifest, and a file


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    saving = Checkpoints(tmp_path, 30)
    saving.open(pytest.importorskip("mpi4py.MPI").COMM_SELF, {}, 0, 5)
    saving.save(Position(0, 30, np.zeros((1, 1))), np.zeros((2, 5)), np.zeros(5))
    full = OSError("1000 requested and 24 written")  # as NumPy says it
    monkeypatch.setattr(np, "save", Mock(side_effect=full))
    with pytest.raises(
        gs.OutputError, match=r"24 written: is the disk full.; the last checkpoint in .* is that of round 30"
    ):
        saving.save(Position(0, 60, np.zeros((1, 1))), np.zeros((2, 5)), np.zeros(5))
    saving.close()
    assert json.loads((tmp_path / "checkpoint.json").read_text())["round"] == 30
    np.testing.assert_array_equal(saving.read(1, 3)[0], np.zeros((2, 2)))


def test_an_error_on_one_rank_ends_all_with_one_message():
    """Whatever the error is, and however the ranks were started."""
    done = ranks(2, "error", launcher=[])
    assert done.returncode != 0
    assert done.stderr.count("gossamer.errors.") == 1  # that of rank 0, which says what happened on the other
    assert "rank 1 of 2: Traceback" in done.stderr
    assert "ValueError: these streams are broken" in done.stderr


@pytest.mark.parametrize(
    ("error", "kind"),
    [(gs.InvalidInput, gs.InvalidInput), (OSError, gs.Unsupported), (KeyError, gs.Unsupported)],
)
def test_the_first_rank_says_what_another_one_met(error, kind):
    comm = Mock(rank=0, size=2, allgather=lambda mine: [mine, (error, "broken")])
    with pytest.raises(kind, match="rank 1 of 2: broken"):
        on_all_ranks(comm, lambda: None)


def test_the_command_line_gives_one_table_and_the_numbers_of_one_process():
    words = ["simulate", "grid:40x40", "--rounds", "10,30", "--weights", "max-degree", "--json"]
    many = answer(ranks(2, *words, "--cluster", module="gossamer"))
    network = gs.Network.named("grid:40x40", "max-degree")
    streams = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 1600))
    one = gs.simulate("anytime-sda", network, streams, [10, 30], 1)
    assert [row["total_error"] for row in many] == one.total_error.tolist()
    assert [row["centralized_limit"] for row in many] == one.centralized_limit.tolist()
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
