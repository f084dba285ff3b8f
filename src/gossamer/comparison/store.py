"""Finished points on disk: one Parquet file each, found again by content; `pandas.read_parquet(folder)` reads all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from gossamer.comparison.points import COLUMNS, Row
from gossamer.errors import OutputError, require


class Store:
    """A folder of results. A file appears whole or not at all, so that a run can be stopped at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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

    def read(self, key: str) -> list[Row]:
        """The rows of a point; none if it was not computed yet, or if its file is damaged."""
        if f"{key}.parquet" not in self.kept:
            return []
        try:
            table = self.parquet.read_table(self.folder / f"{key}.parquet", schema=self.schema)
        except (OSError, self.arrow.ArrowException):
            return []
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def write(self, key: str, rows: list[Row]) -> None:
        """Keep the rows of a point, in place of those that it had."""
        columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
        table = self.arrow.table({name: list(values) for name, values in columns.items()}, schema=self.schema)
        content = self.arrow.BufferOutputStream()
        self.parquet.write_table(table, content, compression="none", use_dictionary=False)
        try:
            self._put(f"{key}.parquet", content.getvalue())
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
