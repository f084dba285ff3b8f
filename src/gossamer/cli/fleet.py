"""gossamer fleet init and renew: a fleet as files, and the commands that run and watch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli import fleet_files, fleet_members
from gossamer.cli.commands import CommandGroup, FlagCommand, epilog_of
from gossamer.cli.fleet_options import (
    Change,
    Delta,
    Dimension,
    Epsilon,
    Honest,
    Mask,
    Name,
    NewEvery,
    NewSource,
    Noise,
    Range,
    honest_of,
    model_of,
    range_of,
    scales_of,
)
from gossamer.cli.fleet_run import up
from gossamer.cli.fleet_status import status
from gossamer.cli.options import EXAMPLES, FleetFile, Weights, complete_methods, complete_networks
from gossamer.errors import InvalidInput, OutputError

if TYPE_CHECKING:
    from gossamer.agents.config.tables import MethodTable
    from gossamer.agents.membership.certificates import Authority
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.arrays import Floats
    from gossamer.methods import Method
    from gossamer.networks import Network

fleet_app = typer.Typer(
    name="fleet",
    cls=CommandGroup,
    help="Create, run and inspect a fleet of agents.",
    no_args_is_help=True,
    add_completion=False,
)

LOCAL_FORM = "anytime-sda:acceleration=local-heavy-ball"
"""The default method of a fleet, which needs only the weights of the edges."""


def init(
    topology: Annotated[
        str | None,
        typer.Option(
            help=f"A network by name ({EXAMPLES}) or a file: edge list, matrix, GraphML, ...",
            autocompletion=complete_networks,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write.")] = Path("fleet"),
    edges: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --topology: a file of edges, two agents per line, named by their addresses "
            "(hostA:7447 hostB:7447); agents that are only numbered (0 1) run on this machine."
        ),
    ] = None,
    hosts: Annotated[
        Path | None,
        typer.Option(
            help="File with a line NAME HOST:PORT [NUMBER] per agent (- instead of HOST:PORT if it cannot be reached); "
            "by default agents are numbered in this order."
        ),
    ] = None,
    weights: Weights = "metropolis",
    method: Annotated[
        str,
        typer.Option(
            help="The method: anytime-sda, ssda, NAME:parameter=value, or FILE.py:MyMethod.",
            autocompletion=complete_methods,
        ),
    ] = LOCAL_FORM,
    dimension: Dimension = 1,
    range_: Range = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Learn a model from rows instead of averaging: FAMILY:COVARIATE+COVARIATE+..., such as "
            "logistic:age+dose; sources are then csv:FILE,target=LABEL (by default NAME.csv, label), or lines of "
            "covariates and a label."
        ),
    ] = None,
    mask: Mask = None,
    noise: Noise = None,
    epsilon: Epsilon = 0.0,
    delta: Delta = 1e-6,
    change: Change = None,
    honest: Honest = None,
    every: NewEvery = "100ms",
    source: NewSource = None,
    port: Annotated[
        int | None,
        typer.Option(help="First port of a fleet on this machine, for example 7447.", show_default="7447"),
    ] = None,
    metrics_port: Annotated[
        int,
        typer.Option(
            help="Each agent serves its metrics on its host, from this port on, such as 9464; 0 disables them."
        ),
    ] = 0,
    name: Name = "gossamer",
    seed: Annotated[int, typer.Option(help="Seed for random networks and simulated sensors.")] = 0,
) -> None:
    """Write fleet.toml, its signed roster, a private certificate authority and a certificate for each agent."""
    from gossamer.agents.config.tables import ObservationsTable, PrivacyTable, RoundsTable
    from gossamer.agents.membership.hosts import read_hosts
    from gossamer.agents.membership.planning import FleetPlan, exposures, first_rows
    from gossamer.cli.parsing import parse_network
    from gossamer.networks import Network

    if (topology is None) == (edges is None):
        raise InvalidInput("a fleet needs a network: give either --topology NAME_OR_FILE or --edges FILE")
    if topology is not None:
        network = Network.of(parse_network(topology, weights, seed))
    else:
        assert edges is not None
        network = Network.read(edges, weights, format="edge-list")
    chosen, own_file = _method(method)
    plan = FleetPlan(
        network=network,
        by_number=topology is not None,
        hosts=None if hosts is None else read_hosts(hosts),
        port=port,
        metrics_port=metrics_port,
        source=source,
        seed=seed,
        method_file=own_file,
    )
    weighting = "agents" if model is None else "samples"  # every row of a model counts the same
    made = plan.fleet(
        name,
        method=chosen,
        observations=ObservationsTable(dimension=dimension, range=range_of(range_), weighting=weighting),
        rounds=RoundsTable(every=every),
        model=model_of(model),
        privacy=PrivacyTable(
            mask=scales_of("--mask", mask),
            noise=scales_of("--noise", noise),
            epsilon=epsilon,
            delta=delta,
            change=scales_of("--change", change),
            honest=honest_of(honest, network.agents, divided=mask is not None and epsilon > 0),
        ),
    )
    path = plan.write(made, out)
    print(
        f"{path}: {network.agents} agents, {len(network.edges)} edge{'' if len(network.edges) == 1 else 's'}"
    )
    if plan.local:
        print(f"all on this machine, ports {plan.ports[0]} to {plan.ports[-1]}{_numbering(network)}")
    print(f"{out / made.certificates}: the authority (keep ca.key safe) and a certificate per agent")
    if plan.lacks_range(made):
        print(f"warning: {_range_advice(first_rows(made))}")
    for exposure in exposures(made):
        print(f"warning: {exposure}")
    _show_noise(made, network, out)
    on_hosts = f"on each host: gossamer agent {path} --id NAME --source SOURCE"
    print(f"next, {f'gossamer fleet up {path}' if plan.local else on_hosts}")


def _show_noise(fleet: Fleet, network: Network, directory: Path) -> None:
    """Print the cost of noise, and the privacy that it gives against the worst single neighbor, if there is noise."""
    settings = fleet.settings(fleet.agents[0].id, directory, insecure=True)
    if not settings.noise_scale:
        return
    average = [scale / len(fleet.agents) ** 0.5 for scale in settings.noise_scale]
    print(
        f"every agent adds noise of standard deviation {_numbers(settings.noise_scale)} to its level: "
        f"{_numbers(average)} in the average of all"
    )
    if settings.mask and settings.epsilon and settings.dimension == 1:
        from gossamer.accounting import privacy
        from gossamer.agents.config.privacy import changes_of

        (change,), (noise,), (mask,) = changes_of(settings), settings.noise_scale, settings.mask
        view = privacy(network, mask, noise=noise, change=change, coalition="any neighbor")
        worst = view.epsilon(settings.delta)
        print(f"against the worst single neighbor epsilon is {worst:.3g} at delta {settings.delta:g}")


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def _range_advice(rows: Floats) -> str:
    """Say what to do about a missing range; `rows` are the first that agents will observe, shape (rows, dimension)."""
    import numpy as np

    text = (
        "no range is set, so a broken sensor or a member that lies can move the average anywhere; "
        "set --range=LOW,HIGH"
    )
    if not len(rows):
        return text
    low, high = rows.min(axis=0), rows.max(axis=0)
    room = 10.0 ** np.ceil(np.log10(np.maximum(high - low, 1e-9 * np.abs(high) + 1e-300)))
    pairs = zip(np.floor(low / room - 0.5) * room, np.ceil(high / room + 0.5) * room, strict=True)
    wide = ":".join(f"{a:g},{b:g}" for a, b in pairs)
    seen = ", ".join(f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True))
    return f"{text}, for example --range={wide} (the first rows have {seen}), or what the sensors can measure"


def _numbering(network: Network) -> str:
    """Describe which node of a file is which agent, unless their numbers are the same."""
    labels = [str(label) for label in network.labels]
    if labels == [str(i) for i in range(len(labels))]:
        return ""
    shown = [f"agent{i} is {label}" for i, label in enumerate(labels[:3])]
    return f"; {', '.join(shown)}{', ...' if len(labels) > 3 else ''}"


def _method(text: str) -> tuple[Method | MethodTable, Path | None]:
    """Return the method of a fleet and, for a user-defined method, its file."""
    from gossamer.agents.config.tables import MethodTable
    from gossamer.cli.parsing import parse_method, split_method

    method = parse_method(text)
    full_name, values = split_method(text)
    if ".py:" not in full_name:
        return method, None
    nothing = next((key for key, value in values.items() if value is None), None)
    if nothing is not None:
        raise InvalidInput(f": fleet.toml cannot hold None; leave {nothing} out", parameter="method")
    file, _, name = full_name.rpartition(":")
    return MethodTable(name=f"{Path(file).name}:{name}", parameters=values), Path(file)


def renew(
    fleet: FleetFile,
    push: Annotated[
        bool,
        typer.Option(
            "--push",
            help="Renew the certificates of running agents over the network; no key leaves its host.",
        ),
    ] = False,
) -> None:
    """Give every agent a new certificate from the fleet's authority (requires ca.key)."""
    from gossamer.agents.membership.certificates import Authority, expires
    from gossamer.agents.membership.fleet import Fleet

    definition: Fleet = Fleet.read(fleet)
    authority = Authority.load(fleet.parent / definition.certificates)
    if push:
        _renew_running(fleet, definition, authority)
        return
    definition.certify(fleet.parent)
    end = expires(fleet.parent / definition.certificates / f"{definition.agents[0].name}.pem")
    print(
        f"{len(definition.agents)} certificates renewed, valid until {end:%Y-%m-%d}; copy each to its agent's host, "
        "where it is taken into use within seconds"
    )


def _renew_running(path: Path, fleet: Fleet, authority: Authority) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from gossamer.agents.membership.changes import operator_files
    from gossamer.agents.membership.renewal import renew_running

    tls = operator_files(path, fleet)
    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda member: renew_running(authority, tls, fleet.fleet, member), fleet.agents))
    failed = {member.name: problem for member, problem in zip(fleet.agents, said, strict=True) if problem}
    print(
        f"{len(said) - len(failed)} of {len(said)} certificates renewed on their hosts, taken into use in seconds"
    )
    for name, problem in failed.items():
        print(f"{name}: {problem}")
    if failed:
        raise OutputError(
            f"{len(failed)} agents have their old certificates; start them and repeat this, or run it without --push "
            "and copy the files"
        )


COMMANDS: Sequence[Callable[..., None]] = (
    init,
    up,
    status,
    renew,
    *fleet_members.COMMANDS,
    *fleet_files.COMMANDS,
)
EXAMPLES_OF: dict[str, tuple[str, ...]] = {
    "init": (
        "--topology grid:3x3 --out fleet",
        "--hosts hosts.txt --edges edges.txt --range=-40,60",
    ),
    "up": ("fleet/fleet.toml --source sim:20,1,3 --dashboard", "fleet/fleet.toml --loss 0.3 --for 60s"),
    "status": ("fleet/fleet.toml", "fleet/fleet.toml --json"),
    "renew": ("fleet/fleet.toml", "fleet/fleet.toml --push"),
    "add": ("boiler --host 10.0.0.5:7447 --neighbors pump,valve", "boiler --host - --neighbors pump"),
    "remove": ("valve", "valve -f fleet/fleet.toml"),
    "link": ("pump valve", "pump valve -f fleet/fleet.toml"),
    "unlink": ("pump valve", "pump valve -f fleet/fleet.toml"),
    "replace": ("valve", "valve -f fleet/fleet.toml"),
    "reset-flows": ("", "-f fleet/fleet.toml"),
    "sign": ("", "-f fleet/fleet.toml"),
    "push": ("", "fleet/fleet.toml"),
    "roster": ("", "-f fleet/fleet.toml"),
    "edges": ("-f fleet/fleet.toml", "--topology grid:3x3"),
    "bundle": ("pump", "pump -f fleet/fleet.toml"),
    "targets": ("--metrics-port 9464", "--metrics-port 9464 --out targets.json"),
}
"""Two examples for the help page of each command."""

for _command in COMMANDS:
    _name = _command.__name__.replace("_", "-")
    _epilog = epilog_of(f"fleet {_name}", EXAMPLES_OF[_name])
    fleet_app.command(_name, cls=FlagCommand, epilog=_epilog)(_command)
