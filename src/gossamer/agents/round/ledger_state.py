"""What a ledger must remember across a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gossamer.agents.round.closing import Parked
from gossamer.arrays import Floats

KEPT = -1
"""Stands for a neighbor: the flow to agents that left and whose data stay in the average. Nothing moves on its edge."""

RETURNING = -2
"""Stands for a neighbor: what is left of the flows of edges that were dropped or removed, which return slowly."""


@dataclass(frozen=True)
class LedgerState:
    """What a ledger must remember across a restart. Arrays are copies, so another thread may save them."""

    age: int
    serial: int
    samples: float
    local: Floats  #: (own registers, n)
    flows: Mapping[int, Floats]  #: neighbor, `KEPT` or `RETURNING` -> (edge registers, n)
    parked: Mapping[int, Parked] = field(default_factory=dict)  #: former neighbor -> flow that both ends keep
    closed: Mapping[int, bool] = field(
        default_factory=dict
    )  #: end of a closed edge -> whether it has a reason for that
    reset: int = 0  #: the epoch in which all flows were set to zero last

    def after_reset(self, reset: int) -> LedgerState:
        """The same without flows, if they were set to zero since."""
        if reset <= self.reset:
            return self
        return replace(self, flows={}, parked={}, closed={}, reset=reset)
