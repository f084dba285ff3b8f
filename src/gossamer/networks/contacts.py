"""Contacts by round: agents that move, random pairs, edges that fail, recorded contacts.

Every kind is a pure function of the round, so that rounds may be requested in any order, and the same seed gives the
same contacts everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from gossamer import checks
from gossamer.arrays import AnyArray, Floats, Integers, same
from gossamer.errors import InvalidInput, InvalidNetwork
from gossamer.networks.topologies import checked_pairs

EdgesLike: TypeAlias = ArrayLike | nx.Graph
"""Pairs of agent numbers, or a graph of them."""

Table = str | Path | AnyArray | Iterable[Sequence[Hashable]]
"""A file, an array, a data frame or rows."""

Block = tuple[Integers, Integers]
"""Contacts of some rounds: those of the k-th are rows indptr[k]:indptr[k + 1] of an array of pairs (low, high)."""


@dataclass(frozen=True, eq=False)
class Contacts(ABC):
    """The pairs of agents that can talk to each other, round by round."""

    agents: int

    @abstractmethod
    def pairs(self, round: int) -> Integers:
        """Return (E, 2) the pairs of one round, each with the smaller number first, and none twice."""

    def block(self, rounds: range) -> Block:
        """Return the pairs of several rounds."""
        stages = [self.pairs(t) for t in rounds]
        indptr = np.concatenate([[0], np.cumsum([len(pairs) for pairs in stages])]).astype(np.int64)
        return indptr, np.concatenate([np.empty((0, 2), dtype=np.int64), *stages])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)
        )

    def __hash__(self) -> int:
        return hash((type(self), self.agents))


@dataclass(frozen=True, eq=False)
class Waypoints(Contacts):
    """Agents in the unit square that move to one random point after another; contacts within `radius`."""

    radius: float
    speed: float
    seed: int

    def positions(self, rounds: range) -> Floats:
        """Return (rounds, N, 2) the positions of all agents."""
        legs = 64
        while (known := _way(self.agents, self.seed, legs)).lengths[:, -1].min() < self.speed * rounds.stop:
            legs *= 2
        travelled = self.speed * np.arange(rounds.start, rounds.stop)
        points = np.empty((len(rounds), self.agents, 2))
        for i in range(self.agents):
            for axis in range(2):
                points[:, i, axis] = np.interp(travelled, known.lengths[i], known.points[i, :, axis])
        return points

    def start(self) -> Floats:
        """Return (N, 2) the positions of all agents in round 0."""
        return np.asarray(self.positions(range(1))[0])

    def pairs(self, round: int) -> Integers:
        return self.block(range(round, round + 1))[1]

    def block(self, rounds: range) -> Block:
        if not rounds:
            return super().block(rounds)
        floors = np.broadcast_to(
            2.0 * self.radius * np.arange(len(rounds))[:, None, None], (len(rounds), self.agents, 1)
        )
        points = np.concatenate([self.positions(rounds), floors], axis=2).reshape(-1, 3)
        close = np.sort(cKDTree(points).query_pairs(self.radius, output_type="ndarray"), axis=1)
        close = close[np.lexsort((close[:, 1], close[:, 0]))]
        which, pairs = close[:, 0] // self.agents, close % self.agents
        indptr = np.searchsorted(which, np.arange(len(rounds) + 1))
        return indptr.astype(np.int64), pairs.astype(np.int64)


@dataclass(frozen=True)
class _Way:
    points: Floats  #: (N, legs + 1, 2)
    lengths: Floats  #: (N, legs + 1) the length of the path up to each point


@lru_cache(maxsize=8)
def _way(agents: int, seed: int, legs: int) -> _Way:
    """Return the paths of all agents; more legs continue the same paths."""
    points = np.stack([_generator(seed, i).random((legs + 1, 2)) for i in range(agents)])
    steps = np.linalg.norm(np.diff(points, axis=1), axis=2)
    return _Way(points, np.concatenate([np.zeros((agents, 1)), np.cumsum(steps, axis=1)], axis=1))


@dataclass(frozen=True, eq=False)
class Matchings(Contacts):
    """Random pairs; if the number of agents is odd, one stays alone."""

    seed: int

    def pairs(self, round: int) -> Integers:
        order = _generator(self.seed, round).permutation(self.agents)
        return np.sort(order[: self.agents // 2 * 2].reshape(-1, 2), axis=1)


@dataclass(frozen=True, eq=False)
class Dropout(Contacts):
    """Each edge is present with probability `alive`, independently in every round."""

    edges: Integers
    alive: float
    seed: int

    def pairs(self, round: int) -> Integers:
        return self.edges[_generator(self.seed, round).random(len(self.edges)) < self.alive]


@dataclass(frozen=True, eq=False)
class Listed(Contacts):
    """A list of stages of `every` rounds each; after the last one there are no contacts, or the list starts again."""

    indptr: Integers
    edges: Integers
    every: int
    repeat: bool

    def pairs(self, round: int) -> Integers:
        stage, stages = round // self.every, len(self.indptr) - 1
        if self.repeat:
            stage %= stages
        elif stage >= stages:
            return self.edges[:0]
        return self.edges[self.indptr[stage] : self.indptr[stage + 1]]


@dataclass(frozen=True, eq=False)
class Computed(Contacts):
    """Whatever a function of the round returns."""

    function: Callable[[int], EdgesLike]

    def pairs(self, round: int) -> Integers:
        return _checked(self.function(round), self.agents, f"the edges of round {round}")


def _checked(edges: EdgesLike, agents: int, what: str) -> Integers:
    """Return edges in any order, or those of a graph, as pairs with the smaller number first, none twice."""
    given = list(edges.edges) if isinstance(edges, nx.Graph) else edges
    pairs = checked_pairs(what, agents, given, "numbers, with labels of your own in addition")
    for agent in pairs[pairs[:, 0] == pairs[:, 1], 0].tolist():
        raise InvalidNetwork(
            f"must join two agents each, but one joins agent {agent} to itself", parameter=what
        )
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, number])


# -- recorded contacts ------------------------------------------------------------------------------------------


def read_contacts(table: Table, every: float | None, repeat: bool) -> tuple[Listed, tuple[Hashable, ...]]:
    """Return contacts from rows of time, a, b and perhaps a duration, and the names of the agents."""
    rows = _rows(table)
    try:
        times = np.array([float(row[0]) for row in rows])
        durations = np.array([float(row[3]) if len(row) > 3 else 0.0 for row in rows])
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"must have numbers for their times and durations: {error}", parameter="contacts"
        ) from None
    if not (np.isfinite(times).all() and np.isfinite(durations).all() and durations.min() >= 0):
        raise InvalidInput("must have finite times, and durations of at least 0", parameter="contacts")
    labels = _in_order({end for row in rows for end in row[1:3]})
    if len(labels) < 2:
        raise InvalidInput(f"must join at least 2 agents, got {len(labels)}", parameter="contacts")
    if every is None:
        gaps = np.diff(np.unique(times))
        every = float(gaps.min()) if gaps.size else 1.0
    number = {label: k for k, label in enumerate(labels)}
    ends = np.array([[number[row[1]], number[row[2]]] for row in rows])
    if np.any(ends[:, 0] == ends[:, 1]):
        alone = labels[int(ends[ends[:, 0] == ends[:, 1]][0, 0])]
        raise InvalidInput(f"a contact must join two agents, but one joins {alone!r} to itself")
    since = times - times.min()
    begin = np.floor(since / every + 1e-9).astype(np.int64)
    end = np.maximum(begin + 1, np.ceil((since + durations) / every - 1e-9).astype(np.int64))
    lasting = end - begin
    stage = (
        np.repeat(begin, lasting)
        + np.arange(lasting.sum())
        - np.repeat(np.cumsum(lasting) - lasting, lasting)
    )
    pairs = np.repeat(np.sort(ends, axis=1), lasting, axis=0)
    contacts = np.unique(np.column_stack([stage, pairs]), axis=0)
    indptr = np.searchsorted(contacts[:, 0], np.arange(int(end.max()) + 1)).astype(np.int64)
    return Listed(len(labels), indptr, np.ascontiguousarray(contacts[:, 1:]), 1, repeat), labels


def _rows(table: Table) -> list[tuple[Any, ...]]:
    """Return the rows of a file, a data frame, an array or a list, without a header line."""
    if isinstance(table, str | Path):
        path = Path(table)
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path} cannot be read as a table of contacts: {error}") from error
        rows: list[tuple[Any, ...]]
        rows = [tuple(line.split("#")[0].replace(",", " ").replace(";", " ").split()) for line in lines]
        rows = [row for row in rows if row]
        if rows and not _is_number(rows[0][0]):
            rows = rows[1:]
    elif hasattr(table, "itertuples"):
        rows = list(table.itertuples(index=False, name=None))
    else:
        rows = [
            tuple(
                checks.listed(
                    "every row of the table", np.asarray(row).tolist() if isinstance(row, np.ndarray) else row
                )
            )
            for row in checks.listed("table", table)
        ]
    if not rows:
        raise InvalidInput("a table of contacts must have rows of time, a, b and perhaps duration, got none")
    for number, row in enumerate(rows, start=1):
        if len(row) < 3:
            raise InvalidInput(
                f"row {number} of the contacts must be time, a, b and perhaps duration, got {row!r}"
            )
    return rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _in_order(names: set[Hashable]) -> tuple[Hashable, ...]:
    """Sort names as numbers if all are numbers, otherwise alphabetically."""
    if all(_is_number(str(name)) for name in names):
        return tuple(sorted(names, key=lambda name: float(str(name))))
    return tuple(sorted(names, key=str))
