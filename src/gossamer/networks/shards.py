"""Networks in a folder with one file per part, which `partition` writes and the ranks of a cluster read.

    partition.json   name, size, the parts with their agents, and the spectral facts that methods need
    part-0003.npz    starts, neighbors, codes, weights: the links of a part (see `links.py`); labels: its agents' names

The agents are numbered part by part. The manifest is written last, so a folder that has one is complete.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossamer.arrays import NOT_NPZ, AnyArray
from gossamer.errors import InvalidInput, OutputError
from gossamer.facts import KnownFacts
from gossamer.networks.links import Links, Rows, some_rows

MANIFEST = "partition.json"


class Shards(NamedTuple):
    """The manifest of a folder."""

    folder: Path
    name: str
    agents: int
    bounds: list[int]  #: part k holds the agents bounds[k] .. bounds[k + 1] - 1
    facts: KnownFacts | None  #: None if its spectrum is unknown
    cut: int  #: edges between parts

    def links(self, first: int, last: int) -> Links:
        """Return the links of the parts that start with these agents."""
        parts = [k for k, low in enumerate(self.bounds[:-1]) if first <= low and self.bounds[k + 1] <= last]
        loaded = [self._load(k, ("starts", "neighbors", "codes", "weights")) for k in parts]
        if not loaded:
            return Links(np.zeros(1, np.uint32), np.empty(0, np.uint32), np.empty(0, np.uint8), np.ones(1))
        ends = np.cumsum([0, *(len(neighbors) for _, neighbors, _, _ in loaded)])
        starts = [part[0][:-1] + end for part, end in zip(loaded, ends[:-1], strict=True)]
        return Links(
            np.concatenate([*starts, ends[-1:]]).astype(np.uint32),
            np.concatenate([part[1] for part in loaded]),
            np.concatenate([part[2] for part in loaded]),
            loaded[0][3],
        )

    def labels(self) -> list[Hashable]:
        return [name for k in range(len(self.bounds) - 1) for name in self._load(k, ("labels",))[0].tolist()]

    def _load(self, part: int, names: Sequence[str]) -> list[AnyArray]:
        file = self.folder / _file(part)
        try:
            with np.load(file) as held:
                return [held[name] for name in names]
        except NOT_NPZ as error:
            raise InvalidInput(f"{file} cannot be read as a part of a network: {error}") from error


def is_sharded(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def open_shards(folder: Path, weights: str = "file") -> Shards:
    if weights not in ("metropolis", "file"):  # the first is the default
        raise InvalidInput(
            f"are those that {folder} was written with, got {weights!r}; leave them out, or partition "
            "the network again",
            parameter="weights",
        )
    try:
        held = json.loads((folder / MANIFEST).read_text())
        facts = None if held["facts"] is None else KnownFacts(**held["facts"])
        return Shards(folder, held["name"], held["agents"], held["bounds"], facts, held["cut"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{folder / MANIFEST} is not the manifest of a network in parts: {error}"
        ) from error


def write_shards(shards: Shards, links: Links, labels: Sequence[Hashable]) -> None:
    """Write the links of a network whose agents are numbered part by part."""
    whole = all(isinstance(label, int) for label in labels)
    names = np.array(labels if whole else [str(label) for label in labels])
    weights = links.weights * links.scale
    try:
        shards.folder.mkdir(parents=True, exist_ok=True)
        (shards.folder / MANIFEST).unlink(missing_ok=True)
        for k, (first, last) in enumerate(pairwise(shards.bounds)):
            begin, end = links.starts[[first, last]]
            rows = some_rows(Rows(links.starts, links.neighbors), first, last)
            np.savez(
                shards.folder / _file(k),
                starts=rows.starts,
                neighbors=rows.neighbors,
                codes=links.codes[begin:end],
                weights=weights,
                labels=names[first:last],
            )
        content = {**shards._asdict(), "facts": None if shards.facts is None else shards.facts._asdict()}
        del content["folder"]
        draft = shards.folder / f"{MANIFEST}.part"
        draft.write_text(json.dumps(content, indent=1) + "\n")
        draft.replace(shards.folder / MANIFEST)
    except OSError as error:
        raise OutputError(f"{shards.folder} cannot be written: {error}") from error


def _file(part: int) -> str:
    return f"part-{part:04d}.npz"
