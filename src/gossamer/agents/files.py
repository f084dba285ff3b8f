"""Files of an agent that no other user can have tampered with, and locks on them.

Another user of the machine must not make an agent read another configuration, run other code or overwrite another
file. So a file is opened only if it is a regular file, not reached through a symbolic link, that only its owner can
write, in a folder in which no other user can create files. This is checked on the descriptor that is then used, so the
file cannot be exchanged in between. Root, the user that runs the agent, and the owner of the folder are trusted.
Files that decide which code runs are more restricted: fleet.toml (its sources may be commands), the file of a custom
method, and their folders must belong to root or to the user that runs the agent (`check_code`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gossamer.errors import InvalidInput

_REMEDY = "put a regular file there, owned by the user that runs the agent"


def read(path: Path) -> str:
    """Return the text of a file that only its owner can have written."""
    descriptor = open_private(path, os.O_RDONLY)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        return file.read()


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it; anything else is refused, because opening or reading a pipe or a device may never end."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file")
    return file


def read_secret(path: Path) -> str:
    """Return the first line of a file that only its owner can read, such as a password."""
    check_secret(path, "the secret")
    secret = read(path).partition("\n")[0].strip()
    if not secret:
        raise InvalidInput(f"the first line of {path} must be the secret, got an empty one")
    return secret


def check_secret(path: Path, what: str) -> None:
    """Raise if users other than its owner can read a file."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise InvalidInput(f"{what} {path} cannot be read ({error.strerror})") from None
    if os.name == "posix" and mode & 0o077:
        raise InvalidInput(
            f"{what} {path} must be readable only by its owner (mode 0600), got mode {mode:04o}; run: chmod 600 {path}"
        )


def open_private(path: Path, flags: int, mode: int = 0o644) -> int:
    """Open a file like `os.open`, unless another user can have tampered with it; then raise InvalidInput.

    The file is truncated (O_TRUNC) only after the check.
    """
    with _folder(path.parent) as folder:
        try:
            # O_NONBLOCK: opening a named pipe must not block; it has no effect on files
            opening = flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(path.name, opening, mode, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
                raise InvalidInput(
                    f"{path} must be a regular file, got a symbolic link or pipe; {_REMEDY}"
                ) from None
            raise
        try:
            _check_file(path, os.fstat(descriptor), os.fstat(folder))
            if flags & os.O_TRUNC:
                os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def replace(path: Path, text: str) -> None:
    """Replace a file atomically, without following links."""
    new = path.with_suffix(".new")
    with suppress(FileNotFoundError):
        os.unlink(new)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)


def check(paths: Iterable[Path]) -> None:
    """Raise for the first of these files, or their folders, that another user can have tampered with.

    Missing files are fine. This is for files that other code opens by name: in such a folder no other user can exchange
    them.
    """
    for path in paths:
        with suppress(FileNotFoundError), _folder(path.parent) as folder:
            status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):  # opening it fails with a better message
                _check_file(path, status, os.fstat(folder))


def check_code(path: Path) -> None:
    """Raise unless a file, and its folder, belong to root or to the user that runs this process.

    For other files the owner of the folder is trusted as well, but this one decides which code runs.
    """
    check([path])
    for owned in (path.parent, path):
        with suppress(FileNotFoundError):
            owner = owned.stat().st_uid
            if owner not in (0, os.geteuid()):
                raise InvalidInput(
                    f"{owned} must belong to root or to the user that runs this, user {os.geteuid()}, because it "
                    f"decides what code is run, got user {owner}; run this as that user, or `chown` it"
                )


def make_folder(path: Path) -> None:
    """Create a folder that only its owner can write, unless it exists; raise if others can write to it."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o755)
    if path.is_symlink():
        raise InvalidInput(
            f"{path} must be a folder, got a symbolic link; remove the link, or make a folder there"
        )
    with _folder(path):
        pass


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    """Yield the descriptor of a folder in which only trusted users can exchange files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if _others_write(status) and not status.st_mode & stat.S_ISVTX:
            raise InvalidInput(
                f"{path} must be a folder that only its owner can write, got mode {status.st_mode & 0o7777:o}: others "
                f"could exchange the agent's files; run `chmod go-w {path}`"
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _check_file(path: Path, status: os.stat_result, folder: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "something else"
        raise InvalidInput(f"{path} must be a regular file, got {kind}; {_REMEDY}")
    if status.st_uid not in (0, os.geteuid(), folder.st_uid):
        raise InvalidInput(
            f"{path} must belong to the user that runs the agent, got user {status.st_uid}; "
            "run `chown` on it, or remove it"
        )
    if _others_write(status):
        raise InvalidInput(
            f"{path} must be a file that only its owner can write, got mode {status.st_mode & 0o7777:o}; "
            f"check what is in it, then run `chmod go-w {path}`"
        )


def _others_write(status: os.stat_result) -> bool:
    """Whether users other than the owner can write; a group with the owner's number is the owner's private group."""
    return bool(status.st_mode & 0o002 or (status.st_mode & 0o020 and status.st_gid != status.st_uid))


def lock(path: Path) -> int | None:
    """Lock a file, which is created if needed; return None if another process holds the lock.

    The lock lasts until the returned descriptor is closed in this process and in all that inherited it.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
