"""gossamer agent, gossamer fleet init|up|status|renew: the method deployed on real machines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from gossamer.cli.commands import FlagCommand, refuse
from gossamer.cli.fleet_table import fleet_line, fleet_table
from gossamer.cli.options import EXAMPLES, AsJson, Burst, Delay, Loss, Partition, Weights
from gossamer.cli.output import console
from gossamer.errors import InvalidInput, OutputError

if TYPE_CHECKING:
    from gossamer.agents.fleet.file import Fleet
    from gossamer.agents.fleet.launcher import LocalFleet
    from gossamer.agents.fleet.tables import MethodTable
    from gossamer.methods import Method
    from gossamer.networks import Network

fleet_app = typer.Typer(name="fleet", help="Create, run and inspect a fleet of agents.", no_args_is_help=True)

_PLAIN_EVERY = 5.0
_FRAMES = 4.0
_SHORTEST_REPORT = 0.01

FleetFile = Annotated[Path, typer.Argument(help="The fleet's file, fleet.toml.")]
Source = Annotated[
    str | None,
    typer.Option(
        help="Observations: - (standard input), csv:FILE or csv:FILE,follow, cmd:COMMAND, sim:MEAN,STD,SEED."
    ),
]
Every = Annotated[
    str | None, typer.Option(help='Time between rounds, such as "100ms"; 0: as fast as neighbors answer.')
]
Store = Annotated[
    Path | None, typer.Option(help="Directory where an agent saves its state, to continue after a crash.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plaintext, no certificates: for tests only.")]
MetricsHost = Annotated[str, typer.Option(help="Address to serve the metrics on.")]


@fleet_app.command(cls=FlagCommand)
def init(
    topology: Annotated[
        str | None,
        typer.Option(help=f"A network by name ({EXAMPLES}) or a file: edge list, matrix, GraphML, ..."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write.")] = Path("fleet"),
    edges: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --topology: a file of edges, two agents per line, named by their addresses "
            "(hostA:7447 hostB:7447); agents that are only numbered (0 1) run on this machine."
        ),
    ] = None,
    hosts: Annotated[Path | None, typer.Option(help="With --edges: a file of lines NAME HOST:PORT.")] = None,
    weights: Weights = "metropolis",
    method: Annotated[
        str,
        typer.Option(help="The method: anytime-sda, ssda, NAME:parameter=value, or FILE.py:MyMethod."),
    ] = "anytime-sda",
    dimension: Annotated[int, typer.Option(help="Numbers in one observation.")] = 1,
    every: Annotated[
        str, typer.Option(help='Time between rounds; "0": as fast as neighbors answer.')
    ] = "100ms",
    source: Source = None,
    port: Annotated[int, typer.Option(help="First port of a fleet on this machine.")] = 7447,
    name: Annotated[str, typer.Option(help="Name of the fleet.")] = "gossamer",
    seed: Annotated[int, typer.Option(help="Seed for random networks and simulated sensors.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite fleet.toml; the certificate authority is kept.")
    ] = False,
) -> None:
    """Write fleet.toml, a private certificate authority and a certificate for each agent."""
    from gossamer.agents.fleet.file import Fleet, simulated_sources
    from gossamer.agents.fleet.hosts import labels_are_addresses, names_and_endpoints, read_hosts
    from gossamer.agents.fleet.tables import ObservationsTable, RoundsTable
    from gossamer.cli.parsing import parse_network
    from gossamer.networks import Network

    if (topology is None) == (edges is None):
        raise InvalidInput("a fleet needs a network: give either --topology NAME_OR_FILE or --edges FILE")
    if hosts is not None and edges is None:
        raise InvalidInput("--hosts says where the agents of an edge list are; give --edges as well")
    if topology is not None:
        network = Network.of(parse_network(topology, weights, seed))
    else:
        assert edges is not None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* was guessed to be edge-list")  # as the flag says
            network = Network.read(edges, weights)
    here = topology is not None or (hosts is None and not labels_are_addresses(network))
    if here:
        last = 65536 - network.agents
        if not 1 <= port <= last:
            raise InvalidInput(
                f"--port is the first of {network.agents} ports in a row, so it must be from 1 to {last}, got {port}"
            )
        names = [f"agent{i}" for i in range(network.agents)]
        endpoints = [f"127.0.0.1:{port + i}" for i in range(network.agents)]
        sources = simulated_sources(network.agents, seed)
    else:
        refuse("port", "where agents have addresses of their own")
        names, endpoints = names_and_endpoints(network, None if hosts is None else read_hosts(hosts))
        sources = ["-"] * network.agents
    chosen, own_file = _method(method)
    made = Fleet.create(
        network,
        names=names,
        endpoints=endpoints,
        sources=sources if source is None else [source] * network.agents,
        fleet=name,
        method=chosen,
        directory=None if own_file is None else own_file.parent,
        observations=ObservationsTable(dimension=dimension),
        rounds=RoundsTable(every=every),
    )
    path = made.write(out, force=force)
    if own_file is not None:
        _copy_beside(own_file, out / own_file.name)
    print(f"{path}: {network.agents} agents, {len(network.edges)} edges")
    if here:
        print(f"all on this machine, ports {port} to {port + network.agents - 1}{_numbering(network)}")
    print(f"{out / made.certificates}: the authority (keep ca.key safe) and a certificate per agent")
    on_hosts = f"on each host: gossamer agent {path} --id NAME --source SOURCE"
    print(f"next, {f'gossamer fleet up {path}' if here else on_hosts}")


def _numbering(network: Network) -> str:
    """Which node of a file is which agent, unless they are numbered alike."""
    labels = [str(label) for label in network.labels]
    if labels == [str(i) for i in range(len(labels))]:
        return ""
    shown = [f"agent{i} is {label}" for i, label in enumerate(labels[:3])]
    return f"; {', '.join(shown)}{', ...' if len(labels) > 3 else ''}"


def _method(text: str) -> tuple[Method | MethodTable, Path | None]:
    """The method of a fleet; a method of the user's own is named by its file, which is returned with it."""
    from gossamer.agents.fleet.tables import MethodTable
    from gossamer.cli.parsing import parse_method, split_method

    found = parse_method(text)
    place, values = split_method(text)
    if ".py:" not in place:
        return found, None
    nothing = next((key for key, value in values.items() if value is None), None)
    if nothing is not None:
        raise InvalidInput(f"method: fleet.toml cannot hold None; leave {nothing} out")
    file, _, name = place.rpartition(":")
    return MethodTable(name=f"{Path(file).name}:{name}", parameters=values), Path(file)


def _copy_beside(source: Path, target: Path) -> None:
    """Put the file of a method beside fleet.toml, where every agent looks for it."""
    if target.exists() and target.samefile(source):
        return
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}") from error


@fleet_app.command(cls=FlagCommand)
def up(
    fleet: FleetFile,
    source: Source = None,
    every: Every = None,
    store: Store = None,
    only: Annotated[str | None, typer.Option(help="Only these agents, numbers or names: 0-3,7.")] = None,
    metrics_port: Annotated[
        int, typer.Option(help="Serve agent i's metrics on this port + i; 0: no metrics.")
    ] = 0,
    metrics_host: MetricsHost = "127.0.0.1",
    insecure: Insecure = False,
    for_: Annotated[str | None, typer.Option("--for", help='Stop after this long, such as "30s".')] = None,
    loss: Loss = None,
    burst: Burst = None,
    delay: Delay = None,
    partition: Partition = None,
) -> None:
    """Run all agents of a fleet on this machine, with a live table, until Ctrl-C.

    For a trial, faults can be injected into what the agents send: --loss, --burst, --delay, --partition.
    """
    from gossamer.agents.fleet.file import Fleet
    from gossamer.agents.fleet.launcher import LocalFleet
    from gossamer.agents.fleet.tables import duration
    from gossamer.cli.faults import agent_faults

    seconds = None if for_ is None else duration("--for", for_)
    agents = LocalFleet(
        fleet,
        only=only,
        source=source,
        every=None if every is None else duration("--every", every),
        store=None if store is None else str(store.resolve()),
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        insecure=insecure,
        **agent_faults(Fleet.read(fleet), loss, burst, delay, partition),
    )
    screen = console()
    if insecure:
        warning = "anyone on the network can read and forge messages"
        screen.print(Text.assemble(("plaintext:", "bold red"), " ", warning))
    with _stoppable() as stopping, agents:
        _watch(agents, screen, stopping, seconds)
        early = len(agents.members) - agents.running()
    screen.print("all agents stopped", style="dim")
    if agents.killed:
        text = f"{', '.join(agents.killed)} did not stop within 5 seconds and had to be killed"
        screen.print(Text(text, style="red"), soft_wrap=True)
    if early:
        text = f"{early} of them ended on their own; see {fleet.parent / 'logs'}"
        screen.print(Text(text, style="red"), soft_wrap=True)
        raise typer.Exit(1)


def _watch(agents: LocalFleet, screen: Console, stopping: Callable[[], bool], seconds: float | None) -> None:
    """Show the fleet until it is stopped, its time is over, or no agent is left."""
    start = time.monotonic()
    plain_due = start

    def passed() -> float:
        return time.monotonic() - start

    def going() -> bool:
        return not stopping() and agents.running() > 0 and (seconds is None or passed() < seconds)

    if not screen.is_terminal:
        while going():
            if time.monotonic() >= plain_due:
                screen.print(Text(fleet_line(agents.status(), passed())), soft_wrap=True)
                plain_due += _PLAIN_EVERY
            time.sleep(0.1)
        screen.print(Text(fleet_line(agents.status(), passed())), soft_wrap=True)
        return
    name = agents.fleet.network or agents.fleet.fleet
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        while going():
            # The heading, the table's head and foot, and up to three complaints need 8 lines.
            table = fleet_table(name, agents.status(), seconds=passed(), rows=max(screen.height - 8, 1))
            live.update(table, refresh=True)
            time.sleep(1 / _FRAMES)
    screen.print(fleet_table(name, agents.status(), seconds=passed()))


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Catch Ctrl-C, SIGTERM and a closed terminal; yields a function that says whether one has arrived."""
    caught: list[int] = []

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, catch) for number in numbers}
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@fleet_app.command(cls=FlagCommand)
def status(
    fleet: FleetFile,
    as_json: AsJson = False,
) -> None:
    """Show the state of the agents on this machine, from the status files that they write twice a second.

    The exit code is 0 if every agent seen here is running, and 1 otherwise.
    """
    from gossamer.agents.fleet.file import Fleet
    from gossamer.agents.host.status import read_status

    found = Fleet.read(fleet)
    agents = read_status(found, fleet.parent)
    if as_json:
        rows = [{"agent": a.member.name, **a.details, "state": a.state} for a in agents]
        print(json.dumps(rows, indent=2))
    else:
        console().print(fleet_table(found.network or found.fleet, agents))
    if any(agent.state not in ("running", "unknown") for agent in agents):
        raise typer.Exit(1)


@fleet_app.command(cls=FlagCommand)
def renew(fleet: FleetFile) -> None:
    """Give every agent a new certificate from the fleet's authority (ca.key must be here)."""
    from gossamer.agents.fleet.certificates import Authority, expires
    from gossamer.agents.fleet.file import Fleet

    found: Fleet = Fleet.read(fleet)
    Authority.load(fleet.parent / found.certificates)
    found.certify(fleet.parent)
    end = expires(fleet.parent / found.certificates / f"{found.agents[0].name}.pem")
    print(
        f"{len(found.agents)} certificates renewed, valid until {end:%Y-%m-%d}; copy them and restart the agents"
    )


def agent(
    fleet: FleetFile,
    id_: Annotated[str, typer.Option("--id", help="The agent's number or name.")],
    source: Source = None,
    every: Every = None,
    store: Store = None,
    metrics_port: Annotated[
        int, typer.Option(help="Serve Prometheus metrics on this port; 0: no metrics.", min=0, max=65535)
    ] = 0,
    metrics_host: MetricsHost = "127.0.0.1",
    insecure: Insecure = False,
    report: Annotated[
        str, typer.Option(help='Time between estimates on standard output, such as "1s".')
    ] = "1s",
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
    with _signals_wait():
        _become_agent(
            fleet,
            id_,
            source=source,
            every=every,
            store=None if store is None else str(store),
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            insecure=insecure,
            report=report,
            rounds=rounds,
            faults={"loss": loss, "burst": burst, "delay": delay, "partition": partition},
        )


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold back SIGINT and SIGTERM inside the block and, across `execv`, until the agent handles them."""
    numbers = (signal.SIGINT, signal.SIGTERM)
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
    report: str,
    insecure: bool,
    faults: dict[str, Any],
    **others: Any,
) -> None:
    from gossamer.agents.fleet.file import Fleet
    from gossamer.agents.fleet.tables import duration
    from gossamer.agents.host.process import Options
    from gossamer.agents.host.sources import parse_source
    from gossamer.cli.faults import agent_faults

    # Mistakes are reported here, to a person; from then on, everything is JSON.
    found = Fleet.read(fleet)
    me = found.member(id_)
    found.settings(me.id, fleet.parent, insecure=insecure)
    parse_source(source or me.source, found.observations.dimension, me.id)
    seconds = duration("--report", report)
    if seconds < _SHORTEST_REPORT:
        raise InvalidInput(f'--report must be a time of at least "10ms", got {report!r}')
    options = Options(
        fleet=str(fleet),
        agent=id_,
        source=source,
        every=None if every is None else duration("--every", every),
        insecure=insecure,
        report=seconds,
        **agent_faults(found, **faults),
        **others,
    )
    # The agent takes the place of this process: it needs a third of the memory that the whole command line does.
    os.execv(sys.executable, [sys.executable, "-m", "gossamer.agents.host.process", options.text()])
