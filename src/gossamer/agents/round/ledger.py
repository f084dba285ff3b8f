"""The edge ledger: a dual method run per edge, so that both ends of an edge can compare what they hold.

Registers that depend only on themselves and on `mixed` (x and y of SDA, x and memory of Anytime SDA) are sums
of flows over the agent's edges: x_i = sum_j g_ij with g_ij = -g_ji. Running the method's own `step` on each
edge, with d_ij = w_ij (m_i - m_j) as that edge's `mixed`, is the method exactly; but now each edge has a
ledger that both of its ends hold. The other registers (running means, averages) stay with the agent.

The rules
- A message carries the sender's value, its ledger of that edge, and which message of the receiver it heard
  last (the echo).
- One end is right: the other first adopts its ledger, negated; then both apply the same update. Right is the
  end that has compared this ledger since it started (`settled`); if both or neither have, the smaller number.
- An end that hears nothing leaves that edge as it is.
- An edge moves only while the other end has heard me within my last A rounds: at most A of my messages were
  sent after the one it echoes. Counting in the hearer's own messages, not in round numbers, lets an agent
  that is ten times slower than its neighbors take part in each of its rounds. An echo of 0 (never heard)
  counts from my own start, so a fleet that starts together moves in its first round.
- An end that the other has never heard, and whose first A rounds are over, adopts the other's ledger, whoever
  is right otherwise: what it moved alone in those rounds is undone. (Once heard, this no longer applies: a
  neighbor that restarts has not heard me either, but then my ledger is the live one.)
- A dead neighbor's edge is dropped: its flow returns. A new, dropped or restarted edge is not settled.

Serials start at the clock's microseconds and grow by one per round. So one number is both the incarnation of
an agent and the order of its messages: an echo of an earlier life is too old to let an edge move, and a
message from an earlier life is refused as stale. A restarted agent adopts what its neighbors hold, whichever
of them is smaller: a live ledger is never overwritten by one from a disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.agents.node_form import Schedule
from gossamer.agents.round.messages import Outgoing
from gossamer.agents.round.numbers import Numbers
from gossamer.errors import Unsupported
from gossamer.methods.base import Method

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Which registers live on edges and which on the agent, as positions in the method's State."""

    edge: tuple[int, ...]
    local: tuple[int, ...]


def edge_registers(uses: NDArray[np.bool_]) -> tuple[int, ...]:
    size = len(uses)
    held = set(np.flatnonzero(uses[:, size + 1]).tolist())
    while not (needed := {int(k) for i in held for k in np.flatnonzero(uses[i, :size])}) <= held:
        held |= needed
    return () if any(uses[i, size] for i in held) else tuple(sorted(held))


def split(method: Method, coefficients: Any) -> Split:
    """Read off which registers of `method` live on edges; Unsupported where it has no ledger form."""
    size = len(method.State._fields)

    def reaches(probe: Array) -> NDArray[np.bool_]:
        new = method.step(coefficients, method.State(*probe[:size]), probe[size], probe[size + 1])
        return np.array([np.any(np.asarray(v) != 0.0) for v in new])

    edge = edge_registers(np.stack([reaches(e) for e in np.eye(size + 2)], axis=1))
    if method.mixing != "matrix" or not edge:
        raise Unsupported(
            f"{method.name} has no ledger form: what gossip changes depends on the agent's own observations; "
            "ledgers exist for dual methods (anytime-sda, sda, ssda)"
        )
    return Split(edge, tuple(i for i in range(size) if i not in edge))


class Maps:
    """Each round of a method as small matrices, read off by evaluating its functions on unit vectors.

    A round then costs a handful of sums, and both ends of an edge multiply the same numbers in the same order:
    what they hold stays equal to the last bit. `Numbers` says what the maps mean.
    """

    def __init__(
        self, method: Method, places: Split, coefficients: Any, rounds: int, weights: Sequence[float]
    ) -> None:
        size = len(method.State._fields)
        unit = np.eye(size + 2)
        state, y, mixed = method.State(*unit[:size]), unit[size], unit[size + 1]
        c = type(coefficients)(*(np.broadcast_to(v, rounds)[:, None] for v in coefficients))
        own, edge = list(places.local), list(places.edge)
        everything = [*own, size, *([size + 1, *edge] * len(weights))]

        def table(*rows: Any) -> Array:  # (rounds, rows, registers and y and mixed)
            return np.stack([np.broadcast_to(row, (rounds, size + 2)) for row in rows], axis=1)

        after = table(*method.step(c, state, y, mixed))
        self.tell = np.concatenate([table(method.message(c, state, y)), after[:, own]], axis=1)[
            :, :, everything
        ]
        scales = [np.array([w, *np.ones(len(edge))]) for w in weights]
        self.edges = [after[:, edge][:, :, [size + 1, *edge]] * scale for scale in scales]
        self.estimate = table(method.estimate(c, state))[:, 0, everything]


@dataclass(frozen=True)
class LedgerState:
    """What a ledger must remember over a restart. Arrays are copies, so another thread may save them."""

    age: int
    serial: int
    samples: float
    local: Array  #: (own registers, n)
    flows: Mapping[int, Array]  #: neighbor -> (edge registers, n)


class Ledger:
    """One agent of a dual method in edge-ledger form. Pure: no clock, no transport.

    coefficients  the method's, over rounds of the agent's own age; the last entry holds for ever after
    weights       neighbor -> w_ij = -L_ij
    silence       A, in rounds
    serial        the first message's number, above every number this agent ever used before
    restored      what an earlier life remembered
    """

    def __init__(
        self,
        method: Method,
        coefficients: Any,
        me: int,
        weights: Mapping[int, float],
        dimension: int = 1,
        *,
        silence: int = 5,
        serial: int = 1,
        restored: LedgerState | None = None,
    ) -> None:
        self.method = method
        self.me = me
        self.dimension = dimension
        self.silence = silence
        self._split = split(method, coefficients)
        self.edge_registers = len(self._split.edge)
        self._rounds = Schedule(coefficients).rounds
        self._place = {j: k for k, j in enumerate(sorted(weights))}
        degree = len(self._place)
        self._numbers = self._read_maps(coefficients, [weights[j] for j in self._place])
        self._used = [0] * degree  # serial of each neighbor's newest used message
        self._settled = [False] * degree
        # Whether the neighbor ever said that it heard me, in this life of mine.
        self._echoed = [False] * degree
        self._born = serial
        self.serial = serial
        self.age = 0
        self.samples = 0.0
        if restored is not None:
            self._restore(restored)
        self._now = max(min(self.age, self._rounds) - 1, 0)  # whose maps are in use
        self._numbers.conclude(self._now)

    def _restore(self, state: LedgerState) -> None:
        self.age, self.samples = state.age, state.samples
        self._numbers.own[:] = state.local
        for j, flow in state.flows.items():
            if j in self._place:
                self._numbers.tells[self._place[j], 1:] = flow

    def _read_maps(self, coefficients: Any, weights: list[float]) -> Numbers:
        """All rounds' maps, with a gain of 0, and how `tell` changes with the gain (it enters linearly)."""

        def maps(gain: float) -> Maps:
            c = coefficients._replace(gain=gain) if has_gain else coefficients
            return Maps(self.method, self._split, c, self._rounds, weights)

        has_gain = "gain" in coefficients._fields
        still = maps(0.0)
        slope = maps(1.0).tell - still.tell if has_gain else np.zeros_like(still.tell)
        return Numbers(still.tell, slope, still.edges, still.estimate, self.dimension)

    # -- a round ------------------------------------------------------------------------------------------

    def begin(self, observation: Array, samples: float = 1.0, weight: float | None = None) -> None:
        """Start a round with the mean of `samples` new observations (0: none; `observation` is then ignored).

        weight is the gain of the agent's running mean, where the method keeps one; by default samples / all
        samples so far, so that the mean is the plain mean of everything this agent saw, at whatever rate.
        """
        self.samples += samples
        if weight is None:
            weight = samples / self.samples if samples else 0.0
        if self.age < self._rounds:  # after that the coefficients no longer change
            self._now = self.age
        self._numbers.begin(self._now, observation, weight)

    def tell(self, neighbor: int, holding: int = 0) -> Outgoing:
        k = self._place[neighbor]
        return Outgoing(self.serial, holding or self._used[k], self._settled[k], self._numbers.told(k))

    def finish(self, heard: Mapping[int, Outgoing]) -> None:
        for j, message in heard.items():
            k = self._place[j]
            mine, theirs = self._settled[k], message.settled
            unheard = self.serial - (message.echo or self._born)
            if message.echo >= self._born:
                self._echoed[k] = True
            alone = not self._echoed[k] and unheard > self.silence
            if alone or theirs > mine or (theirs == mine and j < self.me):
                self._numbers.adopt(k, message.told)
            self._settled[k] = True
            self._used[k] = message.serial
            if 0 <= unheard <= self.silence:
                self._numbers.move(k, self._now, message.told)
        self._numbers.finish(self._now)
        self.serial += 1
        self.age += 1

    # -- what others read ---------------------------------------------------------------------------------

    @property
    def estimate(self) -> Array:
        """The agent's answer after its latest round, shape (n,); a new array each time, for any thread."""
        return self._numbers.answer

    def local(self, register: str) -> Array:
        """One of the agent's own registers by name: a view, which changes as rounds finish."""
        own: Array = self._numbers.own[self._split.local.index(self.method.State._fields.index(register))]
        return own

    def flow(self, neighbor: int) -> Array:
        """This end's ledger of one edge, shape (edge registers, n)."""
        ledger: Array = self._numbers.tells[self._place[neighbor], 1:].copy()
        return ledger

    def drop(self, neighbor: int) -> None:
        """The neighbor is dead: its flow returns, and whoever comes back starts a new edge."""
        k = self._place[neighbor]
        self._numbers.tells[k, 1:] = 0.0
        self._settled[k] = self._echoed[k] = False
        self._numbers.conclude(self._now)

    def remember(self) -> LedgerState:
        """A copy of what must survive a restart."""
        flows = {j: self.flow(j) for j in self._place}
        return LedgerState(self.age, self.serial, self.samples, self._numbers.own.copy(), flows)
