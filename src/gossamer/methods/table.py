"""A method as numbers: one row of coefficients per round, which every engine and every agent reads.

Because a method only adds and scales, round t is

    message   m  = message_state[t] . s + message_observation[t] y
    registers s' = step_state[t] s + step_observation[t] y + step_mixed[t] u,     u = sum_j L_ij m_j
    estimate  e  = estimate_state[t] . s'

`probing.py` makes a table from a method; this module only reads. Code that is not compiled computes a round with
`Table.round(t)`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.arrays import AnyArray, Floats


class Round(NamedTuple):
    """One round of a table, for registers (R, ...) and observations (...) of any shape.

    Entries at different positions are never added to each other, so each has the same bits whatever the others are.
    """

    message_state: Floats  #: (R,)
    message_observation: Floats  #: a number, as are the entries of the other rows
    step_state: Floats  #: (R, R)
    step_observation: Floats  #: (R,)
    step_mixed: Floats  #: (R,)
    estimate_state: Floats  #: (R,)

    def message(self, state: AnyArray, observation: AnyArray | float) -> AnyArray:
        """Return what is sent to the neighbors."""
        return np.asarray(_weighted(self.message_state, state) + self.message_observation * observation)

    def step(self, state: AnyArray, observation: AnyArray | float, mixed: AnyArray | float) -> AnyArray:
        """Return the registers (R, ...) after the round, in which `mixed` was computed from all messages."""
        moved = _weighted(self.step_state, state)
        moved = moved + np.multiply.outer(self.step_observation, observation)
        return np.asarray(moved + np.multiply.outer(self.step_mixed, mixed))

    def estimate(self, state: AnyArray) -> AnyArray:
        """Return the estimate, from the registers after the round."""
        return _weighted(self.estimate_state, state)


def _weighted(weights: Floats, state: AnyArray) -> AnyArray:
    """Return sum_k weights[..., k] state[k], register by register."""
    total = np.multiply.outer(weights[..., 0], state[0])
    for k in range(1, len(state)):
        total = total + np.multiply.outer(weights[..., k], state[k])
    return np.asarray(total)


class Table(NamedTuple):
    """Coefficients of a method on one network for one number of rounds; R registers, T rounds.

    It is a tuple of arrays, so that compiled code can take it directly.

    Attributes
    ----------
    message_state : ndarray
        Weights of the registers in a message, shape (T, R).
    message_observation : ndarray
        Weight of the observation in a message, shape (T,).
    step_state : ndarray
        Weights of the old registers in the new ones, shape (T, R, R).
    step_observation, step_mixed : ndarray
        Weights of the observation and of the gossip product in the new registers, shape (T, R).
    estimate_state : ndarray
        Weights of the registers in the estimate, shape (T, R).
    batches : ndarray
        Number of samples per agent and round, shape (T,).

    See Also
    --------
    tabulate : Computes it.
    gossamer.Method : The four functions that it tabulates.

    Examples
    --------
    >>> table = gs.methods.tabulate(gs.AnytimeSDA(), gs.Network.cycle(10), rounds=3)
    >>> table.step_state.shape
    (3, 4, 4)
    """

    message_state: Floats  #: (T, R)
    message_observation: Floats  #: (T,)
    step_state: Floats  #: (T, R, R)
    step_observation: Floats  #: (T, R)
    step_mixed: Floats  #: (T, R)
    estimate_state: Floats  #: (T, R)
    batches: Floats  #: (T,) samples per agent and round

    @property
    def rounds(self) -> int:
        return len(self.batches)

    @property
    def registers(self) -> int:
        return int(self.message_state.shape[1])

    @property
    def samples(self) -> float:
        """Total number of samples per agent."""
        return float(self.batches.sum())

    @property
    def exchanges(self) -> int:
        """Rounds in which the neighbors' messages are used; the others need no communication."""
        return int(np.count_nonzero(self.step_mixed.any(axis=1)))

    @property
    def noise_scale(self) -> Floats:
        """(T,) standard deviation of each round's batch mean, for samples of standard deviation 1."""
        return np.where(self.batches > 0, 1 / np.sqrt(np.maximum(self.batches, 1)), 0.0)

    @property
    def ledger(self) -> tuple[int, ...]:
        """The registers that are kept on edges (see `ledger.py`); empty if the method has no ledger form.

        They are sums over an agent's edges, so that each edge can keep its own share: the registers that use the mixed
        vector, with all registers that they depend on. None of them may use the observation, because their sum would
        count it once per edge.
        """
        uses = (self.step_state != 0).any(axis=0)
        held = set(np.flatnonzero(self.step_mixed.any(axis=0)).tolist())
        while not (needed := {int(k) for i in held for k in np.flatnonzero(uses[i])}) <= held:
            held |= needed
        ledger = sorted(held)
        return () if np.any(self.step_observation[:, ledger]) else tuple(ledger)

    @property
    def flow(self) -> int:
        """The register of the ledger that everything else reads, the flow along the edges; -1 if there are several.

        The others remember how it moves. Setting them to the flow removes its momentum.
        """
        ledger = list(self.ledger)
        readers = (self.message_state, self.estimate_state, self.step_state[:, list(self.local)])
        read = [register for register in ledger if any(np.any(row[..., register]) for row in readers)]
        return read[0] if len(read) == 1 else -1

    @property
    def local(self) -> tuple[int, ...]:
        """The registers that stay with the agent while the others are kept on edges."""
        return tuple(i for i in range(self.registers) if i not in self.ledger)

    def round(self, t: int) -> Round:
        """Return the coefficients of round t."""
        return Round(*(array[t] for array in self[:-1]))

    def first(self, rounds: int) -> Table:
        """Return the table of the first rounds only, sharing memory with this one."""
        return Table(*(array[:rounds] for array in self))

    def starts_like(self, other: Table) -> bool:
        """Return whether this table is a prefix of `other`, so that one pass of `other` serves both."""
        n = self.rounds
        return n <= other.rounds and all(np.array_equal(a, b[:n]) for a, b in zip(self, other, strict=True))
