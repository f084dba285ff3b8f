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
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from gossamer.errors import require

log = logging.getLogger("gossamer.agents.zenoh")

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
_DIGITS = re.compile(r"\d+")
_REASONS = {
    "Hint: increase the system open file limit.": "",
    "received corrupt message of type InvalidContentType": "it does not speak TLS",
    "peer sent no certificates": "it showed no certificate",
}
_CHATTER = ("Gossip is disabled", "Scouting delay elapsed")

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


def set_up(agent: str, level: str = "info", stream: TextIO | None = None) -> None:
    """Send this process's logs and warnings to standard error as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(agent))
    handler.addFilter(Sparing())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


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
    with lines:
        for line in lines:
            level, text = translate(line)
            if text:
                log.log(level, "%s", text)
            elif asked:
                log.info("%s", _COLOR.sub("", line).strip())


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
    text = text.strip(" .")
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
