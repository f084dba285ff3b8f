"""The edge ledger, stated once: how a dual method runs per edge, so that lost messages and dead agents do no harm.

The dual variable of SDA and its kin is a sum of flows over the agent's edges, x_i = sum_j g_ij with g_ij = -g_ji
(`Table.ledger` finds the registers for which this holds). So each end of an edge keeps a ledger of that edge and
runs the method's own `step` on it, with w_ij (m_i - m_j) as that edge's `mixed`; the other registers (running
means, averages) stay with the agent. Without faults this is the method itself. With faults:

- A message carries the sender's value, its ledger of the edge, and which message of the receiver it heard last
  (the echo).
- One end is right: the other first adopts its ledger, negated; then both apply the same update. Right is the end
  that has compared this ledger since it began (`settled`); if both or neither have, the end with the smaller number.
- An end that hears nothing leaves that edge as it is.
- An edge moves only while the other end has heard this one within its last `SILENCE` messages. A neighbor that has
  heard nothing yet counts from this end's own beginning, so a network that begins together moves in its first
  round. Without this rule one end could push alone through a one-way silence, and bursts of loss would diverge.
- An end that the other has never heard, and whose first `SILENCE` rounds are over, adopts the other's ledger even if
  it would otherwise be right: what it moved alone is undone. Once heard, this no longer applies: a neighbor that
  restarts has not heard this end either, but then this end's ledger is the live one.
- Late is lost: a message of another round is not used.
- A neighbor declared dead: its edge is dropped, and the flow returns. A new, dropped or restarted edge begins at
  zero and is not settled, so that a live ledger is never overwritten by an agent that comes back.

An agent goes by its own clock where its own observations are concerned: the gain of its running mean is one over
the samples it has seen.

The simulation (`engines/faulty`) and deployed agents (`agents/round/ledger.py`) follow these rules; the same seed
loses the same messages, so that a fleet in lock-step and a simulation give the same numbers.
"""

from __future__ import annotations

SILENCE = 5
"""A: an edge moves only while each end was heard by the other within so many rounds. The best of several tried."""
