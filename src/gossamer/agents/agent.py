"""The agent: one member of a fleet, inside any asyncio program."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import ArrayLike

from gossamer.agents.assembly import conversation_of, ledger_of
from gossamer.agents.bounds import Bounds
from gossamer.agents.host.source_kinds import LiveSource
from gossamer.agents.host.sources import as_source
from gossamer.agents.host.store import AgentStore, Saved
from gossamer.agents.host.writer import StoreWriter
from gossamer.agents.learning import layout_of, method_of, range_of
from gossamer.agents.mixing import Mixing, combined, settled
from gossamer.agents.rewiring import STAYS, Rewiring
from gossamer.agents.round.extremes import Extremes
from gossamer.agents.round.loop import RoundLoop
from gossamer.agents.round.wire import Reason
from gossamer.agents.round_trip import RoundTrip, timeout_of
from gossamer.agents.rows import Clock, answers_of, batcher_of, reads_again
from gossamer.agents.settings import AGREED, AUTO, AgentSettings
from gossamer.agents.snapshot import CountCheck, NeighborView, Snapshot, liars, strangers
from gossamer.agents.statistics import Answers
from gossamer.agents.transports.base import Transport
from gossamer.arrays import Floats
from gossamer.errors import GossamerError, InvalidInput, Unsupported
from gossamer.methods.ledger import ledger_program

log = logging.getLogger("gossamer.agents")

_BACKLOG = 10_000
"""Observations that may wait for the next round before the source has to wait."""

_HURRY = 0.02
"""By what fraction an agent may run ahead of its pace in the long run, to stay in step with its neighbors."""

_FOLLOW_EVERY = 0.25
"""Seconds between two looks at the round trips."""

_GATHERING = 5.0
"""Most seconds for which an agent with a slow pace waits for its neighbors before its first round."""

_FIXED = ("id", "fleet", "endpoint", "listen", "store", "silence", "facts", *AGREED)
"""Settings that cannot change while an agent runs."""

ObservationStream = Iterable[ArrayLike] | AsyncIterable[ArrayLike]
"""Observations: an iterable gives one per round, an async iterable gives them as they come."""


class Agent:
    """One agent of a fleet.

    The rounds run in their own thread, so that a program that computes for a while does not hold up the neighbors;
    a second thread writes the store. Both start on entering `async with` and end on leaving.

    Parameters
    ----------
    settings : AgentSettings
        Who it is, whom it talks to, and by which method.
    transport : Transport, optional
        How it reaches its neighbors; None: TLS connections, as the settings say.
    source : iterable or async iterable, optional
        Observations to take by itself, besides those given to `observe`. If it fails, the agent goes on without it:
        `Snapshot.problem` says so, and so does an error on leaving.
    store : path, optional
        Of its SQLite file; None: settings.store.
    seed : int, optional
        Of the noise replicates; None: from the system.

    Examples
    --------
    `Memory` shows two agents that average.

    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1),), method=gs.AnytimeSDA("local"))
    >>> gs.Agent(settings, transport=gs.agents.Memory().transport(0, (1,))).snapshot.samples
    0
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        transport: Transport | None = None,
        source: ObservationStream | None = None,
        store: str | Path | None = None,
        seed: int | None = None,
    ) -> None:
        self.settings = settings
        self.layout = layout_of(settings)
        if transport is None:
            from gossamer.agents.transports.tls import TlsTransport

            transport = TlsTransport(settings)
        self._transport = transport
        self._trips: Mapping[int, RoundTrip] = getattr(transport, "trips", {})
        self._source = None if source is None else as_source(source, self.layout.dimension)
        self._range = range_of(settings, self.layout)
        if self._source is not None:
            self._source.range = self._range
        self._program = program = ledger_program(method_of(settings), settings.facts)
        bounds = self._bounds(settings)
        path = settings.store if store is None else store
        what = program.method if settings.model is None else f"{program.method}, sums 3, for {settings.model}"
        self._store = None if path is None else AgentStore(path, settings.id, self.layout.size, what)
        saved = self._store.load() if self._store else None
        try:
            self._ledger = ledger_of(settings, program, self.layout, saved, bounds)
        except InvalidInput:  # what was saved does not fit the method
            if self._store is not None:
                self._store.close()
            raise
        self._extremes = None
        if settings.extremes:
            own = saved.extremes if saved else b""
            self._extremes = Extremes(settings.dimension, own, settings.range)
        self._conversation = conversation_of(settings, self._ledger, transport, self._extremes, bounds)
        self.changes = Rewiring(settings, self._ledger, self._conversation, transport, self._bounds)
        if self._store is not None:
            self._ledger.durable = saved.ledger.serial if saved else 0
            self.changes.resume_leaving(saved.leaving if saved else STAYS)
        self._conversation.roster_came = lambda sender, data: self.roster_came(sender, data)
        self.roster_came: Callable[[int, bytes], object] = lambda sender, data: self.refuse_roster()
        self.concerns: dict[str, str] = {}  # of whoever runs the agent, by subject: what degrades it
        self.farewell = b""  # a roster to tell the neighbors when this agent stops, because it was removed
        self._change: AgentSettings | None = None  # what to go on with before the next round
        self._conversation.round = saved.round if saved else 0
        self._mixing = Mixing(self.layout, settings.return_rate)
        clock = Clock(lambda: self._conversation.round, lambda: self.settings.members, self._heard)
        self._batcher = batcher = batcher_of(settings, self.layout, self._ledger, seed, clock)
        again = reads_again(batcher, self._source, self._ledger)
        self._loop = RoundLoop(batcher, self._ledger, self._conversation, self._lose_source, self._extremes)
        self._count_check = CountCheck()
        self._offered = 0  # observations given to observe() in this run
        # Of the source, after what the rounds have used.
        self._position = saved.position if saved and not again else b""
        self._marks: deque[tuple[int, bytes]] = deque()  # observations that wait, and the source after each
        self._ended = False  # whether the last of them has been used
        self._door = threading.Lock()  # held to offer one, and to end
        self._acknowledged = int(self._ledger.samples)
        self._callbacks: list[Callable[[Snapshot], None]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._writer: StoreWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._source_failure: BaseException | None = None
        self._source_problem = ""

    # -- entering and leaving -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._thread is not None:
            raise InvalidInput("an agent can be entered once; make a new one to start again")
        try:
            if self._ledger.samples:
                log.info("%s resumed with %d observations", self.settings.label, int(self._ledger.samples))
            if self._source is not None:
                self._source.resume(self._position)
                self._source.begin(int(self._ledger.samples), self.layout.largest)
            self._transport.open()
        except BaseException:
            if self._store is not None:
                self._store.close()
            raise
        self._start_source()
        if self._store is not None:
            self._writer = StoreWriter(self._store, self._acknowledge)
        self._thread = threading.Thread(target=self._live, name=f"agent-{self.settings.id}", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._end)
        if self._failure is not None and error is None:
            raise GossamerError(f"{self.settings.label} stopped: {self._failure}") from self._failure
        problem = self._source_problem or (self._source.failing if self._source else "")
        if problem and error is None:
            raise GossamerError(f"{self.settings.label}: {problem}") from self._source_failure

    def _end(self) -> None:
        self.halt()
        self._transport.close()
        if self._store is not None:
            self._store.close()

    def halt(self, seconds: float | None = None) -> None:
        """End the rounds and commit what is known, waiting at most `seconds`; any thread may call this."""
        self._stop.set()
        self._conversation.stop()
        if self._thread is not None:
            self._thread.join(seconds)
        if self._writer is not None:
            self._writer.close(seconds)

    def _start_source(self) -> None:
        if isinstance(self._source, LiveSource):
            self._task = asyncio.create_task(self._follow(self._source))
        elif self._source is not None:
            self._loop.paced = self._source.rounds()

    async def _follow(self, source: LiveSource) -> None:
        try:
            async with aclosing(source.observations()) as observations:
                async for observation in observations:
                    if not self._offer(observation, source.position):
                        return
                    while len(self._loop.pending) > _BACKLOG and not self._stop.is_set():
                        await asyncio.sleep(0.01)
            log.info("%s: the source has ended; the agent goes on without it", self.settings.label)
        except (Exception, asyncio.CancelledError) as failure:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the agent is being left
                raise
            self._lose_source(failure)

    def _lose_source(self, failure: BaseException) -> None:
        expected = isinstance(failure, GossamerError)
        text = str(failure) if expected else f"{type(failure).__name__}: {failure}"
        self._source_failure, self._source_problem = failure, f"the source failed: {text}"
        why = None if expected else failure
        log.error("%s goes on without its source: %s", self.settings.label, text, exc_info=why)

    # -- changing while it runs ----------------------------------------------------------------------------

    def refuse_roster(self) -> None:
        """Count a roster that was refused; any thread may call this."""
        self._conversation.rejected[Reason.ROSTER] += 1

    def apply(self, settings: AgentSettings) -> tuple[list[str], list[str]]:
        """Go on with other settings from the next round on; any thread may call this.

        Edges that stay keep their ledgers, and certificates are read again. Returns the names of the fields that
        change, and of those that would need a new agent: what is averaged, and where it listens and stores.
        """
        differs = [
            f.name for f in fields(settings) if getattr(settings, f.name) != getattr(self.settings, f.name)
        ]
        waiting = [name for name in differs if name in _FIXED]
        self._change = replace(settings, **{name: getattr(self.settings, name) for name in waiting})
        self._transport.wake()
        shown = [name for name in differs if name not in ("roster", "facts")]
        return [n for n in shown if n not in waiting], [n for n in shown if n in waiting]

    def _make_change(self) -> None:
        settings, self._change = self._change, None
        if settings is not None and self.changes.follow(settings):
            self.settings = settings
            self._follow_round_trips()

    def _bounds(self, settings: AgentSettings) -> Bounds | None:
        # With all who ever were members, so that two epochs do not disagree on what is possible.
        return Bounds.of(self.layout, self._program, settings.members and settings.members + settings.former)

    # -- observing ------------------------------------------------------------------------------------------

    def observe(self, observation: ArrayLike) -> None:
        """Take one observation: a number, or a vector of `dimension` numbers. Never blocks; any thread may call this.

        It counts from the next round on, and is acknowledged (`Snapshot.acknowledged`) at the store's next
        commit. Raises InvalidInput for NaN, infinity, a number too large for the neighbors, one outside the range
        (unless it is to be clipped), or a wrong shape.
        """
        self._observe(observation)

    def _observe(self, observation: ArrayLike) -> int:
        number = self._offer(self._range.admit(self.layout.check(observation)))
        if not number:
            raise GossamerError(
                f"{self.settings.label} has stopped and takes no more observations; "
                "observe inside its `async with`, or make a new agent"
            )
        return number

    def _offer(self, observation: Floats, position: bytes = b"") -> int:
        """Queue an observation for the next round; return its number, or 0 if there are no more rounds.

        `position` is that of the source after this observation.
        """
        with self._door:
            if self._ended:
                return 0
            if position and self._store is not None:
                self._marks.append((self._offered + 1, position))
            self._loop.pending.append(observation)
            self._offered += 1
            return self._offered

    async def observe_durable(self, observation: ArrayLike) -> None:
        """Take one observation and return when it is in the store: it then survives kill -9.

        While the disk is full it waits; limit that with asyncio.timeout if it matters. Raises GossamerError if
        the agent stops first.
        """
        if self._writer is None:
            raise Unsupported(
                "store must be set for durable observations, but this agent has none; give it a path"
            )
        number = self._observe(observation)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._writer.wait_for(number, loop, done)
        await done

    # -- reading --------------------------------------------------------------------------------------------

    @property
    def estimate(self) -> Any:
        """The network's average as this agent knows it now: a float (dimension 1) or an array (n,)."""
        return self._shape(self._answers().mean)

    @property
    def standard_error(self) -> Any:
        """Standard error of `estimate`, in the same shape: from noise (`statistics.py`) and mixing (`mixing.py`)."""
        answers = self._answers()
        return self._shape(combined(answers.standard_error, self._mixing_error(answers)))

    def _answers(self) -> Answers:
        """What the averages say, in view of what the neighbors hold."""
        return answers_of(self._batcher, self._ledger)

    def _heard(self) -> tuple[Floats, ...]:
        """What the neighbors alive told last."""
        peers, most = self._conversation.peers.values(), self.settings.silence
        return tuple(peer.value for peer in peers if peer.used and not peer.dead and peer.misses <= most)

    def _mixing_error(self, answers: Answers) -> Floats:
        return self._mixing.error(answers, self._ledger.returning, self._heard())

    def _shape(self, values: Floats) -> Any:
        return float(values[0]) if self.layout.dimension == 1 else values

    @property
    def snapshot(self) -> Snapshot:
        """Everything about the agent at the end of its latest round."""
        answers = self._answers()
        noise, mixing = answers.standard_error, self._mixing_error(answers)
        conversation, now = self._conversation, time.monotonic()
        failure = None if self._store is None else self._store.failure
        store_problem = "" if failure is None else f"the store cannot be written: {failure}"
        failing = self._source_problem or (self._source.failing if self._source else "")
        doubt = self._range.doubt(answers.mean, observed=self._ledger.mean[0] > 0)
        peers = conversation.peers.values()
        strange = strangers(peers, self.settings, getattr(self._transport, "builds", {}))
        lying = liars(peers, self.settings)
        count = self._count_check.problem(answers, self.settings, conversation.peers, now)
        doubt = self.changes.problem or doubt or count
        problems = store_problem, failing, strange, lying, doubt, *self.concerns.copy().values()
        problem = "; ".join(text for text in problems if text)
        state = "stopped" if self._stop.is_set() else "degraded" if problem else "running"
        present = self._transport.present()
        return Snapshot(
            agent=self.settings.id,
            time=time.time(),
            round=conversation.round,
            age=self._ledger.age,
            samples=int(self._ledger.samples),
            acknowledged=self._acknowledged if self._store else 0,
            estimate=answers.mean,
            standard_error=combined(noise, mixing),
            variance=answers.variance,
            answers=answers,
            state=state,
            problem=problem,
            sent=conversation.sent,
            received=conversation.received,
            rejected={str(reason): count for reason, count in conversation.rejected.copy().items()},
            neighbors=tuple(
                NeighborView.of(p, answers, p.id in present, now, self.settings, self._trips.get(p.id))
                for p in peers
            ),
            bad=0 if self._source is None else self._source.bad,
            store_failures=0 if self._store is None else self._store.failures,
            epoch=self.settings.epoch,
            members=self.settings.members,
            inherited=self.settings.inherited,
            settled=settled(answers, noise, mixing),
            participating=(self.settings.members or len(conversation.peers) + 1)
            - sum(peer.dead for peer in conversation.peers.values()),
            least=None if self._extremes is None else self._extremes.least,
            largest=None if self._extremes is None else self._extremes.largest,
            clipped=self._range.clipped,
            withheld=answers.withheld,
        )

    def pardon(self) -> None:
        """Hear the neighbors in quarantine again; any thread may call this."""
        self._conversation.pardon()

    async def snapshots(self, every: float = 1.0) -> AsyncIterator[Snapshot]:
        """Yield a snapshot every `every` seconds until the agent stops."""
        while not self._stop.is_set():
            yield self.snapshot
            await asyncio.sleep(every)

    def subscribe(self, callback: Callable[[Snapshot], None]) -> Callable[[], None]:
        """Call `callback` after every round, in the agent's thread; return a function that stops the calls."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    # -- the thread of the rounds ----------------------------------------------------------------------

    def _live(self) -> None:
        try:
            # At a slow pace, who misses the first round is missed for long.
            self._conversation.gather(
                max(timeout_of(self.settings), min((self.settings.pace or 0.0) / 2, _GATHERING))
            )
            self._play_rounds()
        except Exception as failure:  # whatever it is, the program that runs the agent must see it
            log.exception("%s stopped", self.settings.label)
            self._failure = failure
            self._stop.set()
            with self._door:
                self._ended = True
            if self._writer is not None:
                self._writer.give_up()

    def _play_rounds(self) -> None:
        credit = self.settings.pace or 0.0
        due = follow_due = time.monotonic()
        while not self._stop.is_set():
            if self._change is not None:
                self._make_change()
            if self.changes.busy:
                self.changes.look()
                self._loop.resting = self.changes.leaving != STAYS
            pace = self.settings.pace or 0.0
            began = time.monotonic()
            if began >= follow_due:
                self._follow_round_trips()
                follow_due = began + _FOLLOW_EVERY
            due = max(min(due, began) + pace, began) if pace else 0.0
            self._loop.play(due)
            self._mixing.note(self._ledger.age, self._ledger.estimate)
            if self._writer is not None:
                self._commit(wait=False)
            if self._callbacks:
                for callback in tuple(self._callbacks):
                    callback(self.snapshot)
            if pace:
                hurried = self._pause(due - min(credit, pace / 2), due)
                credit = min(credit - hurried + _HURRY * pace, pace)
        if self.farewell:
            self._conversation.part((), self.farewell)
        else:
            self.changes.say_goodbye()
        with self._door:
            self._ended = True
        self._loop.last()
        self._commit(wait=True)

    def _follow_round_trips(self) -> None:
        """Wait for the neighbors as long as their round trips ask for, unless the settings say how long."""
        if self.settings.timeout == AUTO:
            trips = self._trips.items()
            self._conversation.await_each({id: timeout_of(self.settings, trip) for id, trip in trips})

    def _pause(self, early: float, due: float) -> float:
        """Wait until the next round is due; from `early` on, a neighbor that has begun it ends the wait.

        So neighbors of the same pace fall into step. Without this, an agent that started a moment later would be
        late in every round from then on. Returns by how many seconds the wait was cut short: the caller limits
        their sum, so that an agent among faster neighbors keeps its own pace.
        """
        while (now := time.monotonic()) < due and not self._stop.is_set():
            if now >= early and self._conversation.called():
                break
            self._conversation.listen(early if now < early else due, until_called=now >= early)
        return max(due - now, 0.0)

    def _commit(self, *, wait: bool) -> None:
        writer, taken = self._writer, self._loop.taken
        while self._marks and self._marks[0][0] <= taken:
            self._position = self._marks.popleft()[1]
        if writer is not None and (wait or writer.wants(self.settings.commit)):
            own = b"" if self._extremes is None else self._extremes.own.tobytes()
            state, leaving = self._ledger.remember(), self.changes.leaving
            writer.give(Saved(self._conversation.round, state, self._position, own, leaving), taken)

    def _acknowledge(self, saved: Saved) -> None:
        self._ledger.durable = saved.ledger.serial
        self._acknowledged = int(saved.ledger.samples)
