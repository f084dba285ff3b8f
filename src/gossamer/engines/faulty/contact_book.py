"""The compiled book of contacts: which edge has which place in memory, how often it met, and the degrees of a round.

A network that changes may join any two of its agents at some time, but an edge needs a place only while it is up, so
places are given out as edges appear and taken back when they are no longer needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.arrays import Flags, Integers
from gossamer.numerics.compiling import compiled


class ContactBook(NamedTuple):
    """All that is known of the edges that have a place (P places, N agents, a window of W rounds).

    An edge counts in the degree of its ends in the rounds in which it is there, and for W rounds after. Bucket r of
    `first` and `following` is a list of edges to look at again in a round t with t % (W + 1) == r.
    """

    key: Integers  #: (P,) low * N + high; -1: the place is free
    low: Integers  #: (P,)
    high: Integers  #: (P,)
    turns: Integers  #: (P,) how often the edge was there
    last: Integers  #: (P,) the last round in which it was
    counted: Flags  #: (P,) whether it counts in the degrees
    following: Integers  #: (P,) the next edge in its bucket; -1: none
    first: Integers  #: (W + 1,)
    degree: Integers  #: (N,)
    parent: Integers  #: (N,) a forest: agents with the same root were joined by contacts, one after another
    free: Integers  #: (1 + P,) how many places are free, and which
    table: Integers  #: (a power of two of at least 2 P,) hashed keys to places; -1: none


class Meetings(NamedTuple):
    """The edges that are there round by round: those of the k-th round are indptr[k] .. indptr[k + 1] - 1."""

    indptr: Integers
    low: Integers
    high: Integers
    edge: Integers  #: their places, which `meet` fills in
    turn: Integers  #: how often they were there before
    fresh: Flags  #: whether they come up now
    degree: Integers  #: the larger degree of their ends


@compiled
def meet(book: ContactBook, meetings: Meetings, first_round: int, begun: int) -> int:
    """Enter the meetings from the round `begun` of the list on; returns where it stopped because the book is full."""
    for r in range(begun, len(meetings.indptr) - 1):
        now = range(meetings.indptr[r], meetings.indptr[r + 1])
        if book.free[0] < len(now):
            return r
        t = first_round + r
        _forget(book, t)
        for k in now:
            place = _place(book, meetings.low[k], meetings.high[k])
            meetings.edge[k], meetings.turn[k] = place, book.turns[place]
            book.turns[place] += 1
            book.last[place] = t
            meetings.fresh[k] = 1 - book.counted[place]
            if not book.counted[place]:
                book.counted[place] = 1
                book.degree[book.low[place]] += 1
                book.degree[book.high[place]] += 1
                _queue(book, place, t)
        for k in now:
            meetings.degree[k] = max(book.degree[meetings.low[k]], book.degree[meetings.high[k]])
    return len(meetings.indptr) - 1


@compiled
def _forget(book: ContactBook, t: int) -> None:
    """Edges that were last there before the window no longer count."""
    window = len(book.first)
    place = book.first[t % window]
    book.first[t % window] = -1
    while place >= 0:
        following = book.following[place]
        if book.last[place] + window <= t:
            book.counted[place] = 0
            book.degree[book.low[place]] -= 1
            book.degree[book.high[place]] -= 1
        else:
            _queue(book, place, book.last[place])
        place = following


@compiled
def _queue(book: ContactBook, place: int, t: int) -> None:
    bucket = t % len(book.first)
    book.following[place] = book.first[bucket]
    book.first[bucket] = place


@compiled
def _place(book: ContactBook, low: int, high: int) -> int:
    """The place of an edge, a new one if it has none."""
    key = low * len(book.degree) + high
    at = _find(book, key)
    place = int(book.table[at])
    if place >= 0:
        return place
    place = int(book.free[book.free[0]])
    book.free[0] -= 1
    book.table[at] = place
    book.key[place], book.low[place], book.high[place], book.turns[place] = key, low, high, 0
    book.parent[_root(book, low)] = _root(book, high)
    return place


@compiled
def _find(book: ContactBook, key: int) -> int:
    """Where in the table a key is, or would be."""
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
    """The table and the free places, from the keys."""
    book.table[:] = -1
    book.free[0] = 0
    for place in range(len(book.key) - 1, -1, -1):
        if book.key[place] >= 0:
            book.table[_find(book, book.key[place])] = place
        else:
            book.free[0] += 1
            book.free[book.free[0]] = place


@compiled
def parts(book: ContactBook, alive: Flags) -> int:
    """In how many pieces those alive are that no chain of contacts has joined."""
    seen = np.zeros(len(alive), dtype=np.uint8)
    for agent in range(len(alive)):
        if alive[agent]:
            seen[_root(book, agent)] = 1
    return int(seen.sum())
