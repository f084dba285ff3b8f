"""One rank's part of a network: its own agents, and copies of the neighbors that other ranks hold (the halo).

Messages of a round lie in one array, own agents first, then the halo, rank by rank, so that what arrives needs no
unpacking. A round has one message for each neighboring rank.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from gossamer.arrays import AnyArray, Integers
from gossamer.networks.links import Links, Rows, weighted
from gossamer.networks.parts import NetworkParts
from gossamer.networks.topologies import DRAWS, components
from gossamer.numerics.blocks import BLOCK
from gossamer.numerics.compiling import compiled

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Prequest

TAG = 72
LOOKS = 1000  # about half a millisecond: longer than a message takes between ranks that have a core each


class Halo:
    """Which agents of other ranks send messages to this rank, and which of its agents send to other ranks."""

    def __init__(self, comm: Intracomm, bounds: list[int], neighbors: AnyArray) -> None:
        self.comm = comm
        self.first, self.last = bounds[comm.rank], bounds[comm.rank + 1]
        self.room = -(-(self.last - self.first) // BLOCK) * BLOCK  # where the halo begins
        outside = neighbors[(neighbors < self.first) | (neighbors >= self.last)]
        self.heard = np.unique(outside).astype(np.int64)
        owner = np.searchsorted(bounds, self.heard, side="right") - 1
        self.receives = np.bincount(owner, minlength=comm.size)
        self.sends = np.empty_like(self.receives)
        comm.Alltoall(self.receives, self.sends)
        shared = np.empty(int(self.sends.sum()), np.int64)
        comm.Alltoallv([self.heard, self.receives], [shared, self.sends])
        self.shared: Integers = shared - self.first

    def localize(self, neighbors: AnyArray) -> None:
        """Replace numbers in the whole network by places in the array of messages."""
        _localize(neighbors, self.first, self.last, self.room, self.heard)

    def spread(self, own: AnyArray) -> AnyArray:
        """Return the values of the agents of the halo, of a quantity that every rank knows for its own agents."""
        values = np.empty(len(self.heard), own.dtype)
        self.comm.Alltoallv([own[self.shared], self.sends], [values, self.receives])
        return values

    @property
    def rim(self) -> Integers:
        """The chunks that have to wait for the halo: those that send to other ranks, since links go both ways."""
        return np.unique(self.shared // BLOCK)


class Exchange:
    """The messages of a round on their way: persistent requests, one for each neighboring rank and direction.

    Persistent neighborhood collectives are half a microsecond faster (docs/scale.md); older MPI libraries lack them.
    """

    def __init__(self, halo: Halo, messages: AnyArray) -> None:
        from mpi4py import MPI

        self._test, self._start = MPI.Request.Testall, MPI.Prequest.Startall
        self._flat = messages.reshape(2, -1)
        self._shared = halo.shared
        self._parcel = np.empty(len(halo.shared), messages.dtype)
        self._requests: list[list[Prequest]] = []
        sent = np.concatenate([[0], np.cumsum(halo.sends)])
        received = halo.room + np.concatenate([[0], np.cumsum(halo.receives)])
        for half in self._flat:
            some = [
                halo.comm.Recv_init(half[received[r] : received[r + 1]], source=r, tag=TAG)
                for r in np.flatnonzero(halo.receives).tolist()
            ]
            some += [
                halo.comm.Send_init(self._parcel[sent[r] : sent[r + 1]], dest=r, tag=TAG)
                for r in np.flatnonzero(halo.sends).tolist()
            ]
            self._requests.append(some)

    def begin(self, t: int) -> None:
        """Send the messages of round t."""
        if self._requests[t % 2]:
            np.take(self._flat[t % 2], self._shared, out=self._parcel)
            self._start(self._requests[t % 2])

    def finish(self, t: int) -> None:
        """Wait for the messages of round t. Between two polls signals are handled; after a while other processes get a
        turn."""
        looks = 0
        while not self._test(self._requests[t % 2]):
            looks += 1
            if looks > LOOKS:
                os.sched_yield()

    def close(self) -> None:
        for some in self._requests:
            for request in some:
                request.Free()


def load(comm: Intracomm, parts: NetworkParts, bounds: list[int], rows: Rows | Links) -> tuple[Halo, Links]:
    """Load this rank's halo and links, with neighbors as places in the messages; `rows` are the first draw's."""
    first, last = bounds[comm.rank], bounds[comm.rank + 1]
    for draw in range(DRAWS):
        if draw:
            rows = parts.read(first, last, draw)
        neighbors = np.array(rows.neighbors)
        halo = Halo(comm, bounds, neighbors)
        halo.localize(neighbors)
        rows = rows._replace(neighbors=neighbors)
        if not parts.chance or _connected(halo, rows.starts, neighbors):
            return halo, rows if isinstance(rows, Links) else _weighted(halo, rows, parts)
    raise parts.disconnected()


def _weighted(halo: Halo, rows: Rows, parts: NetworkParts) -> Links:
    from mpi4py import MPI

    own = rows.degrees
    degrees = np.zeros(halo.room + len(halo.heard), np.int64)
    degrees[: len(own)] = own
    degrees[halo.room :] = halo.spread(own)
    most = halo.comm.allreduce(int(own.max(initial=0)), MPI.MAX)
    return weighted(rows, str(parts.weights), degrees, most)


def _connected(halo: Halo, starts: AnyArray, neighbors: AnyArray) -> bool:
    """Return whether the whole network is connected: each rank finds its own components, and one rank joins them."""
    own = len(starts) - 1
    agent = np.repeat(np.arange(own), np.diff(starts))
    inside = neighbors < halo.room
    counts = np.concatenate([[0], np.cumsum(np.bincount(agent[inside], minlength=own))])
    count, member = components(Rows(counts.astype(np.uint32), neighbors[inside]))
    before = halo.comm.exscan(count) or 0
    member = member.astype(np.int64) + before
    across = np.column_stack([member[agent[~inside]], halo.spread(member)[neighbors[~inside] - halo.room]])
    pairs = halo.comm.gather(np.unique(across, axis=0))
    total, answer = halo.comm.allreduce(count), None
    if pairs is not None:
        i, j = np.concatenate(pairs).T
        ends, ones = np.bincount(i, minlength=total), np.ones(len(i), np.uint8)
        order = np.argsort(i, kind="stable")
        starts = np.concatenate([[0], np.cumsum(ends)]).astype(np.int64)
        answer = components(Rows(starts, j[order][: len(ones)]))[0] == 1
    return bool(halo.comm.bcast(answer))


@compiled
def _localize(neighbors: AnyArray, first: int, last: int, room: int, heard: Integers) -> None:
    for e in range(neighbors.size):
        number = np.int64(neighbors[e])
        if first <= number < last:
            neighbors[e] = number - first
        else:
            low, high = 0, heard.size
            while low < high:
                middle = (low + high) // 2
                if heard[middle] < number:
                    low = middle + 1
                else:
                    high = middle
            neighbors[e] = room + low
