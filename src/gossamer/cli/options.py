"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from gossamer.cli.output import Record, drawable, emit, playable, save_plot, writable

if TYPE_CHECKING:
    from gossamer.results import Result

# A copy of the names in `gossamer.networks.reading`, which would load NetworkX for a help page; tests compare them.
EXAMPLES = (
    "path:100, cycle:100, star:100, complete:20, grid:10x10, torus:8x8, hypercube:7, "
    "erdos-renyi:100, geometric:100, expander:100x4"
)


_STREAMS, _FAULTS, _OUTPUT, _WORKERS = "Streams", "Faults", "Output", "Where it runs"
"""Groups of options on a help page."""


def complete_networks(incomplete: str) -> list[str]:
    """Return the networks by name that begin with `incomplete`; without any, the shell completes files."""
    return [name for name in EXAMPLES.split(", ") if name.startswith(incomplete)]


def complete_methods(incomplete: str) -> list[str]:
    """Return the methods that begin with `incomplete`; in a list of several, complete the last one."""
    from gossamer.methods import METHODS  # takes as long as a command; only pressing Tab asks for it

    before, space, last = incomplete.rpartition(" ")
    return [before + space + name for name in METHODS if name.startswith(last)]


def option(text: str, *flags: str, group: str | None = None, **more: Any) -> Any:
    """Return an option with this help, optionally in a group of the help page."""
    return typer.Option(*flags, help=text, rich_help_panel=group, **more)


Graph = Annotated[
    str,
    typer.Argument(
        help=f"A network by name ({EXAMPLES}) or a file: edge list, matrix, GraphML, ...",
        autocompletion=complete_networks,
    ),
]
Graphs = Annotated[
    list[str],
    typer.Argument(help=f"One or more networks: {EXAMPLES}, or files.", autocompletion=complete_networks),
]
Weights = Annotated[
    str,
    option(
        "Gossip weights: metropolis, laplacian, max-degree, best-constant, or file for the weights in the file."
    ),
]
MethodName = Annotated[
    str,
    option(
        "Method, such as sda or anytime-sda:smoothing=20, or your own: my_file.py:MyMethod:step_size=0.3,power=2.",
        "--method",
        "-m",
        autocompletion=complete_methods,
    ),
]
MethodNames = Annotated[
    str,
    option(
        "Methods separated by spaces, or all: sda anytime-sda:smoothing=20 my_file.py:MyMethod:power=2.",
        "--methods",
        "-m",
        autocompletion=complete_methods,
    ),
]
Rounds = Annotated[
    str,
    option("Number of rounds: 1500, or several, 100,200,400, or a range, 10:1000.", "--rounds", "-T"),
]
Trials = Annotated[int, option("Number of independent trials, for example 100.")]
ClusterTrials = Annotated[
    int | None,
    option("Number of independent trials: 100 by default, 1 with --cluster.", "--trials"),
]
Seed = Annotated[int, option("Seed for graphs, means and observations.")]

Backend = Annotated[str, option("Where the work is done: threads, processes or dask.", group=_WORKERS)]
Workers = Annotated[
    int | None, option("Number of workers, for example 4; by default one per core.", group=_WORKERS)
]
Address = Annotated[
    str | None,
    option(
        "Address of a Dask scheduler, such as tcp://10.0.0.1:8786; a local one by default.", group=_WORKERS
    ),
]
Cluster = Annotated[
    bool,
    option(
        "Spread the agents over the ranks of mpiexec; GRAPH is a name or a folder of parts.",
        "--cluster",
        group=_WORKERS,
    ),
]
Checkpoint = Annotated[
    Path | None,
    option(
        "With --cluster: folder in which the state is saved, and from which it is resumed.", group=_WORKERS
    ),
]
Every = Annotated[int, option("Number of rounds between two checkpoints, for example 500.", group=_WORKERS)]

AsJson = Annotated[bool, option("Print JSON instead of a table.", "--json", group=_OUTPUT)]
Csv = Annotated[
    Path | None, option("Also write the table to this CSV file.", "--csv", group=_OUTPUT, callback=writable)
]
Animate = Annotated[
    Path | None,
    option(
        "Also write an animation of the first trial to this file: a page (.html) or a video (.gif, .mp4).",
        group=_OUTPUT,
        callback=playable,
    ),
]

FleetFile = Annotated[Path, typer.Argument(help="The fleet's file, fleet.toml.")]
FleetOption = Annotated[Path, option("The fleet's file.", "--fleet", "-f")]
FLEET = Path("fleet/fleet.toml")
"""The default of these two."""
AgentName = Annotated[str, typer.Argument(help="The agent's name or number.")]

Loss = Annotated[
    str | None,
    option(
        "Probability that a message is lost, such as 0.3, or for some rounds, 0.3@200-1200.", group=_FAULTS
    ),
]


def _repeated(form: str, text: str) -> object:
    """Return an option that may be given several times."""
    return Annotated[list[str] | None, option(f"{text}; repeat for more.", group=_FAULTS, metavar=form)]


FAULTS: dict[str, object] = {
    "loss": Loss,
    "burst": Annotated[
        str | None,
        option(
            "Bursts of loss, MEAN_LENGTH,FRACTION[,both], such as 10,0.17 (rounds, share of time).",
            group=_FAULTS,
        ),
    ],
    "delay": Annotated[
        str | None, option("Delayed messages, ROUNDS,PROBABILITY, such as 2,0.1.", group=_FAULTS)
    ],
    "crash": _repeated("AGENT@ROUND", "An agent crashes, such as 17@500"),
    "restart": _repeated("AGENT@ROUND", "A crashed agent restarts, such as 17@800"),
    "join": _repeated("AGENT@ROUND", "An agent joins late, such as 5@100"),
    "partition": _repeated("AGENTS@START-STOP", "Some agents are cut off, such as 0-49@200-1200"),
    "quiet": Annotated[
        str | None,
        option(
            "Agents are silent while they have less news than this fraction of a standard error, such as 0.1.",
            group=_FAULTS,
        ),
    ],
}
"""The option for each kind of fault, by its name in `gossamer.faults.kinds.KINDS`; a test compares the two."""

MESSAGE_FAULTS = ("loss", "burst", "delay", "partition")
"""The kinds that can be injected into the messages of a running agent."""

FaultFlags = Mapping[str, str | list[str] | None]
"""The texts given for each kind of fault."""


class ProblemOptions(NamedTuple):
    """What the agents observe, the weights of their network, and the seed of all."""

    spread: Annotated[float, option("Means are drawn uniformly from [0, SPREAD].", group=_STREAMS)] = 10.0
    std: Annotated[
        float | None,
        option("Standard deviation of every observation, for example 0.5; 1 by default.", group=_STREAMS),
    ] = None
    means: Annotated[
        str,
        option(
            "Means: uniform (drawn from [0, SPREAD]), ramp (evenly spaced there) or one (0 for all but agent 0).",
            group=_STREAMS,
        ),
    ] = "uniform"
    noise: Annotated[
        str,
        option(
            "Distribution of the noise: gaussian, student-t, uniform, or bernoulli (means from 0 to 1).",
            group=_STREAMS,
        ),
    ] = "gaussian"
    data: Annotated[
        Path | None,
        option(
            "CSV file of recorded samples, one column per agent, instead of Gaussian streams.", group=_STREAMS
        ),
    ] = None
    weights: Weights = "metropolis"
    seed: Seed = 0


class OutputOptions(NamedTuple):
    """Where a result goes."""

    as_json: AsJson = False
    csv: Csv = None
    plot: Annotated[
        Path | None,
        option(
            "Also write a plot to this file: PNG, PDF or SVG, by its extension.",
            "--plot",
            group=_OUTPUT,
            callback=drawable,
        ),
    ] = None

    def emit(self, records: Sequence[Record], **how: Any) -> None:
        """Show records, and write them to a file if requested, as `output.emit` does."""
        emit(records, as_json=self.as_json, csv=self.csv, **how)

    def present(self, result: Result, records: Sequence[Record] | None = None, **how: Any) -> None:
        """Show a result with the notes of its rows, and plot it if requested."""
        records = result.records() if records is None else records
        self.emit(records, **{"notes": result.notes, **how})
        self.draw(result.plot)

    def draw(self, draw: Callable[[], object]) -> None:
        """Save the figure that `draw` creates, if a plot is requested."""
        if self.plot is not None:
            save_plot(draw, self.plot, self.as_json)


def grouped(kinds: Iterable[str] = FAULTS) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: a parameter that is a group of options, a NamedTuple, becomes these options.

    The parameter `faults`, a dictionary, becomes one option for each of these kinds of faults.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)  # Typer reads what is inside Annotated
        parameters: list[inspect.Parameter] = []
        groups: dict[str, tuple[Callable[..., object], list[str]]] = {}
        for name, parameter in signature.parameters.items():
            group = parameter.annotation
            if name == "faults":
                group, options, defaults = dict, {kind: FAULTS[kind] for kind in kinds}, dict.fromkeys(kinds)
            elif isinstance(group, type) and issubclass(group, tuple):
                options, defaults = get_type_hints(group, include_extras=True), group._field_defaults  # type: ignore[attr-defined]
            else:
                parameters.append(parameter)
                continue
            groups[name] = (group, list(options))
            parameters += [
                parameter.replace(name=option, default=defaults[option], annotation=annotation)
                for option, annotation in options.items()
            ]

        @wraps(command)
        def run(**given: object) -> None:
            for name, (group, options) in groups.items():
                given[name] = group(**{option: given.pop(option) for option in options})
            command(**given)

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate
