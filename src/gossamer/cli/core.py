"""network, exact, simulate, compare, plan: the questions a researcher asks, on the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import gossamer as gs  # its names load when they are used, so that help pages stay fast
from gossamer.cli.faults import parse_faults
from gossamer.cli.formatting import shown
from gossamer.cli.options import (
    AsJson,
    Csv,
    Data,
    Graph,
    Graphs,
    MethodName,
    MethodNames,
    Plot,
    Rounds,
    Seed,
    Spread,
    Std,
    Trials,
    Weights,
)
from gossamer.cli.output import column, emit, wide, writing
from gossamer.cli.parsing import parse_horizons, parse_method, parse_methods, parse_network, parse_problem
from gossamer.errors import GossamerError, InvalidInput, Unsupported

Curves = dict[str, tuple[Sequence[int], Sequence[float]]]
"""Total errors by label: the rounds, and the error after each."""


def network(
    graph: Graph,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """Describe a network: size, degrees, eigenvalues, k*, and what averaging on it takes."""
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
        "k_star": gs.theory.k_star(net),
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
    """Compute the expected error itself, with no sampling: E sum_i ||estimate_i - mubar||^2."""
    net, obs = parse_problem(graph, weights, spread, std, seed, data)
    chosen = parse_method(method)
    horizons = parse_horizons(rounds)
    result = gs.exact(chosen, net, obs, horizons)
    records = result.records("bias", "variance", "uncertainty")
    if not any(record["uncertainty"] for record in records):
        for record in records:
            del record["uncertainty"]
    title = f"{chosen.label} on {net.name}"
    curves: Curves = {chosen.label: (horizons, result.total_error.tolist())}
    notes = _divergence(curves)
    emit(records, title=f"{title}: expected error", as_json=as_json, csv=csv, notes=notes)
    if plot:
        _draw(plot, curves, obs, title)


def simulate(
    graph: Graph,
    method: MethodName = "anytime-sda",
    rounds: Rounds = "1500",
    trials: Trials = 100,
    spread: Spread = 10.0,
    std: Std = 1.0,
    data: Data = None,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    loss: Annotated[str | None, typer.Option(help="Probability that a message is lost, such as 0.3.")] = None,
    burst: Annotated[str | None, typer.Option(help="Bursts of loss: MEAN_LENGTH,FRACTION[,both].")] = None,
    delay: Annotated[str | None, typer.Option(help="Delayed messages: ROUNDS,PROBABILITY.")] = None,
    crash: Annotated[list[str] | None, typer.Option(help="An agent crashes: AGENT@ROUND.")] = None,
    restart: Annotated[list[str] | None, typer.Option(help="A crashed agent restarts: AGENT@ROUND.")] = None,
    join: Annotated[list[str] | None, typer.Option(help="An agent joins late: AGENT@ROUND.")] = None,
    partition: Annotated[
        list[str] | None, typer.Option(help="Some agents are cut off: AGENTS@START-STOP.")
    ] = None,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """Simulate trials, and show the exact error beside them where there is one.

    With faults, the method runs in its edge-ledger form; without one, it leaves out neighbors that it does not hear.
    """
    net, obs = parse_problem(graph, weights, spread, std, seed, data)
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
    notes: list[str] = []
    result: gs.Simulation[Any, Any]
    expected: Sequence[float | None] = [None] * len(horizons)
    if faults.items:
        faulty = gs.simulate(chosen, net, obs, horizons, trials, seed, faults=faults, keep="errors")
        notes += filter(None, faulty.note[-1:])
        result = faulty
    else:
        result = gs.simulate(chosen, net, obs, horizons, trials, seed, keep="errors")
        expected = _exact_if_any(chosen, net, obs, horizons) or expected
    records = [
        {**record, "exact_total_error": exact, "trials": result.trials}
        for record, exact in zip(result.records("stderr"), expected, strict=True)
    ]
    curves: Curves = {chosen.label: (horizons, [record["total_error"] for record in records])}
    notes += _divergence(curves)
    if result.partial:
        notes.append(f"interrupted: {result.trials} of {trials} trials were finished and are shown")
    title = f"{chosen.label} on {net.name}"
    columns = [
        "rounds",
        "total_error",
        "stderr",
        "exact_total_error",
        "mse",
        "centralized_limit",
        "over_limit",
    ]
    emit(
        records,
        title=f"{title}: {result.trials} trials",
        as_json=as_json,
        csv=csv,
        notes=notes,
        columns=columns,
        headings={"exact_total_error": "exact"},
    )
    if plot:
        _draw(plot, curves, obs, f"{title}, simulated")
    if result.partial:
        raise typer.Exit(130)


def compare(
    graph: Graph,
    methods: MethodNames = "sda anytime-sda anytime-sda:acceleration=chebyshev dsg d-masg",
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
    """Compare methods, exactly, with the theory's bounds and the limits nobody can beat."""
    net, obs = parse_problem(graph, weights, spread, std, seed, data)
    horizons = parse_horizons(rounds)
    bounds = {name: {t: value(t) for t in horizons} for name, value in _bounds(net, obs).items()}
    curves: Curves = {}
    records: list[dict[str, Any]] = []
    notes: list[str] = []
    for method in parse_methods(methods):
        label = method.label if method.label not in curves else f"{method.label} ({len(curves) + 1})"
        try:
            result = gs.exact(method, net, obs, horizons)
        except GossamerError as refusal:
            notes.append(f"{label}: {refusal}")
            continue
        curves[label] = horizons, result.total_error.tolist()
        for record in result.records():
            beside = {column(name): row[record["rounds"]] for name, row in bounds.items()}
            records.append({"network": net.name, "method": label, **record, **beside})
        if result.samples[-1] > horizons[-1]:
            notes.append(
                f"{label} takes {shown(result.samples[-1])} samples per agent in {horizons[-1]} rounds; "
                "the limits are for one sample per round"
            )
    if not curves:
        raise InvalidInput(notes[0])
    notes += _divergence(curves)
    rows = {label: dict(zip(*curve, strict=True)) for label, curve in curves.items()}
    every = -(-len(horizons) // 5)
    emit(
        records,
        title=f"Total error (summed over agents) on {net.name}, after T rounds",
        as_json=as_json,
        csv=csv,
        table=wide({**rows, **bounds}, horizons[every - 1 :: every]),
        notes=notes,
    )
    if plot:
        _draw(plot, curves, obs, f"{net.name}: total error")


def plan(
    graph: Graphs,
    target: Annotated[
        str, typer.Option("--target", "-e", help="Target error (a total over agents), or several: 1e-2,1e-3.")
    ] = "0.001",
    methods: MethodNames = "anytime-sda anytime-sda:acceleration=chebyshev sda",
    most_rounds: Annotated[int, typer.Option(help="Give up after this many rounds.")] = 1_000_000,
    spread: Spread = 10.0,
    std: Std = 1.0,
    data: Data = None,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """Find the rounds, samples, messages and bytes that a target error costs.

    The target is a total error, summed over agents. Notes name the cheapest method.
    """
    records: list[dict[str, Any]] = []
    notes: list[str] = []
    for name in graph:
        net, obs = parse_problem(name, weights, spread, std, seed, data)
        for goal in _targets(target):
            plans = gs.plan([net], obs, goal, parse_methods(methods), most_rounds=most_rounds)
            records += [_plan_record(plan, obs) for plan in plans]
            notes += [plan.note for plan in plans if not plan.reached]
            if len(plans) > 1 and any(plan.reached for plan in plans):
                rounds, samples = plans.cheapest().method.label, plans.cheapest("samples").method.label
                but = "" if rounds == samples else f", fewest samples with {samples}"
                notes.append(f"{net.name}, {goal:g}: fewest rounds with {rounds}{but}")
    emit(
        records,
        title="What a target error costs (samples per agent, messages in the whole network)",
        as_json=as_json,
        csv=csv,
        notes=notes,
        columns=["network", "target", "method", "rounds", "samples", "messages", "over_limit"],
    )
    if plot:
        from gossamer.cli.plots import draw_costs

        with writing(plot):
            draw_costs(records, plot)


def _targets(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"target must be a number, or several separated by commas, got {text!r}") from None


def _plan_record(plan: gs.Plan, obs: gs.Observations) -> dict[str, Any]:
    """A plan as a row; one that misses its target has an error but no costs."""
    costs = ("samples", "messages", "bytes")
    return {
        "network": plan.network.name,
        "target": plan.target,
        "method": plan.method.label,
        "rounds": plan.rounds,
        **{name: getattr(plan, name) if plan.reached else None for name in costs},
        "total_error": plan.total_error,
        "mse": plan.mse,
        "centralized_limit": plan.centralized_limit,
        "over_limit": plan.over_limit,
    }


def _divergence(curves: Curves) -> list[str]:
    """A sentence for each method whose error is not a finite number."""
    return [
        f"{label} diverges: with these parameters its error is not a finite number"
        for label, (_, values) in curves.items()
        if not all(map(math.isfinite, values))
    ]


def _bounds(net: gs.Network, obs: gs.Observations) -> Mapping[str, Callable[[int], float | None]]:
    """What theory says about the error after this many rounds; None where it says nothing."""
    theory = gs.theory

    def bound(theorem: Callable[..., gs.theory.Bound]) -> Callable[[int], float | None]:
        def at(rounds: int) -> float | None:
            found = theorem(net, obs, rounds)
            return found.total if found.applies else None

        return _if_supported(at)

    return {
        "Theorem 1 (SDA)": bound(theory.theorem_1),
        "Theorem 2 (DSG)": bound(theory.theorem_2),
        "network limit": _if_supported(lambda t: float(theory.network_limit(net, obs, t))),
        "centralized limit": lambda t: theory.centralized_limit(obs, t),
    }


def _if_supported(value: Callable[[int], float | None]) -> Callable[[int], float | None]:
    def at(rounds: int) -> float | None:
        try:
            return value(rounds)
        except Unsupported:
            return None

    return at


def _exact_if_any(
    method: gs.Method, net: gs.Network, obs: gs.Observations, horizons: list[int]
) -> list[float] | None:
    try:
        return [float(value) for value in gs.exact(method, net, obs, horizons).total_error]
    except Unsupported:
        return None


def _draw(path: Path, curves: Curves, obs: gs.Observations, title: str) -> None:
    from gossamer.cli.plots import draw_errors

    horizons = next(iter(curves.values()))[0]
    limits = [gs.theory.centralized_limit(obs, t) for t in horizons]
    with writing(path):
        draw_errors(curves, horizons, limits, title, path)
