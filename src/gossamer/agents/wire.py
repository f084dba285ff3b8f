"""Messages as bytes: versioned, limited in size, and believed only after every check.

A payload is two bytes "Gs", one byte of protocol version, then a MessagePack array (msgspec) of

    sender, round, serial, echo, settled, value (n float64, little endian), ledger (E x n float64)

`Codec.decode` never raises: it returns the message, or the reason why it was dropped.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gossamer.agents.node import Outgoing
from gossamer.agents.settings import Limits
from gossamer.errors import require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

VERSION = 1
_MAGIC = b"Gs"
_HEADER = _MAGIC + bytes([VERSION])
_ENVELOPE = 64
"""Bytes that header, numbers and MessagePack's own framing need at most."""

LARGEST = 1e100
"""Numbers beyond this are refused: they are finite, but sums and squares of them soon are not."""

LAST_ROUND = 2**62
_LITTLE = np.dtype("<f8")


class Reason(StrEnum):
    """Why a message was dropped."""

    SIZE = "size"  # longer than any valid message
    GARBAGE = "garbage"  # not a message at all
    VERSION = "version"  # another protocol version
    SENDER = "sender"  # speaks as another agent, or is no neighbour
    DIMENSION = "dimension"  # vectors of another length
    NUMBERS = "numbers"  # NaN, infinity or absurdly large
    FUTURE = "future"  # a round too far ahead to be believed
    STALE = "stale"  # a serial seen before: a replay, a duplicate, an earlier life
    LATE = "late"  # a round that is over


class _Message(msgspec.Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    sender: int
    round: int
    serial: int
    echo: int
    settled: bool
    value: bytes
    ledger: bytes


class Received(NamedTuple):
    """A message that passed every check."""

    sender: int
    round: int
    content: Outgoing


class Codec:
    """Turns messages into bytes and back for one agent.

    me                 the agent; messages say who sent them
    neighbours         whom it believes
    dimension          n, and `edge_registers` E: the shapes it expects
    """

    def __init__(
        self, me: int, neighbours: frozenset[int], dimension: int, edge_registers: int, limits: Limits
    ) -> None:
        self.me = me
        self._neighbours = neighbours
        self._bytes = 8 * dimension
        self._shape = (edge_registers, dimension)
        self._rounds_ahead = limits.rounds_ahead
        self.longest = limits.message_bytes or _ENVELOPE + 8 * dimension * (1 + edge_registers)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(_Message)

    def encode(self, round: int, content: Outgoing) -> bytes:
        message = _Message(
            self.me,
            round,
            content.serial,
            content.echo,
            content.settled,
            content.value.astype(_LITTLE, copy=False).tobytes(),
            content.ledger.astype(_LITTLE, copy=False).tobytes(),
        )
        return _HEADER + self._encoder.encode(message)

    def decode(self, sender: int, payload: bytes, round: int) -> Received | Reason:
        """Read a message that the transport says `sender` sent, in this agent's `round`."""
        if len(payload) > self.longest:
            return Reason.SIZE
        if payload[:2] != _MAGIC or len(payload) < 3:
            return Reason.GARBAGE
        if payload[2] != VERSION:
            return Reason.VERSION
        try:
            message = self._decoder.decode(memoryview(payload)[3:])
        except (msgspec.MsgspecError, ValueError):  # ValueError: a string that is not UTF-8
            return Reason.GARBAGE
        if message.sender != sender or sender not in self._neighbours:
            return Reason.SENDER
        if min(message.round, message.serial, message.echo) < 0:
            return Reason.GARBAGE
        if message.round > min(round + self._rounds_ahead, LAST_ROUND) or message.serial > LAST_ROUND:
            return Reason.FUTURE
        if len(message.value) != self._bytes or len(message.ledger) != self._bytes * self._shape[0]:
            return Reason.DIMENSION
        value = np.frombuffer(message.value, _LITTLE)
        ledger = np.frombuffer(message.ledger, _LITTLE).reshape(self._shape)
        if not (_sane(value) and _sane(ledger)):
            return Reason.NUMBERS
        content = Outgoing(message.serial, message.echo, message.settled, value, ledger)
        return Received(sender, message.round, content)


def _sane(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    # A comparison with NaN is false, so NaN fails too.
    return bool((np.abs(values) <= LARGEST).all())
