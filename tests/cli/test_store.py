"""gossamer store: check, backup and restore, while the agent runs and while it does not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from tests.support.commands import invoke

from gossamer.agents.round.ledger_state import LedgerState
from gossamer.agents.store.agent_store import AgentStore, Saved
from gossamer.errors import InvalidInput, OutputError


def state(k: int) -> Saved:
    return Saved(10 * k, LedgerState(k, 5, 2.0 * k, np.full((2, 1), 1.5), {1: np.ones((2, 1))}), b"here")


def complaint(result: Result) -> str:
    assert isinstance(result.exception, InvalidInput | OutputError), result.output
    return str(result.exception)


def test_check_backup_and_restore(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.sqlite", tmp_path / "copy.sqlite"
    store = AgentStore(path, 0, 1)
    assert "agent 0, method anytime-sda, nothing saved yet" in invoke("store", "check", path).output
    assert store.save(state(3))
    found = invoke("store", "check", path).output
    assert "a.sqlite is sound: agent 0, method anytime-sda, round 30, 6 observations" in found
    assert json.loads(invoke("store", "check", path, "--json").output)["samples"] == 6
    assert "round 30, 6 observations" in invoke("store", "backup", path, copy).output
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "must be a new file" in complaint(invoke("store", "backup", path, copy))
    assert store.save(state(4))
    assert "is in use by another process; stop" in complaint(invoke("store", "restore", path, copy))
    store.close()

    result = invoke("store", "restore", path, copy)
    assert "round 30, 6 observations; the replaced store is now a.sqlite.replaced-" in result.output
    again = AgentStore(path, 0, 1)
    saved = again.load()
    again.close()
    assert saved is not None
    assert (saved.round, saved.ledger.samples, saved.position) == (30, 6.0, b"here")
    (aside,) = tmp_path.glob("a.sqlite.replaced-*")
    assert "round 40, 8 observations" in invoke("store", "check", aside).output


@pytest.mark.parametrize("command", ["check", "backup", "restore"])
def test_what_cannot_be_believed_is_refused(tmp_path: Path, command: str) -> None:
    path, other = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    words = {"check": [path], "backup": [path, other], "restore": [other, path]}[command]
    assert "there is no store" in complaint(invoke("store", command, *words))
    path.write_bytes(b"")
    assert "is damaged (it is empty); restore it" in complaint(invoke("store", command, *words))
    path.write_text("a letter to a friend, long enough to be taken for a file of another kind" * 30)
    assert "must be an agent's, but it cannot be read" in complaint(invoke("store", command, *words))
    assert not other.exists()


def test_a_copy_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    AgentStore(path, 0, 1).close()
    nowhere = tmp_path / "nowhere" / "b.sqlite"
    assert "cannot be written" in complaint(invoke("store", "backup", path, nowhere))
    assert "cannot be written" in complaint(invoke("store", "restore", nowhere, path))
