"""Finished points on disk: one Parquet file each, found again by content; `pandas.read_parquet(folder)` reads all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.comparison.points import COLUMNS, ROUNDS, Row
from gossamer.comparison.values import Facts
from gossamer.errors import OutputError, require

_ORIGINS, _DIGEST = b"gossamer", b"digest"
_MARK, _BLANK = b"sha256 of this file with zeros here: ", b"0" * 64


class Origin(NamedTuple):
    """The origin of a row: a digest of the values that it was computed from, and the horizons computed with it.

    The last digits of an exact error depend on the horizons that were computed with it.
    """

    values: str
    together: str


@dataclass(frozen=True)
class Kept:
    """The rows of a point by number of rounds, their origins, and the known facts of the network's spectrum."""

    rows: dict[int, Row] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)


def _sealed(content: bytes) -> bytes:
    """The same file with the digest of all its bytes in the place that was left for it."""
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
    """A folder of results. A file appears whole or not at all, so that a run can be stopped at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: list[str] = []  #: keys of the files that were damaged when they were read
        self.arrow: Any = require("pyarrow", "data")
        self.parquet: Any = require("pyarrow.parquet", "data")
        kinds = {int: self.arrow.int64(), float: self.arrow.float64(), str: self.arrow.string()}
        self.schema = self.arrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
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

    def read(self, key: str) -> Kept:
        """Return what is known of a point: nothing if it was not computed yet, or if its file is damaged, which is
        recorded."""
        if f"{key}.parquet" not in self.kept:
            return Kept()
        try:
            content = verified((self.folder / f"{key}.parquet").read_bytes())
            table = self.parquet.read_table(self.arrow.BufferReader(content), schema=self.schema)
            known = json.loads(
                self.parquet.read_metadata(self.arrow.BufferReader(content)).metadata[_ORIGINS]
            )
        except (OSError, ValueError, KeyError, self.arrow.ArrowException):
            self.damaged.append(key)
            return Kept()
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        by_rounds = {row[ROUNDS]: row for row in rows}
        return Kept(by_rounds, {int(t): Origin(*each) for t, each in known["rows"].items()}, known["facts"])

    def write(self, key: str, kept: Kept) -> None:
        """Store the rows of a point, replacing earlier ones."""
        columns = dict(zip(COLUMNS, zip(*kept.rows.values(), strict=True), strict=True))
        table = self.arrow.table({name: list(values) for name, values in columns.items()}, schema=self.schema)
        origins = json.dumps({"rows": kept.origins, "facts": kept.facts})
        table = table.replace_schema_metadata({_ORIGINS: origins, _DIGEST: _MARK + _BLANK})
        content = self.arrow.BufferOutputStream()
        self.parquet.write_table(table, content, compression="none", use_dictionary=False)
        try:
            self._put(f"{key}.parquet", _sealed(content.getvalue().to_pybytes()))
        except OSError as error:
            raise OutputError(f"{self.folder} cannot be written ({error.strerror or error})") from error
        self.kept.add(f"{key}.parquet")

    def _put(self, name: str, content: Any) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".unfinished-", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, os.path.join(self.folder, name))
        except BaseException:
            os.unlink(temporary)
            raise
