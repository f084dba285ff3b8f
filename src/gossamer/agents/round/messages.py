"""The messages between agents; `wire.py` converts them to bytes and back."""

from __future__ import annotations


class Outgoing:
    """What an agent tells one neighbor in one round.

    serial   number of this message; it grows with every message an agent sends, across restarts too
    echo     serial of the newest message from the receiver that the sender used or holds; 0: none
    settled  whether the sender has compared its ledger of this edge since it started
    rows     the method's message m_i, then the sender's registers of this edge: the bytes of float64 (1 + E, n)
    degree   how many edges of the sender are up: the weight of an edge follows from the degrees of its two ends
    closing  whether, and how, the sender ends the edge (see `closing.py`); 0: it does not
    """

    def __init__(
        self, serial: int, echo: int, settled: bool, rows: bytes, degree: int = 0, closing: int = 0
    ) -> None:
        self.serial = serial
        self.echo = echo
        self.settled = settled
        self.rows = rows
        self.degree = degree
        self.closing = closing


class Received(Outgoing):
    """A message that arrived and passed every check, with its sender and round, its roster's epoch, and extremes."""

    def __init__(
        self,
        sender: int,
        round: int,
        serial: int,
        echo: int,
        settled: bool,
        rows: bytes,
        degree: int = 0,
        epoch: int = 0,
    ) -> None:
        self.sender = sender
        self.round = round
        self.serial = serial
        self.echo = echo
        self.settled = settled
        self.rows = rows
        self.degree = degree
        self.epoch = epoch
        self.closing = 0
        self.extremes = b""
