"""gossamer dashboard: pages in the browser, served by this machine."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from gossamer.errors import require


def dashboard(
    host: Annotated[
        str,
        typer.Option(help="Where to listen; beyond this machine, the page needs the token that is printed."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0: any free one.")] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Open the playground in the browser: watch methods run on networks, and act on them.

    Everything comes from this machine. Stop it with Ctrl-C.
    """
    for module in ("starlette", "uvicorn", "websockets"):
        require(module, "dashboard")
    from gossamer.dashboard.playground import playground
    from gossamer.dashboard.server import Server

    server = Server([playground()], host, port)
    print(server.address, flush=True)
    if open_:
        webbrowser.open(server.address)
    server.run()
