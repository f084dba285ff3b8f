"""The `gossamer` command. Exit codes: 0 done, 2 bad input, 3 output not written, 130 interrupted."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from gossamer import __version__
from gossamer.errors import GossamerError, OutputError

COMMANDS = {
    "network": "core:network",
    "exact": "core:exact",
    "simulate": "core:simulate",
    "compare": "core:compare",
    "plan": "core:plan",
    "reproduce": "reproduce:reproduce",
    "warmup": "warmup:warmup",
    "estimate": "applications:estimate",
    "evaluate-policy": "applications:evaluate_policy",
    "agent": "fleet:agent",
    "fleet": "fleet:fleet_app",
}


def build(only: str | None = None) -> typer.Typer:
    """Assemble the command line from its rooms, or just the command `only`: an agent need not load a compiler."""
    app = typer.Typer(
        name="gossamer",
        help="Every agent of a network learns the average of all noisy streams, talking only to its neighbors.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def gossamer(
        version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    ) -> None:
        """Every agent of a network learns the average of all noisy streams, talking only to its neighbors."""
        if version:
            print(__version__)
            raise typer.Exit

    for name, place in COMMANDS.items():
        if only in COMMANDS and name != only:
            continue
        room, _, thing = place.partition(":")
        found = getattr(import_module(f"gossamer.cli.{room}"), thing)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def main() -> None:
    """Run the command line; a user's mistake gives a message and an exit code, never a traceback."""
    try:
        build(only=sys.argv[1] if len(sys.argv) > 1 else None)()
    except GossamerError as error:
        Console(stderr=True).print(
            f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True
        )
        sys.exit(3 if isinstance(error, OutputError) else 2)
    except MemoryError:
        Console(stderr=True).print("[bold red]error:[/] this does not fit into memory; make it smaller")
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer makes an exit with code 130 of Ctrl-C, without a word.
        if isinstance(end, SystemExit) and end.code != 130:
            raise
        Console(stderr=True).print("interrupted", style="bold")
        sys.exit(130)
