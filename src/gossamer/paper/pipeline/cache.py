"""Results on disk, one file per piece, found again only under exactly the same settings and code.

A piece's key is a digest of its function, its settings, the schema and the source code that its numbers depend on. So
a changed setting or a changed method never picks up an old result, and an interrupted run continues with the pieces
that are missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from gossamer.errors import OutputError
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import COLUMNS, Results, Row


class PieceCache:
    """The pieces on disk, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"results go to {folder}, but that folder cannot be made ({error.strerror}); choose another folder"
            ) from error

    def path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.name}-{piece.key}.json"

    def load(self, piece: Piece) -> tuple[list[Row], float] | None:
        """The rows of a piece and the seconds they took, or None unless exactly this piece was finished before."""
        try:
            found = json.loads(self.path(piece).read_text())
            if found["identity"] != piece.identity:
                return None
            rows = [
                {k: v for k, v in zip(COLUMNS, values, strict=True) if v is not None}
                for values in found["rows"]
            ]
            return rows, float(found["seconds"])
        except (OSError, ValueError, KeyError, TypeError):  # absent, or cut off by a crash: compute it again
            return None

    def save(self, piece: Piece, rows: Sequence[Row], seconds: float) -> None:
        """Write a finished piece; the file appears whole or not at all."""
        unknown = {name for row in rows for name in row} - set(COLUMNS)
        if unknown:
            raise LookupError(
                f"{piece.name} returned unknown columns {sorted(unknown)}; the columns are {COLUMNS}"
            )
        found = {"identity": piece.identity, "seconds": seconds, "rows": list(Results(rows).records())}
        path = self.path(piece)
        draft = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            draft.write_text(json.dumps(found))
            draft.replace(path)
        except OSError as error:
            raise OutputError(
                f"a result could not be written to {path} ({error.strerror}); free some space or choose another folder"
            ) from error
