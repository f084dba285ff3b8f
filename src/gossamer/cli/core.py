"""network, exact, simulate, compare, plan: the questions a researcher asks, on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.sparse.csgraph import connected_components

from gossamer import theory
from gossamer.cli.faults import parse_faults
from gossamer.cli.output import emit, shown, writable, writing
from gossamer.cli.parsing import parse_horizons, parse_method, parse_methods, parse_observations
from gossamer.engines.exact import exact as run_exact
from gossamer.engines.simulate import simulate as run_simulate
from gossamer.errors import GossamerError, InvalidInput, Unsupported
from gossamer.networks import Network
from gossamer.networks.reading import EXAMPLES, parse_network
from gossamer.observations import Observations
from gossamer.planning import plan as run_plan

Graph = Annotated[
    str, typer.Argument(help=f"A network by name ({EXAMPLES}) or a file: edge list, GraphML, JSON.")
]
Weights = Annotated[str, typer.Option(help="metropolis, laplacian, max-degree or best-constant.")]
MethodName = Annotated[
    str, typer.Option("--method", "-m", help="sda, anytime-sda:smoothing=20, ... or my_file.py:MyMethod.")
]
Rounds = Annotated[str, typer.Option("--rounds", "-T", help="1500, or 100,200,400, or a range 10:1000.")]
Spread = Annotated[float, typer.Option(help="Means are drawn uniformly from [0, spread].")]
Std = Annotated[float, typer.Option(help="Standard deviation of every observation.")]
Data = Annotated[
    Path | None, typer.Option(help="CSV of recorded samples, a column an agent, instead of Gaussians.")
]
Seed = Annotated[int, typer.Option(help="Seed of graphs, means and observations.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Csv = Annotated[
    Path | None, typer.Option("--csv", help="Also write the table to this CSV file.", callback=writable)
]


def drawable(path: Path | None) -> Path | None:
    """Refuse a picture's name that no format goes with, before any work is done."""
    if path is not None and path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidInput(f"a picture's name ends in .png, .pdf or .svg, got {path}")
    return writable(path)


Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Also draw it: PNG, PDF or SVG by the file's ending.", callback=drawable),
]


def network(
    graph: Graph,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """What a network is like: size, degrees, eigenvalues, k*, and what averaging on it takes."""
    net = parse_network(graph, weights, seed)
    record = {
        "network": net.name,
        "agents": net.agents,
        "edges": len(net.edges),
        "least_degree": int(net.degrees.min()),
        "most_degree": int(net.degrees.max()),
        "lambda_max": net.lambda_max,
        "lambda_2": net.lambda_2,
        "condition_number": net.condition_number,
        "k_star": theory.k_star(net),
    }
    if as_json or csv:
        emit([record], title=net.name, as_json=as_json, csv=csv)
    if not as_json:
        rows = [{"property": key.replace("_", " "), "value": shown(value)} for key, value in record.items()]
        emit(rows, title=net.name, headings={})
    if plot:
        from gossamer.cli.plots import draw_network

        with writing(plot):
            draw_network(net, plot)


def exact(
    graph: Graph,
    method: MethodName = "anytime-sda",
    rounds: Rounds = "1500",
    spread: Spread = 10.0,
    std: Std = 1.0,
    data: Data = None,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """The expected error itself, with no sampling: E sum_i ||estimate_i - mubar||^2."""
    net, obs = _problem(graph, weights, spread, std, seed, data)
    chosen = parse_method(method)
    horizons = parse_horizons(rounds)
    result = run_exact(chosen, net, obs, horizons)
    records = []
    for k, t in enumerate(horizons):
        limit = theory.centralized_limit(obs, t)
        record = {
            "rounds": t,
            "total_error": result.total_error[k],
            "bias": result.bias[k],
            "variance": result.variance[k],
            "centralized_limit": limit,
            "times_limit": result.total_error[k] / limit if limit > 0 else None,
        }
        if np.any(result.uncertainty):
            record["uncertainty"] = result.uncertainty[k]
        records.append(record)
    title = f"{chosen.label} on {net.name}"
    notes = _divergence({chosen.label: (horizons, result.total_error)})
    emit(records, title=f"{title}: expected squared error", as_json=as_json, csv=csv, notes=notes)
    if plot:
        _draw(plot, {chosen.label: (horizons, result.total_error)}, obs, horizons, title)


def simulate(
    graph: Graph,
    method: MethodName = "anytime-sda",
    rounds: Rounds = "1500",
    trials: Annotated[int, typer.Option(help="Independent trials.")] = 100,
    spread: Spread = 10.0,
    std: Std = 1.0,
    data: Data = None,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    loss: Annotated[str | None, typer.Option(help="Probability that a message is lost: 0.3.")] = None,
    burst: Annotated[str | None, typer.Option(help="Bursts of loss: MEAN_LENGTH,FRACTION[,both].")] = None,
    delay: Annotated[str | None, typer.Option(help="Late messages: ROUNDS,PROBABILITY.")] = None,
    crash: Annotated[list[str] | None, typer.Option(help="An agent dies: AGENT@ROUND.")] = None,
    restart: Annotated[list[str] | None, typer.Option(help="A dead agent comes back: AGENT@ROUND.")] = None,
    join: Annotated[list[str] | None, typer.Option(help="An agent comes late: AGENT@ROUND.")] = None,
    partition: Annotated[list[str] | None, typer.Option(help="A cut: AGENTS@START-STOP.")] = None,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """Simulated trials, next to the exact error where there is one. Faults run the method's edge-ledger form."""
    net, obs = _problem(graph, weights, spread, std, seed, data)
    chosen = parse_method(method)
    horizons = parse_horizons(rounds)
    faults = parse_faults(
        loss=loss,
        burst=burst,
        delay=delay,
        crash=crash or (),
        restart=restart or (),
        join=join or (),
        partition=partition or (),
        names=net.labels,
    )
    notes = []
    if faults.items:
        if len(horizons) > 1:
            raise InvalidInput(
                "with faults one number of rounds is simulated at a time; give --rounds one number"
            )
        one = run_simulate(chosen, net, obs, horizons[0], trials, seed, faults=faults)
        total = np.array([one.total_error])
        stderr, done, partial = np.array([one.stderr]), one.trials, one.partial
        alive = np.flatnonzero(~np.isnan(one.per_agent))
        notes.append(
            f"{len(alive)} of {net.agents} agents alive at the end; errors are against the average of their means"
        )
        parts = connected_components(net.gossip[alive][:, alive], return_labels=False)
        if parts > 1:
            notes.append(f"the dead cut them into {parts} parts, which cannot learn of each other")
    else:
        result = run_simulate(chosen, net, obs, horizons, trials, seed, keep_estimates=False)
        total, stderr, done, partial = result.total_error, result.stderr, result.trials, result.partial
    expected = _exact_if_any(chosen, net, obs, horizons) if not faults.items else None
    records = [
        {
            "rounds": t,
            "total_error": total[k],
            "stderr": stderr[k],
            "exact": None if expected is None else expected[k],
            "centralized_limit": theory.centralized_limit(obs, t),
            "trials": done,
        }
        for k, t in enumerate(horizons)
    ]
    notes += _divergence({chosen.label: (horizons, total)})
    if partial:
        notes.append(f"interrupted: {done} of {trials} trials were finished and are shown")
    title = f"{chosen.label} on {net.name}"
    columns = ["rounds", "total_error", "stderr", "exact", "centralized_limit"]
    emit(records, title=f"{title}: {done} trials", as_json=as_json, csv=csv, notes=notes, columns=columns)
    if plot:
        _draw(plot, {chosen.label: (horizons, total)}, obs, horizons, f"{title}, simulated")
    if partial:
        raise typer.Exit(130)


def compare(
    graph: Graph,
    methods: Annotated[
        str, typer.Option("--methods", "-m", help="Methods separated by spaces, or all.")
    ] = "sda anytime-sda anytime-sda:acceleration=chebyshev dsg d-masg",
    rounds: Rounds = "300,1500,3000",
    spread: Spread = 10.0,
    std: Std = 1.0,
    data: Data = None,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """Several methods side by side, exactly, with the theory's bounds and the limits nobody can beat."""
    net, obs = _problem(graph, weights, spread, std, seed, data)
    horizons = parse_horizons(rounds)
    curves: dict[str, tuple[list[int], Any]] = {}
    notes = []
    for method in parse_methods(methods):
        label = method.label if method.label not in curves else f"{method.label} ({len(curves) + 1})"
        try:
            curves[label] = horizons, run_exact(method, net, obs, horizons).total_error
        except GossamerError as refusal:
            notes.append(f"{label}: {refusal}")
            continue
        samples = method.batches(net, horizons[-1]).sum()
        if samples > horizons[-1]:
            notes.append(
                f"{label} takes {shown(samples)} samples per agent in {horizons[-1]} rounds; the limits are those of "
                "one a round"
            )
    if not curves:
        raise InvalidInput(notes[0])
    notes += _divergence(curves)
    extra: dict[str, Callable[[int], float | None]] = {
        "Theorem 1 (SDA)": lambda t: _bound(theory.theorem_1, net, obs, t),
        "Theorem 2 (DSG)": lambda t: _bound(theory.theorem_2, net, obs, t),
        "network limit": lambda t: _limit(net, obs, t),
        "centralized limit": lambda t: theory.centralized_limit(obs, t),
    }
    records = [
        {"method": name, **{f"T={t}": float(values[k]) for k, t in enumerate(horizons)}}
        for name, (_, values) in curves.items()
    ]
    records += [{"method": name, **{f"T={t}": value(t) for t in horizons}} for name, value in extra.items()]
    every = -(-len(horizons) // 5)
    columns = ["method", *(f"T={t}" for t in horizons[every - 1 :: every])]
    title = f"Expected squared error on {net.name}"
    emit(records, title=title, as_json=as_json, csv=csv, columns=columns, notes=notes)
    if plot:
        _draw(plot, curves, obs, horizons, f"{net.name}: expected squared error")


def plan(
    graph: Annotated[list[str], typer.Argument(help=f"One or more networks: {EXAMPLES}, or files.")],
    target: Annotated[
        str, typer.Option("--target", "-e", help="Target error, or several: 1e-2,1e-3.")
    ] = "0.001",
    methods: Annotated[
        str, typer.Option("--methods", "-m", help="Methods separated by spaces, or all.")
    ] = "anytime-sda anytime-sda:acceleration=chebyshev sda",
    most_rounds: Annotated[int, typer.Option(help="Give up beyond this many rounds.")] = 1_000_000,
    spread: Spread = 10.0,
    std: Std = 1.0,
    data: Data = None,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """Rounds, samples, messages and bytes for a target error; which method is cheapest."""
    try:
        targets = [float(part) for part in target.split(",")]
    except ValueError:
        raise InvalidInput(f"targets are numbers separated by commas, got {target!r}") from None
    records, notes = [], []
    for name in graph:
        net, obs = _problem(name, weights, spread, std, seed, data)
        for goal in targets:
            plans = run_plan([net], obs, goal, parse_methods(methods), most_rounds=most_rounds)
            records += [
                {
                    "network": net.name,
                    "target": goal,
                    "method": p.method.label,
                    "rounds": p.rounds,
                    "samples": p.samples if p.reached else None,
                    "messages": p.messages if p.reached else None,
                    "bytes": p.bytes if p.reached else None,
                    "total_error": p.total_error,
                }
                for p in plans
            ]
            notes += [p.note for p in plans if not p.reached]
            if len(plans) > 1 and any(p.reached for p in plans):
                rounds, samples = plans.cheapest().method.label, plans.cheapest("samples").method.label
                but = "" if rounds == samples else f", fewest samples with {samples}"
                notes.append(f"{net.name}, {goal:g}: fewest rounds with {rounds}{but}")
    emit(
        records,
        title="What a target error costs (samples per agent, messages in the whole network)",
        as_json=as_json,
        csv=csv,
        notes=notes,
        columns=["network", "target", "method", "rounds", "samples", "messages"],
    )
    if plot:
        from gossamer.cli.plots import draw_costs

        with writing(plot):
            draw_costs(records, plot)


def _problem(
    graph: str, weights: str, spread: float, std: float, seed: int, data: Path | None
) -> tuple[Network, Observations]:
    net = parse_network(graph, weights, seed)
    return net, parse_observations(net, spread, std, seed, data)


def _divergence(curves: dict[str, tuple[list[int], Any]]) -> list[str]:
    """A sentence for each method whose error is no finite number."""
    return [
        f"{label} diverges: with these parameters its error is no finite number"
        for label, (_, values) in curves.items()
        if not np.all(np.isfinite(np.asarray(values, dtype=float)))
    ]


def _bound(
    theorem: Callable[..., theory.Bound], net: Network, obs: Observations, rounds: int
) -> float | None:
    try:
        bound = theorem(net, obs, rounds)
    except Unsupported:
        return None
    return bound.total if bound.applies else None


def _limit(net: Network, obs: Observations, rounds: int) -> float | None:
    try:
        return float(theory.network_limit(net, obs, rounds))
    except Unsupported:
        return None


def _exact_if_any(method: Any, net: Network, obs: Observations, horizons: list[int]) -> Any:
    try:
        return run_exact(method, net, obs, horizons).total_error
    except Unsupported:
        return None


def _draw(path: Path, curves: dict[str, Any], obs: Observations, horizons: list[int], title: str) -> None:
    from gossamer.cli.plots import draw_errors

    limits = [theory.centralized_limit(obs, t) for t in horizons]
    with writing(path):
        draw_errors(curves, horizons, limits, title, path)
