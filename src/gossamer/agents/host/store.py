"""The store: one SQLite file (WAL) from which an agent resumes after any crash.

The agent's state (its means and counts, its ledgers, its round and serial) is one small record, replaced by one
transaction. An observation is acknowledged once a transaction whose state includes it has been committed and
synced to disk (synchronous=FULL). From then on it survives kill -9 and, on a disk that honors a sync, a power cut.
Commits happen every `commit` seconds, and at once when someone waits for one (`Agent.observe_durable`); all
observations since the last one share the commit. Whatever was not acknowledged when the process died is lost as a
whole, never in part.

A disk that is full or fails does not stop the agent: `save` returns False, the agent goes on and reports that
nothing is acknowledged, and the next save that works acknowledges everything since.

One process at a time: a store that is open holds a lock on NAME.lock beside it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer.agents.host.locks import lock
from gossamer.agents.round.ledger import LedgerState
from gossamer.errors import InvalidInput, OutputError
from gossamer.methods.anytime_sda import AnytimeSDA

_FORMAT = 2
_SCHEMA = """
BEGIN;
CREATE TABLE IF NOT EXISTS agent (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    id INTEGER NOT NULL,
    dimension INTEGER NOT NULL,
    round INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    age INTEGER NOT NULL,
    samples REAL NOT NULL,
    method TEXT NOT NULL,
    local BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS edge (neighbor INTEGER PRIMARY KEY, flow BLOB NOT NULL);
COMMIT;
"""


@dataclass(frozen=True)
class Saved:
    """What the store holds: the round the agent was in and its ledger's state."""

    round: int
    ledger: LedgerState


class AgentStore:
    """An agent's SQLite file. Used by one thread at a time."""

    def __init__(self, path: str | Path, agent: int, dimension: int, method: str = AnytimeSDA.name) -> None:
        self.path = Path(path)
        self.agent = agent
        self.dimension = dimension
        self.method = method
        self.failure: str | None = None
        """Why the last save did not work, or None."""
        self._db: sqlite3.Connection | None = None
        self._lock: int | None = None
        try:
            self._open()
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise OutputError(
                f"the store {self.path} cannot be opened ({error}); it must be a file that SQLite can write; "
                "if it is damaged, delete it to start over"
            ) from error
        except InvalidInput:
            self.close()
            raise

    def _open(self) -> None:
        self._lock = lock(self.path.with_name(self.path.name + ".lock"))
        if self._lock is None:
            raise InvalidInput(
                f"the store {self.path} is in use by another process; stop that process first, "
                "or give this agent a store of its own"
            )
        self._db = db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=1.0)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not tables >= {"agent", "edge"}:
            raise InvalidInput(
                f"the store {self.path} must be an agent's, but it is a database with other tables "
                f"({', '.join(sorted(tables)[:3])}); choose another directory"
            )
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.executescript(_SCHEMA)

    def load(self) -> Saved | None:
        """What an earlier run saved, or None for a new agent. A store that cannot be used is closed."""
        try:
            return self._load()
        except (sqlite3.Error, ValueError, TypeError) as error:
            self.close()
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"the store {self.path} is damaged, or not an agent's ({error}); "
                "restore it from a copy, or delete it to start over"
            ) from error

    def _load(self) -> Saved | None:
        assert self._db is not None
        known = self._db.execute("SELECT format, id, dimension FROM agent").fetchone()
        if known is None:
            return None
        format_, agent, dimension = known
        if known != (_FORMAT, self.agent, self.dimension):
            raise InvalidInput(
                f"the store {self.path} must belong to agent {self.agent} with {self.dimension} components "
                f"(format {_FORMAT}), but it belongs to agent {agent} with {dimension} (format {format_}); "
                "give this agent its own store, or delete the file to start over"
            )
        method, round_, serial, age, samples, local = self._db.execute(
            "SELECT method, round, serial, age, samples, local FROM agent"
        ).fetchone()
        if method != self.method:
            raise InvalidInput(
                f"the store {self.path} must belong to the method {self.method}, but it belongs to {method}; go back "
                "to that method, or delete the file to start over"
            )
        flows = {
            int(neighbor): self._array(flow)
            for neighbor, flow in self._db.execute("SELECT neighbor, flow FROM edge")
        }
        return Saved(round_, LedgerState(age, serial, samples, self._array(local), flows))

    def _array(self, blob: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.frombuffer(blob, "<f8").reshape(-1, self.dimension).copy()

    def save(self, saved: Saved) -> bool:
        """Commit and sync; True: everything in `saved` now survives a crash. False: see `failure`."""
        assert self._db is not None
        state = saved.ledger
        head = (
            _FORMAT,
            self.agent,
            self.dimension,
            saved.round,
            state.serial,
            state.age,
            state.samples,
            self.method,
        )
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "INSERT OR REPLACE INTO agent VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*head, state.local.astype("<f8").tobytes()),
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO edge VALUES (?, ?)",
                [(j, flow.astype("<f8").tobytes()) for j, flow in state.flows.items()],
            )
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self.failure = str(error)
            with suppress(sqlite3.Error):  # a full disk may already have rolled back
                self._db.execute("ROLLBACK")
            return False
        self.failure = None
        return True

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
