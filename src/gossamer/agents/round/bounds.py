"""Bounds on the numbers in a message, which follow from the range and the number of members.

Every averaged component of an honest agent lies in a known interval, its *box*, of width W (`Layout.box`). If N members
hold values in the box and agree, the flow over an edge is at most

    N W / 4

because flow follows the differences of a potential: the edge crosses a cut between the agents above and below some
level, over which all flow has the same direction, and k agents need at most k (N - k)/N W <= N W/4 from the other N -
k. Before agents agree, flows overshoot because of the method's momentum, and lost messages leave circular flows, so the
bound F is `SLACK` times as large.

An agent keeps every register of an edge within F and rejects larger claims. Whatever its neighbors claim, it therefore
neither holds nor sends a flow beyond F, and its value differs from a value in the box by at most F for each of its
edges, of which it has at most N - 1, plus F for the returning flows of dropped edges. An agent that claims more is
lying, and no neighbor can push an honest agent beyond these bounds.

Most edges need far less. While all members of the roster are up and agree, the flow over the edge between i and j is at
most B = (W/2) ||r||_1, where r = w (e_i - e_j)^T L^+ is the row of the edge: it adds up to zero, so the flow r^T x of
values x in the box is largest where each is at the end of the box that the sign of its entry chooses. So an agent clips
the registers that it computes or adopts to the soft limit min(F, `SOFT` B). A claim between the soft limit and F is no
lie, only clipped: rosters may differ for a while, and honest flows may need more than the soft limit, because agents
die without a new roster, and the flows of edges that were unlinked stay. Therefore a limit doubles after `_LOOKS` looks
that found the flow at it, up to F (`EdgeLimits`), and a flow beyond the soft limit is reported as a problem. The two
ends may widen at different times. Then the end with the smaller limit clips what it adopts. It finds its flow at its
limit in every look, or nothing was clipped, so in the end both hold the same flow.

With masks of standard deviation s (`masking.py`), none of which is beyond M = `LARGEST_MASK` s, the value of an agent
differs by at most M (N - 1) more. The flow that cancels the masks m is a projection of -m, so the sum of its squares
over all edges is at most that of m: an edge carries at most M sqrt(N (N - 1)/2) more, and at most M times the sum of
|r_a - r_b| over all edges between a and b.

Clipping projects the dual problem onto flows of at most F. The solution is among them, so clipping may slow convergence
but does not change the answer. It also limits the damage that a lying member can do, and therefore the time until the
damage has been repaired once that member is gone.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gossamer.agents.config.settings import AgentSettings, Neighbor
from gossamer.agents.round.ledger_state import KEPT, LedgerState
from gossamer.agents.round.masking import LARGEST_MASK
from gossamer.agents.statistics.layout import Layout
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods.ledger import LedgerProgram

log = logging.getLogger("gossamer.agents")

SLACK = 2.0
"""Factor by which a flow may exceed its bound in equilibrium. The largest factor measured for honest agents is 1.44
(local form, two cliques joined by an edge, half of all messages lost, an agent of that edge killed and restarted). Only
observations that swing over the whole range in phase with the momentum, with half of all messages lost, reached 2.8;
clipping damps these."""

SOFT = 2.0
"""Factor by which a flow may exceed the bound of its edge before it is clipped and reported. What honest flows need is
measured by `benchmarks/flow_bounds.py`."""

_LOOKS = 16
"""Number of looks at a flow, one every `overgrowth.LOOK` rounds, that find it at its limit before the limit doubles."""

_AT = 1 - 1e-9
"""From this share of its limit on, a flow is at it."""

_WORK = 1e8
"""Number of edges that may be visited for the soft limits of one agent: about a second."""

_ENOUGH = 1e-9
"""Residual of a solution, relative to the right-hand side."""

_ROUNDING = 1 + 1e-9

_MOST_EXCESS = 1e10
"""Largest flow that masks may need, as a multiple of the width of the box: rounding errors are 1e-16 of it."""


@dataclass(frozen=True)
class Bounds:
    """Limits on an agent's numbers, by component.

    low, high  (n,) the box: the values of a single agent
    rows       (1 + E, n) bounds on the numbers in a message: the value, then the registers of an edge
    soft       (n,) soft limits by neighbor, where they are known
    share      (n,) the largest size of an honest agent's value once the fleet agrees
    """

    low: Floats
    high: Floats
    rows: Floats
    soft: Mapping[int, Floats]
    share: Floats

    @classmethod
    def of(
        cls,
        layout: Layout,
        program: LedgerProgram,
        members: int,
        masks: Floats | None = None,
        neighbors: Iterable[Neighbor] = (),
    ) -> Bounds | None:
        """Return the limits in a fleet of `members` agents, or None if nothing is known about the observations.

        `masks`, (n,), are the standard deviations of the masks, if there are any; edges to neighbors without a `load`
        have no soft limit.
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
        detour = math.sqrt(members * (members - 1) / 2)
        flow = SLACK * (members * (high - low) / 4 + mask * detour)
        soft = {
            n.id: np.minimum(flow, SOFT * (n.load * (high - low) + mask * min(n.detour or detour, detour)))
            for n in neighbors
            if n.load
        }
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
        return cls(low, high, rows, soft, np.maximum(-low, high) + mask * (members - 1))

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


class EdgeLimits:
    """The limits on the registers of one agent's edges, which widen while flows stay at them.

    rows      (edges, n) limits by row of the agent's ledgers; `Numbers` clips to them
    strained  the neighbors whose flow was beyond the soft limit at the last look
    """

    def __init__(self, bounds: Bounds, edges: Sequence[int], flows: Mapping[int, Floats]) -> None:
        """Begin with the soft limits; a flow that is already larger is its own limit.

        `edges` are the neighbors, or what stands in their place, by row; `flows` are (edge registers, n).
        """
        self._edges, self._hard, self._share = edges, bounds.rows[-1], bounds.share
        soft = np.array([bounds.soft.get(j, self._hard) for j in edges])
        self.rows = soft.copy()
        for k, j in enumerate(edges):
            if j in flows and j >= 0:
                self.rows[k] = np.clip(np.abs(flows[j]).max(axis=0), soft[k], self._hard)
        self._from = np.where(soft > 0.0, _AT * soft, np.inf)
        self._looks = np.zeros(soft.shape, dtype=np.int32)
        self.strained: tuple[int, ...] = ()

    def look(self, flows: Floats) -> None:
        """Widen limits at which flows, (edges, edge registers, n), have been in enough looks."""
        sizes = np.abs(flows).max(axis=1)
        beyond = sizes >= self._from
        if not beyond.any():
            self.strained = ()
            return
        at = beyond & (sizes >= _AT * self.rows)
        self._looks += at
        due = at & (self._looks % _LOOKS == 0)
        self.rows[:] = np.where(due, np.minimum(2 * self.rows, self._hard), self.rows)
        named = zip(self._edges, beyond.any(axis=1), strict=True)
        self.strained = tuple(j for j, too_large in named if too_large and j >= 0)

    def clip_last(self, neighbor: int, flow: Floats) -> Floats:
        """Return the final flow of an edge, clipped to its limit and the share that the other end may hand over."""
        most = np.minimum(self.rows[self._edges.index(neighbor)] + self._share, self._hard)
        return np.clip(flow, -most, most)

    def clip_parked(self, flow: Floats) -> Floats:
        """Return the flow of a former edge, which may include its mask, clipped to what an honest one can be."""
        return np.clip(flow, -(self._hard + self._share), self._hard + self._share)


def with_loads(settings: AgentSettings, weights: Mapping[int, Mapping[int, float]]) -> AgentSettings:
    """Return settings in which the neighbors have their `load` and `detour`, where a range makes use of them.

    `weights` are those of all edges of the roster, by agent and neighbor. Rosters that take too long are left alone.
    """
    if not settings.range or not settings.neighbors:
        return settings
    index = {agent: k for k, agent in enumerate(sorted(weights))}
    listed = [(index[i], index[j], w) for i, near in weights.items() for j, w in near.items() if i < j]
    one, other, weight = (np.array(column) for column in zip(*listed, strict=True))
    known = []
    for n in settings.neighbors:
        i, j = sorted((settings.id, n.id))
        most = _WORK / max(len(weights[i]), len(weights[j]))  # the same at both ends
        row = edge_row(one, other, weight, (index[i], index[j], weights[i][j]), most)
        if row is not None:
            detour = float(np.abs(row[one] - row[other]).sum()) if settings.mask else 0.0
            n = replace(n, load=float(np.abs(row).sum()) / 2, detour=detour)
        known.append(n)
    return replace(settings, neighbors=tuple(known))


def edge_row(
    one: Integers, other: Integers, weight: Floats, edge: tuple[int, int, float], most: float = math.inf
) -> Floats | None:
    """Return (N,) the row w (e_i - e_j)^T L^+ of the edge (i, j, w), by conjugate gradients.

    L is the gossip matrix of a connected network whose edges have the ends `one` and `other`. None if it takes more
    than `most` visits of edges.
    """
    agents = int(max(one.max(), other.max())) + 1
    steps = int(min(most / (len(one) + agents), 10 * agents))
    if not steps:
        return None
    scale = np.bincount(one, weight, agents) + np.bincount(other, weight, agents)
    row, left = np.zeros(agents), np.zeros(agents)
    left[edge[0]], left[edge[1]] = edge[2], -edge[2]
    step = left / scale
    size = float(left @ step)
    for _ in range(steps):
        flow = weight * (step[one] - step[other])
        image = np.bincount(one, flow, agents) - np.bincount(other, flow, agents)
        length = size / float(step @ image)
        row += length * step
        left -= length * image
        if np.abs(left).max() <= _ENOUGH * edge[2]:
            centered: Floats = row - row.mean()
            return centered
        rest = left / scale
        size, before = float(left @ rest), size
        step = rest + size / before * step
    return None
