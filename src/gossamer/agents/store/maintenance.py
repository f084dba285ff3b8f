"""Checks stores, copies them, and restores copies."""

from __future__ import annotations

import os
from pathlib import Path

from gossamer.agents.store import file as store_file
from gossamer.agents.store.agent_store import hold
from gossamer.agents.store.file import ERRORS, Damaged, Record
from gossamer.errors import InvalidInput, OutputError


def check(path: Path) -> Record:
    """Return the content of a store, whether or not its agent runs; raises InvalidInput if it is damaged."""
    try:
        return store_file.read(path)
    except Damaged as damage:
        raise InvalidInput(
            f"the store {path} is damaged ({damage}); restore it from a copy, "
            "or let its agent set it aside and start over"
        ) from None
    except FileNotFoundError:
        raise InvalidInput(f"there is no store {path}; an agent's is NAME.sqlite in its directory") from None
    except (*ERRORS, OSError) as error:
        raise InvalidInput(f"the store {path} must be an agent's, but it cannot be read ({error})") from None


def backup(path: Path, copy: Path) -> Record:
    """Copy an undamaged store to a new file, whether or not its agent runs."""
    if copy.exists():
        raise InvalidInput(
            f"the copy {copy} must be a new file, but there is one already; choose another name"
        )
    record = check(path)
    _create(copy, record)
    return record


def restore(path: Path, copy: Path) -> tuple[Record, Path | None]:
    """Replace a store that is not in use by an undamaged copy; also return where the old store was moved."""
    record = check(copy)
    try:
        held = hold(path)
    except OSError as error:
        raise OutputError(f"the store {path} cannot be written ({error.strerror})") from None
    try:
        return record, _create(path, record, "replaced")
    finally:
        os.close(held)


def _create(path: Path, record: Record, aside: str = "") -> Path | None:
    try:
        return store_file.create(path, record, aside)
    except (*ERRORS, OSError) as error:
        raise OutputError(f"the store {path} cannot be written ({error})") from None
