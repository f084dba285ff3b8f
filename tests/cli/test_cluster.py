"""partition, and the flags of a cluster; what ranks do is in tests/engines/test_cluster.py."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.commands import invoke

import gossamer as gs
from gossamer import progress
from gossamer.cli.cluster import streams_in_parts
from gossamer.cli.options import ProblemOptions
from gossamer.cli.parsing import parse_observations


@pytest.mark.slow
def test_partition_writes_a_folder_that_simulate_reads(tmp_path):
    (tmp_path / "ring.txt").write_text("\n".join(f"a{i} a{(i + 1) % 1100}" for i in range(1100)))
    words = (
        "partition",
        tmp_path / "ring.txt",
        "--parts",
        2,
        "--by",
        "blocks",
        "--out",
        tmp_path / "ring",
        "--json",
    )
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert (row["agents"], row["edges"], row["parts"], row["cut_edges"]) == (1100, 1100, 2, 2)
    assert gs.Network.read(tmp_path / "ring").labels[:2] == ["a0", "a1"]
    again = invoke(*words)
    assert str(again.exception).startswith("--out must be a new or an empty folder, got")
    done = invoke("simulate", tmp_path / "ring", "--rounds", 5, "--trials", 2, "--json")
    assert json.loads(done.stdout)[0]["agents"] == 1100


def test_partition_names_its_flags():
    done = invoke("partition", "grid:30x30", "--parts", 9, "--by", "blocks", "--out", "nowhere")
    assert isinstance(done.exception, gs.InvalidInput)
    assert str(done.exception).startswith("--parts must be at most 2 here")


@pytest.mark.parametrize("flags", [("--checkpoint", "x"), ("--every", 9), ("--cluster", "--loss", 0.3)])
def test_flags_without_effect_are_refused(flags):
    done = invoke("simulate", "grid:5x5", *flags)
    assert isinstance(done.exception, gs.InvalidInput)
    assert "has no effect with" in str(done.exception)


def test_parts_of_the_streams_are_those_of_one_process():
    whole = parse_observations(gs.Network.path(100), ProblemOptions(spread=7.0, seed=3))
    streams = streams_in_parts(7.0, None, 3)
    for agents in (range(31), range(31, 100), range(100, 100)):
        if agents:
            np.testing.assert_array_equal(streams(agents).mean, whole.mean[agents.start : agents.stop])


def test_a_log_has_lines_instead_of_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    with progress.progress_bar(None, "simulating", 200, lines=True) as advance:
        advance(50)
    assert "simulating: 25%, about " in capsys.readouterr().err
    with progress.progress_bar(None, "simulating", 200, worth_it=False, lines=True) as advance:
        advance(50)
    assert capsys.readouterr().err == ""
