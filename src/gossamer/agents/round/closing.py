"""Edges that end by agreement: both ends keep the edge's flow, to the last bit, so that no answer jumps.

The flow of an edge is g_ij = -g_ji. If both ends stop moving it at the same number and keep that, the average stays
what it is. So an end that has a reason to end the edge (a roster without it, a stop, or leaving the
fleet) freezes its flow and says so in every message until the other end holds the same number:

- `ENDS`: the sender has such a reason. An end without one adopts the sender's flow, negated, and freezes as well; of
  two ends with one, the end with the smaller number is right. A message that closes an edge counts in whatever round
  it arrives, because the flow in it is final.
- `HOLDS`: the sender's flow is the receiver's, negated, and its store has it.
- `STILL` is in every such message; nothing moves in a round in which either end says so.

An end without a reason of its own resumes as soon as the other end does, which is then an agent that was stopped in
order and has come back. A closed edge does not return its flow when the other end is silent, because that end said why.

What becomes of the flow of an edge that the roster ended is in `Parked`: it stays until one of its two ends has another
certificate or is no longer a member; both ends see that in the same roster. If they are linked again, the edge
continues with that flow.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.arrays import Floats

ENDS, HOLDS, STILL = 1, 2, 4

ALWAYS = 2**62
"""A serial that is never reached: what an agent without a store calls durable."""


class Closing:
    """One end's knowledge of an edge that is closed.

    since      the agent's serial when its flow was set last
    own        this end has a reason of its own to end the edge
    theirs     the other end has one
    matched    the other end has shown the same flow, negated
    confirmed  it has also said that its store has it
    said       this end has said so
    over       the other end has resumed, and so does this one from the next round on
    """

    def __init__(self, since: int, *, theirs: bool = False) -> None:
        self.since = since
        self.theirs = self.matched = theirs
        self.own = self.confirmed = self.said = self.over = False

    def flags(self, durable: int) -> int:
        """What the next message says, if the store has all up to the serial `durable`."""
        holds = self.matched and durable > self.since
        self.said = self.said or holds
        return STILL | (ENDS if self.own else 0) | (HOLDS if holds else 0)

    def agreed(self, durable: int) -> bool:
        """Whether both ends hold the same flow, and their stores do."""
        return self.own and self.matched and self.confirmed and durable > self.since


@dataclass(frozen=True)
class Parked:
    """The flow of an edge that the roster ended, shape (edge registers, n), and the certificates of its two ends.

    doubt  the other end must be asked what it holds, because the two could not compare it
    """

    flow: Floats
    mine: str
    theirs: str
    doubt: bool = False
