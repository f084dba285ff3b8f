"""Faults bound to a seed: a transport asks them about each message.

Deployed agents ask, too, so nothing here is compiled: Numba would double an agent's memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossamer.arrays import Floats
from gossamer.faults.fault import PURPOSES, LinkFault
from gossamer.numerics import counters

if TYPE_CHECKING:
    from gossamer.faults.combined import Faults


class BoundFaults:
    """Faults bound to a seed and a trial; every answer is a pure function of (round, sender, receiver).

    Parameters
    ----------
    faults : Faults
        The faults that happen in this trial.
    seed : int
        Seed of the random faults, at least 0.
    trial : int
        Number of the trial; each trial has other random faults.

    See Also
    --------
    Faults : The faults, for any seed and trial.

    Examples
    --------
    >>> bound = gs.faults.Faults(gs.faults.Loss(0.3)).bind(seed=1)
    >>> lost = [bound.lost(t, sender=0, receiver=1) for t in range(1000)]
    >>> 0.25 < np.mean(lost) < 0.35
    True
    """

    def __init__(self, faults: Faults, seed: int, trial: int = 0) -> None:
        self.faults = faults
        self._key = counters.key(seed)
        self._trial = trial
        # A chain keeps its position, and so its random numbers, when the others are switched off.
        links = [item for item in faults.items if isinstance(item, LinkFault)]
        late = np.array([[item.lateness is not None] for item in links], dtype=bool).reshape(-1, 1)
        self._losses = np.where(late, 0.0, faults.chains)  # which also ends their rounds with round 0
        self._delays = [
            (item.lateness, np.where(np.arange(len(links))[:, None] == k, faults.chains, 0.0))
            for k, item in enumerate(links)
            if item.lateness is not None
        ]

    def heard(self, round: int, sender: int, receiver: int) -> bool:
        """Return whether the message of `round` arrives in its round: not lost, not late, both agents alive."""
        return self.faults.up(round, sender, receiver) and not self._bad(
            self.faults.chains, round, sender, receiver
        )

    def lost(self, round: int, sender: int, receiver: int) -> bool:
        """Return whether the message never arrives."""
        return not self.faults.up(round, sender, receiver) or self._bad(self._losses, round, sender, receiver)

    def delay(self, round: int, sender: int, receiver: int) -> int:
        """Number of rounds by which the message is late, if it is not lost."""
        return sum(rounds for rounds, chain in self._delays if self._bad(chain, round, sender, receiver))

    def alive(self, agent: int, round: int) -> bool:
        """Return whether the agent takes part in `round`."""
        return self.faults.alive(agent, round)

    def _bad(self, chains: Floats, round: int, sender: int, receiver: int) -> bool:
        return any(
            self._chain_is_bad(k, chain, round, sender, receiver) for k, chain in enumerate(chains.tolist())
        )

    def _chain_is_bad(self, k: int, chain: list[float], round: int, sender: int, receiver: int) -> bool:
        """Return whether the k-th chain is bad in a round, computed as in `link_draws.recall_states`."""
        start, enter, stay, shared, since, until = chain
        if not since <= round < until:
            return False
        low, high = min(enter, stay), max(enter, stay)
        a, b = (min(sender, receiver), max(sender, receiver)) if shared else (sender, receiver)
        flipped = False
        while True:
            u = counters.uniform(self._key, counters.FAULT + PURPOSES * k, self._trial, a, b, round)
            if round == 0:
                return (u < start) != flipped
            if u < low or u >= high:
                return (u < low) != flipped
            flipped = flipped != (stay < enter)
            round -= 1
