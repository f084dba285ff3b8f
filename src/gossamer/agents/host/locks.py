"""Locks on files: a process holds one for as long as it runs, and it is released however the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def lock(path: Path) -> int | None:
    """Lock a file, which is created if needed; None: another process holds the lock.

    The lock lasts until the returned descriptor is closed, here and in every process that inherited it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
