"""gossamer fleet add|remove|link|unlink|replace|sign|push|roster: the members and edges of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli.options import FLEET, AgentName, FleetFile, FleetOption, option
from gossamer.errors import InvalidInput, OutputError

if TYPE_CHECKING:
    from gossamer.agents.membership.fleet import Fleet


def add(
    name: Annotated[str, typer.Argument(help="Name of the new agent.")],
    endpoint: Annotated[
        str,
        option(
            "Address at which the others reach it, such as 10.0.0.5:7447; - if they cannot (behind NAT).",
            "--host",
        ),
    ],
    neighbors: Annotated[str, option("Names of its neighbors, such as pump,valve.")],
    source: Annotated[str, option("Source of its observations, such as csv:FILE,follow.")] = "-",
    listen: Annotated[
        str,
        option("Address to listen on if it is not --host, such as 0.0.0.0:7447 in a container."),
    ] = "",
    metrics: Annotated[str, option("Address at which it serves its metrics, such as 10.0.0.5:9464.")] = "",
    fleet: FleetOption = FLEET,
) -> None:
    """Add an agent to fleet.toml, with a certificate and a signed roster of the next epoch."""
    from gossamer.agents.membership.hosts import endpoint_of

    others = [other.strip() for other in neighbors.split(",") if other.strip()]
    where = endpoint_of(endpoint)
    _change(
        fleet,
        lambda draft, changes: changes.add(
            draft, name, where, others, listen=listen, source=source, metrics=metrics
        ),
    )
    print(f"then start {name}: gossamer agent {fleet.name} --id {name}")


def remove(
    name: AgentName,
    keep: Annotated[bool, option("Keep its observations in the average.", "--keep")] = False,
    fleet: FleetOption = FLEET,
) -> None:
    """Remove an agent permanently: the others refuse it from then on, even with a valid certificate.

    With --keep the agent must be running: it first hands its data over to its neighbors, which confirm it.
    """
    from gossamer.agents.membership import changes as membership
    from gossamer.agents.rewiring import TAKE_BACK

    handed: list[Fleet] = []

    def without(draft: Fleet, changes: ModuleType) -> Fleet:
        after = membership.remove(draft, name)  # refuses what would cut the network
        if not keep:
            return after
        heirs = membership.hand_over(fleet, draft, name)
        handed.append(draft)
        near = ", ".join(member.name for member in draft.agents if member.id in heirs)
        print(f"{draft.member(name).name} has handed its data over to {near}")
        return membership.remove(draft, name, heirs=heirs)

    try:
        _change(fleet, without)
    except BaseException:
        for draft in handed:
            membership.tell(fleet, draft, name, TAKE_BACK)
        raise


def link(a: AgentName, b: AgentName, fleet: FleetOption = FLEET) -> None:
    """Add an edge between two agents."""
    _change(fleet, lambda draft, changes: changes.link(draft, a, b))


def unlink(a: AgentName, b: AgentName, fleet: FleetOption = FLEET) -> None:
    """Remove the edge between two agents."""
    _change(fleet, lambda draft, changes: changes.unlink(draft, a, b))


def replace(name: AgentName, fleet: FleetOption = FLEET) -> None:
    """Give an agent a new certificate; the old one is refused from then on."""
    _change(fleet, lambda draft, changes: changes.replace(draft, name))


def reset_flows(fleet: FleetOption = FLEET) -> None:
    """Make all agents set their flows to zero and start over, for flows that no longer add up to zero."""
    _change(fleet, lambda draft, changes: changes.reset_flows(draft))


def sign(fleet: FleetOption = FLEET) -> None:
    """Sign agents and edges that were edited by hand in fleet.toml."""
    _change(fleet, lambda draft, changes: draft)


def push(
    fleet: FleetFile = FLEET,
    to: Annotated[
        str, option("Name of the agent to give it to; the default is the first that answers.")
    ] = "",
) -> None:
    """Give the signed roster to one running agent, which passes it on, over the mutual TLS that agents use."""
    from gossamer.agents.config.settings import Neighbor
    from gossamer.agents.membership.changes import operator_files
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.agents.membership.roster import roster_path
    from gossamer.agents.text import printable
    from gossamer.agents.transports.calling import ask

    definition = Fleet.read(fleet)
    try:
        signed = roster_path(fleet).read_bytes()
    except OSError:
        raise InvalidInput(f"there is no {roster_path(fleet)}; make one with `gossamer fleet sign`") from None
    tls = operator_files(fleet, definition)
    problem = ""
    for member in [definition.member(to)] if to else definition.agents:
        contact = Neighbor(member.id, endpoint=member.endpoint, name=member.certified)
        try:
            print(printable(ask(tls, definition.fleet, contact, signed).decode(errors="replace")))
        except OSError as error:
            problem = f"{member.name}: {error}"
            continue
        return
    raise OutputError(f"no agent took the roster; {problem}")


def roster(fleet: FleetOption = FLEET) -> None:
    """Show the members, edges, epoch and former members of a fleet, and check the signature of the roster."""
    from gossamer.agents.membership.changes import signed_roster
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.agents.membership.roster import roster_path

    definition = Fleet.read(fleet)
    signed = signed_roster(fleet, definition)
    print(f"{definition.fleet}: epoch {definition.epoch}, {_count(definition)}")
    if signed is None:
        print(f"no roster: there is no {roster_path(fleet)}; make one with `gossamer fleet sign`")
    elif signed == definition.roster:
        print(f"{roster_path(fleet)}: epoch {signed.epoch}, the signature of the fleet's authority is good")
    else:
        print(
            f"{roster_path(fleet)}: epoch {signed.epoch}, signed, but {fleet} says otherwise; "
            "sign that with `gossamer fleet sign`"
        )
    _table(definition)


def _table(fleet: Fleet) -> None:
    from rich import box
    from rich.table import Table

    from gossamer.cli.output import console

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for heading in ("id", "agent", "endpoint", "certificate", "neighbors"):
        table.add_column(heading, justify="right" if heading == "id" else "left")
    for member in fleet.agents:
        near = " ".join(fleet.member(j).name for j in sorted(fleet.weights[member.id]))
        table.add_row(str(member.id), member.name, member.endpoint, member.certified, near)
    for gone in fleet.left:
        kept = "its data stayed" if gone.keep else "with its data"
        table.add_row(str(gone.id), gone.name, f"left in epoch {gone.epoch}, {kept}", "", "", style="dim")
    console().print(table)


def _change(path: Path, step: Callable[[Fleet, ModuleType], Fleet]) -> None:
    """Publish the fleet that `step` makes of the draft of the next epoch, by functions of `membership.changes`."""
    from gossamer.agents.membership import changes
    from gossamer.agents.membership.roster import roster_path

    made, written = changes.change(path, lambda draft: step(draft, changes))
    print(f"{path}: epoch {made.epoch}, {_count(made)}")
    if written:
        print(f"new certificates: {', '.join(map(str, written))}")
        print(f"copy them, {path.name}, {roster_path(path).name} and ca.pem to the agent's host")
    print(
        f"next, give {roster_path(path)} to any one running agent: `gossamer fleet push`, or copy it next to that "
        f"agent's {path.name}"
    )


def _count(fleet: Fleet) -> str:
    edges = len(fleet.edges)
    return f"{len(fleet.agents)} agents, {edges} edge{'' if edges == 1 else 's'}"


COMMANDS: Sequence[Callable[..., None]] = (
    add,
    remove,
    link,
    unlink,
    replace,
    reset_flows,
    sign,
    push,
    roster,
)
