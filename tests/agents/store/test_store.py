"""The store: what is acknowledged survives, what is not never half survives, and a full disk is survived."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from gossamer.agents.config.settings import LARGEST_COUNT
from gossamer.agents.round.ledger_state import KEPT, RETURNING, LedgerState
from gossamer.agents.store import file as store_file
from gossamer.agents.store import maintenance as store_care
from gossamer.agents.store.agent_store import AgentStore, Saved
from gossamer.agents.store.file import Damaged, Record, create, read, stored_seal
from gossamer.errors import InvalidInput, OutputError


def state(k: int, n: int = 3) -> Saved:
    flows = {1: np.full((2, n), float(k)), 7: np.full((2, n), -float(k))}
    return Saved(10 * k, LedgerState(k, 100 + k, float(2 * k), np.full((2, n), k / 3), flows))


def same(a: Saved, b: Saved) -> bool:
    x, y = a.ledger, b.ledger
    return (
        (a.round, x.age, x.serial, x.samples) == (b.round, y.age, y.serial, y.samples)
        and np.array_equal(x.local, y.local)
        and x.flows.keys() == y.flows.keys()
        and all(np.array_equal(x.flows[j], y.flows[j]) for j in x.flows)
    )


def database(store: AgentStore) -> sqlite3.Connection:
    assert store._db is not None
    return store._db


def test_round_trip(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "a.db", 4, 3)
    assert store.load() is None
    for k in (1, 2, 3):
        assert store.save(state(k))
    store.close()
    again = AgentStore(tmp_path / "a.db", 4, 3)
    loaded = again.load()
    assert loaded is not None
    assert same(loaded, state(3))
    again.close()


def test_flows_of_fleets_that_returned_them_at_once_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A store of an earlier version may hold currents of millions; what was kept of members that left is no current."""
    flows = {1: np.full((2, 1), 1.9e6), 2: np.full((2, 1), -1.9e6), KEPT: np.full((2, 1), 3.0)}
    record = Record(
        agent=0, dimension=1, method="anytime-sda", age=5, samples=4.0, local=np.ones(2).tobytes()
    )
    old = msgspec.structs.replace(record, flows={j: flow.tobytes() for j, flow in flows.items()})
    create(tmp_path / "old.sqlite", old)
    with caplog.at_level("INFO"):
        store = AgentStore(tmp_path / "old.sqlite", 0, 1)
    saved = store.load()
    assert saved is not None
    assert saved.ledger.flows.keys() == {KEPT}
    assert saved.ledger.samples == 4.0
    assert "may contain circular flows" in caplog.text
    now = {**flows, RETURNING: np.full((2, 1), 0.5)}
    assert store.save(Saved(1, LedgerState(5, 9, 4.0, np.ones((2, 1)), now)))
    store.close()
    again = AgentStore(tmp_path / "old.sqlite", 0, 1)
    saved = again.load()
    again.close()
    assert saved is not None
    assert saved.ledger.flows.keys() == now.keys()


def test_it_is_one_agents_store(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "a.db", 4, 3)
    store.save(state(1))
    store.close()
    for agent, dimension in ((5, 3), (4, 2)):
        with pytest.raises(
            InvalidInput,
            match="belongs to pump with 3; give this agent its own store, go back to the statistics",
        ):
            AgentStore(tmp_path / "a.db", agent, dimension, names={4: "pump", 5: "tank"})


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be read as one" * 30)
    for path in (tmp_path / "text.db", tmp_path / "nowhere" / "a.db", tmp_path):
        with pytest.raises(OutputError, match="cannot be opened"):
            AgentStore(path, 0, 1)


@pytest.mark.slow
def test_an_acknowledged_save_survives_kill_9(tmp_path: Path) -> None:
    """A process saves for ever and says which save was acknowledged; it is killed without warning."""
    program = textwrap.dedent(
        """
        import sys
        sys.path.insert(0, sys.argv[2])
        from test_store import AgentStore, state
        store = AgentStore(sys.argv[1], 4, 3)
        for k in range(1, 100000):
            assert store.save(state(k))
            print(k, flush=True)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "a.db"), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        acknowledged = 0
        while acknowledged < 50:
            acknowledged = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
    acknowledged = int(rest[-1]) if rest else acknowledged
    store = AgentStore(tmp_path / "a.db", 4, 3)
    loaded = store.load()
    assert loaded is not None
    assert loaded.ledger.age in (acknowledged, acknowledged + 1)  # killed between commit and print
    assert same(loaded, state(loaded.ledger.age))
    store.close()


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """SQLite itself refuses to grow: saves fail, say why, and work again when there is room."""
    store = AgentStore(tmp_path / "a.db", 4, 3)
    assert store.save(state(1))
    pages = database(store).execute("PRAGMA page_count").fetchone()[0]
    database(store).execute(f"PRAGMA max_page_count={pages}")
    seal = stored_seal(store.path)
    large = Saved(99, LedgerState(2, 3, 4.0, np.zeros((2, 3)), {j: np.zeros((2, 3)) for j in range(3000)}))
    for _ in range(2):
        assert not store.save(large)
        assert store.failure is not None
        assert "full" in store.failure
    assert stored_seal(store.path) == seal
    database(store).execute("PRAGMA max_page_count=100000")
    assert store.save(large)
    assert store.failure is None
    store.close()


def test_a_store_locked_by_another_fails_softly(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "a.db", 4, 3)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert not store.save(state(1))
    assert "locked" in str(store.failure)
    other.execute("ROLLBACK")
    other.close()
    assert store.save(state(1))
    store.close()


def test_two_processes_cannot_share_a_store(tmp_path: Path) -> None:
    first = AgentStore(tmp_path / "a.db", 4, 3)
    with pytest.raises(InvalidInput, match=r"a\.db is in use by another process; stop that process first"):
        AgentStore(tmp_path / "a.db", 4, 3)
    assert first.save(state(1))
    first.close()
    AgentStore(tmp_path / "a.db", 4, 3).close()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    for name, schema in (("other", "CREATE TABLE songs (x)"), ("alike", "CREATE TABLE agent (x)")):
        path = tmp_path / name
        db = sqlite3.connect(path)
        db.execute(schema)
        db.close()
        before = path.read_bytes()
        with pytest.raises(InvalidInput, match="is a database with other tables"):
            AgentStore(path, 0, 1)
        assert path.read_bytes() == before


def copy_of(path: Path, content: bytes, log: bytes = b"") -> Path:
    for old in path.parent.glob(path.name + "*"):
        old.unlink()
    path.write_bytes(content)
    if log:
        path.with_name(path.name + "-wal").write_bytes(log)
    return path


def load_or_set_aside(path: Path, expected: Saved) -> bool:
    """Whether the state was set aside; it must be the same otherwise, and the agent must be able to go on."""
    store = AgentStore(path, 4, 3)
    found = store.load()
    aside = list(path.parent.glob(path.name + ".damaged-*"))
    assert (found is None) == bool(aside)
    assert found is None or same(found, expected)
    assert store.save(state(9))
    store.close()
    again = AgentStore(path, 4, 3)
    resumed = again.load()
    again.close()
    assert resumed is not None
    assert same(resumed, state(9))
    return bool(aside)


def flipped(parts: list[bytes], number: int) -> Iterator[list[bytes]]:
    """File and log with one flipped bit, at random places that are in use."""
    used = [(p, i) for p, part in enumerate(parts) for i, byte in enumerate(part) if byte or i < 200]
    random = np.random.default_rng(0)
    for index in random.integers(len(used), size=number):
        part, place = used[index]
        damaged = bytearray(parts[part])
        damaged[place] ^= 1 << random.integers(8)
        yield [*parts[:part], bytes(damaged), *parts[part + 1 :]]


def test_nothing_is_set_aside_before_the_new_file_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sqlite"
    store = AgentStore(path, 0, 3)
    assert store.save(state(1))
    store.close()
    store_care.backup(path, tmp_path / "copy")

    def full(*_: object) -> bytes:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store_file, "write", full)
    with pytest.raises(OutputError, match="disk is full"):
        store_care.restore(path, tmp_path / "copy")
    monkeypatch.undo()
    assert store_care.check(path).samples == state(1).ledger.samples
    assert not list(tmp_path.glob("*replaced*"))
    _, aside = store_care.restore(path, tmp_path / "copy")
    assert aside is not None
    assert aside.exists()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_no_flipped_bit_is_believed(tmp_path: Path, killed: bool) -> None:
    """Neither in the file nor, after a kill, in its log: the same state loads, or the store is damaged."""
    store = AgentStore(tmp_path / "a.db", 4, 3)
    assert store.save(state(1))
    assert store.save(state(2))
    if not killed:
        store.close()
    parts = [file.read_bytes() for file in (tmp_path / "a.db", tmp_path / "a.db-wal") if file.exists()]
    store.close()
    assert len(parts) == 1 + killed
    expected = read(tmp_path / "a.db")
    lost = 0
    for damaged in flipped(parts, 200 if killed else 2000):
        try:
            assert read(copy_of(tmp_path / "b.db", *damaged)) == expected
        except Damaged:
            lost += 1
    assert lost > (10 if killed else 500)
    for damaged in flipped(parts, 15):
        load_or_set_aside(copy_of(tmp_path / "b.db", *damaged), state(2))


@pytest.mark.parametrize("size", [0, 10, 50, 99, 100, 3000, 4096, 5000])
def test_a_truncated_store_is_set_aside(tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture) -> None:
    store = AgentStore(tmp_path / "a.db", 4, 3)
    assert store.save(state(1))
    store.close()
    content = (tmp_path / "a.db").read_bytes()
    assert load_or_set_aside(copy_of(tmp_path / "b.db", content[:size]), state(1))
    assert "b.db is damaged (" in caplog.text
    assert "starts over; it lost everything stored until 2" in caplog.text
    assert load_or_set_aside(copy_of(tmp_path / "b.db", bytes(len(content))), state(1))


def test_a_log_without_its_file_is_set_aside(tmp_path: Path) -> None:
    path = copy_of(tmp_path / "a.db", b"", b"what was committed last")
    path.unlink()
    assert load_or_set_aside(path, state(1))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"local": np.array([1.0, np.nan, 2.0]).tobytes()}, "not finite"),
        ({"flows": {1: np.full(3, 1e300).tobytes()}}, "beyond 1e"),
        ({"local": b"12345678"}, "not rows of 3"),
        ({"samples": -1.0}, "samples cannot be"),
        ({"samples": float("nan")}, "samples cannot be"),
        ({"age": -1}, "samples cannot be"),
        ({"round": 2**62 + 1}, "samples cannot be"),
    ],
)
def test_what_no_agent_can_have_saved_is_not_believed(
    tmp_path: Path, change: dict[str, Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.db"
    create(path, Record(agent=4, dimension=3, method="anytime-sda", **change))
    with pytest.raises(Damaged, match=problem):
        read(path)
    assert load_or_set_aside(path, state(1))
    assert problem in caplog.text


def test_a_record_with_another_number_is_kept(tmp_path: Path) -> None:
    """A changed bit of it made a second record, and a store with two was damaged at the next start."""
    path = tmp_path / "a.db"
    create(path, Record(agent=4, dimension=3, method="anytime-sda"))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA ignore_check_constraints=1")
        db.execute("UPDATE agent SET one = 3")
        db.commit()
    for count in (1, 2):
        store = AgentStore(path, 4, 3)
        assert store.save(state(count))
        store.close()
        assert read(path).samples == state(count).ledger.samples


def test_a_reader_and_a_damaged_log_bring_no_older_state_back(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = AgentStore(path, 4, 3)
    assert store.save(state(1))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT seal FROM agent").fetchone()
        for count in (2, 3):
            assert not store.save(state(count))
            assert "another program has been reading it" in str(store.failure)
        files = [path, path.with_name("a.db-wal")]
        left = [file.read_bytes() for file in files]
    assert store.save(state(4))
    store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db", "a.db.lock"]  # nothing was set aside
    newest = state(1).ledger.samples
    for place in range(0, len(left[1]), 97):
        copy = tmp_path / "copy.db"
        for file in tmp_path.glob("copy.db*"):
            file.unlink()
        copy.write_bytes(left[0])
        log = bytearray(left[1])
        log[place] ^= 4
        copy.with_name("copy.db-wal").write_bytes(log)
        assert read(copy).samples >= newest


def test_rounds_that_the_wire_allows_can_be_stored(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "a.db", 4, 3)
    assert store.save(replace(state(1), round=LARGEST_COUNT))
    store.close()
    assert read(tmp_path / "a.db").round == LARGEST_COUNT


@pytest.mark.parametrize(
    "view",
    [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT 1 AS one, '' AS record, '' AS seal FROM n WHERE i < 0",
        "SELECT 1 AS one, zeroblob(1000000000) AS record, '' AS seal",
    ],
    ids=["endless", "large"],
)
def test_a_hostile_file_is_read_quickly(tmp_path: Path, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_file, "_PATIENCE", 0.2)
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id={0x676F7373}")
        db.execute(f"CREATE VIEW agent AS {view}")
        db.commit()
    before = time.process_time()
    with pytest.raises(Damaged, match=r"interrupted|too big"):
        read(path)
    assert time.process_time() - before < 5


def test_a_store_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    for _ in range(2):
        store = AgentStore(path, 4, 3)
        store.save(state(1))
        files = list(tmp_path.iterdir())
        assert len(files) == 4  # with log, index and lock
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        store.close()
        path.chmod(0o644)


@pytest.mark.parametrize("how", ["deleted", "replaced", "overwritten", "truncated"])
def test_a_store_lost_under_a_running_agent_is_written_anew(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What a save acknowledges is found by whoever opens the store next, even if nothing is saved anymore."""
    path = tmp_path / "a.db"
    other = AgentStore(tmp_path / "other.db", 4, 3)
    other.save(state(7))
    other.close()
    store = AgentStore(path, 4, 3)
    assert store.save(state(1))
    if how == "deleted":
        for file in tmp_path.glob("a.db*"):  # its lock as well
            file.unlink()
    elif how == "replaced":
        (tmp_path / "other.db").rename(path)
    else:
        path.write_bytes(b"x" * 9000 if how == "overwritten" else b"")
    assert store.save(state(2))
    assert "while the agent ran; nothing is lost" in caplog.text
    with pytest.raises(InvalidInput, match="in use by another process"):
        AgentStore(path, 4, 3)
    for file in tmp_path.glob("a.db*"):  # as a kill leaves it
        if "lock" not in file.name:
            shutil.copy(file, tmp_path / file.name.replace("a.db", "killed.db"))
    killed = AgentStore(tmp_path / "killed.db", 4, 3)
    found = killed.load()
    assert found is not None
    assert same(found, state(2))
    killed.close()
    caplog.clear()
    assert store.save(state(3))
    assert not caplog.text
    store.close()


def test_a_store_of_another_method_is_refused(tmp_path: Path) -> None:
    """Its registers may have the same shape, and mean something else."""
    path = tmp_path / "a.db"
    store = AgentStore(path, 4, 3, "ssda")
    assert store.save(state(1))
    store.close()
    with pytest.raises(
        InvalidInput, match=r"must belong to the method anytime-sda, but it belongs to ssda; go back"
    ):
        AgentStore(path, 4, 3)
    again = AgentStore(path, 4, 3, "ssda")
    assert same(again.load(), state(1))
    again.close()


def test_a_store_of_an_earlier_format_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE agent (one, format, id, dimension, local)")
    db.execute("CREATE TABLE edge (neighbor, flow)")
    db.execute("INSERT INTO agent VALUES (1, 2, 4, 3, x'00')")
    db.commit()
    db.close()
    with pytest.raises(
        InvalidInput, match=r"the format 3, but it has the format 2 .*; go back .*, or delete"
    ):
        AgentStore(path, 4, 3)
    assert path.exists()
