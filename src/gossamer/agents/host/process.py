"""One agent as a process: what `gossamer agent` runs, and what `gossamer fleet up` starts many of.

Estimates go to standard output as JSON lines, logs to standard error as JSON lines, and the latest snapshot to
the agent's status file (see `status.py`), where `gossamer fleet status` finds it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gossamer.agents.agent import Agent, usual_transport
from gossamer.agents.fleet.certificates import expires
from gossamer.agents.fleet.file import Fleet
from gossamer.agents.host import logs
from gossamer.agents.host.locks import lock
from gossamer.agents.host.source_kinds import AnySource
from gossamer.agents.host.sources import parse_source
from gossamer.agents.host.status import STATUS, StatusFile, estimate_line
from gossamer.agents.settings import AgentSettings
from gossamer.agents.snapshot import Snapshot
from gossamer.agents.transports.base import Faulty
from gossamer.errors import GossamerError, InvalidInput, OutputError, require
from gossamer.faults import Bursts, Delay, Faults, Loss, Partition

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

log = logging.getLogger("gossamer.agents.host.process")

STOPPING = (signal.SIGINT, signal.SIGTERM)
_STATUS_EVERY = 0.5


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run one agent; `None` leaves it to fleet.toml.

    fleet     path of fleet.toml
    agent     the agent's number or name
    source    where its observations come from
    every     seconds between rounds; 0: as fast as the neighbors answer
    store     directory of the store; None: nothing survives a crash
    metrics_port, metrics_host   where Prometheus finds the metrics; port 0: nowhere
    insecure  plaintext, without certificates
    report    seconds between two lines of output
    rounds    stop after this many rounds of this run; 0: run until stopped
    guarded   stop when standard input is closed, that is, when the parent process is gone
    loss, burst, delay, partition   faults to inject into what this agent sends, for trials; None: none
    claim     descriptor of the agent's lock, if the parent process holds it already (see `claim`)
    """

    fleet: str
    agent: str
    source: str | None = None
    every: float | None = None
    store: str | None = None
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"
    insecure: bool = False
    report: float = 1.0
    rounds: int = 0
    guarded: bool = False
    claim: int | None = None
    loss: Loss | None = None
    burst: Bursts | None = None
    delay: Delay | None = None
    partition: tuple[Partition, ...] = ()

    def text(self) -> str:
        """The options as the one argument of `python -m gossamer.agents.host.process`."""
        return msgspec.json.encode(self).decode()


async def run(options: Options, output: TextIO) -> None:
    """Run one agent until it is told to stop (SIGINT, SIGTERM), its rounds are over, or it fails."""
    stopped = _stop_signals(options.guarded)
    path = Path(options.fleet)
    fleet = Fleet.read(path)
    me = fleet.member(options.agent)
    if options.claim is None:
        with suppress(OSError):  # nothing can be written here; the status file reports it
            claim(path.parent, me.name)
    store = _store(options.store, me.name)
    settings = fleet.settings(me.id, path.parent, insecure=options.insecure, every=options.every, store=store)
    source = parse_source(options.source or me.source, settings.dimension, me.id)
    if options.guarded and (options.source or me.source) == "-":
        raise InvalidInput(
            "source must not be - (standard input) for an agent that another process started; choose another"
        )
    end = None if settings.tls is None else expires(settings.tls.certificate)
    _warn_of_expiry(end)
    agent = Agent(settings, source=source, transport=_faulty(options, settings))
    if options.rounds:
        _stop_after(agent, options.rounds, stopped)
    with ExitStack() as stack:
        if options.metrics_port:
            from gossamer.agents.host.metrics import AgentCollector, serve

            collector = AgentCollector(
                lambda: agent.snapshot,
                me.name,
                bad_observations=lambda: source.bad,
                certificate_end=end.timestamp() if end else None,
            )
            stack.callback(serve(collector, options.metrics_port, options.metrics_host))
        status: StatusFile | None = None
        try:
            async with agent:
                log.info(
                    "started", extra={"endpoint": settings.endpoint, "source": options.source or me.source}
                )
                status = StatusFile(path.parent / STATUS / f"{me.name}.json", me.name, source)
                await _report(agent, me.name, source, options.report, output, status, stopped)
        finally:
            if status is not None:  # the agent ran: report its last state, after a failure too
                last = agent.snapshot
                status.write(last)
                _say(estimate_line(last, me.name, source), output)
                log.info("stopped", extra={"round": last.round, "samples": last.samples})


def claim(directory: Path, name: str) -> int:
    """Take the lock of the agent `name`, held until the descriptor is closed; raise if it already runs."""
    path = directory / STATUS / f"{name}.lock"
    path.parent.mkdir(exist_ok=True)
    if (descriptor := lock(path)) is None:
        raise InvalidInput(
            f"{name} is already running from {directory.resolve()}; stop it first, or see `gossamer fleet status`"
        )
    return descriptor


async def _report(
    agent: Agent,
    name: str,
    source: AnySource,
    every: float,
    output: TextIO,
    status: StatusFile,
    stopped: asyncio.Event,
) -> None:
    """Write status and estimates at their times until the agent is stopped."""
    status_due = report_due = time.monotonic()
    while not stopped.is_set() and (now := agent.snapshot).state != "stopped":
        if time.monotonic() >= status_due:
            status.write(now)
            status_due += _STATUS_EVERY
        if time.monotonic() >= report_due:
            _say(estimate_line(now, name, source), output)
            report_due = max(report_due + every, time.monotonic())
        with suppress(TimeoutError):
            wait = min(status_due, report_due) - time.monotonic()
            await asyncio.wait_for(stopped.wait(), max(wait, 0.001))


def _say(line: dict[str, Any], output: TextIO) -> None:
    """Print a line of output; a disk that is full does not end an agent, a reader that is gone does."""
    try:
        output.write(json.dumps(line) + "\n")
        output.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        log.warning("estimates cannot be written to standard output (%s)", error.strerror)


def _stop_signals(guarded: bool) -> asyncio.Event:
    """An event that is set by SIGINT, SIGTERM and, if `guarded`, by the end of standard input."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, stopped.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # delivers those that arrived since the start
    if guarded:

        def look() -> None:
            if not os.read(0, 4096):
                loop.remove_reader(0)
                log.warning("the process that started this agent has ended; stopping")
                stopped.set()

        loop.add_reader(0, look)
    return stopped


def _stop_after(agent: Agent, rounds: int, stopped: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    done = 0

    def count(snapshot: Snapshot) -> None:
        nonlocal done
        done += 1
        if done >= rounds:
            loop.call_soon_threadsafe(stopped.set)
            while agent.snapshot.state != "stopped":  # not one round more
                time.sleep(0.001)

    agent.subscribe(count)


def _store(directory: str | None, name: str) -> Path | None:
    if directory is None:
        return None
    try:
        Path(directory).mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidInput(
            f"store must be a directory that can be written, got {directory} ({error.strerror})"
        ) from None
    return Path(directory) / f"{name}.sqlite"


def _faulty(options: Options, settings: AgentSettings) -> Faulty | None:
    """A transport with the faults of the options, if there are any: seed 0, so a simulation can lose the same."""
    given = (options.loss, options.burst, options.delay, *options.partition)
    faults = Faults(*(fault for fault in given if fault is not None))
    if not faults.items:
        return None
    log.warning("faults are injected into what this agent sends: %s", ", ".join(map(str, faults.items)))
    return Faulty(usual_transport(settings), settings.id, faults.bind(seed=0))


def _warn_of_expiry(end: datetime | None) -> None:
    if end is None:
        log.warning("running without TLS: anyone on the network can read and forge messages")
        return
    days = (end - datetime.now(UTC)).total_seconds() / 86400
    if days < 0:
        raise InvalidInput(
            f"this agent's certificate expired {-days:.0f} days ago, so its neighbors would refuse it; "
            "run `gossamer fleet renew` where the authority is, and copy the new files here"
        )
    if days < 30:
        log.warning("this agent's certificate expires in %d days; run `gossamer fleet renew`", int(days))


def main(options: Options) -> int:
    """Run one agent in this process; return the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # until `run` handles them
    logs.set_up(options.agent)
    try:
        with logs.capture_zenoh() as output:
            asyncio.run(run(options, output))
    except GossamerError as error:
        log.error("%s", error)
        return 2 if isinstance(error, InvalidInput) else 3 if isinstance(error, OutputError) else 1
    except BrokenPipeError:
        log.error("standard output was closed, so estimates cannot be written")
        return 1
    except Exception as error:
        # Whatever else ends an agent goes into its log, which is JSON to the last line. Zenoh's errors (a port
        # in use, a bad certificate) explain themselves; anything else needs its traceback.
        expected = type(error).__module__.startswith("zenoh")
        log.error("%s", logs.plain(str(error)), exc_info=None if expected else error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Options)))
