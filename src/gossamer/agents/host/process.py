"""One agent as a process, as `gossamer agent` and `gossamer fleet up` run it.

Estimates go to standard output as JSON lines, logs to standard error as JSON lines, and the latest snapshot to
the agent's status file (see `status.py`), which `gossamer fleet status` reads.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.agents.agent import Agent
from gossamer.agents.config.urls import Url
from gossamer.agents.host import logs
from gossamer.agents.host.hangup import Terminal
from gossamer.agents.host.hosting import Hosted
from gossamer.agents.host.options import Options
from gossamer.agents.host.outlet import Outlet
from gossamer.agents.host.status import estimate_line
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.snapshot import Snapshot
from gossamer.errors import GossamerError, InvalidInput, OutputError, require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

log = logging.getLogger("gossamer.agents.host.process")

_STOP_TIMEOUT = 5.0
"""Seconds in which a process ends that is asked to stop before it has read fleet.toml."""

_LAST = 0.5
"""Seconds for each last attempt of a process that did not stop in time: to commit, and to write logs."""

STOPPING = (signal.SIGINT, signal.SIGTERM)
SIGNALS = (*STOPPING, signal.SIGHUP)


class Stopping:
    """A request to stop, by SIGINT, SIGTERM or this process itself; it ends the process in any case.

    agent    its rounds end and are committed even if nothing else works
    seconds  time from the request until the process has ended
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.agent: Agent | None = None
        self.seconds = _STOP_TIMEOUT
        self._loop = asyncio.get_running_loop()
        self._begun = False
        for number in STOPPING:
            signal.signal(number, lambda number, frame: self.ask())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # delivers signals that arrived since the start

    def ask(self) -> None:
        """Stop; any thread may call this."""
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._insist, name="stopping", daemon=True).start()
        self._loop.call_soon_threadsafe(self.asked.set)

    def ask_when_standard_input_ends(self) -> None:
        """Stop when standard input is closed, because the process that started this one has ended."""

        def look() -> None:
            if not os.read(0, 4096):
                self._loop.remove_reader(0)
                log.warning("the process that started this agent has ended; stopping")
                self.ask()

        self._loop.add_reader(0, look)

    def _insist(self) -> None:
        """End the process if it has not ended in time, after a last attempt to commit."""
        time.sleep(max(self.seconds - 3 * _LAST, _LAST))
        log.error("the agent did not stop within %g s, so the process ends now", self.seconds)
        if self.agent is not None:
            self.agent.halt(_LAST)
        logs.drain(_LAST)
        os._exit(1)


async def run(
    options: Options, output: io.TextIOBase, terminal: Terminal, fleet: Fleet | None = None
) -> None:
    """Run one agent until it is asked to stop (SIGINT, SIGTERM), its rounds are over, or it fails.

    `fleet` is the content of options.fleet, if it has been read already.
    """
    stopping = Stopping()
    if options.guarded:
        stopping.ask_when_standard_input_ends()
    fleet = fleet or Fleet.read(Path(options.fleet), load=True)
    me = fleet.member(options.agent)
    logs.set_agent(me.name)
    if options.guarded and Url(options.source or me.source).kind == "-":
        raise InvalidInput(
            "must not be - (standard input) for an agent that another process started; choose another",
            parameter="source",
        )
    logs.set_level(options.level or me.level or fleet.logging.level)

    def say(snapshot: Snapshot) -> None:
        _say(estimate_line(snapshot, me.name, hosted.source), output)

    hosted = Hosted(options, fleet, report=say)
    agent, reloader = hosted.agent, hosted.reloader
    reloader.set_level = logs.set_level
    stopping.agent, stopping.seconds = agent, reloader.stop_timeout
    if isinstance(output, logs.LineFile):
        reloader.reopen = output.file.reopen
    hosted.on_look = terminal.look
    if options.rounds:
        _stop_after(agent, options.rounds, stopping)
    _on_hangup(reloader.reload, stopping, terminal)
    started = False
    try:
        async with hosted:
            started = True
            log.info(
                "started", extra={"endpoint": agent.settings.endpoint, "source": options.source or me.source}
            )
            ends = [asyncio.ensure_future(event.wait()) for event in (stopping.asked, hosted.ended)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
            stopping.ask()
    finally:
        if started:  # report its last state, after a failure too
            last = agent.snapshot
            say(last)
            log.info("stopped", extra={"round": last.round, "samples": last.samples})


def _say(line: dict[str, object], output: io.TextIOBase) -> None:
    """Write a line of output; a full disk does not end the agent, but a closed pipe does."""
    try:
        output.write(json.dumps(line) + "\n")
        output.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        log.warning("estimates cannot be written to standard output (%s)", error.strerror)


def _on_hangup(reload: Callable[[], None], stopping: Stopping, terminal: Terminal) -> None:
    """Make SIGHUP reload the settings, or stop the agent if the terminal was closed."""
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGHUP, lambda: stopping.ask() if terminal.gone else reload()
    )
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])


def _stop_after(agent: Agent, rounds: int, stopping: Stopping) -> None:
    done = 0

    def count(snapshot: Snapshot) -> None:
        nonlocal done
        done += 1
        if done >= rounds:
            stopping.ask()
            while agent.snapshot.state != "stopped":  # so that there is not one round more
                time.sleep(0.001)

    agent.subscribe(count)


def main(options: Options, fleet: Fleet | None = None) -> int:
    """Run one agent in this process; return the exit code."""
    terminal = Terminal(options.terminal)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until `run` handles them
    folder = None if options.logs is None else Path(options.logs)
    output: Outlet | logs.LineFile | None = None
    try:
        logs.set_up(options.agent, file=folder and folder / f"{options.agent}.log")
        output = Outlet(1) if folder is None else logs.LineFile(folder / f"{options.agent}.jsonl")
        asyncio.run(run(options, output, terminal, fleet))
    except GossamerError as error:
        log.error("%s", error)
        return 2 if isinstance(error, InvalidInput) else 3 if isinstance(error, OutputError) else 1
    except BrokenPipeError:
        log.error("standard output was closed, so estimates cannot be written")
        return 1
    except Exception as error:  # logged as JSON, like everything else
        log.error("%s", error, exc_info=error)
        return 1
    finally:
        if isinstance(output, Outlet):
            output.drain(_LAST)
        logs.drain(_LAST)
    return 0


if __name__ == "__main__":
    sys.exit(main(Options.parse(sys.argv[1])))
