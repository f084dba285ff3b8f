"""Checkpoints of a simulation over many ranks: a file for each rank, and a manifest that names them.

The manifest is written last and atomically, so that it always names complete files: a job that is killed at any moment
leaves the last checkpoint or the one before. Files hold ranges of agents, so a different number of ranks reads what it
needs from several of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypedDict

import numpy as np

from gossamer import checks
from gossamer.arrays import AnyArray, Floats
from gossamer.engines.simulate.collective import on_all_ranks
from gossamer.errors import InvalidInput, OutputError

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

MANIFEST = "checkpoint.json"


class Position(NamedTuple):
    """The progress of a simulation: the current task, its next round, and the errors so far."""

    task: int
    round: int
    errors: Floats  #: (H, trials)


class _Manifest(TypedDict):
    identity: dict[str, object]
    task: int
    round: int
    errors: list[list[float]]
    shards: list[tuple[str, int, int]]


class Checkpoints:
    """Checkpoints in `folder`, at regular numbers of rounds; without a folder nothing is saved."""

    def __init__(self, folder: Path | None, every: int) -> None:
        self.folder = folder
        self.every = checks.whole_number("every", every, least=1)
        self._shards: list[tuple[str, int, int]] = []
        self._last: str = "there is no checkpoint yet"

    def open(self, comm: Intracomm, identity: Mapping[str, object], first: int, last: int) -> Position | None:
        """Return the position of the last checkpoint of this simulation; None if there is none."""
        self.comm, self.identity, self.first, self.last = comm, identity, first, last
        if self.folder is None:
            return None
        manifest = comm.bcast(on_all_ranks(comm, self._find))
        self._was = None
        if threading.current_thread() is threading.main_thread():  # Python handles signals only there
            self._was = signal.signal(signal.SIGTERM, self._stopped)
        if manifest is None:
            return None
        self._shards = [(name, begin, stop) for name, begin, stop in manifest["shards"]]
        self._remember(manifest["round"])
        return Position(manifest["task"], manifest["round"], np.array(manifest["errors"]))

    def _find(self) -> _Manifest | None:
        if self.comm.rank or self.folder is None:
            return None
        path = self.folder / MANIFEST
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Fail now instead of after hours of work.
            tempfile.TemporaryFile(dir=self.folder).close()
            text = path.read_text() if path.exists() else None
        except OSError as error:
            raise OutputError(
                f"must be a folder that can be written: {error}", parameter="checkpoint"
            ) from error
        if text is None:
            return None
        try:
            manifest: _Manifest = json.loads(text)
            known = dict(manifest["identity"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"{path} is not the manifest of a checkpoint ({error!r}); name another folder, or remove that one"
            ) from error
        same = json.loads(json.dumps(self.identity))
        other = [key for key in same if known.get(key) != same[key]]
        if other:
            key = other[0]
            raise InvalidInput(
                f"must be a folder of this simulation, but {self.folder} holds one with {key} = "
                f"{checks.brief(known.get(key))}, and this one has {checks.brief(same[key])}; name "
                "another folder, or remove that one",
                parameter="checkpoint",
            )
        for name, _, _ in manifest["shards"]:
            self._load(name)
        return manifest

    def due(self, round: int, rounds: int) -> bool:
        return self.folder is not None and 0 < round < rounds and round % self.every == 0

    def save(self, position: Position, registers: AnyArray, messages: AnyArray) -> None:
        """Save this rank's registers (R, n) and messages (n,); all ranks save together."""
        assert self.folder is not None
        name = f"task-{position.task}-round-{position.round}-agents-{self.first}-{self.last}.npy"

        def write() -> None:
            assert self.folder is not None
            with (self.folder / f"{name}.part").open("wb") as file:
                np.save(file, np.concatenate([registers, messages[None]]))
                file.flush()
                os.fsync(file.fileno())
            (self.folder / f"{name}.part").replace(self.folder / name)

        self._written(write)
        shards = self.comm.allgather((name, self.first, self.last))
        self._written(lambda: self._name_them(position, shards))
        self._shards = shards
        self._remember(position.round)

    def _written(self, write: Callable[[], None]) -> None:
        """Write on all ranks; if one fails, all stop with one message, and the previous checkpoint remains."""

        def tried() -> None:
            try:
                write()
            except OSError as error:
                why = error if error.errno else f"{error}: is the disk full?"  # NumPy does not give a reason
                raise OutputError(f"{self.folder} cannot be written: {why}; {self._last}") from error

        on_all_ranks(self.comm, tried)

    def _name_them(self, position: Position, shards: list[tuple[str, int, int]]) -> None:
        """Write the manifest, then remove the files of earlier and of unfinished checkpoints."""
        if self.comm.rank:
            return
        assert self.folder is not None
        content: _Manifest = {
            "identity": dict(self.identity),
            "task": position.task,
            "round": position.round,
            "errors": position.errors.tolist(),
            "shards": shards,
        }
        draft = self.folder / f"{MANIFEST}.part"
        with draft.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / MANIFEST)
        names = {name for name, _, _ in shards}
        for old in self.folder.glob("task-*-round-*.npy*"):
            if old.name not in names:
                old.unlink()

    def read(self, first: int, last: int) -> tuple[AnyArray, AnyArray]:
        """Return the registers (R, n) and messages (n,) of some agents in the last checkpoint."""
        pieces = []
        for name, begin, stop in sorted(self._shards, key=lambda shard: shard[1]):
            low, high = max(begin, first), min(stop, last)
            if low < high:
                pieces.append(np.array(self._load(name)[:, low - begin : high - begin]))
        if not pieces:  # a rank without agents
            pieces.append(np.array(self._load(self._shards[0][0])[:, :0]))
        rows = np.concatenate(pieces, axis=1)
        return rows[:-1], rows[-1]

    def _load(self, name: str) -> AnyArray:
        """Open a file of the last checkpoint; only the used part is read."""
        assert self.folder is not None
        try:
            return np.asarray(np.load(self.folder / name, mmap_mode="r"))
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{self.folder / name} cannot be read, and the checkpoint needs it ({error}); name another folder, or "
                "remove that one"
            ) from error

    def close(self) -> None:
        if self.folder is not None and self._was is not None:
            signal.signal(signal.SIGTERM, self._was)

    def _remember(self, round: int) -> None:
        resume = "the same command resumes from there"
        self._last = f"the last checkpoint in {self.folder} is that of round {round}; {resume}"

    def _stopped(self, number: int, frame: object) -> NoReturn:
        """Log the last checkpoint when MPI ends this rank because another one has died."""
        if self.comm.rank == 0:
            print(
                f"error: the job was stopped, or a rank has died; {self._last}", file=sys.stderr, flush=True
            )
        os._exit(143)
