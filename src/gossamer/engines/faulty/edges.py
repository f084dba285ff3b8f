"""The edges of each round and the positions of their ledgers, for fixed and for changing networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.sparse.csgraph import connected_components

from gossamer.arrays import Booleans, Integers
from gossamer.engines.faulty.contact_book import ContactBook, Meetings, meet, parts, rebuild
from gossamer.engines.faulty.memory import EdgeList, LedgerMemory
from gossamer.faults import Faults
from gossamer.methods.ledger import DOWN
from gossamer.networks import ChangingNetwork, Network

_NONE = np.empty(0, dtype=np.int64)

_SAMPLE = 32
"""Number of rounds from which the number of simultaneous edges of a changing network is estimated."""

_AHEAD = 1 << 16
"""Approximate number of contacts that are processed at once, in at most 128 rounds."""


class Size(NamedTuple):
    """Estimate the number of edges in a round, and of edges that need memory at the same time."""

    usual: int
    slots: int

    @classmethod
    def of(cls, network: Network | ChangingNetwork) -> Size:
        if isinstance(network, Network):
            return cls(len(network.edges), len(network.edges))
        pairs = network.edges_in(range(_SAMPLE))[1]
        usual = -(-len(pairs) // _SAMPLE)
        return cls(usual, len(np.unique(pairs, axis=0)) + usual)


class Edges(Protocol):
    """The edges of one run of rounds, requested from the first round to the last."""

    at_once: int  #: largest number of rounds to request at once

    @property
    def low(self) -> Integers:
        """(P,) one end of each edge that has a slot."""

    @property
    def high(self) -> Integers:
        """(P,) the other end."""

    def during(self, rounds: range) -> EdgeList:
        """Return the edges of these rounds, which belong to one phase and follow the previous ones."""

    def turns(self, round: int) -> Integers:
        """Return (P,) how often each edge could be used before `round`, which measures the silence of neighbors."""

    def parts(self, alive: Booleans) -> int:
        """Return the number of disconnected parts of the live agents."""

    def forget(self, memories: Sequence[LedgerMemory], flow: int | None, round: int) -> None:
        """Free, before `round`, the slots of edges that are down and whose two ends have the same flow.

        `flow` is the slot of the flow in the ledgers; None means that all ends agree.
        """


class SteadyEdges:
    """The edges of a fixed network; edges that are cut, or whose agent is dead, are absent."""

    at_once = 1 << 20

    def __init__(self, network: Network, faults: Faults) -> None:
        self.network, self.faults = network, faults
        self.low, self.high = np.ascontiguousarray(network.edges.T)
        self._weight = -np.asarray(network.gossip[self.low, self.high]).ravel()
        receivers = network.edges.ravel()
        self._own = np.argsort(receivers, kind="stable")
        self._indptr = np.concatenate([[0], np.cumsum(np.bincount(receivers, minlength=network.agents))])

    def during(self, rounds: range) -> EdgeList:
        if rounds.start in self.faults.changes:
            up = self.faults.links_up(self.network.agents, rounds.start, self.low, self.high)
            self._present = np.flatnonzero(up)
        present, stop = self._present, np.full(len(rounds), len(self._present))
        return EdgeList(
            self.low,
            self.high,
            self._indptr,
            self._own,
            np.zeros_like(stop),
            stop,
            present,
            _NONE,
            np.empty(0, dtype=np.uint8),
            self._weight[present],
        )

    def turns(self, round: int) -> Integers:
        return np.full(len(self.low), round)

    def parts(self, alive: Booleans) -> int:
        return int(connected_components(self.network.gossip[alive][:, alive], return_labels=False))

    def forget(self, memories: Sequence[LedgerMemory], flow: int | None, round: int) -> None:
        pass


class ChangingEdges:
    """The edges of a changing network, with the Metropolis weights of the round.

    window  number of rounds for which an edge counts in the degrees after it was last present
    folds   whether an edge that is down, and whose ends agree, may lose its slot: their registers hold its flow
    """

    def __init__(
        self, network: ChangingNetwork, faults: Faults, size: Size, window: int, folds: bool
    ) -> None:
        self.network, self.faults, self.folds = network, faults, folds
        self._looked = 0  # edges that were last present before this round have been processed
        self.at_once = max(4, min(128, _AHEAD // max(size.usual, 1)))
        self._book = _empty_book(max(16, size.slots), network.agents, window)

    @property
    def low(self) -> Integers:
        return self._book.low

    @property
    def high(self) -> Integers:
        return self._book.high

    def during(self, rounds: range) -> EdgeList:
        meetings = self._meetings(rounds)
        done = meet(self._book, meetings, rounds.start, 0)
        while done < len(rounds):
            missing = int(meetings.indptr[done + 1] - meetings.indptr[done])
            self._book = _enlarged(self._book, max(2 * len(self.low), len(self.low) + missing))
            done = meet(self._book, meetings, rounds.start, done)
        start, stop = meetings.indptr[:-1], meetings.indptr[1:]
        weight = 1.0 / (1.0 + meetings.degree.astype(float))
        return EdgeList(
            self.low,
            self.high,
            _NONE,
            _NONE,
            start,
            stop,
            meetings.edge,
            meetings.turn,
            meetings.fresh,
            weight,
        )

    def _meetings(self, rounds: range) -> Meetings:
        indptr, pairs = self.network.edges_in(rounds)
        low, high = np.ascontiguousarray(pairs.T)
        if len(self.faults.changes) > 1 or self.faults.partitions:
            up = self.faults.links_up(self.network.agents, rounds.start, low, high)
            indptr, low, high = np.concatenate([[0], np.cumsum(up)])[indptr], low[up], high[up]
        edge, turn, degree = (np.empty_like(low) for _ in range(3))
        return Meetings(indptr, low, high, edge, turn, np.empty(len(low), dtype=np.uint8), degree)

    def turns(self, round: int) -> Integers:
        return self._book.turns

    def parts(self, alive: Booleans) -> int:
        return parts(self._book, alive.astype(np.uint8))

    def forget(self, memories: Sequence[LedgerMemory], flow: int | None, round: int) -> None:
        if not self.folds:
            return
        book, before = self._book, round - DOWN - 1
        if before < self._looked + DOWN:
            return
        gone = np.flatnonzero((book.key >= 0) & (book.last >= self._looked) & (book.last < before))
        self._looked = before
        for memory in memories if flow is not None else ():
            mine, theirs = memory.ledgers[2 * gone, flow], memory.ledgers[2 * gone + 1, flow]
            gone = gone[(mine == -theirs).all(axis=(1, 2))]
        for memory in memories:
            memory.clear(np.concatenate([2 * gone, 2 * gone + 1]))
        book.key[gone] = -1
        rebuild(book)


def _empty_book(slots: int, agents: int, window: int) -> ContactBook:
    none = np.full(slots, -1, dtype=np.int64)
    book = ContactBook(
        key=none,
        low=np.zeros_like(none),
        high=np.zeros_like(none),
        turns=np.zeros_like(none),
        last=none.copy(),
        counted=np.zeros(slots, dtype=np.uint8),
        following=none.copy(),
        first=np.full(window + 1, -1, dtype=np.int64),
        degree=np.zeros(agents, dtype=np.int64),
        parent=np.arange(agents),
        free=np.zeros(1 + slots, dtype=np.int64),
        table=np.empty(1 << (2 * slots).bit_length(), dtype=np.int64),
    )
    rebuild(book)
    return book


def _enlarged(book: ContactBook, slots: int) -> ContactBook:
    larger = _empty_book(slots, len(book.degree), len(book.first) - 1)
    for name in ("key", "low", "high", "turns", "last", "counted", "following"):
        getattr(larger, name)[: len(book.key)] = getattr(book, name)
    for name in ("first", "degree", "parent"):
        getattr(larger, name)[:] = getattr(book, name)
    rebuild(larger)
    return larger
