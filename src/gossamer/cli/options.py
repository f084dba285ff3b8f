"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from gossamer.cli.output import drawable, writable

# A copy of the names in `gossamer.networks.reading`, which would load NetworkX for a help page; tests compare them.
EXAMPLES = (
    "path:100, cycle:100, star:100, complete:20, grid:10x10, torus:8x8, hypercube:7, "
    "erdos-renyi:100, geometric:100, expander:100x4"
)

Graph = Annotated[
    str, typer.Argument(help=f"A network by name ({EXAMPLES}) or a file: edge list, matrix, GraphML, ...")
]
Graphs = Annotated[list[str], typer.Argument(help=f"One or more networks: {EXAMPLES}, or files.")]
Weights = Annotated[
    str,
    typer.Option(
        help="Gossip weights: metropolis, laplacian, max-degree, best-constant, or file for the weights in the file."
    ),
]
MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="Method, such as sda or anytime-sda:smoothing=20, or your own: my_file.py:MyMethod:step_size=0.3,power=2.",
    ),
]
MethodNames = Annotated[
    str,
    typer.Option(
        "--methods",
        "-m",
        help="Methods separated by spaces, or all: sda anytime-sda:smoothing=20 my_file.py:MyMethod:power=2.",
    ),
]
Rounds = Annotated[
    str,
    typer.Option(
        "--rounds", "-T", help="Number of rounds: 1500, or several, 100,200,400, or a range, 10:1000."
    ),
]
Trials = Annotated[int, typer.Option(help="Number of independent trials, for example 100.")]
ClusterTrials = Annotated[
    int | None,
    typer.Option("--trials", help="Number of independent trials: 100 by default, 1 with --cluster."),
]
Spread = Annotated[float, typer.Option(help="Means are drawn uniformly from [0, SPREAD].")]
Std = Annotated[
    float | None, typer.Option(help="Standard deviation of every observation, for example 0.5; 1 by default.")
]
Means = Annotated[
    str,
    typer.Option(
        help="Means: uniform (drawn from [0, SPREAD]), ramp (evenly spaced there) or one (0 for all but agent 0)."
    ),
]
Noise = Annotated[
    str,
    typer.Option(
        help="Distribution of the noise: gaussian, student-t, uniform, or bernoulli (means from 0 to 1)."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(help="CSV file of recorded samples, one column per agent, instead of Gaussian streams."),
]
Seed = Annotated[int, typer.Option(help="Seed for graphs, means and observations.")]
Backend = Annotated[str, typer.Option(help="Where the work is done: threads, processes or dask.")]
Workers = Annotated[
    int | None, typer.Option(help="Number of workers, for example 4; by default one per core.")
]
Address = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786; a local one by default."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Csv = Annotated[
    Path | None, typer.Option("--csv", help="Also write the table to this CSV file.", callback=writable)
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", help="Also write a plot to this file: PNG, PDF or SVG, by its extension.", callback=drawable
    ),
]

FleetFile = Annotated[Path, typer.Argument(help="The fleet's file, fleet.toml.")]

Loss = Annotated[
    str | None,
    typer.Option(help="Probability that a message is lost, such as 0.3, or for some rounds, 0.3@200-1200."),
]

FAULTS: dict[str, object] = {
    "loss": Loss,
    "burst": Annotated[
        str | None,
        typer.Option(
            help="Bursts of loss, MEAN_LENGTH,FRACTION[,both], such as 10,0.17 (rounds, share of time)."
        ),
    ],
    "delay": Annotated[str | None, typer.Option(help="Delayed messages, ROUNDS,PROBABILITY, such as 2,0.1.")],
    "crash": Annotated[list[str] | None, typer.Option(help="An agent crashes, AGENT@ROUND, such as 17@500.")],
    "restart": Annotated[
        list[str] | None, typer.Option(help="A crashed agent restarts, AGENT@ROUND, such as 17@800.")
    ],
    "join": Annotated[
        list[str] | None, typer.Option(help="An agent joins late, AGENT@ROUND, such as 5@100.")
    ],
    "partition": Annotated[
        list[str] | None,
        typer.Option(help="Some agents are cut off, AGENTS@START-STOP, such as 0-49@200-1200."),
    ],
}
"""The option for each kind of fault, by its name in `gossamer.faults.kinds.KINDS`; a test compares the two."""

MESSAGE_FAULTS = ("loss", "burst", "delay", "partition")
"""The kinds that can be injected into the messages of a running agent."""

FaultFlags = Mapping[str, str | list[str] | None]
"""The texts given for each kind of fault."""

NO_FAULTS: FaultFlags = MappingProxyType({})


def fault_options(kinds: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: its parameter `faults` becomes one option for each of these kinds of faults."""
    names = tuple(kinds)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: object) -> None:
            faults = {kind: given.pop(kind) for kind in names}
            command(**given, faults=faults)

        signature = inspect.signature(command, eval_str=True)  # Typer reads what is inside Annotated
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            of_kinds = [parameter.replace(name=k, default=None, annotation=FAULTS[k]) for k in names]
            parameters += of_kinds if parameter.name == "faults" else [parameter]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


Cluster = Annotated[
    bool,
    typer.Option(
        "--cluster", help="Spread the agents over the ranks of mpiexec; GRAPH is a name or a folder of parts."
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(help="With --cluster: folder in which the state is saved, and from which it is resumed."),
]
Every = Annotated[int, typer.Option(help="Number of rounds between two checkpoints, for example 500.")]
