"""A sink that appends JSON lines to a file."""

from __future__ import annotations

import errno
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
        line = f"{json.dumps(answer)}\n".encode()
        descriptor = files.open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(descriptor, "ab", buffering=0) as file:  # one call, so that agents may share a file
            written = file.write(line)
            if written < len(line):
                file.truncate(file.tell() - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
