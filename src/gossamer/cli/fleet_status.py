"""gossamer fleet status: all agents of a fleet, on this machine and on others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli.fleet_table import fleet_table
from gossamer.cli.options import AsJson, FleetFile
from gossamer.cli.output import console

if TYPE_CHECKING:
    from gossamer.agents.host.status import AgentStatus


def status(
    fleet: FleetFile,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Addresses of metrics to query instead of those in fleet.toml, such as 10.0.0.5:9464,10.0.0.6:9464."
        ),
    ] = None,
    timeout: Annotated[
        str, typer.Option(help="Time to wait for an agent on another host, such as 2s.")
    ] = "2s",
    as_json: AsJson = False,
) -> None:
    """Show the state of a fleet's agents, the worst first.

    Agents on this machine are read from their status files; others are queried at the address of their metrics.

    The exit code is 0 if there is at least one agent and all agents are running, and 1 otherwise.
    """
    from gossamer import checks
    from gossamer.agents.config.tables import duration
    from gossamer.agents.fleet.survey import survey
    from gossamer.agents.host.status import worst_first
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.agents.membership.planning import exposures

    definition = Fleet.read(fleet)
    addresses = None if metrics is None else [address.strip() for address in metrics.split(",")]
    seconds = checks.number("timeout", duration("--timeout", timeout), above=0)
    agents = worst_first(survey(definition, fleet.parent, addresses, timeout=seconds))
    if as_json:
        print(json.dumps([_row(agent) for agent in agents], indent=2))
    else:
        console().print(fleet_table(definition.network or definition.fleet, agents))
        for exposure in exposures(definition):
            print(f"note: {exposure}")
    seen = [agent.state for agent in agents if agent.state != "unknown"]
    if not seen or any(state != "running" for state in seen):
        raise typer.Exit(1)


def _row(agent: AgentStatus) -> dict[str, object]:
    known = {"agent": agent.member.id, "name": agent.member.name}
    return {**known, **agent.details, **known, "problem": agent.problem, "state": agent.state}
