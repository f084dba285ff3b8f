"""Options that several commands share."""

from __future__ import annotations

import glob
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


_STREAMS, _FAULTS, _OUTPUT, _WORKERS = "Streams", "Faults", "Output", "Where it runs"
"""Groups of options on a help page."""


def networks(incomplete: str) -> list[str]:
    """The networks by name, and the files in this folder, that begin like this."""
    names = EXAMPLES.split(", ")
    return [name for name in names if name.startswith(incomplete)] + files(incomplete)


def methods(incomplete: str) -> list[str]:
    """The methods that begin like this; in a list of several, the last one."""
    from gossamer.methods import METHODS  # takes as long as a command; only pressing Tab asks for it

    before, space, last = incomplete.rpartition(" ")
    return [before + space + name for name in METHODS if name.startswith(last)] + files(incomplete, ".py")


def files(incomplete: str, suffix: str = "") -> list[str]:
    """The files, and the folders with a slash, that begin like this."""
    paths = [
        path
        for path in Path().glob(f"{glob.escape(incomplete)}*")
        if path.is_dir() or path.name.endswith(suffix)
    ]
    return sorted(f"{path}/" if path.is_dir() else f"{path}" for path in paths)


Graph = Annotated[
    str,
    typer.Argument(
        help=f"A network by name ({EXAMPLES}) or a file: edge list, matrix, GraphML, ...",
        autocompletion=networks,
    ),
]
Graphs = Annotated[
    list[str],
    typer.Argument(help=f"One or more networks: {EXAMPLES}, or files.", autocompletion=networks),
]
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
        autocompletion=methods,
    ),
]
MethodNames = Annotated[
    str,
    typer.Option(
        "--methods",
        "-m",
        help="Methods separated by spaces, or all: sda anytime-sda:smoothing=20 my_file.py:MyMethod:power=2.",
        autocompletion=methods,
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
Spread = Annotated[
    float, typer.Option(help="Means are drawn uniformly from [0, SPREAD].", rich_help_panel=_STREAMS)
]
Std = Annotated[
    float | None,
    typer.Option(
        help="Standard deviation of every observation, for example 0.5; 1 by default.",
        rich_help_panel=_STREAMS,
    ),
]
Means = Annotated[
    str,
    typer.Option(
        help="Means: uniform (drawn from [0, SPREAD]), ramp (evenly spaced there) or one (0 for all but agent 0).",
        rich_help_panel=_STREAMS,
    ),
]
Noise = Annotated[
    str,
    typer.Option(
        help="Distribution of the noise: gaussian, student-t, uniform, or bernoulli (means from 0 to 1).",
        rich_help_panel=_STREAMS,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="CSV file of recorded samples, one column per agent, instead of Gaussian streams.",
        rich_help_panel=_STREAMS,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed for graphs, means and observations.")]
Backend = Annotated[
    str, typer.Option(help="Where the work is done: threads, processes or dask.", rich_help_panel=_WORKERS)
]
Workers = Annotated[
    int | None,
    typer.Option(help="Number of workers, for example 4; by default one per core.", rich_help_panel=_WORKERS),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786; a local one by default.",
        rich_help_panel=_WORKERS,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=_OUTPUT)
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv", help="Also write the table to this CSV file.", callback=writable, rich_help_panel=_OUTPUT
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        help="Also write a plot to this file: PNG, PDF or SVG, by its extension.",
        callback=drawable,
        rich_help_panel=_OUTPUT,
    ),
]

FleetFile = Annotated[Path, typer.Argument(help="The fleet's file, fleet.toml.")]

Loss = Annotated[
    str | None,
    typer.Option(
        help="Probability that a message is lost, such as 0.3, or for some rounds, 0.3@200-1200.",
        rich_help_panel=_FAULTS,
    ),
]


def _repeated(form: str, text: str) -> object:
    """An option that may be given several times."""
    option = typer.Option(help=f"{text}; repeat for more.", metavar=form, rich_help_panel=_FAULTS)
    return Annotated[list[str] | None, option]


FAULTS: dict[str, object] = {
    "loss": Loss,
    "burst": Annotated[
        str | None,
        typer.Option(
            help="Bursts of loss, MEAN_LENGTH,FRACTION[,both], such as 10,0.17 (rounds, share of time).",
            rich_help_panel=_FAULTS,
        ),
    ],
    "delay": Annotated[
        str | None,
        typer.Option(help="Delayed messages, ROUNDS,PROBABILITY, such as 2,0.1.", rich_help_panel=_FAULTS),
    ],
    "crash": _repeated("AGENT@ROUND", "An agent crashes, such as 17@500"),
    "restart": _repeated("AGENT@ROUND", "A crashed agent restarts, such as 17@800"),
    "join": _repeated("AGENT@ROUND", "An agent joins late, such as 5@100"),
    "partition": _repeated("AGENTS@START-STOP", "Some agents are cut off, such as 0-49@200-1200"),
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
        "--cluster",
        help="Spread the agents over the ranks of mpiexec; GRAPH is a name or a folder of parts.",
        rich_help_panel=_WORKERS,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="With --cluster: folder in which the state is saved, and from which it is resumed.",
        rich_help_panel=_WORKERS,
    ),
]
Every = Annotated[
    int,
    typer.Option(help="Number of rounds between two checkpoints, for example 500.", rich_help_panel=_WORKERS),
]
