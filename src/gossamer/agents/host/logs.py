"""Structured logs of an agent's process: JSON lines on standard error, or in files that are rotated."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections import Counter
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from gossamer.agents import files
from gossamer.agents.config.settings import Label
from gossamer.agents.host.outlet import Outlet

_ENDPOINT = re.compile(r"\S+:\d+")
_DIGITS = re.compile(r"\d+")

FILE_BYTES, FILES_KEPT = 10_000_000, 5
"""A log file of this size becomes NAME.1, which becomes NAME.2, and so on up to the number kept."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the agent, and the fields of `extra`."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self.agent = agent

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "agent": self.agent,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class RepeatFilter(logging.Filter):
    """Passes only the 1st, 2nd, 4th, 8th, ... of equal messages, so that a stranger's attempts cannot fill the disk.

    Messages are equal if they differ only in digits (times, ports, counts) that are not part of an agent's name.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: Counter[tuple[object, ...]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        quoted = record.args if isinstance(record.args, tuple) else (record.args,)
        exact = (int, Label)
        key = (record.name, str(record.msg), *(a if isinstance(a, exact) else _gist(str(a)) for a in quoted))
        if len(self._seen) > 10_000:  # messages that always differ must not fill the memory either
            self._seen.clear()
        self._seen[key] += 1
        times = self._seen[key]
        if times > 1:
            record.times = times
        return times & (times - 1) == 0


def _gist(text: str) -> str:
    """Return a text without its digits, unless it is an endpoint, which identifies a neighbor."""
    return text if _ENDPOINT.fullmatch(text) else _DIGITS.sub("#", text)


class LogFile(RotatingFileHandler):
    """A file that is appended to and rotated by size; with `standard` it also replaces one of the standard streams.

    So a fatal error of the interpreter is in the file as well. The file must be safe to write (`files.py`).
    """

    def __init__(self, path: Path, standard: int | None = None) -> None:
        self._standard = standard
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        stream = os.fdopen(files.open_private(Path(self.baseFilename), flags), "a", encoding="utf-8")
        if self._standard is not None:
            os.dup2(stream.fileno(), self._standard)
        return stream

    def reopen(self) -> None:
        """Open the file of this name again, in case it was moved or deleted."""
        self.acquire()
        try:
            before, self.stream = self.stream, self._open()  # if this fails, the old one stays
            if before is not None:
                before.close()
        finally:
            self.release()


class LineFile(io.TextIOBase):
    """A log file as a stream to which lines are written one at a time."""

    def __init__(self, path: Path) -> None:
        self.file = LogFile(path)

    def write(self, text: str) -> int:
        if line := text.removesuffix("\n"):  # the handler adds the end of the line
            self.file.handle(logging.makeLogRecord({"msg": line}))
        return len(text)


def tail(path: Path, size: int = 1 << 14) -> list[str]:
    """Return the last complete lines of a log, at most `size` bytes."""
    with os.fdopen(files.open_private(path, os.O_RDONLY), "rb") as file:
        start = max(os.fstat(file.fileno()).st_size - size, 0)
        file.seek(max(start - 1, 0))
        lines = file.read(size + 1).decode(errors="replace").splitlines()
    return lines[1:] if start else lines


def set_up(agent: str, file: Path | None = None) -> None:
    """Send this process's logs and warnings as JSON lines to standard error, or to a file that replaces it."""
    handler = logging.StreamHandler(Outlet(2, strict=False)) if file is None else LogFile(file, standard=2)
    handler.setFormatter(JsonFormatter(agent))
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)


def set_agent(name: str) -> None:
    """Label messages with the agent `name` from now on."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            handler.formatter.agent = name


def drain(seconds: float) -> None:
    """Wait at most `seconds` until all messages are written."""
    for handler in logging.getLogger().handlers:
        if isinstance(stream := getattr(handler, "stream", None), Outlet):
            stream.drain(seconds)


def set_level(level: str) -> bool:
    """Set the lowest level that is logged; return whether that is a change."""
    root, before = logging.getLogger(), logging.getLogger().level
    root.setLevel(level.upper())
    return root.level != before


def reopen() -> None:
    """Reopen the log file, if logs go to one."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            handler.reopen()
