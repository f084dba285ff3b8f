"""The store: one SQLite file (WAL) from which an agent resumes after any crash.

The agent's state (its means and counts, its ledgers, its round and serial) is one small record, replaced by one
transaction. An observation is acknowledged once a transaction whose state includes it has been committed and
synced to disk (synchronous=FULL), and is readable under the store's name. From then on it survives kill -9 and, on a
disk that honors a sync, a power cut. Commits happen every `commit` seconds, and immediately if a caller waits for one
(`Agent.observe_durable`); all observations since the last commit share the next one. What was not acknowledged when the
process died is lost as a whole, never in part.

A full or failing disk does not stop the agent: `save` returns False, the agent continues and reports that nothing is
acknowledged, and the next successful save acknowledges everything since.

A damaged store is set aside and not used: the agent logs what it lost and starts over. If a store is deleted, replaced
or damaged while the agent runs, nothing is lost: the agent writes its whole state into a new one.

Only one process can open a store: it holds a lock on NAME.lock in the same folder.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer.agents import files
from gossamer.agents.round.closing import Parked
from gossamer.agents.round.ledger_state import KEPT, LedgerState
from gossamer.agents.store import file as store_file
from gossamer.agents.store.file import ERRORS, Damaged, Record
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, OutputError
from gossamer.methods.anytime_sda import AnytimeSDA

log = logging.getLogger("gossamer.agents.store.agent_store")


@dataclass(frozen=True)
class Saved:
    """The content of a store: the agent's round, the state of its ledger, the position of its source, its extremes, the
    epoch in which it hands its data over (-1 if it does not), and the signed roster that it follows."""

    round: int
    ledger: LedgerState
    position: bytes = b""
    extremes: bytes = b""
    leaving: int = -1
    roster: bytes = b""


class AgentStore:
    """An agent's SQLite file. Used by one thread at a time."""

    def __init__(
        self,
        path: str | Path,
        agent: int,
        dimension: int,
        method: str = AnytimeSDA.name,
        names: Mapping[int, str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.agent = agent
        self.dimension = dimension
        self.method = method
        self._names = {} if names is None else names
        self.failure: str | None = None
        """Why the last save failed, or None."""
        self.failures = 0
        self._noise = b""
        self._db: sqlite3.Connection | None = None
        self._lock: int | None = None
        try:
            self._lock = hold(self.path)
            self._saved = self._open()
        except (*ERRORS, OSError) as error:
            self.close()
            raise OutputError(
                f"the store {self.path} cannot be opened ({error}); it must be a file that SQLite can write, on a disk "
                "that is not full; what it holds is kept"
            ) from error
        except InvalidInput:
            self.close()
            raise

    def load(self) -> Saved | None:
        """Return the content of the store when it was opened, or None for a new agent."""
        return self._saved

    def _open(self) -> Saved | None:
        record = self._empty()
        try:
            if self.path.exists():
                record = store_file.read(self.path)
                self._check_owner(record)
            elif any(file.exists() for file in store_file.companions(self.path)):
                raise Damaged("it is missing, and only the auxiliary files of SQLite are left")
            else:
                store_file.create(self.path, record)
        except Damaged as damage:
            until = store_file.last_change(self.path)
            aside = store_file.create(self.path, record, "damaged")
            log.error(
                "the store %s is damaged (%s), so it was set aside as %s and the agent starts over; it lost "
                "everything stored until %s: its observations, and its ledgers, which its neighbors know. "
                "To restore a copy, stop the agent and run `gossamer store restore`",
                self.path,
                damage,
                aside and aside.name,
                until,
            )
        self._connect()
        self._noise = record.noise
        return None if record.empty else _saved(record, self.path)

    def _connect(self) -> None:
        os.chmod(self.path, 0o600)
        self._db = store_file.connect(self.path)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        # Every commit is also written to the file itself, so that a damaged log cannot restore an older state.
        self._db.execute("PRAGMA wal_autocheckpoint=1")
        # A changed bit must not make a second record.
        self._db.execute("UPDATE agent SET one = 1 WHERE one <> 1")
        self._file = os.stat(self.path)

    def _check_owner(self, record: Record) -> None:
        if (record.agent, record.dimension) != (self.agent, self.dimension):
            raise InvalidInput(
                f"the store {self.path} must belong to {self._name(self.agent)} with {self.dimension} averaged "
                f"components, but it belongs to {self._name(record.agent)} with {record.dimension}; give this agent "
                "its own store, go back to the statistics and dimension with which it was made, or delete the file to "
                "start over"
            )
        if record.method != self.method:
            raise InvalidInput(
                f"the store {self.path} must belong to the method {self.method}, but it belongs to {record.method}; "
                "go back to that method, or delete the file to start over"
            )

    def _name(self, agent: int) -> str:
        return self._names.get(agent, f"agent {agent}")

    def _empty(self) -> Record:
        return Record(
            agent=self.agent, dimension=self.dimension, method=self.method, noise=self._noise, empty=True
        )

    def noise(self, draw: Callable[[], Floats]) -> Floats:
        """Return (n,) the noise that the agent adds to its level, the same in every run.

        It is drawn once and written to disk before any message is sent, because several draws for the same observations
        would average out.
        """
        if not self._noise:
            self._noise = _bytes(draw())
            assert self._db is not None
            try:
                store_file.write(self._db, self._empty())
            except (*ERRORS, OSError) as error:
                self.close()
                raise OutputError(
                    f"the store {self.path} must hold the agent's noise, but {error}"
                ) from error
        return np.frombuffer(self._noise, "<f8").copy()

    def save(self, saved: Saved) -> bool:
        """Commit and sync; return whether `saved` now survives a crash. If not, `failure` says why."""
        state = saved.ledger
        record = Record(
            agent=self.agent,
            dimension=self.dimension,
            method=self.method,
            round=saved.round,
            serial=state.serial,
            age=state.age,
            samples=state.samples,
            local=_bytes(state.local),
            flows={j: _bytes(flow) for j, flow in state.flows.items()},
            position=saved.position,
            extremes=saved.extremes,
            parked={j: (_bytes(p.flow), p.mine, p.theirs, p.doubt) for j, p in state.parked.items()},
            masks={j: _bytes(mask) for j, mask in state.masks.items()},
            secrets=dict(state.secrets),
            noise=self._noise,
            closed=dict(state.closed),
            reset=state.reset,
            leaving=saved.leaving,
            calm=True,
            roster=saved.roster,
        )
        try:
            if not self._write(record):
                self._renew(record)
        except (*ERRORS, OSError) as error:
            self.failure = str(error)
            self.failures += 1
            return False
        self.failure = None
        return True

    def _write(self, record: Record) -> bool:
        """Write a record; return False if it is not readable under the store's name, or if the file is damaged."""
        if self._db is None:  # an earlier attempt to renew the store failed
            return False
        try:
            seal = store_file.write(self._db, record)
        except ERRORS as error:
            if store_file.tells_of_damage(error, self.path):
                return False
            raise
        try:
            in_place = os.path.samestat(os.stat(self.path), self._file)
        except FileNotFoundError:
            return False
        return in_place and store_file.stored_seal(self.path) == seal

    def _renew(self, record: Record) -> None:
        """Write the record into a new file, because the old one was deleted, replaced or damaged."""
        self._disconnect()
        with suppress(InvalidInput):  # the lock is still held
            held, self._lock = self._lock, hold(self.path)
            if held is not None:
                os.close(held)
        existed = self.path.exists()
        aside = store_file.create(self.path, record, "replaced")
        self._connect()
        log.error(
            "the store %s was %s while the agent ran; nothing is lost: its content is in a new one",
            self.path,
            f"replaced or damaged (the old file is now {aside and aside.name})" if existed else "deleted",
        )

    def _disconnect(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):  # of a file that is damaged
                self._db.close()
            self._db = None

    def close(self) -> None:
        self._disconnect()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def hold(path: Path) -> int:
    """Lock a store; raises InvalidInput if another process holds it."""
    new = path.with_name(path.name + ".new")
    files.check((path, *store_file.companions(path), new, *store_file.companions(new)))
    held = files.lock(path.with_name(path.name + ".lock"))
    if held is None:
        raise InvalidInput(
            f"the store {path} is in use by another process; stop that process first, "
            "or give this agent a store of its own"
        )
    return held


def _saved(record: Record, path: Path) -> Saved:
    flows = {j: record.array(flow) for j, flow in record.flows.items() if record.calm or j == KEPT}
    if len(flows) < len(record.flows):
        log.info(
            "flows that an earlier version stored in %s are ignored, because they may contain circular flows; "
            "the neighbors have the valid ones, and edges without one start again with zero flow",
            path,
        )
    parked = {j: Parked(record.array(p[0]), *p[1:]) for j, p in record.parked.items()}
    local = record.array(record.local)
    masks = {j: record.array(mask)[0] for j, mask in record.masks.items()}
    ledger = LedgerState(
        record.age,
        record.serial,
        record.samples,
        local,
        flows,
        parked,
        record.closed,
        record.reset,
        masks,
        record.secrets,
    )
    return Saved(record.round, ledger, record.position, record.extremes, record.leaving, record.roster)


def stored_roster(path: Path | None) -> bytes:
    """The signed roster in a store; empty if there is none. Whether the store is sound is judged when it is opened."""
    with suppress(*ERRORS, OSError, InvalidInput):
        return b"" if path is None else store_file.read(path).roster
    return b""


def _bytes(values: Floats) -> bytes:
    return values.astype("<f8").tobytes()


_SERIALS_PER_COMMIT = 2**20
"""More messages than any agent sends between two commits."""


def first_serial(saved: Saved | None) -> int:
    """Return a serial above those of all earlier runs, even if the clock was set back since."""
    now = time.time_ns() // 1000
    return max(now, saved.ledger.serial + _SERIALS_PER_COMMIT) if saved else now
