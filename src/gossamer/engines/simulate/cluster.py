"""Simulation over the ranks of an MPI communicator, each with a part of the agents.

The kernels, the method tables and the random numbers are those of one process (`agent_lanes.py`), so the results are,
too, to the last bit: noise depends on the number of an agent, an agent adds its neighbors in the order of their
numbers, and errors are added block by block (`numerics/blocks.py`).

In every round a rank computes the chunks of agents without neighbors on other ranks while messages are in transit, then
the rest. If the agents with neighbors on other ranks are at the two ends of its part, as on a lattice, it runs waves of
several rounds (`agent_lanes.py`): first the parts of each round that need no other rank, then, round by round with the
others, the rest at the ends.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import get_num_threads, set_num_threads

from gossamer.arrays import AnyArray, Floats, Integers, Precision
from gossamer.engines.horizons import Horizons, horizons_of, passes
from gossamer.engines.results import OneOrMore, standard_error
from gossamer.engines.simulate import agent_lanes
from gossamer.engines.simulate.checkpoints import Checkpoints, Position
from gossamer.engines.simulate.collective import on_all_ranks, or_abort
from gossamer.engines.simulate.halo import Exchange, Halo, load
from gossamer.engines.simulate.lane_rounds import PassTable
from gossamer.engines.simulate.layouts import aligned, pass_table
from gossamer.engines.simulate.result import Simulation
from gossamer.engines.trials import LONG, Trials
from gossamer.errors import InvalidInput, Unsupported
from gossamer.faults import FaultsLike
from gossamer.methods import Method, Table, resolve
from gossamer.networks import ChangingNetwork, DirectedNetwork, NetworkLike, changing_of
from gossamer.networks.links import Links
from gossamer.networks.parts import NetworkParts, parts_of
from gossamer.numerics.blocks import BLOCK, block_sums, in_order
from gossamer.observations import Observations
from gossamer.progress import progress_bar

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

StreamsOf = Callable[[range], Observations]
"""The streams of a range of agents."""


class Problem(NamedTuple):
    """The simulation, as known to every rank."""

    method: Method
    network: NetworkParts
    observations: Observations | StreamsOf
    rounds: OneOrMore  #: the requested horizon or horizons
    horizons: Integers  #: ascending and distinct
    order: OneOrMore  #: the positions of the requested ones
    wanted: Trials
    dtype: Precision
    saving: Checkpoints

    @classmethod
    def check(
        cls,
        method: Method | str,
        network: NetworkLike | ChangingNetwork | DirectedNetwork | NetworkParts,
        observations: Observations | StreamsOf,
        rounds: int | Horizons,
        faults: FaultsLike,
        wanted: Trials,
        dtype: Precision,
        saving: Checkpoints,
    ) -> Problem:
        method = resolve(method)
        if dtype not in (np.float64, np.float32):
            raise InvalidInput(parameter="dtype", required="numpy.float64 or numpy.float32", got=repr(dtype))
        if faults is not None or method.mixing != "matrix" or changing_of(network) is not None:
            what = (
                "faults"
                if faults is not None
                else method.label
                if method.mixing != "matrix"
                else repr(network)
            )
            raise Unsupported(
                f"a cluster simulates methods that mix with a gossip matrix, on fixed networks without message loss; "
                f"leave cluster out to simulate {what}"
            )
        if wanted.keep != "errors":
            raise Unsupported(f"on a cluster keep must be 'errors', got {wanted.keep!r}")
        horizons, one = horizons_of(rounds)
        distinct, order = np.unique(horizons, return_inverse=True)
        asked = (int(horizons[0]), 0) if one else (horizons, order)
        return cls(
            method, parts_of(network), observations, asked[0], distinct, asked[1], wanted, dtype, saving
        )


class Share(NamedTuple):
    """A rank's part of the streams."""

    mean: Floats  #: (n agents, components)
    std: Floats | None  #: None if only `sample` can draw
    drift: Floats
    variance: Floats
    streams: Observations
    offset: int  #: the number that the first agent here has in `streams`


def simulate_cluster(
    comm: Intracomm, prepare: Callable[[], Problem], progress: bool | None
) -> Simulation[OneOrMore, OneOrMore]:
    """Simulate what `prepare` describes; the result is the same on every rank."""
    threads = get_num_threads()
    # A rank has its own core, so it uses one thread unless the environment sets another number.
    set_num_threads(int(os.environ.get("NUMBA_NUM_THREADS", "1")))
    try:
        return _simulate(comm, on_all_ranks(comm, prepare), progress)
    finally:
        set_num_threads(threads)


def _simulate(comm: Intracomm, problem: Problem, progress: bool | None) -> Simulation[OneOrMore, OneOrMore]:
    bounds = on_all_ranks(comm, lambda: problem.network.bounds(comm.size))
    first, last = bounds[comm.rank], bounds[comm.rank + 1]
    share = on_all_ranks(comm, lambda: _share(problem, range(first, last)))
    rows = [on_all_ranks(comm, lambda: problem.network.read(first, last, 0))]
    halo, links = or_abort(comm, lambda: load(comm, problem.network, bounds, rows.pop()))
    run = _Run(comm, problem, share, halo, links)
    run.plan()
    identity = {} if problem.saving.folder is None else run.identity()
    saved = problem.saving.open(comm, identity, first, last)
    return run.result(or_abort(comm, lambda: run.go(progress, saved)))


def _share(problem: Problem, agents: range) -> Share:
    given = problem.observations
    if isinstance(given, Observations):
        if given.agents != problem.network.agents:
            raise InvalidInput(
                f"one stream per agent is needed: the network has {problem.network.agents} agents, "
                f"but the observations have {given.agents}"
            )
        part, offset, some = slice(agents.start, agents.stop), agents.start, given
    else:
        asked = agents or range(1)  # no streams exist without an agent
        some, part, offset = given(asked), slice(len(agents)), 0
        if not isinstance(some, Observations) or some.agents != len(asked):
            raise InvalidInput(
                f"must give one stream for each agent of {asked}, got {some!r}", parameter="observations"
            )
        if some.normal_std is None:
            raise Unsupported(
                f"observations as a function of the agents must be Gaussian with independent components, got {some!r}; "
                "give the streams of all agents instead"
            )
    std = some.normal_std
    return Share(
        some.mean[part],
        None if std is None else std[part],
        some.drift[part],
        some.variance[part],
        some,
        offset,
    )


class _Run:
    """One rank's part of a simulation."""

    def __init__(self, comm: Intracomm, problem: Problem, share: Share, halo: Halo, links: Links) -> None:
        self.comm, self.problem, self.share, self.halo = comm, problem, share, halo
        self.distinct = sorted(
            {w for some in comm.allgather((links.weights * links.scale).tolist()) for w in some}
        )
        self.bound = max(comm.allgather(links.eigenvalue_bound))
        self.link_count = comm.allreduce(len(links.neighbors))
        self.links = agent_lanes.chunk_links(links, BLOCK, problem.dtype)
        chunks = np.arange(halo.room // BLOCK)
        self.rim = halo.rim
        self.inner = np.setdiff1d(chunks, self.rim)
        self.ends = _ends(self.rim, len(chunks), self.links.reach)
        counts = comm.allgather(len(chunks))
        self.counts = np.array(counts)

    @property
    def agents(self) -> int:
        return self.problem.network.agents

    def plan(self) -> None:
        """Read the method's tables, on rank 0: it may have to know the network's spectrum."""
        problem, comm = self.problem, self.comm

        def tabulate() -> list[tuple[Table, list[int]]] | None:
            if comm.rank:
                return None
            facts = problem.network.facts(self.distinct, self.bound)
            return passes(problem.method, facts, problem.horizons)

        groups: list[tuple[Table, list[int]]] = comm.bcast(on_all_ranks(comm, tabulate))
        self.passes = [
            (table, sorted(which, key=lambda w: int(problem.horizons[w]))) for table, which in groups
        ]
        still = not comm.allreduce(int(self.share.drift.any() or self.share.streams.moving))
        ends = problem.horizons[:1] if still else problem.horizons
        targets = np.stack([self._target(int(t)) for t in ends])
        self.targets = np.broadcast_to(targets, (len(problem.horizons), self.components))
        sums = block_sums(self.share.variance.reshape(-1), BLOCK * self.components)
        self.limit = float(in_order(self._all_sums(sums))) / (self.agents * problem.horizons)

    @property
    def components(self) -> int:
        return int(self.share.mean.shape[1])

    def _all_sums(self, sums: Floats) -> Floats:
        """Return the block sums of all ranks, in their order."""
        return np.concatenate(self.comm.allgather(sums))

    def _target(self, rounds: int) -> Floats:
        share = self.share
        if share.streams.moving:  # its means are only known as a whole
            return share.streams.target(rounds)
        means = np.asarray(share.mean + np.asarray(rounds - 1) * share.drift)
        return np.asarray(in_order(self._all_sums(block_sums(means))) / self.agents)

    def identity(self) -> dict[str, object]:
        """Return the values that a checkpoint must match, as JSON; called by all ranks."""
        problem, share = self.problem, self.share
        streams = 0  # a digest of every block of agents, independent of their distribution over ranks
        for first in range(0, len(share.mean), BLOCK):
            some = (part[first : first + BLOCK] for part in (share.mean, share.variance, share.drift))
            content = b"".join(np.ascontiguousarray(part).tobytes() for part in some)
            streams += zlib.crc32(content) * (self.halo.first + first + 1)
        return {
            "network": problem.network.name,
            "agents": self.agents,
            "links": self.link_count,
            "weights": self.distinct[:100],
            "method": problem.method.label,
            "tables": [float(sum(np.abs(part).sum() for part in table)) for table, _ in self.passes],
            "observations": type(share.streams).__name__,
            "digest of the streams": sum(self.comm.allgather(streams)),
            "targets": self.targets.tolist(),
            "limit": self.limit.tolist(),
            "horizons": problem.horizons.tolist(),
            "trials": [problem.wanted.first, problem.wanted.count],
            "seed": problem.wanted.seed,
            "dtype": np.dtype(problem.dtype).name,
        }

    def go(self, progress: bool | None, saved: Position | None) -> Floats:
        """Run all trials; return (H, trials) their errors."""
        problem, comm, checkpoints = self.problem, self.comm, self.problem.saving
        errors = np.zeros((len(problem.horizons), problem.wanted.count))
        tasks = [
            (trial, number, c)
            for trial in range(problem.wanted.count)
            for number in range(len(self.passes))
            for c in range(self.components)
        ]
        work = sum(self.passes[number][0].rounds for _, number, _ in tasks) * self.agents
        shown = progress if comm.rank == 0 else False
        if saved is not None:
            errors[:] = saved.errors
        begin = saved.task if saved is not None else 0
        with progress_bar(shown, "simulating", work, worth_it=work > LONG, lines=True) as advance:
            for _, number, _ in tasks[:begin]:
                advance(self.passes[number][0].rounds * self.agents)
            for k in range(begin, len(tasks)):
                trial, number, c = tasks[k]
                one = _PartPass(self, *self.passes[number], problem.wanted.first + trial, c)
                start = one.restore(checkpoints, saved) if saved is not None and k == begin else -1
                advance(max(start, 0) * self.agents)
                for t, end, h, total in one.play(start):
                    if h >= 0:
                        errors[h, trial] += total
                    advance(self.agents * (end - max(t, 0)))
                    if checkpoints.due(end, one.table.rounds):
                        checkpoints.save(Position(k, end, errors), one.registers, one.messages(end))
                one.close()
        checkpoints.close()
        return np.asarray(comm.bcast(errors))

    def result(self, errors: Floats) -> Simulation[OneOrMore, OneOrMore]:
        problem, order = self.problem, self.problem.order
        return Simulation(
            method=problem.method,
            network=problem.network,
            observations=self.share.streams,
            agents=self.agents,
            rounds=problem.rounds,
            trials=problem.wanted.count,
            seed=problem.wanted.seed,
            total_error=errors.mean(axis=1)[order],
            stderr=standard_error(errors)[order],
            centralized_limit=self.limit[order],
            errors=errors[order],
            per_agent=np.empty((len(errors), 0))[order],
            kept_estimates=None,
        )


def _ends(rim: Integers, chunks: int, reach: int) -> tuple[int, int]:
    """Return by how many chunks a wave shrinks per round at the first and at the last agents of a rank."""
    low, high = rim[2 * rim < chunks], rim[2 * rim >= chunks]
    left = max(reach, int(low.max()) + 1) if len(low) else 0
    right = max(reach, chunks - int(high.min())) if len(high) else 0
    return left, right


class _PartPass:
    """One pass over the rounds of a table, for one trial and one component."""

    def __init__(self, run: _Run, table: Table, which: list[int], trial: int, component: int) -> None:
        self.run, self.table, self.which, self.trial = run, table, which, trial
        problem, share, room = run.problem, run.share, run.halo.room
        kind, chunks = problem.dtype, room // BLOCK
        fused = share.std is not None
        self.kernel_table: PassTable = pass_table(
            table,
            (share.mean, share.std, share.drift),
            problem.horizons[which],
            run.targets[which].T,
            problem.wanted.seed,
            kind,
        )
        rows = -(-(room + len(run.halo.heard)) // BLOCK)
        self.tasks = agent_lanes.Tasks(
            components=np.array([component]),
            trials=np.array([trial]),
            work=aligned((chunks, table.registers, BLOCK), kind),
            messages=aligned((2, rows, BLOCK), kind),
            given=np.empty((0, 0, len(share.mean)), kind),
            origin=0,
            noise=aligned((chunks if fused else 0, 4, BLOCK), kind),
            by_trial=np.zeros((1, len(which))),
            by_chunk=np.zeros(chunks),
            by_agent=np.empty((0, 0, 0)),
            estimates=np.empty((0, 0, 0), kind),
            first_agent=run.halo.first,
        )
        self.exchange = Exchange(run.halo, self.tasks.messages)
        deep = agent_lanes.wave_depth(self.tasks, run.links, get_num_threads(), run.ends) if fused else 1
        self.depth: int = min(run.comm.allgather(deep))  # all ranks run the same waves

    @property
    def registers(self) -> AnyArray:
        """(R, n agents) a copy."""
        agents = self.run.halo.last - self.run.halo.first
        return np.moveaxis(self.tasks.work, 1, 0).reshape(self.table.registers, -1)[:, :agents]

    def messages(self, t: int) -> AnyArray:
        """Return (n agents,) the messages of round t."""
        sent: AnyArray = self.tasks.messages[t % 2].reshape(-1)[: self.run.halo.last - self.run.halo.first]
        return sent

    def restore(self, checkpoints: Checkpoints, saved: Position) -> int:
        """Resume from a checkpoint; return the next round."""
        registers, messages = checkpoints.read(self.run.halo.first, self.run.halo.last)
        agents = self.run.halo.last - self.run.halo.first
        flat = np.zeros((self.table.registers, self.run.halo.room), self.tasks.work.dtype)
        flat[:, :agents] = registers
        self.tasks.work[:] = np.moveaxis(flat.reshape(self.table.registers, -1, BLOCK), 0, 1)
        self.messages(saved.round)[:] = messages
        if self.tasks.noise.size:
            agent_lanes.refill(self.tasks, saved.round, self.kernel_table)
        return saved.round

    def play(self, start: int) -> Iterator[tuple[int, int, int, float]]:
        """Run the rounds from `start` on, wave by wave; yield for each its first round, the round after its last, and
        the horizon at its end with its error."""
        run, rounds = self.run, self.table.rounds
        ends = {int(run.problem.horizons[w]): h for h, w in enumerate(self.which)}
        if start >= 0:
            self.exchange.begin(start)
        t = start
        while t < rounds:
            stop = self._stop(t, ends)
            h = ends.get(stop, -1)
            self._look(t)
            if stop == t + 1:
                self._play(run.inner, t, h)
                if t >= 0:
                    self.exchange.finish(t)
                self._play(run.rim, t, h)
            else:
                self.exchange.finish(t)
                agent_lanes.play_wave(self.tasks, (t, stop), self.kernel_table, run.links, run.ends)
                for late in range(t + 1, stop):
                    self.exchange.begin(late)
                    self.exchange.finish(late)
                    self._play(self._left_over(late - t), late, ends.get(late + 1, -1))
            if stop < rounds:
                self.exchange.begin(stop)
            yield t, stop, self.which[h] if h >= 0 else -1, self._error() if h >= 0 else 0.0
            t = stop

    def _stop(self, t: int, ends: dict[int, int]) -> int:
        """Return the end of the wave that starts with round t, at the next horizon or checkpoint at the latest."""
        stop, deep = t + 1, self.depth if t >= 0 else 1
        due = self.run.problem.saving.due
        while (
            stop < min(t + deep, self.table.rounds) and stop not in ends and not due(stop, self.table.rounds)
        ):
            stop += 1
        return stop

    def _left_over(self, age: int) -> Integers:
        """Return the chunks that a wave omits in its round `age`."""
        left, right = self.run.ends
        chunks = self.run.halo.room // BLOCK
        return np.concatenate([np.arange(age * left), np.arange(chunks - age * right, chunks)])

    def _play(self, chunks: Integers, t: int, h: int) -> None:
        agent_lanes.play_chunks(chunks, t, h, self.tasks, self.kernel_table, self.run.links)

    def _look(self, t: int) -> None:
        """Draw the observations of rounds t and t + 1 if the kernels cannot."""
        share, run = self.run.share, self.run
        if share.std is not None:
            return
        rounds = range(max(t, 0), min(t + 2, self.table.rounds))
        agents = range(share.offset, share.offset + len(share.mean))
        batches = None if np.all(self.table.batches == 1) else self.table.batches
        drawn = share.streams.sample(
            run.problem.wanted.seed, rounds, range(self.trial, self.trial + 1), agents, batches
        )
        given = drawn[None, :, :, self.tasks.components[0], 0].astype(run.problem.dtype, copy=False)
        self.tasks = self.tasks._replace(given=np.ascontiguousarray(given), origin=max(t, 0))

    def _error(self) -> float:
        """Return the sum over all agents, on rank 0."""
        run = self.run
        sums = np.empty(int(run.counts.sum())) if run.comm.rank == 0 else None
        run.comm.Gatherv(self.tasks.by_chunk, None if sums is None else [sums, run.counts])
        return 0.0 if sums is None else float(in_order(sums))

    def close(self) -> None:
        self.exchange.close()
