"""Logs that cannot be flooded."""

from __future__ import annotations

import ast
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer import agents
from gossamer.agents.config.settings import Label
from gossamer.agents.host import logs
from gossamer.agents.host.logs import LineFile, LogFile, RepeatFilter
from gossamer.errors import InvalidInput

EXPIRED = (
    "refused a connection: certificate expired: verification time {}, but not valid after 9 ({} seconds ago)"
)


def passed(*messages: tuple[object, ...], name: str = "gossamer.agents") -> list[int]:
    """Which of some messages, (format, arguments...), pass."""
    repeats = RepeatFilter()
    records = [logging.LogRecord(name, logging.INFO, "", 0, m[0], m[1:], None) for m in messages]
    return [k for k, record in enumerate(records) if repeats.filter(record)]


def test_equal_messages_pass_ever_more_rarely() -> None:
    assert passed(*[("%s", "hello")] * 20) == [0, 1, 3, 7, 15]


def test_times_and_ports_make_no_difference() -> None:
    assert passed(*[("%s", EXPIRED.format(1000 + k, k)) for k in range(20)]) == [0, 1, 3, 7, 15]
    assert passed(*[("%s", f"the client 10.0.0.7:{4000 + k} went") for k in range(20)]) == [0, 1, 3, 7, 15]


def test_neighbors_are_told_apart() -> None:
    neighbors = [("%s: neighbor %s connected", Label("agent0"), Label(f"agent{j}")) for j in range(5)]
    assert passed(*neighbors) == [0, 1, 2, 3, 4]
    away = [("cannot connect to %s/%s: %s", "tls", f"10.0.0.{j}:7447", f"error {j % 2}") for j in range(5)]
    assert passed(*away, *away) == list(range(10))
    assert passed(*[away[0]] * 8) == [0, 1, 3, 7]


def numbers_in(source: str) -> list[str]:
    """The arguments of log calls that are an agent's number and not its name."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log.")
    ]
    texts = [ast.unparse(argument) for call in calls for argument in call.args]
    return [text for text in texts if re.search(r"\.(id|agent|sender)\b", text) and "names.get(" not in text]


@pytest.mark.slow
def test_log_lines_name_agents() -> None:
    assert numbers_in("log.info('%s left %s', n.label, peer.id)") == ["peer.id"]
    folder = Path(agents.__file__).parent
    assert [text for file in folder.rglob("*.py") for text in numbers_in(file.read_text("utf-8"))] == []


def test_a_log_file_is_appended_to_and_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 1000)
    monkeypatch.setattr(logs, "FILES_KEPT", 3)
    for life in range(2):
        file = LineFile(tmp_path / "a.jsonl")
        for k in range(50):
            line = f"life {life} line {k} ...................................."
            if k % 2:
                print(line, file=file, flush=True)
            else:
                file.write(line + "\n")
        file.file.close()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"a.jsonl", "a.jsonl.1", "a.jsonl.2", "a.jsonl.3"}
    assert all(size <= 1000 for size in sizes.values())
    lines = [
        line for k in (".3", ".2", ".1", "") for line in (tmp_path / f"a.jsonl{k}").read_text().splitlines()
    ]
    assert lines[-1].startswith("life 1 line 49 ")
    assert all(line.endswith("...") for line in lines)  # none is torn apart


def test_a_file_that_was_moved_away_is_opened_again(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log")
    for name in ("before", "after"):
        file.handle(logging.makeLogRecord({"msg": name}))
        (tmp_path / "a.log").rename(tmp_path / name)
        file.reopen()
    file.close()
    assert [(tmp_path / name).read_text() for name in ("before", "after")] == ["before\n", "after\n"]


@pytest.mark.slow
def test_the_last_words_of_a_process_are_in_its_log(tmp_path: Path) -> None:
    """Whatever writes to standard error without Python's help, after a rotation too."""
    program = """
import logging, os, pathlib, sys
from gossamer.agents.host import logs
logs.FILE_BYTES = 500
logs.set_up("pump", file=pathlib.Path(sys.argv[1]))
for k in range(5):
    logging.warning("%d " + 100 * "x", k)
os.write(2, b"thread panicked")
"""
    log = tmp_path / "pump.log"
    subprocess.run([sys.executable, "-c", program, str(log)], check=True, timeout=60)
    assert log.read_text().endswith("thread panicked")
    assert (tmp_path / "pump.log.1").exists()


def test_the_tail_of_a_log_is_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text("".join(f"line {k:03d}\n" for k in range(100)))
    assert logs.tail(file)[0] == "line 000"
    assert logs.tail(file, size=18) == ["line 098", "line 099"]  # 9 bytes each: none is cut
    assert logs.tail(file, size=20) == ["line 098", "line 099"]
    with file.open("ab") as end:
        end.write(b"\xff\n")
    assert logs.tail(file, size=2) == ["\ufffd"]


def test_the_tail_of_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to(__file__)
    with pytest.raises(InvalidInput, match="symbolic link"):
        logs.tail(tmp_path / "a.log")
