"""gossamer dashboard: pages in the browser, served by this machine."""

from __future__ import annotations

import shlex
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli.commands import refuse
from gossamer.cli.faults import flags_of
from gossamer.cli.output import writable, writing
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    from gossamer.dashboard.scenario import Scenario
    from gossamer.dashboard.server import Server


def dashboard(
    fleet: Annotated[
        Path | None, typer.Argument(help="The file fleet.toml of a fleet to watch live.")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Addresses of metrics to query instead of those in fleet.toml, such as 10.0.0.5:9464,10.0.0.6:9464."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; if it is not loopback, the page requires the token in the printed URL."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on, such as 8080; 0 chooses a free one.")] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write the runs of a scene to an HTML file that needs no server, such as lesson.html.",
            callback=writable,
        ),
    ] = None,
    scene: Annotated[
        str,
        typer.Option(
            help="Scene to save: the number of an example, such as 1, or a link copied from the playground."
        ),
    ] = "1",
) -> None:
    """Open a playground in the browser to watch methods run and interfere with them, or watch a fleet.

    Everything is served by this machine. Stop it with Ctrl-C.
    """
    if fleet is None:
        refuse("metrics", "without a fleet")
    else:
        refuse("save", "with a fleet")
    if save is not None:
        save_page(scene, save)
        return
    refuse("scene", "without --save")
    server = server_of(fleet, metrics, host, port)
    print(server.address, flush=True)
    print("press Ctrl-C to stop", file=sys.stderr, flush=True)
    if open_:
        webbrowser.open(server.address)
    server.run()


def save_page(scene: str, path: Path) -> None:
    """Write a page that needs no server, after saying how large it is."""
    from gossamer.dashboard.presets import PRESETS
    from gossamer.dashboard.scenario import Scenario, view_of

    title, words, lesson = "gossamer", "", False
    if "#" in scene:
        view, scenario = view_of(scene), Scenario.of_link(scene)
        words, lesson = str(view.get("notes", "")), view.get("lesson") is True
    elif scene.isdecimal() and int(scene) < len(PRESETS):
        preset = PRESETS[int(scene)]
        title, words, scenario = str(preset["name"]), str(preset["sentence"]), Scenario.of(preset["scenario"])
        lesson = preset.get("lesson") is True
    else:
        raise InvalidInput(
            parameter="scene",
            required=f"a number from 0 to {len(PRESETS) - 1} or a link from the playground",
            got=repr(scene),
        )
    page = scenario.page(title=title, words=words, lesson=lesson)
    print(f"{path}: {page.summary}", flush=True)
    with writing(path):
        page.write(path)


def server_of(
    fleet: Path | None, metrics: str | None = None, host: str = "127.0.0.1", port: int = 0
) -> Server:
    """Return a server of either a fleet's page or the playground, which should not compute on a machine with agents."""
    for module in ("starlette", "uvicorn", "websockets"):
        require(module, "dashboard")
    from gossamer.dashboard.fleet_page import fleet_page
    from gossamer.dashboard.playground import playground
    from gossamer.dashboard.server import Server

    if fleet is None:
        return Server([playground(command_of)], host, port)
    addresses = None if metrics is None else [address.strip() for address in metrics.split(",")]
    return Server([fleet_page(fleet, addresses)], host, port)


def command_of(scenario: Scenario) -> str:
    """Return the commands, one per method, that reproduce what the playground shows."""
    graph = scenario.file[0] if scenario.network == "file" and scenario.file else scenario.network
    graph = f"./{graph}" if graph.startswith("-") else graph  # a file's name must not be taken for an option
    rounds = ",".join([f"{scenario.first}:{scenario.rounds}", *map(str, scenario.turns)])
    words = ["--rounds", rounds, "--trials", "1", "--seed", f"{scenario.seed}"]
    words += ["--spread", repr(scenario.spread)]
    if scenario.noise != "bernoulli":
        words += ["--std", repr(scenario.std)]
    for flag, value, usual in (
        ("--weights", scenario.weights, "metropolis"),
        ("--means", scenario.means, "uniform"),
        ("--noise", scenario.noise, "gaussian"),
    ):
        words += [] if value == usual else [flag, value]
    words += ["--mask", repr(scenario.mask)] if scenario.mask else []
    words += flags_of(scenario.build_faults())
    commands = []
    for name, values in scenario.methods:
        chosen = ",".join(f"{key}={value}" for key, value in values.items() if value is not None)
        method = f"{name}:{chosen}" if chosen else name
        commands.append(shlex.join(["gossamer", "simulate", graph, "--method", method, *words]))
    return "\n".join(commands) + "\n"
