"""gossamer fleet edges|bundle|targets: files for other programs and hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from gossamer.cli.options import EXAMPLES, FLEET, AgentName, FleetOption, complete_networks, option
from gossamer.errors import InvalidInput


def edges(
    topology: Annotated[
        str | None,
        option(
            f"Print the edges of this network instead of those of a fleet: {EXAMPLES}.",
            autocompletion=complete_networks,
        ),
    ] = None,
    hosts: Annotated[
        Path | None,
        option(
            "With --topology: file with a line NAME HOST:PORT [NUMBER] per agent, whose names are used in order."
        ),
    ] = None,
    seed: Annotated[int, option("Seed for random networks.")] = 0,
    fleet: FleetOption = FLEET,
) -> None:
    """Print edges, one per line, as `gossamer fleet init --edges` reads them."""
    if topology is None:
        from gossamer.agents.membership.fleet import Fleet

        definition = Fleet.read(fleet)
        pairs = [
            (definition.member(edge.a).name, definition.member(edge.b).name) for edge in definition.edges
        ]
    else:
        from gossamer.agents.membership.hosts import placed, read_hosts
        from gossamer.cli.parsing import parse_network
        from gossamer.networks import Network

        network = Network.of(parse_network(topology, "metropolis", seed))
        names = [f"agent{i}" for i in range(network.agents)]
        if hosts is not None:
            names, _ = placed(network, read_hosts(hosts).endpoints)
        pairs = [(names[i], names[j]) for i, j in network.edges.tolist()]
    for a, b in pairs:
        print(a, b)


def bundle(
    name: AgentName,
    out: Annotated[Path | None, option("File to write; the default is NAME.tar.gz.", "--out", "-o")] = None,
    unit: Annotated[
        Path | None, option("A systemd unit to include, such as deploy/gossamer@.service.")
    ] = None,
    fleet: FleetOption = FLEET,
) -> None:
    """Write one agent's folder as one file: configuration, roster, certificate and key. Protect it like the key."""
    from gossamer.agents.membership.bundle import bundle
    from gossamer.agents.membership.fleet import Fleet

    target = out or Path(f"{Fleet.read(fleet).member(name).name}.tar.gz")
    names = bundle(fleet, name, target, unit)
    print(f"{target}: {', '.join(names)}")
    folder = names[0].partition("/")[0]
    print(f"on its host: tar xzf {target.name}, then gossamer agent {folder}/{fleet.name} --id {folder}")


def targets(
    out: Annotated[Path | None, option("File to write; printed if not given.", "--out", "-o")] = None,
    metrics_port: Annotated[
        int,
        option(
            "Port of the metrics of agents for which fleet.toml has none, such as 9464; 0 omits these agents."
        ),
    ] = 0,
    fleet: FleetOption = FLEET,
) -> None:
    """Write the addresses of the members' metrics for Prometheus (file_sd_configs); run it again after a change."""
    from gossamer.agents.membership.bundle import targets, targets_text
    from gossamer.agents.membership.certificates import write_file
    from gossamer.agents.membership.fleet import Fleet

    if not 0 <= metrics_port < 65536:
        raise InvalidInput(
            parameter="metrics_port", required="a port from 1 to 65535, or 0", got=str(metrics_port)
        )
    groups = targets(Fleet.read(fleet), metrics_port)
    if out is None:
        print(targets_text(groups), end="")
        return
    write_file(out, targets_text(groups).encode())
    print(f"{out}: {len(groups)} agents")


COMMANDS: Sequence[Callable[..., None]] = (edges, bundle, targets)
