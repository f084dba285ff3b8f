"""Structured logs of an agent's process: JSON lines on standard error, with Zenoh's own messages among them.

Zenoh logs nothing by default and, when it does, writes colored text to standard output. But an operator must see
why a connection was refused, at both ends. So `capture_zenoh` replaces standard output with a pipe, turns the lines
that matter into log records, and yields the real standard output for the estimates.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from gossamer.errors import require

log = logging.getLogger("gossamer.agents.zenoh")

LEVELS = ("debug", "info", "warning", "error")

ZENOH_LEVELS = (
    "warn,zenoh::net::runtime::orchestrator=debug,zenoh::net::routing::interceptor::access_control=info"
)
"""Zenoh's log levels that make a refusal visible; the environment variable RUST_LOG overrides them."""

_LINE = re.compile(r"\S+Z\s+(?P<level>[A-Z]+)\s+.*?ThreadId\(\d+\)\s+(?P<target>[\w:]+):\s(?P<text>.*)")
_PLACE = re.compile(r" at /\S+\.rs:\d+\.?")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_NO_CONNECTION = re.compile(
    r"Unable to connect to (?:configured peer )?(?P<peer>\S+?)!? (?P<why>.*?)\.* ?Retry"
)
_WHOM = re.compile(r"cannot connect to \S+")
_NOT_THERE = re.compile(
    r"refused \(|reset|timed? ?out|unreachable|no route|broken pipe|eof|close", re.IGNORECASE
)
"""Reasons that pass by themselves, because the neighbor is starting, stopping or being restarted."""
_DIGITS = re.compile(r"\d+")
_REASONS = {
    "Hint: increase the system open file limit.": "",
    "received corrupt message of type InvalidContentType": "it does not speak TLS",
    "peer sent no certificates": "it showed no certificate",
}
_PASSING = ("Received Data for unknown expr_id",)
"""Zenoh calls these errors; they are messages of a neighbor that is just stopping, and count as lost."""

_CHATTER = ("Gossip is disabled", "Scouting delay elapsed")

FILE_BYTES, FILES_KEPT = 10_000_000, 5
"""A log file that has grown so long becomes NAME.1, which becomes NAME.2, and so on up to the number kept."""

_SETTLING = 15.0
"""Seconds in which a neighbor that is not there is no reason to worry."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the agent, and whatever `extra` holds."""

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


class Sparing(logging.Filter):
    """Pass only the 1st, 2nd, 4th, 8th, ... of equal messages, so that a stranger's attempts cannot fill the disk.

    Messages are equal if they differ only in the digits of a text they quote: times, ports, counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: Counter[tuple[object, ...]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        quoted = record.args if isinstance(record.args, tuple) else (record.args,)
        key = (record.name, str(record.msg), *(a if isinstance(a, int) else _gist(str(a)) for a in quoted))
        if len(self._seen) > 10_000:  # messages that differ each time must not fill memory either
            self._seen.clear()
        self._seen[key] += 1
        times = self._seen[key]
        if times > 1:
            record.times = times
        return times & (times - 1) == 0


def _gist(text: str) -> str:
    """A text without its digits, except for the address of a neighbor that cannot be reached."""
    whom = _WHOM.match(text)
    start = whom.end() if whom else 0
    return text[:start] + _DIGITS.sub("#", text[start:])


class LogFile(RotatingFileHandler):
    """A file that is appended to and rotated by size; with `standard` also one of the process's standard streams.

    So the last words of the interpreter, or of Zenoh, are in the file as well.
    """

    def __init__(self, path: Path, standard: int | None = None) -> None:
        self._standard = standard
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")

    def _open(self) -> io.TextIOWrapper:
        stream = super()._open()
        if self._standard is not None:
            os.dup2(stream.fileno(), self._standard)
        return stream

    def reopen(self) -> None:
        """Go on in the file of this name, if someone has moved it away or deleted it."""
        self.acquire()
        try:
            before, self.stream = self.stream, self._open()  # if that fails, the old one stays
            if before is not None:
                before.close()
        finally:
            self.release()


class LineFile(io.TextIOBase):
    """A log file as something to print lines to: each call of `print` writes one line."""

    def __init__(self, path: Path) -> None:
        self.file = LogFile(path)

    def write(self, text: str) -> int:
        if text != "\n":  # the end of the line, which the handler adds
            self.file.handle(logging.makeLogRecord({"msg": text}))
        return len(text)


def set_up(agent: str, level: str = "info", file: Path | None = None) -> None:
    """Send this process's logs and warnings as JSON lines to standard error, or to a file that takes its place."""
    handler = logging.StreamHandler(sys.stderr) if file is None else LogFile(file, standard=2)
    handler.setFormatter(JsonFormatter(agent))
    handler.addFilter(Sparing())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


def set_level(level: str) -> bool:
    """Log what is at least this serious from now on; return whether that is a change."""
    root, before = logging.getLogger(), logging.getLogger().level
    root.setLevel(level.upper())
    return root.level != before


def reopen() -> None:
    """Reopen the log file, if logs go to one."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            handler.reopen()


@contextmanager
def capture_zenoh() -> Iterator[TextIO]:
    """Turn Zenoh's log lines into log records inside the block; yields the real standard output."""
    zenoh = require("zenoh", "agents")
    sys.stdout.flush()
    read, write = os.pipe()
    unbuffered = os.fdopen(os.dup(1), "wb", buffering=0)  # what cannot be written is not tried again
    with io.TextIOWrapper(unbuffered, encoding="utf-8", write_through=True) as real:
        os.dup2(write, 1)
        os.close(write)
        lines = os.fdopen(read, encoding="utf-8", errors="replace")
        thread = threading.Thread(target=_forward, args=(lines,), name="zenoh-log", daemon=True)
        thread.start()
        zenoh.init_log_from_env_or(ZENOH_LEVELS)
        try:
            yield real
        finally:
            # The thread must see the end of the pipe: a thread that is still reading would hang Python's exit.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.close(nowhere)
            thread.join(timeout=1)


def _forward(lines: TextIO) -> None:
    asked = "RUST_LOG" in os.environ  # if it is set, someone wants to read all of it
    settling = Settling()
    with lines:
        for line in lines:
            level, text = translate(line)
            if text:
                log.log(settling.level(level, text), "%s", text)
            elif asked:
                log.info("%s", _COLOR.sub("", line).strip())


class Settling:
    """Lowers the level of "cannot connect to ..." for the first seconds in which a neighbor is not there.

    While a fleet starts or stops, agents are missing that will be there, or have been, and all is well.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._missing: dict[str, tuple[float, float]] = {}  # since when, and when the latest attempt failed

    def level(self, level: int, text: str) -> int:
        whom = _WHOM.match(text)
        if whom is None or not _NOT_THERE.search(text, whom.end()):
            return level
        now = self._clock()
        since, latest = self._missing.get(whom[0], (now, now))
        since = since if now - latest < _SETTLING else now  # no failure for a while: it was there
        self._missing[whom[0]] = (since, now)
        return level if now - since >= _SETTLING else logging.INFO


def plain(text: str) -> str:
    """One of Zenoh's sentences without its source locations, in plainer words."""
    text = _PLACE.sub("", text)
    for theirs, ours in _REASONS.items():
        text = text.replace(theirs, ours)
    return re.sub(r"Can not create a new \w+ link bound to .*?: \[(.*)\]", r"\1", text).strip(" .")


def translate(line: str) -> tuple[int, str]:
    """Return the level and the text, in our words, of a line of Zenoh's log; an empty text: skip it."""
    line = _COLOR.sub("", line).strip()
    match = _LINE.fullmatch(line)
    if not match:
        return logging.INFO, line
    text, target = match["text"], match["target"]
    if text.startswith(_CHATTER):
        return logging.DEBUG, ""
    text = plain(text)
    if text.startswith(_PASSING):
        return logging.INFO, f"zenoh: {text}"
    if failed := _NO_CONNECTION.match(text):
        address = failed["peer"].partition("/")[2]
        why = failed["why"].strip(" .").removeprefix(f"{address}: ")
        return logging.WARNING, f"cannot connect to {failed['peer']}: {why}"
    if target.startswith("zenoh_link_tls"):
        return logging.WARNING, f"refused a connection: {text}"
    if "did not match any configured ACL subject" in text:
        return logging.WARNING, "an agent of this fleet that is not a neighbor connected; it is not heard"
    if match["level"] in ("DEBUG", "TRACE") and "unauthorized" not in text:
        return logging.DEBUG, ""
    return getattr(logging, match["level"], logging.INFO), f"zenoh: {text}"
