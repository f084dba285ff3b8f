"""A sink that appends JSON lines to a file."""

from __future__ import annotations

import json
import os

from gossamer.agents import files
from gossamer.agents.config.urls import Place, Url
from gossamer.agents.sinks.kinds import Answer, Sink
from gossamer.errors import InvalidInput


class FileSink(Sink):
    """Appends JSON lines to a file, which may be moved away at any time (log rotation)."""

    def __init__(self, url: Url, owner: Place) -> None:
        super().__init__(url, owner)
        path = url.rest.removeprefix("//").partition("?")[0]
        if not path:
            raise InvalidInput(f"the sink file://PATH needs a path, got {url.text!r}")
        self.path = owner.directory / path

    def write(self, answer: Answer) -> None:
        descriptor = files.open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(answer) + "\n")
