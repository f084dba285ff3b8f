"""One agent of a dual method in ledger form. `methods/ledger.py` states the rules.

What a deployed agent adds to them is how it counts. The silence of a neighbor is counted in this agent's own
messages, not in round numbers, so that an agent ten times slower than its neighbors takes part in each of its
rounds. Serials start at the clock's microseconds and grow by one per round: one number both tells an agent's
runs apart and puts its messages in order. An echo from an earlier run is too old to let an edge move, and a message
from an earlier run is refused as stale.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from gossamer.agents.round.messages import Outgoing
from gossamer.agents.round.numbers import Numbers
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.methods.ledger import SILENCE, LedgerProgram

KEPT = -1
"""Stands for a neighbor: the flow to agents that left and whose data stay in the average. Nothing moves on its edge."""


@dataclass(frozen=True)
class LedgerState:
    """What a ledger must remember across a restart. Arrays are copies, so another thread may save them."""

    age: int
    serial: int
    samples: float
    local: Floats  #: (own registers, n)
    flows: Mapping[int, Floats]  #: neighbor, or `KEPT` -> (edge registers, n)


class Ledger:
    """One agent of a dual method in ledger form. Pure: no clock, no transport.

    program   the method's rounds, by the agent's own age; the last row holds from then on
    weights   neighbor -> w_ij = -L_ij. 0: the Metropolis weight, 1/(1 + the larger degree of the two ends), where an
              edge counts unless its neighbor was dropped
    silence   A, in rounds
    serial    number of the first message, above every number this agent ever used before
    restored  what an earlier run saved
    kept      former neighbors whose flow, if it was saved, stays (see `rewire`)
    most      (1 + E, n) the largest size of what a neighbor is told, if it is known (see `bounds.py`)
    """

    def __init__(
        self,
        program: LedgerProgram,
        me: int,
        weights: Mapping[int, float],
        dimension: int = 1,
        *,
        silence: int = SILENCE,
        serial: int = 1,
        restored: LedgerState | None = None,
        kept: Collection[int] = (),
        most: Floats | None = None,
    ) -> None:
        self.program = program
        self.me = me
        self.dimension = dimension
        self.silence = silence
        self.edge_registers = len(program.edge)
        self._rounds = program.rounds
        self._place: dict[int, int] = {}
        self._used: list[int] = []  # serial of each neighbor's newest used message
        self._settled: list[bool] = []
        self._echoed: list[bool] = []  # whether the neighbor has echoed a message from this run
        self._up: list[bool] = []  # whether the edge counts, that is, was not dropped
        self._free: list[bool] = []  # whether its weight follows from the degrees
        self._born = serial
        self.serial = serial
        state = restored or LedgerState(0, serial, 0.0, np.zeros((len(program.own), dimension)), {})
        self.age, self.samples = state.age, state.samples
        self._now = max(min(self.age, self._rounds) - 1, 0)  # the row in use
        self._lay(weights, state, kept, most)

    def rewire(
        self, weights: Mapping[int, float], kept: Collection[int] = (), most: Floats | None = None
    ) -> None:
        """Go on with these neighbors: ledgers of edges that stay are kept, new edges begin at zero.

        The flow to a neighbor that leaves returns, so that its data leave the average; unless it is in `kept`: then
        the flow stays as it is, and its data with it.
        """
        self._lay(weights, self.remember(), kept, most)

    def _lay(
        self, weights: Mapping[int, float], state: LedgerState, kept: Collection[int], most: Floats | None
    ) -> None:
        """Lay the edges out anew, with the registers and flows of `state`."""
        edge = (self.edge_registers, self.dimension)
        expected = [(len(self.program.own), self.dimension), *[edge] * len(state.flows)]
        found = [state.local.shape, *(flow.shape for flow in state.flows.values())]
        if found != expected:
            raise InvalidInput(
                f"what is restored must have the registers of {self.program.method}, shapes {expected}, got {found}; "
                "start over, or go back to the method that was saved"
            )
        flows = {j: flow for j, flow in state.flows.items() if j in weights}
        if still := [
            flow for j, flow in state.flows.items() if j == KEPT or (j in kept and j not in weights)
        ]:
            flows[KEPT] = np.sum(still, axis=0)
        order = sorted(weights)
        known = {
            j: (self._used[k], self._settled[k], self._echoed[k], self._up[k]) for j, k in self._place.items()
        }
        facts = [known.get(j, (0, False, False, True)) for j in order]
        self._used = [fact[0] for fact in facts]
        self._settled = [fact[1] for fact in facts]
        self._echoed = [fact[2] for fact in facts]
        self._up = [fact[3] for fact in facts]
        self._free = [weights[j] == 0.0 for j in order]
        self.degree = sum(self._up)
        self._place = {j: k for k, j in enumerate(order)}
        rows = {**self._place, KEPT: len(order)} if KEPT in flows else self._place
        maps = self.program.maps([weights.get(j, 0.0) for j in rows])
        self._numbers = Numbers(*maps, self.dimension, most=most)
        self._numbers.own[:] = state.local
        for j, flow in flows.items():
            self._numbers.tells[rows[j], 1:] = flow
        self._numbers.conclude(self._now)

    # -- a round ------------------------------------------------------------------------------------------

    def begin(self, observation: Floats, samples: float = 1.0, weight: float | None = None) -> None:
        """Start a round with the mean of `samples` new observations.

        `weight` is that of the observation in the agent's running mean; by default samples / all samples so far,
        so that the mean is the plain mean of everything this agent has seen, at whatever rate.
        """
        self.samples += samples
        if weight is None:
            weight = samples / self.samples if samples else 0.0
        if self.age < self._rounds:  # after that the coefficients no longer change
            self._now = self.age
        self._numbers.begin(self._now, observation, weight)

    def tell(self, neighbor: int, holding: int = 0) -> Outgoing:
        k = self._place[neighbor]
        return Outgoing(
            self.serial, holding or self._used[k], self._settled[k], self._numbers.told(k), self.degree
        )

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        for j, message in heard.items():
            k = self._place[j]
            mine, theirs = self._settled[k], message.settled
            unheard = self.serial - (message.echo or self._born)
            if message.echo >= self._born:
                self._echoed[k] = True
            alone = not self._echoed[k] and unheard > self.silence
            if alone or theirs > mine or (theirs == mine and j < self.me):
                self._numbers.adopt(k, message.rows)
            self._settled[k] = True
            self._used[k] = message.serial
            self._up[k] = True
            if 0 <= unheard <= self.silence:
                if self._free[k]:
                    self._numbers.weigh(k, 1.0 / (1 + max(self.degree, message.degree)))
                self._numbers.move(k, self._now, message.rows)
        self.degree = sum(
            self._up
        )  # from the next message on: both ends of an edge use what they told each other
        self._numbers.finish(self._now)
        self.serial += 1
        self.age += 1

    # -- what others read ---------------------------------------------------------------------------------

    @property
    def estimate(self) -> Floats:
        """The agent's answer after its latest round, shape (n,); a new array each time, for any thread."""
        return self._numbers.answer

    @property
    def mean(self) -> Floats:
        """The running mean of the agent's own observations: a view, which changes as rounds finish."""
        mean: Floats = self._numbers.own[self.program.mean]
        return mean

    def local(self, register: str) -> Floats:
        """One of the agent's own registers by name: a view, which changes as rounds finish."""
        own: Floats = self._numbers.own[self.program.own.index(register)]
        return own

    def flow(self, neighbor: int) -> Floats:
        """This end's ledger of one edge, shape (edge registers, n)."""
        ledger: Floats = self._numbers.tells[self._place[neighbor], 1:].copy()
        return ledger

    def drop(self, neighbor: int) -> None:
        """The neighbor is dead: its flow returns, and if it comes back, a new edge starts."""
        k = self._place[neighbor]
        self._numbers.tells[k, 1:] = 0.0
        self._settled[k] = self._echoed[k] = self._up[k] = False
        self.degree = sum(self._up)
        self._used[k] = 0
        self._settled[k] = self._echoed[k] = False
        self._numbers.conclude(self._now)

    def remember(self) -> LedgerState:
        """A copy of what must survive a restart."""
        flows = {j: self.flow(j) for j in self._place}
        if len(self._numbers.tells) > len(flows):
            flows[KEPT] = self._numbers.tells[-1, 1:].copy()
        return LedgerState(self.age, self.serial, self.samples, self._numbers.own.copy(), flows)
