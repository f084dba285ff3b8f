"""The layout of trials in memory, their division into kernel calls, and the collection of results.

Two layouts run the same rounds: trials side by side (`TrialLanes`) or agents side by side (`AgentLanes`). They give
the same estimates to the last digit, so the choice affects only speed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numba import get_num_threads

from gossamer.arrays import AnyArray, Booleans, Floats, Integers, Precision
from gossamer.engines.horizons import passes
from gossamer.engines.simulate import agent_lanes, trial_lanes
from gossamer.engines.simulate.lane_rounds import PassTable, read_estimates, scratch_for
from gossamer.engines.trials import Advance, Trials
from gossamer.methods import Method, Table
from gossamer.networks import Network
from gossamer.numerics import random
from gossamer.numerics.vectors import GRAIN
from gossamer.observations import Observations

LANES = 128  # largest number of trials side by side
LINE = 64  # bytes of a cache line
CACHE = 3 * 2**19  # bytes that stay close to a core
LEAST_LANES = 32  # fewer trials side by side would cost more than a full cache
FEW = 16  # with fewer trials than this, agents are laid side by side
LARGE = 4096  # and from this many agents on
STEP_WORK = 2**26  # agent-updates per call of a kernel: Ctrl-C and the progress bar are served between calls
IN_FLIGHT = 2**24  # numbers in memory at a time, over all trials that run in one call
GIVEN = 2**20  # numbers drawn at once for observations that are not Gaussian: they stay in the cache


class Run:
    """The trials of one simulation: results by horizon and trial, filled by a layout."""

    def __init__(
        self,
        method: Method,
        network: Any,  # a Network, or for push gossip a DirectedNetwork
        observations: Observations,
        horizons: Integers,
        wanted: Trials,
        dtype: Precision,
    ) -> None:
        self.method, self.network, self.observations = method, network, observations
        self.horizons, self.dtype = horizons, dtype
        self.trials, self.seed, self.first_trial = wanted.count, wanted.seed, wanted.first
        self.keep = wanted.keep != "errors"
        count, shape = len(horizons), (network.agents, observations.components)
        self.passes = passes(method, network, horizons)
        self.errors = np.zeros((count, self.trials))
        self.per_agent = np.zeros((count, network.agents))
        self.estimates = np.empty((count if self.keep else 0, self.trials, *shape), dtype)
        self.iterates = wanted.iterates(method, int(horizons[-1]), shape, dtype)
        self.finished = np.zeros((count, self.trials), dtype=bool)
        self.work = sum(t.rounds for t, _ in self.passes) * self.trials * shape[0] * shape[1]

    @property
    def done(self) -> Booleans:
        """(trials,) which trials are finished at all horizons."""
        return np.asarray(self.finished.all(axis=0))

    def go(self, advance: Advance) -> None:
        links = _NetworkLinks(self.network, self.dtype)
        along = self.method.mixing == "matrix" and (self.trials < FEW or links.agents >= LARGE)
        layout = AgentLanes if along else TrialLanes
        layouts = [
            layout(self, links, table, sorted(which, key=lambda w: int(self.horizons[w])))
            for table, which in self.passes
        ]
        # Where every horizon needs its own pass, some trials go through all of them before the next ones begin:
        # an interrupted run then has finished trials.
        some = self.trials if len(layouts) == 1 else get_num_threads() * (1 if along else LANES)
        for first in range(0, self.trials, some):
            for one in layouts:
                one.go(range(first, min(first + some, self.trials)), advance)


State = TypeVar("State", trial_lanes.Blocks, agent_lanes.Tasks)
"""The arrays of the tasks that run at the same time."""


class _NetworkLinks:
    """The network in the form of the kernels, without the diagonal: rows of L sum to zero, so it is redundant."""

    def __init__(self, network: Network, dtype: Precision) -> None:
        self.network, self.dtype, self.agents = network, dtype, network.agents
        self.width = min(agent_lanes.CHUNK, _up(self.agents, GRAIN) * GRAIN)

    def for_trials(self, mixing: str) -> trial_lanes.TrialLinks:
        coded = self.for_agents
        return trial_lanes.TrialLinks(
            mixing=trial_lanes.MIXINGS.index(mixing),
            starts=coded.starts,
            neighbors=coded.neighbors,
            codes=coded.codes,
            weights=coded.weights,
            edges=self.network.edges,
        )

    @cached_property
    def for_agents(self) -> agent_lanes.ChunkLinks:
        return agent_lanes.chunk_links(self.network.links, self.width, self.dtype)


class _LaneLayout(ABC, Generic[State]):
    """The passes and horizons of one table, in the form of the kernels."""

    def __init__(self, run: Run, links: _NetworkLinks, table: Table, which: list[int]) -> None:
        self.run, self.links, self.table, self.which = run, links, table, which
        observations, kind = run.observations, run.dtype
        self.fused = observations.normal_std is not None
        horizons = run.horizons[which]
        self.records = len(run.iterates) > 0 and table.rounds == run.horizons[-1]
        self.pass_table = pass_table(
            table,
            (observations.mean, observations.normal_std, observations.drift),
            horizons,
            np.stack([observations.target(int(t)) for t in horizons], axis=1),
            run.seed,
            kind,
        )

    def draw(self, trials: range, start: int, stop: int) -> AnyArray:
        """Draw observations (rounds, N, n, trials) of rounds start..stop, for kernels that cannot draw them."""
        rounds = range(max(start, 0), min(stop + 1, self.table.rounds))
        batches = None if np.all(self.table.batches == 1) else self.table.batches
        return self.run.observations.sample(self.run.seed, rounds, trials, batches=batches)

    def calls(self, per_round: int) -> Iterator[tuple[int, int]]:
        """Cut the rounds so that each kernel call takes a fraction of a second; the first begins with round -1."""
        length = max(4, STEP_WORK // max(1, per_round))
        if not self.fused:
            length = max(1, min(length, GIVEN // max(1, per_round)))
        if self.records:
            length = 1
        for start in range(0, self.table.rounds, length):
            yield start if start else -1, min(start + length, self.table.rounds)

    def wave(self, state: State, per_round: int, updates: int, advance: Advance) -> None:
        """Run all rounds of some tasks; a round takes `per_round` observations and counts as `updates` updates."""
        for start, stop in self.calls(per_round):
            if not self.fused:
                given = self.given(state, start, stop).astype(self.run.dtype, copy=False)
                state = state._replace(given=given, origin=max(start, 0))
            self.play(state, start, stop)
            if self.records:
                answers = np.empty_like(state.work[:, 0])
                read_estimates(
                    answers, state.work, self.pass_table.rows, stop - 1, scratch_for(state.work, 1)
                )
                rows = (*np.moveaxis(state.work, 1, 0), answers)
                for kept, values in zip(self.run.iterates[:, :, stop - 1], rows, strict=True):
                    self.record(kept, values, state)
            advance((stop - max(start, 0)) * updates)
        self.collect(state)

    @abstractmethod
    def given(self, state: State, start: int, stop: int) -> AnyArray:
        """Return the observations of rounds start..stop of all tasks."""

    @abstractmethod
    def play(self, state: State, start: int, stop: int) -> None:
        """Run rounds start..stop - 1 of all tasks."""

    @abstractmethod
    def record(self, kept: AnyArray, values: AnyArray, state: State) -> None:
        """Put a register of all tasks, (rows, lanes), into `kept`, (trials, N, n)."""

    @abstractmethod
    def collect(self, state: State) -> None:
        """Add the errors and estimates of all tasks to the run."""


class TrialLanes(_LaneLayout[trial_lanes.Blocks]):
    """Blocks of trials side by side, one thread each."""

    def go(self, trials: range, advance: Advance) -> None:
        run, threads = self.run, get_num_threads()
        per_lane = run.network.agents * (self.table.registers + 6) * np.dtype(run.dtype).itemsize
        most = int(np.clip(CACHE // per_lane, LEAST_LANES, LANES))
        components = run.observations.components
        # As many blocks as keep every thread busy, all of about the same width; the results do not depend on it.
        apart = _up(threads, components)
        blocks = _up(_up(len(trials), most), apart) * apart
        lanes = _up(len(trials), GRAIN * blocks) * GRAIN if len(trials) >= GRAIN else len(trials)
        tasks = [(c, s) for s in trials[::lanes] for c in range(components)]
        # A wave of tasks is in memory at a time; where the observations are drawn beforehand, all components of a
        # trial are drawn at once.
        width = threads if self.fused else apart * components
        for begin in range(0, len(tasks), width):
            state = self._begin(tasks[begin : begin + width], lanes, trials.stop)
            agents = run.network.agents
            self.wave(state, agents * lanes * state.lanes.size, agents * int(state.lanes.sum()), advance)

    def _begin(self, tasks: list[tuple[int, int]], lanes: int, stop_trial: int) -> trial_lanes.Blocks:
        run, kind = self.run, self.run.dtype
        agents, count, horizons = run.network.agents, len(tasks), len(self.which)
        return trial_lanes.Blocks(
            components=np.array([c for c, _ in tasks]),
            first_trials=np.array([run.first_trial + s for _, s in tasks]),
            lanes=np.array([min(lanes, stop_trial - s) for _, s in tasks]),
            work=aligned((count * agents, self.table.registers, lanes), kind),
            messages=aligned((2, count * agents, lanes), kind),
            given=np.empty((0, 0, lanes), kind),
            origin=0,
            noise=aligned((count * agents if self.fused else 0, 4, lanes), kind),
            by_trial=np.zeros((count, horizons, lanes)),
            by_block=np.zeros((count, lanes)),
            by_agent=np.zeros((count, _up(lanes, GRAIN), horizons, agents)),
            estimates=np.empty((count, horizons if run.keep else 0, agents, lanes), kind),
        )

    def _tasks(self, blocks: trial_lanes.Blocks) -> Iterator[tuple[int, slice]]:
        """Yield the component and the trials of each block."""
        starts = blocks.first_trials - self.run.first_trial
        for c, s, size in zip(
            blocks.components.tolist(), starts.tolist(), blocks.lanes.tolist(), strict=True
        ):
            yield c, slice(s, s + size)

    def given(self, state: trial_lanes.Blocks, start: int, stop: int) -> AnyArray:
        firsts, lanes = state.first_trials.tolist(), state.work.shape[2]
        drawn = {f: self.draw(range(f, f + lanes), start, stop) for f in set(firsts)}
        components = state.components.tolist()
        return np.concatenate(
            [drawn[f][:, :, c].swapaxes(0, 1) for f, c in zip(firsts, components, strict=True)]
        )

    def play(self, state: trial_lanes.Blocks, start: int, stop: int) -> None:
        links = self.links.for_trials(self.run.method.mixing)
        trial_lanes.play_blocks(state, start, stop, self.pass_table, links)

    def record(self, kept: AnyArray, values: AnyArray, state: trial_lanes.Blocks) -> None:
        blocks = values.reshape(state.lanes.size, -1, values.shape[-1])
        for (c, trials), block in zip(self._tasks(state), blocks, strict=True):
            kept[trials, :, c] = block[:, : trials.stop - trials.start].T

    def collect(self, state: trial_lanes.Blocks) -> None:
        run = self.run
        for k, (c, trials) in enumerate(self._tasks(state)):
            size = trials.stop - trials.start
            run.errors[self.which, trials] += state.by_trial[k, :, :size]
            for squares in state.by_agent[
                k
            ]:  # one by one, so that results do not depend on the width of a block
                run.per_agent[self.which] += squares
            if run.keep:
                for position, h in enumerate(self.which):
                    run.estimates[h, trials, :, c] = state.estimates[k, position, :, :size].T
            if c == run.observations.components - 1:
                run.finished[self.which, trials] = True


class AgentLanes(_LaneLayout[agent_lanes.Tasks]):
    """Agents side by side: a thread for each trial that fits in its cache, all threads on a larger one."""

    def go(self, trials: range, advance: Advance) -> None:
        run, threads = self.run, get_num_threads()
        agents = run.network.agents
        tasks = [(trial, c) for trial in trials for c in range(run.observations.components)]
        fits = agents * (self.table.registers + 7) * np.dtype(run.dtype).itemsize <= CACHE
        self.trial_per_thread = fits and (len(tasks) >= threads or agents < threads * self.links.width)
        numbers = agents * (self.table.registers + 7 + len(self.which) * (1 + run.keep))
        most = min(STEP_WORK // (agents * self.table.rounds), IN_FLIGHT // numbers)
        width = max(threads, most) if self.trial_per_thread else 1
        for begin in range(0, len(tasks), width):
            state = self._begin(tasks[begin : begin + width])
            self.wave(state, agents * state.trials.size, agents * state.trials.size, advance)

    def _begin(self, tasks: list[tuple[int, int]]) -> agent_lanes.Tasks:
        run, kind, width = self.run, self.run.dtype, self.links.width
        agents, count, horizons = run.network.agents, len(tasks), len(self.which)
        rows = count * _up(agents, width)
        return agent_lanes.Tasks(
            components=np.array([c for _, c in tasks]),
            trials=np.array([run.first_trial + trial for trial, _ in tasks]),
            work=aligned((rows, self.table.registers, width), kind),
            messages=aligned((2, rows, width), kind),
            given=np.empty((0, 0, agents), kind),
            origin=0,
            noise=aligned((rows if self.fused else 0, 4, width), kind),
            by_trial=np.zeros((count, horizons)),
            by_chunk=np.zeros(rows // count),
            by_agent=np.zeros((count, horizons, agents)),
            estimates=np.empty((count, horizons if run.keep else 0, agents), kind),
            first_agent=0,
        )

    def _tasks(self, state: agent_lanes.Tasks) -> Iterator[tuple[int, int]]:
        """Yield the trial and the component of each task."""
        trials = state.trials - self.run.first_trial
        return zip(trials.tolist(), state.components.tolist(), strict=True)

    def given(self, state: agent_lanes.Tasks, start: int, stop: int) -> AnyArray:
        first = int(state.trials[0])
        drawn = self.draw(range(first, int(state.trials[-1]) + 1), start, stop)
        pairs = zip((state.trials - first).tolist(), state.components.tolist(), strict=True)
        return np.stack([drawn[:, :, c, trial] for trial, c in pairs])

    def play(self, state: agent_lanes.Tasks, start: int, stop: int) -> None:
        play = agent_lanes.play_trials if self.trial_per_thread else agent_lanes.play_agents
        play(state, start, stop, self.pass_table, self.links.for_agents, get_num_threads())

    def record(self, kept: AnyArray, values: AnyArray, state: agent_lanes.Tasks) -> None:
        for (trial, c), row in zip(self._tasks(state), values.reshape(state.trials.size, -1), strict=True):
            kept[trial, :, c] = row[: self.run.network.agents]

    def collect(self, state: agent_lanes.Tasks) -> None:
        run = self.run
        for k, (trial, c) in enumerate(self._tasks(state)):
            run.errors[self.which, trial] += state.by_trial[k]
            run.per_agent[self.which] += state.by_agent[k]
            if run.keep:
                run.estimates[self.which, trial, :, c] = state.estimates[k]
            if c == run.observations.components - 1:
                run.finished[self.which, trial] = True


def pass_table(
    table: Table,
    streams: tuple[Floats, Floats | None, Floats],
    horizons: Integers,
    target: Floats,
    seed: int,
    kind: Precision,
) -> PassTable:
    """Return a table in the form of the kernels, with the means, standard deviations (None if unknown) and drifts."""
    mean, std, drift = streams
    std = np.zeros_like(mean) if std is None else std
    rows, active = _rows(table)
    return PassTable(
        rows=rows.astype(kind),
        active=active,
        noise_scale=table.noise_scale.astype(kind),
        mean=np.ascontiguousarray(mean.T, dtype=kind),
        std=np.ascontiguousarray((std[:1] if np.all(std == std[:1]) else std).T, dtype=kind),
        drift=np.ascontiguousarray(drift[: None if drift.any() else 0].T, dtype=kind),
        key=random.key(seed),
        horizons=horizons,
        target=target,
    )


def _up(a: int, b: int) -> int:
    """Return a / b, rounded up."""
    return -(-a // b)


def aligned(shape: tuple[int, ...], dtype: Precision) -> AnyArray:
    """Return zeros aligned to a cache line, because a vector that straddles two lines costs twice as much."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    aligned: AnyArray = raw[start : start + size].view(dtype).reshape(shape)
    return aligned


def _rows(table: Table) -> tuple[AnyArray, AnyArray]:
    """Return the coefficients round by round, and how many registers each round needs (see `lane_rounds.PassTable`)."""
    rounds, size = table.rounds, table.registers
    rows = np.zeros((rounds + 1, size + 2, size + 2))
    rows[:-1, 0, 0], rows[:-1, 0, 2:] = table.message_observation, table.message_state
    rows[1:, 1:-1, 0], rows[1:, 1:-1, 1], rows[1:, 1:-1, 2:] = (
        table.step_observation,
        table.step_mixed,
        table.step_state,
    )
    rows[1:, -1, 2:] = table.estimate_state
    # A register is inactive in a round that does not change it and in which nothing else depends on it.
    state = np.eye(size, dtype=bool)
    busy = (rows[:, 1:-1, :2] != 0).any(axis=2) | (rows[:, 1:-1, 2:] != state).any(axis=2)
    busy |= ((rows[:, :-1, 2:] != 0) & ~np.vstack([np.zeros(size, bool), state])).any(axis=1)
    busy[0] = False
    active = np.where(busy.any(axis=1), size - np.argmax(busy[:, ::-1], axis=1), 0)
    return rows, active
