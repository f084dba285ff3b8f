"""Observations from the rows of a CSV file, which may grow and be rotated."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossamer.agents.config.urls import Place, Url
from gossamer.agents.files import open_regular
from gossamer.agents.sources.kinds import AnySource, LiveSource, PacedSource, Source
from gossamer.agents.statistics.readings import BadObservation, Splitter, Vector, cells, parse_row
from gossamer.errors import InvalidInput

log = logging.getLogger("gossamer.agents.sources.opening")

_PIECE = 1 << 16
"""Bytes read at once."""

_TAIL = 100
"""Number of last characters by which, with its position, a row is recognized."""

_ROTATED = re.compile(r"[.-]\d[\d._T-]*")
"""Suffix that log rotation adds to a file name."""

_POLL = 0.2
"""Seconds between two polls of a file that is followed."""

_MARK = "\ufeff"
"""The byte order mark that some programs write before the first row."""


class _Rows(Source):
    """Rows of a CSV file, one per line, with or without a first row of names."""

    replays = True

    def __init__(self, dimension: int, path: Path, columns: list[str] | None = None) -> None:
        super().__init__(dimension)
        self.path = path
        self._first = True  # whether the next row is the file's first
        self._named = columns is not None  # whether that row is known to hold the names
        if columns is not None and len(columns) != dimension:
            raise InvalidInput(f"columns= must name {dimension} column(s), got {len(columns)}")
        self._columns = columns
        self._indices: list[int] | None = None
        if not self._missing():
            self._find_columns()

    def _missing(self) -> bool:
        """Return whether the file does not exist yet; raise InvalidInput if it must."""
        if not self.path.is_file():
            raise InvalidInput(f"the source csv:FILE needs an existing file, but there is no {self.path}")
        return False

    def _find_columns(self) -> None:
        self._indices = None if self._columns is None else _indices(self.path, self._columns)

    def begin(self, stored: int, largest: float) -> None:
        super().begin(stored, largest)
        if stored:
            log.info(
                "the first %d observations of %s are already stored, so they are skipped", stored, self.path
            )

    def understand(self, item: Any) -> Vector | None:
        first, self._first = self._first, False
        if not first:
            return parse_row(item, self.dimension, self._indices, self.largest)
        if not self._named:
            with contextlib.suppress(BadObservation):  # then the first row holds the names
                return parse_row(item.removeprefix(_MARK), self.dimension, self._indices, self.largest)
        return None

    def count_from_here(self) -> None:
        """Stop skipping at the end of the file; if it has fewer rows than are stored, it is another file."""
        if self.good < self.skip:
            log.warning(
                "%s has %d observations, but %d are stored: it was replaced or truncated, and it is unknown "
                "which of its rows are stored; all rows that it has now are skipped",
                self.path,
                self.good,
                self.skip,
            )
        self.skip = 0


class CsvFile(_Rows, PacedSource):
    """The rows of a file, one per round."""

    def raw(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8", errors="replace") as file:
            yield from file
        self.count_from_here()


class CsvTable(_Rows, PacedSource):
    """All rows of a file in the first round, again at every start of the agent; for models."""

    def begin(self, stored: int, largest: float) -> None:
        Source.begin(self, 0, largest)
        with self.path.open(encoding="utf-8", errors="replace") as file:
            rows = [value for value in map(self.accept, file) if value is not None]
        self._table = np.array(rows).reshape(-1, self.dimension)

    def raw(self) -> Iterator[Vector]:
        yield self._table

    def rounds(self) -> Iterator[Vector | None]:
        yield from self.raw()


class GrowingCsvFile(_Rows, LiveSource):
    """The rows of a file, and those added to it later, as they arrive.

    A truncated file is read from its start, and so is a new file of the same name, after the rest of the old one. The
    position is a row: the file's inode, the offset of the row's end, and its last characters. After a restart that row
    is searched in the file and in its rotated copies (NAME.1, NAME-20260102), and reading continues after it.
    """

    def __init__(self, dimension: int, path: Path, columns: list[str] | None = None) -> None:
        super().__init__(dimension, path, columns)
        self._last: _Row | None = None

    def _missing(self) -> bool:
        """Return whether the file, or its row with the names of the columns, does not exist yet."""
        try:
            with open_regular(self.path) as file:
                return self._columns is not None and not file.readline().endswith(b"\n")
        except FileNotFoundError:
            return True
        except OSError as error:
            raise InvalidInput(
                f"the source {self.path} cannot be read ({error.strerror}); a pipe is read by cmd:cat PIPE"
            ) from None

    @property
    def position(self) -> bytes:
        return b"" if self._last is None else json.dumps(self._last).encode()

    def resume(self, position: bytes) -> None:
        row = json.loads(position or b"null")
        self._last = _Row(*row) if isinstance(row, list) else None  # otherwise it is that of another source

    def begin(self, stored: int, largest: float) -> None:
        super().begin(0 if self._last else stored, largest)

    def repeats(self, stored: int) -> bool:
        """Return whether the file still has all rows that were read from it, that is, it was not rotated."""
        with open_regular(self.path) as file:
            return sum(1 for line in file if line.endswith(b"\n")) - self._named >= stored

    async def raw(self) -> AsyncGenerator[str]:
        if self._missing():
            self.failing = f"the source waits for the file {self.path}, which does not exist yet"
            log.warning("%s", self.failing)
            while self._missing():
                await asyncio.sleep(_POLL)
            log.info("the file %s exists now", self.path)
            self.failing = ""
            self._find_columns()
        *ended, start = self._parts()
        for part in ended:
            with contextlib.closing(_Reader(*part)) as old:
                for line in self._rows(old):
                    yield line
                self._leave(old)
        reader = _Reader(*start)
        try:
            while True:
                for line in self._rows(reader):
                    yield line
                self.count_from_here()
                await asyncio.sleep(_POLL)
                if (fresh := self._next(reader)) is not None:
                    for line in self._rows(reader) if fresh.identity.st_ino != reader.identity.st_ino else ():
                        yield line
                    self._leave(reader)
                    reader.close()
                    reader = fresh
        finally:
            reader.close()

    def _next(self, reader: _Reader) -> _Reader | None:
        """A reader of the file that has replaced the one that is read, or of the same file if it was truncated."""
        fresh = None
        try:
            now = self.path.stat()
            if not os.path.samestat(now, reader.identity) or now.st_size < reader.read:
                fresh = _Reader(self.path)
            self.failing = ""
        except FileNotFoundError:  # while it is rotated
            pass
        except OSError as error:  # such as no descriptor left
            self.failing = f"the source {self.path} cannot be read now ({error.strerror})"
        return fresh

    def _rows(self, reader: _Reader) -> Iterator[str]:
        for line, end in reader.rows():
            self._last = _Row(reader.identity.st_ino, end, line[-_TAIL:])
            yield line

    def _leave(self, reader: _Reader) -> None:
        """Finish a file, because another one begins, perhaps with names."""
        for line in reader.rest():
            self.complain(f"a row must be complete, got {line!r} before the file was replaced")
        self._first, self._named = True, False

    def _parts(self) -> list[tuple[Path, int]]:
        """Return the files to read, with the offset to start at; the last one is followed."""
        last = self._last
        if last is None:
            return [(self.path, 0)]
        older = sorted(
            (
                f
                for f in self.path.parent.iterdir()
                if _ROTATED.fullmatch(f.name.removeprefix(self.path.name))
            ),
            key=lambda file: file.stat().st_mtime_ns,
        )
        candidates = [f for f in (self.path, *reversed(older)) if _row_before(f, last.end) == last.tail]
        if not candidates:
            log.warning(
                "the row at which the agent stopped is neither in %s nor in a rotated copy: "
                "rows added after it are lost; %s is read from its start",
                self.path,
                self.path,
            )
            return [(self.path, 0)]
        start = next((file for file in candidates if file.stat().st_ino == last.inode), candidates[0])
        self._first = False
        log.info("reading of %s continues at byte %d of %s", self.path, last.end, start.name)
        if start == self.path:
            return [(start, last.end)]
        return [(start, last.end), *((file, 0) for file in older[older.index(start) + 1 :]), (self.path, 0)]


class _Row(NamedTuple):
    """A row of a file: the file's inode, the byte after the row, and the row's last characters."""

    inode: int
    end: int
    tail: str


class _Reader:
    """Reads complete rows of a file, with the offset of their ends."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self._file = open_regular(path)
        self._file.seek(start)
        self._splitter = Splitter()
        self._end = start
        self.read = start
        self.identity = os.fstat(self._file.fileno())

    def rows(self) -> Iterator[tuple[str, int]]:
        while piece := self._file.read(_PIECE):
            self.read += len(piece)
            for line, size in self._splitter.sized(piece):
                self._end += size
                yield line, self._end

    def rest(self) -> list[str]:
        return self._splitter.rest()

    def close(self) -> None:
        self._file.close()


def _row_before(path: Path, end: int) -> str | None:
    """Return the last characters of the row that ends at byte `end`; None if none ends there."""
    with contextlib.suppress(OSError), open_regular(path) as file:  # it may be unreadable or deleted
        file.seek(max(end - _PIECE, 0))
        content = file.read(min(end, _PIECE))
        if file.tell() == end and content.endswith(b"\n"):
            return content[:-1].rpartition(b"\n")[2].decode("utf-8", "replace")[-_TAIL:]
    return None


def open_csv(url: Url, owner: Place) -> AnySource:
    """Return the source csv:FILE,..."""
    dimension, covariates = owner.dimension, owner.covariates
    name, *options = url.rest.split(",")
    if not name.strip():
        required = "csv:FILE[,follow][,columns=a+b][,target=y]"
        raise InvalidInput(parameter="source", required=required, got=repr(url.text))
    columns: list[str] | None = None
    kind: type[CsvFile | CsvTable | GrowingCsvFile] = CsvTable if covariates else CsvFile
    for option in options:
        if option == "follow":
            kind = GrowingCsvFile
        elif option.startswith("columns="):
            columns = option.removeprefix("columns=").split("+")
        elif option.startswith("target="):
            if not covariates:
                raise InvalidInput(f"{option} is for fleets that learn a model; give fleet.toml a [model]")
            columns = [*covariates, option.removeprefix("target=")]
        else:
            raise InvalidInput(f"csv:FILE takes the options follow, columns=a+b and target=y, got {option!r}")
    if covariates and columns is None:
        raise InvalidInput(
            "a fleet that learns a model needs a column of labels; write csv:FILE,target=COLUMN"
        )
    return kind(dimension, Path(name), columns)


def _indices(path: Path, columns: list[str]) -> list[int]:
    """Return the indices of columns in a file whose first row holds their names."""
    with path.open(encoding="utf-8", errors="replace") as file:
        names = cells(file.readline().removeprefix(_MARK))
    missing = [column for column in columns if column not in names]
    if missing:
        raise InvalidInput(
            f"columns= and target= must be among {', '.join(names)} of {path}, got {missing[0]!r}"
        )
    return [names.index(column) for column in columns]
