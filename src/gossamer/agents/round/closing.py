"""Closing an edge by agreement, so that both ends keep exactly the same flow and no answer jumps.

The flow of an edge is g_ij = -g_ji. If both ends stop updating it at the same value and keep that value, the average
does not change. An end that has a reason to close the edge (a roster without the edge, a stop, or leaving the fleet)
therefore freezes its flow, and sets these flags in every message until the other end holds the same value:

- `ENDS`: the sender has such a reason. A receiver without a reason of its own adopts the negated flow of the sender and
  freezes it as well. If both ends have a reason, the flow of the end with the smaller number is used. A message that
  closes an edge is valid in any round, because the flow in it is final.
- `HOLDS`: the sender's flow is the negated flow of the receiver, and is in the sender's store.
- `STILL` is set in every such message. The flow is not updated in a round in which either end sets it.

An end without a reason of its own resumes as soon as the other end does; the other end is then an agent that was
stopped cleanly and has come back. The flow of a closed edge does not return while the other end is silent, because the
silence was announced.

`Parked` is the flow of an edge that the roster removed. It is kept until one of the two ends gets another certificate
or leaves the fleet, which both ends learn from the same roster. If the two are linked again, the edge continues with
this flow.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.arrays import Floats

ENDS, HOLDS, STILL = 1, 2, 4

ALWAYS = 2**62
"""A serial that is never reached: for an agent without a store, everything counts as durable."""


class Closing:
    """What one end knows about an edge that is being closed.

    since      serial of the agent when it last set the flow
    own        whether this end has a reason to close the edge
    theirs     whether the other end has one
    matched    whether the other end has sent the same flow, negated
    confirmed  whether the other end has also said that its store has the flow
    said       whether this end has said so
    over       whether the other end has resumed; this end follows in the next round
    """

    def __init__(self, since: int, *, theirs: bool = False) -> None:
        self.since = since
        self.theirs = self.matched = theirs
        self.own = self.confirmed = self.said = self.over = False

    def flags(self, durable: int) -> int:
        """The flags of the next message, if the store has everything up to the serial `durable`."""
        holds = self.matched and durable > self.since
        self.said = self.said or holds
        return STILL | (ENDS if self.own else 0) | (HOLDS if holds else 0)

    def agreed(self, durable: int) -> bool:
        """Whether both ends hold the same flow, in memory and in their stores."""
        return self.own and self.matched and self.confirmed and durable > self.since


@dataclass(frozen=True)
class Parked:
    """The flow of an edge that the roster removed, shape (edge registers, n), and the certificates of its two ends.

    doubt  whether the other end must be asked for its flow, because the two ends could not compare them
    """

    flow: Floats
    mine: str
    theirs: str
    doubt: bool = False
