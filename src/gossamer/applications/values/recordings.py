"""Files of recorded steps: Parquet, NumPy, JSON lines, and local Minari datasets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from gossamer import checks
from gossamer.arrays import NOT_NPZ, AnyArray
from gossamer.errors import InvalidInput, require

Columns = dict[str, object]
"""The arguments of `Experience.of`."""

NEEDED, OPTIONAL = ("states", "rewards", "next_states"), ("terminated", "truncated", "importance")


def read(path: Path, agents: int | None) -> Columns:
    """See `Experience.read`."""
    readers = {".parquet": _parquet, ".npz": _npz, ".jsonl": _lines}
    if path.is_dir():
        return _minari(path, 1 if agents is None else checks.whole_number("agents", agents, least=1))
    if path.suffix.lower() not in readers:
        raise InvalidInput(
            f"{path} must end in {', '.join(readers)}, or be the folder of a dataset of Minari"
        )
    return readers[path.suffix.lower()](path)


def write(path: Path, columns: Mapping[str, AnyArray]) -> None:
    """See `Experience.save`."""
    if path.suffix.lower() == ".npz":
        np.savez_compressed(path, allow_pickle=False, **columns)
        return
    if columns["terminated"].ndim > 1:
        raise InvalidInput(
            "a Parquet file holds one trajectory that all agents see, not one for each agent; use a name that ends in "
            ".npz"
        )
    arrow, parquet = require("pyarrow", "data"), require("pyarrow.parquet", "data")
    table: Columns = {name: columns[name] for name in OPTIONAL}
    for name in NEEDED:
        rows = columns[name].reshape(len(columns[name]), -1)
        table |= {f"{name[:-1]}_{k}": rows[:, k] for k in range(rows.shape[1])}
    parquet.write_table(arrow.table(table), str(path))


def _parquet(path: Path) -> Columns:
    parquet = require("pyarrow.parquet", "data")
    try:
        table = parquet.read_table(str(path))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as Parquet: {error}") from error
    columns = {name: table[name].to_numpy() for name in table.column_names}

    def block(prefix: str) -> AnyArray:
        names = {int(m[1]): name for name in columns if (m := re.fullmatch(rf"{prefix}_(\d+)", name))}
        if sorted(names) != list(range(len(names))) or not names:
            raise InvalidInput(
                f"{path} needs the columns {prefix}_0, {prefix}_1, ..., got {', '.join(columns) or 'none'}"
            )
        return np.column_stack([columns[names[k]] for k in range(len(names))])

    blocks = {name: block(name[:-1]) for name in NEEDED}
    for name in ("states", "next_states"):
        if blocks[name].shape[1] == 1 and blocks[name].dtype.kind in "iu":  # numbers of states
            blocks[name] = blocks[name][:, 0]
    return {**blocks, **{name: columns[name] for name in OPTIONAL if name in columns}}


def _npz(path: Path) -> Columns:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            columns = {name: arrays[name] for name in arrays.files}
    except NOT_NPZ as error:
        raise InvalidInput(f"{path} cannot be read as arrays of NumPy: {error}") from error
    _check_names(str(path), columns)
    return dict(columns)


def _lines(path: Path) -> Columns:
    """Read one object per step, with the names of the columns; states and next_states may be in the singular."""
    rows = []
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"{path}, line {number} is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise InvalidInput(
                f"{path}, line {number} must be an object with state, rewards and next_state, got {checks.brief(row)}"
            )
        row = {{"state": "states", "next_state": "next_states"}.get(key, key): row[key] for key in row}
        _check_names(f"{path}, line {number}", row)
        rows.append({**dict(zip(OPTIONAL, (False, False, 1.0), strict=True)), **row})
    if not rows:
        raise InvalidInput(f"{path} holds no steps")
    try:
        return {name: np.array([row[name] for row in rows]) for name in (*NEEDED, *OPTIONAL)}
    except ValueError:
        raise InvalidInput(f"{path}: states and rewards must have the same length in all lines") from None


def _check_names(where: str, columns: Mapping[str, object]) -> None:
    missing = [name for name in NEEDED if name not in columns]
    unknown = [name for name in columns if name not in (*NEEDED, *OPTIONAL)]
    if missing or unknown:
        raise InvalidInput(
            f"{where} needs {', '.join(NEEDED)} and may have {', '.join(OPTIONAL)}, "
            + (f"but lacks {', '.join(missing)}" if missing else f"got {', '.join(unknown)}")
        )


# -- Minari ---------------------------------------------------------------------------------------------------------


def _minari(path: Path, agents: int) -> Columns:
    """Deal the episodes of a local dataset of Minari to the agents in turn, the same number of steps to each."""
    root = path / "data" if (path / "data").is_dir() else path
    stored = root / "main_data.hdf5"
    episodes = list(_hdf5(stored) if stored.exists() else _arrow(root))
    if len(episodes) < agents:
        raise InvalidInput(
            f"{path} must hold a dataset of Minari with at least one episode for each of {agents} agents, got "
            f"{len(episodes)}"
        )
    dealt = [
        [np.concatenate(parts) for parts in zip(*episodes[i::agents], strict=True)] for i in range(agents)
    ]
    steps = min(len(own[0]) for own in dealt)
    columns = [np.stack([own[k][:steps] for own in dealt], axis=1) for k in range(5)]
    return dict(zip((*NEEDED, "terminated", "truncated"), columns, strict=True))


def _episode(observations: AnyArray, rewards: AnyArray, ends: AnyArray) -> tuple[AnyArray, ...]:
    """Return the steps of an episode of L rewards and L + 1 observations; one that does not terminate is cut off."""
    cuts = np.zeros(len(rewards), dtype=bool)
    cuts[-1] = not ends[-1]
    return observations[:-1], rewards, observations[1:], ends, cuts


def _hdf5(path: Path) -> Iterator[tuple[AnyArray, ...]]:
    with require("h5py", "minari").File(path, "r") as file:
        for name in sorted(file, key=lambda text: int(text.rpartition("_")[2])):
            held = file[name]
            if not hasattr(held["observations"], "shape"):
                raise InvalidInput(
                    f"{path} has observations in parts ({', '.join(held['observations'])}); only arrays of numbers "
                    "can be read"
                )
            ends = np.asarray(held["terminations"], dtype=bool)
            yield _episode(np.asarray(held["observations"]), np.asarray(held["rewards"]), ends)


def _arrow(root: Path) -> Iterator[tuple[AnyArray, ...]]:
    dataset = require("pyarrow.dataset", "data")
    for folder in sorted((p for p in root.iterdir() if p.name.isdigit()), key=lambda p: int(p.name)):
        files = sorted(p for p in folder.iterdir() if p.suffix in (".parquet", ".arrow"))
        if not files:
            continue
        table = dataset.dataset(files, format=files[0].suffix[1:]).to_table()
        rewards, ends = (np.asarray(table[name])[:-1] for name in ("rewards", "terminations"))
        yield _episode(np.array(table["observations"].to_pylist()), rewards, ends.astype(bool))
