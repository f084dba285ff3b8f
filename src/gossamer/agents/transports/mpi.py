"""Agents over MPI, one agent per rank, for clusters and for comparison.

MPI cannot tell whether a neighbor is up, so all neighbors always count as connected.

    mpiexec -n 4 python program.py        # with MpiTransport(neighbors); the agent's number is its rank
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.transport import Deliver
from gossamer.errors import InvalidInput, Unsupported, require

_TAG = 71
_NAP = 5e-5
"""Seconds between two polls of an empty inbox, after a few polls without a pause."""


class MpiTransport:
    """The transport of one rank; neighbors are ranks of `communicator`.

    Parameters
    ----------
    neighbors : tuple of int
        The ranks of this agent's neighbors in the communicator.
    communicator : mpi4py.MPI.Comm, optional
        The communicator that contains one rank per agent; by default MPI.COMM_WORLD.

    See Also
    --------
    TlsTransport : Messages between machines without MPI.
    Memory : Messages inside one process.

    Examples
    --------
    Under `mpiexec`, one agent per rank on a ring::

        from mpi4py import MPI

        me, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
        transport = gs.agents.MpiTransport(((me - 1) % size, (me + 1) % size))
    """

    def __init__(self, neighbors: tuple[int, ...], communicator: Any = None) -> None:
        self._mpi = require("mpi4py.MPI", "mpi")
        self._comm = self._mpi.COMM_WORLD if communicator is None else communicator
        self.me = int(self._comm.Get_rank())
        size = int(self._comm.Get_size())
        strangers = [j for j in neighbors if not 0 <= j < size or j == self.me]
        if strangers:
            raise InvalidInput(
                parameter="neighbors", required=f"other ranks below {size}", got=str(strangers)
            )
        self.neighbors = frozenset(neighbors)
        self._pending: list[tuple[Any, bytes]] = []  # MPI needs the bytes until the send is complete
        self._woken = False

    def open(self) -> None:
        self._woken = False

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        self._pending = [(request, data) for request, data in self._pending if not request.Test()]
        for neighbor, payload in outgoing.items():
            request = self._comm.Isend([payload, self._mpi.BYTE], dest=neighbor, tag=_TAG)
            self._pending.append((request, payload))
        status = self._mpi.Status()
        looks = 0
        while True:
            if self._comm.Iprobe(source=self._mpi.ANY_SOURCE, tag=_TAG, status=status):
                arrived = bytearray(status.Get_count(self._mpi.BYTE))
                sender = status.Get_source()
                self._comm.Recv([arrived, self._mpi.BYTE], source=sender, tag=_TAG)
                if sender in self.neighbors and deliver(sender, bytes(arrived)):
                    return
                looks = 0
            elif self._woken or time.monotonic() >= deadline:
                self._woken = False
                return
            else:
                looks += 1
                if looks > 20:
                    time.sleep(_NAP)

    def rewire(self, settings: AgentSettings) -> None:
        raise Unsupported(
            "the ranks of an MPI job must keep their neighbors; start another job with the new ones"
        )

    def present(self) -> frozenset[int]:
        return self.neighbors

    def wake(self) -> None:
        self._woken = True

    def close(self) -> None:
        for request, _ in self._pending:
            if not request.Test():
                request.Cancel()
                request.Free()
        self._pending.clear()
