"""Finished work on disk: one Parquet file for each key; `pandas.read_parquet(folder)` reads all of them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.errors import OutputError, require

_METADATA, _DIGEST = b"gossamer", b"digest"
_MARK, _BLANK = b"sha256 of this file with zeros here: ", b"0" * 64


class Stored(NamedTuple):
    """The content of a file: its rows, in the order of the columns, and the JSON object that was stored with them."""

    rows: list[tuple[Any, ...]]
    metadata: dict[str, Any]


def _sealed(content: bytes) -> bytes:
    """Return the same file with the digest of all its bytes in the place that was left for it."""
    before, mark, after = content.partition(_MARK + _BLANK)
    if not mark:
        raise AssertionError("a Parquet file holds its metadata as they are")
    return before + _MARK + hashlib.sha256(content).hexdigest().encode() + after


def verified(content: bytes) -> bytes:
    """Return the content of a file if it is intact; otherwise raise ValueError."""
    before, mark, after = content.partition(_MARK)
    size = len(_BLANK)
    if (
        not mark
        or hashlib.sha256(before + _MARK + _BLANK + after[size:]).hexdigest().encode() != after[:size]
    ):
        raise ValueError("not the file that was written")
    return content


class Store:
    """A folder of tables with these columns. Files are replaced atomically, so a run can be stopped at any moment."""

    def __init__(self, folder: Path, columns: Mapping[str, type]) -> None:
        self.folder = folder
        self.damaged: list[str] = []  #: keys of the files that were damaged when they were read
        self.arrow = require("pyarrow", "data")
        self.parquet = require("pyarrow.parquet", "data")
        kinds = {int: self.arrow.int64(), float: self.arrow.float64(), str: self.arrow.string()}
        self.schema = self.arrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.kept = {entry.name for entry in os.scandir(folder) if entry.name.endswith(".parquet")}
            tempfile.TemporaryFile(
                dir=folder
            ).close()  # a folder that cannot be written is found before the work
        except OSError as error:
            raise OutputError(
                f"{folder} cannot be used to keep results ({error.strerror or error}); "
                "choose a folder you can write to"
            ) from error

    def read(self, key: str) -> Stored | None:
        """Return what was stored under a key, or None. A damaged file counts as absent, and is recorded."""
        if f"{key}.parquet" not in self.kept:
            return None
        try:
            content = verified((self.folder / f"{key}.parquet").read_bytes())
            # Without Arrow's threads: one that is still busy when the interpreter exits aborts the process.
            with self.parquet.ParquetFile(self.arrow.BufferReader(content), pre_buffer=False) as file:
                table = file.read(columns=self.schema.names, use_threads=False).cast(self.schema)
                metadata = json.loads(file.metadata.metadata[_METADATA])
        except (OSError, ValueError, KeyError, self.arrow.ArrowException):
            self.damaged.append(key)
            return None
        return Stored(list(zip(*(column.to_pylist() for column in table.columns), strict=True)), metadata)

    def write(self, key: str, rows: Sequence[Sequence[object]], metadata: Mapping[str, object]) -> None:
        """Store rows under a key, replacing earlier ones."""
        columns = zip(*rows, strict=True) if rows else ((),) * len(self.schema)
        named = {name: list(values) for name, values in zip(self.schema.names, columns, strict=True)}
        table = self.arrow.table(named, schema=self.schema)
        table = table.replace_schema_metadata({_METADATA: json.dumps(metadata), _DIGEST: _MARK + _BLANK})
        content = self.arrow.BufferOutputStream()
        self.parquet.write_table(table, content, compression="none", use_dictionary=False)
        try:
            self._put(f"{key}.parquet", _sealed(content.getvalue().to_pybytes()))
        except OSError as error:
            raise OutputError(f"{self.folder} cannot be written ({error.strerror or error})") from error
        self.kept.add(f"{key}.parquet")

    def _put(self, name: str, content: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".unfinished-", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, os.path.join(self.folder, name))
        except BaseException:
            os.unlink(temporary)
            raise
