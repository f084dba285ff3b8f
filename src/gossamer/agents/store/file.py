"""The file of a store: one record with a checksum in an SQLite file.

The record holds everything an agent must remember. Its seal is a digest of its bytes, so a change of any bit is
noticed. A file always holds a record, which is empty before the first save. So there are three kinds of files: valid
ones, damaged ones (`Damaged` says how), and files of other programs, which are not touched.

A commit counts once it is also in the file itself, not only in SQLite's log (WAL). If the log is damaged, SQLite uses
its intact beginning, which is an older state if another process has kept the log from being emptied. So a reader looks
at both, and the newer intact record counts.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gossamer.agents.config.settings import LARGEST, LARGEST_COUNT
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

FORMAT = 3
_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_APPLICATION = 0x676F7373  # "goss", at byte 68 of the file
_LARGEST_RECORD = 2**28
"""Bytes; SQLite refuses larger values, so that a hostile file takes no memory."""

_PATIENCE = 5.0
_LARGEST_NUMBER = LARGEST**2  # an agent keeps squares of what it may observe
_ENVIRONMENT = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
"""Errors of SQLite that are due to the disk or another process; all others mean a damaged file."""

ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; the second one for a message that quotes damaged bytes."""


class Damaged(InvalidInput):
    """A damaged store; the text says what is wrong."""


class Unfinished(sqlite3.OperationalError):
    """A commit that is in SQLite's log but not yet in the file itself, because another program reads an older state."""

    sqlite_errorcode = sqlite3.SQLITE_BUSY


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent must remember. Arrays are rows of `dimension` little-endian doubles.

    extremes  of its observations (see `Extremes.own`), or what values need (see `StepBatcher.own`)
    position  position of its source (see `Source.resume`) after the last observation in this record
    parked    former neighbor -> flow, certificates of both ends, and whether it is in doubt (see `Parked`)
    masks     neighbor -> the mask of its edge (see `masking.py`)
    secrets   neighbor -> the secret of its edge's mask, if masks change, and how often it has changed
    noise     the noise that the agent adds to its level (see `AgentStore.noise`)
    closed    neighbor whose edge is closed -> whether it has a reason for that (see `closing.py`)
    reset     the last epoch in which all flows were set to zero
    leaving   the epoch in which the agent hands its data over; -1 if it does not
    roster    the signed roster that it follows; empty if it has none
    empty     nothing has been saved yet
    calm      whether the fleet returned flows slowly; otherwise flows may contain circular ones left by outages
    """

    format: int = FORMAT
    agent: int
    dimension: int
    method: str
    empty: bool = False
    round: int = 0
    serial: int = 0
    age: int = 0
    samples: float = 0.0
    local: bytes = b""
    flows: dict[int, bytes] = msgspec.field(default_factory=dict)
    extremes: bytes = b""
    position: bytes = b""
    parked: dict[int, tuple[bytes, str, str, bool]] = msgspec.field(default_factory=dict)
    masks: dict[int, bytes] = msgspec.field(default_factory=dict)
    secrets: dict[int, tuple[bytes, int]] = msgspec.field(default_factory=dict)
    noise: bytes = b""
    closed: dict[int, bool] = msgspec.field(default_factory=dict)
    reset: int = 0
    leaving: int = -1
    calm: bool = False
    roster: bytes = b""

    def array(self, content: bytes) -> Floats:
        """The array in some bytes of the record."""
        return np.frombuffer(content, "<f8").reshape(-1, self.dimension).copy()

    def check(self) -> None:
        """Raise `Damaged` if no agent can have saved this record."""
        counts = (self.round, self.serial, self.age, self.samples)
        if not (self.dimension >= 1 and all(0 <= count <= LARGEST_COUNT for count in counts)):
            raise Damaged(f"its round, serial, age and samples cannot be {counts}")
        parked = (flow for flow, *_ in self.parked.values())
        for content in (self.local, *self.flows.values(), *parked, *self.masks.values(), self.noise):
            try:
                values = self.array(content)
            except ValueError as error:
                raise Damaged(f"its numbers are not rows of {self.dimension}: {error}") from None
            if not np.all(np.abs(values) <= _LARGEST_NUMBER):  # nan is not, either
                raise Damaged(f"it holds numbers that are not finite, or beyond {_LARGEST_NUMBER:g}")


class _Format(msgspec.Struct):
    format: int


_FORMAT = msgspec.msgpack.Decoder(_Format)
_RECORD = msgspec.msgpack.Decoder(Record)


def connect(path: Path, access: str = "mode=rw") -> sqlite3.Connection:
    """Open a file that exists."""
    uri = f"{path.absolute().as_uri()}?{access}"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=1.0)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_RECORD)
    return db


def _limit(db: sqlite3.Connection) -> None:
    """Interrupt queries on this connection after `_PATIENCE` seconds, because a file may contain an endless view."""
    end = time.monotonic() + _PATIENCE
    db.set_progress_handler(lambda: time.monotonic() > end, 100_000)


def create(path: Path, record: Record, aside: str = "") -> Path | None:
    """Create a file that is complete from the moment it appears, and readable only by its owner.

    With `aside`, the old file is renamed for that reason once the new one is complete, and its new path is returned; so
    nothing changes if the disk is full.
    """
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(connect(new)) as db:
        db.execute("PRAGMA synchronous=FULL")
        db.execute(f"PRAGMA application_id={_APPLICATION}")
        db.execute(
            "CREATE TABLE agent (one INTEGER PRIMARY KEY CHECK (one = 1), record BLOB NOT NULL, seal BLOB NOT NULL)"
        )
        write(db, record)
    present = aside and any(file.exists() for file in (path, *companions(path)))
    kept = set_aside(path, aside) if present else None
    os.replace(new, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return kept


def write(db: sqlite3.Connection, record: Record) -> bytes:
    """Replace the record in one transaction; return its seal.

    Raises `Unfinished` if readers keep the record out of the file for longer than the connection's timeout.
    """
    content = msgspec.msgpack.encode(record)
    seal = _seal(content)
    db.execute("INSERT OR REPLACE INTO agent VALUES (1, ?, ?)", (content, seal))
    busy, pages, copied = db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
    if busy or pages != copied:
        raise Unfinished("another program has been reading it, which keeps a commit out of the file")
    return seal


def _seal(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def stored_seal(path: Path) -> bytes | None:
    """The seal that a new reader sees under this name; None if the file is damaged or holds none."""
    try:
        with closing(connect(path)) as db:
            rows = db.execute("SELECT seal FROM agent LIMIT 2").fetchall()
            return rows[0][0] if len(rows) == 1 else None
    except ERRORS as error:
        if tells_of_damage(error, path):
            return None
        raise


def read(path: Path) -> Record:
    """The record of a file. Raises `Damaged`, InvalidInput for a file of another program, OSError or ERRORS."""
    with path.open("rb") as file:
        header = file.read(_HEADER)
    cut = len(header) < _HEADER and _MAGIC.startswith(header[: len(_MAGIC)])
    if cut or not any(header):
        raise Damaged("it is empty" if not any(header) else f"only {len(header)} bytes of it are left")
    mine = header[68:72] == _APPLICATION.to_bytes(4, "big")
    try:
        with closing(connect(path)) as db:
            _limit(db)
            mine = mine or _check_owner(path, db)
            record = _read(db)
    except ERRORS as error:
        if mine and tells_of_damage(error, path):
            return _without_log(path, Damaged(str(error)))
        raise
    except Damaged as damage:
        return _without_log(path, damage)
    return _without_log(path, record)


def _without_log(path: Path, view: Record | Damaged) -> Record:
    """The record of the file itself if it is newer than `view`, what SQLite shows of the file and its log."""
    record = None if isinstance(view, Damaged) else view
    if any(file.exists() for file in companions(path)):
        with suppress(*ERRORS, Damaged), closing(connect(path, "immutable=1")) as db:
            _limit(db)
            alone = _read(db)
            if record is None or alone.serial > record.serial:
                return alone
    if record is None:
        assert isinstance(view, Damaged)
        raise view
    return record


def tells_of_damage(error: Exception, path: Path) -> bool:
    """Whether an error of SQLite means that the file itself is damaged."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return code not in _ENVIRONMENT or (code == sqlite3.SQLITE_READONLY and os.access(path, os.W_OK))


def _check_owner(path: Path, db: sqlite3.Connection) -> bool:
    """Return True if this is a store although its application id is missing; raise InvalidInput if it is not."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(agent)")}
    if "seal" in columns:
        return True
    if columns >= {"format", "id", "dimension"}:
        version = db.execute("SELECT format FROM agent").fetchone() or ("unknown",)
        raise InvalidInput(
            f"the store {path} must have the format {FORMAT}, but it has the format {version[0]} of an earlier "
            "version; go back to that version, or delete the file to start over"
        )
    tables = sorted(name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    raise InvalidInput(
        f"the store {path} must be an agent's, but it is a database with other tables "
        f"({', '.join(tables[:3])}); choose another directory"
    )


def _read(db: sqlite3.Connection) -> Record:
    rows = db.execute("SELECT record, seal FROM agent LIMIT 2").fetchall()
    if len(rows) != 1:
        raise Damaged(f"it holds {'several records' if rows else 'no record'} instead of one")
    content, seal = rows[0]
    if not isinstance(content, bytes) or seal != _seal(content):
        raise Damaged("its record was changed: the checksum does not match")
    try:
        version = _FORMAT.decode(content).format
        if version != FORMAT:
            raise InvalidInput(
                f"a store must have the format {FORMAT}, but this one has the format {version}; "
                "use the version of gossamer that wrote it, or delete the file to start over"
            )
        record: Record = _RECORD.decode(content)
    except msgspec.DecodeError as error:
        raise Damaged(str(error)) from None
    record.check()
    return record


def companions(path: Path) -> list[Path]:
    """The auxiliary files of SQLite for this file."""
    return [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]


def set_aside(path: Path, why: str) -> Path:
    """Rename a file and its auxiliary files to NAME.why-TIME."""
    aside = path.with_name(f"{path.name}.{why}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    for old, new in zip((path, *companions(path)), (aside, *companions(aside)), strict=True):
        with suppress(FileNotFoundError):
            old.rename(new)
    return aside


def last_change(path: Path) -> str:
    """The last modification of a file or its log."""
    times = [file.stat().st_mtime for file in (path, *companions(path)) if file.exists()]
    return f"{datetime.fromtimestamp(max(times), UTC):%Y-%m-%d %H:%M:%S} UTC" if times else "an unknown time"
