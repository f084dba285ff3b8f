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
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gossamer.agents.agent import Agent
from gossamer.agents.fleet.file import Fleet
from gossamer.agents.fleet.tables import Member
from gossamer.agents.host import files, logs
from gossamer.agents.host.following import LOOK_EVERY, Following
from gossamer.agents.host.hangup import terminal_gone
from gossamer.agents.host.options import Options
from gossamer.agents.host.source_kinds import AnySource
from gossamer.agents.host.status import STATUS, StatusFile, estimate_line
from gossamer.agents.settings import AgentSettings
from gossamer.agents.snapshot import Snapshot
from gossamer.agents.transports.base import Faulty, Transport
from gossamer.agents.transports.tls import TlsTransport
from gossamer.errors import GossamerError, InvalidInput, OutputError, require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

log = logging.getLogger("gossamer.agents.host.process")

STOPPING = (signal.SIGINT, signal.SIGTERM)
SIGNALS = (*STOPPING, signal.SIGHUP)


async def run(options: Options, output: TextIO | logs.LineFile, fleet: Fleet | None = None) -> None:
    """Run one agent until it is told to stop (SIGINT, SIGTERM), its rounds are over, or it fails.

    `fleet` is what options.fleet holds, if that is known already.
    """
    stopped = _stop_signals(options.guarded)
    path = Path(options.fleet)
    following = Following(options, fleet or Fleet.read(path), output)
    following.left = stopped.set
    me = following.me
    logs.set_level(following.level())
    if options.claim is None:
        with suppress(OSError):  # nothing can be written here; the status file reports it
            claim(path.parent, me.name)
    settings = following.settings(store=_store(options.store, me.name))
    source = following.source()
    if options.guarded and (options.source or me.source) == "-":
        raise InvalidInput(
            "source must not be - (standard input) for an agent that another process started; choose another"
        )
    _check_certificate(following.certificate_end())
    agent = Agent(settings, source=source, transport=_transport(options, settings, following))
    following.agent = agent
    agent.roster_came = lambda sender, roster: following.offer(roster, f"neighbor {sender}")
    if options.rounds:
        _stop_after(agent, options.rounds, stopped)
    _on_hangup(following.reload, stopped)
    with ExitStack() as stack:
        if address := _metrics_address(options, me):
            from gossamer.agents.host.metrics import AgentCollector
            from gossamer.agents.host.web import serve

            collector = AgentCollector(
                lambda: agent.snapshot,
                me.name,
                bad_observations=lambda: source.bad,
                certificate_end=following.known_end,
                method=settings.method.name,
                restarts=options.restarts,
            )
            stack.callback(serve(collector, *address))
        status: StatusFile | None = None
        try:
            async with agent:
                log.info(
                    "started", extra={"endpoint": settings.endpoint, "source": options.source or me.source}
                )
                file = path.parent / STATUS / f"{me.name}.json"
                status = StatusFile(
                    file, me.name, source, settings.pace, options.restarts, following.known_end
                )
                await _report(following, me.name, source, output, status, stopped)
        finally:
            if status is not None:  # the agent ran: report its last state, after a failure too
                last = agent.snapshot
                status.write(last)
                _say(estimate_line(last, me.name, source), output)
                log.info("stopped", extra={"round": last.round, "samples": last.samples})


def _metrics_address(options: Options, me: Member) -> tuple[int, str] | None:
    """Port and host of the metrics: as the options say, otherwise as fleet.toml does."""
    if options.metrics_port is None and me.metrics:
        host, _, port = me.metrics.rpartition(":")
        return int(port), host.strip("[]")
    return (options.metrics_port, options.metrics_host) if options.metrics_port else None


def claim(directory: Path, name: str) -> int:
    """Take the lock of the agent `name`, held until the descriptor is closed; raise if it already runs."""
    path = directory / STATUS / f"{name}.lock"
    files.make_folder(path.parent)
    files.check(path.with_suffix(end) for end in (".json", ".new"))
    if (descriptor := files.lock(path)) is None:
        raise InvalidInput(
            f"{name} is already running from {directory.resolve()}; stop it first, or see `gossamer fleet status`"
        )
    return descriptor


async def _report(
    following: Following,
    name: str,
    source: AnySource,
    output: TextIO | logs.LineFile,
    status: StatusFile,
    stopped: asyncio.Event,
) -> None:
    """Write status and estimates at their times, and look for what has changed, until the agent is stopped."""
    agent = following.agent
    assert agent is not None
    began = status_due = report_due = now = time.monotonic()
    look_due = now + LOOK_EVERY
    while not stopped.is_set() and (snapshot := agent.snapshot).state != "stopped":
        if now >= look_due:
            following.look()
            look_due = _next(look_due, LOOK_EVERY, now)
        if now >= status_due:
            status.write(snapshot)
            status_due = _next(status_due, status.pause(status_due - began), now)
        report_due = min(report_due, now + following.every())  # which may have become shorter
        if now >= report_due:
            _say(estimate_line(snapshot, name, source), output)
            report_due = _next(report_due, following.every(), now)
        with suppress(TimeoutError):
            wait = min(status_due, report_due, look_due) - time.monotonic()
            await asyncio.wait_for(stopped.wait(), max(wait, 0.001))
        now = time.monotonic()


def _next(due: float, every: float, now: float) -> float:
    """The first time after `now` that is a multiple of `every` after `due`; so what can wake up together does."""
    return due + every * (1 + (now - due) // every)


def _say(line: dict[str, Any], output: TextIO | logs.LineFile) -> None:
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


def _on_hangup(reload: Callable[[], None], stopped: asyncio.Event) -> None:
    """From now on SIGHUP reloads, unless it comes because the terminal was closed: then the agent stops."""
    gone = terminal_gone()
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGHUP, lambda: stopped.set() if gone() else reload()
    )
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])


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


def _transport(options: Options, settings: AgentSettings, following: Following) -> Transport:
    """TLS connections; with the faults of the options, if there are any: seed 0, so a simulation can lose the same."""
    transport = TlsTransport(settings, following.answer)
    if not (faults := options.faults).items:
        return transport
    log.warning("faults are injected into what this agent sends: %s", ", ".join(map(str, faults.items)))
    return Faulty(transport, settings.id, faults.bind(seed=0))


def _check_certificate(end: datetime | None) -> None:
    if end is None:
        log.warning("running without TLS: anyone on the network can read and forge messages")
        return
    days = (end - datetime.now(UTC)).total_seconds() / 86400
    if days < 0:
        raise InvalidInput(
            f"this agent's certificate expired {-days:.0f} days ago, so its neighbors would refuse it; "
            "run `gossamer fleet renew` where the authority is, and copy the new files here"
        )


def main(options: Options, fleet: Fleet | None = None) -> int:
    """Run one agent in this process; return the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until `run` handles them
    folder = None if options.logs is None else Path(options.logs)
    try:
        logs.set_up(options.agent, file=folder and folder / f"{options.agent}.log")
        output = (
            logs.standard_output() if folder is None else logs.LineFile(folder / f"{options.agent}.jsonl")
        )
        asyncio.run(run(options, output, fleet))
    except GossamerError as error:
        log.error("%s", error)
        return 2 if isinstance(error, InvalidInput) else 3 if isinstance(error, OutputError) else 1
    except BrokenPipeError:
        log.error("standard output was closed, so estimates cannot be written")
        return 1
    except (
        Exception
    ) as error:  # whatever else ends an agent goes into its log, which is JSON to the last line
        log.error("%s", error, exc_info=error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Options.parse(sys.argv[1])))
