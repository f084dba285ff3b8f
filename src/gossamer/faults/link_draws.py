"""Compiled decisions about which messages are lost; `kinds.py` says what they mean.

Every random link fault is a chain of two states, good and bad, that moves once per round: bad in round 0 with
probability `start`, then bad after good with probability `enter` and bad after bad with probability `stay`.
Independent loss is the chain whose three probabilities are equal. One uniform u per (trial, sender, receiver,
round) drives it: bad if and only if u is below the probability that applies. Outside its own rounds a chain stops
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.arrays import Flags, Floats, Integers
from gossamer.faults.fault import PURPOSES
from gossamer.numerics.compiling import compiled
from gossamer.numerics.random import FAULT, fill_uniforms, uniform


class ChainDraws(NamedTuple):
    """The chains of a set of faults, and the random numbers of some trials."""

    chains: Floats  #: (K, 6) start, enter, stay, 1 if both directions of a link share the chain, its rounds
    key: np.uint64
    first_trial: int


@compiled
def _chain_is_bad(
    chains: Floats, k: int, key: np.uint64, trial: int, sender: int, receiver: int, round: int
) -> bool:
    """Whether one chain is bad in a round, of its own or not.

    A uniform below both `enter` and `stay`, or above both, decides the state whatever it was before. So it is
    enough to walk back to the last such round, which is about one mean burst away.
    """
    start, enter, stay, shared, _, _ = chains[k]
    low, high = min(enter, stay), max(enter, stay)
    a, b = sender, receiver
    if shared:
        a, b = min(sender, receiver), max(sender, receiver)
    flipped = False
    t = round
    while True:
        u = uniform(key, FAULT + PURPOSES * k, trial, a, b, t)
        if t == 0:
            bad = u < start
            break
        if u < low or u >= high:
            bad = u < low
            break
        # In between, the state is kept (stay > enter), or flipped (stay < enter).
        flipped = flipped != (stay < enter)
        t -= 1
    return bool(bad != flipped)


@compiled
def recall_states(states: Flags, draws: ChainDraws, round: int, sender: int, receiver: int) -> None:
    """Set the states (chains, trials) of a link to those after a round, where they matter for the next one."""
    for k in range(len(draws.chains)):
        _, enter, stay, _, _, _ = draws.chains[k]
        if round >= 0 and enter != stay:
            for trial in range(states.shape[1]):
                states[k, trial] = _chain_is_bad(
                    draws.chains, k, draws.key, draws.first_trial + trial, sender, receiver, round
                )


@compiled
def fill_heard(
    heard: Flags, states: Flags, draws: ChainDraws, quad: int, senders: Integers, receivers: Integers
) -> None:
    """Fill `heard` (4, links, trials) for the rounds 4 quad .. 4 quad + 3: 1 where no chain is bad.

    `states` (chains, links, trials) holds the chains' states after the rounds before; start with quad 0.
    """
    for link in range(heard.shape[1]):
        fill_link(heard[:, link], states[:, link], draws, quad, senders[link], receivers[link])


@compiled
def fill_link(heard: Flags, states: Flags, draws: ChainDraws, quad: int, sender: int, receiver: int) -> None:
    """`fill_heard` for one link: `heard` is (4, trials), `states` (chains, trials)."""
    trials = heard.shape[1]
    heard[:] = 1
    buffer = np.empty((4, trials))
    for k in range(len(draws.chains)):
        start, enter, stay, shared, since, until = draws.chains[k]
        a, b = sender, receiver
        if shared:
            a, b = min(a, b), max(a, b)
        fill_uniforms(buffer, draws.key, FAULT + PURPOSES * k, quad, a, b, draws.first_trial)
        for row in range(4):
            first = quad == 0 and row == 0
            counts = since <= 4 * quad + row < until
            for trial in range(trials):
                limit = stay if states[k, trial] else enter
                bad = buffer[row, trial] < (start if first else limit)
                states[k, trial] = bad
                if bad and counts:
                    heard[row, trial] = 0
