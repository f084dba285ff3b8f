"""A piece of work: a function and its settings, plain enough to be written down, and the key it is stored under."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossamer import __version__
from gossamer.fingerprint import fingerprint
from gossamer.paper.pipeline.results import SCHEMA, Row


@dataclass(frozen=True)
class Piece:
    """An independent piece of work: `work(**settings)` returns rows. `weight` guesses its seconds, for progress."""

    name: str
    work: Callable[..., list[Row]]
    settings: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0

    @property
    def kind(self) -> str:
        """What pieces of different graphs have in common."""
        return self.work.__name__.replace("_", " ")

    @property
    def identity(self) -> dict[str, Any]:
        """Everything the result depends on, in plain words and numbers."""
        identity = {
            "schema": SCHEMA,
            "version": __version__,
            "code": fingerprint(Path(inspect.getfile(self.work))),
            "work": f"{self.work.__module__}.{self.work.__qualname__}",
            "settings": self.settings,
        }
        plain: dict[str, Any] = json.loads(json.dumps(identity))
        return plain

    @property
    def key(self) -> str:
        text = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
