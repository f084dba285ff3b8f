"""gossamer fleet up and gossamer agent: run all agents of a fleet, or one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from gossamer.agents.host.hangup import Terminal
from gossamer.cli.fleet_options import (
    AgentSource,
    End,
    Every,
    LogLevel,
    Report,
    Sinks,
    Source,
    level_of,
    seconds_of,
)
from gossamer.cli.fleet_table import fleet_line, fleet_table
from gossamer.cli.options import MESSAGE_FAULTS, FaultFlags, FleetFile, grouped
from gossamer.cli.output import console

if TYPE_CHECKING:
    from gossamer.agents.fleet.local import LocalFleet

_PLAIN_EVERY = 5.0
_LOOK_EVERY = 0.1
_FRAMES = 4.0

Store = Annotated[
    Path | None, typer.Option(help="Directory in which an agent saves its state, to resume after a crash.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Use plaintext without certificates; for tests only.")
]
METRICS_HOST: dict[str, object] = {
    "help": "Address to serve the metrics on.",
    "show_default": "as in fleet.toml, or 127.0.0.1",
}
MetricsHost = Annotated[str | None, typer.Option(**METRICS_HOST)]


@grouped(MESSAGE_FAULTS)
def up(
    fleet: FleetFile,
    source: Source = None,
    sink: Sinks = None,
    every: Every = None,
    store: Store = None,
    only: Annotated[
        str | None, typer.Option(help="Run only these agents, by number or name, such as 0-3,7.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Serve the metrics of agent i on this port + i, such as 9464; 0 disables them. "
            "[default: as in fleet.toml]"
        ),
    ] = None,
    metrics_host: MetricsHost = None,
    insecure: Insecure = False,
    log_level: LogLevel = None,
    restart: Annotated[
        bool,
        typer.Option("--restart/--no-restart", help="Restart agents that fail, after a growing delay."),
    ] = True,
    for_: Annotated[str | None, typer.Option("--for", help='Stop after this long, such as "30s".')] = None,
    dashboard: Annotated[
        bool,
        typer.Option("--dashboard", help="Also show the fleet in the browser, at the printed URL."),
    ] = False,
    *,
    faults: FaultFlags,
) -> None:
    """Run all agents of a fleet on this machine, with a live table, until Ctrl-C.

    To try out faults, inject them into the messages of the agents: --loss, --burst, --delay, --partition.
    The exit code is 1 if an agent had to be killed, or had exited on its own and was not running at the end.
    """
    from gossamer.agents.config.tables import duration
    from gossamer.agents.fleet.local import LocalFleet
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.cli.faults import agent_faults

    seconds = None if for_ is None else duration("--for", for_)
    agents = LocalFleet(
        fleet,
        only=only,
        restart=restart,
        source=source,
        sinks=None if sink is None else tuple(sink),
        every=seconds_of("rounds.every", "--every", every),
        store=None if store is None else str(store.resolve()),
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        insecure=insecure,
        level=level_of(log_level),
        faults=agent_faults(Fleet.read(fleet, load=True), **faults),
    )
    screen = console()
    if insecure:
        warning = "anyone on the network can read and forge messages"
        screen.print(Text.assemble(("plaintext:", "bold red"), " ", warning))
    terminal = Terminal()
    with _signals() as caught, _page(fleet, screen, dashboard) as address, agents:
        _watch(agents, screen, caught, terminal, seconds, address)
        early = agents.missing()
    screen.print("all agents stopped", style="dim")
    _complain(screen, agents, early)
    if agents.killed or early:
        raise typer.Exit(1)


def _complain(screen: Console, agents: LocalFleet, early: int) -> None:
    """Report agents that failed, were killed or exited on their own."""
    if agents.restarts:
        again = ", ".join(f"{name} ({times})" for name, times in agents.restarts.items())
        screen.print(Text(f"started again after a failure: {again}", style="yellow"), soft_wrap=True)
    if agents.killed:
        text = f"{', '.join(agents.killed)} did not stop in time and had to be killed"
        screen.print(Text(text, style="red"), soft_wrap=True)
    if early:
        text = f"{early} of them ended on their own; see {agents.path.parent / 'logs'}"
        screen.print(Text(text, style="red"), soft_wrap=True)


@contextmanager
def _page(fleet: Path, screen: Console, wanted: bool) -> Iterator[str]:
    """Serve the fleet's page inside the block, if requested; yields its URL."""
    if not wanted:
        yield ""
        return
    from gossamer.cli.dashboard import server_of

    server = server_of(fleet)
    serving = threading.Thread(target=server.run, name="dashboard", daemon=True)
    serving.start()
    screen.print(Text(server.address), soft_wrap=True)
    try:
        yield server.address
    finally:
        server.stop()
        serving.join(timeout=5)


def _watch(
    agents: LocalFleet,
    screen: Console,
    caught: list[int],
    terminal: Terminal,
    seconds: float | None,
    address: str = "",
) -> None:
    """Supervise and show the fleet until it is stopped, the time is up, or no agent is left."""
    start = time.monotonic()
    plain_due = start

    def passed() -> float:
        return time.monotonic() - start

    def going() -> bool:
        while caught:
            if caught.pop(0) != signal.SIGHUP or terminal.gone:
                return False
            agents.reload()
        terminal.look()
        agents.supervise()
        return agents.active() > 0 and (seconds is None or passed() < seconds)

    if not screen.is_terminal:
        while going():
            if time.monotonic() >= plain_due:
                screen.print(Text(fleet_line(agents.status(), passed())), soft_wrap=True)
                plain_due += _PLAIN_EVERY
            time.sleep(_LOOK_EVERY)
        screen.print(Text(fleet_line(agents.status(), passed())), soft_wrap=True)
        return
    name = agents.fleet.network or agents.fleet.fleet
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        while going():
            # The heading, the header and footer of the table, the URL, and up to three messages need 9 lines.
            table = fleet_table(name, agents.status(), seconds=passed(), rows=max(screen.height - 9, 1))
            live.update(Group(table, Text(address)) if address else table, refresh=True)
            time.sleep(1 / _FRAMES)
    screen.print(fleet_table(name, agents.status(), seconds=passed()))


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Catch Ctrl-C, SIGTERM and SIGHUP inside the block; yields a list of those that have arrived."""
    caught: list[int] = []

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, catch) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@grouped(MESSAGE_FAULTS)
def agent(
    fleet: FleetFile,
    id_: Annotated[str, typer.Option("--id", help="The agent's number or name.")],
    source: AgentSource = None,
    sink: Sinks = None,
    end: End = None,
    every: Every = None,
    store: Store = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Serve Prometheus metrics on this port, such as 9464; 0 disables them. [default: as in fleet.toml]",
            min=0,
            max=65535,
            envvar="GOSSAMER_METRICS_PORT",
        ),
    ] = None,
    metrics_host: Annotated[str | None, typer.Option(**METRICS_HOST, envvar="GOSSAMER_METRICS_HOST")] = None,
    insecure: Insecure = False,
    report: Report = None,
    log_level: LogLevel = None,
    rounds: Annotated[
        int, typer.Option(help="Stop after this many rounds, for example 1000; 0 runs until stopped.", min=0)
    ] = 0,
    *,
    faults: FaultFlags,
) -> None:
    """Run one agent: estimates as JSON lines on standard output, logs as JSON lines on standard error.

    To try out faults, inject them into its messages: --loss, --burst, --delay, --partition.
    """
    terminal = Terminal().descriptor
    if terminal is not None:
        os.set_inheritable(terminal, True)  # for the agent, which replaces this process
    with _signals_wait():
        _become_agent(
            fleet,
            id_,
            terminal=terminal,
            source=source,
            sinks=None if sink is None else tuple(sink),
            end=end,
            every=every,
            store=None if store is None else str(store),
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            insecure=insecure,
            report=report,
            level=level_of(log_level),
            rounds=rounds,
            faults=faults,
        )


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM and SIGHUP inside the block and, across `execv`, until the agent handles them."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _become_agent(
    fleet: Path,
    id_: str,
    *,
    source: str | None,
    every: str | None,
    report: str | None,
    insecure: bool,
    faults: FaultFlags,
    **others: Any,
) -> None:
    from gossamer.agents.host.options import Options
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.cli.faults import agent_faults

    # Mistakes are reported here as plain text; from then on, everything is JSON.
    definition = Fleet.read(fleet, load=True)
    me = definition.member(id_)
    definition.settings(me.id, fleet.parent, insecure=insecure)
    definition.source(me.id, source, others["end"], fleet.parent)
    definition.publishers(me.id, others["sinks"], fleet.parent)
    options = Options(
        fleet=str(fleet),
        agent=id_,
        source=source,
        every=seconds_of("rounds.every", "--every", every),
        insecure=insecure,
        report=seconds_of("logging.report", "--report", report),
        faults=agent_faults(definition, **faults),
        **others,
    )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more would only wait, and cost time to start
    # The agent replaces this process, because it needs a third of the memory of the whole command line.
    os.execv(sys.executable, [sys.executable, "-m", "gossamer.agents.host.process", options.text()])
