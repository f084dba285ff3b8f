"""Simulation: many trials of a method, compiled, reproducible, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from gossamer import _random
from gossamer.engines import _kernels
from gossamer.engines.exact import check_horizons, passes
from gossamer.errors import InvalidInput
from gossamer.faults import Faults
from gossamer.methods import Method, resolve
from gossamer.methods.base import check_whole
from gossamer.methods.table import Table
from gossamer.network import Network
from gossamer.observations import Drifting, Gaussian, Observations, check_match

Array = NDArray[Any]

LANES = 128
CACHE = 3 * 2**19  # bytes a block of trials should fit in, so that its registers stay close to the core
LEAST_LANES = 32  # fewer trials side by side cost more than a full cache does
LARGE = 4096  # from this many agents on, trials run one after the other with threads over agents
STEP_WORK = 2**26  # agent-updates per call of a kernel: Ctrl-C and the progress bar are served between calls
GIVEN = 2**24  # numbers drawn at once for observations that are not Gaussian


@dataclass(frozen=True)
class Simulation:
    """What the trials gave. With several horizons, every field has the horizons as its first axis.

    mse        mean over trials of sum_i ||estimate_i - mubar||^2
    stderr     its standard error
    errors     (trials,) the sum for each trial
    per_agent  (N,) mean over trials of each agent's squared error
    estimates  (trials, N, n)
    partial    whether the run was interrupted: then only the finished trials are here
    """

    method: Method
    rounds: Any
    trials: int
    seed: int
    mse: Any
    stderr: Any
    errors: NDArray[np.float64]
    per_agent: NDArray[np.float64]
    _estimates: Array | None
    partial: bool = False

    @property
    def estimates(self) -> Array:
        if self._estimates is None:
            raise InvalidInput("this simulation kept no estimates; call simulate(..., keep_estimates=True)")
        return self._estimates


def simulate(
    method: Method | str,
    network: Network,
    observations: Observations,
    rounds: int | Sequence[int],
    trials: int = 100,
    seed: int = 0,
    *,
    faults: Any = None,
    first_trial: int = 0,
    keep_estimates: bool = True,
    dtype: type[np.floating[Any]] = np.float64,
    progress: bool | None = None,
) -> Simulation:
    """Run `trials` independent trials of `method` and return their errors and estimates.

    Trial r uses the random streams (seed, r, agent), so a run can be split with `first_trial` and does not
    depend on threads. Memory: about 8 (R + 9) bytes per agent and trial in flight (R registers; at most 128 trials
    times the number of threads, fewer on large networks), plus the estimates. `progress` shows a bar on long
    runs when standard error is a terminal (None), always (True) or never (False). Ctrl-C returns the trials
    finished so far, marked partial.

    With `faults` the method runs in its edge-ledger form (see `faulty.py`), for one number of rounds.
    """
    method = resolve(method)
    if faults is not None:
        from gossamer.engines.faulty import simulate_faulty

        if first_trial or dtype is not np.float64:
            raise InvalidInput("with faults, trials start at 0 and are computed in float64")
        if not isinstance(faults, Faults):
            faults = Faults(faults)
        return simulate_faulty(method, network, observations, rounds, trials, seed, faults)  # type: ignore[arg-type]
    check_match(network, observations)
    horizons = check_horizons(rounds)
    check_whole("trials", trials, 1)
    check_whole("first_trial", first_trial, 0)
    if dtype not in (np.float64, np.float32):
        raise InvalidInput(f"dtype must be numpy.float64 or numpy.float32, but {dtype!r} came")
    _random.key(seed)
    one = np.ndim(rounds) == 0
    distinct, place = np.unique(horizons, return_inverse=True)
    run = _Run(method, network, observations, distinct, int(trials), seed, first_trial, keep_estimates, dtype)
    partial = False
    with _progress(progress, run.work) as advance:
        try:
            run.go(advance)
        except KeyboardInterrupt:
            if not run.finished.any():
                raise
            partial = True
    return run.result(int(horizons[0]) if one else horizons, 0 if one else place, partial)


class _Run:
    """The trials of one simulation: results by horizon and trial, filled block by block."""

    def __init__(
        self,
        method: Method,
        network: Network,
        observations: Observations,
        horizons: NDArray[np.int64],
        trials: int,
        seed: int,
        first_trial: int,
        keep: bool,
        dtype: type[np.floating[Any]],
    ) -> None:
        self.method, self.network, self.observations = method, network, observations
        self.horizons, self.trials, self.seed, self.first_trial = horizons, trials, seed, first_trial
        self.dtype = dtype
        self.key = _random.key(seed)
        count, agents, components = len(horizons), network.agents, observations.components
        self.passes = passes(method, network, horizons)
        self.errors = np.zeros((count, trials))
        self.per_agent = np.zeros((count, agents))
        self.estimates = np.empty((count, trials, agents, components), dtype) if keep else None
        self.finished = np.zeros((count, trials), dtype=bool)
        self.work = sum(t.rounds for t, _ in self.passes) * agents * components * trials

    def go(self, advance: Callable[[int], None]) -> None:
        large = self.network.agents >= LARGE
        for table, which in self.passes:
            setup = _Setup(self, table, sorted(which, key=lambda w: int(self.horizons[w])))
            if large and self.method.mixing == "matrix":
                setup.one_by_one(advance)
            else:
                setup.side_by_side(advance)

    def result(self, rounds: Any, place: Any, partial: bool) -> Simulation:
        """The simulation's result, its horizons in the order `place` in which they were asked for."""
        done = self.finished.all(axis=0)
        errors = self.errors[:, done]
        trials = int(done.sum())
        mse = errors.mean(axis=1)
        stderr = errors.std(axis=1, ddof=1) / np.sqrt(trials) if trials > 1 else np.full(len(mse), np.nan)
        # After an interrupt, squares of unfinished trials may be in the sums per agent: count finished ones anew.
        per_agent = self.per_agent / trials
        estimates = None
        if self.estimates is not None:
            estimates = self.estimates[:, done] if partial else self.estimates
            if partial:
                goal = np.stack([self.observations.target(int(t)) for t in self.horizons])
                per_agent = ((estimates - goal[:, None, None]) ** 2).sum(axis=3).mean(axis=1)
        elif partial:
            per_agent = np.full_like(per_agent, np.nan)
        return Simulation(
            method=self.method,
            rounds=rounds,
            trials=trials,
            seed=self.seed,
            mse=mse[place],
            stderr=stderr[place],
            errors=errors[place],
            per_agent=per_agent[place],
            _estimates=None if estimates is None else estimates[place],
            partial=partial,
        )


class _Setup:
    """One table's arrays in the form the kernels want."""

    def __init__(self, run: _Run, table: Table, which: list[int]) -> None:
        self.run, self.table, self.which = run, table, which
        kind = run.dtype
        size = table.registers
        step = np.concatenate(
            [table.step_state, table.step_input[:, :, None], table.step_mixed[:, :, None]], axis=2
        )
        told = np.concatenate(
            [table.message_state, table.message_input[:, None], np.zeros((table.rounds, 1))], axis=1
        )
        # A round ends with the next round's message, so the message's rows move up by one.
        self.first_message = told[:1].astype(kind)
        following = np.concatenate([told[1:], np.zeros_like(told[:1])])
        self.coefficients = np.concatenate([step, following[:, None]], axis=1).astype(kind)
        self.estimate_state = table.estimate_state.astype(kind)
        self.size = size
        gossip = run.network.gossip
        self.indptr = gossip.indptr.astype(np.uint32)
        self.indices = gossip.indices.astype(np.uint32)
        self.gossip = gossip.data.astype(kind)
        self.edges = run.network.edges
        observations = run.observations
        base = observations.base if isinstance(observations, Drifting) else observations
        self.fused = isinstance(base, Gaussian)
        std = base.std if isinstance(base, Gaussian) else np.zeros_like(observations.mean)
        self.mean = np.ascontiguousarray(observations.mean.T, dtype=kind)
        self.std = np.ascontiguousarray(std.T, dtype=kind)
        self.drift = np.ascontiguousarray(observations.drift.T, dtype=kind)
        batches = table.batches
        self.noise_scale = np.where(batches > 0, 1 / np.sqrt(np.maximum(batches, 1)), 0.0).astype(kind)
        self.horizons = run.horizons[which]
        self.target = np.stack([observations.target(int(t)) for t in self.horizons], axis=1)
        self.mixing = {"matrix": 0, "pairwise": 1, "broadcast": 2}[run.method.mixing]

    def draw(self, trials: range, start: int, stop: int) -> Array:
        """Observations (rounds, N, n, trials) of rounds start..stop, or nothing where the kernel draws them itself.

        The kernel works one round ahead, so a call for rounds start..stop-1 also needs round `stop`.
        """
        if self.fused:
            return np.empty((0, self.run.network.agents, self.run.observations.components, len(trials)))
        rounds = range(start, min(stop + 1, self.table.rounds))
        return self.run.observations.sample(self.run.seed, rounds, trials, batches=self._batches())

    def _batches(self) -> Array | None:
        return None if np.all(self.table.batches == 1) else self.table.batches

    def chunks(self, per_round: int) -> Iterator[tuple[int, int]]:
        """Cut the rounds so that each kernel call takes a fraction of a second."""
        length = max(4, STEP_WORK // max(1, per_round))
        if not self.fused:
            length = max(1, min(length, GIVEN // max(1, per_round)))
        for start in range(0, self.table.rounds, length):
            yield start, min(start + length, self.table.rounds)

    def side_by_side(self, advance: Callable[[int], None]) -> None:
        """Blocks of trials, one thread each."""
        run = self.run
        agents, components, size = run.network.agents, run.observations.components, self.size
        threads = get_num_threads()
        fits = CACHE // (agents * (size + 8) * np.dtype(run.dtype).itemsize)
        most = int(np.clip(fits, LEAST_LANES, LANES))
        # As many blocks as keep every thread busy, all of about the same width; the results do not depend on it.
        blocks = -(-run.trials // most)
        blocks = -(-blocks // threads) * threads
        lanes = max(8, -(-run.trials // (8 * blocks)) * 8)
        starts = range(0, run.trials, lanes)
        tasks = [(c, s) for s in starts for c in range(components)]
        # A wave of tasks is in memory at a time; its size depends on the machine, the results do not.
        width = -(-threads // components) * components
        for begin in range(0, len(tasks), width):
            self._wave(tasks[begin : begin + width], lanes, advance)

    def _wave(self, tasks: list[tuple[int, int]], lanes: int, advance: Callable[[int], None]) -> None:
        run, kind = self.run, self.run.dtype
        agents, size, count = run.network.agents, self.size, len(tasks)
        width = [min(lanes, run.trials - s) for _, s in tasks]
        components = np.array([c for c, _ in tasks])
        first = np.array([run.first_trial + s for _, s in tasks])
        work = np.zeros((count, agents, size + 1, lanes), kind)
        messages = np.zeros((count, 2, agents, lanes), kind)
        noise = np.empty((count, agents if self.fused else 0, 4, lanes), kind)
        mixed = np.empty((count, agents if self.mixing else 1, lanes), kind)
        by_trial = np.zeros((count, len(self.which), lanes))
        by_agent = np.zeros((count, len(self.which), agents))
        keep = run.estimates is not None
        estimates = np.empty((count, len(self.which) if keep else 0, agents, lanes), kind)
        for start, stop in self.chunks(agents * lanes * count):
            drawn = {f: self.draw(range(f, f + lanes), start, stop) for f in sorted(set(first.tolist()))}
            given = np.stack(
                [
                    drawn[f][:, :, c].swapaxes(0, 1)
                    for c, f in zip(components.tolist(), first.tolist(), strict=True)
                ]
            ).astype(kind)
            _kernels.trial_blocks(
                work, messages, noise, given, mixed, start, stop, self.table.rounds, self.coefficients,
                self.first_message, self.estimate_state, self.noise_scale, self.mean, self.std, self.drift,
                run.key, components, first, self.indptr, self.indices, self.gossip, self.mixing, self.edges,
                self.horizons, self.target, by_trial, by_agent, np.array(width), estimates,
            )  # fmt: skip
            advance((stop - start) * agents * sum(width))
        for k, (c, s) in enumerate(tasks):
            trials = slice(s, s + width[k])
            run.errors[self.which, trials] += by_trial[k, :, : width[k]]
            run.per_agent[self.which] += by_agent[k]
            if run.estimates is not None:
                for position, h in enumerate(self.which):
                    run.estimates[h, trials, :, c] = estimates[k, position, :, : width[k]].T
            if c == run.observations.components - 1:
                run.finished[np.ix_(self.which, range(s, s + width[k]))] = True

    def _links(self) -> tuple[Array, ...]:
        """The links in as few bytes as they need, since a large network is read from memory in every round:
        starts, neighbours without the diagonal (rows sum to zero, so it says nothing new), and for each the number
        of its weight in the list of distinct weights. (Lists padded to equal length, for vector gathers, were
        slower.)"""
        off = self.run.network.gossip.tocoo()
        beside = off.row != off.col
        order = np.argsort(off.row[beside], kind="stable")
        starts = np.concatenate(
            [[0], np.cumsum(np.bincount(off.row[beside], minlength=self.run.network.agents))]
        )
        distinct, codes = np.unique(-off.data[beside][order], return_inverse=True)
        small = np.uint8 if len(distinct) <= 256 else np.uint32
        neighbours = off.col[beside][order].astype(np.uint32)
        return starts.astype(np.uint32), neighbours, codes.astype(small), distinct.astype(self.run.dtype)

    def one_by_one(self, advance: Callable[[int], None]) -> None:
        """One trial of a large network at a time, threads over agents."""
        run, kind = self.run, self.run.dtype
        agents, components, size = run.network.agents, run.observations.components, self.size
        chunks = -(-agents // _kernels.CHUNK)
        keep = run.estimates is not None
        graph: Any = self._links()
        drift = self.drift if self.drift.any() else self.drift[:, :0]
        kernel: Any = _kernels.one_large_trial
        for trial in range(run.trials):
            for c in range(components):
                work = np.zeros((chunks, size + 1, _kernels.CHUNK), kind)
                messages = np.zeros((2, chunks, _kernels.CHUNK), kind)
                noise = np.empty((chunks, 4, _kernels.CHUNK), kind)
                by_trial = np.zeros(len(self.which))
                by_agent = np.zeros((len(self.which), agents))
                estimates = np.empty((len(self.which) if keep else 0, agents), kind)
                number = run.first_trial + trial
                for start, stop in self.chunks(agents):
                    given = self.draw(range(number, number + 1), start, stop)[:, :, c, 0].astype(kind)
                    kernel(
                        work, messages, noise, given, start, stop, self.table.rounds, self.coefficients,
                        self.first_message, self.estimate_state, self.noise_scale, self.mean[c], self.std[c],
                        drift[c], run.key, c, number, *graph, self.horizons,
                        self.target[c], by_trial, by_agent, estimates,
                    )  # fmt: skip
                    advance((stop - start) * agents)
                run.errors[self.which, trial] += by_trial
                run.per_agent[self.which] += by_agent
                if run.estimates is not None:
                    run.estimates[self.which, trial, :, c] = estimates
            run.finished[self.which, trial] = True


@contextmanager
def _progress(wanted: bool | None, work: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many agent-updates are done; it draws a bar if one is wanted."""
    if wanted is None:
        import sys

        wanted = sys.stderr.isatty() and work > 5 * 10**8
    if not wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=work)
        yield lambda done: bar.update(task, advance=done)
