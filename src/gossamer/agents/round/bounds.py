"""The largest numbers that a message may claim, which follow from the range and the number of members.

Every averaged component of an honest agent lies in a known interval, its *box*, of width W (`Layout.box`). Let N
members hold values in it. Once they agree, the flow over an edge is at most

    N W / 4

because flow follows the differences of a potential: the edge crosses a cut between the agents above some level and
those below, over which all flow goes one way, and k agents need at most k (N - k)/N W <= N W/4 from the other N - k.
On the way there flows overshoot by the method's momentum, and lost messages leave currents that run in circles, so the
limit F is `SLACK` times as much.

An agent keeps every register of an edge within F: it clips what it computes, as the other end does, and drops claims
beyond F. So whatever its neighbors claim, it neither holds nor tells a flow beyond F, and its value differs from one in
the box by at most F for each of its edges, of which it has at most N - 1, and F for what returns of edges that were
dropped. An agent that claims more is lying, and no neighbor can drive an honest agent beyond these limits.

Clipping projects the dual problem onto flows of at most F. Those of the average are among them, so it costs speed where
it acts, but does not change the answer. It also limits the damage that a liar can do, and therefore the time until
that damage has been undone once the liar is gone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from gossamer.agents.round.ledger_state import KEPT, LedgerState
from gossamer.agents.statistics.layout import Layout
from gossamer.arrays import Floats
from gossamer.errors import Unsupported
from gossamer.methods.ledger import LedgerProgram

log = logging.getLogger("gossamer.agents")

SLACK = 2.0
"""How much larger than in equilibrium a flow may be. Honest agents were seen to need up to 1.44 (local form, two
cliques joined by an edge, half of all messages lost, an agent of that edge killed and back). Up to 2.8 was seen only
where the observations swing over the whole range in step with the momentum and half of all messages are lost: there,
clipping damps."""

_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Bounds:
    """Limits on an agent's numbers, by component.

    low, high  (n,) the box: what one agent can contribute
    rows       (1 + E, n) the largest size of the numbers in a message: the value, then the registers of an edge
    """

    low: Floats
    high: Floats
    rows: Floats

    @classmethod
    def of(cls, layout: Layout, program: LedgerProgram, members: int) -> Bounds | None:
        """The limits in a fleet of `members` agents; None if nothing is known about the observations."""
        box = layout.box
        if box is None or not members:
            return None
        if not np.allclose(program.step[:, :, 1:].sum(axis=2), 1.0):
            raise Unsupported(
                f"bounds the registers of an edge as flows, but those of {program.method} are not flows: "
                "registers that are equal must stay so while nothing is mixed; leave range out, or use "
                "anytime-sda",
                parameter="range",
            )
        low, high = box
        flow = SLACK * members * (high - low) / 4
        own = len(program.own) + 1
        reads = np.abs(program.tell[:, 0]) + np.abs(program.slope[:, 0])
        value = reads[:, :own].sum(axis=1).max() * np.maximum(-low, high)
        value += reads[:, own:].sum(axis=1).max() * members * flow
        rows = np.vstack([value * _ROUNDING, *[flow] * len(program.edge)])
        return cls(low, high, rows)

    def clip(self, state: LedgerState) -> LedgerState:
        """A stored state within the limits; it may be from a time without them."""
        local = np.clip(state.local, self.low, self.high)
        flows = {
            j: flow if j == KEPT else np.clip(flow, -self.rows[1:], self.rows[1:])
            for j, flow in state.flows.items()
        }
        if not (
            np.array_equal(local, state.local)
            and all(map(np.array_equal, flows.values(), state.flows.values()))
        ):
            log.warning("the stored state was outside the range of the fleet and has been clipped to it")
        return replace(state, local=local, flows=flows)
