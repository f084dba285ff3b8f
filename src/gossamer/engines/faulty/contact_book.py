"""The compiled book of contacts: the slot of each edge in memory, how often it was present, and the degrees of a round.

A network that changes may join any two of its agents at some time, but an edge needs a slot only while it is up, so
slots are given out as edges appear and taken back when they are no longer needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.arrays import Flags, Integers
from gossamer.numerics.compiling import compiled


class ContactBook(NamedTuple):
    """What is known about the edges that have a slot (P slots, N agents, a window of W rounds).

    An edge counts in the degree of its ends in the rounds in which it is present, and for W rounds after. Bucket r of
    `first` and `following` is a list of edges to check again in a round t with t % (W + 1) == r.
    """

    key: Integers  #: (P,) low * N + high; -1: the slot is free
    low: Integers  #: (P,)
    high: Integers  #: (P,)
    turns: Integers  #: (P,) number of rounds in which the edge was present
    last: Integers  #: (P,) the last of these rounds
    counted: Flags  #: (P,) whether it counts in the degrees
    following: Integers  #: (P,) the next edge in its bucket; -1: none
    first: Integers  #: (W + 1,)
    degree: Integers  #: (N,)
    parent: Integers  #: (N,) a forest: agents with the same root were joined by contacts, one after another
    free: Integers  #: (1 + P,) how many slots are free, and which
    table: Integers  #: (a power of two of at least 2 P,) hashed keys to slots; -1: none


class Meetings(NamedTuple):
    """The edges that are present, round by round: those of the k-th round are indptr[k] .. indptr[k + 1] - 1."""

    indptr: Integers
    low: Integers
    high: Integers
    edge: Integers  #: their slots, which `meet` fills in
    turn: Integers  #: number of earlier rounds in which they were present
    fresh: Flags  #: whether they come up now
    degree: Integers  #: the larger degree of their ends


@compiled
def meet(book: ContactBook, meetings: Meetings, first_round: int, begun: int) -> int:
    """Enter the contacts from round `begun` of the list; return where this stopped because the book was full."""
    for r in range(begun, len(meetings.indptr) - 1):
        now = range(meetings.indptr[r], meetings.indptr[r + 1])
        if book.free[0] < len(now):
            return r
        t = first_round + r
        _forget(book, t)
        for k in now:
            slot = _slot(book, meetings.low[k], meetings.high[k])
            meetings.edge[k], meetings.turn[k] = slot, book.turns[slot]
            book.turns[slot] += 1
            book.last[slot] = t
            meetings.fresh[k] = 1 - book.counted[slot]
            if not book.counted[slot]:
                book.counted[slot] = 1
                book.degree[book.low[slot]] += 1
                book.degree[book.high[slot]] += 1
                _queue(book, slot, t)
        for k in now:
            meetings.degree[k] = max(book.degree[meetings.low[k]], book.degree[meetings.high[k]])
    return len(meetings.indptr) - 1


@compiled
def _forget(book: ContactBook, t: int) -> None:
    """Stop counting edges that were last present before the window."""
    window = len(book.first)
    slot = book.first[t % window]
    book.first[t % window] = -1
    while slot >= 0:
        following = book.following[slot]
        if book.last[slot] + window <= t:
            book.counted[slot] = 0
            book.degree[book.low[slot]] -= 1
            book.degree[book.high[slot]] -= 1
        else:
            _queue(book, slot, book.last[slot])
        slot = following


@compiled
def _queue(book: ContactBook, slot: int, t: int) -> None:
    bucket = t % len(book.first)
    book.following[slot] = book.first[bucket]
    book.first[bucket] = slot


@compiled
def _slot(book: ContactBook, low: int, high: int) -> int:
    """Return the slot of an edge; an edge without one gets a new one."""
    key = low * len(book.degree) + high
    at = _find(book, key)
    slot = int(book.table[at])
    if slot >= 0:
        return slot
    slot = int(book.free[book.free[0]])
    book.free[0] -= 1
    book.table[at] = slot
    book.key[slot], book.low[slot], book.high[slot], book.turns[slot] = key, low, high, 0
    book.parent[_root(book, low)] = _root(book, high)
    return slot


@compiled
def _find(book: ContactBook, key: int) -> int:
    """Return the position of a key in the table, or the one at which it would be inserted."""
    mask = len(book.table) - 1
    at = (key * 0x9E3779B97F4A7C1 >> 20) & mask
    while book.table[at] >= 0 and book.key[book.table[at]] != key:
        at = (at + 1) & mask
    return at


@compiled
def _root(book: ContactBook, agent: int) -> int:
    while book.parent[agent] != agent:
        book.parent[agent] = book.parent[book.parent[agent]]
        agent = book.parent[agent]
    return agent


@compiled
def rebuild(book: ContactBook) -> None:
    """Rebuild the table and the list of free slots from the keys."""
    book.table[:] = -1
    book.free[0] = 0
    for slot in range(len(book.key) - 1, -1, -1):
        if book.key[slot] >= 0:
            book.table[_find(book, book.key[slot])] = slot
        else:
            book.free[0] += 1
            book.free[book.free[0]] = slot


@compiled
def parts(book: ContactBook, alive: Flags) -> int:
    """Return the number of groups of live agents that no chain of contacts has joined."""
    seen = np.zeros(len(alive), dtype=np.uint8)
    for agent in range(len(alive)):
        if alive[agent]:
            seen[_root(book, agent)] = 1
    return int(seen.sum())
