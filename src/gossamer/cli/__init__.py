"""The `gossamer` command. Exit codes: 0 success, 1 an agent failed, 2 invalid input, 3 output error, 130
interrupted."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gossamer.cli.commands import Entry, epilog_of, group_of
from gossamer.errors import GossamerError, OutputError, missing
from gossamer.fingerprint import full_version

SUMMARY = "Every agent in a network learns the average of all noisy streams, talking only to its neighbors."

COMMANDS = {
    "network": Entry(
        "core:network",
        "Describe a network: size, degrees, eigenvalues, k*, and the rounds that averaging on it takes.",
        ("grid:10x10", "roads.graphml --plot roads.png"),
    ),
    "exact": Entry(
        "core:exact",
        "Compute the expected error E Σᵢ‖estimateᵢ − μ̄‖² exactly, without sampling.",
        ("grid:10x10 -T 100,1000", "path:50 -m sda --plot error.png"),
    ),
    "simulate": Entry(
        "core:simulate",
        "Simulate trials; also show the exact error if it can be computed within a second.",
        ("grid:10x10 -T 500 --loss 0.3 --animate run.html", "cycle:30 --crash 3@100 --csv errors.csv"),
    ),
    "compare": Entry(
        "core:compare",
        "Compare methods on one or more networks, with theoretical bounds and the limits that no method can beat.",
        ('grid:10x10 path:50 -m "sda anytime-sda dsg"', "star:40 -T 10:1000 --plot curves.pdf"),
    ),
    "tune": Entry(
        "core:tune",
        "Choose the parameters of a method that minimize its exact error.",
        ("path:20 -m sda -T 500", "grid:10x10 --parameters smoothing"),
    ),
    "plan": Entry(
        "core:plan",
        "Find the rounds, samples, messages and bytes needed for a target error, and what privacy adds to them.",
        ("grid:10x10 --target 0.01", "cycle:50 star:50 -e 1e-2,1e-3"),
    ),
    "partition": Entry(
        "cluster:partition",
        "Divide a network into parts, one file each, for the ranks of a cluster.",
        ("grid:4000x4000 --parts 4 --out parts", "roads.graphml --parts 8 --out parts"),
    ),
    "reproduce": Entry(
        "reproduce:reproduce",
        "Regenerate the paper's figures, exactly and by simulation, and check each of its claims.",
        ("", "--quick --figure 2"),
    ),
    "warmup": Entry("warmup:warmup", "Compile everything ahead of time, on all cores.", ("", "--jobs 2")),
    "estimate": Entry(
        "applications:estimate",
        "Estimate one parameter vector at every sensor, and compare with earlier methods and the limit.",
        ("grid:5x5 -T 100,1000", "grid:5x5 --trials 50 --json"),
    ),
    "evaluate-policy": Entry(
        "applications:evaluate_policy",
        "Evaluate a policy with agents that see only their own rewards; compare with temporal differences.",
        ("grid:3x3 -T 1000", "cartpole --features fourier:50 -T 20000"),
    ),
    "learn": Entry(
        "learning:learn",
        "Fit one model at every agent to the samples of all agents; compare with stochastic gradients.",
        ("grid:5x5 --family poisson -T 1000", "grid:3x3 --loss 0.2 --no-rivals"),
    ),
    "agent": Entry(
        "fleet_run:agent",
        "Run one agent: estimates as JSON lines on standard output, logs as JSON lines on standard error.",
        ("fleet/fleet.toml --id pump", "fleet/fleet.toml --id pump --source csv:pump.csv,follow"),
    ),
    "dashboard": Entry(
        "dashboard:dashboard",
        "Open a playground in the browser to watch methods run and interfere with them, or watch a fleet.",
        ("--open", "--save lesson.html --scene 4", "fleet/fleet.toml --port 8080"),
    ),
    "sources": Entry(
        "sources:sources",
        "List the kinds of sources and sinks, with those of installed packages.",
        ("", "--json"),
    ),
    "fleet": Entry(
        "fleet:fleet_app",
        "Create, run and inspect a fleet of agents.",
        ("init --topology grid:3x3", "up fleet/fleet.toml --source sim:20,1,3"),
    ),
    "store": Entry(
        "store:store_app",
        "Check, back up and restore the store of an agent.",
        ("check store/pump.sqlite", "backup store/pump.sqlite copy.sqlite"),
    ),
}
"""All commands with the first sentence of their help, so that listing them does not import them."""


_EXTRAS = {"matplotlib": "plot"}
"""Extras needed by the imports of a command itself; imports inside the package name their extra (`require`)."""


def build() -> typer.Typer:
    """Assemble the command line. A command is imported when it is called, so that an agent does not load a compiler."""
    app = typer.Typer(
        name="gossamer",
        cls=group_of(COMMANDS),
        help=SUMMARY,
        epilog=epilog_of("", ("compare grid:10x10 path:50", "dashboard --open")),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def gossamer(
        version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
        most_agents: Annotated[
            int | None,
            typer.Option(
                help="Largest number of agents in a file of a network, which is counted before it is read; 250,000 "
                "unless given.",
                min=2,
            ),
        ] = None,
    ) -> None:
        if version:
            print(full_version())
            raise typer.Exit
        if most_agents is not None:
            from gossamer.networks.sizes import MOST_AGENTS

            MOST_AGENTS.set(most_agents)

    return app


def main() -> None:
    """Run the command line; a user's mistake gives a message and an exit code, never a traceback."""
    try:
        try:
            if sys.argv[1:] == ["--version"]:  # parsing a single flag already loads a library
                print(full_version())
            else:
                build()()
        finally:
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()
    except GossamerError as error:
        _complain(str(error))
        sys.exit(3 if isinstance(error, OutputError) else 2)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        _complain(missing(error.name, _EXTRAS[error.name]))
        sys.exit(2)
    except OSError as error:
        if error.filename is None:  # what is left in the buffer of standard output cannot be written either
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            _complain(f"{error.filename or 'the output'}: {error.strerror or error}")
        sys.exit(3)
    except MemoryError:
        _complain("this does not fit into memory; make it smaller")
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer turns Ctrl-C into exit code 130 without a message.
        if isinstance(end, SystemExit) and end.code != 130:
            raise
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _complain(text: str) -> None:
    # Rich is slow to load, and most runs succeed.
    from rich.text import Text

    from gossamer.cli.output import console

    console(stderr=True).print(Text.assemble(("error:", "bold red"), " ", text), soft_wrap=True)
