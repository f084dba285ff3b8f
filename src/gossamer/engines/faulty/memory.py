"""The arguments of the compiled loop of a network with faults: edges, tables, memory, phases and rules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import Flags, Floats, Integers


class EdgeList(NamedTuple):
    """Edge e joins agents low[e] < high[e]; link 2e is what `low` hears from `high`, link 2e + 1 the converse.

    Both the messages and the ends' ledgers are numbered by these links: ledger 2e is kept by `low`. The edges that are
    present in the k-th of some rounds are edge[start[k]:stop[k]].
    """

    low: Integers  #: (E,)
    high: Integers  #: (E,)
    indptr: Integers  #: (N + 1,) an agent's own links are own[indptr[i]:indptr[i + 1]]; empty on changing networks
    own: Integers  #: (2E,)
    start: Integers  #: (rounds,)
    stop: Integers  #: (rounds,)
    edge: Integers  #: the edges that are present
    turn: Integers  #: how often each was present before; empty if that is the number of the round
    fresh: Flags  #: whether each was down before, so that its momentum is gone; empty if none ever is
    weight: Floats  #: -L_ij of each


class LedgerTable(NamedTuple):
    """A method's table (see methods/table.py) with its registers sorted by kind."""

    message_state: Floats
    message_observation: Floats
    step_state: Floats
    step_observation: Floats
    step_mixed: Floats
    ledger: Integers  #: registers that live on the edges; none by the skip rule
    local: Integers  #: all others
    flow: int  #: which of `ledger` the messages read
    estimate_state: Floats
    answers: Flags  #: (T,) whether the estimate after each round is one: the mean, if all observations were the same


class LedgerMemory(NamedTuple):
    """The state of a block of B trials (n components, R registers, Q on edges)."""

    registers: Floats  #: (N, R, n, B); those of the ledger are sums over the agent's links (changing: the flow alone)
    ledgers: Floats  #: (2E, Q, n, B)
    #: (2E, B) the last turn in which a message arrived; -1 - k if none arrived since turn k
    last_heard: NDArray[np.int32]
    #: (N, Q, n, B) the remaining flows of the edges that an agent has dropped; or empty
    returning: Floats
    standing: Flags  #: (2E, B) of the end's ledger: NEW, COMPARED or DROPPED
    begun: NDArray[np.int32]  #: (2E, B) the round in which the end began its ledger with zero flow
    calm: NDArray[np.int32]  #: (2E, B) the round from which the end takes the method's own step again
    echoed: Flags  #: (2E, B) whether the other end has ever echoed a message since this one began
    chains: Flags  #: (K, 2E, B) states of the random link faults
    heard: Flags  #: (4, 2E, B) which messages of four rounds arrive
    filled: Integers  #: (2E,) which four rounds: 4 k .. 4 k + 3
    clock: Integers  #: (N,) rounds in which the agent has taken part
    observed: Floats  #: (2, n, B) the smallest and the largest observation so far
    answered: Floats  #: (2, n, B) the smallest and the largest estimate so far
    born: Integers  #: (2E,) the turn in which the link's receiver began, came back, or dropped the edge
    sent: Integers  #: (B,) number of messages so far
    told: Floats  #: (N, n, B) the value that an agent sent last; empty, as are the next two, unless agents are quiet
    held: Floats  #: (2E, n, B) the value that was heard last; NaN before the first
    speaks: Flags  #: (N, B) whether the agent sends messages in this round

    def with_room(self, links: int) -> LedgerMemory:
        """Return the same state with space for this many links."""
        if links <= len(self.born):
            return self
        of_agents = ("registers", "returning", "clock", "observed", "answered", "sent")
        of_quiet = ("told", "held", "speaks")  # which changing networks do not have
        sizes = {"chains": 1, "heard": 1} | dict.fromkeys((*of_agents, *of_quiet))
        fresh = {"last_heard": -1, "filled": -1, "heard": 1}
        larger = {}
        for name, array in self._asdict().items():
            axis = sizes.get(name, 0)
            if axis is not None:
                widths = [(0, links - array.shape[k] if k == axis else 0) for k in range(array.ndim)]
                larger[name] = np.pad(array, widths, constant_values=fresh.get(name, 0))
        return self._replace(**larger)

    def clear(self, links: Integers) -> None:
        """Reset the state of these links."""
        self.ledgers[links] = 0.0
        self.last_heard[links] = self.filled[links] = -1
        self.standing[links] = self.echoed[links] = self.born[links] = self.begun[links] = self.calm[
            links
        ] = 0


class Phase(NamedTuple):
    """Rounds start .. stop - 1, in which no agent joins or crashes and no partition begins or heals."""

    start: int
    stop: int
    alive: Flags  #: (N,)
    dead: Integers  #: agents that are declared dead at the start
    begun: Integers  #: agents that begin or come back at the start


class Rules(NamedTuple):
    """How an agent treats a neighbor that it does not hear, and edges that come and go."""

    silence: int  #: A of the ledger's rules
    skip: bool  #: no ledger: leave the neighbor out of the sum
    changing: bool  #: edges come and go: registers are kept up to date, and turns counted
    folds: bool  #: a flow that both ends agree on is forgotten when its edge goes down: registers hold it
    reliable: bool  #: edges come and go, but no message is lost and no agent dies: both ends always agree
    return_rate: float  #: the factor per round by which the flows of dropped edges return
    after_loss: int  #: by how many rows of the table the step of an edge is later after a loss
    quiet: Floats  #: (n,) the news, times the root of the round, below which agents are silent; or empty
