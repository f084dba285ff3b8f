"""gossamer fleet status: all agents of a fleet, on this machine and on others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

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
        typer.Option(help="Ask these addresses, HOST:PORT,HOST:PORT,..., instead of those in fleet.toml."),
    ] = None,
    timeout: Annotated[str, typer.Option(help="How long to wait for an agent of another host.")] = "2s",
    as_json: AsJson = False,
) -> None:
    """Show the state of a fleet's agents, the worst first.

    Agents of this machine are read from their status files; others are asked at the address of their metrics.

    The exit code is 0 if at least one agent is seen and all that are seen are running, and 1 otherwise.
    """
    from gossamer import checks
    from gossamer.agents.config.tables import duration
    from gossamer.agents.fleet.survey import survey
    from gossamer.agents.host.status import worst_first
    from gossamer.agents.membership.fleet import Fleet

    found = Fleet.read(fleet)
    addresses = None if metrics is None else [address.strip() for address in metrics.split(",")]
    seconds = checks.number("timeout", duration("--timeout", timeout), above=0)
    agents = worst_first(survey(found, fleet.parent, addresses, timeout=seconds))
    if as_json:
        print(json.dumps([_row(agent) for agent in agents], indent=2))
    else:
        console().print(fleet_table(found.network or found.fleet, agents))
    seen = [agent.state for agent in agents if agent.state != "unknown"]
    if not seen or any(state != "running" for state in seen):
        raise typer.Exit(1)


def _row(agent: AgentStatus) -> dict[str, Any]:
    known = {"agent": agent.member.id, "name": agent.member.name, **agent.details}
    return {**known, "problem": agent.problem, "state": agent.state}
