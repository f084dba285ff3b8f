"""gossamer fleet status: all agents of a fleet, on this machine and on others."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gossamer.cli.fleet_table import fleet_table
from gossamer.cli.options import AsJson, FleetFile
from gossamer.cli.output import console


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

    Agents of this machine are known from the status files that they write twice a second; others from their metrics,
    if fleet.toml says where these are. The exit code is 0 if every agent seen is running, and 1 otherwise.
    """
    from gossamer.agents.fleet.file import Fleet
    from gossamer.agents.fleet.survey import survey
    from gossamer.agents.fleet.tables import duration
    from gossamer.agents.host.status import worst_first

    found = Fleet.read(fleet)
    places = None if metrics is None else [place.strip() for place in metrics.split(",")]
    agents = worst_first(survey(found, fleet.parent, places, timeout=duration("--timeout", timeout)))
    if as_json:
        rows = [{"agent": a.member.name, **a.details, "problem": a.problem, "state": a.state} for a in agents]
        print(json.dumps(rows, indent=2))
    else:
        console().print(fleet_table(found.network or found.fleet, agents))
    if any(agent.state not in ("running", "unknown") for agent in agents):
        raise typer.Exit(1)
