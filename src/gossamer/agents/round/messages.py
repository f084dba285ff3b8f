"""The messages between agents; `wire.py` converts them to bytes and back."""

from __future__ import annotations

from gossamer.methods.ledger import COMPARED, DROPPED, NEW


class Outgoing:
    """A message from an agent to one neighbor in one round.

    serial   number of this message; it grows with every message that an agent sends, also across restarts
    echo     serial of the newest message of the receiver that the sender has used or holds; 0 if there is none
    settled  whether the sender has compared its ledger of this edge since it started
    rows     the method's message m_i, then the sender's registers of this edge: float64 (1 + E, n) as bytes
    degree   number of the sender's edges that are up; the weight of an edge depends on the degrees of its two ends
    closing  flags if the sender closes the edge (see `closing.py`); otherwise 0
    mask     which mask the edge has, in a fleet with masks (see `masking.py`), and whether `rows` has a value
    """

    def __init__(
        self,
        serial: int,
        echo: int,
        settled: bool,
        rows: bytes,
        degree: int = 0,
        closing: int = 0,
        mask: bytes = b"",
    ) -> None:
        self.serial = serial
        self.echo = echo
        self.settled = settled
        self.rows = rows
        self.degree = degree
        self.closing = closing
        self.mask = mask


class Received(Outgoing):
    """A message that passed all checks, with its sender, its round, the epoch of its roster, and extremes."""

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
        self.mask = b""
        self.extremes = b""


def standing_of(message: Outgoing) -> int:
    """Return the standing of the sender's ledger; a sender that has dropped the edge sends no echo."""
    if not message.settled:
        return NEW
    return COMPARED if message.echo else DROPPED
