"""Simulation with lost messages and crashed agents: the edge ledger, all edges and trials in one compiled loop.

The rules are those of `methods/ledger.py`. Observations are those of `gs.simulate` with the same seed. Errors are
measured against the average of the means of the agents alive at the end.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import get_num_threads
from scipy.sparse.csgraph import connected_components

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.engines.faulty.kernels import (
    EdgeList,
    LedgerMemory,
    LedgerTable,
    Phase,
    Rules,
    add_ledgers,
    play_rounds,
)
from gossamer.engines.results import FaultySimulation, standard_error
from gossamer.errors import InvalidInput, Unsupported
from gossamer.faults import Faults
from gossamer.faults.kernels import ChainDraws
from gossamer.methods import METHODS, Method, Table, resolve, tabulate
from gossamer.methods.ledger import SILENCE
from gossamer.networks import Network
from gossamer.numerics import random
from gossamer.numerics.threads import spread
from gossamer.observations import Observations, check_match

_BLOCK = 64
"""At most this many trials run side by side; results do not depend on it."""

_MEMORY = 1 << 28
"""Each thread uses about this many bytes, an eighth of them for observations drawn ahead."""


def simulate_faulty(
    method: Method | str,
    network: Network,
    observations: Observations,
    rounds: int,
    trials: int = 100,
    seed: int = 0,
    faults: Faults | None = None,
    *,
    rule: str = "ledger",
    silence: int = SILENCE,
) -> FaultySimulation:
    """Run `method` in its edge-ledger form for `rounds` rounds while `faults` happen.

    Parameters
        method, network, observations, rounds, trials, seed   as in `gs.simulate`
        faults        what goes wrong; None: nothing
        rule          "ledger", or "skip" to see what happens without a ledger: an agent leaves the neighbors
                      it does not hear out of its sum
        silence       A of the ledger's rules
    """
    faults = Faults() if faults is None else faults
    method = resolve(method)
    check_match(network, observations)
    if np.ndim(rounds):
        raise InvalidInput(f"with faults, rounds must be one whole number, got {rounds!r}")
    rounds = checks.rounds(rounds)
    table = tabulate(method, network, rounds)
    if not table.ledger or method.mixing != "matrix":
        raise Unsupported(_without_ledger(method))
    checks.choice("rule", rule, ("ledger", "skip"))
    trials = checks.whole_number("trials", trials, least=1)
    silence = checks.whole_number("silence", silence, least=1)
    faults.check(network.agents)
    scenario = _Scenario(network, table, observations, faults, seed, Rules(silence, rule == "skip"))
    alive = scenario.phases[-1].alive.astype(bool)
    if not alive.any():
        raise InvalidInput(
            "no agent is alive at the end, so there is nothing to estimate; keep at least one agent alive"
        )
    scenario.check_clocks(method)
    threads = get_num_threads()
    size = min(scenario.block, max(8, -(-trials // threads)))
    estimates = np.empty((trials, *observations.mean.shape))

    def play(block: int) -> None:
        some = range(trials)[block * size : (block + 1) * size]
        estimates[some.start : some.stop] = scenario.estimates(some)

    spread(play, -(-trials // size))
    variance = observations.variance.sum(axis=1)
    target = observations.means(range(rounds - 1, rounds))[0][alive].mean(axis=0)
    squares = ((estimates - target) ** 2).sum(axis=2)
    errors = squares[:, alive].sum(axis=1)
    return FaultySimulation(
        method=method,
        rounds=rounds,
        trials=trials,
        seed=seed,
        agents=int(alive.sum()),
        total_error=float(errors.mean()),
        stderr=float(standard_error(errors)),
        centralized_limit=float((variance[alive] / scenario.rounds_present[alive]).mean()),
        errors=errors,
        per_agent=squares.mean(axis=0),
        kept_estimates=estimates,
        alive=alive,
        target=target,
        parts=int(connected_components(network.gossip[alive][:, alive], return_labels=False)),
    )


class _Scenario:
    """What is the same in every trial: the method's table, the phases, and who took part when."""

    def __init__(
        self,
        network: Network,
        table: Table,
        observations: Observations,
        faults: Faults,
        seed: int,
        rules: Rules,
    ) -> None:
        self.table = table
        self.observations = observations
        self.chains = faults.chains
        self.seed = seed
        self.rules = rules
        self.edges = _edge_list(network)
        ledger = np.array(table.ledger, dtype=np.int64)
        local = np.array(table.local, dtype=np.int64)
        self.ledger_table = LedgerTable(
            table.message_state,
            table.message_observation,
            table.step_state,
            table.step_observation,
            table.step_mixed,
            ledger,
            local,
        )
        starts = [round for round in faults.changes if round < table.rounds]
        self.phases = [
            self._phase(network.agents, faults, start, stop)
            for start, stop in pairwise([*starts, table.rounds])
        ]
        self.batches = {} if np.all(table.batches == 1) else self._batches_of_absentees()

    @property
    def block(self) -> int:
        """How many trials at most are run side by side, so that they fit into the memory of a thread."""
        agents, components = self.observations.mean.shape
        on_links = len(self.edges.own) * (len(self.table.ledger) * components + 2)
        return int(
            np.clip(_MEMORY // (8 * (on_links + agents * components * (self.table.registers + 2))), 1, _BLOCK)
        )

    def _phase(self, agents: int, faults: Faults, start: int, stop: int) -> Phase:
        now = [event for event in faults.events if event.round == start]
        dead = [event.agent for event in now if event.what == "drop"]
        return Phase(
            start,
            stop,
            faults.alive_agents(agents, start).astype(np.uint8),
            faults.links_up(agents, start, self.edges.senders, self.edges.receivers).astype(np.uint8),
            np.flatnonzero(np.isin(self.edges.senders, dead)),
            np.array([event.agent for event in now if event.what == "begin"], dtype=np.int64),
        )

    def _batches_of_absentees(self) -> dict[int, Floats]:
        """The batch sizes, round by round, of the agents that are not always there: their clocks differ."""
        lengths = [phase.stop - phase.start for phase in self.phases]
        present = np.repeat([phase.alive for phase in self.phases], lengths, axis=0).astype(bool)  # (T, N)
        clocks = np.maximum(np.cumsum(present, axis=0) - 1, 0)
        sizes = np.where(present, self.table.batches[clocks], 0.0)
        return {agent: sizes[:, agent] for agent in np.flatnonzero(~present.all(axis=0)).tolist()}

    @property
    def rounds_present(self) -> Integers:
        """(N,) in how many rounds each agent takes part."""
        return np.asarray(
            sum((phase.stop - phase.start) * phase.alive.astype(np.int64) for phase in self.phases)
        )

    def check_clocks(self, method: Method) -> None:
        """Complain if an agent takes part so rarely that the method has no unbiased estimate for it yet."""
        clocks = self.rounds_present
        answers = _answers_to_ones(self.table)
        for agent in np.flatnonzero(self.phases[-1].alive).tolist():
            if abs(answers[clocks[agent] - 1] - answers[-1]) > 1e-9:
                raise Unsupported(
                    f"agent {agent} takes part in {clocks[agent]} of {self.table.rounds} rounds, too few for "
                    f"{type(method).__name__}, whose estimate is made for a fixed number of rounds; "
                    "use AnytimeSDA, or let the agent join earlier"
                )

    def estimates(self, trials: range) -> Floats:
        """(trials, N, n): the estimates of a block of trials."""
        agents, components = self.observations.mean.shape
        links, block = len(self.edges.own), len(trials)
        memory = LedgerMemory(
            registers=np.zeros((agents, self.table.registers, components, block)),
            ledgers=np.zeros((links, len(self.table.ledger), components, block)),
            last_heard=np.full((links, block), -1, dtype=np.int32),
            settled=np.zeros((links, block), dtype=np.uint8),
            echoed=np.zeros((links, block), dtype=np.uint8),
            chains=np.zeros((len(self.chains), links, block), dtype=np.uint8),
            heard=np.ones((4, links, block), dtype=np.uint8),
            clock=np.zeros(agents, dtype=np.int64),
            born=np.zeros(agents, dtype=np.int64),
        )
        draws = ChainDraws(self.chains, random.key(self.seed), trials.start)
        at_once = max(1, _MEMORY // (64 * agents * components * block))
        for phase in self.phases:
            self._begin(memory, phase)
            for start in range(phase.start, phase.stop, at_once):
                rounds = range(start, min(start + at_once, phase.stop))
                observations = self._observe(rounds, trials)
                play_rounds(
                    memory, self.edges, self.ledger_table, draws, self.rules, phase, start, observations
                )
        alive = self.phases[-1].alive
        add_ledgers(memory, self.edges, self.ledger_table, alive)
        weights = self.table.estimate_state[np.maximum(memory.clock - 1, 0)]
        estimates: Floats = np.einsum("ir,irnb->bin", weights, memory.registers)
        estimates[:, alive == 0] = np.nan
        return estimates

    def _begin(self, memory: LedgerMemory, phase: Phase) -> None:
        own = np.flatnonzero(np.isin(self.edges.receivers, phase.begun))
        for links in (phase.dropped, own):
            memory.ledgers[links] = 0.0
            memory.settled[links] = 0
            memory.echoed[links] = 0
        memory.last_heard[own] = -1
        memory.born[phase.begun] = phase.start

    def _observe(self, rounds: range, trials: range) -> Floats:
        unit = bool(np.all(self.table.batches == 1))
        samples = self.observations.sample(
            self.seed, rounds, trials, batches=None if unit else self.table.batches
        )
        for agent, sizes in self.batches.items():
            own = self.observations.sample(self.seed, rounds, trials, range(agent, agent + 1), sizes)
            samples[:, agent] = own[:, 0]
        return samples


def _edge_list(network: Network) -> EdgeList:
    low, high = np.ascontiguousarray(network.edges.T)
    weight = -np.asarray(network.gossip[low, high]).ravel()
    receivers = np.column_stack([low, high]).ravel()
    senders = np.column_stack([high, low]).ravel()
    own = np.argsort(receivers, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(receivers, minlength=network.agents))])
    return EdgeList(low, high, weight, senders, receivers, indptr, own)


def _answers_to_ones(table: Table) -> Floats:
    """(T,) the estimate after each round of an agent that saw only ones and has no neighbors."""
    answers = np.empty(table.rounds)
    state = np.zeros(table.registers)
    for t in range(table.rounds):
        state = table.step_state[t] @ state + table.step_observation[t]
        answers[t] = table.estimate_state[t] @ state
    return answers


def _without_ledger(method: Method) -> str:
    able = []
    for name, candidate in METHODS.items():
        if candidate.mixing == "matrix" and tabulate(candidate(), Network.path(2), 8).ledger:
            able.append(name)
    return (
        f"{type(method).__name__} has no edge ledger, so lost messages would make it drift away; "
        f"methods with a ledger are {', '.join(able)}"
    )
