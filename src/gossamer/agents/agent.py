"""The agent: one process's part of the fleet, inside any asyncio program.

    async with Agent(settings) as agent:
        agent.observe(21.5)
        print(agent.estimate, agent.standard_error)

The rounds run in a thread of their own, so a program that computes for a while does not hold up the
neighbours; a second thread writes the store. Both are started on entering and ended on leaving.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gossamer.agents.ledger import Ledger
from gossamer.agents.rounds import Peer, Rounds
from gossamer.agents.settings import AgentSettings
from gossamer.agents.statistics import Answers, Batch, Feed, Layout
from gossamer.agents.store import Saved, Store
from gossamer.agents.transports.base import Transport
from gossamer.errors import GossamerError, InvalidInput, Unsupported
from gossamer.methods.anytime_sda import AnytimeSDA

Array = NDArray[np.float64]

log = logging.getLogger("gossamer.agents")

_BACKLOG = 10_000
"""Observations that may wait for the next round before the source is held up."""

_HURRY = 0.02
"""How much faster than its pace an agent may go in the long run, to stay in step with its neighbours."""

_SERIALS_PER_COMMIT = 2**20
"""More messages than any agent sends between two commits; see `_first_serial`."""


@dataclass(frozen=True)
class NeighbourView:
    """What an agent knows of one neighbour.

    state       "joining" (not heard yet), "alive", "silent" (missed its last A rounds) or "dead"
    connected   whether the transport sees it
    last_heard  seconds since its last used message; infinite before the first
    distance    largest difference between its estimate and the agent's own, over the components
    used        messages of its that took part in a round
    lost        rounds in which nothing usable of it was there in time
    late        messages that arrived for a round already over
    round_trip  smoothed seconds from sending a message to hearing it echoed; nan before the first
    """

    id: int
    state: str
    connected: bool
    last_heard: float
    distance: float
    used: int
    lost: int
    late: int
    round_trip: float


@dataclass(frozen=True)
class Snapshot:
    """The agent at one moment; what tables, JSON lines and metrics show.

    round         Lamport number of the current round, shared with the neighbours
    age           rounds this agent has taken part in, over all its lives
    samples       observations it has used; `acknowledged` of them are safe in the store
    estimate, standard_error, variance   shape (n,), nan while nothing is known
    answers       everything averaged, for quantiles (see `statistics.Answers`)
    state         "running", "degraded" (the store cannot be written; `problem` says why) or "stopped"
    rejected      dropped messages by reason (see `wire.Reason`)
    """

    agent: int
    time: float
    round: int
    age: int
    samples: int
    acknowledged: int
    estimate: Array
    standard_error: Array
    variance: Array | None
    answers: Answers
    state: str
    problem: str
    sent: int
    received: int
    rejected: Mapping[str, int]
    neighbours: tuple[NeighbourView, ...]


Source = Iterable[ArrayLike] | AsyncIterable[ArrayLike]
"""Observations: an iterable gives one per round, an async iterable gives them when it likes."""


class Agent:
    """One agent of a fleet.

    settings   who it is and whom it talks to
    transport  how; None: Zenoh, as the settings say
    source     observations to take by itself, beside those given to `observe`
    store      path of its SQLite file; None: settings.store
    seed       of the noise replicates; None: from the system
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        transport: Transport | None = None,
        source: Source | None = None,
        store: str | Path | None = None,
        seed: int | None = None,
    ) -> None:
        self.settings = settings
        self.layout = Layout.of(settings)
        if transport is None:
            from gossamer.agents.transports.zenoh import ZenohTransport

            transport = ZenohTransport(settings)
        self._transport = transport
        self._source = source
        self._feed = Feed(self.layout, gain=settings.gain, seed=seed)
        path = settings.store if store is None else store
        self._store = None if path is None else Store(path, settings.id, self.layout.size)
        saved = self._store.load() if self._store else None
        self._ledger = _ledger(settings, self.layout, saved)
        self._rounds = Rounds(
            settings.id,
            self._ledger,
            transport,
            tuple(n.id for n in settings.neighbours),
            timeout=settings.timeout,
            death=settings.death,
            limits=settings.limits,
        )
        self._rounds.round = saved.round if saved else 0
        self._vector = self._ledger.estimate
        self._own_mean = self._ledger.local("mean")  # a view: it shows the mean of the moment
        self._pending: deque[Array] = deque()
        self._offered = 0  # observations given to observe() in this life
        self._taken = 0  # of these, used by a round
        self._acknowledged = int(self._ledger.samples)
        self._restored = int(self._ledger.samples)
        self._paced: Iterator[ArrayLike] = iter(())
        self._callbacks: list[Callable[[Snapshot], None]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._writer: _Writer | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    # -- living ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._thread is not None:
            raise InvalidInput("an agent lives once; make a new one to start again")
        try:
            self._transport.open()
        except BaseException:
            if self._store is not None:
                self._store.close()
            raise
        self._start_source()
        if self._store is not None:
            self._writer = _Writer(self._store, self._acknowledge)
        self._thread = threading.Thread(target=self._live, name=f"agent-{self.settings.id}", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._stop.set()
        self._rounds.stop()
        await asyncio.to_thread(self._end)
        if self._failure is not None and error is None:
            raise GossamerError(f"agent {self.settings.id} stopped: {self._failure}") from self._failure

    def _end(self) -> None:
        if self._thread is not None:
            self._thread.join()
        self._transport.close()
        if self._writer is not None:
            self._writer.close()
        if self._store is not None:
            self._store.close()

    def _start_source(self) -> None:
        if self._source is None:
            return
        if getattr(self._source, "replays", False):  # it begins anew: pass over what the store holds already
            cast(Any, self._source).skip = self._restored
        if isinstance(self._source, AsyncIterable):
            self._task = asyncio.create_task(self._follow(self._source))
        else:
            self._paced = iter(self._source)

    async def _follow(self, source: AsyncIterable[ArrayLike]) -> None:
        async for observation in source:
            self.observe(observation)
            while len(self._pending) > _BACKLOG and not self._stop.is_set():
                await asyncio.sleep(0.01)

    # -- observing ------------------------------------------------------------------------------------------

    def observe(self, observation: ArrayLike) -> None:
        """Take one observation: a number, or a vector of `dimension` numbers. Never blocks; any thread.

        It counts from the next round on, and is acknowledged (`Snapshot.acknowledged`) at the store's next
        commit. InvalidInput for NaN, infinity or a wrong shape.
        """
        self._pending.append(self.layout.check(observation))
        self._offered += 1

    async def observe_durable(self, observation: ArrayLike) -> None:
        """Take one observation and return when it is in the store: it then survives kill -9.

        While the disk is full it waits; give it a limit with asyncio.timeout if that matters.
        """
        if self._writer is None:
            raise Unsupported(
                "an observation is durable in a store, but this agent has none; give it a store"
            )
        self.observe(observation)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._writer.wait_for(self._offered, loop, done)
        await done

    # -- reading --------------------------------------------------------------------------------------------

    @property
    def estimate(self) -> Any:
        """The network's average as this agent knows it now: a float (dimension 1) or an array (n,)."""
        return self._shape(self.layout.read(self._vector).mean)

    @property
    def standard_error(self) -> Any:
        """Standard error of `estimate` from noise, in the same shape; `statistics.py` says what it covers."""
        return self._shape(self.layout.read(self._vector).standard_error)

    def _shape(self, values: Array) -> Any:
        return float(values[0]) if self.layout.dimension == 1 else values

    @property
    def snapshot(self) -> Snapshot:
        """Everything about the agent at the end of its latest round."""
        answers = self.layout.read(self._vector)
        rounds, now = self._rounds, time.monotonic()
        problem = "" if self._store is None else (self._store.failure or "")
        state = "stopped" if self._stop.is_set() else "degraded" if problem else "running"
        own, present = answers.mean, self._transport.present()
        return Snapshot(
            agent=self.settings.id,
            time=time.time(),
            round=rounds.round,
            age=self._ledger.age,
            samples=int(self._ledger.samples),
            acknowledged=self._acknowledged if self._store else 0,
            estimate=own,
            standard_error=answers.standard_error,
            variance=answers.variance,
            answers=answers,
            state=state,
            problem=problem,
            sent=rounds.sent,
            received=rounds.received,
            rejected={str(reason): count for reason, count in rounds.rejected.copy().items()},
            neighbours=tuple(self._view(p, own, p.id in present, now) for p in rounds.peers.values()),
        )

    def _view(self, peer: Peer, own: Array, connected: bool, now: float) -> NeighbourView:
        if peer.dead:
            state = "dead"
        elif not peer.used:
            state = "joining"
        else:
            state = "silent" if peer.misses > self.settings.silence else "alive"
        distance = float(np.abs(self.layout.read(peer.value).mean - own).max()) if peer.used else math.nan
        last = now - peer.heard_at
        return NeighbourView(
            peer.id, state, connected, last, distance, peer.used, peer.lost, peer.late, peer.round_trip
        )

    async def snapshots(self, every: float = 1.0) -> AsyncIterator[Snapshot]:
        """Yield a snapshot every so many seconds until the agent stops."""
        while not self._stop.is_set():
            yield self.snapshot
            await asyncio.sleep(every)

    def subscribe(self, callback: Callable[[Snapshot], None]) -> Callable[[], None]:
        """Call `callback` after every round, in the agent's thread; returns a function that ends it."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    # -- the thread of the rounds ----------------------------------------------------------------------

    def _live(self) -> None:
        # Absurd numbers of a neighbour may overflow while they are checked; that is no news to anyone.
        np.seterr(over="ignore", invalid="ignore")
        try:
            self._rounds.gather(self.settings.timeout)
            self._loop()
        except Exception as failure:  # whatever it is, the program that runs the agent must learn of it
            log.exception("agent %d stopped", self.settings.id)
            self._failure = failure
            self._stop.set()

    def _loop(self) -> None:
        pace = credit = self.settings.pace or 0.0
        due = time.monotonic()
        while not self._stop.is_set():
            began = time.monotonic()
            due = max(min(due, began) + pace, began) if pace else 0.0
            self._round(due)
            if self._writer is not None:
                self._commit(wait=False)
            if self._callbacks:
                for callback in tuple(self._callbacks):
                    callback(self.snapshot)
            if pace:
                hurried = self._pause(due - min(credit, pace / 2), due)
                credit = min(credit - hurried + _HURRY * pace, pace)
        if self._pending:  # what was observed and not yet used must reach the store
            batch = self._batch()
            self._ledger.begin(batch.observation, batch.samples, batch.weight)
            self._ledger.finish({})
        self._commit(wait=True)

    def _pause(self, early: float, due: float) -> float:
        """Wait for the next round's time; from `early` on a neighbour that has begun it ends the wait.

        So neighbours of one pace fall into step. Without it one that started a moment later would be late in
        every round, for as long as the fleet lives. Returns by how many seconds the wait was cut short: who is
        among faster neighbours has little of that to spend, and keeps its own pace.
        """
        while (now := time.monotonic()) < due and not self._stop.is_set():
            if now >= early and self._rounds.called():
                break
            self._rounds.listen(early if now < early else due, until_called=now >= early)
        return max(due - now, 0.0)

    def _round(self, due: float) -> None:
        batch = self._batch()
        self._rounds.step(batch.observation, batch.samples, batch.weight, until=due)
        self._vector = self._ledger.estimate

    def _batch(self) -> Batch:
        new = [self._pending.popleft() for _ in range(len(self._pending))] if self._pending else []
        self._taken += len(new)
        for observation in self._paced:
            new.append(self.layout.check(observation))
            break
        ledger = self._ledger
        return self._feed.batch(new, self._own_mean, ledger.samples, ledger.age)

    def _commit(self, *, wait: bool) -> None:
        writer = self._writer
        if writer is not None and (wait or writer.wants(self.settings.commit)):
            writer.give(Saved(self._rounds.round, self._ledger.remember()), self._taken)

    def _acknowledge(self, saved: Saved) -> None:
        self._acknowledged = int(saved.ledger.samples)


def _ledger(settings: AgentSettings, layout: Layout, saved: Saved | None) -> Ledger:
    method = AnytimeSDA(
        smoothing=settings.smoothing, step_size=settings.step_size, momentum=settings.momentum
    )
    # Every parameter is given, so no network is asked; the coefficients settle after the smoothing window.
    coefficients = method.coefficients(cast(Any, None), math.ceil(settings.smoothing) + 2)
    return Ledger(
        method,
        coefficients,
        settings.id,
        {n.id: n.weight for n in settings.neighbours},
        layout.size,
        silence=settings.silence,
        serial=_first_serial(saved),
        restored=saved.ledger if saved else None,
    )


def _first_serial(saved: Saved | None) -> int:
    """Above every serial of earlier lives, even if the clock was set back since the last one."""
    now = time.time_ns() // 1000
    return max(now, saved.ledger.serial + _SERIALS_PER_COMMIT) if saved else now


class _Writer:
    """The thread that commits. It takes the newest state given; whoever waits is told when theirs is safe."""

    def __init__(self, store: Store, acknowledge: Callable[[Saved], None]) -> None:
        self._store = store
        self._acknowledge = acknowledge
        self._given: tuple[Saved, int] | None = None
        self._waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._last = -math.inf
        self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    def wants(self, every: float) -> bool:
        """Whether it is time for a state: someone waits, or the last commit is so many seconds ago."""
        return self._given is None and (bool(self._waiting) or time.monotonic() - self._last >= every)

    def give(self, saved: Saved, taken: int) -> None:
        with self._change:
            self._given = (saved, taken)
            self._change.notify()

    def wait_for(self, ticket: int, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        with self._change:
            self._waiting.append((ticket, loop, done))

    def _run(self) -> None:
        while True:
            with self._change:
                while self._given is None and not self._closed:
                    self._change.wait()
                if self._given is None:
                    return
                saved, taken = self._given
            was_well = self._store.failure is None
            safe = self._store.save(saved)
            self._last = time.monotonic()
            if safe:
                self._acknowledge(saved)
            if safe != was_well:
                log.warning(
                    "agent %d: the store %s %s",
                    self._store.agent,
                    self._store.path,
                    "is written again" if safe else f"cannot be written: {self._store.failure}",
                )
            with self._change:
                if self._given is not None and self._given[0] is saved:
                    self._given = None
                ready = [w for w in self._waiting if safe and w[0] <= taken]
                self._waiting = [w for w in self._waiting if w not in ready]
            for _, loop, done in ready:
                loop.call_soon_threadsafe(_resolve, done)

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join()


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
