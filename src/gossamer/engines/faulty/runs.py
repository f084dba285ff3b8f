"""Divide a simulation with faults into passes, blocks of trials and kernel calls, and collect its results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import get_num_threads

from gossamer.arrays import Flags, Floats, Integers
from gossamer.engines.faulty.edges import ChangingEdges, Edges, Size, SteadyEdges
from gossamer.engines.faulty.ledger_rounds import add_ledgers, play_rounds
from gossamer.engines.faulty.memory import EdgeList, LedgerMemory, LedgerTable, Phase, Rules
from gossamer.engines.trials import Advance, Trials
from gossamer.errors import InvalidInput, Unsupported
from gossamer.faults import Faults
from gossamer.faults.link_draws import ChainDraws
from gossamer.methods import Method, Table, tabulate
from gossamer.methods.ledger import DOWN, DROPPED, NEW
from gossamer.networks import ChangingNetwork, Network
from gossamer.numerics import random
from gossamer.numerics.threads import spread
from gossamer.observations import Observations

_BLOCK = 64
"""At most this many trials run side by side; results do not depend on it."""

_MEMORY = 1 << 28
"""Each thread uses about this many bytes."""

_AHEAD = 1 << 22
"""Number of bytes of observations that are drawn ahead, to fit into a cache."""


class Scene(NamedTuple):
    """Where and how a method runs.

    `silence` is A of the ledger's rules; None if there is no ledger and neighbors that are not heard are omitted.
    `return_rate` is the factor per round by which the flow of a dropped edge returns.
    """

    network: Network | ChangingNetwork
    observations: Observations
    faults: Faults
    silence: int | None
    return_rate: float


class FaultyRun:
    """The trials of one simulation with faults: squared errors, estimates and iterates, filled wave by wave."""

    def __init__(
        self,
        scene: Scene,
        method: Method,
        groups: list[tuple[Table, list[int]]],
        horizons: Integers,
        trials: Trials,
    ) -> None:
        self.scene, self.method, self.trials, self.horizons = scene, method, trials, horizons
        observations = scene.observations
        agents, components = shape = observations.mean.shape
        self.alive = np.stack([scene.faults.alive_agents(agents, t - 1) for t in horizons.tolist()])  # (H, N)
        for t in horizons[~self.alive.any(axis=1)].tolist():
            raise InvalidInput(
                f"no agent is alive at the end, after {t} rounds, so there is nothing to estimate; "
                "keep at least one agent alive"
            )
        ends = [observations.means(range(t - 1, t))[0] for t in horizons.tolist()]
        self.targets = np.stack(
            [end[alive].mean(axis=0) for end, alive in zip(ends, self.alive, strict=True)]
        )
        self.squares = np.empty((len(horizons), trials.count, agents))
        self.estimates = np.empty((len(horizons) if trials.keep != "errors" else 0, trials.count, *shape))
        self.iterates = trials.iterates(method, int(horizons[-1]), (agents, components), np.float64)
        self.worst = np.empty((len(horizons), trials.count))
        self.messages = np.empty((len(horizons), trials.count))
        self.parts = np.zeros(len(horizons), dtype=np.int64)
        self.done = np.zeros(trials.count, dtype=bool)
        self.passes = [
            _Pass(scene, method, trials.seed, table, dict(zip(horizons[which].tolist(), which, strict=True)))
            for table, which in groups
        ]
        for one in self.passes:
            one.check_clocks(method)
        self.longest = self.passes[0]
        self.rounds_present = self.longest.rounds_present(horizons)  # (H, N)
        self.work = sum(one.table.rounds * one.per_round for one in self.passes) * trials.count

    def go(self, advance: Advance) -> None:
        """Run waves of trials, a block for each thread; a wave goes through all passes before the next one begins."""
        count, threads = self.trials.count, get_num_threads()
        size = min(*(one.block for one in self.passes), max(8, -(-count // threads)))
        for first in range(0, count, size * threads):
            wave = range(first, min(first + size * threads, count))
            for one in self.passes:
                self._play(one, [wave[k : k + size] for k in range(0, len(wave), size)], advance)
            self.done[wave.start : wave.stop] = True

    def _play(self, one: _Pass, blocks: list[range], advance: Advance) -> None:
        """Run one pass of a few blocks of trials, and store its results."""
        first, records = self.trials.first, len(self.iterates) > 0 and one is self.longest
        edges = one.edges()
        memories = [one.memory(len(block), edges) for block in blocks]
        for phase, rounds in one.calls(len(blocks[0]), edges, every=records):
            if rounds.start == phase.start:
                for memory in memories:
                    one.begin(memory, phase, edges)
            current = edges.during(rounds)
            memories = [memory.with_room(2 * len(current.low)) for memory in memories]

            def play(
                k: int,
                memories: list[LedgerMemory] = memories,
                current: EdgeList = current,
                alive: Flags = phase.alive,
                rounds: range = rounds,
            ) -> None:
                numbers = range(first + blocks[k].start, first + blocks[k].stop)
                one.play(memories[k], current, alive, rounds, numbers)

            spread(play, len(blocks))
            horizon = one.positions.get(rounds.stop)
            if horizon is not None:
                self.parts[horizon] = edges.parts(self.alive[horizon])
            for block, memory in zip(blocks, memories, strict=True):
                some = slice(block.start, block.stop)
                if records or horizon is not None:
                    estimates = one.estimates(memory, current, phase)
                if records:
                    self.iterates[:-1, some, rounds.stop - 1] = one.registers(memory, current, phase)
                    self.iterates[-1, some, rounds.stop - 1] = estimates
                if horizon is not None:
                    self.worst[horizon, some] = _beyond(memory)
                    self.messages[horizon, some] = memory.sent
                    self.squares[horizon, some] = ((estimates - self.targets[horizon]) ** 2).sum(axis=2)
                    self.estimates[horizon : horizon + 1, some] = estimates  # empty if none are kept
                    numbers = range(first + block.start, first + block.stop)
                    self.scene.observations.receive_estimates(rounds.stop, numbers, estimates)
            edges.forget(memories, one.doubtful, rounds.stop)
            advance(len(rounds) * sum(map(len, blocks)) * one.per_round)


class _Pass:
    """The rounds of one table, the same in every trial: the phases, when each agent takes part, and the horizons."""

    def __init__(
        self, scene: Scene, method: Method, seed: int, table: Table, positions: dict[int, int]
    ) -> None:
        self.scene, self.seed, self.table = scene, seed, table
        self.positions = positions  # positions of its horizons among all requested ones
        self.observations, self.faults = scene.observations, scene.faults
        skip, changing = scene.silence is None, isinstance(scene.network, ChangingNetwork)
        # Flows to agents that may be declared dead must be kept apart from the others, so they are not folded.
        folds = changing and not self.faults.events
        reliable = folds and not skip and not len(self.faults.chains)
        step_state, step_mixed = table.step_state, table.step_mixed
        if method.after_loss is not None and not skip:
            later, on = tabulate(method.after_loss, scene.network, table.rounds), list(table.ledger)
            if changing:
                step_state, step_mixed = step_state.copy(), step_mixed.copy()
                step_state[:, on], step_mixed[:, on] = later.step_state[:, on], later.step_mixed[:, on]
            else:
                step_state = np.concatenate([step_state, later.step_state])
                step_mixed = np.concatenate([step_mixed, later.step_mixed])
        self.rules = Rules(
            scene.silence or 0,
            skip,
            changing,
            folds,
            reliable,
            scene.return_rate,
            len(step_mixed) - table.rounds,
            self._quiet(),
        )
        on_edges = () if skip else table.ledger
        self.ledger_table = LedgerTable(
            table.message_state,
            table.message_observation,
            step_state,
            table.step_observation,
            step_mixed,
            np.array(on_edges, dtype=np.int64),
            np.array([r for r in range(table.registers) if r not in on_edges], dtype=np.int64),
            0 if skip or table.flow < 0 else table.ledger.index(table.flow),
            table.estimate_state,
            (np.abs(_answers_to_ones(table) - 1.0) < 1e-9).astype(np.uint8),
        )
        self.size = Size.of(scene.network)
        starts = [round for round in self.faults.changes if round < table.rounds]
        self.phases = [self._phase(start, stop) for start, stop in pairwise([*starts, table.rounds])]
        self.batches = {} if np.all(table.batches == 1) else self._batches_of_absentees()

    def _quiet(self) -> Floats:
        """Return (n,) the news in round 0 below which agents are silent; empty if they never are."""
        quiet = self.faults.quiet
        if quiet is None:
            return np.empty(0)
        errors: Floats = np.sqrt(self.observations.variance.sum(axis=0)) / self.observations.agents
        return quiet.fraction * errors

    @property
    def per_round(self) -> int:
        """Number of updates in a round of one trial."""
        return (self.observations.agents + 2 * self.size.usual) * self.observations.components

    @property
    def block(self) -> int:
        """Largest number of trials that run side by side, limited by the memory of a thread."""
        agents, components = self.observations.mean.shape
        on_links = 2 * self.size.slots * (len(self.ledger_table.ledger) * components + 2)
        return int(
            np.clip(_MEMORY // (8 * (on_links + agents * components * (self.table.registers + 2))), 1, _BLOCK)
        )

    def _phase(self, start: int, stop: int) -> Phase:
        faults, agents = self.faults, self.observations.agents
        now = [event for event in faults.events if event.round == start]
        dead = [event.agent for event in now if event.what == "drop"]
        return Phase(
            start,
            stop,
            faults.alive_agents(agents, start).astype(np.uint8),
            np.array(dead, dtype=np.int64),
            np.array([event.agent for event in now if event.what == "begin"], dtype=np.int64),
        )

    def _batches_of_absentees(self) -> dict[int, Floats]:
        """Return the batch sizes, by round, of the agents that are not always present: their clocks differ."""
        lengths = [phase.stop - phase.start for phase in self.phases]
        present = np.repeat([phase.alive for phase in self.phases], lengths, axis=0).astype(bool)  # (T, N)
        clocks = np.maximum(np.cumsum(present, axis=0) - 1, 0)
        sizes = np.where(present, self.table.batches[clocks], 0.0)
        return {agent: sizes[:, agent] for agent in np.flatnonzero(~present.all(axis=0)).tolist()}

    def rounds_present(self, horizons: Integers) -> Integers:
        """Return (H, N) the number of rounds in which each agent takes part, up to each horizon."""
        bounds = np.minimum([[phase.start, phase.stop] for phase in self.phases], horizons[:, None, None])
        return np.asarray(
            np.diff(bounds)[..., 0] @ np.array([phase.alive for phase in self.phases], np.int64)
        )

    def check_clocks(self, method: Method) -> None:
        """Raise an error if an agent takes part so rarely that the method has no unbiased estimate for it yet."""
        if method.anytime:
            return
        answers = _answers_to_ones(self.table)
        clocks = self.rounds_present(np.array(list(self.positions)))
        for horizon, clock in zip(self.positions, clocks, strict=True):
            alive = self.faults.alive_agents(len(clock), horizon - 1)
            for agent in np.flatnonzero(alive).tolist():
                if abs(answers[clock[agent] - 1] - answers[horizon - 1]) > 1e-9:
                    raise Unsupported(
                        f"agent {agent} takes part in {clock[agent]} of {horizon} rounds, too few for "
                        f"{type(method).__name__}, whose estimate is made for a fixed number of rounds; "
                        "use AnytimeSDA, or let the agent join earlier"
                    )

    @property
    def doubtful(self) -> int | None:
        """The slot in ledgers of the flow on which two ends may disagree; None if they never do."""
        return None if self.rules.skip or self.rules.reliable else self.ledger_table.flow

    @cached_property
    def _steady(self) -> SteadyEdges:
        return SteadyEdges(self.scene.network, self.faults)  # type: ignore[arg-type]

    def edges(self) -> Edges:
        """Return the edges of a run of all rounds, before the first one."""
        network = self.scene.network
        if isinstance(network, Network):
            return self._steady
        window = 0 if self.rules.skip else DOWN
        return ChangingEdges(network, self.faults, self.size, window, self.rules.folds)

    def memory(self, trials: int, edges: Edges) -> LedgerMemory:
        """Return the state of a block of trials before the first round."""
        agents, components = self.observations.mean.shape
        links, chains = 2 * len(edges.low), len(self.faults.chains)
        returns = any(event.what == "drop" for event in self.faults.events)
        speakers, hearers = (agents, links) if self.faults.quiet else (0, 0)
        return LedgerMemory(
            registers=np.zeros((agents, self.table.registers, components, trials)),
            ledgers=np.zeros((links, len(self.ledger_table.ledger), components, trials)),
            returning=np.zeros((agents if returns else 0, len(self.ledger_table.ledger), components, trials)),
            last_heard=np.full((links, trials), -1, dtype=np.int32),
            standing=np.full((links, trials), NEW, dtype=np.uint8),
            begun=np.zeros((links, trials), dtype=np.int32),
            calm=np.zeros((links, trials), dtype=np.int32),
            echoed=np.zeros((links, trials), dtype=np.uint8),
            chains=np.zeros((chains, links, trials), dtype=np.uint8),
            heard=np.ones((4, links, trials), dtype=np.uint8),
            filled=np.full(links, -1, dtype=np.int64),
            clock=np.zeros(agents, dtype=np.int64),
            observed=_nothing_yet(components, trials),
            answered=_nothing_yet(components, trials),
            born=np.zeros(links, dtype=np.int64),
            sent=np.zeros(trials, dtype=np.int64),
            told=np.full((speakers, components, trials), np.nan),
            held=np.full((hearers, components, trials), np.nan),
            speaks=np.zeros((speakers, trials), dtype=np.uint8),
        )

    def calls(self, trials: int, edges: Edges, *, every: bool) -> Iterator[tuple[Phase, range]]:
        """Cut the rounds at phases and horizons, or after every one, so that the observations fit into memory."""
        agents, components = self.observations.mean.shape
        at_once = 1
        if not every:  # random numbers come for four rounds at a time
            fitting = _AHEAD // (8 * agents * components * trials)
            at_once = 4 * max(1, min(fitting, edges.at_once) // 4)
        stops = {*self.positions, self.table.rounds}
        for phase in self.phases:
            inside = sorted(stop for stop in stops if phase.start < stop < phase.stop)
            for start, stop in pairwise([phase.start, *inside, phase.stop]):
                for first in range(start, stop, at_once):
                    yield phase, range(first, min(first + at_once, stop))

    def play(self, memory: LedgerMemory, edges: EdgeList, alive: Flags, rounds: range, trials: range) -> None:
        """Run some rounds of a phase for a block of trials."""
        draws = ChainDraws(self.faults.chains, random.key(self.seed), trials.start)
        observations = self._observe(rounds, trials)
        play_rounds(memory, edges, self.ledger_table, draws, self.rules, alive, rounds.start, observations)
        if not self.faults.quiet:
            memory.sent[:] += 2 * int((edges.stop - edges.start).sum())

    def estimates(self, memory: LedgerMemory, edges: EdgeList, phase: Phase) -> Floats:
        """Return (trials, N, n) the estimates after the rounds so far; NaN for agents that are not alive."""
        if not self.rules.changing:
            add_ledgers(memory, edges, self.ledger_table, phase.alive)
        weights = self.table.estimate_state[np.maximum(memory.clock - 1, 0)]
        estimates: Floats = np.einsum("ir,irnb->bin", weights, memory.registers)
        estimates[:, phase.alive == 0] = np.nan
        return estimates

    def registers(self, memory: LedgerMemory, edges: EdgeList, phase: Phase) -> Floats:
        """Return (R, trials, N, n) the registers of these estimates; NaN for agents that are not alive."""
        registers = memory.registers.copy()
        if self.rules.changing:  # folded edges have no momentum, so all their registers are equal
            flow = self.ledger_table.flow
            for q, register in enumerate(self.ledger_table.ledger):
                registers[:, register] = memory.registers[:, self.ledger_table.ledger[flow]]
                beyond = memory.ledgers[:, q] - memory.ledgers[:, flow]
                np.add.at(registers[:, register], edges.low, beyond[0::2])
                np.add.at(
                    registers[:, register], edges.high, -beyond[0::2] if self.rules.reliable else beyond[1::2]
                )
        alive = phase.alive[:, None, None, None] == 1
        return np.where(alive, registers, np.nan).transpose(1, 3, 0, 2)

    def begin(self, memory: LedgerMemory, phase: Phase, edges: Edges) -> None:
        """Update the edges at the start of a phase: drop those of dead agents, and start those of new agents."""
        if not (phase.dead.size or phase.begun.size):
            return
        receivers = np.column_stack([edges.low, edges.high]).ravel()
        senders = np.column_stack([edges.high, edges.low]).ravel()
        own, dropped = (
            np.flatnonzero(np.isin(ends, agents))
            for ends, agents in ((receivers, phase.begun), (senders, phase.dead))
        )
        memory.ledgers[own] = 0.0
        memory.standing[own] = NEW
        memory.begun[own] = phase.start
        memory.last_heard[own] = -1
        if dropped.size:
            np.add.at(memory.returning, receivers[dropped], memory.ledgers[dropped])
            memory.ledgers[dropped] = 0.0
            memory.standing[dropped] = DROPPED
        memory.returning[phase.begun if len(memory.returning) else []] = 0.0
        for links in (own, dropped):
            memory.echoed[links] = 0
            memory.born[links] = edges.turns(phase.start)[links // 2]
        if self.rules.changing and not self.rules.skip:
            flow = self.ledger_table.flow
            x = memory.registers[:, self.ledger_table.ledger[flow]]
            x[:] = 0.0
            np.add.at(x, receivers, memory.ledgers[: len(receivers), flow])
            if len(memory.returning):
                x += memory.returning[:, flow]

    def _observe(self, rounds: range, trials: range) -> Floats:
        unit = bool(np.all(self.table.batches == 1))
        seed, batches = self.seed, None if unit else self.table.batches
        samples = self.observations.sample(seed, rounds, trials, batches=batches)
        for agent, sizes in self.batches.items():
            own = self.observations.sample(seed, rounds, trials, range(agent, agent + 1), sizes)
            samples[:, agent] = own[:, 0]
        return samples


def _nothing_yet(components: int, trials: int) -> Floats:
    """Return (2, n, B) the bounds of an empty range: infinity and minus infinity."""
    return np.stack([np.full((components, trials), sign * np.inf) for sign in (1, -1)])


def _beyond(memory: LedgerMemory) -> Floats:
    """Return (B,) how far estimates were outside the range of the observations, as a multiple of its width."""
    (low, high), (least, largest) = memory.observed, memory.answered
    width = np.maximum(high - low, 1e-9 * np.maximum(np.abs(low), np.abs(high)) + 1e-300)
    outside: Floats = np.maximum(np.maximum(low - least, largest - high) / width, 0.0).max(axis=0)
    return outside


def _answers_to_ones(table: Table) -> Floats:
    """Return (T,) the estimate after each round of an agent that observed only ones and has no neighbors."""
    answers = np.empty(table.rounds)
    state = np.zeros(table.registers)
    for t in range(table.rounds):
        row = table.round(t)
        state = row.step(state, 1.0, 0.0)
        answers[t] = row.estimate(state)
    return answers
