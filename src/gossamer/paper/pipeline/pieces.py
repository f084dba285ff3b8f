"""A piece of work: a function, its settings (JSON values), and the key under which its rows are stored."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gossamer.fingerprint import fingerprint
from gossamer.paper.pipeline.results import Row


@dataclass(frozen=True)
class Piece:
    """An independent piece of work: `work(**settings)` returns rows. `weight` is about its seconds, for progress."""

    name: str
    work: Callable[..., list[Row]]
    settings: Mapping[str, object] = field(default_factory=dict)
    weight: float = 1.0

    @property
    def kind(self) -> str:
        """The kind of work, which pieces for different graphs share."""
        return self.work.__name__.replace("_", " ")

    @property
    def identity(self) -> dict[str, object]:
        """Everything that the rows depend on: the source code, the function and its settings."""
        return {
            "code": fingerprint(Path(inspect.getfile(self.work))),
            "work": f"{self.work.__module__}.{self.work.__qualname__}",
            "settings": self.settings,
        }

    @property
    def key(self) -> str:
        """The name and a digest of the identity. A changed setting or method therefore never picks up old results."""
        text = json.dumps(self.identity, sort_keys=True)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
