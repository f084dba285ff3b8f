"""gossamer fleet init and renew: a fleet as files, and the commands that run and watch it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli import fleet_files, fleet_members
from gossamer.cli.commands import FlagCommand, refuse
from gossamer.cli.fleet_run import up
from gossamer.cli.fleet_status import status
from gossamer.cli.options import EXAMPLES, FleetFile, Source, Weights
from gossamer.errors import InvalidInput, OutputError

if TYPE_CHECKING:
    from gossamer.agents.config.tables import MethodTable, ModelTable
    from gossamer.agents.membership.certificates import Authority
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.methods import Method
    from gossamer.networks import Network

fleet_app = typer.Typer(name="fleet", help="Create, run and inspect a fleet of agents.", no_args_is_help=True)

LOCAL_FORM = "anytime-sda:acceleration=local"
"""The method of a fleet unless another is chosen: it asks for nothing but the weights of the edges."""


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
    hosts: Annotated[
        Path | None,
        typer.Option(
            help="A file of lines NAME HOST:PORT [NUMBER]; without numbers agents are numbered in their order."
        ),
    ] = None,
    weights: Weights = "metropolis",
    method: Annotated[
        str,
        typer.Option(help="The method: anytime-sda, ssda, NAME:parameter=value, or FILE.py:MyMethod."),
    ] = LOCAL_FORM,
    dimension: Annotated[int, typer.Option(help="Numbers in one observation.")] = 1,
    range_: Annotated[
        str | None,
        typer.Option(
            "--range",
            help="Least and largest value of an observation, such as --range=-40,60 (per component: -40,60:0,1); "
            "others are refused, and neighbors cannot claim what it makes impossible.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Learn a model from rows instead of averaging: FAMILY:COVARIATE+COVARIATE+..., such as "
            "logistic:age+dose; sources are then csv:FILE,target=LABEL (by default NAME.csv, label), or lines of "
            "covariates and a label."
        ),
    ] = None,
    every: Annotated[
        str, typer.Option(help='Time between rounds; "0": as fast as neighbors answer.')
    ] = "100ms",
    source: Source = None,
    port: Annotated[int, typer.Option(help="First port of a fleet on this machine.")] = 7447,
    metrics_port: Annotated[
        int, typer.Option(help="Each agent serves its metrics on its host, from this port on; 0: none do.")
    ] = 0,
    name: Annotated[str, typer.Option(help="Name of the fleet.")] = "gossamer",
    seed: Annotated[int, typer.Option(help="Seed for random networks and simulated sensors.")] = 0,
) -> None:
    """Write fleet.toml, its signed roster, a private certificate authority and a certificate for each agent."""
    from gossamer.agents.config.tables import ObservationsTable, RoundsTable
    from gossamer.agents.membership.fleet import Fleet, simulated_sources
    from gossamer.agents.membership.hosts import (
        labels_are_addresses,
        names_and_endpoints,
        numbered,
        placed,
        read_hosts,
        with_metrics,
    )
    from gossamer.cli.parsing import parse_network
    from gossamer.networks import Network

    if (topology is None) == (edges is None):
        raise InvalidInput("a fleet needs a network: give either --topology NAME_OR_FILE or --edges FILE")
    if topology is not None:
        network = Network.of(parse_network(topology, weights, seed))
    else:
        assert edges is not None
        network = Network.read(edges, weights, format="edge-list")
    known, ids = (None, {}) if hosts is None else read_hosts(hosts)
    here = known is None and (topology is not None or not labels_are_addresses(network))
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
        if topology is not None and known is not None:
            names, endpoints = placed(network, known)
        else:
            names, endpoints = names_and_endpoints(network, known)
        sources = ["-"] * network.agents
    chosen, own_file = _method(method)
    made = Fleet.create(
        network,
        names=names,
        endpoints=endpoints,
        sources=_sources(source, names, sources, model),
        fleet=name,
        method=chosen,
        directory=None if own_file is None else own_file.parent,
        observations=ObservationsTable(
            dimension=dimension, range=_range(range_), weighting="agents" if model is None else "samples"
        ),
        rounds=RoundsTable(every=every),
        model=_model(model),
    )
    if known is not None:
        made = numbered(made, ids)
    if metrics_port:
        made = made.with_(agents=with_metrics(made.agents, metrics_port))
    path = made.write(out)
    if own_file is not None:
        _copy_beside(own_file, out / own_file.name)
    print(
        f"{path}: {network.agents} agents, {len(network.edges)} edge{'' if len(network.edges) == 1 else 's'}"
    )
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


def _sources(
    given: str | None, names: Sequence[str], usual: Sequence[str], model: str | None
) -> Sequence[str]:
    """Where observations come from; to learn a model, from a file of each agent's name unless given."""
    if given is not None:
        return [given] * len(names)
    return usual if model is None else [f"csv:{name}.csv,target=label" for name in names]


def _model(text: str | None) -> ModelTable:
    """The model of an option; sums over rows, so that every row counts the same."""
    from gossamer.agents.config.tables import ModelTable

    if text is None:
        return ModelTable()
    family, _, names = text.partition(":")
    if not names:
        raise InvalidInput(
            f"--model must be FAMILY:COVARIATE+COVARIATE+..., such as logistic:age+dose, got {text!r}"
        )
    return ModelTable(family=family, covariates=tuple(name.strip() for name in names.split("+")))


def _range(text: str | None) -> tuple[float | tuple[float, float], ...]:
    """The range of an option: one pair, or several with colons between them."""
    if text is None:
        return ()
    try:
        ends = [[float(end) for end in pair.split(",")] for pair in text.split(":")]
        pairs = [(low, high) for low, high in ends]
    except ValueError:
        raise InvalidInput(
            f"--range must be two numbers such as -40,60, or several such pairs with colons between, got {text!r}"
        ) from None
    return pairs[0] if len(pairs) == 1 else tuple(pairs)


def _method(text: str) -> tuple[Method | MethodTable, Path | None]:
    """The method of a fleet; a method of the user's own is named by its file, which is returned with it."""
    from gossamer.agents.config.tables import MethodTable
    from gossamer.cli.parsing import parse_method, split_method

    found = parse_method(text)
    place, values = split_method(text)
    if ".py:" not in place:
        return found, None
    nothing = next((key for key, value in values.items() if value is None), None)
    if nothing is not None:
        raise InvalidInput(f": fleet.toml cannot hold None; leave {nothing} out", parameter="method")
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


def renew(
    fleet: FleetFile,
    push: Annotated[
        bool,
        typer.Option(
            "--push",
            help="Renew the certificates of running agents over their own connections: no key leaves its host.",
        ),
    ] = False,
) -> None:
    """Give every agent a new certificate from the fleet's authority (ca.key must be here)."""
    from gossamer.agents.membership.certificates import Authority, expires
    from gossamer.agents.membership.fleet import Fleet

    found: Fleet = Fleet.read(fleet)
    authority = Authority.load(fleet.parent / found.certificates)
    if push:
        _renew_running(fleet, found, authority)
        return
    found.certify(fleet.parent)
    end = expires(fleet.parent / found.certificates / f"{found.agents[0].name}.pem")
    print(
        f"{len(found.agents)} certificates renewed, valid until {end:%Y-%m-%d}; copy each to its agent's host, where "
        "it is taken into use within seconds"
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
for _command in COMMANDS:
    fleet_app.command(cls=FlagCommand)(_command)
