"""What a fleet gives to others: an agent's folder as a file, and targets that a real Prometheus scrapes."""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path

import pytest

from gossamer.agents.membership.bundle import bundle, targets
from gossamer.agents.membership.certificates import write_file
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.hosts import with_metrics
from gossamer.errors import InvalidInput, OutputError
from gossamer.networks import Network


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = Fleet.create(Network.cycle(3), names=["pump", "valve", "tank"])
    return made.with_(agents=with_metrics(made.agents, 9464)).write(tmp_path / "plant")


def test_a_bundle_is_all_that_a_host_needs(path: Path, tmp_path: Path) -> None:
    unit = tmp_path / "gossamer@.service"
    unit.write_text("[Unit]\n")
    names = bundle(path, "valve", tmp_path / "valve.tar.gz", unit)
    assert stat.S_IMODE((tmp_path / "valve.tar.gz").stat().st_mode) == 0o600
    with tarfile.open(tmp_path / "valve.tar.gz") as archive:
        assert sorted(archive.getnames()) == sorted(names)
        assert [e.name for e in archive if e.mode == 0o600] == ["valve/certificates/valve.key"]
        archive.extractall(tmp_path / "host", filter="data")
    there = tmp_path / "host" / "valve"
    assert Fleet.read(there / "fleet.toml").settings("valve", there).name == "valve"  # with its certificate
    assert not list(there.glob("**/ca.key"))
    assert not list(there.glob("**/pump*"))
    (path.parent / "certificates" / "tank.key").unlink()
    with pytest.raises(InvalidInput, match=r"tank\.key"):
        bundle(path, "tank", tmp_path / "tank.tar.gz")


def test_targets_are_the_members(path: Path) -> None:
    groups = targets(Fleet.read(path))
    assert [g["targets"] for g in groups] == [["127.0.0.1:9464"], ["127.0.0.1:9465"], ["127.0.0.1:9466"]]
    assert groups[1]["labels"] == {"fleet": "gossamer", "member": "valve"}
    bare = Fleet.create(Network.cycle(3))
    assert [g["targets"] for g in targets(bare, 9000)] == [["127.0.0.1:9000"]] * 3
    with pytest.raises(
        InvalidInput, match="metrics_port must be the port on which the agents serve their metrics"
    ):
        targets(bare)


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path(), tmp_path, tmp_path / "pipe"):
        with pytest.raises(OutputError, match="cannot be replaced, because it is not a file"):
            write_file(path, b"")
    assert (tmp_path / "pipe").is_fifo()
