"""Collective work of the ranks of a communicator: an error on any of them ends all of them, with one message."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from gossamer.errors import GossamerError, Unsupported

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

Value = TypeVar("Value")


def on_all_ranks(comm: Intracomm, work: Callable[[], Value]) -> Value:
    """Do this rank's share of some work; where it fails on any rank, rank 0 raises the error and the others end."""
    trouble: Exception | None = None
    try:
        value = work()
    except Exception as error:  # any error: the others would wait for this rank forever
        trouble = error
    errors = comm.allgather(None if trouble is None else (type(trouble), _text(trouble)))
    failed = [(rank, *error) for rank, error in enumerate(errors) if error is not None]
    if not failed:
        return value
    if comm.rank:
        raise SystemExit(2)
    rank, kind, text = failed[0]
    if trouble is not None:
        raise trouble
    raise (kind if issubclass(kind, GossamerError) else Unsupported)(f"rank {rank} of {comm.size}: {text}")


def or_abort(comm: Intracomm, work: Callable[[], Value]) -> Value:
    """Do work in which ranks wait for each other: an error on one of them ends all of them with its message."""
    try:
        return work()
    except Exception as error:
        text = _text(error)
        _end(comm, text if text.startswith("rank ") else f"rank {comm.rank} of {comm.size}: {text}")


def _text(error: Exception) -> str:
    """Return the message for the user, with a traceback if the error is not one of this package."""
    if isinstance(error, GossamerError | OSError | MemoryError):
        return str(error) or "this does not fit into memory"
    return "".join(traceback.format_exception(error))


def _end(comm: Intracomm, text: str) -> NoReturn:
    """End all ranks with one message."""
    print(f"error: {text}", file=sys.stderr, flush=True)
    comm.Abort(3)
