"""Files that someone else may have prepared are refused, with what to do; see docs/security.md."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gossamer.agents import files
from gossamer.agents.fleet.local import LocalFleet
from gossamer.agents.host.hosting import claim
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.store.agent_store import AgentStore
from gossamer.errors import InvalidInput
from gossamer.networks import Network

VICTIM = "what must not be overwritten"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of someone who trusts this agent, to which an attacker makes links."""
    path = tmp_path / "victim"
    path.write_text(VICTIM)
    return path


@pytest.fixture
def made(tmp_path: Path) -> Path:
    directory = tmp_path / "fleet"
    directory.mkdir(mode=0o755)
    return Fleet.create(Network.path(2)).write(directory)


def start(path: Path) -> None:
    """What `gossamer fleet up` does before any agent runs, and `gossamer agent` after reading the file."""
    fleet = Fleet.read(path)
    for member in fleet.agents:
        fleet.tls(member.id, path.parent)
        os.close(claim(path.parent, member.name))


def test_an_ordinary_fleet_is_fine(made: Path) -> None:
    start(made)
    start(made)


@pytest.mark.parametrize("mode", [0o666, 0o622, 0o646])
def test_a_fleet_file_that_others_can_write_is_refused(made: Path, mode: int) -> None:
    made.chmod(mode)
    with pytest.raises(InvalidInput, match=rf"only its owner can write, got mode {mode:o}; .*chmod go-w"):
        Fleet.read(made)


@pytest.mark.parametrize("folder", [".", "status", "certificates"])
def test_a_folder_that_others_can_write_is_refused(made: Path, folder: str) -> None:
    (made.parent / "status").mkdir(exist_ok=True)
    (made.parent / folder).chmod(0o777)
    with pytest.raises(
        InvalidInput, match=r"folder that only its owner can write, got mode 777: .*chmod go-w"
    ):
        start(made)
    (made.parent / folder).chmod(0o1777)  # as /tmp: nobody can replace another's files
    start(made)


def test_a_log_folder_that_others_can_write_is_refused(made: Path, victim: Path) -> None:
    logs = made.parent / "logs"
    logs.mkdir()
    logs.chmod(0o777)
    with pytest.raises(InvalidInput, match=r"logs must be a folder that only its owner can write"):
        LocalFleet(made).__enter__()
    logs.chmod(0o755)
    for end in (".jsonl", ".log"):
        (logs / f"agent0{end}").symlink_to(victim)
        with pytest.raises(InvalidInput, match=rf"agent0{end} must be a regular file, got a symbolic link"):
            LocalFleet(made).__enter__()
        (logs / f"agent0{end}").unlink()
    assert victim.read_text() == VICTIM


@pytest.mark.parametrize("name", ["agent0.lock", "agent0.json", "agent0.new"])
def test_links_among_the_status_files_are_refused(made: Path, victim: Path, name: str) -> None:
    (made.parent / "status").mkdir()
    (made.parent / "status" / name).symlink_to(victim)
    with pytest.raises(InvalidInput, match=rf"{name} must be a regular file, got a symbolic link"):
        start(made)
    assert victim.read_text() == VICTIM


@pytest.mark.parametrize("name", ["status", "logs"])
def test_a_folder_that_is_a_link_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (made.parent / name).symlink_to(elsewhere)
    with pytest.raises(InvalidInput, match=rf"{name} must be a folder, got a symbolic link"):
        files.make_folder(made.parent / name)
    assert not list(elsewhere.iterdir())


def test_a_link_that_comes_later_is_not_followed(made: Path, victim: Path) -> None:
    """The status is written twice a second: a link put there in between is replaced, not followed."""
    path = made.parent / "agent0.json"
    for name in ("agent0.json", "agent0.new"):
        (made.parent / name).symlink_to(victim)
        files.replace(path, "{}")
        assert path.read_text() == "{}"
        assert not path.is_symlink()
        path.unlink()
    assert victim.read_text() == VICTIM


def link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def loosen(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("spoil", [link, pipe, loosen])
@pytest.mark.parametrize(
    "name", ["fleet.toml", "fleet.roster", "certificates/ca.pem", "certificates/agent0.pem"]
)
def test_what_an_agent_reads_is_checked(made: Path, name: str, spoil: Callable[[Path], None]) -> None:
    spoil(made.parent / name)
    with pytest.raises(InvalidInput, match=rf"{Path(name).name} must be a (regular )?file"):
        start(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["mine.py", ""], ids=["file", "folder"])
def test_code_of_another_user_is_not_run(tmp_path: Path, name: str) -> None:
    """Not by root either, for whom the owner of a folder is otherwise as good as root."""
    from gossamer.agents.config.method import build_method
    from gossamer.agents.config.tables import MethodTable

    (tmp_path / "mine.py").write_text("raise SystemExit('the code ran')\n")
    os.chown(tmp_path, 54321, 54321)
    os.chown(tmp_path / name, 54321, 54321)
    with pytest.raises(
        InvalidInput, match=r"must belong to root or to the user that runs this.*got user 54321"
    ):
        build_method(MethodTable(name="mine.py:Mine"), tmp_path)


@pytest.mark.parametrize("spoil", [link, loosen])
def test_the_code_of_a_method_is_checked(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    from gossamer.agents.config.method import build_method
    from gossamer.agents.config.tables import MethodTable

    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit('the code ran')\n")
    spoil(file)
    with pytest.raises(InvalidInput, match=r"mine.py must be a (regular )?file"):
        build_method(MethodTable(name="mine.py:Mine"), tmp_path)


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal", ".lock"])
def test_links_at_a_store_are_refused(tmp_path: Path, victim: Path, end: str) -> None:
    (tmp_path / f"a.sqlite{end}").symlink_to(victim)
    with pytest.raises(InvalidInput, match="must be a regular file, got a symbolic link"):
        AgentStore(tmp_path / "a.sqlite", 0, 1)
    assert victim.read_text() == VICTIM


def test_a_store_in_a_folder_of_all_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(InvalidInput, match="folder that only its owner can write"):
        AgentStore(tmp_path / "a.sqlite", 0, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_someone_else_is_refused(made: Path) -> None:
    os.chown(made, 12345, 12345)
    with pytest.raises(InvalidInput, match="must belong to the user that runs the agent, got user 12345"):
        Fleet.read(made)
    os.chown(made.parent, 12345, 12345)  # the folder's owner is trusted with what is in it
    Fleet.read(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_fleet_of_another_user_can_be_looked_at_and_is_not_run(made: Path) -> None:
    """Its sources may be commands, which would run as root."""
    for path in (made.parent, *made.parent.rglob("*")):
        os.chown(path, 12345, 12345)
    assert len(Fleet.read(made).agents) == 2
    why = "must belong to root or to the user that runs this, user 0, because it decides what code is run, got user"
    with pytest.raises(InvalidInput, match=why):
        Fleet.read(made, load=True)
    with pytest.raises(InvalidInput, match=why):
        LocalFleet(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_group_of_ones_own_may_write(made: Path) -> None:
    """Most Linux systems give every user a group of the same number, and new files to that group."""
    made.chmod(0o664)
    os.chown(made, 12345, 12345)
    os.chown(made.parent, 12345, 12345)
    Fleet.read(made)
    os.chown(made, 12345, 100)
    with pytest.raises(InvalidInput, match="got mode 664"):
        Fleet.read(made)
