"""Bounds on the numbers in a message, which follow from the range and the number of members.

Every averaged component of an honest agent lies in a known interval, its *box*, of width W (`Layout.box`). If N members
hold values in the box and agree, the flow over an edge is at most

    N W / 4

because flow follows the differences of a potential: the edge crosses a cut between the agents above and below some
level, over which all flow has the same direction, and k agents need at most k (N - k)/N W <= N W/4 from the other N -
k. Before agents agree, flows overshoot because of the method's momentum, and lost messages leave circular flows, so the
bound F is `SLACK` times as large.

An agent keeps every register of an edge within F: it clips the registers that it computes, as the other end does, and
rejects larger claims. Whatever its neighbors claim, it therefore neither holds nor sends a flow beyond F, and its value
differs from a value in the box by at most F for each of its edges, of which it has at most N - 1, plus F for the
returning flows of dropped edges. An agent that claims more is lying, and no neighbor can push an honest agent beyond
these bounds.

With masks of standard deviation s (`masking.py`), none of which is beyond M = `LARGEST_MASK` s, the value of an agent
differs by at most M (N - 1) more. The flow that cancels the masks m is a projection of -m, so the sum of its squares
over all edges is at most that of m: an edge carries at most M sqrt(N (N - 1)/2) more.

Clipping projects the dual problem onto flows of at most F. The solution is among them, so clipping may slow convergence
but does not change the answer. It also limits the damage that a lying member can do, and therefore the time until the
damage has been repaired once that member is gone.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace

import numpy as np

from gossamer.agents.round.ledger_state import KEPT, LedgerState
from gossamer.agents.round.masking import LARGEST_MASK
from gossamer.agents.statistics.layout import Layout
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods.ledger import LedgerProgram

log = logging.getLogger("gossamer.agents")

SLACK = 2.0
"""Factor by which a flow may exceed its bound in equilibrium. The largest factor measured for honest agents is 1.44
(local form, two cliques joined by an edge, half of all messages lost, an agent of that edge killed and restarted). Only
observations that swing over the whole range in phase with the momentum, with half of all messages lost, reached 2.8;
clipping damps these."""

_ROUNDING = 1 + 1e-9

_MOST_EXCESS = 1e10
"""Largest flow that masks may need, as a multiple of the width of the box: rounding errors are 1e-16 of it."""


@dataclass(frozen=True)
class Bounds:
    """Limits on an agent's numbers, by component.

    low, high  (n,) the box: the values of a single agent
    rows       (1 + E, n) bounds on the numbers in a message: the value, then the registers of an edge
    """

    low: Floats
    high: Floats
    rows: Floats

    @classmethod
    def of(
        cls, layout: Layout, program: LedgerProgram, members: int, masks: Floats | None = None
    ) -> Bounds | None:
        """Return the limits in a fleet of `members` agents, or None if nothing is known about the observations.

        `masks`, (n,), are the standard deviations of the masks, if there are any.
        """
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
        reach = LARGEST_MASK * (0.0 if layout.level_noise is None else layout.level_noise)
        low, high = box[0] - reach, box[1] + reach
        mask = LARGEST_MASK * (0.0 if masks is None else masks)
        flow = SLACK * (members * (high - low) / 4 + mask * math.sqrt(members * (members - 1) / 2))
        own = len(program.own) + 1
        reads = np.abs(program.tell[:, 0]) + np.abs(program.slope[:, 0])
        value = reads[:, :own].sum(axis=1).max() * np.maximum(-low, high)
        value += reads[:, own:].sum(axis=1).max() * (members * flow + mask * members)
        rows = np.vstack([value * _ROUNDING, *[flow] * len(program.edge)])
        excess = np.divide(
            flow, high - low, out=np.zeros(len(flow)), where=np.isfinite(high - low) & (high > low)
        )
        if masks is not None and (k := int(excess.argmax())) >= 0 and excess[k] > _MOST_EXCESS:
            raise InvalidInput(
                f"must be small enough for the range: in a fleet of {members} members, masks of standard deviation "
                f"{masks[k]:g} allow flows of {flow[k]:g} in component {k} of the averaged vector, whose width is "
                f"{high[k] - low[k]:g}, and rounding errors would show beyond {_MOST_EXCESS:g} times that; use smaller "
                "masks or leave squares and bins out",
                parameter="mask",
            )
        return cls(low, high, rows)

    def clip(self, state: LedgerState) -> LedgerState:
        """Return a stored state, clipped to the limits; it may have been stored without them."""
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
