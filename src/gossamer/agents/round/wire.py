"""Messages as bytes: versioned, limited in size, and accepted only after every check.

A payload is two bytes "Gs", one byte of protocol version, the fingerprint of the settings that all agents must share
(`settings.fingerprint`), then a MessagePack array (msgspec) of

    sender, round, serial, echo, settled, degree, epoch, rows, extremes, closing, mask

rows, (1 + E) x n float64 or float32, little endian, are the sender's value, then its ledger of the edge (see
`messages.py`); their length says which. Rows that close an edge or offer a mask are float64, because both ends must
then hold exactly the same numbers. epoch is that of the sender's roster; extremes, 2n float64, are empty unless the
fleet collects them (see `extremes.py`); closing is omitted unless the sender closes the edge (see `closing.py`) or the
fleet has masks, and mask unless it has (see `masking.py`). A roster is sent in a payload of its own: "Gr", the version,
then the signed roster (see `membership/roster.py`).

`Codec.decode` never raises: it returns the message, or the reason why it was dropped.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gossamer.agents.config.settings import LARGEST, LARGEST_COUNT, Limits
from gossamer.agents.round.masking import OFFERS, well_formed
from gossamer.agents.round.messages import Outgoing, Received
from gossamer.agents.round.numbers import beyond, square
from gossamer.agents.statistics.extremes import Extremes
from gossamer.arrays import Floats
from gossamer.errors import require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

VERSION = 2
_MAGIC = b"Gs"
_ROSTER = b"Gr" + bytes([VERSION])
_ENVELOPE = 96
"""Largest number of bytes of the header, the integers and MessagePack's framing."""


_LARGEST_SQUARE = LARGEST**2

_SINGLE = 1 + 2.0**-23
"""By this factor a number at its bound may exceed it as float32."""

_IS_LITTLE = sys.byteorder == "little"


class Reason(StrEnum):
    """Why a message was dropped."""

    SIZE = "size"  # longer than any valid message
    GARBAGE = "garbage"  # not a message at all
    VERSION = "version"  # another protocol version
    SETTINGS = "settings"  # from an agent that averages something else
    ROSTER = "roster"  # a roster that is invalid, not newer, or not expected
    SENDER = "sender"  # claims to be from another agent, or is not from a neighbor
    DIMENSION = "dimension"  # vectors of another length
    NUMBERS = "numbers"  # NaN, infinity or absurdly large
    FUTURE = "future"  # a round too far ahead to be plausible
    STALE = "stale"  # a serial seen before: a replay, a duplicate, an earlier run
    LATE = "late"  # a round already over
    VALUE = "value"  # a value beyond what range and members make possible
    FLOW = "flow"  # a flow beyond what they make possible
    ECHO = "echo"  # echoes a message that was never sent
    QUARANTINE = "quarantine"  # from a neighbor in quarantine


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Message(msgspec.Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    sender: int
    round: _Count
    serial: _Count
    echo: _Count
    settled: bool
    degree: _Count
    epoch: _Count
    rows: bytes
    extremes: bytes
    closing: Annotated[int, msgspec.Meta(ge=0, le=7)] = 0
    mask: bytes = b""


_MESSAGES = msgspec.msgpack.Decoder(_Message)


class Codec:
    """Turns messages into bytes and back for one agent.

    me                 this agent, the sender in its messages
    neighbors          the agents whose messages it accepts
    dimension          n; with E = `edge_registers`, the expected shape is (1 + E, n)
    agreed             fingerprint of the settings that sender and receiver must share
    epoch              epoch of this agent's roster
    extremes           the extremes that it knows, if it collects them
    masks              (n,) the largest mask, if the fleet has masks

    Rows whose norm is at most `single` are sent as float32.
    """

    def __init__(
        self,
        me: int,
        neighbors: frozenset[int],
        dimension: int,
        edge_registers: int,
        limits: Limits,
        agreed: bytes = b"",
        extremes: Extremes | None = None,
        masks: Floats | None = None,
    ) -> None:
        self.me = me
        self.neighbors = neighbors
        self.epoch = 0
        self.extremes = extremes
        self.single = 0.0
        self._header = _MAGIC + bytes([VERSION]) + agreed
        self._shape = (1 + edge_registers, dimension)
        self._bytes = 8 * self._shape[0] * dimension
        self._rounds_ahead = limits.rounds_ahead
        self._masked = masks is not None
        self._largest_mask = np.zeros(0) if masks is None else np.ascontiguousarray(masks)
        self.limit(None)
        beside = (0 if extremes is None else extremes.known.nbytes) + 52 * self._masked
        self.longest = limits.message_bytes or _ENVELOPE + self._bytes + beside
        self._pack = msgspec.msgpack.Encoder().encode
        self._unpack = _MESSAGES.decode

    def limit(self, most: Floats | None) -> None:
        """Accept numbers up to these bounds, (1 + E, n), from now on; None means up to `LARGEST`."""
        self._bounded = most is not None
        bounds: Floats = np.zeros(0) if most is None else np.ascontiguousarray(most).ravel()
        self._most, self._most_single = bounds, _SINGLE * bounds

    def encode(self, round: int, content: Outgoing) -> bytes:
        rows = content.rows
        exact = content.closing or (content.mask and content.mask[0] & OFFERS)
        if self.single and not exact and square(rows) <= self.single * self.single:
            rows = np.frombuffer(rows).astype("<f4").tobytes()
        else:
            rows = _little(rows)
        fields: tuple[object, ...] = (
            self.me,
            round,
            content.serial,
            content.echo,
            content.settled,
            content.degree,
            self.epoch,
            rows,
            b"" if self.extremes is None else _little(self.extremes.known.tobytes()),
        )
        if content.mask:
            masked: tuple[object, ...] = (content.closing, content.mask)
            fields = fields + masked  # unpacking would make a list first
        elif content.closing:
            fields = (*fields, content.closing)
        return self._header + self._pack(fields)

    def decode(self, sender: int, payload: bytes, round: int) -> Received | Reason:
        """Decode a message that, according to the transport, came from `sender`, in this agent's `round`."""
        if len(payload) > self.longest:
            return Reason.SIZE
        if not payload.startswith(self._header):
            return self._foreign(payload)
        try:
            message = self._unpack(payload[len(self._header) :])
        except (msgspec.MsgspecError, ValueError):  # ValueError: a string that is not UTF-8
            return Reason.GARBAGE
        if message.sender != sender or sender not in self.neighbors:
            return Reason.SENDER
        ahead, serial, echo = message.round, message.serial, message.echo
        degree, epoch = message.degree, message.epoch
        if ahead > round + self._rounds_ahead or max(ahead, serial, echo, degree, epoch) > LARGEST_COUNT:
            return Reason.FUTURE
        rows, single = message.rows, len(message.rows) == self._bytes // 2
        if not single and len(rows) != self._bytes:
            return Reason.DIMENSION
        rows = np.frombuffer(rows, "<f4").astype(float).tobytes() if single else _little(rows)
        if not square(rows) <= _LARGEST_SQUARE:  # one sum finds NaN, infinite and absurdly large numbers
            return Reason.NUMBERS
        if self._bounded and (column := beyond(rows, self._most_single if single else self._most)) >= 0:
            return Reason.VALUE if column < self._shape[1] else Reason.FLOW
        mask = message.mask
        if self._masked:
            if not well_formed(mask):
                return Reason.GARBAGE
            if mask[0] & OFFERS and beyond(rows[: 8 * self._shape[1]], self._largest_mask) >= 0:
                return Reason.VALUE
        elif mask:
            return Reason.GARBAGE
        received = Received(sender, ahead, serial, echo, message.settled, rows, degree, epoch)
        received.closing = message.closing
        received.mask = mask
        if self.extremes is not None:
            received.extremes = _little(message.extremes)
            if not self.extremes.plausible(received.extremes):
                return Reason.VALUE
        elif message.extremes:
            return Reason.GARBAGE
        return received

    def _foreign(self, payload: bytes) -> Reason:
        """Return why a payload is not a message of this fleet."""
        if payload[:2] != _MAGIC or len(payload) < 3:
            return Reason.GARBAGE
        return Reason.SETTINGS if payload[:3] == self._header[:3] else Reason.VERSION

    def agreed(self, payload: bytes) -> bytes:
        """Return the fingerprint of the sender's settings from a message rejected for `Reason.SETTINGS`."""
        return payload[3 : len(self._header)]


def roster_payload(signed: bytes) -> bytes:
    """Return a signed roster as a message."""
    return _ROSTER + signed


def roster_of(payload: bytes) -> bytes:
    """Return the signed roster in a message; empty if the message is not a roster."""
    return payload[len(_ROSTER) :] if payload.startswith(_ROSTER) else b""


def _little(numbers: bytes) -> bytes:
    """Convert numbers from this machine's byte order to little endian, or back."""
    return numbers if _IS_LITTLE else np.frombuffer(numbers).byteswap().tobytes()
