"""gossamer fleet up and gossamer agent: agents that run, many of them or one."""

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
from gossamer.cli.fleet_table import fleet_line, fleet_table
from gossamer.cli.options import SOURCE_HELP, Burst, Delay, FleetFile, Loss, Partition, Source
from gossamer.cli.output import console
from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    from gossamer.agents.fleet.local import LocalFleet

_PLAIN_EVERY = 5.0
_LOOK_EVERY = 0.1
_FRAMES = 4.0
_SHORTEST_REPORT = 0.01

Every = Annotated[
    str | None, typer.Option(help='Time between rounds, such as "100ms"; 0: as fast as neighbors answer.')
]
Store = Annotated[
    Path | None, typer.Option(help="Directory where an agent saves its state, to continue after a crash.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plaintext, no certificates: for tests only.")]
METRICS_HOST_HELP = "Address to serve the metrics on. [default: as in fleet.toml, or 127.0.0.1]"
MetricsHost = Annotated[str | None, typer.Option(help=METRICS_HOST_HELP)]
LogLevel = Annotated[
    str | None, typer.Option(help="debug, info, warning or error; otherwise as fleet.toml says.")
]


def up(
    fleet: FleetFile,
    source: Source = None,
    every: Every = None,
    store: Store = None,
    only: Annotated[str | None, typer.Option(help="Only these agents, numbers or names: 0-3,7.")] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Serve agent i's metrics on this port + i; 0: none. Otherwise as in fleet.toml."),
    ] = None,
    metrics_host: MetricsHost = None,
    insecure: Insecure = False,
    log_level: LogLevel = None,
    restart: Annotated[
        bool,
        typer.Option("--restart/--no-restart", help="Start agents that fail again, after a growing delay."),
    ] = True,
    for_: Annotated[str | None, typer.Option("--for", help='Stop after this long, such as "30s".')] = None,
    dashboard: Annotated[
        bool,
        typer.Option(
            "--dashboard", help="Also show the fleet in the browser, at the address that is printed."
        ),
    ] = False,
    loss: Loss = None,
    burst: Burst = None,
    delay: Delay = None,
    partition: Partition = None,
) -> None:
    """Run all agents of a fleet on this machine, with a live table, until Ctrl-C.

    For a trial, faults can be injected into what the agents send: --loss, --burst, --delay, --partition.
    The exit code is 1 if an agent had to be killed, or had ended on its own and was not running at the end.
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
        every=None if every is None else duration("--every", every),
        store=None if store is None else str(store.resolve()),
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        insecure=insecure,
        level=_level(log_level),
        faults=agent_faults(Fleet.read(fleet), loss=loss, burst=burst, delay=delay, partition=partition),
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
    """Say which agents did not do what they were told."""
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
    """Serve the fleet's page inside the block, if that is wanted; yields its address."""
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
    """Supervise and show the fleet until it is stopped, its time is over, or no agent is left."""
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
            # The heading, the table's head and foot, the address, and up to three complaints need 9 lines.
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


def _level(text: str | None) -> str | None:
    from gossamer import checks
    from gossamer.agents.config.tables import LEVELS

    return None if text is None else checks.choice("log_level", text, LEVELS)


def agent(
    fleet: FleetFile,
    id_: Annotated[str, typer.Option("--id", help="The agent's number or name.")],
    source: Annotated[str | None, typer.Option(help=SOURCE_HELP, envvar="GOSSAMER_SOURCE")] = None,
    end: Annotated[
        str | None,
        typer.Option(
            help="If its command (cmd:) ends without an error: fail, restart or stop. [default: fail]",
            envvar="GOSSAMER_END",
        ),
    ] = None,
    every: Every = None,
    store: Store = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Serve Prometheus metrics on this port; 0: none. Otherwise as in fleet.toml.",
            min=0,
            max=65535,
            envvar="GOSSAMER_METRICS_PORT",
        ),
    ] = None,
    metrics_host: Annotated[
        str | None, typer.Option(help=METRICS_HOST_HELP, envvar="GOSSAMER_METRICS_HOST")
    ] = None,
    insecure: Insecure = False,
    report: Annotated[
        str | None, typer.Option(help='Time between estimates on standard output, such as "1s".')
    ] = None,
    log_level: LogLevel = None,
    rounds: Annotated[
        int, typer.Option(help="Stop after this many rounds; 0: run until stopped.", min=0)
    ] = 0,
    loss: Loss = None,
    burst: Burst = None,
    delay: Delay = None,
    partition: Partition = None,
) -> None:
    """Run one agent: estimates as JSON lines on standard output, logs as JSON lines on standard error.

    For a trial, faults can be injected into what it sends: --loss, --burst, --delay, --partition.
    """
    terminal = Terminal().descriptor
    if terminal is not None:
        os.set_inheritable(terminal, True)  # for the agent, which takes the place of this process
    with _signals_wait():
        _become_agent(
            fleet,
            id_,
            terminal=terminal,
            source=source,
            end=end,
            every=every,
            store=None if store is None else str(store),
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            insecure=insecure,
            report=report,
            level=_level(log_level),
            rounds=rounds,
            faults={"loss": loss, "burst": burst, "delay": delay, "partition": partition},
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
    faults: dict[str, Any],
    **others: Any,
) -> None:
    from gossamer.agents.config.tables import duration
    from gossamer.agents.host.options import Options
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.cli.faults import agent_faults

    # Mistakes are reported here, to a person; from then on, everything is JSON.
    found = Fleet.read(fleet)
    me = found.member(id_)
    found.settings(me.id, fleet.parent, insecure=insecure)
    found.source(me.id, source, others["end"])
    seconds = None if report is None else duration("--report", report)
    if seconds is not None and seconds < _SHORTEST_REPORT:
        raise InvalidInput(f'--report must be a time of at least "10ms", got {report!r}')
    options = Options(
        fleet=str(fleet),
        agent=id_,
        source=source,
        every=None if every is None else duration("--every", every),
        insecure=insecure,
        report=seconds,
        faults=agent_faults(found, **faults),
        **others,
    )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more would only wait, and cost time to start
    # The agent takes the place of this process: it needs a third of the memory that the whole command line does.
    os.execv(sys.executable, [sys.executable, "-m", "gossamer.agents.host.process", options.text()])
