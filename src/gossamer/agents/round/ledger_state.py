"""The state of a ledger that must survive a restart."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gossamer.agents.round.closing import Parked
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.methods.ledger import LedgerProgram

KEPT = -1
"""In place of a neighbor: the flow to agents that left and whose data remain in the average. It never changes."""

RETURNING = -2
"""In place of a neighbor: the remaining flows of edges that were dropped or removed, which return slowly."""


@dataclass(frozen=True)
class LedgerState:
    """The state of a ledger that must survive a restart. Arrays are copies, so another thread may save them."""

    age: int
    serial: int
    samples: float
    local: Floats  #: (own registers, n)
    flows: Mapping[int, Floats]  #: neighbor, `KEPT` or `RETURNING` -> (edge registers, n)
    #: former neighbor -> the flow that both ends keep
    parked: Mapping[int, Parked] = field(default_factory=dict)
    #: end of a closed edge -> whether it has a reason for that
    closed: Mapping[int, bool] = field(default_factory=dict)
    reset: int = 0  #: the epoch in which all flows were last set to zero
    #: neighbor -> (n,) the mask of its edge
    masks: Mapping[int, Floats] = field(default_factory=dict)
    #: neighbor -> the secret of a mask that changes, and how often it has
    secrets: Mapping[int, tuple[bytes, int]] = field(default_factory=dict)

    def after_reset(self, reset: int) -> LedgerState:
        """Return this state without flows if they have been set to zero since."""
        if reset <= self.reset:
            return self
        return replace(self, flows={}, parked={}, closed={}, reset=reset, masks={}, secrets={})

    def check(self, program: LedgerProgram, dimension: int) -> None:
        """Raise unless the arrays have the registers of this program."""
        edge = (len(program.edge), dimension)
        held = [*self.flows.values(), *(parked.flow for parked in self.parked.values())]
        expected = [(len(program.own), dimension), *[edge] * len(held)]
        shapes = [self.local.shape, *(flow.shape for flow in held)]
        if shapes != expected:
            raise InvalidInput(
                f"what is restored must have the registers of {program.method}, shapes {expected}, got {shapes}; "
                "start over, or go back to the method that was saved"
            )

    def total(self, neighbor: int) -> Floats:
        """The flow of an edge together with its mask, which it takes along when the edge ends."""
        flow: Floats = self.flows[neighbor] + self.masks.get(neighbor, 0.0)
        return flow

    def sort(
        self, me: int, neighbors: Collection[int], kept: Collection[int], names: Mapping[int, str]
    ) -> SortedFlows:
        """The flows of an agent `me` that continues with these neighbors; see `Ledger.rewire` for the others."""
        flows, stays, gone, parked = {}, [], [], {}
        for j, flow in self.flows.items():
            if j in neighbors:
                flows[j] = flow
            elif j == KEPT or j in kept:
                stays.append(self.total(j))
            elif j not in self.parked:
                gone.append(self.total(j))
        for j, park in self.parked.items():
            if j in kept:
                stays.append(park.flow)
            elif not names or (park.mine, park.theirs) == (names.get(me), names.get(j)):
                if j in neighbors:
                    flows.setdefault(j, park.flow)
                else:
                    parked[j] = park
        if gone:
            flows[RETURNING] = np.sum(gone, axis=0)
        left = np.sum(stays, axis=0) if stays else None
        constant = [*stays, *(park.flow for park in parked.values())]
        if constant:
            flows[KEPT] = np.sum(constant, axis=0)
        return SortedFlows(flows, left, parked)


class SortedFlows(NamedTuple):
    """What becomes of the flows in a state.

    flows   by neighbor, `KEPT` (with those that are parked) or `RETURNING`
    kept    the flow to agents that left and whose data stay; None if there is none
    parked  the flows that stay because both ends keep them
    """

    flows: dict[int, Floats]
    kept: Floats | None
    parked: dict[int, Parked]
