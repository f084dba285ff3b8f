"""The `gossamer` command. Exit codes: 0 done, 2 bad input, 3 output not written, 130 interrupted."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from gossamer.errors import GossamerError, OutputError


def build() -> typer.Typer:
    """Assemble the command line; each room brings its own commands."""
    from gossamer.cli import core

    app = typer.Typer(
        name="gossamer",
        help="Every agent of a network learns the average of all noisy streams, talking only to its neighbours.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in (core.network, core.exact, core.simulate, core.compare, core.plan):
        app.command()(command)
    return app


def main() -> None:
    """Run the command line; a user's mistake gives a message and an exit code, never a traceback."""
    try:
        build()(standalone_mode=True)
    except GossamerError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(3 if isinstance(error, OutputError) else 2)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted", style="bold")
        sys.exit(130)
