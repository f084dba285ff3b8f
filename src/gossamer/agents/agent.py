"""The agent: one member of a fleet, inside any asyncio program."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import ArrayLike

from gossamer.agents.assembly import assemble
from gossamer.agents.config.settings import AUTO, FIXED, AgentSettings
from gossamer.agents.pacing import Pacer
from gossamer.agents.rewiring import STAYS
from gossamer.agents.round.overgrowth import OVERGROWN
from gossamer.agents.round.round_trip import timeout_of
from gossamer.agents.round.transport import Transport
from gossamer.agents.round.wire import Reason
from gossamer.agents.snapshot import Snapshot, strained
from gossamer.agents.sources.opening import ObservationStream
from gossamer.agents.store.agent_store import Saved
from gossamer.agents.store.writer import StoreWriter
from gossamer.errors import GossamerError, InvalidInput, OutputError, Unsupported

log = logging.getLogger("gossamer.agents")

_FOLLOW_EVERY = 0.25
"""Seconds between two updates of the timeouts from measured round trips."""

_GATHERING = 5.0
"""Longest time in seconds that an agent with a slow pace waits for its neighbors before its first round."""


class Agent:
    """One agent of a fleet.

    The rounds run in their own thread, so that a program that computes for a while does not hold up the neighbors;
    a second thread writes the store. Both start on entering `async with` and end on leaving it.

    Parameters
    ----------
    settings : AgentSettings
        Its number in the fleet, its neighbors, the method and everything else that a fleet's file contains.
    transport : Transport, optional
        How it exchanges messages with its neighbors; by default over TLS connections, as the settings say.
    source : iterable or async iterable, optional
        Observations besides those given to `observe`. If it fails, the agent continues without it:
        `Snapshot.problem` says so, and so does an error on leaving.
    store : path, optional
        The SQLite file from which it resumes after a crash; by default settings.store.
    seed : int, optional
        Seed of the noise replicates behind the standard error; by default from the operating system.
    clock : callable, optional
        A function that returns the time in seconds; by default time.monotonic. A transport must read its deadlines from
        the same clock.

    See Also
    --------
    AgentSettings : The settings of an agent.
    gossamer.agents.running : Run an agent in the background of a program.
    gossamer.agents.Fleet : A whole fleet, described by one file.

    Examples
    --------
    `Memory` shows two agents that average.

    >>> settings = gs.AgentSettings(0, (gs.Neighbor(1),), method=gs.AnytimeSDA("local-heavy-ball"))
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = assemble(settings, transport, source, store, seed=seed, clock=clock)
        self.settings = settings
        self.layout = parts.layout
        self.changes = parts.changes
        self.concerns: dict[str, str] = {}  # by subject: what its host adds to the reasons why it is degraded
        self.farewell = b""  # a roster to send the neighbors when this agent stops because it was removed
        self.roster_came: Callable[[int, bytes], object] = lambda sender, data: self.refuse_roster()
        self._transport = parts.transport
        self._store = parts.store
        self._ledger = parts.ledger
        self._own = parts.own
        self._conversation = parts.conversation
        self._conversation.roster_came = lambda sender, data: self.roster_came(sender, data)
        self._loop = parts.loop
        self._intake = parts.intake
        self._reader = parts.reader
        self._clock = clock
        self._change: AgentSettings | None = None  # to be applied before the next round
        self._acknowledged = int(parts.ledger.samples)
        self._callbacks: list[Callable[[Snapshot], None]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._writer: StoreWriter | None = None
        self._failure: BaseException | None = None

    # -- entering and leaving -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._thread is not None:
            raise InvalidInput("an agent can be entered once; make a new one to start again")
        try:
            if self._ledger.samples:
                log.info("%s resumed with %d observations", self.settings.label, int(self._ledger.samples))
            self._intake.prepare(int(self._ledger.samples))
            self._transport.open()
        except BaseException:
            if self._store is not None:
                self._store.close()
            raise
        self._intake.start()
        if self._store is not None:
            self._writer = StoreWriter(self._store, self._acknowledge, self._clock)
        self._thread = threading.Thread(target=self._live, name=f"agent-{self.settings.id}", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._intake.stop()
        await asyncio.to_thread(self._end)
        if self._failure is not None and error is None:
            raise GossamerError(f"{self.settings.label} stopped: {self._failure}") from self._failure
        if self._intake.problem and error is None:
            raise GossamerError(f"{self.settings.label}: {self._intake.problem}") from self._intake.failure
        if self._store is not None and self._store.failure is not None and error is None:
            raise OutputError(
                f"{self.settings.label} stopped, but its last observations are not in its store {self._store.path} "
                f"({self._store.failure})"
            )

    def _end(self) -> None:
        self.halt()
        self._transport.close()
        if self._store is not None:
            self._store.close()

    def halt(self, seconds: float | None = None) -> None:
        """End the rounds and commit the agent's state, waiting at most `seconds`; any thread may call this."""
        self._stop.set()
        self._conversation.stop()
        if self._thread is not None:
            self._thread.join(seconds)
        if self._writer is not None:
            self._writer.close(seconds)

    # -- changing while it runs ----------------------------------------------------------------------------

    def refuse_roster(self) -> None:
        """Count a roster that was refused; any thread may call this."""
        self._conversation.rejected[Reason.ROSTER] += 1

    def pardon(self) -> None:
        """Release the neighbors from quarantine; any thread may call this."""
        self._conversation.pardon()

    def apply(self, settings: AgentSettings) -> tuple[list[str], list[str]]:
        """Use other settings from the next round on; any thread may call this.

        Edges that remain keep their ledgers, and certificates are read again. Returns the names of the fields that
        change, and the names of those that need a new agent: what is averaged, and where it listens and stores.
        """
        differs = [
            f.name for f in fields(settings) if getattr(settings, f.name) != getattr(self.settings, f.name)
        ]
        waiting = [name for name in differs if name in FIXED]
        self._change = replace(settings, **{name: getattr(self.settings, name) for name in waiting})
        self._transport.wake()
        shown = [name for name in differs if name not in ("roster", "facts")]
        return [n for n in shown if n not in waiting], [n for n in shown if n in waiting]

    def _make_change(self) -> None:
        settings, self._change = self._change, None
        if settings is not None and self.changes.follow(settings):
            self.settings = settings
            self._follow_round_trips()

    # -- observing ------------------------------------------------------------------------------------------

    def observe(self, observation: ArrayLike) -> None:
        """Take one observation: a number, or a vector of `dimension` numbers. Never blocks; any thread may call this.

        It counts from the next round on, and is acknowledged (`Snapshot.acknowledged`) at the store's next
        commit. Raises InvalidInput for NaN, infinity, a number too large for the neighbors, one outside the range
        (unless it is to be clipped), or a wrong shape.
        """
        self._intake.observe(observation)

    async def observe_durable(self, observation: ArrayLike) -> None:
        """Take one observation and return when it is in the store: it then survives kill -9.

        While the disk is full it waits; limit that with asyncio.timeout if it matters. Raises GossamerError if
        the agent stops first.
        """
        if self._writer is None:
            raise Unsupported(
                "must be set for durable observations, but this agent has none; give it a path",
                parameter="store",
            )
        number = self._intake.observe(observation)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._writer.wait_for(number, loop, done)
        await done

    # -- reading --------------------------------------------------------------------------------------------

    @property
    def estimate(self) -> Any:
        """The network's average as this agent knows it now: a float (dimension 1) or an array (n,)."""
        return self._reader.estimate(self.settings)

    @property
    def standard_error(self) -> Any:
        """Standard error of `estimate`, in the same shape, from noise and from mixing after a change."""
        return self._reader.standard_error(self.settings)

    @property
    def snapshot(self) -> Snapshot:
        """The agent at the end of its latest round."""
        return self._reader.snapshot(
            self.settings,
            self.concerns.copy().values(),
            acknowledged=self._acknowledged,
            stopped=self._stop.is_set(),
        )

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
            # At a slow pace, a neighbor that misses the first round would be missing for long.
            self._conversation.gather(
                max(timeout_of(self.settings), min((self.settings.pace or 0.0) / 2, _GATHERING))
            )
            self._play_rounds()
            self._finish()
        except Exception as failure:  # whatever it is, the program that runs the agent must see it
            log.exception("%s stopped", self.settings.label)
            self._failure = failure
            self._stop.set()
            self._intake.close()
            if self._writer is not None:
                self._writer.give_up()

    def _play_rounds(self) -> None:
        pacer = Pacer(self._conversation, self._stop, self.settings.pace or 0.0, self._clock)
        follow_due = self._clock()
        named: set[int] = set()
        while not self._stop.is_set():
            if self._change is not None:
                self._make_change()
            if self.changes.busy:
                self.changes.look()
                self._loop.resting = self.changes.leaving != STAYS
            if (now := self._clock()) >= follow_due:
                self._follow_round_trips()
                follow_due = now + _FOLLOW_EVERY
            pace = self.settings.pace or 0.0
            resets = self._ledger.overgrowth.resets
            self._loop.play(pacer.begin(pace))
            self._reader.note_round()
            if self._ledger.overgrowth.resets > resets:
                log.warning(
                    "%s starts over with its own observations: its flows were %.0e times larger than all its values; a "
                    "member may have lied. A range ([observations] range) bounds what members can claim",
                    self.settings.label,
                    OVERGROWN,
                )
            if (limits := self._ledger.limits) is not None and not named.issuperset(limits.strained):
                named.update(limits.strained)
                log.warning("%s: %s", self.settings.label, strained(limits, self.settings))
            if self._writer is not None:
                self._commit(wait=False)
            if self._callbacks:
                for callback in tuple(self._callbacks):
                    callback(self.snapshot)
            pacer.wait(pace)

    def _finish(self) -> None:
        """Tell the neighbors that this agent stops, and commit the last observations."""
        if self.farewell:
            self._conversation.part((), self.farewell)
        else:
            self.changes.say_goodbye()
        self._intake.close()
        self._loop.last()
        self._commit(wait=True)

    def _follow_round_trips(self) -> None:
        """Adapt the timeouts to the measured round trips, unless the settings fix them."""
        if self.settings.timeout == AUTO:
            trips = self._reader.trips.items()
            self._conversation.await_each({id: timeout_of(self.settings, trip) for id, trip in trips})

    def _commit(self, *, wait: bool) -> None:
        writer, taken = self._writer, self._loop.taken
        if writer is not None and (wait or writer.wants(self.settings.commit)):
            position = self._intake.position(taken)
            own = self._own()
            state, leaving = self._ledger.remember(), self.changes.leaving
            roster = self.settings.roster
            writer.give(Saved(self._conversation.round, state, position, own, leaving, roster), taken)

    def _acknowledge(self, saved: Saved) -> None:
        self._ledger.durable = saved.ledger.serial
        self._acknowledged = int(saved.ledger.samples)
        self._intake.stored(saved.position)
