"""An agent that follows its fleet's files, in a process of its own (`process.py`) or inside any program.

It applies new rosters and certificates (`reloading.py`), and optionally writes a status file and serves metrics.
Problems that may resolve by themselves degrade the agent in the meantime: a certificate that is not valid now, or an
address for the metrics that this machine does not have yet.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from gossamer.agents import files
from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings, check_endpoint
from gossamer.agents.host.options import Options
from gossamer.agents.host.reloading import LOOK_EVERY, Reloader
from gossamer.agents.host.status import STATUS, StatusFile, StatusReport, estimate_line
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.round.transport import Transport
from gossamer.agents.snapshot import Snapshot
from gossamer.agents.sources.kinds import AnySource
from gossamer.agents.sources.opening import ObservationStream, as_source
from gossamer.agents.store.agent_store import stored_roster
from gossamer.agents.transports.faulty import Faulty
from gossamer.agents.transports.tls import TlsTransport
from gossamer.errors import GossamerError, InvalidInput, OutputError

log = logging.getLogger("gossamer.agents.host.process")

Report = Callable[[Snapshot], None]

_LAST_ANSWER = 0.5
"""Seconds that a sink has for its last answer when the agent stops."""


class Hosted:
    """One agent of a fleet with its files, status and metrics; an asynchronous context manager.

    Parameters
    ----------
    options : Options
        Which agent of which fleet, and how to run it.
    fleet : Fleet, optional
        The content of options.fleet, if it has been read already.
    source : iterable or async iterable, optional
        Observations; by default those that the options or fleet.toml name.
    report : callable, optional
        Called with a snapshot every `logging.report`.

    Attributes
    ----------
    agent : Agent
    ended : asyncio.Event
        Set when the agent has stopped because it failed or was removed from the fleet.
    """

    def __init__(
        self,
        options: Options,
        fleet: Fleet | None = None,
        *,
        source: ObservationStream | None = None,
        report: Report | None = None,
    ) -> None:
        self.options = options
        self._path = Path(options.fleet)
        self._report = report
        self._stack = ExitStack()
        self._metrics_due = False
        self._task: asyncio.Task[None] | None = None
        self.on_look: Callable[[], None] = lambda: None  # called whenever files are checked
        self.ended = asyncio.Event()
        self.reloader = reloader = Reloader(options, fleet or Fleet.read(self._path, load=True))
        reloader.left = self.ended.set
        self.name = reloader.me.name
        try:
            if options.status and options.claim is None:
                with suppress(OSError):  # the folder cannot be written; the status file reports it
                    self._stack.callback(os.close, claim(self._path.parent, self.name))
            store = _store(options.store, self.name)
            reloader.begin_with(stored_roster(store))
            settings = reloader.settings(store=store)
            self.source: AnySource = (
                reloader.source() if source is None else as_source(source, reloader.dimension)
            )
            self._publishers = reloader.publishers()
            self.agent = agent = Agent(settings, source=self.source, transport=self._transport(settings))
        except BaseException:
            self._stack.close()
            raise
        reloader.agent = agent
        agent.roster_came = lambda sender, roster: reloader.offer(
            roster, f"neighbor {agent.settings.label_of(sender)}"
        )
        self._status_report = StatusReport(
            self.name, self.source, settings.pace, options.restarts, reloader.known_end
        )
        self._status: StatusFile | None = None
        if options.status:
            self._status = StatusFile(self._path.parent / STATUS / f"{self.name}.json", self._status_report)

    async def __aenter__(self) -> Agent:
        if self.options.insecure:
            log.warning("running without TLS: anyone on the network can read and forge messages")
        try:
            self._look_at_certificate()
            await self.agent.__aenter__()
        except BaseException:
            self._stack.close()
            raise
        try:
            self._serve_metrics()
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        for publisher in self._publishers:
            publisher.open()
        self._task = asyncio.create_task(self._keep())
        return self.agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure = None
        if self._task is not None:
            self._task.cancel()
            [result] = await asyncio.gather(self._task, return_exceptions=True)
            failure = None if isinstance(result, asyncio.CancelledError) else result
        for publisher in self._publishers:
            await asyncio.to_thread(publisher.close, _LAST_ANSWER)
        try:
            await self.agent.__aexit__(kind, error or failure, trace)
        finally:
            if self._status is not None:  # also after a failure
                self._status.write(self.agent.snapshot)
            self._stack.close()
        if failure is not None and error is None:
            raise failure

    async def _keep(self) -> None:
        """Write status and reports when they are due, and check for changes, while the agent runs."""
        reloader, status = self.reloader, self._status
        began = status_due = report_due = now = time.monotonic()
        look_due = now + LOOK_EVERY
        try:
            while (snapshot := self.agent.snapshot).state != "stopped":
                if now >= look_due:
                    self._look()
                    look_due = _next(look_due, LOOK_EVERY, now)
                dues = [look_due]
                if status is not None:
                    if now >= status_due:
                        status.write(snapshot)
                        status_due = _next(status_due, status.report.pause(status_due - began), now)
                    dues.append(status_due)
                if self._report is not None:
                    report_due = min(report_due, now + reloader.every())  # the period may have become shorter
                    if now >= report_due:
                        self._report(snapshot)
                        report_due = _next(report_due, reloader.every(), now)
                    dues.append(report_due)
                dues += self._publish(snapshot, now)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.ended.wait(), max(min(dues) - time.monotonic(), 0.001))
                    await asyncio.to_thread(self.agent.halt)  # it was removed from the fleet
                now = time.monotonic()
        finally:
            self.ended.set()

    def _publish(self, snapshot: Snapshot, now: float) -> list[float]:
        """Offer the answer to the sinks; return when they want the next one."""
        for k, publisher in enumerate(self._publishers):
            if now >= publisher.due:
                line = estimate_line(snapshot, self.name, self.source)
                fleet = self.agent.settings.fleet
                publisher.offer({**line, "fleet": fleet, "age": snapshot.age}, now)
            self._concern(f"sink {k}", publisher.failing, logged=True)
        return [publisher.due for publisher in self._publishers]

    # -- looking -------------------------------------------------------------------------------------------

    def _look(self) -> None:
        try:
            self.reloader.look()
            self._look_at_certificate()
            if self._metrics_due:
                self._serve_metrics()
            self.on_look()
        except (
            OSError,
            GossamerError,
        ) as error:  # no folder, or no descriptor left: the next look may see more
            log.warning("the agent's files cannot be checked: %s", error)

    def _look_at_certificate(self) -> None:
        """Degrade the agent while its certificate is not valid, because its neighbors refuse it."""
        concern = ""
        with suppress(GossamerError):  # the file cannot be read now
            concern = _invalid(self.reloader.validity())
        self._concern("certificate", concern)

    def _serve_metrics(self) -> None:
        """Serve metrics and status; if this machine does not have the address yet, try again at the next look."""
        if (address := self._metrics_address()) is None:
            return
        from gossamer.agents.host.metrics import AgentCollector
        from gossamer.agents.host.web import AddressMissing, serve

        collector = AgentCollector(
            lambda: self.agent.snapshot,
            self.name,
            bad_observations=lambda: self.source.bad,
            certificate_end=self.reloader.known_end,
            method=self.agent.settings.method.name,
            restarts=self.options.restarts,
        )
        try:
            me = self.reloader.me
            names = [endpoint.rpartition(":")[0] for endpoint in (me.metrics, me.endpoint)]
            self._stack.callback(serve(collector, self._status_now, *address, names))
            self._metrics_due = False
            self._concern("metrics", "")
        except AddressMissing as error:
            self._metrics_due = True
            self._concern("metrics", str(error))

    def _status_now(self) -> str:
        return self._status_report.content(self.agent.snapshot)

    def _concern(self, subject: str, text: str, *, logged: bool = False) -> None:
        """Degrade the agent while `text` is not empty, and log the change, unless it is `logged` already."""
        if text == self.agent.concerns.get(subject, ""):
            return
        before = self.agent.concerns.pop(subject, "")
        if text:
            self.agent.concerns[subject] = text
        if not logged and text:
            log.warning("%s", text)
        elif not logged:
            log.info("no longer: %s", before)

    def _metrics_address(self) -> tuple[int, str] | None:
        """Port and host of the metrics, from the options or from fleet.toml; None if there are none."""
        host, _, port = self.reloader.me.metrics.rpartition(":")
        wanted = self.options.metrics_port if self.options.metrics_port is not None else int(port or 0)
        return (wanted, self.options.metrics_host or host.strip("[]") or "127.0.0.1") if wanted else None

    def _transport(self, settings: AgentSettings) -> Transport:
        """TLS connections, with the faults of the options; seed 0, so that a simulation can reproduce them."""
        transport = TlsTransport(settings, self.reloader.answer)
        if not (faults := self.options.injected).items:
            return transport
        log.warning(
            "faults are injected into the messages of this agent: %s", ", ".join(map(str, faults.items))
        )
        return Faulty(transport, settings.id, faults.bind(seed=0))


@asynccontextmanager
async def joined(
    fleet: str | Path,
    agent: str | int,
    *,
    source: ObservationStream | str | None = None,
    store: str | Path | None = None,
    metrics: bool | str = False,
    status: bool = False,
    insecure: bool = False,
    sinks: Sequence[str] = (),
) -> AsyncIterator[Agent]:
    """Run an agent of a fleet inside an asyncio program; `running` does the same for other programs.

    The agent follows changes of rosters and certificates, like one in a process of its own.

    Parameters
    ----------
    fleet : path
        The fleet's file; its roster and the agent's certificate are in the same folder.
    agent : str or int
        Name or number of the agent in the fleet.
    source : iterable, async iterable or str, optional
        Observations besides those given to `Agent.observe`: values, or a source such as "csv:FILE,follow".
    store : path, optional
        Directory of its store, NAME.sqlite; without one, nothing survives a crash.
    metrics : bool or str
        Address "HOST:PORT" on which to serve metrics and status; True uses the address in fleet.toml.
    status : bool
        Whether to write a status file next to fleet.toml, for `gossamer fleet status` and the fleet's page.
    insecure : bool
        Whether to connect in plaintext, without certificates, which is only for tests.
    sinks : sequence of str
        URLs where to publish its answers, such as "mqtt://broker".

    See Also
    --------
    running : The same for a program that does not use asyncio.
    Fleet : The file that describes a fleet.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> from pathlib import Path
    >>> async def main(folder):
    ...     fleet = gs.agents.Fleet.create(gs.Network.path(2), endpoints=["127.0.0.1:7391", "127.0.0.1:7392"])
    ...     async with gs.agents.joined(fleet.write(Path(folder)), "agent0") as agent:
    ...         agent.observe(21.5)
    ...     return agent.estimate
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(main(folder))
    21.5
    """
    host, _, port = metrics.rpartition(":") if isinstance(metrics, str) else ("", "", "")
    options = Options(
        fleet=str(fleet),
        agent=str(agent),
        source=source if isinstance(source, str) else None,
        store=None if store is None else str(store),
        metrics_port=int(port) if port.isdigit() else None if metrics is True else 0,
        metrics_host=host.strip("[]") or None,
        status=status,
        insecure=insecure,
        sinks=tuple(sinks),
    )
    if isinstance(metrics, str):
        check_endpoint("metrics", metrics)
    given = None if isinstance(source, str) else () if source is None else source
    async with Hosted(options, source=given) as made:
        yield made


@contextmanager
def running(fleet: str | Path | AgentSettings, *given: Any, **options: Any) -> Iterator[Agent]:
    """Run an agent in a program that does not use asyncio; its event loop runs in a thread of its own.

    Parameters
    ----------
    fleet : path or AgentSettings
        The fleet's file, or the settings of an agent.
    *given
        The agent's name or number if `fleet` is a file, and nothing otherwise.
    **options
        The options of `joined` after a fleet's file, those of `Agent` after settings.

    See Also
    --------
    joined : A member of a fleet, configured by the fleet's file.
    gossamer.Agent : The agent, to be run by the caller.

    Examples
    --------
    >>> settings = gs.AgentSettings(0, (), method=gs.AnytimeSDA("local-heavy-ball"))
    >>> with gs.agents.running(settings, transport=gs.agents.Memory().transport(0, ())) as agent:
    ...     agent.observe(21.5)
    >>> agent.estimate
    21.5
    """
    ready: Future[tuple[Agent, Callable[[], object]]] = Future()

    async def live() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        entered: AbstractAsyncContextManager[Agent] = (
            Agent(fleet, *given, **options)
            if isinstance(fleet, AgentSettings)
            else joined(fleet, *given, **options)
        )
        async with entered as agent:
            ready.set_result((agent, lambda: loop.call_soon_threadsafe(stopped.set)))
            await stopped.wait()

    def main() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            if ready.done():
                ended.append(error)
            else:
                ready.set_exception(error)

    ended: list[BaseException] = []
    thread = threading.Thread(target=main, name="gossamer", daemon=True)
    thread.start()
    agent, stop = ready.result()
    try:
        yield agent
    finally:
        with suppress(RuntimeError):  # its loop has ended
            stop()
        thread.join()
    if ended:
        raise ended[0]


def claim(directory: Path, name: str) -> int:
    """Take the lock of the agent `name`, which is held until the descriptor is closed; raise if it already runs."""
    path = directory / STATUS / f"{name}.lock"
    files.make_folder(path.parent)
    files.check(path.with_suffix(end) for end in (".json", ".new"))
    if (descriptor := files.lock(path)) is None:
        raise InvalidInput(
            f"{name} is already running from {directory.resolve()}; stop it first, or see `gossamer fleet status`"
        )
    return descriptor


def _next(due: float, every: float, now: float) -> float:
    """Return the first time after `now` that is a multiple of `every` after `due`, so that events with related periods
    share wake-ups."""
    return due + every * (1 + (now - due) // every)


def _store(directory: str | None, name: str) -> Path | None:
    if directory is None:
        return None
    try:
        Path(directory).mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OutputError(
            parameter="store",
            required="a directory that can be written",
            got=f"{directory} ({error.strerror})",
        ) from None
    return Path(directory) / f"{name}.sqlite"


def _invalid(validity: tuple[datetime, datetime] | None) -> str:
    """Return why a certificate is not valid now; empty if it is valid, or if there is none."""
    now = datetime.now(UTC)
    if validity is None or validity[0] <= now < validity[1]:
        return ""
    if now < validity[0]:
        return (
            f"this agent's certificate is valid from {validity[0]:%Y-%m-%d %H:%M} UTC on, and its clock says "
            f"{now:%Y-%m-%d %H:%M}: its neighbors refuse it until then; set the clock"
        )
    return (
        f"this agent's certificate expired on {validity[1]:%Y-%m-%d %H:%M} UTC, and its clock says "
        f"{now:%Y-%m-%d %H:%M}: its neighbors refuse it; run `gossamer fleet renew` where the authority is and copy "
        "the new files here, or set the clock"
    )
