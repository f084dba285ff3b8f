"""gossamer dashboard: pages in the browser, served by this machine."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli.commands import refuse
from gossamer.errors import require

if TYPE_CHECKING:
    from gossamer.dashboard.server import Page


def dashboard(
    fleet: Annotated[
        Path | None, typer.Argument(help="A fleet's file, fleet.toml, to watch the fleet live.")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Ask these addresses, HOST:PORT,HOST:PORT,..., instead of those in fleet.toml."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Where to listen; beyond this machine, the page needs the token that is printed."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0: any free one.")] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Open the playground in the browser: watch methods run on networks, and act on them; or watch a fleet.

    Everything comes from this machine. Stop it with Ctrl-C.
    """
    for module in ("starlette", "uvicorn", "websockets"):
        require(module, "dashboard")
    from gossamer.dashboard.playground import playground
    from gossamer.dashboard.server import Server

    pages = [playground()]
    if fleet is not None:
        pages.insert(0, watch(fleet, metrics))
    else:
        refuse("metrics", "without a fleet")
    server = Server(pages, host, port)
    print(server.address, flush=True)
    if open_:
        webbrowser.open(server.address)
    server.run()


def watch(fleet: Path, metrics: str | None = None) -> Page:
    """The page of a fleet; `metrics` are addresses, separated by commas."""
    from gossamer.dashboard.fleet_page import fleet_page

    return fleet_page(fleet, None if metrics is None else [place.strip() for place in metrics.split(",")])
