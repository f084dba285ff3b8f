"""Looking after stores from outside: is one sound, a copy of it, and a copy put back."""

from __future__ import annotations

import os
from pathlib import Path

from gossamer.agents.store import file as store_file
from gossamer.agents.store.agent_store import hold
from gossamer.agents.store.file import ERRORS, Damaged, Record
from gossamer.errors import InvalidInput, OutputError


def check(path: Path) -> Record:
    """What a store holds, while its agent runs or not; raises InvalidInput if it cannot be believed."""
    try:
        return store_file.read(path)
    except Damaged as damage:
        raise InvalidInput(
            f"the store {path} is damaged ({damage}); restore it from a copy, "
            "or let its agent set it aside and start anew"
        ) from None
    except FileNotFoundError:
        raise InvalidInput(f"there is no store {path}; an agent's is NAME.sqlite in its directory") from None
    except (*ERRORS, OSError) as error:
        raise InvalidInput(f"the store {path} must be an agent's, but it cannot be read ({error})") from None


def backup(path: Path, copy: Path) -> Record:
    """Copy a sound store to a new file, while its agent runs or not."""
    if copy.exists():
        raise InvalidInput(
            f"the copy {copy} must be a new file, but there is one already; choose another name"
        )
    record = check(path)
    _create(copy, record)
    return record


def restore(path: Path, copy: Path) -> tuple[Record, Path | None]:
    """Put a sound copy in the place of a store that is not in use; also returns where the store that was there is."""
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
