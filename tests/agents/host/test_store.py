"""The store: what is acknowledged survives, what is not never half survives, and a full disk is survived."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from gossamer.agents.host.store import AgentStore, Saved
from gossamer.agents.round.ledger import LedgerState
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


def test_it_is_one_agents_store(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "a.db", 4, 3)
    store.save(state(1))
    store.close()
    for agent, dimension in ((5, 3), (4, 2)):
        other = AgentStore(tmp_path / "a.db", agent, dimension)
        with pytest.raises(InvalidInput, match="give this agent its own store"):
            other.load()
        other.close()


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be read as one" * 30)
    for path in (tmp_path / "text.db", tmp_path / "nowhere" / "a.db", tmp_path):
        with pytest.raises(OutputError, match="cannot be opened"):
            AgentStore(path, 0, 1)


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
    large = Saved(99, LedgerState(2, 3, 4.0, np.zeros((2, 3)), {j: np.zeros((2, 3)) for j in range(3000)}))
    for _ in range(2):
        assert not store.save(large)
        assert store.failure is not None
        assert "full" in store.failure
    still = store.load()
    assert still is not None
    assert same(still, state(1))
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
    db = sqlite3.connect(tmp_path / "alike")
    db.execute("CREATE TABLE edge (x)")
    db.close()
    store = AgentStore(tmp_path / "alike", 0, 1)
    with pytest.raises(InvalidInput, match=r"alike is damaged, or not an agent's .*delete it to start over"):
        store.load()


@pytest.mark.parametrize("kind", ["pages", "numbers"])
def test_a_damaged_store_says_what_to_do(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.db"
    store = AgentStore(path, 4, 3)
    store.save(state(1))
    if kind == "numbers":
        database(store).execute("UPDATE agent SET local = x'0102'")
    store.close()
    if kind == "pages":
        content = path.read_bytes()
        path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    store = AgentStore(path, 4, 3)
    with pytest.raises(InvalidInput, match=r"a\.db is damaged.*restore it from a copy, or delete it"):
        store.load()
    AgentStore(path, 4, 3).close()  # nothing is held


def test_a_store_of_another_method_is_refused(tmp_path: Path) -> None:
    """Its registers may have the same shape, and mean something else."""
    path = tmp_path / "a.db"
    store = AgentStore(path, 4, 3, "ssda")
    assert store.save(state(1))
    store.close()
    with pytest.raises(
        InvalidInput, match=r"must belong to the method anytime-sda, but it belongs to ssda; go back"
    ):
        AgentStore(path, 4, 3).load()
    again = AgentStore(path, 4, 3, "ssda")
    assert same(again.load(), state(1))
    again.close()


def test_a_store_of_an_earlier_format_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = AgentStore(path, 4, 3)
    assert store.save(state(1))
    database(store).execute("UPDATE agent SET format = 1")
    database(store).execute("ALTER TABLE agent DROP COLUMN method")  # which came with format 2
    store.close()
    with pytest.raises(InvalidInput, match=r"\(format 2\), but it belongs to agent 4 with 3 \(format 1\)"):
        AgentStore(path, 4, 3).load()
    assert path.exists()
